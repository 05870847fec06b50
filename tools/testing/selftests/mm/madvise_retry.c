// SPDX-License-Identifier: GPL-2.0
/*
 * A request that installs guards in memory which is written at the same time
 * loses races with page faults. It then lets mmap_lock go and does its range
 * once more, as often as that takes, and nobody is told.
 *
 * Here those races are real: a thread on a second CPU writes. The module
 * madvise_probe counts how many were lost. Where none was, nothing was tested,
 * and the test fails. madvise_gather has the same by force. So has one test here
 * which needs two of them in one request, where chance takes too long.
 *
 * Whether the kernel batches makes no difference here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <time.h>

#include "../../../include/io_uring/mini_liburing.h"
#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define NR_RANGES	4
#define RANGE_PAGES	2048
#define AREA_PAGES	(NR_RANGES * RANGE_PAGES)
#define FIRST_PAGES	16	/* where a short range goes before a long one */

#define ENOUGH_LOST	8	/* races, and a test is done; one where it is slow */
#define SLOW		30	/* seconds */
#define GIVE_UP		90	/* seconds, and none is lost */
#define FORCED		50	/* races in a request, where it is slow */
#define TIMEOUT		120	/* seconds, each test */
#define NR_KILLS	12
#define DEATH_SECONDS	5

/*
 * Writes to each page of the area once, then again. It leaps, for what a request
 * has still to do shrinks towards the end of the area.
 */
#define LEAP	5063		/* pages; has no factor in common with nr */

struct writer {
	struct other_thread other;
	char *area;
	size_t nr;
	size_t written;		/* pages that let it, the last time round */

	char *take_back;	/* a range to use again when it is done */
	long lost_before;	/* races lost or forced when that happened */
};

FIXTURE(retry)
{
	char *area;
	struct iovec whole;		/* the area in one range */
	struct iovec vec[NR_RANGES];	/* and in several */
	struct writer writer;
	bool writes;
	struct io_uring ring;
	bool has_ring;
};

static int zero_fd, pipe_fds[2];

static bool needs_more(time_t begun, long lost)
{
	time_t seconds = time(NULL) - begun;

	return lost < (seconds < SLOW ? ENOUGH_LOST : 1) && seconds < GIVE_UP;
}

/* Where a store would be a SIGSEGV, these say EFAULT. */
static bool write_to_page(char *page)
{
	return read(zero_fd, page, 1) == 1;
}

static bool read_from_page(char *page)
{
	char byte;

	if (write(pipe_fds[1], page, 1) != 1)
		return false;
	return read(pipe_fds[0], &byte, 1) == 1;
}

static size_t count_guards(char *area, size_t nr)
{
	size_t i, guards = 0;

	for (i = 0; i < nr; i++)
		if (!read_from_page(area + i * psize()) && errno == EFAULT)
			guards++;
	return guards;
}

/*
 * A request that has let mmap_lock go is done with the range before the one that
 * it repeats, and nobody gets at what was there.
 */
static void take_back(struct writer *writer)
{
	char *range = __atomic_load_n(&writer->take_back, __ATOMIC_ACQUIRE);

	if (!range || probe_get("released") < 1)
		return;
	madvise(range, FIRST_PAGES * psize(), MADV_GUARD_REMOVE);
	fill_pages(range, FIRST_PAGES, 1);
	writer->lost_before = probe_get("lost") + probe_get("forced");
	__atomic_store_n(&writer->take_back, NULL, __ATOMIC_RELEASE);
}

static void write_area(void *arg)
{
	struct writer *writer = arg;
	size_t i, page, written = 0;

	for (i = 0; i < writer->nr; i++) {
		page = i * LEAP % writer->nr;
		if (write_to_page(writer->area + page * psize()))
			written++;
		if (i % 16 == 0)
			take_back(writer);
	}
	writer->written = written;
}

/* How many pages the writer gets at, the next time it begins with the first. */
static size_t still_written(struct writer *writer)
{
	other_thread_rounds(&writer->other, 1);
	return writer->written;
}

/* What the completion says: an error is negative there. */
static int advise_by_io_uring(struct io_uring *ring, void *area, size_t size,
			      int advice)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int ret;

	if (!sqe)
		return -EBUSY;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_MADVISE;
	sqe->fd = -1;
	sqe->addr = (unsigned long)area;
	sqe->len = size;
	sqe->fadvise_advice = advice;
	if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &cqe))
		return -EIO;
	ret = cqe->res;
	io_uring_cqe_seen(ring);
	return ret;
}

static ssize_t make_by_io_uring(const struct watched_call *call, bool empty)
{
	return advise_by_io_uring(call->ring, call->vec->iov_base,
				  empty ? 0 : call->vec->iov_len, call->advice);
}

FIXTURE_SETUP(retry)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);

	if (!reason)
		reason = lacks_second_cpu();
	if (!reason)
		reason = lacks_probe();
	if (reason)
		SKIP(return, "%s", reason);

	probe_reset();
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ASSERT_GE(zero_fd, 0);
	ASSERT_EQ(pipe(pipe_fds), 0);
	self->area = map_pages(AREA_PAGES);
	ASSERT_NE(self->area, NULL);
	make_ranges(&self->whole, 1, self->area, AREA_PAGES, 0);
	make_ranges(self->vec, NR_RANGES, self->area, RANGE_PAGES, RANGE_PAGES);
	self->writer.area = self->area;
	self->writer.nr = AREA_PAGES;
}

FIXTURE_TEARDOWN(retry)
{
	if (self->writes)
		other_thread_stop(&self->writer.other);
	if (self->has_ring)
		io_uring_queue_exit(&self->ring);
	probe_reset();
	munmap(self->area, AREA_PAGES * psize());
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(zero_fd);
}

static int start_writer(struct writer *writer)
{
	return other_thread_start(&writer->other, write_area, writer);
}

/*
 * Guards the area again and again by a call that must return ret, until that has
 * lost races against the writer: for everybody who writes, it leaves nothing but
 * guards there.
 */
static void lose_races(struct __test_metadata *_metadata,
		       FIXTURE_DATA(retry) * self,
		       const struct watched_call *call, ssize_t ret)
{
	time_t begun = time(NULL);
	long lost = 0, rounds;
	struct request req;

	ASSERT_EQ(start_writer(&self->writer), 0);
	self->writes = true;

	for (rounds = 0; needs_more(begun, lost); rounds++) {
		ASSERT_EQ(madvise(self->area, AREA_PAGES * psize(),
				  MADV_GUARD_REMOVE), 0);
		req = watch_call(call);
		lost += req.lost;
		ASSERT_EQ(req.ret, ret);
		ASSERT_EQ(req.steps, call->nr + req.lost);
		EXPECT_BALANCED(req, 1 + req.lost);
		if (!req.lost)
			continue;
		ASSERT_EQ(still_written(&self->writer), 0);
		ASSERT_EQ(count_guards(self->area, AREA_PAGES), AREA_PAGES);
	}
	TH_LOG("%ld races lost in %ld requests", lost, rounds);
	EXPECT_GT(lost, 0);
}

TEST_F_TIMEOUT(retry, madvise, TIMEOUT)
{
	const struct watched_call call = {
		.make = make_madvise,
		.vec = &self->whole,
		.nr = 1,
		.advice = MADV_GUARD_INSTALL,
	};

	lose_races(_metadata, self, &call, 0);
}

/* A vector tells the bytes of all its ranges. */
TEST_F_TIMEOUT(retry, vector, TIMEOUT)
{
	const struct watched_call call = {
		.make = make_vector,
		.vec = self->vec,
		.nr = NR_RANGES,
		.advice = MADV_GUARD_INSTALL,
		.pidfd = syscall(__NR_pidfd_open, getpid(), 0),
	};

	lose_races(_metadata, self, &call, AREA_PAGES * psize());
	close(call.pidfd);
}

/*
 * For one who uses the first range again as soon as it is done, a repetition of
 * a range after it changes nothing there.
 */
TEST_F_TIMEOUT(retry, vector_leaves_what_is_done, TIMEOUT)
{
	struct writer *writer = &self->writer;
	char *first = self->vec[0].iov_base;
	time_t begun = time(NULL);
	long lost = 0, forced = 0, rounds;
	struct request req;

	/* The longer a range is, the more races it loses. */
	writer->area += FIRST_PAGES * psize();
	writer->nr -= FIRST_PAGES;
	self->vec[0].iov_len = FIRST_PAGES * psize();
	self->vec[1].iov_base = writer->area;
	self->vec[1].iov_len = writer->nr * psize();
	ASSERT_EQ(start_writer(writer), 0);
	self->writes = true;

	/* Only what is lost after the first range is in use again tests it. */
	for (rounds = 0; needs_more(begun, lost); rounds++) {
		ASSERT_EQ(madvise(self->area, AREA_PAGES * psize(),
				  MADV_GUARD_REMOVE), 0);
		/* An empty request, so that the counters are 0 now. */
		req = watch_vector(self->vec, 0, MADV_GUARD_INSTALL);
		ASSERT_EQ(req.released, 0);
		__atomic_store_n(&writer->take_back, first, __ATOMIC_RELEASE);
		if (time(NULL) - begun >= SLOW)
			probe_force(2, FORCED);
		req = watch_vector(self->vec, 2, MADV_GUARD_INSTALL);
		forced += req.forced;
		req.lost += req.forced;
		ASSERT_EQ(req.ret, AREA_PAGES * psize());
		ASSERT_EQ(req.steps, 2 + req.lost);
		EXPECT_BALANCED(req, 1 + req.lost);

		/* Even without a race lost, it has let the lock go now. */
		while (__atomic_load_n(&writer->take_back, __ATOMIC_ACQUIRE))
			sched_yield();
		lost += req.lost - writer->lost_before;
		ASSERT_TRUE(pages_hold(first, FIRST_PAGES, 1));
		ASSERT_EQ(count_guards(writer->area, writer->nr), writer->nr);
	}
	TH_LOG("%ld races lost afterwards in %ld requests, %ld forced in all",
	       lost, rounds, forced);
	EXPECT_GT(lost, 0);
}

/*
 * The completion of a request to io_uring says 0: no error, least of all one that
 * is not for user space.
 */
TEST_F_TIMEOUT(retry, io_uring, TIMEOUT)
{
	const struct watched_call call = {
		.make = make_by_io_uring,
		.vec = &self->whole,
		.nr = 1,
		.advice = MADV_GUARD_INSTALL,
		.ring = &self->ring,
	};

	if (io_uring_queue_init(1, &self->ring, 0))
		SKIP(return, "needs io_uring");
	self->has_ring = true;
	lose_races(_metadata, self, &call, 0);
}

/* Whether a process that is killed has ended soon. */
static bool dies(pid_t pid, int *status)
{
	pid_t dead = 0;
	int ms;

	kill(pid, SIGKILL);
	for (ms = 0; !dead && ms < DEATH_SECONDS * 1000; ms++) {
		usleep(1000);
		dead = waitpid(pid, status, WNOHANG);
	}
	return dead == pid;
}

/* Installs guards against a writer until it is killed. */
static void install_forever(const struct iovec *vec, struct writer *writer)
{
	if (start_writer(writer) || probe_set("watch", 1))
		_exit(1);
	for (;;) {
		if (advise_self(vec, NR_RANGES, MADV_GUARD_INSTALL) !=
		    ranges_size(vec, NR_RANGES))
			_exit(2);
		if (advise_self(vec, NR_RANGES, MADV_GUARD_REMOVE) !=
		    ranges_size(vec, NR_RANGES))
			_exit(3);
	}
}

/*
 * For one who kills it at any time, a process that installs guards against a
 * writer dies soon, with no gather and no lock left behind.
 */
TEST_F_TIMEOUT(retry, killed, TIMEOUT)
{
	long lost = 0;
	int i, status;
	pid_t pid;

	srand(1);
	for (i = 0; i < NR_KILLS; i++) {
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid)
			install_forever(self->vec, &self->writer);
		usleep(200000 + rand() % 300000);
		ASSERT_TRUE(dies(pid, &status));
		ASSERT_TRUE(WIFSIGNALED(status)) {
			TH_LOG("ended by itself: %d", WEXITSTATUS(status));
		}
		lost += probe_get("lost");
		EXPECT_EQ(probe_get("acquired"), probe_get("released"));
		EXPECT_EQ(probe_get("released_live"), 0);
	}
	TH_LOG("%ld races lost before %d kills", lost, NR_KILLS);
	EXPECT_GT(lost, 0);
}

/*
 * Gives an io_uring request that never wins, and waits for its completion. Of an
 * advice that does not look for signals itself.
 */
static void request_for_ever(char *area)
{
	struct io_uring ring;

	if (io_uring_queue_init(1, &ring, 0) || probe_set("watch", 1))
		_exit(1);
	advise_by_io_uring(&ring, area, psize(), MADV_DONTNEED);
	_exit(2);
}

/*
 * One whose io_uring request is repeated for ever can be killed: the worker that
 * does it gives up.
 */
TEST_F_TIMEOUT(retry, io_uring_killed, TIMEOUT)
{
	int status;
	pid_t pid;

	if (io_uring_queue_init(1, &self->ring, 0))
		SKIP(return, "needs io_uring");
	self->has_ring = true;
	probe_force(1, INT_MAX);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid)
		request_for_ever(self->area);
	usleep(500000);
	EXPECT_GT(probe_get("forced"), 1);
	ASSERT_TRUE(dies(pid, &status));
	EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_HARNESS_MAIN
