// SPDX-License-Identifier: GPL-2.0
/*
 * Guards and memory given back, by many threads and processes at once, while
 * the same memory is written, swapped, merged, moved, protected and unmapped.
 *
 * OWNERS threads have an area each that nobody else uses, and know of every page
 * of it whether it is a guard and what it holds. WRITERS threads do nothing but
 * write to an area that all share, so that requests there lose their races with
 * page faults. Owners fork now and then; the child goes on with its copy of the
 * owner's area, and the parent with its own, at the same time.
 *
 *   |  area of owner 0  |scratch|  area of owner 1  |scratch| ... | shared |
 *
 * Nobody maps memory at an address that the kernel chooses, as that could be
 * where another thread has just moved something away.
 *
 * Usage: madvise_stress [SECONDS], by default 20
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../kselftest.h"
#include "vm_util.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#endif

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#define MADV_GUARD_REMOVE	103
#endif

#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#endif

#define OWNERS		3
#define WRITERS		2
#define BLOCKS		2	/* of an owner's area, each may be a huge page */
#define MAX_BLOCK	1024	/* pages */
#define MAX_RANGES	64
#define MAX_MOVED	64	/* pages, where it is not a whole block */
#define CHILD_STEPS	40
#define MORE		120	/* seconds that what is rare may take beyond */
#define GRACE		120	/* seconds to end in */

#define SHARED_TAG	0xa5000000UL
#define KSM		"/sys/kernel/mm/ksm/"

/* What is done. Each of these must have happened, or nothing was tested. */
enum op {
	/* one range, by madvise() */
	OP_INSTALL,
	OP_REMOVE,
	OP_DONTNEED,
	OP_DONTNEED_LOCKED,
	OP_FREE,
	OP_COLD,
	OP_WILLNEED,
	OP_PAGEOUT,
	OP_HUGEPAGE,
	OP_NOHUGEPAGE,
	OP_MERGEABLE,
	OP_UNMERGEABLE,
	NR_ADVICES,
	/* the same in vectors, then the rest */
	OP_PAGEOUT_CHILD = 2 * NR_ADVICES,
	OP_COLLAPSE,
	OP_POPULATE,
	OP_POPULATE_GUARD,
	OP_WRITE,
	OP_WRITE_GUARD,
	OP_WRITE_SHARED,
	OP_WRITE_SHARED_FAULT,
	OP_MREMAP,
	OP_MREMAP_BLOCK,
	OP_MREMAP_SHARED,
	OP_MPROTECT,
	OP_MUNMAP,
	OP_MMAP_OVER,
	OP_FORK,
	OP_CHILD_ENDED,
	OP_CHILD_KILLED,
	OP_SWAPOFF,
	OP_SWAPPED,
	OP_MERGED,
	NR_OPS
};

static const char *const op_names[] = {
	[OP_INSTALL] = "MADV_GUARD_INSTALL",
	[OP_REMOVE] = "MADV_GUARD_REMOVE",
	[OP_DONTNEED] = "MADV_DONTNEED",
	[OP_DONTNEED_LOCKED] = "MADV_DONTNEED_LOCKED",
	[OP_FREE] = "MADV_FREE",
	[OP_COLD] = "MADV_COLD",
	[OP_WILLNEED] = "MADV_WILLNEED",
	[OP_PAGEOUT] = "MADV_PAGEOUT",
	[OP_HUGEPAGE] = "MADV_HUGEPAGE",
	[OP_NOHUGEPAGE] = "MADV_NOHUGEPAGE",
	[OP_MERGEABLE] = "MADV_MERGEABLE",
	[OP_UNMERGEABLE] = "MADV_UNMERGEABLE",
	[OP_PAGEOUT_CHILD] = "vector of MADV_PAGEOUT for a child",
	[OP_COLLAPSE] = "MADV_COLLAPSE",
	[OP_POPULATE] = "MADV_POPULATE_READ",
	[OP_POPULATE_GUARD] = "MADV_POPULATE_READ that meets a guard",
	[OP_WRITE] = "write",
	[OP_WRITE_GUARD] = "write that meets a guard",
	[OP_WRITE_SHARED] = "write to what is shared",
	[OP_WRITE_SHARED_FAULT] = "write to what is shared that faults",
	[OP_MREMAP] = "mremap",
	[OP_MREMAP_BLOCK] = "mremap of a whole block",
	[OP_MREMAP_SHARED] = "mremap of what is shared",
	[OP_MPROTECT] = "mprotect",
	[OP_MUNMAP] = "munmap",
	[OP_MMAP_OVER] = "mmap over what is there",
	[OP_FORK] = "fork",
	[OP_CHILD_ENDED] = "child that ended by itself",
	[OP_CHILD_KILLED] = "child that was killed",
	[OP_SWAPOFF] = "swapoff",
	[OP_SWAPPED] = "page that went to swap",
	[OP_MERGED] = "page that was merged",
};

/* What must hold; the sentences are those of the results. */
enum check {
	CHECK_GUARD,
	CHECK_VALUE,
	CHECK_DISCARDED,
	CHECK_NO_GUARD,
	CHECK_RESULT,
	CHECK_SHARED,
	CHECK_CHILD,
	CHECK_END,
	NR_CHECKS
};

static const char *const check_names[] = {
	/* Whoever touches a guard, by himself or through the kernel, faults. */
	[CHECK_GUARD] = "a guard faults",
	/* A page that was written and not given back holds what was written. */
	[CHECK_VALUE] = "a page keeps what its owner wrote",
	/*
	 * A page that was given back is empty; after MADV_FREE, until it is
	 * written again, it may also be as it was.
	 */
	[CHECK_DISCARDED] = "a page given back is empty, or as it was",
	/* A page where no guard was installed, or all were removed, is usable. */
	[CHECK_NO_GUARD] = "a page that is no guard does not fault",
	/* A request on memory that only its caller uses is done, all of it. */
	[CHECK_RESULT] = "a request on own memory is done",
	/* A page that all use holds what was written to it, or nothing. */
	[CHECK_SHARED] = "a shared page holds no other page's content",
	/* A child has its parent's guards and contents when it starts. */
	[CHECK_CHILD] = "a child starts with its parent's guards and contents",
	/* Nobody ends by a signal that nobody sent, and everybody ends. */
	[CHECK_END] = "everybody ends, by himself",
};

/* Common to all processes. */
static struct {
	unsigned long done[NR_OPS];
	unsigned long failed[NR_CHECKS];
	bool stop;
} *common;

struct page {
	uint64_t value;		/* the first and last word of the page */
	bool guard;
	bool maybe_empty;	/* after MADV_FREE */
};

struct owner {
	pthread_t thread;
	char *area;
	char *scratch;
	size_t nr;
	struct page pages[BLOCKS * MAX_BLOCK];
	uint64_t random;
	uint64_t written;
	pid_t child;
	int child_fd;
};

static struct owner owners[OWNERS];
static char *shared_area;
static size_t shared_nr;
static size_t block_nr;		/* pages of a huge page */
static const char *lacks[NR_OPS];

/* In a child these differ from its parent's. */
static int self_fd;
static bool is_child, is_new_child;

static bool stopped(void)
{
	return __atomic_load_n(&common->stop, __ATOMIC_RELAXED);
}

static void did(enum op op)
{
	__atomic_add_fetch(&common->done[op], 1, __ATOMIC_RELAXED);
}

/* The first few of each kind say more. Not by stdio, whose locks fork() may meet. */
static __printf(2, 3) void fails(enum check check, const char *format, ...)
{
	char text[256];
	va_list args;
	int len;

	if (is_new_child)
		check = CHECK_CHILD;
	if (__atomic_fetch_add(&common->failed[check], 1, __ATOMIC_RELAXED) > 4)
		return;
	len = snprintf(text, sizeof(text), "# not so: %s%s: ",
		       check_names[check], is_child ? " (in a child)" : "");
	va_start(args, format);
	len += vsnprintf(text + len, sizeof(text) - len, format, args);
	va_end(args);
	if (len > (int)sizeof(text) - 2)
		len = sizeof(text) - 2;
	text[len++] = '\n';
	if (write(STDOUT_FILENO, text, len) != len)
		_exit(1);
}

static uint64_t any(struct owner *owner, uint64_t below)
{
	owner->random ^= owner->random << 13;
	owner->random ^= owner->random >> 7;
	owner->random ^= owner->random << 17;
	return owner->random % below;
}

/* Access to memory that may fault */

static __thread sigjmp_buf landing;
static __thread char *expected;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	char *word = expected;

	if (!word || info->si_addr != word) {
		fails(CHECK_END, "SIGSEGV at %p, not at %p", info->si_addr, word);
		_exit(1);
	}
	siglongjmp(landing, 1);
}

static void expect(char *word)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&expected, word, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static bool load(char *word, uint64_t *value)
{
	expect(word);
	if (sigsetjmp(landing, 0)) {
		expect(NULL);
		return false;
	}
	*value = __atomic_load_n((uint64_t *)word, __ATOMIC_RELAXED);
	expect(NULL);
	return true;
}

static bool store(char *word, uint64_t value)
{
	expect(word);
	if (sigsetjmp(landing, 0)) {
		expect(NULL);
		return false;
	}
	__atomic_store_n((uint64_t *)word, value, __ATOMIC_RELAXED);
	expect(NULL);
	return true;
}

static char *last_word(char *page)
{
	return page + psize() - sizeof(uint64_t);
}

static char *map_at(char *at, size_t nr)
{
	return mmap(at, nr * psize(), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* What an owner knows of its pages */

static void check_page(struct owner *owner, char *at, struct page *page)
{
	uint64_t first, last;
	bool good;
	int err;

	if (any(owner, 32) == 0) {
		err = madvise(at, psize(), MADV_POPULATE_READ) ? errno : 0;
		if (page->guard && err != EFAULT)
			fails(CHECK_GUARD, "%p: populate: %d", at, err);
		if (!page->guard && err)
			fails(CHECK_NO_GUARD, "%p: populate: %d", at, err);
		did(err ? OP_POPULATE_GUARD : OP_POPULATE);
	}
	if (!load(at, &first)) {
		if (!page->guard)
			fails(CHECK_NO_GUARD, "%p", at);
		return;
	}
	if (page->guard) {
		fails(CHECK_GUARD, "%p holds %#lx", at, (long)first);
		return;
	}
	if (!load(last_word(at), &last)) {
		fails(CHECK_NO_GUARD, "%p: at its end only", at);
		return;
	}
	good = first == page->value && last == page->value;
	if (page->maybe_empty && !good)
		good = last == 0 && (first == 0 || first == page->value);
	if (!good)
		fails(page->value && !page->maybe_empty ? CHECK_VALUE :
							   CHECK_DISCARDED,
		      "%p holds %#lx and %#lx, not %#lx", at, (long)first,
		      (long)last, (long)page->value);
	/* Once empty, it stays so. */
	if (last == 0 && page->maybe_empty)
		*page = (struct page){};
}

static void check_pages(struct owner *owner, size_t start, size_t nr)
{
	size_t i;

	for (i = start; i < start + nr; i++)
		check_page(owner, owner->area + i * psize(), &owner->pages[i]);
}

/* A few values that pages have in common, for KSM, and many that are unique. */
static uint64_t new_value(struct owner *owner)
{
	if (any(owner, 3) == 0)
		return 1 + any(owner, 3);
	return ++owner->written << 16 | (owner - owners) << 8 | 0xff;
}

static void write_page(struct owner *owner, size_t i)
{
	char *at = owner->area + i * psize();
	uint64_t value = new_value(owner);

	if (!store(at, value)) {
		if (!owner->pages[i].guard)
			fails(CHECK_NO_GUARD, "%p: write", at);
		did(OP_WRITE_GUARD);
		return;
	}
	if (owner->pages[i].guard)
		fails(CHECK_GUARD, "%p was written", at);
	if (!store(last_word(at), value))
		fails(CHECK_NO_GUARD, "%p: write at its end", at);
	owner->pages[i] = (struct page){ .value = value };
	did(OP_WRITE);
}

static void model_advice(struct page *page, int advice)
{
	switch (advice) {
	case MADV_GUARD_INSTALL:
		*page = (struct page){ .guard = true };
		break;
	case MADV_GUARD_REMOVE:
		page->guard = false;
		break;
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
		*page = (struct page){ .guard = page->guard };
		break;
	case MADV_FREE:
		page->maybe_empty = page->value != 0;
		break;
	}
}

/* Operations on an owner's area, and on the shared one */

static const struct {
	int advice;
	int weight;
} advices[] = {
	[OP_INSTALL] = { MADV_GUARD_INSTALL, 6 },
	[OP_REMOVE] = { MADV_GUARD_REMOVE, 4 },
	[OP_DONTNEED] = { MADV_DONTNEED, 3 },
	[OP_DONTNEED_LOCKED] = { MADV_DONTNEED_LOCKED, 1 },
	[OP_FREE] = { MADV_FREE, 3 },
	[OP_COLD] = { MADV_COLD, 1 },
	[OP_WILLNEED] = { MADV_WILLNEED, 1 },
	[OP_PAGEOUT] = { MADV_PAGEOUT, 2 },
	[OP_HUGEPAGE] = { MADV_HUGEPAGE, 1 },
	[OP_NOHUGEPAGE] = { MADV_NOHUGEPAGE, 1 },
	[OP_MERGEABLE] = { MADV_MERGEABLE, 2 },
	[OP_UNMERGEABLE] = { MADV_UNMERGEABLE, 1 },
};

#define ALL_WEIGHTS	26

static size_t any_range(struct owner *owner, size_t area_nr, size_t *nr)
{
	size_t most = any(owner, 16) ? 16 : area_nr;

	*nr = 1 + any(owner, most);
	return any(owner, area_nr - *nr + 1);
}

static void advise(struct owner *owner, bool own)
{
	char *area = own ? owner->area : shared_area;
	size_t area_nr = own ? owner->nr : shared_nr;
	size_t start[MAX_RANGES], len[MAX_RANGES], nr = 1, i, j;
	bool vector = any(owner, 2);
	struct iovec vec[MAX_RANGES];
	ssize_t ret, size = 0;
	int op, advice, weight = any(owner, ALL_WEIGHTS);

	for (op = 0; weight >= advices[op].weight; op++)
		weight -= advices[op].weight;
	advice = advices[op].advice;
	if (lacks[op])
		return;
	if (vector)
		nr = 1 + any(owner, MAX_RANGES);
	for (i = 0; i < nr; i++) {
		start[i] = any_range(owner, area_nr, &len[i]);
		vec[i].iov_base = area + start[i] * psize();
		vec[i].iov_len = len[i] * psize();
		size += vec[i].iov_len;
	}
	if (vector)
		ret = syscall(__NR_process_madvise, self_fd, vec, nr, advice, 0U);
	else
		ret = madvise(vec[0].iov_base, size, advice) ? -1 : size;

	if (!own) {
		/* Others may have unmapped a part. */
		if (ret < 0 && errno != ENOMEM)
			fails(CHECK_RESULT, "shared, %s: errno %d",
			      op_names[op], errno);
	} else {
		if (ret != size)
			fails(CHECK_RESULT, "%s, %zu ranges: %zd of %zd, errno %d",
			      op_names[op], nr, ret, size, errno);
		for (i = 0; i < nr; i++)
			for (j = start[i]; j < start[i] + len[i]; j++)
				model_advice(&owner->pages[j], advice);
		check_pages(owner, start[nr - 1], 1);
	}
	if (ret == size)
		did(vector ? NR_ADVICES + op : op);
}

static void empty_pages(struct owner *owner, size_t start, size_t nr)
{
	memset(&owner->pages[start], 0, nr * sizeof(struct page));
}

/*
 * Away to the scratch area, and perhaps back. What stays behind with
 * MREMAP_DONTUNMAP is empty, and without guards. Does not work where the range
 * has more than one VMA.
 */
static void move(struct owner *owner)
{
	static const int away = MREMAP_MAYMOVE | MREMAP_FIXED;
	int keep = any(owner, 2) ? MREMAP_DONTUNMAP : 0;
	bool whole = any(owner, 4) == 0;
	size_t nr = block_nr, start = any(owner, BLOCKS) * block_nr, i;
	uint64_t value;
	char *at;

	if (!whole) {
		nr = 1 + any(owner, MAX_MOVED);
		start = any(owner, owner->nr - nr + 1);
	}
	at = owner->area + start * psize();
	if (mremap(at, nr * psize(), nr * psize(), away | keep,
		   owner->scratch) == MAP_FAILED) {
		if (errno != EFAULT)
			fails(CHECK_RESULT, "mremap: errno %d", errno);
		return;
	}
	for (i = 0; i < nr; i++)
		check_page(owner, owner->scratch + i * psize(),
			   &owner->pages[start + i]);
	if (load(at, &value) != !!keep || (keep && value))
		fails(CHECK_DISCARDED, "%p was moved away", at);
	if (any(owner, 2) == 0) {
		if (mremap(owner->scratch, nr * psize(), nr * psize(), away,
			   at) != at)
			fails(CHECK_RESULT, "mremap back: errno %d", errno);
	} else {
		munmap(owner->scratch, nr * psize());
		if (!keep)
			map_at(at, nr);
		empty_pages(owner, start, nr);
	}
	check_pages(owner, start, nr);
	did(whole ? OP_MREMAP_BLOCK : OP_MREMAP);
}

static void protect(struct owner *owner)
{
	int prot = any(owner, 2) ? PROT_READ : PROT_NONE;
	size_t nr, start = any_range(owner, owner->nr, &nr);
	size_t i = start + any(owner, nr);
	char *at = owner->area + start * psize();
	uint64_t value;

	if (mprotect(at, nr * psize(), prot))
		fails(CHECK_RESULT, "mprotect: errno %d", errno);
	if (store(owner->area + i * psize(), 1))
		fails(CHECK_GUARD, "write to what is write-protected");
	if (prot == PROT_READ)
		check_pages(owner, i, 1);
	else if (load(owner->area + i * psize(), &value))
		fails(CHECK_GUARD, "read of what is read-protected");
	if (mprotect(at, nr * psize(), PROT_READ | PROT_WRITE))
		fails(CHECK_RESULT, "mprotect: errno %d", errno);
	check_pages(owner, start, nr);
	did(OP_MPROTECT);
}

static void unmap(struct owner *owner)
{
	size_t nr, start = any_range(owner, owner->nr, &nr);
	char *at = owner->area + start * psize();
	uint64_t value;

	if (any(owner, 2) == 0) {
		if (munmap(at, nr * psize()))
			fails(CHECK_RESULT, "munmap: errno %d", errno);
		if (load(at, &value))
			fails(CHECK_DISCARDED, "%p was unmapped", at);
		did(OP_MUNMAP);
	}
	if (map_at(at, nr) != at)
		fails(CHECK_RESULT, "mmap: errno %d", errno);
	empty_pages(owner, start, nr);
	check_pages(owner, start, nr);
	did(OP_MMAP_OVER);
}

/* A block as it is, which rarely works, or a new one with a part of its pages. */
static void collapse(struct owner *owner)
{
	size_t start = any(owner, BLOCKS) * block_nr, i;
	char *at = owner->area + start * psize();

	if (any(owner, 2)) {
		map_at(at, block_nr);
		empty_pages(owner, start, block_nr);
		for (i = 0; i < 32; i++)
			write_page(owner, start + any(owner, block_nr));
	}
	if (madvise(at, block_nr * psize(), MADV_COLLAPSE) == 0)
		did(OP_COLLAPSE);
	check_pages(owner, start, block_nr);
}

static void reap(struct owner *owner)
{
	bool killed = any(owner, 3) == 0;
	int status;

	if (!owner->child)
		return;
	if (killed)
		kill(owner->child, SIGKILL);
	waitpid(owner->child, &status, 0);
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		did(OP_CHILD_KILLED);
	else if (status == 0)
		did(OP_CHILD_ENDED);
	else
		fails(CHECK_END, "a child, with status %#x", status);
	close(owner->child_fd);
	owner->child = 0;
}

static void step(struct owner *owner);

static void fork_child(struct owner *owner)
{
	pid_t parent = getpid();
	int i;

	reap(owner);
	owner->child = fork();
	if (owner->child < 0) {
		fails(CHECK_RESULT, "fork: errno %d", errno);
		owner->child = 0;
	} else if (owner->child > 0) {
		owner->child_fd = syscall(__NR_pidfd_open, owner->child, 0);
		did(OP_FORK);
	} else {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		self_fd = syscall(__NR_pidfd_open, getpid(), 0);
		is_child = true;
		is_new_child = true;
		check_pages(owner, 0, owner->nr);
		is_new_child = false;
		for (i = 0; i < CHILD_STEPS && !stopped(); i++)
			step(owner);
		check_pages(owner, 0, owner->nr);
		_exit(0);
	}
}

/* The child may have anything there, or have ended. */
static void page_out_child(struct owner *owner)
{
	struct iovec vec[] = {
		{ owner->area, 64 * psize() },
		{ owner->area + 128 * psize(), 64 * psize() },
	};

	if (syscall(__NR_process_madvise, owner->child_fd, vec, 2, MADV_PAGEOUT,
		    0U) > 0)
		did(OP_PAGEOUT_CHILD);
}

static void check_shared(char *at, size_t i)
{
	uint64_t value;

	if (load(at, &value) && value && value != (SHARED_TAG | i))
		fails(CHECK_SHARED, "page %zu holds %#lx", i, (long)value);
}

static void write_shared(size_t i)
{
	did(store(shared_area + i * psize(), SHARED_TAG | i) ?
	    OP_WRITE_SHARED : OP_WRITE_SHARED_FAULT);
}

/* On what all use: nothing is known afterwards, but what check_shared() says. */
static void step_shared(struct owner *owner)
{
	size_t nr, start = any_range(owner, shared_nr, &nr), i;
	char *at = shared_area + start * psize();

	switch (any(owner, 16)) {
	case 0:
		mprotect(at, nr * psize(), any(owner, 2) ? PROT_READ : PROT_NONE);
		mprotect(at, nr * psize(), PROT_READ | PROT_WRITE);
		break;
	case 1:
		if (any(owner, 2))
			munmap(at, nr * psize());
		map_at(at, nr);
		break;
	case 2:
		if (nr > block_nr)
			nr = block_nr;
		if (mremap(at, nr * psize(), nr * psize(), MREMAP_MAYMOVE |
			   MREMAP_FIXED | MREMAP_DONTUNMAP,
			   owner->scratch) == MAP_FAILED)
			break;
		for (i = 0; i < nr; i++)
			check_shared(owner->scratch + i * psize(), start + i);
		munmap(owner->scratch, nr * psize());
		did(OP_MREMAP_SHARED);
		break;
	case 3:
		if (lacks[OP_COLLAPSE])
			break;
		if (madvise(shared_area, block_nr * psize(), MADV_COLLAPSE) == 0)
			did(OP_COLLAPSE);
		break;
	default:
		advise(owner, false);
	}
	for (i = start; i < start + nr; i++) {
		write_shared(i);
		check_shared(shared_area + i * psize(), i);
	}
}

static void step(struct owner *owner)
{
	size_t nr, start = any_range(owner, owner->nr, &nr), i;

	switch (any(owner, 24)) {
	case 0:
		move(owner);
		break;
	case 1:
		protect(owner);
		break;
	case 2:
		unmap(owner);
		break;
	case 3:
		if (!lacks[OP_COLLAPSE])
			collapse(owner);
		break;
	case 4:
		if (!is_child)
			fork_child(owner);
		break;
	case 5:
		if (!is_child && owner->child && !lacks[OP_PAGEOUT_CHILD])
			page_out_child(owner);
		break;
	case 6:
		check_pages(owner, 0, owner->nr);
		break;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		step_shared(owner);
		break;
	case 12:
	case 13:
	case 14:
	case 15:
		for (i = start; i < start + nr; i++)
			write_page(owner, i);
		break;
	default:
		advise(owner, true);
	}
	check_pages(owner, start, nr < 16 ? nr : 16);
}

static void *owner_main(void *arg)
{
	struct owner *owner = arg;

	while (!stopped())
		step(owner);
	reap(owner);
	check_pages(owner, 0, owner->nr);
	return NULL;
}

static void *writer_main(void *arg)
{
	size_t i = (size_t)arg;

	for (; !stopped(); i = (i + 7) % shared_nr)
		write_shared(i);
	return NULL;
}

/* All threads, in a process of their own */
static void stress(void)
{
	struct sigaction action = {
		.sa_sigaction = on_segv,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};
	size_t block = block_nr * psize(), blocks = OWNERS * (BLOCKS + 1) + 2, i;
	pthread_t writers[WRITERS];
	char *at;

	sigaction(SIGSEGV, &action, NULL);
	self_fd = syscall(__NR_pidfd_open, getpid(), 0);
	at = mmap(NULL, blocks * block, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		_exit(1);
	at = (char *)(((unsigned long)at + block - 1) / block * block);
	for (i = 0; i < OWNERS; i++) {
		owners[i].nr = BLOCKS * block_nr;
		owners[i].random = time(NULL) * OWNERS + i + 1;
		owners[i].area = map_at(at, owners[i].nr);
		owners[i].scratch = at + BLOCKS * block;
		at += (BLOCKS + 1) * block;
	}
	shared_nr = block_nr;
	shared_area = map_at(at, shared_nr);

	for (i = 0; i < WRITERS; i++)
		if (pthread_create(&writers[i], NULL, writer_main, (void *)i))
			_exit(1);
	for (i = 0; i < OWNERS; i++)
		if (pthread_create(&owners[i].thread, NULL, owner_main,
				   &owners[i]))
			_exit(1);
	for (i = 0; i < OWNERS; i++)
		pthread_join(owners[i].thread, NULL);
	for (i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	_exit(0);
}

/* The world around: swap and KSM */

static long read_number(const char *path, const char *before)
{
	char line[256];
	long number = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, before, strlen(before)))
			continue;
		number = atol(line + strlen(before));
		break;
	}
	fclose(f);
	return number;
}

static int write_number(const char *path, long number)
{
	FILE *f = fopen(path, "w");
	int ret;

	if (!f)
		return -1;
	ret = fprintf(f, "%ld", number) < 0 ? -1 : 0;
	return fclose(f) ? -1 : ret;
}

static const struct {
	const char *path;
	long number;
} ksm[] = {
	{ KSM "sleep_millisecs", 20 },
	{ KSM "pages_to_scan", 300 },
	{ KSM "run", 1 },
};

static long ksm_before[ARRAY_SIZE(ksm)];

static void set_ksm(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ksm); i++) {
		ksm_before[i] = read_number(ksm[i].path, "");
		if (write_number(ksm[i].path, ksm[i].number))
			lacks[OP_MERGED] = "needs KSM, and root";
	}
}

static void put_ksm_back(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ksm); i++)
		if (ksm_before[i] >= 0)
			write_number(ksm[i].path, ksm_before[i]);
}

static char swap_path[64];

/* Only a disk in memory is ever taken off, and only if it is all the swap. */
static void find_swap(void)
{
	char line[256], path[64], rest[64];
	FILE *f = fopen("/proc/swaps", "r");
	int nr = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s", path) == 1 && path[0] == '/' && nr++ == 0)
			snprintf(swap_path, sizeof(swap_path), "%s", path);
	}
	if (f)
		fclose(f);
	if (nr == 0) {
		lacks[OP_SWAPPED] = "needs swap";
		lacks[OP_SWAPOFF] = lacks[OP_SWAPPED];
	} else if (nr > 1 || geteuid() ||
		   (sscanf(swap_path, "/dev/ram%63s", rest) != 1 &&
		    sscanf(swap_path, "/dev/zram%63s", rest) != 1)) {
		lacks[OP_SWAPOFF] = "needs root, and a RAM disk that is all the swap";
	}
}

static void find_lacks(void)
{
	char *at = mmap(NULL, psize(), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i, huge = read_pmd_pagesize();
	int fd = syscall(__NR_pidfd_open, getpid(), 0);

	if (at == MAP_FAILED)
		ksft_exit_fail_msg("no memory\n");
	if (madvise(at, psize(), MADV_GUARD_INSTALL))
		ksft_exit_skip("needs MADV_GUARD_INSTALL\n");
	if (syscall(__NR_process_madvise, fd, NULL, 0, MADV_GUARD_INSTALL, 0U))
		ksft_exit_skip("needs process_madvise() that gives any advice to its caller\n");
	close(fd);
	for (i = 0; i < NR_ADVICES; i++) {
		if (madvise(at, psize(), advices[i].advice)) {
			lacks[i] = "this kernel has no such advice";
			lacks[NR_ADVICES + i] = lacks[i];
		}
	}
	munmap(at, psize());

	block_nr = (huge ? huge : 2UL << 20) / psize();
	if (block_nr < 256 || block_nr > MAX_BLOCK)
		ksft_exit_skip("huge pages have %zu pages here\n", block_nr);
	if (!huge)
		lacks[OP_COLLAPSE] = "needs transparent huge pages";
	if (geteuid())
		lacks[OP_PAGEOUT_CHILD] = "needs root";
	find_swap();
	set_ksm();
}

static bool all_happened(void)
{
	int i;

	for (i = 0; i < NR_OPS; i++)
		if (!lacks[i] &&
		    !__atomic_load_n(&common->done[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* Again and again, while it goes on. swap_out is what /proc/vmstat began with. */
static void look_after(long round, long swap_out)
{
	if (read_number(KSM "pages_sharing", "") > 0)
		did(OP_MERGED);
	common->done[OP_SWAPPED] = read_number("/proc/vmstat", "pswpout ") -
				   swap_out;
	if (round % 4 == 0 && !lacks[OP_SWAPOFF] && swapoff(swap_path) == 0) {
		did(OP_SWAPOFF);
		if (swapon(swap_path, 0))
			fails(CHECK_RESULT, "swapon: errno %d", errno);
	}
}

/* Seconds since some start. */
static long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec;
}

static void report(int op)
{
	bool vector = op >= NR_ADVICES && op < 2 * NR_ADVICES;
	const char *kind = vector ? "vector of " : "";
	const char *name = op_names[vector ? op - NR_ADVICES : op];

	if (lacks[op]) {
		ksft_test_result_skip("%s%s: %s\n", kind, name, lacks[op]);
		return;
	}
	ksft_print_msg("%lu times: %s%s\n", common->done[op], kind, name);
	ksft_test_result(common->done[op] > 0, "%s%s\n", kind, name);
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 20, swap_out, round, begun, passed = 0;
	pid_t pid, ended = 0;
	int status = 0, i;

	if (seconds < 1 || argc > 2)
		ksft_exit_fail_msg("usage: madvise_stress [SECONDS]\n");
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		ksft_exit_fail_msg("no memory\n");
	ksft_print_header();
	find_lacks();
	ksft_set_plan(NR_CHECKS + NR_OPS);
	swap_out = read_number("/proc/vmstat", "pswpout ");

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_msg("no process\n");
	if (pid == 0)
		stress();
	/* Where the machine is slow, one round takes many seconds. */
	begun = now();
	for (round = 1; !ended && passed < seconds + MORE; round++) {
		sleep(1);
		passed = now() - begun;
		if (passed >= seconds && all_happened())
			break;
		look_after(round, swap_out);
		ended = waitpid(pid, &status, WNOHANG);
	}
	ksft_print_msg("%ld seconds\n", passed);
	__atomic_store_n(&common->stop, true, __ATOMIC_RELAXED);
	for (begun = now(); !ended && now() - begun < GRACE;) {
		sleep(1);
		ended = waitpid(pid, &status, WNOHANG);
	}
	if (!ended) {
		fails(CHECK_END, "not within %d seconds", GRACE);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	} else if (status) {
		fails(CHECK_END, "status %#x", status);
	}
	put_ksm_back();

	for (i = 0; i < NR_CHECKS; i++)
		ksft_test_result(common->failed[i] == 0, "%s\n", check_names[i]);
	for (i = 0; i < NR_OPS; i++)
		report(i);
	ksft_finished();
}
