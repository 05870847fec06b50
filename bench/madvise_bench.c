// SPDX-License-Identifier: GPL-2.0
/*
 * madvise_bench: what it costs to give an area of memory back in ranges.
 *
 * One iteration writes to every page of the area, and then gives all of its
 * ranges back by calls of process_madvise() with -n ranges each. For
 * comparison there are the two ends: -m madvise, a call for each range, and
 * -m whole, one madvise() over the whole area, which is the limit of what any
 * vector can reach. Only the giving back is measured.
 *
 * The first iteration is for counting alone: TLB flushes and mmap_lock, where
 * root and the kernel allow it, else "-". The ones after it are for time alone,
 * with no counter open. In a guest whose clock counts instructions (QEMU's
 * -icount with shift=0) the time is the number of instructions.
 *
 * Prints a line for each run, with tabs between the columns; -H prints the
 * names of the columns:
 *
 *  kernel, method, advice, memory, target, layout: as chosen
 *  bytes		given back in an iteration
 *  range_bytes		bytes of each range
 *  ranges		ranges in each call
 *  callers, busy	threads that call; threads that only keep a CPU busy
 *  iterations, calls	timed iterations; calls in each
 *  mean_ns ... p99_ns	time to give the whole area back: mean over the
 *			iterations, standard deviation (of a sample), least,
 *			and percentiles (nearest rank); "-" without any
 *  flushes_local	TLB flushes in an iteration
 *  flushes_remote	those of them that interrupted other CPUs
 *  flushes_full	those of them that flushed the whole address space
 *  mmap_locks		how often mmap_lock was taken in an iteration
 *  release, cpus, cpu	the machine
 *
 * Layouts (. is a page that is not given back, | one that is not accessible):
 *
 *  adjacent	0123456789	range after range, in this order
 *  gaps	0.1.2.3.4.	every other range of the area
 *  random	7150394682	adjacent, but in a random order
 *  vmas	04|15|26|37	1,024 mappings: each range in the next of them
 *
 * Exit status: 0 good, 1 a call failed, 2 wrong use, 4 the machine or the
 * kernel lacks something.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <err.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "../tools/testing/selftests/mm/trace_count.h"
#include "pin.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define EXIT_FAIL	1
#define EXIT_USAGE	2

#define MAX_RANGES	1024	/* in a call: UIO_MAXIOV */
#define MAX_CALLERS	64
#define VMAS		1024
#define HUGE_SIZE	(2UL << 20)

#define TRACE_FLUSH_FULL "reason == 3 && pages == 18446744073709551615"

enum method { VECTOR, SINGLE, WHOLE };
enum layout { ADJACENT, GAPS, RANDOM, IN_VMAS };
enum memory { ANON, THP, HUGETLB, SHARED_FILE };
enum target { SELF, OTHER };

struct name {
	const char *name;
	int value;
};

static const struct name methods[] = {
	{ "process_madvise", VECTOR },
	{ "madvise", SINGLE },
	{ "whole", WHOLE },
	{ }
};

static const struct name layouts[] = {
	{ "adjacent", ADJACENT },
	{ "gaps", GAPS },
	{ "random", RANDOM },
	{ "vmas", IN_VMAS },
	{ }
};

static const struct name memories[] = {
	{ "anon", ANON },
	{ "thp", THP },
	{ "hugetlb", HUGETLB },
	{ "file", SHARED_FILE },
	{ }
};

static const struct name targets[] = {
	{ "self", SELF },
	{ "other", OTHER },
	{ }
};

static const struct name advices[] = {
	{ "DONTNEED", MADV_DONTNEED },
	{ "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED },
	{ "FREE", MADV_FREE },
	{ "COLD", MADV_COLD },
	{ "WILLNEED", MADV_WILLNEED },
	{ "NORMAL", MADV_NORMAL },
	{ }
};

/* What to run. The defaults are those of the first posting upstream. */
static const char *kernel = "-";
static struct name method = { "process_madvise", VECTOR };
static struct name advice = { "DONTNEED", MADV_DONTNEED };
static struct name memory = { "anon", ANON };
static struct name target = { "self", SELF };
static struct name layout = { "adjacent", ADJACENT };
static size_t bytes = 256UL << 20;
static size_t range_bytes = 4096;
static size_t ranges;		/* 0: all powers of two, one after another */
static int callers = 1;
static int busy;
static int iterations = 5;

static size_t page_size;
static int nr_cpus;
static int cpus[CPU_SETSIZE];

/* The area: all of its ranges, in the order in which they are given back. */
static struct iovec *vec;
static size_t nr_vec;
static char *area;
static size_t area_bytes;	/* with what is between the ranges */

static pid_t owner;
static int pidfd;
static int ask_owner[2], owner_says[2];

/* What the counters have, and whether there are any. */
static const struct {
	const char *event, *filter;
} counters[] = {
	{ TRACE_FLUSH, TRACE_FLUSH_LOCAL },
	{ TRACE_FLUSH, TRACE_FLUSH_REMOTE },
	{ TRACE_FLUSH, TRACE_FLUSH_FULL },
	{ TRACE_LOCK, TRACE_LOCK_TAKEN },
};

static bool counting;
static bool counts_known = true;

struct caller {
	pthread_t thread;
	int cpu;
	size_t first, nr;	/* its part of vec */
	long long start, end;
	long long counts[ARRAY_SIZE(counters)];
};

static struct caller caller_of[MAX_CALLERS];
static pthread_barrier_t together;	/* the callers */
static pthread_barrier_t ready;		/* the busy, and the first caller */
static bool stop;

static void find_cpus(void)
{
	cpu_set_t set;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set))
		err(EXIT_LACK, "sched_getaffinity() failed");
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[nr_cpus++] = cpu;
	if (nr_cpus < callers + busy)
		errx(EXIT_LACK, "%d threads on %d CPUs: give the machine more CPUs",
		     callers + busy, nr_cpus);
}

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* A mapping of the chosen kind, at an address that huge pages can use. */
static char *map(size_t size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t spare = memory.value == THP ? HUGE_SIZE : 0;
	int fd = -1;
	char *p;

	if (memory.value == HUGETLB)
		flags |= MAP_HUGETLB;
	if (memory.value == SHARED_FILE) {
		fd = memfd_create("madvise_bench", 0);
		if (fd < 0 || ftruncate(fd, size))
			err(EXIT_LACK, "no file in memory");
		flags = MAP_SHARED;
	}
	p = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		err(EXIT_LACK, "no %s mapping of %zu bytes%s", memory.name,
		    size, memory.value == HUGETLB ?
		    ": raise /proc/sys/vm/nr_hugepages" : "");
	p += spare - (spare ? (unsigned long)p % HUGE_SIZE : 0);
	if (memory.value == ANON)
		madvise(p, size, MADV_NOHUGEPAGE);
	if (memory.value == THP && madvise(p, size, MADV_HUGEPAGE))
		err(EXIT_LACK, "no transparent huge pages in this kernel");
	return p;
}

static void make_area(void)
{
	size_t i, in_vma, stride;

	nr_vec = bytes / range_bytes;
	vec = calloc(nr_vec, sizeof(*vec));
	if (!vec)
		err(EXIT_LACK, "no memory for %zu ranges", nr_vec);

	switch (layout.value) {
	case ADJACENT:
	case RANDOM:
	case GAPS:
		stride = range_bytes * (layout.value == GAPS ? 2 : 1);
		area_bytes = nr_vec * stride;
		area = map(area_bytes);
		for (i = 0; i < nr_vec; i++)
			vec[i].iov_base = area + i * stride;
		break;
	case IN_VMAS:
		in_vma = (nr_vec + VMAS - 1) / VMAS * range_bytes;
		stride = in_vma + page_size;
		area_bytes = VMAS * stride;
		area = map(area_bytes);
		for (i = 0; i < VMAS; i++)
			if (mprotect(area + i * stride + in_vma, page_size,
				     PROT_NONE))
				err(EXIT_LACK, "mprotect() failed");
		for (i = 0; i < nr_vec; i++)
			vec[i].iov_base = area + i % VMAS * stride +
					  i / VMAS * range_bytes;
		break;
	}
	for (i = 0; i < nr_vec; i++)
		vec[i].iov_len = range_bytes;

	if (layout.value == RANDOM) {
		unsigned long seed = 12345;

		for (i = nr_vec - 1; i > 0; i--) {
			struct iovec swap = vec[i];
			size_t j;

			seed = seed * 6364136223846793005UL + 1442695040888963407UL;
			j = (seed >> 33) % (i + 1);
			vec[i] = vec[j];
			vec[j] = swap;
		}
	}
	if (advice.value == MADV_DONTNEED_LOCKED &&
	    mlock2(area, area_bytes, MLOCK_ONFAULT))
		err(EXIT_LACK, "mlock2() failed: run as root");
}

static void write_area(void)
{
	size_t i, stride = layout.value == IN_VMAS ?
		area_bytes / VMAS : area_bytes;
	size_t spare = layout.value == IN_VMAS ? page_size : 0;

	for (i = 0; i < area_bytes; i += page_size)
		if (i % stride < stride - spare)
			*(unsigned long *)(area + i) = i + 1;
}

/* The area belongs to this process, which writes to it when it is asked. */
static void own_area(void)
{
	char c;

	while (read(ask_owner[0], &c, 1) == 1) {
		write_area();
		if (write(owner_says[1], "", 1) != 1)
			break;
	}
	_exit(0);
}

static void start_owner(void)
{
	if (target.value == OTHER) {
		if (pipe(ask_owner) || pipe(owner_says))
			err(EXIT_LACK, "pipe() failed");
		owner = fork();
		if (owner < 0)
			err(EXIT_LACK, "fork() failed");
		if (!owner) {
			close(ask_owner[1]);
			own_area();
		}
	} else {
		owner = getpid();
	}
	pidfd = syscall(__NR_pidfd_open, owner, 0);
	if (pidfd < 0)
		err(EXIT_LACK, "pidfd_open() failed");
}

static void prepare(void)
{
	char c;

	if (target.value == SELF)
		write_area();
	else if (write(ask_owner[1], "", 1) != 1 ||
		 read(owner_says[0], &c, 1) != 1)
		errx(EXIT_FAIL, "the process that owns the area has died");
}

static void give_back(const struct caller *c)
{
	size_t i, nr = 0, end = c->first + c->nr;
	ssize_t ret = 0;

	switch (method.value) {
	case WHOLE:
		ret = madvise(area, area_bytes, advice.value);
		break;
	case SINGLE:
		for (i = c->first; i < end && !ret; i++)
			ret = madvise(vec[i].iov_base, range_bytes,
				      advice.value);
		break;
	case VECTOR:
		for (i = c->first; i < end; i += nr) {
			nr = end - i < ranges ? end - i : ranges;
			ret = syscall(__NR_process_madvise, pidfd, &vec[i], nr,
				      advice.value, 0U);
			if (ret != (ssize_t)(nr * range_bytes))
				break;
			ret = 0;
		}
		break;
	}
	if (!ret)
		return;
	if (ret < 0 && errno == EINVAL && method.value == VECTOR)
		errx(EXIT_LACK,
		     "process_madvise(MADV_%s) is not allowed here: boot a kernel with the prerequisites",
		     advice.name);
	if (ret < 0)
		err(EXIT_FAIL, "%s(MADV_%s) failed", method.name, advice.name);
	errx(EXIT_FAIL, "process_madvise(MADV_%s) did %zd bytes of %zu",
	     advice.name, ret, nr * range_bytes);
}

/* One iteration of one caller. */
static void call(struct caller *c)
{
	int fds[ARRAY_SIZE(counters)];
	size_t i;

	if (counting && counts_known) {
		for (i = 0; i < ARRAY_SIZE(counters); i++) {
			fds[i] = trace_count_open(counters[i].event,
						  counters[i].filter);
			if (fds[i] < 0) {
				warnx("no count of %s (%s): run as root, with CONFIG_PERF_EVENTS",
				      counters[i].event, strerror(-fds[i]));
				counts_known = false;
				while (i--)
					close(fds[i]);
				break;
			}
		}
	}
	if (callers > 1)
		pthread_barrier_wait(&together);

	if (counting && counts_known)
		for (i = 0; i < ARRAY_SIZE(counters); i++)
			c->counts[i] = -trace_count_read(fds[i]);
	c->start = now();
	give_back(c);
	c->end = now();
	if (counting && counts_known) {
		for (i = 0; i < ARRAY_SIZE(counters); i++) {
			c->counts[i] += trace_count_read(fds[i]);
			close(fds[i]);
		}
	}
	if (callers > 1)
		pthread_barrier_wait(&together);
}

static void *call_always(void *arg)
{
	struct caller *c = arg;

	pin(c->cpu);
	for (;;) {
		pthread_barrier_wait(&together);
		if (stop)
			return NULL;
		call(c);
	}
}

static void *be_busy(void *arg)
{
	pin(*(int *)arg);
	pthread_barrier_wait(&ready);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Nearest rank: the least sample that at least p percent are not above. */
static double percentile(const double *sorted, int n, double p)
{
	return sorted[(int)ceil(p / 100 * n) - 1];
}

static void print_machine(void)
{
	char line[256], model[256] = "unknown";
	struct utsname uts;
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %255[^\n]", model) == 1)
			break;
	if (f)
		fclose(f);
	uname(&uts);
	printf("\t%s\t%d\t%s\n", uts.release, nr_cpus, model);
}

static void print_header(void)
{
	static const char * const columns[] = {
		"kernel", "method", "advice", "memory", "target", "layout",
		"bytes", "range_bytes", "ranges", "callers", "busy",
		"iterations", "calls", "mean_ns", "stdev_ns", "min_ns",
		"p50_ns", "p99_ns", "flushes_local", "flushes_remote",
		"flushes_full", "mmap_locks", "release", "cpus", "cpu",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(columns); i++)
		printf("%s%c", columns[i],
		       i + 1 < ARRAY_SIZE(columns) ? '\t' : '\n');
}

static void print_run(double *ns, size_t calls)
{
	double mean = 0, var = 0;
	size_t i, t;
	int n;

	for (n = 0; n < iterations; n++)
		mean += ns[n] / iterations;
	for (n = 0; n < iterations; n++)
		var += (ns[n] - mean) * (ns[n] - mean);
	var = iterations > 1 ? var / (iterations - 1) : 0;
	qsort(ns, iterations, sizeof(*ns), compare);

	printf("%s\t%s\t%s\t%s\t%s\t%s\t%zu\t%zu\t%zu\t%d\t%d\t%d\t%zu",
	       kernel, method.name, advice.name, memory.name, target.name,
	       layout.name, bytes, range_bytes, ranges, callers, busy,
	       iterations, calls);
	if (iterations)
		printf("\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f", mean, sqrt(var),
		       ns[0], percentile(ns, iterations, 50),
		       percentile(ns, iterations, 99));
	else
		printf("\t-\t-\t-\t-\t-");
	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		long long sum = 0;

		for (t = 0; t < (size_t)callers; t++)
			sum += caller_of[t].counts[i];
		if (counts_known)
			printf("\t%lld", sum);
		else
			printf("\t-");
	}
	print_machine();
	if (fflush(stdout))
		err(EXIT_FAIL, "cannot write the results");
}

static void run(void)
{
	double *ns = calloc(iterations + 1, sizeof(*ns));
	pthread_t idlers[CPU_SETSIZE];
	size_t calls = 0;
	int i, n;

	if (!ns)
		err(EXIT_LACK, "no memory for the results");
	make_area();
	start_owner();
	now();	/* The clock's page is there from here on. */

	for (i = 0; i < callers; i++) {
		struct caller *c = &caller_of[i];

		c->cpu = cpus[i];
		c->first = nr_vec * i / callers;
		c->nr = nr_vec * (i + 1) / callers - c->first;
		calls += method.value == WHOLE ? 1 :
			 (c->nr + ranges - 1) / ranges;
	}

	pthread_barrier_init(&ready, NULL, busy + 1);
	pthread_barrier_init(&together, NULL, callers);
	for (i = 0; i < busy; i++)
		if (pthread_create(&idlers[i], NULL, be_busy,
				   &cpus[callers + i]))
			errx(EXIT_LACK, "no more threads");
	pthread_barrier_wait(&ready);
	for (i = 1; i < callers; i++)
		if (pthread_create(&caller_of[i].thread, NULL, call_always,
				   &caller_of[i]))
			errx(EXIT_LACK, "no more threads");

	for (n = -1; n < iterations; n++) {
		long long start, end;

		counting = n < 0;
		prepare();
		if (callers > 1)
			pthread_barrier_wait(&together);
		call(&caller_of[0]);

		start = caller_of[0].start;
		end = caller_of[0].end;
		for (i = 1; i < callers; i++) {
			if (start > caller_of[i].start)
				start = caller_of[i].start;
			if (end < caller_of[i].end)
				end = caller_of[i].end;
		}
		if (n >= 0)
			ns[n] = end - start;
	}

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	if (callers > 1)
		pthread_barrier_wait(&together);
	for (i = 1; i < callers; i++)
		pthread_join(caller_of[i].thread, NULL);
	for (i = 0; i < busy; i++)
		pthread_join(idlers[i], NULL);
	print_run(ns, calls);
	if (target.value == OTHER) {
		close(ask_owner[1]);
		waitpid(owner, NULL, 0);
	}
}

/* A run in a process of its own, whose memory has been on no CPU before. */
static void run_apart(void)
{
	pid_t pid;
	int status;

	pid = fork();
	if (pid < 0)
		err(EXIT_LACK, "fork() failed");
	if (!pid) {
		run();
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		err(EXIT_FAIL, "waitpid() failed");
	if (WIFSIGNALED(status))
		errx(EXIT_FAIL, "killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		exit(WEXITSTATUS(status));
}

static struct name choose(const struct name *names, const char *arg, char opt)
{
	const struct name *n;

	for (n = names; n->name; n++)
		if (!strcmp(n->name, arg))
			return *n;
	fprintf(stderr, "madvise_bench: -%c is one of", opt);
	for (n = names; n->name; n++)
		fprintf(stderr, " %s", n->name);
	fprintf(stderr, "\n");
	exit(EXIT_USAGE);
}

static size_t parse_number(const char *arg, char opt, size_t least, size_t most)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (!isdigit((unsigned char)*arg) || *end || n < least || n > most)
		errx(EXIT_USAGE, "-%c is %zu to %zu", opt, least, most);
	return n;
}

static void explain(void)
{
	fprintf(stderr,
		"usage: madvise_bench [-H] [-k KERNEL]\n"
		"  -m process_madvise|madvise|whole  how to give the area back\n"
		"  -a DONTNEED|DONTNEED_LOCKED|FREE|COLD|WILLNEED|NORMAL  advice\n"
		"  -M anon|thp|hugetlb|file          kind of memory\n"
		"  -l adjacent|gaps|random|vmas      layout of the ranges\n"
		"  -t self|other                     whose memory it is\n"
		"  -s MIB         what is given back (256)\n"
		"  -r KIB         a range (4)\n"
		"  -n RANGES      in a call (1, 2, 4, ... 1024, a run each)\n"
		"  -c CALLERS     threads that call at the same time (1)\n"
		"  -b THREADS     that keep other CPUs busy (0)\n"
		"  -i ITERATIONS  that are timed, next to the one that counts (5)\n"
		"The first of each is the default.\n");
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "Hk:m:a:M:l:t:s:r:n:c:b:i:")) != -1) {
		switch (opt) {
		case 'H':
			print_header();
			return 0;
		case 'k':
			kernel = optarg;
			break;
		case 'm':
			method = choose(methods, optarg, opt);
			break;
		case 'a':
			advice = choose(advices, optarg, opt);
			break;
		case 'M':
			memory = choose(memories, optarg, opt);
			break;
		case 'l':
			layout = choose(layouts, optarg, opt);
			break;
		case 't':
			target = choose(targets, optarg, opt);
			break;
		case 's':
			bytes = parse_number(optarg, opt, 1, 1UL << 20) << 20;
			break;
		case 'r':
			range_bytes = parse_number(optarg, opt, 4, 1UL << 30) << 10;
			break;
		case 'n':
			ranges = parse_number(optarg, opt, 1, MAX_RANGES);
			break;
		case 'c':
			callers = parse_number(optarg, opt, 1, MAX_CALLERS);
			break;
		case 'b':
			busy = parse_number(optarg, opt, 0, CPU_SETSIZE - 1);
			break;
		case 'i':
			iterations = parse_number(optarg, opt, 0, 1000000);
			break;
		default:
			explain();
		}
	}
	if (optind != argc)
		explain();

	page_size = sysconf(_SC_PAGESIZE);
	if (range_bytes % page_size || bytes % range_bytes)
		errx(EXIT_USAGE, "the area is whole ranges, and a range whole pages of %zu bytes",
		     page_size);
	if (method.value != VECTOR && target.value == OTHER)
		errx(EXIT_USAGE, "madvise() reaches the caller's memory only");
	if (method.value == WHOLE &&
	    (layout.value != ADJACENT || callers > 1))
		errx(EXIT_USAGE, "-m whole goes with -l adjacent and one caller");
	if (layout.value == IN_VMAS &&
	    (memory.value == THP || memory.value == HUGETLB))
		errx(EXIT_USAGE, "-l vmas goes with small pages only");
	if (method.value == SINGLE)
		ranges = 1;
	if (method.value == WHOLE)
		ranges = bytes / range_bytes;
	find_cpus();
	pin(cpus[0]);

	if (ranges) {
		run_apart();
	} else {
		for (ranges = 1; ranges <= MAX_RANGES; ranges *= 2)
			run_apart();
	}
	return 0;
}
