// SPDX-License-Identifier: GPL-2.0
/*
 * equal: random requests on a random address space, and what became of it.
 *
 * Everything random comes from a seed. For each seed a child lays mappings of
 * all kinds side by side at fixed addresses, and then goes on in steps: memory
 * is refilled, mapped anew, locked, swapped out, shared with a child, ...; then
 * comes one request, madvise() or process_madvise(), with advice and ranges of
 * all kinds; then a line tells its result and the state of the memory. What
 * could differ by chance (addresses, other CPUs, the order in which lists of
 * pages are emptied, reclaim by itself) is kept out, so that two runs that
 * differ anywhere differ because the kernel does. Two runs are compared by who
 * calls this: one on each of two kernels, or one that gives each vector whole
 * and one that gives it range by range (-1).
 *
 * A step draws what it does from the seed and its own number alone: without the
 * steps before it, it does the same to other memory. So a case can be made
 * smaller by leaving out steps (-k), and ranges of the last step (-i).
 *
 * The columns, with tabs between them:
 *
 *   seed request	which step of which seed
 *   call advice	p: process_madvise(), m: madvise(); the advice
 *   ranges		how many; - for madvise()
 *   bytes		the sum of their lengths
 *   ret errno		what the request returned
 *   setup		hash of the results of what the step did before it
 *   pages		hash of the page table: what is there, swapped out, shared,
 *			soft-dirty, write-protected, a guard
 *   contents		hash of what the pages hold; after every 16th step of all
 *			pages, read as a program would, else of those present
 *   smaps		hash of the mappings, their flags and sizes; - where it was
 *			not looked at
 *   present swapped markers protected
 *			pages in the page table: there; swapped out; markers, as of
 *			guards; write-protected by a userfaultfd
 *   rss swap lazyfree huge locked
 *			KiB, of smaps
 *   merged		pages that are merged with others; - as smaps
 *   pool		free hugetlb pages
 *
 * Usage: equal [-1p] [-s SEED] [-n SEEDS] [-r REQUESTS] [-k STEPS] [-i RANGES]
 *		[-d DIRECTORY] [-f STEP[,STEP[,RANGE]]]
 *	  equal -t ROUNDS [-s SEED]
 *	  equal -H
 * -s: the first seed (1); -n: how many (1); -r: requests with each (50)
 * -k: only these steps, as 2,5,7-9; -i: only these ranges of the last of them
 * -p: tells, in lines that begin with #, what is done
 * -d: where a file for mappings can be made (/tmp)
 * -f: for the test of the test: tells a wrong result of the first of the steps,
 *     provided that the second is made too and the first has that range
 * -t: many threads at once, see race()
 * -H: the line of column names
 * Exit status: 0 good, 1 a child ended badly, or memory was wrong (-t), 2 wrong
 * use, 4 the machine lacks something.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/types.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../bench/pin.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#define MADV_GUARD_REMOVE	103
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE		0x08
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise	440
#endif
#ifndef __NR_mseal
#define __NR_mseal		462
#endif

typedef __u64 u64;

#define __printf(a, b)	__attribute__((format(printf, a, b)))
#define __aligned(x)	__attribute__((aligned(x)))
#ifndef BIT
#define BIT(n)		(1UL << (n))
#endif
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define EXIT_FAIL	1
#define EXIT_USAGE	2

#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define HUGE_PAGES	(HUGE / PAGE)
#define MAX_RANGES	1024
#define MAX_BYTES	0x7ffff000UL	/* what a vector takes */
#define USER_END	BIT(47)

/*
 * The area, in pages: small mappings, memory for transparent huge pages, which
 * begins at a huge page, memory of hugetlb, small mappings again. The 2 GiB
 * after it are empty, so that no range reaches anything else.
 */
#define FRONT		160
#define THP_PAGES	(2 * HUGE_PAGES)
#define HUGETLB_PAGES	(2 * HUGE_PAGES)
#define BACK		64
#define THP_AT		FRONT
#define HUGETLB_AT	(THP_AT + THP_PAGES)
#define BACK_AT		(HUGETLB_AT + HUGETLB_PAGES)
#define NR_PAGES	(BACK_AT + BACK)
#define AREA		(0x200000000000UL + HUGE - FRONT * PAGE)
#define AREA_END	(AREA + NR_PAGES * PAGE)

#define SMALL		(FRONT + BACK)

enum kind {
	HOLE,
	ANON,
	ANON_READ,
	ANON_NONE,
	LOCKED,
	LOCKED_FAULT,
	COMB,			/* each second page a VMA of its own */
	SWAPPED,
	GUARDED,
	MERGEABLE,
	UFFD_MISSING,
	UFFD_WP,
	ANON_SHARED,
	MEMFD_SHARED,
	MEMFD_PRIVATE,
	UFFD_MEMFD,
	FILE_SHARED,
	FILE_PRIVATE,
	DROPPABLE,
	SEALED,
	NR_SMALL_KINDS,
	THP = NR_SMALL_KINDS,
	HUGETLB,
	NR_KINDS
};

static const char * const kind_names[NR_KINDS] = {
	"hole", "anon", "anon-read-only", "anon-no-access", "locked",
	"locked-on-fault", "comb", "swapped", "guarded", "mergeable",
	"uffd-missing", "uffd-wp", "anon-shared", "memfd-shared",
	"memfd-private", "uffd-memfd", "file-shared", "file-private",
	"droppable", "sealed", "thp", "hugetlb",
};

/* What most requests want to be given. */
static const unsigned char kind_weights[NR_SMALL_KINDS] = {
	[HOLE] = 4, [ANON] = 16, [ANON_READ] = 3, [ANON_NONE] = 3, [LOCKED] = 4,
	[LOCKED_FAULT] = 2, [COMB] = 6, [SWAPPED] = 6, [GUARDED] = 4,
	[MERGEABLE] = 4, [UFFD_MISSING] = 4, [UFFD_WP] = 5, [ANON_SHARED] = 4,
	[MEMFD_SHARED] = 4, [MEMFD_PRIVATE] = 5, [UFFD_MEMFD] = 3,
	[FILE_SHARED] = 3, [FILE_PRIVATE] = 5, [DROPPABLE] = 2, [SEALED] = 1,
};

static const struct advice {
	const char *name;
	int advice;
	int weight;
} advices[] = {
	{ "DONTNEED", MADV_DONTNEED, 30 },
	{ "FREE", MADV_FREE, 24 },
	{ "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED, 14 },
	{ "GUARD_INSTALL", MADV_GUARD_INSTALL, 14 },
	{ "GUARD_REMOVE", MADV_GUARD_REMOVE, 6 },
	{ "COLD", MADV_COLD, 4 },
	{ "PAGEOUT", MADV_PAGEOUT, 7 },
	{ "WILLNEED", MADV_WILLNEED, 3 },
	{ "NORMAL", MADV_NORMAL, 1 },
	{ "RANDOM", MADV_RANDOM, 1 },
	{ "SEQUENTIAL", MADV_SEQUENTIAL, 1 },
	{ "REMOVE", MADV_REMOVE, 1 },
	{ "DONTFORK", MADV_DONTFORK, 1 },
	{ "DOFORK", MADV_DOFORK, 1 },
	{ "WIPEONFORK", MADV_WIPEONFORK, 1 },
	{ "KEEPONFORK", MADV_KEEPONFORK, 1 },
	{ "DONTDUMP", MADV_DONTDUMP, 1 },
	{ "DODUMP", MADV_DODUMP, 1 },
	{ "MERGEABLE", MADV_MERGEABLE, 1 },
	{ "UNMERGEABLE", MADV_UNMERGEABLE, 1 },
	{ "NOHUGEPAGE", MADV_NOHUGEPAGE, 1 },
	{ "POPULATE_READ", MADV_POPULATE_READ, 1 },
	{ "POPULATE_WRITE", MADV_POPULATE_WRITE, 1 },
	{ "7", 7, 1 },
	{ "26", 26, 1 },
	{ "104", 104, 1 },
	{ "-1", -1, 1 },
};

struct rng {
	u64 state;
};

struct list {
	bool all;
	bool has[4096];
};

static bool one_by_one, talks;
static const char *directory = "/tmp";
static struct list steps, only_ranges;
static long false_step = -1, false_needs = -1, false_range = -1;

static char * const area = (char *)AREA;
static unsigned char kinds[NR_PAGES];
static long seed, step;
static u64 setup;
static int pidfd = -1, memfd = -1, file = -1, uffd = -1, mem = -1, pagemap = -1;
static pid_t child;

static u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static void fold(u64 *hash, u64 value)
{
	*hash = mix(*hash ^ value);
}

static unsigned long draw(struct rng *rng, unsigned long below)
{
	rng->state = mix(rng->state);
	return (rng->state >> 20) % below;
}

static bool chance(struct rng *rng, int percent)
{
	return draw(rng, 100) < (unsigned long)percent;
}

static void __printf(1, 2) tell(const char *format, ...)
{
	va_list args;

	if (!talks)
		return;
	fputs("# ", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* The result of something that is not a request. */
static long did(long ret)
{
	fold(&setup, ret < 0 ? -errno : ret);
	return ret;
}

static char *at(size_t page)
{
	return area + page * PAGE;
}

/*
 * To touch memory that may not be there.
 */
static __thread sigjmp_buf fault_jump;
static __thread bool fault_expected;

static void on_fault(int sig)
{
	if (fault_expected)
		siglongjmp(fault_jump, 1);
	signal(sig, SIG_DFL);
}

static void expect_faults(void)
{
	struct sigaction action = {
		.sa_handler = on_fault,
		.sa_flags = SA_NODEFER,
	};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

static bool load(const void *from, u64 *value)
{
	bool good = false;

	__atomic_store_n(&fault_expected, true, __ATOMIC_RELAXED);
	if (!sigsetjmp(fault_jump, 0)) {
		*value = __atomic_load_n((const u64 *)from, __ATOMIC_RELAXED);
		good = true;
	}
	__atomic_store_n(&fault_expected, false, __ATOMIC_RELAXED);
	return good;
}

static bool store(void *to, u64 value)
{
	bool good = false;

	__atomic_store_n(&fault_expected, true, __ATOMIC_RELAXED);
	if (!sigsetjmp(fault_jump, 0)) {
		__atomic_store_n((u64 *)to, value, __ATOMIC_RELAXED);
		good = true;
	}
	__atomic_store_n(&fault_expected, false, __ATOMIC_RELAXED);
	return good;
}

static void stamp(size_t page, u64 value)
{
	bool good = store(at(page), value);

	if (good)
		store(at(page) + PAGE - 8, ~value);
	fold(&setup, good);
}

/* Writes to some of the pages. */
static void fill(struct rng *rng, size_t page, size_t nr, int percent)
{
	size_t i, by = 1;

	/* Of pages of hugetlb only some places: each page costs 2 MiB. */
	if (page >= HUGETLB_AT && page < BACK_AT)
		by = HUGE_PAGES / 4;
	for (i = 0; i < nr; i += by) {
		if (!chance(rng, percent))
			continue;
		/* What can be merged is not all different. */
		if (kinds[page + i] == MERGEABLE)
			stamp(page + i, 1 + draw(rng, 3));
		else
			stamp(page + i, draw(rng, LONG_MAX));
	}
}

static void touch(struct rng *rng, size_t page, size_t nr, int percent)
{
	size_t i, by = 1;
	u64 value;

	if (page >= HUGETLB_AT && page < BACK_AT)
		by = HUGE_PAGES / 4;
	for (i = 0; i < nr; i += by)
		if (chance(rng, percent))
			did(load(at(page + i), &value));
}

static long uffd_watch(size_t page, size_t nr, int mode)
{
	struct uffdio_register reg = {
		.range = { AREA + page * PAGE, nr * PAGE },
		.mode = mode,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg);
}

static void set_kinds(size_t page, size_t nr, enum kind kind)
{
	memset(kinds + page, kind, nr);
}

/* Puts a mapping over whatever is there. */
static void map(struct rng *rng, enum kind kind, size_t page, size_t nr)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1, percent;
	int prot = PROT_READ | PROT_WRITE;
	size_t i, offset = 0, size = nr * PAGE;
	void *ret;

	tell("  %s: pages %zu to %zu", kind_names[kind], page, page + nr - 1);
	percent = chance(rng, 20) ? 100 : 70;
	switch (kind) {
	case HOLE:
		if (!did(munmap(at(page), size)))
			set_kinds(page, nr, HOLE);
		return;
	case ANON_SHARED:
		flags = MAP_SHARED | MAP_ANONYMOUS;
		break;
	case MEMFD_SHARED:
	case UFFD_MEMFD:
		flags = MAP_SHARED;
		fd = memfd;
		break;
	case MEMFD_PRIVATE:
		flags = MAP_PRIVATE;
		fd = memfd;
		break;
	case FILE_SHARED:
		flags = MAP_SHARED;
		fd = file;
		break;
	case FILE_PRIVATE:
		flags = MAP_PRIVATE;
		fd = file;
		break;
	case DROPPABLE:
		flags = MAP_DROPPABLE | MAP_ANONYMOUS;
		break;
	case HUGETLB:
		flags |= MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);
		percent = 40;
		break;
	default:
		break;
	}
	if (fd >= 0)
		offset = draw(rng, SMALL - nr + 1) * PAGE;

	ret = mmap(at(page), size, prot, flags | MAP_FIXED, fd, offset);
	fold(&setup, ret == MAP_FAILED ? -errno : 0);
	if (ret == MAP_FAILED)
		return;
	set_kinds(page, nr, kind);

	switch (kind) {
	case THP:
		did(madvise(at(page), size, MADV_HUGEPAGE));
		break;
	case LOCKED:
		did(mlock(at(page), size));
		break;
	case LOCKED_FAULT:
		did(mlock2(at(page), size, MLOCK_ONFAULT));
		break;
	case MERGEABLE:
		did(madvise(at(page), size, MADV_MERGEABLE));
		break;
	case UFFD_WP:
		did(uffd_watch(page, nr, UFFDIO_REGISTER_MODE_WP));
		break;
	case UFFD_MEMFD:
		did(uffd_watch(page, nr, UFFDIO_REGISTER_MODE_WP |
			       UFFDIO_REGISTER_MODE_MISSING));
		break;
	case COMB:
		for (i = page % 2; i < nr; i += 2)
			did(madvise(at(page + i), PAGE, MADV_DONTDUMP));
		break;
	default:
		break;
	}

	if (kind == THP)
		fill(rng, page, nr, chance(rng, 50) ? 2 : 30);
	else
		fill(rng, page, nr, percent);

	switch (kind) {
	case ANON_READ:
		did(mprotect(at(page), size, PROT_READ));
		break;
	case ANON_NONE:
		did(mprotect(at(page), size, PROT_NONE));
		break;
	case SWAPPED:
		did(madvise(at(page), size, MADV_PAGEOUT));
		break;
	case GUARDED:
		for (i = 0; i < nr; i++)
			if (chance(rng, 40))
				did(madvise(at(page + i), PAGE,
					    MADV_GUARD_INSTALL));
		break;
	case UFFD_MISSING:
		did(uffd_watch(page, nr, UFFDIO_REGISTER_MODE_MISSING));
		break;
	case SEALED:
		did(mprotect(at(page), size, PROT_READ));
		did(syscall(__NR_mseal, at(page), size, 0UL));
		break;
	default:
		break;
	}
}

static enum kind draw_kind(struct rng *rng)
{
	unsigned long sum = 0, n;
	enum kind kind;

	for (kind = 0; kind < NR_SMALL_KINDS; kind++)
		sum += kind_weights[kind];
	n = draw(rng, sum);
	for (kind = 0; n >= kind_weights[kind]; kind++)
		n -= kind_weights[kind];
	return kind;
}

/* Some small pages. */
static size_t draw_small(struct rng *rng, size_t max, size_t *nr)
{
	size_t first = 0, size = FRONT;

	if (chance(rng, 25)) {
		first = BACK_AT;
		size = BACK;
	}
	*nr = 1 + draw(rng, max);
	return first + draw(rng, size - *nr + 1);
}

/* Some pages of any kind. */
static size_t draw_any(struct rng *rng, size_t max, size_t *nr)
{
	size_t first;

	switch (draw(rng, 10)) {
	case 0:
		first = THP_AT;
		break;
	case 1:
		*nr = HUGE_PAGES;
		return HUGETLB_AT + HUGE_PAGES * draw(rng, HUGETLB_PAGES /
						      HUGE_PAGES);
	default:
		return draw_small(rng, max, nr);
	}
	*nr = chance(rng, 30) ? HUGE_PAGES : 1 + draw(rng, 4 * max);
	return first + draw(rng, THP_PAGES - *nr + 1);
}

static long number_in(const char *path)
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

static long write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return ret;
}

#define KSM	"/sys/kernel/mm/ksm/"

/* Merges what can be, and waits until all is: ksmd has seen each page twice. */
static void merge(void)
{
	long scans = number_in(KSM "full_scans");
	int try;

	if (scans < 0 || !memchr(kinds, MERGEABLE, NR_PAGES))
		return;
	tell("  same pages are merged");
	if (write_to(KSM "run", "1"))
		return;
	for (try = 0; try < 5000; try++) {
		if (number_in(KSM "full_scans") >= scans + 4)
			break;
		usleep(1000);
	}
	write_to(KSM "run", "0");
	fold(&setup, number_in("/proc/self/ksm_merging_pages"));
}

static void end_child(void)
{
	if (child > 0) {
		tell("  the child ends");
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = 0;
}

static void start_child(void)
{
	end_child();
	tell("  a child shares all pages");
	fflush(stdout);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static void uffd_fill(struct rng *rng, size_t page, size_t nr)
{
	static char from[PAGE] __aligned(PAGE);
	struct uffdio_writeprotect protect = {
		.range = { AREA + page * PAGE, nr * PAGE },
		.mode = chance(rng, 60) ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};
	struct uffdio_zeropage zero = {
		.range = { AREA + page * PAGE, nr * PAGE },
	};
	size_t i;

	switch (draw(rng, 3)) {
	case 0:
		tell("  uffd protects pages %zu to %zu: %d", page,
		     page + nr - 1, (int)protect.mode);
		did(ioctl(uffd, UFFDIO_WRITEPROTECT, &protect));
		break;
	case 1:
		tell("  uffd zeroes pages %zu to %zu", page, page + nr - 1);
		did(ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
		break;
	default:
		tell("  uffd fills pages %zu to %zu", page, page + nr - 1);
		for (i = 0; i < nr; i++) {
			struct uffdio_copy copy = {
				.dst = AREA + (page + i) * PAGE,
				.src = (unsigned long)from,
				.len = PAGE,
			};

			memset(from, 1 + draw(rng, 255), 8);
			did(ioctl(uffd, UFFDIO_COPY, &copy));
		}
	}
}

/* A run of pages of a kind that has it, or nr 0. */
static size_t find_kind(struct rng *rng, enum kind first, enum kind last,
			size_t *nr)
{
	size_t page = draw(rng, NR_PAGES), i, max = 1 + draw(rng, 8);

	*nr = 0;
	for (i = 0; i < NR_PAGES; i++, page = (page + 1) % NR_PAGES)
		if (kinds[page] >= first && kinds[page] <= last)
			break;
	if (i == NR_PAGES)
		return 0;
	while (page + *nr < NR_PAGES && *nr < max &&
	       kinds[page + *nr] == kinds[page])
		++*nr;
	return page;
}

static void move(struct rng *rng)
{
	size_t from, to, nr, other;
	void *ret;

	from = draw_small(rng, 4, &nr);
	to = draw_small(rng, 4, &other);
	if (to + nr > NR_PAGES)
		to = NR_PAGES - nr;
	if (to + nr > FRONT && to < BACK_AT)
		to = FRONT - nr;
	tell("  pages %zu to %zu go to %zu", from, from + nr - 1, to);
	ret = mremap(at(from), nr * PAGE, nr * PAGE,
		     MREMAP_MAYMOVE | MREMAP_FIXED, at(to));
	fold(&setup, ret == MAP_FAILED ? -errno : 0);
	if (ret == MAP_FAILED)
		return;
	memcpy(kinds + to, kinds + from, nr);
	set_kinds(from, nr, HOLE);
}

/* One thing that is done to the memory before a request. */
static void change(struct rng *rng)
{
	static const int prots[] = {
		PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE,
		PROT_READ | PROT_WRITE,
	};
	size_t page, nr, i;
	int prot;

	switch (draw(rng, 32)) {
	case 0 ... 8:
		page = chance(rng, 40) ? draw_small(rng, 24, &nr) :
		       draw_any(rng, 24, &nr);
		tell("  fill: pages %zu to %zu", page, page + nr - 1);
		fill(rng, page, nr, nr > 100 ? 10 : 80);
		break;
	case 9:
		page = draw_any(rng, 16, &nr);
		tell("  read: pages %zu to %zu", page, page + nr - 1);
		touch(rng, page, nr, nr > 100 ? 10 : 80);
		break;
	case 10 ... 13:
		page = draw_small(rng, 16, &nr);
		map(rng, draw_kind(rng), page, nr);
		break;
	case 14:
		if (chance(rng, 60))
			map(rng, THP, THP_AT + HUGE_PAGES * draw(rng, 2),
			    HUGE_PAGES);
		else
			map(rng, HUGETLB, HUGETLB_AT + HUGE_PAGES *
			    draw(rng, 2), HUGE_PAGES);
		break;
	case 15:
		page = draw_any(rng, 12, &nr);
		prot = prots[draw(rng, ARRAY_SIZE(prots))];
		tell("  protect: pages %zu to %zu: %d", page, page + nr - 1,
		     prot);
		did(mprotect(at(page), nr * PAGE, prot));
		break;
	case 16:
		page = draw_small(rng, 12, &nr);
		tell("  lock: pages %zu to %zu", page, page + nr - 1);
		did(mlock2(at(page), nr * PAGE,
			   chance(rng, 50) ? MLOCK_ONFAULT : 0));
		break;
	case 17 ... 18:
		page = draw_any(rng, 64, &nr);
		tell("  unlock: pages %zu to %zu", page, page + nr - 1);
		did(munlock(at(page), nr * PAGE));
		break;
	case 19 ... 20:
		page = draw_any(rng, 16, &nr);
		tell("  swap out: pages %zu to %zu", page, page + nr - 1);
		did(madvise(at(page), nr * PAGE, MADV_PAGEOUT));
		break;
	case 21:
		page = draw_small(rng, 12, &nr);
		tell("  guard some of pages %zu to %zu", page, page + nr - 1);
		for (i = 0; i < nr; i++)
			if (chance(rng, 50))
				did(madvise(at(page + i), PAGE,
					    MADV_GUARD_INSTALL));
		break;
	case 22 ... 23:
		page = draw_any(rng, 64, &nr);
		tell("  no guard: pages %zu to %zu", page, page + nr - 1);
		did(madvise(at(page), nr * PAGE, MADV_GUARD_REMOVE));
		break;
	case 24 ... 25:
		page = find_kind(rng, UFFD_MISSING, UFFD_MEMFD, &nr);
		if (nr)
			uffd_fill(rng, page, nr);
		break;
	case 26:
		move(rng);
		break;
	case 27:
		if (chance(rng, 50)) {
			tell("  no page is soft-dirty any more");
			did(write_to("/proc/self/clear_refs", "4"));
		} else if (chance(rng, 30)) {
			merge();
		}
		break;
	case 28:
		start_child();
		break;
	case 29:
		end_child();
		break;
	case 30:
		if (chance(rng, 50))
			map(rng, THP, THP_AT + HUGE_PAGES * draw(rng, 2),
			    HUGE_PAGES);
		break;
	case 31:
		tell("  no guard, no lock: all pages");
		did(madvise(area, THP_AT * PAGE, MADV_GUARD_REMOVE));
		did(madvise(at(THP_AT), THP_PAGES * PAGE, MADV_GUARD_REMOVE));
		did(munlock(area, THP_AT * PAGE));
		fill(rng, 0, FRONT, 50);
		fill(rng, BACK_AT, BACK, 50);
		break;
	}
}

/*
 * A request.
 */
struct request {
	const struct advice *advice;
	bool vector;
	bool bad_fd;
	bool bad_vec;
	unsigned int flags;
	size_t nr;
	struct iovec vec[MAX_RANGES + 1];
};

/* Whether the advice is likely to be taken. */
static bool suits(int advice, enum kind kind)
{
	switch (advice) {
	case MADV_GUARD_INSTALL:
	case MADV_GUARD_REMOVE:
		return kind == ANON || kind == COMB || kind == SWAPPED ||
		       kind == GUARDED || kind == MERGEABLE ||
		       kind == UFFD_MISSING || kind == UFFD_WP || kind == THP ||
		       kind == ANON_NONE;
	case MADV_FREE:
		return kind == ANON || kind == COMB || kind == SWAPPED ||
		       kind == GUARDED || kind == MERGEABLE ||
		       kind == UFFD_WP || kind == THP || kind == ANON_READ ||
		       kind == ANON_NONE || kind == UFFD_MISSING;
	case MADV_DONTNEED_LOCKED:
		return kind != HOLE && kind != SEALED;
	default:
		return kind != HOLE && kind != SEALED && kind != LOCKED &&
		       kind != LOCKED_FAULT;
	}
}

static const unsigned long odd_lengths[] = {
	-1UL, -4095UL, -4096UL, -8192UL, LONG_MAX, LONG_MAX + 1UL, BIT(47),
	BIT(62),
};

static void draw_range(struct rng *rng, const struct request *req,
		       struct iovec *range, bool tame)
{
	size_t page, nr, len, i;
	int try;

	page = draw_any(rng, 8, &nr);
	if (chance(rng, 60) && nr < HUGE_PAGES)
		nr = 1 + draw(rng, 2);
	if (tame) {
		for (try = 0; try < 30 && !suits(req->advice->advice,
						 kinds[page]); try++)
			page = draw_any(rng, 8, &i);
		for (i = 1; i < nr && page + i < NR_PAGES; i++)
			if (!suits(req->advice->advice, kinds[page + i]))
				break;
		nr = i;
	} else if (chance(rng, 10)) {
		nr = 1 + draw(rng, NR_PAGES - page);
	}
	/* Of hugetlb a whole page, now and then a part. */
	if (kinds[page] == HUGETLB && (tame || chance(rng, 80))) {
		page -= (page - HUGETLB_AT) % HUGE_PAGES;
		nr = HUGE_PAGES;
	}
	len = nr * PAGE;
	range->iov_base = at(page);
	if (tame) {
		if (chance(rng, 4))
			len -= 1 + draw(rng, PAGE - 1);
		if (chance(rng, 2))
			len = 0;
		range->iov_len = len;
		return;
	}
	switch (draw(rng, 60)) {
	case 0 ... 2:
		range->iov_base = at(page) + 1 + draw(rng, PAGE - 1);
		break;
	case 3:
		range->iov_base = at(page) + 1 + draw(rng, PAGE - 1);
		len = 0;
		break;
	case 4 ... 6:
		len = 0;
		break;
	case 7 ... 10:
		len -= 1 + draw(rng, PAGE - 1);
		break;
	case 11:
		len = -(unsigned long)range->iov_base + draw(rng, 3) * PAGE;
		break;
	case 12:
		/* Only those that wrap: the others are all of memory. */
		len = odd_lengths[draw(rng, req->vector ?
				       ARRAY_SIZE(odd_lengths) : 3)];
		break;
	case 13:
		if (req->vector)
			len = 0x7fffffff + draw(rng, 2) * PAGE;
		break;
	case 14:
		if (chance(rng, 50))
			range->iov_base = (void *)(draw(rng, 2) ? -HUGE :
						   USER_END);
		break;
	}
	range->iov_len = len;
}

static void draw_request(struct rng *rng, struct request *req)
{
	unsigned long sum = 0, n, i;
	size_t page, len, by, nr;
	bool tame, sorted;

	memset(req, 0, offsetof(struct request, vec));
	for (i = 0; i < ARRAY_SIZE(advices); i++)
		sum += advices[i].weight;
	n = draw(rng, sum);
	for (i = 0; n >= (unsigned long)advices[i].weight; i++)
		n -= advices[i].weight;
	req->advice = &advices[i];

	req->vector = chance(rng, 80);
	tame = chance(rng, 65);
	if (!req->vector) {
		req->nr = 1;
		draw_range(rng, req, req->vec, tame);
		return;
	}
	if (!tame) {
		req->flags = chance(rng, 2);
		req->bad_fd = chance(rng, 2);
		req->bad_vec = chance(rng, 2);
	}
	n = draw(rng, 100);
	if (n < 3)
		req->nr = 0;
	else if (n < 12)
		req->nr = 1;
	else if (n < 55)
		req->nr = 2 + draw(rng, 7);
	else if (n < 90)
		req->nr = 9 + draw(rng, 56);
	else if (n < 98)
		req->nr = 65 + draw(rng, MAX_RANGES - 64);
	else
		req->nr = MAX_RANGES + draw(rng, 2);

	if (chance(rng, 15)) {
		/* What an allocator has: many pieces in a row. */
		page = chance(rng, 50) ? draw_small(rng, 16, &nr) :
		       THP_AT + draw(rng, HUGE_PAGES);
		len = 1 + draw(rng, 2);
		by = len + draw(rng, 3);
		for (i = 0; i < req->nr; i++) {
			size_t j = (page + i * by) % NR_PAGES;

			req->vec[i].iov_base = at(j);
			req->vec[i].iov_len = len * PAGE;
			if (tame && !suits(req->advice->advice, kinds[j]))
				req->vec[i].iov_len = 0;
		}
		return;
	}
	sorted = chance(rng, 25);
	for (i = 0; i < req->nr; i++) {
		if (i && chance(rng, 8))
			req->vec[i] = req->vec[draw(rng, i)];
		else
			draw_range(rng, req, &req->vec[i], tame);
	}
	/* In the order of addresses. */
	for (i = 1; sorted && req->nr <= 64 && i < req->nr; i++) {
		struct iovec range = req->vec[i];

		for (n = i; n && req->vec[n - 1].iov_base > range.iov_base; n--)
			req->vec[n] = req->vec[n - 1];
		req->vec[n] = range;
	}
}

static long give_vector(const struct request *req, const struct iovec *vec,
			size_t nr)
{
	return syscall(__NR_process_madvise, req->bad_fd ? -1 : pidfd,
		       req->bad_vec ? NULL : vec, nr, req->advice->advice,
		       req->flags);
}

static long refuse(int error)
{
	errno = error;
	return -1;
}

/*
 * The same, one range after the other, and the result that the vector would
 * have. What is refused for the vector as a whole is found out here.
 */
static long give_one_by_one(struct request *req)
{
	struct iovec *vec = req->vec;
	size_t total = 0, done = 0, i;
	long ret;

	if (req->flags || req->bad_fd || req->bad_vec || !req->nr ||
	    req->nr > MAX_RANGES)
		return give_vector(req, vec, req->nr);
	for (i = 0; i < req->nr; i++)
		if ((ssize_t)vec[i].iov_len < 0)
			return refuse(EINVAL);
	/* A single range is cut before it is looked at, ranges of many after. */
	if (req->nr == 1 && vec[0].iov_len > MAX_BYTES)
		vec[0].iov_len = MAX_BYTES;
	for (i = 0; i < req->nr; i++) {
		unsigned long start = (unsigned long)vec[i].iov_base;

		if (start >= USER_END || vec[i].iov_len > USER_END ||
		    start + vec[i].iov_len >= USER_END)
			return refuse(EFAULT);
		if (vec[i].iov_len > MAX_BYTES - total)
			vec[i].iov_len = MAX_BYTES - total;
		total += vec[i].iov_len;
	}
	if (give_vector(req, NULL, 0))
		return -1;
	if (!total)
		return 0;
	/* An empty range is looked at only where the vector begins with it. */
	if (!vec[0].iov_len && (unsigned long)vec[0].iov_base % PAGE)
		return refuse(EINVAL);
	for (i = 0; i < req->nr; i++) {
		if (!vec[i].iov_len)
			continue;
		if (i % 2) {
			ret = madvise(vec[i].iov_base, vec[i].iov_len,
				      req->advice->advice);
		} else {
			ret = give_vector(req, &vec[i], 1);
			if (ret >= 0 && ret != (long)vec[i].iov_len)
				return ret;
		}
		if (ret < 0)
			return done ? (long)done : ret;
		done += vec[i].iov_len;
	}
	return done;
}

static void tell_request(const struct request *req)
{
	size_t i, shown = 0;

	if (!talks)
		return;
	tell("step %ld: %s %s, %zu ranges%s%s%s", step,
	     req->vector ? "process_madvise" : "madvise", req->advice->name,
	     req->nr, req->flags ? ", flags 1" : "",
	     req->bad_fd ? ", no pidfd" : "", req->bad_vec ? ", no vector" : "");
	for (i = 0; i < req->nr && shown < 40; i++, shown++) {
		unsigned long start = (unsigned long)req->vec[i].iov_base;
		size_t page = (start - AREA) / PAGE;

		if (start >= AREA && start < AREA_END)
			tell("  page %zu+%lu, %#lx bytes, %s", page,
			     start % PAGE, (unsigned long)req->vec[i].iov_len,
			     kind_names[kinds[page]]);
		else
			tell("  address %#lx, %#lx bytes", start,
			     (unsigned long)req->vec[i].iov_len);
	}
	if (i < req->nr)
		tell("  ...");
}

/*
 * What can be seen of the memory.
 */
struct state {
	u64 pages, contents, smaps;
	unsigned long present, swapped, markers, protected;
	unsigned long rss, swap, lazyfree, huge, locked;
};

#define PM_PRESENT	BIT(63)
#define PM_SWAP		BIT(62)
#define PM_UFFD_WP	BIT(57)
#define PM_FLAGS	(0x7fUL << 55)
#define PM_SWAP_TYPE	0x1fUL
#define PM_FRAME	(BIT(55) - 1)

static u64 entries[NR_PAGES];

static void see_pages(struct state *state)
{
	ssize_t want = sizeof(entries), got;
	size_t i;

	got = pread(pagemap, entries, want, AREA / PAGE * 8);
	if (got != want)
		err(EXIT_LACK, "no pagemap");
	for (i = 0; i < NR_PAGES; i++) {
		u64 entry = entries[i], seen;

		seen = entry & (PM_PRESENT | PM_SWAP | PM_FLAGS);
		/* A place on the swap disk is by chance; a marker is not. */
		if (entry & PM_SWAP && entry & PM_SWAP_TYPE) {
			seen |= entry & PM_FRAME;
			state->markers++;
		} else if (entry & PM_SWAP) {
			state->swapped++;
		}
		fold(&state->pages, seen);
		state->present += !!(entry & PM_PRESENT);
		state->protected += !!(entry & PM_UFFD_WP);
	}
}

static void see_page_without_rights(struct state *state, const char *page)
{
	u64 value = 0;

	fold(&state->contents,
	     pread(mem, &value, 8, (unsigned long)page) < 0 ? errno : 8);
	fold(&state->contents, value);
}

/* Each page's first and last word: more is never written. */
static void see_contents(struct state *state, bool all)
{
	static size_t i;

	i = 0;
	__atomic_store_n(&fault_expected, true, __ATOMIC_RELAXED);
	/* Here it goes on after a page that cannot be read. */
	if (sigsetjmp(fault_jump, 0))
		see_page_without_rights(state, at(i++));
	for (; i < NR_PAGES; i++) {
		if (kinds[i] == HOLE || (!all && !(entries[i] & PM_PRESENT)))
			continue;
		if (kinds[i] == HUGETLB && (i - HUGETLB_AT) % (HUGE_PAGES / 4))
			continue;
		/* To read all of it would bring in huge pages again and again. */
		if (all && i >= THP_AT && i < BACK_AT &&
		    !(entries[i] & (PM_PRESENT | PM_SWAP)))
			continue;
		fold(&state->contents, i);
		fold(&state->contents,
		     __atomic_load_n((u64 *)at(i), __ATOMIC_RELAXED));
		fold(&state->contents,
		     __atomic_load_n((u64 *)(at(i) + PAGE - 8),
				     __ATOMIC_RELAXED));
	}
	__atomic_store_n(&fault_expected, false, __ATOMIC_RELAXED);
}

/* The number in a line of smaps that begins with this name. */
static bool is_field(const char *line, const char *name, unsigned long *sum)
{
	size_t len = strlen(name);

	if (strncmp(line, name, len))
		return false;
	*sum += strtoul(line + len, NULL, 10);
	return true;
}

static void see_line(struct state *state, const char *line, size_t len)
{
	unsigned long pss = 0;
	size_t i;

	/* What the CPU sets by itself, and a sum of fractions */
	if (is_field(line, "Referenced:", &pss) || is_field(line, "Pss", &pss))
		return;
	if (!is_field(line, "Rss:", &state->rss) &&
	    !is_field(line, "Swap:", &state->swap) &&
	    !is_field(line, "Locked:", &state->locked) &&
	    !is_field(line, "LazyFree:", &state->lazyfree))
		is_field(line, "AnonHugePages:", &state->huge);
	for (i = 0; i < len; i++)
		state->smaps = (state->smaps ^ (unsigned char)line[i]) *
			       0x100000001b3;
}

/* By hand: stdio would allocate, and reads more than is wanted. */
static void see_smaps(struct state *state)
{
	static char text[65536];
	int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	size_t have = 0, from;
	unsigned long start = 0;
	bool inside = false;
	char *end, *rest;
	ssize_t got;

	do {
		got = read(fd, text + have, sizeof(text) - 1 - have);
		if (got < 0)
			err(EXIT_LACK, "no smaps");
		have += got;
		text[have] = 0;
		for (from = 0; (end = strchr(text + from, '\n'));
		     from = end + 1 - text) {
			*end = 0;
			rest = text + from;
			/* Field names begin with capitals. */
			if (*rest >= 'A' && *rest <= 'Z') {
				if (inside)
					see_line(state, rest, end - rest);
				continue;
			}
			start = strtoul(rest, NULL, 16);
			inside = start >= AREA && start < AREA_END;
			/* Addresses and rights; not the inode. */
			rest = strchr(rest, ' ');
			if (inside && rest)
				see_line(state, text + from,
					 rest + 5 - (text + from));
		}
		have -= from;
		memmove(text, text + from, have);
	} while (got > 0 && start < AREA_END);
	close(fd);
}

#define POOL	"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static const char columns[] =
	"seed\trequest\tcall\tadvice\tranges\tbytes\tret\terrno\tsetup\tpages\t"
	"contents\tsmaps\tpresent\tswapped\tmarkers\tprotected\trss\tswap\t"
	"lazyfree\thuge\tlocked\tmerged\tpool\n";

static void record(const struct request *req, size_t bytes, long ret,
		   int error)
{
	static char *cold;
	struct state state = {};
	bool all = step % 16 == 0, smaps = all || step % 5 == 1;
	long pool;

	/* Empties this CPU's lists, which hold what is to be lazily freed. */
	if (!cold)
		cold = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(cold, PAGE, MADV_COLD);

	see_pages(&state);
	pool = number_in(POOL);
	if (smaps)
		see_smaps(&state);
	see_contents(&state, all);

	printf("%ld\t%ld\t%c\t%s\t", seed, step, req->vector ? 'p' : 'm',
	       req->advice->name);
	if (req->vector)
		printf("%zu", req->nr);
	else
		printf("-");
	printf("\t%zu\t%ld\t%d\t%08x\t%08x\t%08x\t", bytes, ret, error,
	       (unsigned int)setup, (unsigned int)state.pages, (unsigned int)state.contents);
	if (smaps)
		printf("%08x", (unsigned int)(state.smaps >> 32));
	else
		printf("-");
	printf("\t%lu\t%lu\t%lu\t%lu", state.present, state.swapped,
	       state.markers, state.protected);
	if (smaps)
		printf("\t%lu\t%lu\t%lu\t%lu\t%lu\t%ld", state.rss,
		       state.swap, state.lazyfree, state.huge, state.locked,
		       number_in("/proc/self/ksm_merging_pages"));
	else
		printf("\t-\t-\t-\t-\t-\t-");
	printf("\t%ld\n", pool);
}

/* Keeps those of the ranges that -i names. */
static void leave_out(struct request *req)
{
	size_t i, kept = 0;

	for (i = 0; i < req->nr; i++)
		if (only_ranges.has[i])
			req->vec[kept++] = req->vec[i];
	req->nr = kept;
}

static void make_step(bool last)
{
	static struct request req;
	struct rng rng = { mix(mix(seed) ^ step * 0x1234567) };
	size_t bytes = 0, i;
	bool wrong;
	int error = 0, n;
	long ret;

	setup = 0;
	tell("before step %ld", step);
	for (n = draw(&rng, 4); n > 0; n--)
		change(&rng);
	draw_request(&rng, &req);
	wrong = step == false_step && steps.has[false_needs];
	if (wrong && req.vector && false_range >= 0) {
		/* Drawn from those that it has, for a request of any size. */
		if (req.nr)
			false_range %= req.nr;
		wrong = only_ranges.all || only_ranges.has[false_range];
	}
	if (last && req.vector && !only_ranges.all)
		leave_out(&req);
	tell_request(&req);
	for (i = 0; i < req.nr; i++)
		bytes += req.vec[i].iov_len;

	if (!req.vector)
		ret = madvise(req.vec[0].iov_base, req.vec[0].iov_len,
			      req.advice->advice);
	else if (one_by_one)
		ret = give_one_by_one(&req);
	else
		ret = give_vector(&req, req.vec, req.nr);
	if (ret < 0)
		error = errno;
	record(&req, bytes, ret + wrong, error);
}

static void open_files(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS |
			    UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	char path[PATH_MAX];
	char page[PAGE] = {};
	size_t i;

	pidfd = syscall(__NR_pidfd_open, getpid(), 0);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	memfd = memfd_create("equal", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "%s/equal.%d", directory, (int)getpid());
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (pidfd < 0 || mem < 0 || pagemap < 0 || memfd < 0 || file < 0)
		err(EXIT_LACK, "no pidfd, /proc/self/mem, memfd or file %s",
		    path);
	unlink(path);
	if (ftruncate(memfd, SMALL * PAGE))
		err(EXIT_LACK, "memfd");
	for (i = 0; i < SMALL; i++) {
		page[0] = 1 + i % 255;
		if (pwrite(file, page, PAGE, i * PAGE) != (ssize_t)PAGE ||
		    (i % 2 && pwrite(memfd, page, PAGE, i * PAGE) !=
			      (ssize_t)PAGE))
			err(EXIT_LACK, "file or memfd");
	}

	/* Where it cannot be had, all that needs it fails, always the same. */
	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd >= 0)
		ioctl(uffd, UFFDIO_API, &api);
}

static void lay_out(void)
{
	struct rng rng = { mix(seed) };
	size_t page, nr, end;

	if (mmap(area, NR_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_FIXED_NOREPLACE, -1, 0) != area)
		err(EXIT_LACK, "the addresses are taken");
	munmap(area, NR_PAGES * PAGE);

	tell("seed %ld", seed);
	for (page = 0; page < NR_PAGES; page += nr) {
		if (page == THP_AT)
			page = BACK_AT;
		end = page < FRONT ? FRONT : NR_PAGES;
		nr = 1 + draw(&rng, chance(&rng, 50) ? 6 : 24);
		if (nr > end - page)
			nr = end - page;
		map(&rng, draw_kind(&rng), page, nr);
	}
	for (page = THP_AT; page < HUGETLB_AT; page += HUGE_PAGES)
		if (chance(&rng, 60))
			map(&rng, THP, page, HUGE_PAGES);
	for (page = HUGETLB_AT; page < BACK_AT; page += HUGE_PAGES)
		if (chance(&rng, 60))
			map(&rng, HUGETLB, page, HUGE_PAGES);
}

static int run_seed(long requests)
{
	long last = requests;

	alarm(300);
	expect_faults();
	open_files();
	lay_out();
	while (last > 1 && !steps.has[last])
		last--;
	for (step = 1; step <= last; step++)
		if (steps.has[step])
			make_step(step == last);
	end_child();
	return fflush(stdout) ? EXIT_FAIL : 0;
}

/* 2,5,7-9 */
static void parse_list(const char *text, struct list *list)
{
	unsigned long from, to;
	char *end;

	memset(list, 0, sizeof(*list));
	do {
		from = strtoul(text, &end, 10);
		to = from;
		if (end == text)
			errx(EXIT_USAGE, "%s: not a list of numbers", text);
		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		if (to >= ARRAY_SIZE(list->has) || (*end && *end != ','))
			errx(EXIT_USAGE, "%s: not a list of numbers", text);
		while (from <= to)
			list->has[from++] = true;
		text = end + 1;
	} while (*end);
}

static long parse_number(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (end == text || *end || number < 0)
		errx(EXIT_USAGE, "%s: not a number", text);
	return number;
}

/*
 * Many threads on one address space: two give memory back, one fills it again,
 * one reads it, one maps, locks and protects memory that nobody else cares for,
 * and meanwhile children are forked. In each chunk
 *
 *   L d d d d L d d d d L d d d d L
 *
 * L lives: nobody gives advice for it, and it must hold what it held. d is dead:
 * it may hold what is written there again and again, or 0, or be a guard. Calls
 * for dead pages alone must succeed and say so; calls that also take memory
 * that is being mapped anew may fail as such memory does.
 */
#define CHUNK		16
#define CHUNKS		64
#define WILD_AT		(CHUNKS * CHUNK)
#define WILD_PAGES	64

static struct {
	long requests, ranges, in_part, failed, fills, reads, guards, maps;
	long children;
} raced;

static long race_left;
static bool race_stop, race_bad;

static bool race_goes_on(void)
{
	return !__atomic_load_n(&race_stop, __ATOMIC_RELAXED);
}

static void count(long *counter, long n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static void __printf(1, 2) bad(const char *format, ...)
{
	va_list args;

	/* The first few tell enough. */
	if (__atomic_exchange_n(&race_bad, true, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	__atomic_store_n(&race_stop, true, __ATOMIC_RELAXED);
}

static bool lives(size_t page)
{
	return page % CHUNK % 5 == 0;
}

/* File memory, of which only some kinds of advice are for. */
static bool of_file(size_t page)
{
	return page / CHUNK % 8 == 3;
}

static u64 race_value(size_t page)
{
	return mix(seed) ^ (page + 1);
}

static void check_page(size_t page, const char *who)
{
	u64 value;

	if (!load(at(page), &value)) {
		if (lives(page) || of_file(page))
			bad("%s: page %zu cannot be read", who, page);
		count(&raced.guards, 1);
	} else if (value != race_value(page) && (value || lives(page))) {
		bad("%s: page %zu, which %s, holds %#lx instead of %#lx", who,
		    page, lives(page) ? "lives" : "is dead",
		    (unsigned long)value, (unsigned long)race_value(page));
	}
}

static void *race_adviser(void *arg)
{
	static const int file_advices[] = {
		MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_COLD,
		MADV_PAGEOUT,
	};
	static const int anon_advices[] = {
		MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_FREE,
		MADV_FREE, MADV_FREE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE,
		MADV_COLD, MADV_PAGEOUT,
	};
	struct rng rng = { mix(seed) ^ (unsigned long)arg };
	struct iovec vec[128];

	while (race_goes_on()) {
		bool files = chance(&rng, 20), wild = chance(&rng, 20);
		size_t nr = 1 + draw(&rng, chance(&rng, 70) ? 8 : 128), i;
		ssize_t want = 0, ret;
		int advice;

		advice = files ? file_advices[draw(&rng, ARRAY_SIZE(file_advices))] :
			 anon_advices[draw(&rng, ARRAY_SIZE(anon_advices))];
		for (i = 0; i < nr; i++) {
			size_t page, first;

			do {
				page = draw(&rng, CHUNKS * CHUNK);
			} while (lives(page) || (!files && of_file(page)));
			/* Not as far as the next that lives. */
			first = page % CHUNK % 5;
			vec[i].iov_base = at(page);
			vec[i].iov_len = PAGE * (1 + draw(&rng, 5 - first));
			if (wild && chance(&rng, 10)) {
				page = WILD_AT + draw(&rng, WILD_PAGES - 4);
				vec[i].iov_base = at(page);
			}
			want += vec[i].iov_len;
		}
		ret = syscall(__NR_process_madvise, pidfd, vec, nr, advice, 0U);
		if (ret < 0 && (!wild || (errno != EINVAL && errno != ENOMEM)))
			bad("advice %d, %zu ranges%s: errno %d", advice, nr,
			    wild ? ", some wild" : "", errno);
		if (ret >= 0 && ret != want && (!wild || ret > want))
			bad("advice %d, %zu ranges%s: %zd bytes of %zd", advice,
			    nr, wild ? ", some wild" : "", ret, want);
		count(&raced.requests, 1);
		count(&raced.ranges, nr);
		count(&raced.failed, ret < 0);
		count(&raced.in_part, ret >= 0 && ret < want);
		if (__atomic_sub_fetch(&race_left, 1, __ATOMIC_RELAXED) <= 0)
			__atomic_store_n(&race_stop, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *race_filler(void *arg)
{
	struct rng rng = { mix(seed) ^ (unsigned long)arg };

	while (race_goes_on()) {
		size_t page = draw(&rng, CHUNKS * CHUNK);

		if (!lives(page) && store(at(page), race_value(page)))
			count(&raced.fills, 1);
	}
	return NULL;
}

static void *race_reader(void *arg)
{
	struct rng rng = { mix(seed) ^ (unsigned long)arg };

	while (race_goes_on()) {
		check_page(draw(&rng, CHUNKS * CHUNK), "reader");
		count(&raced.reads, 1);
	}
	return NULL;
}

static void *race_mapper(void *arg)
{
	struct rng rng = { mix(seed) ^ (unsigned long)arg };

	while (race_goes_on()) {
		size_t nr = 1 + draw(&rng, 16);
		char *addr = at(WILD_AT + draw(&rng, WILD_PAGES - nr + 1));

		switch (draw(&rng, 5)) {
		case 0:
			munmap(addr, nr * PAGE);
			break;
		case 1:
			mprotect(addr, nr * PAGE, draw(&rng, 4));
			break;
		case 2:
			mlock2(addr, nr * PAGE, MLOCK_ONFAULT);
			break;
		case 3:
			madvise(addr, nr * PAGE, MADV_DONTDUMP);
			break;
		default:
			mmap(addr, nr * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			store(addr, 1);
		}
		count(&raced.maps, 1);
	}
	return NULL;
}

static void race_child(void)
{
	size_t page;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		for (page = 0; page < CHUNKS * CHUNK; page++)
			check_page(page, "child");
		_exit(race_bad);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad("a child did not end well");
	count(&raced.children, 1);
}

static int race(long requests)
{
	static void * (* const mains[])(void *arg) = {
		race_adviser, race_adviser, race_filler, race_reader,
		race_mapper,
	};
	pthread_t threads[ARRAY_SIZE(mains)];
	int flags = MAP_FIXED_NOREPLACE | MAP_PRIVATE, memory, fd;
	unsigned long i;

	alarm(300);
	expect_faults();
	race_left = requests;
	pidfd = syscall(__NR_pidfd_open, getpid(), 0);
	memory = memfd_create("equal", MFD_CLOEXEC);
	if (pidfd < 0 || memory < 0 || ftruncate(memory, CHUNK * PAGE))
		err(EXIT_LACK, "no pidfd or memfd");
	for (i = 0; i <= CHUNKS; i++) {
		fd = of_file(i * CHUNK) ? memory : -1;
		if (mmap(at(i * CHUNK), (i < CHUNKS ? CHUNK : WILD_PAGES) * PAGE,
			 PROT_READ | PROT_WRITE,
			 flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0) !=
		    at(i * CHUNK))
			err(EXIT_LACK, "the addresses are taken");
		if (i % 2)
			madvise(at(i * CHUNK), CHUNK * PAGE, MADV_DONTDUMP);
	}
	for (i = 0; i < CHUNKS * CHUNK; i++)
		store(at(i), race_value(i));

	for (i = 0; i < ARRAY_SIZE(threads); i++)
		if (pthread_create(&threads[i], NULL, mains[i], (void *)(i + 1)))
			err(EXIT_LACK, "no thread");
	do {
		race_child();
	} while (race_goes_on());
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < CHUNKS * CHUNK; i++)
		check_page(i, "at the end");
	printf("%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%s\n", seed,
	       raced.requests, raced.ranges, raced.in_part, raced.failed,
	       raced.fills, raced.reads, raced.guards, raced.maps,
	       raced.children, race_bad ? "bad" : "good");
	return race_bad;
}

static const char race_columns[] =
	"seed\trequests\tranges\tin_part\tfailed\tfills\treads\tguards\tmaps\t"
	"children\tverdict\n";

int main(int argc, char **argv)
{
	long seeds = 1, requests = 50, race_requests = 0, n;
	int opt, status, result = 0;
	cpu_set_t set;
	pid_t pid;

	seed = 1;
	memset(&steps, true, sizeof(steps));
	memset(&only_ranges, true, sizeof(only_ranges));
	while ((opt = getopt(argc, argv, "1ps:n:r:k:i:d:f:t:H")) != -1) {
		switch (opt) {
		case '1':
			one_by_one = true;
			break;
		case 'p':
			talks = true;
			break;
		case 's':
			seed = parse_number(optarg);
			break;
		case 'n':
			seeds = parse_number(optarg);
			break;
		case 'r':
			requests = parse_number(optarg);
			break;
		case 'k':
			parse_list(optarg, &steps);
			break;
		case 'i':
			parse_list(optarg, &only_ranges);
			break;
		case 'd':
			directory = optarg;
			break;
		case 'f':
			n = sscanf(optarg, "%ld,%ld,%ld", &false_step,
				   &false_needs, &false_range);
			if (n < 2)
				false_needs = false_step;
			if (n < 1 || false_needs < 0 ||
			    false_needs >= (long)ARRAY_SIZE(steps.has))
				errx(EXIT_USAGE, "%s: not a step", optarg);
			break;
		case 't':
			race_requests = parse_number(optarg);
			break;
		case 'H':
			fputs(columns, stdout);
			fputs(race_columns, stdout);
			return 0;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc || requests >= (long)ARRAY_SIZE(steps.has))
		errx(EXIT_USAGE, "wrong use");
	if (sysconf(_SC_PAGESIZE) != (long)PAGE)
		errx(EXIT_LACK, "pages are not of 4 KiB");
	if (race_requests)
		return race(race_requests);

	if (sched_getaffinity(0, sizeof(set), &set))
		err(EXIT_LACK, "no CPU");
	for (n = CPU_SETSIZE - 1; n > 0 && !CPU_ISSET(n, &set); n--)
		;
	pin(n);
	/* A child for each seed: one that crashes is a result too. */
	for (n = 0; n < seeds; n++, seed++) {
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(run_seed(requests));
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			err(EXIT_LACK, "no child");
		if (!status)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LACK)
			return EXIT_LACK;
		printf("%ld\t0\tended\t%#x\n", seed, status);
		result = EXIT_FAIL;
	}
	return result;
}
