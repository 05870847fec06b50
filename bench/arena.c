// SPDX-License-Identifier: GPL-2.0
/*
 * arena: what it costs an allocator to give dead memory back.
 *
 * The arena is a row of chunks, each a mapping of its own. In every chunk live
 * pages, which hold data, alternate with runs of dead pages, which the
 * allocator wants to give back. The same dead runs are given back again and
 * again, each time from a fresh arena: by MADV_DONTNEED, by
 * MADV_DONTNEED_LOCKED (from an arena that is locked in memory) and by
 * MADV_FREE; in process_madvise() calls of 1, 16, 128 and 1,024 ranges; with no
 * other thread, and with one that reads the live pages on another CPU. After
 * each case all live pages must hold what was written to them, and dead pages
 * must be empty (after MADV_FREE: empty or untouched).
 *
 * Prints a line for each case, with tabs between the columns, no header:
 *
 *   kernel advice calls ranges vmas threads bytes
 *					flushes_local flushes_remote mmap_locks
 *
 * ranges is the number of ranges in a call; all else is for all calls of the
 * case together. flushes_local is the number of TLB flushes, flushes_remote the
 * number of those that interrupted other CPUs, mmap_locks how often the calls
 * took mmap_lock.
 *
 * Usage: arena -k before|after [-o FILE]
 * Exit status: 0 good, 1 wrong memory contents or a failed call, 2 wrong use,
 * 4 the machine or the kernel lacks something.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../tools/testing/selftests/mm/trace_count.h"
#include "pin.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define EXIT_FAIL	1
#define EXIT_USAGE	2

#define CHUNKS		512
#define CHUNK_PAGES	16
#define RANGES		1024	/* dead runs: two in each chunk */
#define STRIDE_PAGES	(CHUNK_PAGES + 1)	/* with a page of no access */

static const struct {
	const char *name;
	int advice;
} advices[] = {
	{ "DONTNEED", MADV_DONTNEED },
	{ "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED },
	{ "FREE", MADV_FREE },
};

static const int vector_sizes[] = { 1, 16, 128, 1024 };

static const char *kernel;
static long page_size;
static int cpus[2];

static char *arena;
static bool dead[CHUNKS][CHUNK_PAGES];
static struct iovec runs[RANGES];

static bool reader_runs, reader_stop;

static void find_cpus(void)
{
	cpu_set_t set;
	int cpu, nr = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		err(EXIT_LACK, "sched_getaffinity() failed");
	for (cpu = 0; cpu < CPU_SETSIZE && nr < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[nr++] = cpu;
	if (nr < 2)
		errx(EXIT_LACK, "only one CPU: give the machine two");
}

static int count_open(const char *event, const char *filter)
{
	int fd = trace_count_open(event, filter);

	if (fd < 0)
		errx(EXIT_LACK,
		     "no count of trace point %s (%s): run as root, on a kernel with CONFIG_PERF_EVENTS and tracing",
		    event, strerror(-fd));
	return fd;
}

static char *page_at(int chunk, int page)
{
	return arena + (chunk * STRIDE_PAGES + page) * page_size;
}

/* What a page holds: its own number, never 0. */
static unsigned long page_value(int chunk, int page)
{
	return 0x5eed0000UL + 1 + chunk * CHUNK_PAGES + page;
}

/*
 * Two dead runs of 1 to 5 pages in each chunk, at places that vary from chunk
 * to chunk in the same way each time:
 *
 *   live .. dead .. live .. dead .. live | no access
 *
 * Pages 0, 8 and 15 of a chunk always live.
 */
static void lay_out(void)
{
	unsigned int seed = 12345;
	int chunk, half;

	for (chunk = 0; chunk < CHUNKS; chunk++) {
		for (half = 0; half < 2; half++) {
			int first, len, i;

			seed = seed * 1664525 + 1013904223;
			first = half * 8 + 1 + (seed >> 16) % 2;
			len = 1 + (seed >> 20) % 5;
			for (i = first; i < first + len; i++)
				dead[chunk][i] = true;
			runs[chunk * 2 + half].iov_base = page_at(chunk, first);
			runs[chunk * 2 + half].iov_len = len * page_size;
		}
	}
}

static void make_arena(int advice)
{
	size_t size = (size_t)CHUNKS * STRIDE_PAGES * page_size;
	int chunk, page;

	arena = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		err(EXIT_LACK, "no address space for the arena");
	/* Pages of 4 KiB only: huge pages are another subject. */
	madvise(arena, size, MADV_NOHUGEPAGE);
	lay_out();

	for (chunk = 0; chunk < CHUNKS; chunk++) {
		if (mprotect(page_at(chunk, 0), CHUNK_PAGES * page_size,
			     PROT_READ | PROT_WRITE))
			err(EXIT_LACK, "mprotect() failed");
		if (advice == MADV_DONTNEED_LOCKED &&
		    mlock(page_at(chunk, 0), CHUNK_PAGES * page_size))
			err(EXIT_LACK, "mlock() failed (run as root)");
		for (page = 0; page < CHUNK_PAGES; page++)
			*(unsigned long *)page_at(chunk, page) =
				page_value(chunk, page);
	}
}

static void check_arena(int advice)
{
	int chunk, page;

	for (chunk = 0; chunk < CHUNKS; chunk++) {
		for (page = 0; page < CHUNK_PAGES; page++) {
			unsigned long value = *(unsigned long *)page_at(chunk, page);
			unsigned long wrote = page_value(chunk, page);
			bool good;

			if (!dead[chunk][page])
				good = value == wrote;
			else if (advice == MADV_FREE)
				good = value == wrote || !value;
			else
				good = !value;
			if (!good)
				errx(EXIT_FAIL,
				     "chunk %d page %d, %s, holds %#lx: memory is damaged",
				    chunk, page,
				    dead[chunk][page] ? "dead" : "live",
				    value);
		}
	}
}

/* A read that the compiler keeps although nobody wants the value. */
static void read_page(char *page)
{
	asm volatile("" : : "r" (*(unsigned long *)page));
}

static void *read_live(void *unused)
{
	const struct sched_param urgent = { .sched_priority = 1 };
	int chunk, page;

	(void)unused;
	pin(cpus[1]);
	/* Where another program gets in, that CPU has nothing to flush. */
	sched_setscheduler(0, SCHED_FIFO, &urgent);
	while (!__atomic_load_n(&reader_stop, __ATOMIC_ACQUIRE)) {
		for (chunk = 0; chunk < CHUNKS; chunk++)
			for (page = 0; page < CHUNK_PAGES; page++)
				if (!dead[chunk][page])
					read_page(page_at(chunk, page));
		__atomic_store_n(&reader_runs, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void give_back(int pidfd, struct iovec *vec, int nr, int advice,
		      const char *name)
{
	size_t size = 0;
	ssize_t ret;
	int i;

	for (i = 0; i < nr; i++)
		size += vec[i].iov_len;
	ret = syscall(__NR_process_madvise, pidfd, vec, (size_t)nr, advice, 0U);
	if (ret < 0 && errno == EINVAL)
		errx(EXIT_LACK,
		     "process_madvise(MADV_%s) is not allowed on own memory: boot a kernel with the prerequisites",
		    name);
	if (ret < 0)
		err(EXIT_FAIL, "process_madvise(MADV_%s) failed", name);
	if ((size_t)ret != size)
		errx(EXIT_FAIL, "process_madvise(MADV_%s) did %zd bytes of %zu",
		     name, ret, size);
}

static void run_case(FILE *out, const char *name, int advice, int nr,
		     int threads)
{
	long long local = 0, remote = 0, locks = 0;
	int local_fd, remote_fd, lock_fd, pidfd, i;
	pthread_t reader;
	size_t bytes = 0;

	make_arena(advice);
	for (i = 0; i < RANGES; i++)
		bytes += runs[i].iov_len;

	pidfd = syscall(__NR_pidfd_open, getpid(), 0);
	if (pidfd < 0)
		err(EXIT_LACK, "pidfd_open() failed");
	local_fd = count_open(TRACE_FLUSH, TRACE_FLUSH_LOCAL);
	remote_fd = count_open(TRACE_FLUSH, TRACE_FLUSH_REMOTE);
	lock_fd = count_open(TRACE_LOCK, TRACE_LOCK_TAKEN);

	if (threads) {
		if (pthread_create(&reader, NULL, read_live, NULL))
			errx(EXIT_LACK, "no second thread");
		while (!__atomic_load_n(&reader_runs, __ATOMIC_ACQUIRE))
			sched_yield();
	}

	for (i = 0; i < RANGES; i += nr) {
		local -= trace_count_read(local_fd);
		remote -= trace_count_read(remote_fd);
		locks -= trace_count_read(lock_fd);
		give_back(pidfd, &runs[i], nr, advice, name);
		locks += trace_count_read(lock_fd);
		remote += trace_count_read(remote_fd);
		local += trace_count_read(local_fd);
	}

	if (threads) {
		__atomic_store_n(&reader_stop, true, __ATOMIC_RELEASE);
		pthread_join(reader, NULL);
	}
	check_arena(advice);

	fprintf(out, "%s\t%s\t%d\t%d\t%d\t%d\t%zu\t%lld\t%lld\t%lld\n", kernel,
		name, RANGES / nr, nr, CHUNKS, threads, bytes, local, remote,
		locks);
	if (fflush(out))
		err(EXIT_FAIL, "cannot write the results");
}

int main(int argc, char **argv)
{
	size_t a, v;
	FILE *out = stdout;
	int threads, opt;

	while ((opt = getopt(argc, argv, "k:o:")) != -1) {
		if (opt == 'k' && (!strcmp(optarg, "before") ||
				   !strcmp(optarg, "after")))
			kernel = optarg;
		else if (opt == 'o')
			out = fopen(optarg, "w");
		else
			kernel = NULL;
		if (!out)
			err(EXIT_USAGE, "cannot write %s", optarg);
		if (opt == '?')
			break;
	}
	if (!kernel || optind != argc)
		errx(EXIT_USAGE, "usage: arena -k before|after [-o FILE]");

	page_size = sysconf(_SC_PAGESIZE);
	find_cpus();
	/*
	 * Each case in a process of its own, which has never run on a CPU but
	 * the first: else flushes would go to CPUs that it left behind.
	 */
	pin(cpus[0]);

	for (a = 0; a < ARRAY_SIZE(advices); a++) {
		for (threads = 0; threads < 2; threads++) {
			for (v = 0; v < ARRAY_SIZE(vector_sizes); v++) {
				int status;
				pid_t pid = fork();

				if (pid < 0)
					err(EXIT_LACK, "fork() failed");
				if (!pid) {
					run_case(out, advices[a].name,
						 advices[a].advice,
						 vector_sizes[v], threads);
					exit(0);
				}
				if (waitpid(pid, &status, 0) != pid)
					err(EXIT_FAIL, "waitpid() failed");
				if (WIFSIGNALED(status))
					errx(EXIT_FAIL, "killed by signal %d",
					     WTERMSIG(status));
				if (WEXITSTATUS(status))
					return WEXITSTATUS(status);
			}
		}
	}
	return 0;
}
