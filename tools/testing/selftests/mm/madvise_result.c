// SPDX-License-Identifier: GPL-2.0
/*
 * What a request to give memory back returns, and what it does to the memory:
 * the same in a kernel that batches as in one that does not, on every way out.
 *
 * In the drawings P is a page, L a locked page, S a page that is shared, and
 * what is underlined is a range.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define NR_RANGES	16
#define NOBODY		65534
#define KSM_RUN		"/sys/kernel/mm/ksm/run"
#define KSM_MERGED	"/proc/self/ksm_merging_pages"

FIXTURE(result)
{
	char *area;		/* a page for each range, and one between them */
	struct iovec vec[MAX_RANGES + 1];
	long huge_pool;
	long ksm_run;
	pid_t child;
};

FIXTURE_VARIANT(result)
{
	int advice;
	bool locked;		/* all memory is locked, as far as it can be */
	bool empties;		/* pages read zero afterwards */
};

FIXTURE_VARIANT_ADD(result, dontneed)
{
	.advice = MADV_DONTNEED,
	.empties = true,
};

FIXTURE_VARIANT_ADD(result, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.locked = true,
	.empties = true,
};

FIXTURE_VARIANT_ADD(result, dontneed_locked_not_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.empties = true,
};

FIXTURE_VARIANT_ADD(result, free)
{
	.advice = MADV_FREE,
};

/* Sum of a field of smaps over the VMAs that begin in the area, in pages. */
static size_t smaps_pages(char *area, size_t nr, const char *field)
{
	unsigned long start, end, kib, sum = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	bool inside = false;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start >= (unsigned long)area &&
				 start < (unsigned long)area + nr * psize();
		else if (inside && !strncmp(line, field, strlen(field)) &&
			 sscanf(line + strlen(field), ": %lu kB", &kib) == 1)
			sum += kib;
	}
	if (f)
		fclose(f);
	return sum * 1024 / psize();
}

/*
 * How many pages of an area that was full are given back: gone, or, after
 * MADV_FREE, free for reclaim to take.
 */
static size_t given_back(const FIXTURE_VARIANT(result) * variant, char *area,
			 size_t nr)
{
	char *other;

	if (variant->empties)
		return nr - pages_present(area, nr);

	/* Any advice that looks at pages empties this CPU's list of pages. */
	other = map_pages(1);
	madvise(other, psize(), MADV_COLD);
	munmap(other, psize());
	return smaps_pages(area, nr, "LazyFree");
}

static bool is_given_back(const FIXTURE_VARIANT(result) * variant,
			  const char *page)
{
	return variant->empties ? *page == 0 : *page == 0 || *page == 1;
}

FIXTURE_SETUP(result)
{
	const char *reason = lacks_advice(variant->advice);

	if (reason)
		SKIP(return, "%s", reason);
	/* Here and in what is mapped later. */
	if (variant->locked && mlockall(MCL_FUTURE | MCL_ONFAULT))
		SKIP(return, "needs to lock memory");
	self->huge_pool = read_number(HUGE_POOL);
	self->ksm_run = read_number(KSM_RUN);
	self->area = map_pages(2 * NR_RANGES);
	ASSERT_NE(self->area, NULL);
	fill_pages(self->area, 2 * NR_RANGES, 1);
	make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
}

FIXTURE_TEARDOWN(result)
{
	munlockall();
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		waitpid(self->child, NULL, 0);
	}
	if (self->ksm_run >= 0)
		write_number(KSM_RUN, self->ksm_run);
	write_number(HUGE_POOL, self->huge_pool);
}

/* All ranges valid: the sum of their lengths; their pages go, others stay. */
TEST_F(result, all_ranges)
{
	size_t i;

	EXPECT_EQ(smaps_pages(self->area, 2 * NR_RANGES, "Rss"), 2 * NR_RANGES);
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), NR_RANGES);
	EXPECT_EQ(smaps_pages(self->area, 2 * NR_RANGES, "Rss"),
		  variant->empties ? NR_RANGES : 2 * NR_RANGES);
	for (i = 0; i < NR_RANGES; i++) {
		EXPECT_TRUE(is_given_back(variant, self->area + 2 * i * psize()));
		EXPECT_EQ(self->area[(2 * i + 1) * psize()], 1);
	}
}

/* As many ranges as a vector takes. */
TEST_F(result, longest_vector)
{
	char *area = map_pages(2 * MAX_RANGES);

	ASSERT_NE(area, NULL);
	fill_pages(area, 2 * MAX_RANGES, 1);
	make_ranges(self->vec, MAX_RANGES, area, 1, 2);
	EXPECT_EQ(advise_self(self->vec, MAX_RANGES, variant->advice),
		  MAX_RANGES * psize());
	EXPECT_EQ(given_back(variant, area, 2 * MAX_RANGES), MAX_RANGES);
}

/* Ranges in any order, ranges twice and ranges that overlap count each time. */
TEST_F(result, any_order)
{
	struct iovec swap;
	size_t i;

	for (i = 0; i < NR_RANGES / 2; i++) {
		swap = self->vec[i];
		self->vec[i] = self->vec[NR_RANGES - 1 - i];
		self->vec[NR_RANGES - 1 - i] = swap;
	}
	self->vec[3] = self->vec[12];
	self->vec[5].iov_base = self->area;
	self->vec[5].iov_len = 4 * psize();
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  (NR_RANGES + 3) * psize());
	/* Less the ranges replaced, and with two pages between ranges. */
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES),
		  NR_RANGES - 2 + 2);
}

/*
 * Range k fails: the lengths before it, which are done, and none behind it; the
 * error where there are none before it.
 */
TEST_F(result, range_fails)
{
	static const size_t places[] = { 0, 1, NR_RANGES / 2, NR_RANGES - 1 };
	ssize_t ret;
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		at = places[i];
		fill_pages(self->area, 2 * NR_RANGES, 1);
		make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
		self->vec[at].iov_base++;

		errno = 0;
		ret = advise_self(self->vec, NR_RANGES, variant->advice);
		EXPECT_EQ(ret, at ? at * psize() : -1);
		EXPECT_EQ(errno, at ? 0 : EINVAL);
		EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), at);
	}
}

/* A number of /proc/self/status, of KiB, in pages. */
static long status_pages(const char *field)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)) &&
		    sscanf(line + strlen(field), ": %ld kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib < 0 ? -1 : kib * 1024 / psize();
}

/*
 * The most memory that the process ever had is still known when it is given back.
 * The counters are exact to some pages for each CPU.
 */
TEST_F(result, high_water)
{
	size_t nr = 8 * MAX_RANGES, slack = MAX_RANGES;
	char *area = map_pages(nr);

	ASSERT_NE(area, NULL);
	fill_pages(area, nr, 1);
	make_ranges(self->vec, MAX_RANGES, area, 8, 8);
	EXPECT_GE(status_pages("VmRSS"), nr - slack);
	EXPECT_EQ(advise_self(self->vec, MAX_RANGES, variant->advice),
		  nr * psize());
	if (variant->empties)
		EXPECT_LT(status_pages("VmRSS"), nr - slack);
	EXPECT_GE(status_pages("VmHWM"), nr - slack);
}

/*
 * A range over several VMAs is done in all of them.
 *
 *   |P|P|P|P|
 *   |-------|
 */
TEST_F(result, several_vmas)
{
	ASSERT_EQ(split_vmas(self->area, 8), 0);
	self->vec[0].iov_len = 8 * psize();
	EXPECT_EQ(advise_self(self->vec, 1, variant->advice), 8 * psize());
	EXPECT_EQ(given_back(variant, self->area, 8), 8);
	fill_pages(self->area, 8, 1);
	EXPECT_EQ(madvise(self->area, 8 * psize(), variant->advice), 0);
	EXPECT_EQ(given_back(variant, self->area, 8), 8);
	EXPECT_TRUE(pages_hold(self->area + 8 * psize(), 8, 1));
}

/*
 * A range with a hole is done where it is mapped, and fails.
 *
 *   | PPP|  |P PP|  |PPP |
 *   |----|  |----|  |----|
 */
TEST_F(result, hole)
{
	size_t hole;
	char *area;

	for (hole = 0; hole < 4; hole++) {
		area = map_pages(4);
		ASSERT_NE(area, NULL);
		fill_pages(area, 4, 1);
		ASSERT_EQ(munmap(area + hole * psize(), psize()), 0);
		make_ranges(self->vec, 1, area, 4, 4);
		EXPECT_ERROR(advise_self(self->vec, 1, variant->advice),
			     ENOMEM);
		EXPECT_EQ(given_back(variant, area, hole) +
			  given_back(variant, area + (hole + 1) * psize(),
				     3 - hole), 3);
		EXPECT_ERROR(madvise(area, 4 * psize(), variant->advice),
			     ENOMEM);
		munmap(area, 4 * psize());
	}
}

/* In a vector, nothing behind a range with a hole is done. */
TEST_F(result, hole_in_vector)
{
	ASSERT_EQ(munmap(self->area + 17 * psize(), psize()), 0);
	self->vec[8].iov_len = 3 * psize();
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  8 * psize());
	/* Pages 16 and 18, about the hole, are done although they fail. */
	EXPECT_EQ(given_back(variant, self->area, 17), 9);
	EXPECT_EQ(given_back(variant, self->area + 18 * psize(), 14), 1);
}

/* An unmapped range fails. */
TEST_F(result, unmapped)
{
	ASSERT_EQ(munmap(self->area, psize()), 0);
	EXPECT_ERROR(advise_self(self->vec, 1, variant->advice), ENOMEM);
	EXPECT_ERROR(madvise(self->area, psize(), variant->advice), ENOMEM);
}

/*
 * Locked memory is taken by MADV_DONTNEED_LOCKED alone. What is before it in
 * the range is done.
 *
 *   |PPL|
 *   |---|
 */
TEST_F(result, locked_memory)
{
	bool refused = variant->advice != MADV_DONTNEED_LOCKED;

	if (mlock(self->area + 2 * psize(), psize()))
		SKIP(return, "needs to lock memory");
	self->vec[0].iov_len = 3 * psize();
	if (refused) {
		EXPECT_ERROR(advise_self(self->vec, NR_RANGES, variant->advice),
			     EINVAL);
		EXPECT_EQ(self->area[2 * psize()], 1);
		EXPECT_EQ(given_back(variant, self->area, 2), 2);
		EXPECT_ERROR(madvise(self->area + 2 * psize(), psize(),
				     variant->advice), EINVAL);
		EXPECT_EQ(self->area[2 * psize()], 1);
	} else {
		EXPECT_EQ(advise_self(self->vec, 1, variant->advice),
			  3 * psize());
		EXPECT_EQ(given_back(variant, self->area, 3), 3);
	}
}

/*
 * MADV_FREE takes neither shared memory nor that of files; the others leave a
 * shared page what it is, and a private page of a file what the file is.
 */
TEST_F(result, file_memory)
{
	int fd = memfd_create("madvise_result", MFD_CLOEXEC);
	static const int flags[] = { MAP_SHARED, MAP_PRIVATE };
	char *area;
	size_t i;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, 2 * psize()), 0);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		area = mmap(NULL, 2 * psize(), PROT_READ | PROT_WRITE, flags[i],
			    fd, 0);
		ASSERT_NE(area, MAP_FAILED);
		/* The file holds 0 at first, then what was written shared. */
		fill_pages(area, 2, 7 + i);
		self->vec[1].iov_base = area;
		if (variant->empties) {
			EXPECT_EQ(advise_self(self->vec, NR_RANGES,
					      variant->advice),
				  NR_RANGES * psize());
			EXPECT_EQ(pages_present(area, 2), 1);
			EXPECT_EQ(area[0], 7);
		} else {
			EXPECT_EQ(advise_self(self->vec, NR_RANGES,
					      variant->advice), psize());
			EXPECT_ERROR(madvise(area, psize(), variant->advice),
				     EINVAL);
			EXPECT_EQ(pages_present(area, 2), 2);
			EXPECT_EQ(area[0], 7 + i);
		}
		EXPECT_EQ(area[psize()], 7 + i);
		munmap(area, 2 * psize());
	}
	close(fd);
}

/*
 * Huge pages: the start must be aligned to them, the end is rounded down.
 *
 *   |HHHH|HHHH|    |HHHH|HHHH|
 *   |-------|        |-------|
 *    first alone     refused
 */
TEST_F(result, hugetlb)
{
	size_t huge_size = default_huge_page_size();
	char *huge;

	munlockall();
	write_number(HUGE_POOL, 2);
	huge = mmap(NULL, 2 * huge_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED)
		SKIP(return, "needs two huge pages");
	huge[0] = 1;
	huge[huge_size] = 1;
	if (!variant->empties) {
		EXPECT_ERROR(madvise(huge, huge_size, variant->advice), EINVAL);
		self->vec[1].iov_base = huge;
		self->vec[1].iov_len = huge_size;
		EXPECT_EQ(advise_self(self->vec, 3, variant->advice), psize());
		EXPECT_EQ(huge[0], 1);
		munmap(huge, 2 * huge_size);
		return;
	}

	self->vec[1].iov_base = huge;
	self->vec[1].iov_len = 2 * huge_size - psize();
	EXPECT_EQ(advise_self(self->vec, 3, variant->advice),
		  2 * huge_size + psize());
	EXPECT_EQ(huge[0], 0);
	EXPECT_EQ(huge[huge_size], 1);
	/* Less than a huge page is no huge page. */
	self->vec[1].iov_base = huge + huge_size;
	self->vec[1].iov_len = psize();
	EXPECT_EQ(advise_self(self->vec, 3, variant->advice), 3 * psize());
	EXPECT_EQ(huge[huge_size], 1);

	self->vec[1].iov_base = huge + psize();
	self->vec[1].iov_len = 2 * huge_size - psize();
	EXPECT_EQ(advise_self(self->vec, 3, variant->advice), psize());
	EXPECT_ERROR(advise_self(self->vec + 1, 1, variant->advice), EINVAL);
	EXPECT_ERROR(madvise(huge + psize(), huge_size, variant->advice),
		     EINVAL);
	EXPECT_EQ(huge[huge_size], 1);
	munmap(huge, 2 * huge_size);
}

/* More ranges than a vector takes: nothing is done. */
TEST_F(result, too_many_ranges)
{
	make_ranges(self->vec, MAX_RANGES + 1, self->area, 1, 0);
	EXPECT_ERROR(advise_self(self->vec, MAX_RANGES + 1, variant->advice),
		     EINVAL);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 0);
}

/* Bad advice, with ranges or without: nothing is done. */
TEST_F(result, bad_advice)
{
	EXPECT_ERROR(advise_self(self->vec, NR_RANGES, 12345), EINVAL);
	EXPECT_ERROR(advise_self(self->vec, NR_RANGES, -1), EINVAL);
	EXPECT_ERROR(advise_self(NULL, 0, 12345), EINVAL);
	self->vec[0].iov_len = 0;
	EXPECT_ERROR(advise_self(self->vec, 1, 12345), EINVAL);
	EXPECT_ERROR(madvise(self->area, psize(), 12345), EINVAL);
	EXPECT_ERROR(madvise(self->area, 0, 12345), EINVAL);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 0);
}

/* Unaligned start, wrapping length: the range fails. */
TEST_F(result, bad_range)
{
	EXPECT_ERROR(madvise(self->area + 1, psize(), variant->advice), EINVAL);
	EXPECT_ERROR(madvise(self->area, -1UL, variant->advice), EINVAL);
	EXPECT_ERROR(madvise(self->area, -2UL * psize(), variant->advice),
		     EINVAL);
	self->vec[0].iov_base++;
	EXPECT_ERROR(advise_self(self->vec, NR_RANGES, variant->advice),
		     EINVAL);
	/* A length that is less than nothing fails with the whole vector. */
	self->vec[0].iov_base--;
	self->vec[8].iov_len = -1UL;
	EXPECT_ERROR(advise_self(self->vec, NR_RANGES, variant->advice),
		     EINVAL);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 0);
}

/* An empty vector and empty ranges are done at once, wherever they are. */
TEST_F(result, empty)
{
	size_t i;

	EXPECT_EQ(advise_self(NULL, 0, variant->advice), 0);
	EXPECT_EQ(advise_self(self->vec, 0, variant->advice), 0);
	for (i = 0; i < NR_RANGES; i++)
		self->vec[i].iov_len = 0;
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice), 0);
	EXPECT_EQ(madvise(self->area, 0, variant->advice), 0);
	self->vec[4].iov_len = psize();
	self->vec[9].iov_len = psize();
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  2 * psize());
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 2);
}

/* A length that is no whole page counts as it is, and takes the whole page. */
TEST_F(result, part_of_a_page)
{
	self->vec[0].iov_len = 1;
	self->vec[1].iov_len = psize() + 1;
	EXPECT_EQ(advise_self(self->vec, 2, variant->advice), psize() + 2);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 3);
}

/* There are no flags. */
TEST_F(result, flags)
{
	int pidfd = syscall(__NR_pidfd_open, getpid(), 0);

	ASSERT_GE(pidfd, 0);
	EXPECT_ERROR(syscall(__NR_process_madvise, pidfd, self->vec, 1UL,
			     variant->advice, 1U), EINVAL);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 0);
	close(pidfd);
}

/* What is no process, and a process that has ended. */
TEST_F(result, no_process)
{
	int null = open("/dev/null", O_RDONLY);
	int pidfd;

	EXPECT_ERROR(syscall(__NR_process_madvise, -1, self->vec, 1UL,
			     variant->advice, 0U), EBADF);
	EXPECT_ERROR(syscall(__NR_process_madvise, null, self->vec, 1UL,
			     variant->advice, 0U), EBADF);
	close(null);

	self->child = fork();
	ASSERT_GE(self->child, 0);
	if (!self->child)
		_exit(0);
	pidfd = syscall(__NR_pidfd_open, self->child, 0);
	ASSERT_GE(pidfd, 0);
	/* Ended, and nobody has asked how. */
	ASSERT_EQ(waitid(P_PID, self->child, NULL, WEXITED | WNOWAIT), 0);
	EXPECT_ERROR(syscall(__NR_process_madvise, pidfd, self->vec, 1UL,
			     variant->advice, 0U), ESRCH);
	ASSERT_EQ(waitpid(self->child, NULL, 0), self->child);
	self->child = 0;
	EXPECT_ERROR(syscall(__NR_process_madvise, pidfd, self->vec, 1UL,
			     variant->advice, 0U), ESRCH);
	close(pidfd);
}

/*
 * Another process's memory is not given back, but only advised upon by who has
 * CAP_SYS_NICE and may look into that process.
 */
TEST_F(result, another_process)
{
	int pidfd, to_child[2], from_child[2], status;
	char byte = 0;
	pid_t poor;

	ASSERT_EQ(pipe(to_child), 0);
	ASSERT_EQ(pipe(from_child), 0);
	self->child = fork();
	ASSERT_GE(self->child, 0);
	if (!self->child) {
		if (setresgid(NOBODY, NOBODY, NOBODY) ||
		    setresuid(NOBODY, NOBODY, NOBODY) ||
		    prctl(PR_SET_DUMPABLE, 1))
			_exit(1);
		byte = 1;
		if (write(from_child[1], &byte, 1) != 1 ||
		    read(to_child[0], &byte, 1) != 1)
			_exit(1);
		_exit(pages_hold(self->area, 2 * NR_RANGES, 1) ? 0 : 2);
	}
	ASSERT_EQ(read(from_child[0], &byte, 1), 1);
	pidfd = syscall(__NR_pidfd_open, self->child, 0);
	ASSERT_GE(pidfd, 0);

	EXPECT_ERROR(syscall(__NR_process_madvise, pidfd, self->vec, 1UL,
			     variant->advice, 0U), EINVAL);
	EXPECT_EQ(syscall(__NR_process_madvise, pidfd, self->vec,
			  (size_t)NR_RANGES, MADV_COLD, 0U),
		  NR_RANGES * psize());

	poor = fork();
	ASSERT_GE(poor, 0);
	if (!poor) {
		if (setresgid(NOBODY, NOBODY, NOBODY) ||
		    setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		if (syscall(__NR_process_madvise, pidfd, self->vec, 1UL,
			    MADV_COLD, 0U) != -1 || errno != EPERM)
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(waitpid(poor, &status, 0), poor);
	EXPECT_EQ(status, 0);

	ASSERT_EQ(write(to_child[1], &byte, 1), 1);
	ASSERT_EQ(waitpid(self->child, &status, 0), self->child);
	self->child = 0;
	EXPECT_EQ(status, 0);
	close(pidfd);
}

/* Pages shared with a child after fork() stay what they are for the child. */
TEST_F(result, shared_after_fork)
{
	int to_child[2], status;
	char byte = 0;

	ASSERT_EQ(pipe(to_child), 0);
	self->child = fork();
	ASSERT_GE(self->child, 0);
	if (!self->child) {
		if (read(to_child[0], &byte, 1) != 1)
			_exit(1);
		_exit(pages_hold(self->area, 2 * NR_RANGES, 1) ? 0 : 2);
	}
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	if (variant->empties)
		EXPECT_EQ(pages_present(self->area, 2 * NR_RANGES), NR_RANGES);
	ASSERT_EQ(write(to_child[1], &byte, 1), 1);
	ASSERT_EQ(waitpid(self->child, &status, 0), self->child);
	self->child = 0;
	EXPECT_EQ(status, 0);
}

/* Memory without access is given back too. */
TEST_F(result, no_access)
{
	ASSERT_EQ(mprotect(self->area, 2 * NR_RANGES * psize(), PROT_NONE), 0);
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	ASSERT_EQ(mprotect(self->area, 2 * NR_RANGES * psize(),
			   PROT_READ | PROT_WRITE), 0);
	EXPECT_TRUE(is_given_back(variant, self->area));
	EXPECT_EQ(self->area[psize()], 1);
}

/* Sealed memory without write access is refused; what is before it is done. */
TEST_F(result, sealed)
{
	char *page = map_pages(1);

	ASSERT_NE(page, NULL);
	*page = 1;
	ASSERT_EQ(mprotect(page, psize(), PROT_READ), 0);
	if (syscall(__NR_mseal, page, (size_t)psize(), 0UL))
		SKIP(return, "needs mseal()");
	self->vec[8].iov_base = page;
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  8 * psize());
	EXPECT_ERROR(advise_self(self->vec + 8, 8, variant->advice), EPERM);
	EXPECT_ERROR(madvise(page, psize(), variant->advice), EPERM);
	EXPECT_EQ(given_back(variant, self->area, 2 * NR_RANGES), 8);
	EXPECT_EQ(*page, 1);
}

/*
 * A transparent huge page goes as a whole, or in part: what is not in a range
 * stays.
 *
 *   |HHHHHHHH|    |HHHHHHHH|
 *   |--------|     |--|  |-|
 */
TEST_F(result, transparent_huge)
{
	size_t huge_size = read_pmd_pagesize(), nr, i;
	char *map, *huge;

	if (!huge_size)
		SKIP(return, "needs transparent huge pages");
	nr = huge_size / psize();
	map = mmap(NULL, 2 * huge_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(map, MAP_FAILED);
	huge = (char *)(((unsigned long)map + huge_size - 1) & ~(huge_size - 1));
	ASSERT_EQ(madvise(huge, huge_size, MADV_HUGEPAGE), 0);

	fill_pages(huge, nr, 1);
	if (!check_huge_anon(huge, 1, huge_size))
		SKIP(return, "no transparent huge page was to be had");
	self->vec[1].iov_base = huge;
	self->vec[1].iov_len = huge_size;
	EXPECT_EQ(advise_self(self->vec, 3, variant->advice),
		  huge_size + 2 * psize());
	EXPECT_EQ(given_back(variant, huge, nr), nr);

	madvise(huge, huge_size, MADV_DONTNEED);
	fill_pages(huge, nr, 1);
	make_ranges(self->vec, 2, huge, nr / 4, nr / 2);
	EXPECT_EQ(advise_self(self->vec, 2, variant->advice), huge_size / 2);
	for (i = 0; i < nr; i++)
		EXPECT_TRUE(i % (nr / 2) < nr / 4 ?
			    is_given_back(variant, huge + i * psize()) :
			    huge[i * psize()] == 1);
	munmap(map, 2 * huge_size);
}

/* Pages that are on a swap disk are given back there, whatever the advice. */
TEST_F(result, swapped_out)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t i, swapped = 0, left = 0;
	struct sysinfo info = {};

	ASSERT_GE(fd, 0);
	if (variant->locked)
		SKIP(return, "locked memory is not swapped out");
	sysinfo(&info);
	if (!info.freeswap)
		SKIP(return, "needs swap");
	ASSERT_EQ(madvise(self->area, 2 * NR_RANGES * psize(), MADV_PAGEOUT),
		  0);
	for (i = 0; i < 2 * NR_RANGES; i++)
		swapped += pagemap_is_swapped(fd, self->area + i * psize());
	ASSERT_EQ(swapped, 2 * NR_RANGES);

	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	for (i = 0; i < 2 * NR_RANGES; i++)
		left += pagemap_is_swapped(fd, self->area + i * psize());
	EXPECT_EQ(left, NR_RANGES);
	for (i = 0; i < 2 * NR_RANGES; i++)
		EXPECT_EQ(self->area[i * psize()], i % 2);
	close(fd);
}

/* Pages that were merged with others are given back, and the others stay. */
TEST_F(result, merged_pages)
{
	int try;

	if (self->ksm_run < 0 ||
	    madvise(self->area, 2 * NR_RANGES * psize(), MADV_MERGEABLE))
		SKIP(return, "needs KSM");
	write_number(KSM_RUN, 1);
	for (try = 0; try < 200; try++) {
		if (read_number(KSM_MERGED) >= 2 * NR_RANGES)
			break;
		usleep(50000);
	}
	write_number(KSM_RUN, 0);
	if (read_number(KSM_MERGED) < 2 * NR_RANGES)
		SKIP(return, "KSM did not merge the pages in time");

	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	if (variant->empties)
		EXPECT_EQ(pages_present(self->area, 2 * NR_RANGES), NR_RANGES);
	for (try = 0; try < NR_RANGES; try++)
		EXPECT_EQ(self->area[(2 * try + 1) * psize()], 1);
}

/* Pages that a userfaultfd protects from being written are given back too. */
TEST_F(result, write_protected)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_writeprotect protect = {
		.range = { (unsigned long)self->area, 2 * NR_RANGES * psize() },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	size_t i;

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) ||
	    uffd_register(uffd, self->area, 2 * NR_RANGES * psize(), false,
			  true, false) ||
	    ioctl(uffd, UFFDIO_WRITEPROTECT, &protect))
		SKIP(return, "needs a userfaultfd that protects from writing");
	EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
		  NR_RANGES * psize());
	if (variant->empties)
		EXPECT_EQ(pages_present(self->area, 2 * NR_RANGES), NR_RANGES);
	for (i = 0; i < NR_RANGES; i++) {
		EXPECT_TRUE(is_given_back(variant, self->area + 2 * i * psize()));
		EXPECT_EQ(self->area[(2 * i + 1) * psize()], 1);
	}
	close(uffd);
}

/*
 * A huge page whose page table could be another process's, too, goes alone: for
 * such memory others are told of all of the page table.
 */
TEST(hugetlb_neighbour)
{
	size_t huge_size = default_huge_page_size();
	long huge_pool = read_number(HUGE_POOL);
	/* What an entry of the next level maps, and room to align to it. */
	size_t table = huge_size * (psize() / sizeof(long));
	int fd = memfd_create("madvise_result", MFD_CLOEXEC | MFD_HUGETLB);
	char *map, *huge = MAP_FAILED;

	map = mmap(NULL, 2 * table, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		   MAP_NORESERVE, -1, 0);
	ASSERT_NE(map, MAP_FAILED);
	write_number(HUGE_POOL, 2);
	if (fd >= 0 && ftruncate(fd, table) == 0)
		huge = mmap((char *)(((unsigned long)map + table - 1) &
				     ~(table - 1)), table,
			    PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
	if (huge == MAP_FAILED || get_free_hugepages() < 2) {
		write_number(HUGE_POOL, huge_pool);
		SKIP(return, "needs two huge pages");
	}
	huge[0] = 1;
	huge[huge_size] = 2;
	EXPECT_EQ(pages_present(huge + huge_size, 1), 1);
	EXPECT_EQ(madvise(huge, huge_size, MADV_DONTNEED), 0);
	EXPECT_EQ(pages_present(huge, 1), 0);
	EXPECT_EQ(pages_present(huge + huge_size, 1), 1);
	EXPECT_EQ(huge[0], 1);
	munmap(map, 2 * table);
	close(fd);
	write_number(HUGE_POOL, huge_pool);
}

/* How many mappings have that name. */
static int count_named(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int nr = 0;

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, name))
			nr++;
	if (maps)
		fclose(maps);
	return nr;
}

/*
 * Names of memory go the way of an advice: to all VMAs of a range, also beside a
 * hole.
 *
 *   |A|B|A| |A|
 *   |---------|
 */
TEST(names)
{
	char *area = map_pages(5);

	ASSERT_NE(area, NULL);
	ASSERT_EQ(mprotect(area + psize(), psize(), PROT_READ), 0);
	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area, 3 * psize(),
		  "madvise_result"))
		SKIP(return, "needs names of memory");
	EXPECT_EQ(count_named("[anon:madvise_result]"), 3);
	EXPECT_EQ(madvise(area, psize(), MADV_RANDOM), 0);
	EXPECT_EQ(count_named("[anon:madvise_result]"), 3);
	EXPECT_EQ(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area, 3 * psize(),
			NULL), 0);
	EXPECT_EQ(count_named("[anon:madvise_result]"), 0);

	ASSERT_EQ(munmap(area + 3 * psize(), psize()), 0);
	EXPECT_ERROR(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area, 5 * psize(),
			   "madvise_result"), ENOMEM);
	EXPECT_EQ(count_named("[anon:madvise_result]"), 4);
}

TEST_HARNESS_MAIN
