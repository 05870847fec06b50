// SPDX-License-Identifier: GPL-2.0
/*
 * What fails while a request to give memory back runs leaves nothing behind: an
 * allocation, the caller (killed, out of memory, in exec()), the other process
 * that the request is for, a CPU. Each page is then as it was or given back, no
 * gather is live, mmap_lock is free, and the next request is done.
 *
 * Whether the kernel batches makes no difference here. Each test counts how often
 * what it waits for happened, and fails if it never did.
 */
#define _GNU_SOURCE
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define NR_RANGES	64	/* more than a gather holds without allocating */
#define NR_PAGES	(2 * NR_RANGES)
#define ROUNDS		100
#define TIMEOUT		120

#define FAILSLAB	"/sys/kernel/debug/failslab/"
#define FAIL_PAGE_ALLOC	"/sys/kernel/debug/fail_page_alloc/"
#define CGROUP		"/sys/fs/cgroup/"
#define OOM_CGROUP	CGROUP "madvise_failures/"
#define OOM_LIMIT	(16L << 20)

struct kind {
	int advice;
	bool locked;		/* memory is locked */
	bool empties;		/* pages read zero afterwards */
	bool guards;		/* pages cannot be touched afterwards */
};

struct work {
	struct kind kind;
	char *area;		/* a page for each range, and one behind each */
	struct iovec vec[NR_RANGES];
	bool *in_request;	/* seen by all processes */
};

FIXTURE(failures)
{
	struct work work;
};

FIXTURE_VARIANT(failures)
{
	struct kind kind;
};

FIXTURE_VARIANT_ADD(failures, dontneed)
{
	.kind.advice = MADV_DONTNEED,
	.kind.empties = true,
};

FIXTURE_VARIANT_ADD(failures, dontneed_locked)
{
	.kind.advice = MADV_DONTNEED_LOCKED,
	.kind.locked = true,
	.kind.empties = true,
};

FIXTURE_VARIANT_ADD(failures, free)
{
	.kind.advice = MADV_FREE,
};

FIXTURE_VARIANT_ADD(failures, guard_install)
{
	.kind.advice = MADV_GUARD_INSTALL,
	.kind.guards = true,
};

/*
 * New memory at the place of the old, so that page tables are new, too, and
 * nothing of it is a guard.
 */
static void renew(const struct work *work, bool fill)
{
	mmap(work->area, NR_PAGES * psize(), PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	madvise(work->area, NR_PAGES * psize(), MADV_NOHUGEPAGE);
	if (work->kind.locked)
		mlock2(work->area, NR_PAGES * psize(), MLOCK_ONFAULT);
	if (fill)
		fill_pages(work->area, NR_PAGES, 1);
}

/* The pages of that many ranges, from the first, read zero. */
static bool ranges_empty(const struct work *work, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (work->area[2 * i * psize()])
			return false;
	return true;
}

/* The pages that no range has are as they were written. */
static bool others_hold(const struct work *work, char value)
{
	size_t i;

	for (i = 1; i < NR_PAGES; i += 2)
		if (__atomic_load_n(work->area + i * psize(), __ATOMIC_RELAXED) !=
		    value)
			return false;
	return true;
}

/*
 * Live gathers of this address space, as far as they can be seen. Another thread
 * may have one for a moment; one that was left behind stays for ever.
 */
static long gathers_left(void)
{
	long left = 0;
	int tries;

	for (tries = 0; tries < 10000; tries++) {
		left = lacks_probe() ? 0 : probe_get("pending");
		if (!left)
			break;
		sched_yield();
	}
	return left;
}

/*
 * The address space is usable, and so is a request on it. Were mmap_lock still
 * held, this would not return.
 */
#define EXPECT_USABLE() do {						\
	EXPECT_EQ(gathers_left(), 0);					\
	renew(work, true);					\
	EXPECT_EQ(advise_self(work->vec, NR_RANGES, work->kind.advice),	\
		  NR_RANGES * psize());					\
	if (work->kind.empties)						\
		EXPECT_TRUE(ranges_empty(work, NR_RANGES));		\
	EXPECT_TRUE(others_hold(work, 1));				\
	EXPECT_EQ(gathers_left(), 0);					\
} while (0)

/* A thread or process that makes requests until it ends. */
static void request(void *arg)
{
	struct work *work = arg;

	__atomic_store_n(work->in_request, true, __ATOMIC_RELEASE);
	advise_self(work->vec, NR_RANGES, work->kind.advice);
	__atomic_store_n(work->in_request, false, __ATOMIC_RELEASE);
}

static int request_for_ever(void *arg)
{
	for (;;)
		request(arg);
	return 0;
}

/* Between nothing and what a few requests take here. */
static void wait_a_while(unsigned int *seed)
{
	struct timespec time = { .tv_nsec = rand_r(seed) % 3000000 };

	nanosleep(&time, NULL);
}

FIXTURE_SETUP(failures)
{
	const char *reason = lacks_advice(variant->kind.advice);
	struct work *work = &self->work;

	if (reason)
		SKIP(return, "%s", reason);
	probe_reset();
	work->kind = variant->kind;
	work->area = map_pages(NR_PAGES);
	ASSERT_NE(work->area, NULL);
	if (work->kind.locked && mlock2(work->area, psize(), MLOCK_ONFAULT))
		SKIP(return, "needs to lock memory");
	make_ranges(work->vec, NR_RANGES, work->area, 1, 2);
	work->in_request = mmap(NULL, psize(), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(work->in_request, MAP_FAILED);
}

FIXTURE_TEARDOWN(failures)
{
	munmap(self->work.area, NR_PAGES * psize());
	munmap(self->work.in_request, psize());
}

/*
 * Makes all allocations fail that fault injection knows, and no message of it.
 * Returns a descriptor: the number n written there makes the caller's n-th
 * allocation from then on fail.
 */
static int start_failing(void)
{
	static const struct {
		const char *path;
		const char *value;
	} settings[] = {
		{ FAILSLAB "ignore-gfp-wait", "N" },
		{ FAILSLAB "verbose", "0" },
		{ FAIL_PAGE_ALLOC "ignore-gfp-wait", "N" },
		{ FAIL_PAGE_ALLOC "ignore-gfp-highmem", "N" },
		{ FAIL_PAGE_ALLOC "min-order", "0" },
		{ FAIL_PAGE_ALLOC "verbose", "0" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		int fd = open(settings[i].path, O_WRONLY | O_CLOEXEC);
		ssize_t len = strlen(settings[i].value);

		if (fd < 0)
			return -1;
		if (write(fd, settings[i].value, len) != len) {
			close(fd);
			return -1;
		}
		close(fd);
	}
	return open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
}

/*
 * Each allocation of a request fails once, on memory that is there and on memory
 * that is not: the request is done all the same, or in part, or says ENOMEM.
 */
TEST_F(failures, allocation)
{
	struct work *work = &self->work;
	int pidfd = syscall(__NR_pidfd_open, getpid(), 0);
	int fail_fd = start_failing();
	int filled, nth, failed = 0, told = 0;

	if (fail_fd < 0)
		SKIP(return, "needs root, and fault injection for slab and pages in debugfs");

	for (filled = 0; filled < 2; filled++) {
		for (nth = 1; nth < 1000; nth++) {
			char text[16] = "";
			ssize_t ret, len;
			int err;

			renew(work, filled);
			len = snprintf(text, sizeof(text), "%d", nth);
			ASSERT_EQ(pwrite(fail_fd, text, len, 0), len);
			ret = syscall(__NR_process_madvise, pidfd, work->vec,
				      (size_t)NR_RANGES, work->kind.advice, 0U);
			err = errno;
			ASSERT_GT(pread(fail_fd, text, sizeof(text) - 1, 0), 0);
			ASSERT_EQ(pwrite(fail_fd, "0", 1, 0), 1);
			if (atoi(text)) {
				/* It made fewer than that. */
				EXPECT_EQ(ret, NR_RANGES * psize());
				break;
			}

			failed++;
			if (ret < 0) {
				told++;
				EXPECT_EQ(err, ENOMEM);
				ret = 0;
			}
			EXPECT_EQ(ret % psize(), 0);
			EXPECT_LE(ret, NR_RANGES * psize());
			if (work->kind.empties)
				EXPECT_TRUE(ranges_empty(work, ret / psize()));
			EXPECT_TRUE(others_hold(work, filled));
			EXPECT_USABLE();
		}
		EXPECT_LT(nth, 1000);
	}
	close(fail_fd);
	close(pidfd);
	TH_LOG("%d allocations failed, %d requests said so", failed, told);
	/* Twice that of the vector, and that of a gather for all ranges. */
	EXPECT_GE(told, 2);
	EXPECT_GE(failed, work->kind.empties && kernel_batches() ? 3 : 2);
}

/*
 * A request is killed at any time, while the address space, which it shares with
 * a process that lives on, changes all the time.
 */
static void map_and_unmap(void *unused)
{
	munmap(mmap(NULL, psize(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	       psize());
}

TEST_F_TIMEOUT(failures, killed, TIMEOUT)
{
	struct work *work = &self->work;
	struct other_thread other;
	unsigned int seed = 1;
	int round, status, hit = 0;
	pid_t pid;

	if (lacks_second_cpu())
		SKIP(return, "%s", lacks_second_cpu());
	ASSERT_EQ(other_thread_start(&other, map_and_unmap, NULL), 0);
	for (round = 0; round < ROUNDS; round++) {
		renew(work, true);
		*work->in_request = false;
		pid = clone_sharing(request_for_ever, work);
		ASSERT_GT(pid, 0);
		wait_a_while(&seed);
		kill(pid, SIGKILL);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		hit += *work->in_request;
		EXPECT_TRUE(others_hold(work, 1));
		EXPECT_USABLE();
	}
	other_thread_stop(&other);
	TH_LOG("%d of %d were killed in a request", hit, ROUNDS);
	EXPECT_GT(hit, 0);
}

/* A request's process begins another program meanwhile. */
TEST_F_TIMEOUT(failures, exec, TIMEOUT)
{
	struct work *work = &self->work;
	struct other_thread other;
	unsigned int seed = 1;
	int round, status, hit = 0;
	pid_t pid;

	if (lacks_second_cpu())
		SKIP(return, "%s", lacks_second_cpu());
	renew(work, true);
	for (round = 0; round < ROUNDS; round++) {
		*work->in_request = false;
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			if (other_thread_start(&other, request, work))
				_exit(1);
			seed += round;
			wait_a_while(&seed);
			execl("/bin/true", "true", NULL);
			_exit(2);
		}
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
		hit += *work->in_request;
	}
	TH_LOG("%d of %d were in a request", hit, ROUNDS);
	EXPECT_GT(hit, 0);
	EXPECT_TRUE(pages_hold(work->area, NR_PAGES, 1));
	EXPECT_USABLE();
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = strlen(text), written;

	if (fd < 0)
		return -1;
	written = write(fd, text, len);
	close(fd);
	return written == len ? 0 : -1;
}

/* How many processes of the cgroup were killed because it had no memory left. */
static long oom_kills(void)
{
	char text[512] = "";
	int fd = open(OOM_CGROUP "memory.events", O_RDONLY | O_CLOEXEC);
	char *line;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return -1;
	close(fd);
	line = strstr(text, "\noom_kill ");
	return line ? atol(line + strlen("\noom_kill ")) : -1;
}

/*
 * A request's process has no memory left and is killed, and its memory is taken
 * while the request is still on it. All memory is free afterwards.
 */
TEST_F_TIMEOUT(failures, out_of_memory, TIMEOUT)
{
	struct work *work = &self->work;
	struct other_thread other;
	int round, rounds = ROUNDS / 10, status, hit = 0, tries;
	long kills;
	pid_t pid;

	if (lacks_second_cpu())
		SKIP(return, "%s", lacks_second_cpu());
	write_text(CGROUP "cgroup.subtree_control", "+memory");
	rmdir(OOM_CGROUP);
	if (mkdir(OOM_CGROUP, 0700) ||
	    write_number(OOM_CGROUP "memory.max", OOM_LIMIT))
		SKIP(return, "needs root and memory control by cgroup2");
	/* Where there is no swap there is no such file. */
	write_text(OOM_CGROUP "memory.swap.max", "0");

	for (round = 0; round < rounds; round++) {
		*work->in_request = false;
		kills = oom_kills();
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			char *more = map_pages(4 * OOM_LIMIT / psize());

			if (!more ||
			    write_number(OOM_CGROUP "cgroup.procs", getpid()))
				_exit(1);
			renew(work, true);
			if (other_thread_start(&other, request, work))
				_exit(2);
			fill_pages(more, 4 * OOM_LIMIT / psize(), 1);
			_exit(3);
		}
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		EXPECT_EQ(oom_kills(), kills + 1);
		hit += *work->in_request;
	}
	TH_LOG("%d of %d were in a request", hit, rounds);
	EXPECT_GT(hit, 0);

	/* The kernel counts in large steps, and late. */
	for (tries = 0; tries < 100; tries++) {
		if (read_number(OOM_CGROUP "memory.current") < OOM_LIMIT / 8)
			break;
		usleep(100 * 1000);
	}
	EXPECT_LT(read_number(OOM_CGROUP "memory.current"), OOM_LIMIT / 8);
	EXPECT_EQ(rmdir(OOM_CGROUP), 0);
	EXPECT_USABLE();
}

/* A CPU that runs the process's threads goes away and comes back. */
struct switched_cpu {
	pthread_t thread;
	char online[64];
	bool failed;
	int times;
	bool stop;
};

static void *switch_cpu(void *arg)
{
	struct switched_cpu *cpu = arg;

	while (!__atomic_load_n(&cpu->stop, __ATOMIC_ACQUIRE)) {
		if (write_number(cpu->online, 0) || write_number(cpu->online, 1))
			cpu->failed = true;
		__atomic_add_fetch(&cpu->times, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

struct reader {
	const struct work *work;
	bool given_back;	/* the ranges read zero now */
	bool reads_ranges;
	unsigned long there;	/* rounds that were on the CPU that goes away */
	unsigned long stale;
};

static void read_pages(void *arg)
{
	struct reader *reader = arg;
	bool given_back = __atomic_load_n(&reader->given_back, __ATOMIC_ACQUIRE);

	pin_to_cpu(test_cpus[1]);
	reader->there += sched_getcpu() == test_cpus[1];
	if (!others_hold(reader->work, 1))
		reader->stale++;
	if (reader->reads_ranges && !ranges_empty(reader->work, NR_RANGES) &&
	    given_back &&
	    __atomic_load_n(&reader->given_back, __ATOMIC_ACQUIRE))
		reader->stale++;
}

TEST_F_TIMEOUT(failures, cpu, TIMEOUT)
{
	struct work *work = &self->work;
	struct reader reader = {
		.work = work,
		.reads_ranges = work->kind.empties,
	};
	struct switched_cpu cpu = {};
	struct other_thread other;
	int requests;

	if (lacks_second_cpu())
		SKIP(return, "%s", lacks_second_cpu());
	snprintf(cpu.online, sizeof(cpu.online),
		 "/sys/devices/system/cpu/cpu%d/online", test_cpus[1]);
	if (write_number(cpu.online, 1))
		SKIP(return, "needs root and a CPU that can be switched off");
	renew(work, true);
	ASSERT_EQ(other_thread_start(&other, read_pages, &reader), 0);
	ASSERT_EQ(pthread_create(&cpu.thread, NULL, switch_cpu, &cpu), 0);
	for (requests = 0; requests < ROUNDS ||
	     __atomic_load_n(&cpu.times, __ATOMIC_ACQUIRE) < ROUNDS / 10;
	     requests++) {
		size_t i;

		if (work->kind.guards)
			EXPECT_EQ(advise_self(work->vec, NR_RANGES,
					      MADV_GUARD_REMOVE),
				  NR_RANGES * psize());
		for (i = 0; i < NR_RANGES; i++)
			work->area[2 * i * psize()] = 1;
		other_thread_rounds(&other, 1);
		EXPECT_EQ(advise_self(work->vec, NR_RANGES, work->kind.advice),
			  NR_RANGES * psize());
		__atomic_store_n(&reader.given_back, true, __ATOMIC_RELEASE);
		other_thread_rounds(&other, 1);
		__atomic_store_n(&reader.given_back, false, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&cpu.stop, true, __ATOMIC_RELEASE);
	pthread_join(cpu.thread, NULL);
	other_thread_stop(&other);
	TH_LOG("CPU %d went and came %d times during %d requests", test_cpus[1],
	       cpu.times, requests);
	EXPECT_FALSE(cpu.failed);
	EXPECT_EQ(reader.stale, 0);
	EXPECT_GT(reader.there, 0);
	EXPECT_USABLE();
}

/*
 * A request is for another process, which meanwhile ends or begins another
 * program. Such a request is for memory that may be gone: it is done, in part or
 * all of it, or says that the process or its memory is not there.
 */
TEST_F_TIMEOUT(failures, other_process, TIMEOUT)
{
	struct work *work = &self->work;
	unsigned int seed = 1;
	int round, status, pidfd;
	long done = 0, gone = 0;
	ssize_t ret;
	pid_t pid;

	renew(work, true);
	for (round = 0; round < ROUNDS; round++) {
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			pin_to_cpu(test_cpus[nr_test_cpus - 1]);
			seed += round;
			wait_a_while(&seed);
			if (round % 2)
				execl("/bin/true", "true", NULL);
			_exit(round % 2);
		}
		pidfd = syscall(__NR_pidfd_open, pid, 0);
		ASSERT_GE(pidfd, 0);
		/* Until it has ended, and still until all of that is told. */
		do {
			errno = 0;
			ret = syscall(__NR_process_madvise, pidfd, work->vec,
				      (size_t)NR_RANGES, MADV_PAGEOUT, 0U);
			if (ret > 0) {
				EXPECT_EQ(ret % psize(), 0);
				EXPECT_LE(ret, NR_RANGES * psize());
				done++;
			} else {
				EXPECT_EQ(ret, -1);
				EXPECT_TRUE(errno == ESRCH || errno == ENOMEM);
				gone++;
			}
		} while (ret > 0 || errno != ESRCH);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0);
		close(pidfd);
		EXPECT_TRUE(pages_hold(work->area, NR_PAGES, 1));
	}
	TH_LOG("%ld requests were done, %ld met a process that had gone", done, gone);
	EXPECT_GT(done, 0);
	EXPECT_USABLE();
}

TEST_HARNESS_MAIN
