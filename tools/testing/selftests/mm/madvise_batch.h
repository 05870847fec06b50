/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the madvise_*.c tests share: vectors of ranges, counts, a second thread,
 * and the module madvise_probe.
 *
 * A kernel that batches flushes the TLB once for a whole request, a kernel that
 * does not flushes it once for each range. Everything else is the same in both,
 * so that each test runs on both: the environment variable MADVISE_BATCHED
 * tells which of them to expect, 0 for a kernel without batching.
 *
 * The tests are x86-64's as far as they count flushes: there the pages of many
 * VMAs can share a flush.
 */
#ifndef __MADVISE_BATCH_H
#define __MADVISE_BATCH_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "trace_count.h"
#include "vm_util.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#define MADV_GUARD_REMOVE	103
#endif

#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#endif

#define MAX_RANGES	1024	/* what a vector takes */
#define PROBE_DIR	"/sys/kernel/debug/madvise_probe/"

static int test_cpus[2];
static int nr_test_cpus;

static inline void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * Before the harness forks: a process that never ran on a second CPU has no
 * flush to send there.
 */
static void __attribute__((constructor)) choose_cpus(void)
{
	cpu_set_t set;
	int cpu;

	sched_getaffinity(0, sizeof(set), &set);
	for (cpu = 0; cpu < CPU_SETSIZE && nr_test_cpus < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			test_cpus[nr_test_cpus++] = cpu;
	pin_to_cpu(test_cpus[0]);
}

static inline bool kernel_batches(void)
{
	const char *batched = getenv("MADVISE_BATCHED");

	return !batched || strcmp(batched, "0");
}

/* process_madvise() on the caller itself. Returns -1 and sets errno. */
static inline ssize_t advise_self(const struct iovec *vec, size_t nr,
				  int advice)
{
	int pidfd = syscall(__NR_pidfd_open, getpid(), 0);
	ssize_t ret;
	int err;

	if (pidfd < 0)
		return -1;
	ret = syscall(__NR_process_madvise, pidfd, vec, nr, advice, 0U);
	err = errno;
	close(pidfd);
	errno = err;
	return ret;
}

/*
 * The reasons to skip, or NULL if there is none.
 */
static inline const char *lacks_advice(int advice)
{
	if (advise_self(NULL, 0, advice) == 0)
		return NULL;
	return "process_madvise() does not take this advice on own memory";
}

static inline const char *lacks_second_cpu(void)
{
	return nr_test_cpus == 2 ? NULL : "needs two CPUs";
}

static inline const char *lacks_probe(void)
{
	if (access(PROBE_DIR, F_OK) == 0)
		return NULL;
	return "needs debugfs and the module madvise_probe";
}

/*
 * Flushes of the calling thread, and the flushes of it that went to other CPUs.
 */
struct flush_count {
	int local_fd;
	int remote_fd;
	long long local;
	long long remote;
};

static inline const char *lacks_flush_count(struct flush_count *count)
{
	count->local_fd = trace_count_open(TRACE_FLUSH, TRACE_FLUSH_LOCAL);
	count->remote_fd = trace_count_open(TRACE_FLUSH, TRACE_FLUSH_REMOTE);
	if (count->local_fd >= 0 && count->remote_fd >= 0)
		return NULL;
	return "needs root, perf events and the trace point tlb:tlb_flush";
}

/*
 * fork() has left the caller's stack shared with its parent: to write to it
 * copies a page, and flushes one. Let that be done before anything is counted.
 */
static inline void own_stack(void)
{
	char room[64 * 1024];
	char *bottom = room - (unsigned long)room % psize();

	memset(room, 0, sizeof(room));
	/* As far up as the stack goes. */
	madvise(bottom, 2 * sizeof(room), MADV_POPULATE_WRITE);
}

static inline void flush_count_start(struct flush_count *count)
{
	own_stack();
	count->local = -trace_count_read(count->local_fd);
	count->remote = -trace_count_read(count->remote_fd);
}

static inline void flush_count_stop(struct flush_count *count)
{
	count->remote += trace_count_read(count->remote_fd);
	count->local += trace_count_read(count->local_fd);
}

/* Private anonymous memory in pages of the smallest size, not yet there. */
static inline char *map_pages(size_t nr)
{
	char *area = mmap(NULL, nr * psize(), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return NULL;
	madvise(area, nr * psize(), MADV_NOHUGEPAGE);
	return area;
}

/* Writes one byte to each page. */
static inline void fill_pages(char *area, size_t nr, char value)
{
	size_t i;

	for (i = 0; i < nr; i++)
		area[i * psize()] = value;
}

/* Whether that byte is the same in all pages. */
static inline bool pages_hold(const char *area, size_t nr, char value)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (__atomic_load_n(area + i * psize(), __ATOMIC_RELAXED) !=
		    value)
			return false;
	return true;
}

/* How many pages are in the page table. */
static inline size_t pages_present(char *area, size_t nr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t i, present = 0;

	for (i = 0; i < nr; i++)
		present += PAGEMAP_PRESENT(pagemap_get_entry(fd, area + i * psize()));
	close(fd);
	return present;
}

/* nr ranges of len pages, one every step pages. */
static inline void make_ranges(struct iovec *vec, size_t nr, char *area,
			       size_t len, size_t step)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		vec[i].iov_base = area + i * step * psize();
		vec[i].iov_len = len * psize();
	}
}

static inline ssize_t ranges_size(const struct iovec *vec, size_t nr)
{
	ssize_t size = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		size += vec[i].iov_len;
	return size;
}

/* Turns all pages of odd number into VMAs of their own. */
static inline int split_vmas(char *area, size_t nr)
{
	size_t i;

	for (i = 1; i < nr; i += 2)
		if (madvise(area + i * psize(), psize(), MADV_DONTDUMP))
			return -1;
	return 0;
}

/*
 * A thread on the second CPU that calls fn(arg) again and again.
 */
struct other_thread {
	pthread_t thread;
	void (*fn)(void *arg);
	void *arg;
	unsigned long rounds;
	bool stop;
};

static inline void *other_thread_main(void *arg)
{
	struct other_thread *other = arg;

	pin_to_cpu(test_cpus[1]);
	while (!__atomic_load_n(&other->stop, __ATOMIC_ACQUIRE)) {
		other->fn(other->arg);
		__atomic_add_fetch(&other->rounds, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Waits until the thread has made another nr whole rounds. */
static inline void other_thread_rounds(struct other_thread *other,
				       unsigned long nr)
{
	unsigned long now = __atomic_load_n(&other->rounds, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&other->rounds, __ATOMIC_ACQUIRE) - now <= nr)
		sched_yield();
}

/* Returns when the thread has made its first rounds. */
static inline int other_thread_start(struct other_thread *other,
				     void (*fn)(void *arg), void *arg)
{
	other->fn = fn;
	other->arg = arg;
	other->rounds = 0;
	other->stop = false;
	if (pthread_create(&other->thread, NULL, other_thread_main, other))
		return -1;
	other_thread_rounds(other, 1);
	return 0;
}

static inline void other_thread_stop(struct other_thread *other)
{
	__atomic_store_n(&other->stop, true, __ATOMIC_RELEASE);
	pthread_join(other->thread, NULL);
}

/* Reads a byte although nobody wants it. */
static inline void touch_page(void *page)
{
	asm volatile("" : : "r" (*(char *)page) : "memory");
}

/*
 * A number in a file, or -1 (which is also what a gather finished twice is). Not
 * by stdio: that allocates, which can change mappings while another looks.
 */
static inline long read_number(const char *path)
{
	char text[32];
	ssize_t len;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -1;
	text[len] = 0;
	return strtol(text, NULL, 10);
}

static inline int write_number(const char *path, long number)
{
	char text[32];
	int fd, len, ret;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = snprintf(text, sizeof(text), "%ld", number);
	ret = write(fd, text, len) == len ? 0 : -1;
	close(fd);
	return ret;
}

#define probe_get(file)		read_number(PROBE_DIR file)
#define probe_set(file, value)	write_number(PROBE_DIR file, value)

/* No step is forced, nobody is watched or notified. */
static inline void probe_reset(void)
{
	probe_set("watch", 0);
	probe_set("force_at", 0);
	probe_set("force_times", 1);
	probe_set("force_kill", 0);
	probe_set("notify", 0);
}

/* The step of that number, from 1, and those after it lose their races. */
static inline void probe_force(long at, long times)
{
	probe_set("force_at", at);
	probe_set("force_times", times);
}

/* What madvise_probe saw of a request; its own page tells what the words mean. */
struct request {
	ssize_t ret;
	int err;
	long pending;
	long steps;
	long steps_live;
	long lost;
	long forced;
	long acquired;
	long released;
	long released_live;
	long huge_zaps;
	long huge_zaps_live;
	long relock_failed;
	long notified;
	long notified_pages;
	long notified_mapped;
	long notified_end;
	long notified_end_mapped;
	long notified_flush;
};

static inline void probe_read(struct request *req)
{
	probe_set("watch", 0);
	req->pending = probe_get("pending");
	req->steps = probe_get("steps");
	req->steps_live = probe_get("steps_live");
	req->lost = probe_get("lost");
	req->forced = probe_get("forced");
	req->acquired = probe_get("acquired");
	req->released = probe_get("released");
	req->released_live = probe_get("released_live");
	req->huge_zaps = probe_get("huge_zaps");
	req->huge_zaps_live = probe_get("huge_zaps_live");
	req->relock_failed = probe_get("relock_failed");
	req->notified = probe_get("notified");
	req->notified_pages = probe_get("notified_pages");
	req->notified_mapped = probe_get("notified_mapped");
	req->notified_end = probe_get("notified_end");
	req->notified_end_mapped = probe_get("notified_end_mapped");
	req->notified_flush = probe_get("notified_flush");
}

/*
 * A call that madvise_probe watches. make() makes it, or the same one on nothing,
 * and returns its result, with the error in errno.
 */
struct watched_call {
	ssize_t (*make)(const struct watched_call *call, bool empty);
	const struct iovec *vec;
	size_t nr;
	int advice;
	int pidfd;		/* of process_madvise() */
	void *ring;		/* of io_uring */
};

/*
 * Between the two writes nothing runs but the request. The first time round the
 * request is empty: it brings in the pages that the code itself needs.
 */
static inline struct request watch_call(const struct watched_call *call)
{
	int fd = open(PROBE_DIR "watch", O_WRONLY | O_CLOEXEC);
	struct request req = {};
	ssize_t started, ended;
	int empty;

	for (empty = 1; empty >= 0; empty--) {
		started = write(fd, "1", 1);
		req.ret = call->make(call, empty);
		req.err = req.ret < 0 ? errno : 0;
		ended = write(fd, "0", 1);
	}
	close(fd);
	probe_read(&req);
	if (started != 1 || ended != 1)
		req.steps = -1;
	return req;
}

static inline ssize_t make_vector(const struct watched_call *call, bool empty)
{
	return syscall(__NR_process_madvise, call->pidfd, call->vec,
		       empty ? 0 : call->nr, call->advice, 0U);
}

static inline struct request watch_vector(const struct iovec *vec, size_t nr,
					  int advice)
{
	struct watched_call call = {
		.make = make_vector,
		.vec = vec,
		.nr = nr,
		.advice = advice,
		.pidfd = syscall(__NR_pidfd_open, getpid(), 0),
	};
	struct request req = watch_call(&call);

	close(call.pidfd);
	return req;
}

static inline ssize_t make_madvise(const struct watched_call *call, bool empty)
{
	return madvise(call->vec->iov_base, empty ? 0 : call->vec->iov_len,
		       call->advice);
}

static inline struct request watch_madvise(void *area, size_t size, int advice)
{
	const struct iovec range = { .iov_base = area, .iov_len = size };
	const struct watched_call call = {
		.make = make_madvise,
		.vec = &range,
		.advice = advice,
	};

	return watch_call(&call);
}

/*
 * A process that shares the caller's address space, and calls fn(arg); one at a
 * time. Returns its number, or -1.
 */
static inline pid_t clone_sharing(int (*fn)(void *arg), void *arg)
{
	static max_align_t stack[4096];

	return clone(fn, stack + ARRAY_SIZE(stack), CLONE_VM | SIGCHLD, arg);
}

/*
 * A request that is killed, watched by one that shares its address space and
 * lives on. Returns the signal that ended it, or 0.
 */
struct killed_request {
	const struct iovec *vec;
	size_t nr;
	int advice;
};

static inline int killed_request_main(void *arg)
{
	struct killed_request *killed = arg;

	watch_vector(killed->vec, killed->nr, killed->advice);
	return 0;
}

static inline int watch_killed(const struct iovec *vec, size_t nr, int advice,
			       struct request *req)
{
	struct killed_request killed = { vec, nr, advice };
	int status = 0;
	pid_t pid;

	pid = clone_sharing(killed_request_main, &killed);
	if (pid > 0)
		waitpid(pid, &status, 0);
	probe_read(req);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* A call that returns -1, with that errno. */
#define EXPECT_ERROR(call, error) do {				\
	errno = 0;						\
	EXPECT_EQ((call), -1);					\
	EXPECT_EQ(errno, (error));				\
} while (0)

/*
 * Every gather was finished once, and before mmap_lock was let go; the lock was
 * taken that often, and let go as often.
 */
#define EXPECT_BALANCED(req, locks) do {			\
	const struct request *_req = &(req);			\
								\
	EXPECT_EQ(_req->pending, 0);				\
	EXPECT_EQ(_req->released_live, 0);			\
	EXPECT_EQ(_req->acquired, (locks));			\
	EXPECT_EQ(_req->released, _req->acquired);		\
} while (0)

#define HUGE_POOL	"/proc/sys/vm/nr_hugepages"

#endif /* __MADVISE_BATCH_H */
