// SPDX-License-Identifier: GPL-2.0
/*
 * A request to give memory back may have to wait: for the monitor of a
 * userfaultfd that wants to hear of UFFD_EVENT_REMOVE. mmap_lock is free
 * meanwhile, and what was given back before is flushed and free, however long
 * the monitor takes. Nobody else pays for the wait.
 *
 *   |PPPPPPPP|  |uu|  |P|
 *   |--------|  |--|  |-|
 *      done     waits
 */
#define _GNU_SOURCE
#include <poll.h>
#include <linux/kernel-page-flags.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define FIRST_PAGES	8000	/* less than a gather holds */
#define NR_FRAMES	100	/* looked at, of the first pages */
#define WAIT_MS		200

enum answer {
	ANSWER_READ,		/* takes the event */
	ANSWER_CLOSE,		/* goes away */
	ANSWER_KILL,		/* kills who waits */
};

struct monitor {
	pthread_t thread;
	int uffd;
	enum answer answer;
	int page_flush_fd;	/* flushes of one page, of this thread */
	char *own;		/* a page that it gives back meanwhile */
	struct flush_count *count;
	unsigned long frames[NR_FRAMES];
	bool returned;		/* the request has */
	bool ready;
	bool stop;
	pid_t waiter;

	/* What it saw while the request waited for the first time. */
	int events;
	long long flushes;
	long long page_flushes;
	int frames_used;
	bool returned_early;
	bool mapped;
};

/*
 * How many of the frames still hold a process's memory. A page that waits in
 * a gather does, although no page table has it any more.
 */
static int frames_used(const unsigned long *frames)
{
	int fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	int i, used = 0;
	__u64 flags;

	for (i = 0; i < NR_FRAMES; i++)
		if (pread(fd, &flags, sizeof(flags),
			  frames[i] * sizeof(flags)) != sizeof(flags) ||
		    flags & BIT_ULL(KPF_ANON))
			used++;
	close(fd);
	return used;
}

static void look_around(struct monitor *monitor)
{
	char *other;

	usleep(WAIT_MS * 1000);
	monitor->flushes = monitor->count->local +
			   trace_count_read(monitor->count->local_fd);
	monitor->frames_used = frames_used(monitor->frames);
	monitor->returned_early = __atomic_load_n(&monitor->returned,
						  __ATOMIC_ACQUIRE);

	/* Takes mmap_lock for writing. */
	other = mmap(NULL, psize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	monitor->mapped = other != MAP_FAILED && !munmap(other, psize());

	*monitor->own = 1;
	monitor->page_flushes = -trace_count_read(monitor->page_flush_fd);
	madvise(monitor->own, psize(), MADV_DONTNEED);
	monitor->page_flushes += trace_count_read(monitor->page_flush_fd);
}

static void *monitor_main(void *arg)
{
	struct monitor *monitor = arg;
	struct pollfd poll_fd = { .fd = monitor->uffd, .events = POLLIN };
	struct uffd_msg msg;

	monitor->page_flush_fd = trace_count_open(TRACE_FLUSH,
						  "reason == 3 && pages == 1");
	__atomic_store_n(&monitor->ready, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&monitor->stop, __ATOMIC_ACQUIRE)) {
		if (poll(&poll_fd, 1, 20) != 1)
			continue;
		if (!monitor->events)
			look_around(monitor);
		monitor->events++;
		if (monitor->answer == ANSWER_CLOSE) {
			close(monitor->uffd);
			break;
		}
		if (monitor->answer == ANSWER_KILL) {
			kill(__atomic_load_n(&monitor->waiter,
					     __ATOMIC_ACQUIRE), SIGKILL);
			/* The end of this thread has a gather of its own. */
			while (!__atomic_load_n(&monitor->stop,
						__ATOMIC_ACQUIRE))
				usleep(1000);
			break;
		}
		if (read(monitor->uffd, &msg, sizeof(msg)) != sizeof(msg) ||
		    msg.event != UFFD_EVENT_REMOVE)
			monitor->events--;
	}
	close(monitor->page_flush_fd);
	return NULL;
}

FIXTURE(uffd)
{
	struct monitor monitor;
	struct flush_count count;
	struct iovec vec[8];
	char *first;
	char *waits;
	bool monitoring;
};

FIXTURE_VARIANT(uffd)
{
	int advice;
	bool locked;
	bool empties;
};

FIXTURE_VARIANT_ADD(uffd, dontneed)
{
	.advice = MADV_DONTNEED,
	.empties = true,
};

FIXTURE_VARIANT_ADD(uffd, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.locked = true,
	.empties = true,
};

FIXTURE_VARIANT_ADD(uffd, free)
{
	.advice = MADV_FREE,
};

FIXTURE_SETUP(uffd)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_EVENT_REMOVE,
	};
	const char *reason = lacks_advice(variant->advice);

	if (!reason)
		reason = lacks_flush_count(&self->count);
	if (reason)
		SKIP(return, "%s", reason);

	self->first = map_pages(FIRST_PAGES);
	self->waits = map_pages(4);
	self->monitor.own = map_pages(1);
	ASSERT_NE(self->first, NULL);
	ASSERT_NE(self->waits, NULL);
	ASSERT_NE(self->monitor.own, NULL);
	if (variant->locked &&
	    mlock2(self->first, FIRST_PAGES * psize(), MLOCK_ONFAULT))
		SKIP(return, "needs to lock memory");
	fill_pages(self->first, FIRST_PAGES, 1);
	fill_pages(self->waits, 4, 1);

	self->monitor.count = &self->count;
	self->monitor.uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (self->monitor.uffd < 0 ||
	    ioctl(self->monitor.uffd, UFFDIO_API, &api) ||
	    uffd_register(self->monitor.uffd, self->waits, 4 * psize(), true,
			  false, false))
		SKIP(return, "needs userfaultfd with UFFD_EVENT_REMOVE");
}

FIXTURE_TEARDOWN(uffd)
{
	if (self->monitoring) {
		__atomic_store_n(&self->monitor.stop, true, __ATOMIC_RELEASE);
		pthread_join(self->monitor.thread, NULL);
	}
	probe_reset();
}

static void monitor_start(struct __test_metadata *_metadata,
			  FIXTURE_DATA(uffd) * self, enum answer answer)
{
	self->monitor.answer = answer;
	ASSERT_EQ(pthread_create(&self->monitor.thread, NULL, monitor_main,
				 &self->monitor), 0);
	self->monitoring = true;
	/* What a thread maps and unmaps to begin with is done then. */
	while (!__atomic_load_n(&self->monitor.ready, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void monitor_join(FIXTURE_DATA(uffd) * self)
{
	__atomic_store_n(&self->monitor.returned, true, __ATOMIC_RELEASE);
	__atomic_store_n(&self->monitor.stop, true, __ATOMIC_RELEASE);
	pthread_join(self->monitor.thread, NULL);
	self->monitoring = false;
}

/*
 * While the request waits, the ranges before are flushed, and their memory is
 * free for others (who may have taken some of it already).
 */
TEST_F(uffd, ranges_before_are_done)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t i;

	ASSERT_GE(fd, 0);
	for (i = 0; i < NR_FRAMES; i++)
		self->monitor.frames[i] = pagemap_get_pfn(fd, self->first +
			i * (FIRST_PAGES / NR_FRAMES) * psize());
	close(fd);
	ASSERT_EQ(frames_used(self->monitor.frames), NR_FRAMES);
	make_ranges(self->vec, 4, self->first, FIRST_PAGES / 4,
		    FIRST_PAGES / 4);
	make_ranges(self->vec + 4, 1, self->waits, 1, 1);
	monitor_start(_metadata, self, ANSWER_READ);

	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 5, variant->advice),
		  ranges_size(self->vec, 5));
	monitor_join(self);

	EXPECT_EQ(self->monitor.events, 1);
	EXPECT_FALSE(self->monitor.returned_early);
	EXPECT_EQ(self->monitor.flushes, kernel_batches() ? 1 : 4);
	if (variant->empties)
		EXPECT_LT(self->monitor.frames_used, NR_FRAMES / 2);
}

/*
 * While the request waits, other threads can map memory, and what they give back
 * themselves is flushed page by page, not with the whole address space, as it
 * were if a gather was live beside theirs.
 */
TEST_F(uffd, others_do_not_pay)
{
	make_ranges(self->vec, 1, self->first, 8, 8);
	make_ranges(self->vec + 1, 1, self->waits, 1, 1);
	monitor_start(_metadata, self, ANSWER_READ);

	EXPECT_EQ(advise_self(self->vec, 2, variant->advice),
		  ranges_size(self->vec, 2));
	monitor_join(self);

	EXPECT_EQ(self->monitor.events, 1);
	EXPECT_FALSE(self->monitor.returned_early);
	EXPECT_TRUE(self->monitor.mapped);
	EXPECT_EQ(self->monitor.page_flushes, 1);
}

/*
 * Each wait costs one flush, if there is something to flush.
 *
 *   |P|  |u|  |P|  |u|  |P|
 *   |-|  |-|  |-|  |-|  |-|
 *     flush|  flush|  flush|
 */
TEST_F(uffd, each_wait_flushes_once)
{
	make_ranges(self->vec, 5, self->first, 1, 2);
	self->vec[1].iov_base = self->waits;
	self->vec[3].iov_base = self->waits + 2 * psize();
	monitor_start(_metadata, self, ANSWER_READ);

	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 5, variant->advice), 5 * psize());
	flush_count_stop(&self->count);
	monitor_join(self);
	EXPECT_EQ(self->monitor.events, 2);
	EXPECT_EQ(self->count.local, kernel_batches() ? 3 : 5);
	EXPECT_FALSE(self->monitor.returned_early);
}

/* madvise() waits in the same way, and flushes once. */
TEST_F(uffd, madvise_waits)
{
	monitor_start(_metadata, self, ANSWER_READ);
	flush_count_start(&self->count);
	EXPECT_EQ(madvise(self->waits, 4 * psize(), variant->advice), 0);
	flush_count_stop(&self->count);
	monitor_join(self);

	EXPECT_EQ(self->monitor.events, 1);
	EXPECT_FALSE(self->monitor.returned_early);
	EXPECT_EQ(self->monitor.flushes, 0);
	EXPECT_EQ(self->count.local, 1);
	if (variant->empties)
		EXPECT_EQ(pages_present(self->waits, 4), 0);
}

/* If the monitor goes away, the request is done nevertheless. */
TEST_F(uffd, monitor_goes_away)
{
	make_ranges(self->vec, 3, self->first, 1, 2);
	self->vec[1].iov_base = self->waits;
	monitor_start(_metadata, self, ANSWER_CLOSE);

	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 3, variant->advice), 3 * psize());
	flush_count_stop(&self->count);
	monitor_join(self);

	EXPECT_EQ(self->monitor.events, 1);
	EXPECT_FALSE(self->monitor.returned_early);
	EXPECT_EQ(self->count.local, kernel_batches() ? 2 : 3);
	if (variant->empties) {
		EXPECT_EQ(pages_present(self->first, 1), 0);
		EXPECT_EQ(pages_present(self->waits, 1), 0);
	}
}

/*
 * A request that is killed while it waits balances. It shares its address space
 * with this process, which lives on.
 */
struct waiter {
	FIXTURE_DATA(uffd) * self;
	int advice;
};

static int waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	__atomic_store_n(&waiter->self->monitor.waiter, getpid(),
			 __ATOMIC_RELEASE);
	watch_vector(waiter->self->vec, 3, waiter->advice);
	return 0;
}

TEST_F(uffd, killed_while_waiting)
{
	struct waiter waiter = { self, variant->advice };
	const char *reason = lacks_probe();
	struct request req;
	int status = 0;
	pid_t pid;

	if (reason)
		SKIP(return, "%s", reason);
	make_ranges(self->vec, 3, self->first, 1, 2);
	self->vec[1].iov_base = self->waits;
	monitor_start(_metadata, self, ANSWER_KILL);

	pid = clone_sharing(waiter_main, &waiter);
	ASSERT_GT(pid, 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	monitor_join(self);
	probe_read(&req);

	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGKILL);
	EXPECT_EQ(self->monitor.events, 1);
	EXPECT_BALANCED(req, 2);
}

TEST_HARNESS_MAIN
