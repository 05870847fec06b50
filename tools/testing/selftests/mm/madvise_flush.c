// SPDX-License-Identifier: GPL-2.0
/*
 * How often a request to give memory back flushes the TLB: once, however many
 * ranges it names, and more often only for the reasons that are listed here.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

/* Flushes of a request where each of nr ranges would need one by itself. */
static long long flushes(long long nr)
{
	return kernel_batches() ? 1 : nr;
}

FIXTURE(flush)
{
	struct flush_count count;
	struct iovec vec[MAX_RANGES];
};

FIXTURE_VARIANT(flush)
{
	int advice;
	bool locked;
};

FIXTURE_VARIANT_ADD(flush, dontneed)
{
	.advice = MADV_DONTNEED,
};

FIXTURE_VARIANT_ADD(flush, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.locked = true,
};

FIXTURE_VARIANT_ADD(flush, free)
{
	.advice = MADV_FREE,
};

FIXTURE_SETUP(flush)
{
	const char *reason = lacks_advice(variant->advice);

	if (!reason)
		reason = lacks_flush_count(&self->count);
	if (reason)
		SKIP(return, "%s", reason);
	/* Locks what is mapped from here on. */
	if (variant->locked && mlockall(MCL_FUTURE | MCL_ONFAULT))
		SKIP(return, "needs to lock memory");
}

FIXTURE_TEARDOWN(flush)
{
	close(self->count.local_fd);
	close(self->count.remote_fd);
}

/* madvise() over a few pages costs its caller one flush. */
TEST_F(flush, madvise_flushes_once)
{
	char *area = map_pages(8);

	ASSERT_NE(area, NULL);
	fill_pages(area, 8, 1);

	flush_count_start(&self->count);
	ASSERT_EQ(madvise(area, 8 * psize(), variant->advice), 0);
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 1);
}

/* A vector of one range costs no more than madvise(). */
TEST_F(flush, one_range_flushes_once)
{
	char *area = map_pages(8);

	ASSERT_NE(area, NULL);
	fill_pages(area, 8, 1);
	make_ranges(self->vec, 1, area, 8, 8);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 1, variant->advice), 8 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 1);
}

/*
 * A vector flushes once for all its ranges, from two to as many as it takes.
 *
 *   |P.P.P.P.P.P.P.| pages given back, and pages that stay
 *   |-.-.-.-.-.-.-.|
 */
TEST_F(flush, many_ranges_flush_once)
{
	static const size_t sizes[] = { 2, 3, 8, 9, 64, MAX_RANGES };
	char *area = map_pages(2 * MAX_RANGES);
	size_t i, nr;

	ASSERT_NE(area, NULL);
	make_ranges(self->vec, MAX_RANGES, area, 1, 2);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		nr = sizes[i];
		fill_pages(area, 2 * MAX_RANGES, 1);

		flush_count_start(&self->count);
		ASSERT_EQ(advise_self(self->vec, nr, variant->advice),
			  nr * psize());
		flush_count_stop(&self->count);
		EXPECT_EQ(self->count.local, flushes(nr)) {
			TH_LOG("with %zu ranges", nr);
		}
	}
}

/* A vector with ranges in many VMAs flushes once. */
TEST_F(flush, many_vmas_flush_once)
{
	char *area = map_pages(64);

	ASSERT_NE(area, NULL);
	ASSERT_EQ(split_vmas(area, 64), 0);
	fill_pages(area, 64, 1);
	make_ranges(self->vec, 64, area, 1, 1);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 64, variant->advice), 64 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(64));
}

/*
 * One range over several VMAs flushes once, by process_madvise() and by
 * madvise().
 *
 *   |PP|PP|PP|PP|
 *   |-----------|
 */
TEST_F(flush, range_over_vmas_flushes_once)
{
	char *area = map_pages(8);

	ASSERT_NE(area, NULL);
	ASSERT_EQ(split_vmas(area, 8), 0);
	make_ranges(self->vec, 1, area, 8, 8);

	fill_pages(area, 8, 1);
	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 1, variant->advice), 8 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(8));

	fill_pages(area, 8, 1);
	flush_count_start(&self->count);
	ASSERT_EQ(madvise(area, 8 * psize(), variant->advice), 0);
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(8));
}

/* The ranges before one that fails share a flush too. */
TEST_F(flush, part_done_flushes_once)
{
	char *area = map_pages(32);

	ASSERT_NE(area, NULL);
	fill_pages(area, 32, 1);
	make_ranges(self->vec, 16, area, 1, 2);
	self->vec[15].iov_base = area + 1;

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, variant->advice), 15 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(15));
}

/* A request that takes nothing away does not flush. */
TEST_F(flush, nothing_there_flushes_never)
{
	char *area = map_pages(32);

	ASSERT_NE(area, NULL);
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, variant->advice), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 0);
}

/*
 * If another thread runs on another CPU, the vector interrupts that CPU once.
 * While something else has that CPU there is nothing to interrupt, so it may
 * be less now and then, but never more.
 */
TEST_F(flush, other_cpu_is_interrupted_once)
{
	static const size_t sizes[] = { 1, 2, 16, 256 };
	const char *reason = lacks_second_cpu();
	char *area = map_pages(2 * 256);
	struct other_thread other;
	long long most;
	size_t i, nr;
	int try;

	if (reason)
		SKIP(return, "%s", reason);
	ASSERT_NE(area, NULL);
	fill_pages(area, 2 * 256, 1);
	make_ranges(self->vec, 256, area, 1, 2);
	/* It reads a page that stays. */
	ASSERT_EQ(other_thread_start(&other, touch_page, area + psize()), 0);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		nr = sizes[i];
		most = 0;
		for (try = 0; try < 5; try++) {
			fill_pages(area, 2 * 256, 1);

			flush_count_start(&self->count);
			EXPECT_EQ(advise_self(self->vec, nr, variant->advice),
				  nr * psize());
			flush_count_stop(&self->count);
			EXPECT_EQ(self->count.local, flushes(nr)) {
				TH_LOG("with %zu ranges", nr);
			}
			if (self->count.remote > most)
				most = self->count.remote;
		}
		EXPECT_LE(most, flushes(nr)) {
			TH_LOG("with %zu ranges", nr);
		}
		EXPECT_GT(most, flushes(nr) * 3 / 4) {
			TH_LOG("with %zu ranges", nr);
		}
	}
	other_thread_stop(&other);
}

/*
 * A request for more pages than a gather holds, some 10,000, flushes again each
 * time the gather is full; MADV_FREE keeps no pages and flushes once.
 */
TEST_F(flush, full_gather_flushes_again)
{
	const size_t nr_pages = 25000, nr = 1000;
	char *area = map_pages(nr_pages);

	ASSERT_NE(area, NULL);
	fill_pages(area, nr_pages, 1);
	make_ranges(self->vec, nr, area, nr_pages / nr, nr_pages / nr);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, nr, variant->advice),
		  nr_pages * psize());
	flush_count_stop(&self->count);
	if (!kernel_batches()) {
		EXPECT_EQ(self->count.local, nr);
	} else if (variant->advice == MADV_FREE) {
		EXPECT_EQ(self->count.local, 1);
	} else {
		EXPECT_GE(self->count.local, 2);
		EXPECT_LE(self->count.local, 1 + nr_pages / 5000);
	}
}

/* Memory under userfaultfd without UFFD_EVENT_REMOVE costs no flush more. */
TEST_F(flush, userfaultfd_costs_no_flush)
{
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API };
	char *area = map_pages(32);

	if (uffd < 0)
		SKIP(return, "needs userfaultfd");
	ASSERT_NE(area, NULL);
	ASSERT_EQ(ioctl(uffd, UFFDIO_API, &api), 0);
	fill_pages(area, 32, 1);
	ASSERT_EQ(uffd_register(uffd, area, 32 * psize(), true, false, false),
		  0);
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, variant->advice), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(16));
	close(uffd);
}

/*
 * An advice that is not batched flushes for each range, as it always did, in
 * a kernel of either kind.
 */
TEST_F(flush, other_advice_flushes_each_range)
{
	char *area;

	if (variant->advice != MADV_DONTNEED)
		SKIP(return, "the same for each advice that is batched");
	area = map_pages(32);
	ASSERT_NE(area, NULL);
	fill_pages(area, 32, 1);
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, MADV_COLD), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 16);
}

/*
 * Kinds of memory that only MADV_DONTNEED takes.
 */
FIXTURE(flush_kind)
{
	struct flush_count count;
	struct iovec vec[16];
	long huge_pool;
};

FIXTURE_SETUP(flush_kind)
{
	const char *reason = lacks_advice(MADV_DONTNEED);

	if (!reason)
		reason = lacks_flush_count(&self->count);
	if (reason)
		SKIP(return, "%s", reason);
	self->huge_pool = read_number(HUGE_POOL);
}

FIXTURE_TEARDOWN(flush_kind)
{
	write_number(HUGE_POOL, self->huge_pool);
	close(self->count.local_fd);
	close(self->count.remote_fd);
}

/*
 * Each hugetlb range ends a gather: a vector flushes once for it and what comes
 * before it, and once for what comes after it.
 *
 *   |P|  |HHHH|  |P|
 *   |-|  |----|  |-|
 */
TEST_F(flush_kind, hugetlb_flushes_once_more)
{
	size_t huge_size = default_huge_page_size();
	char *area = map_pages(5), *huge;

	ASSERT_NE(area, NULL);
	write_number(HUGE_POOL, 2);
	huge = mmap(NULL, huge_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED)
		SKIP(return, "needs a huge page");
	make_ranges(self->vec, 3, area, 1, 2);
	self->vec[1].iov_base = huge;
	self->vec[1].iov_len = huge_size;

	fill_pages(area, 5, 1);
	*huge = 1;
	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 3, MADV_DONTNEED),
		  ranges_size(self->vec, 3));
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, kernel_batches() ? 2 : 3);
	EXPECT_EQ(*huge, 0);

	/* Last in the vector, or alone: nothing comes after it. */
	fill_pages(area, 5, 1);
	*huge = 1;
	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 2, MADV_DONTNEED),
		  ranges_size(self->vec, 2));
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(2));

	*huge = 1;
	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec + 1, 1, MADV_DONTNEED), huge_size);
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 1);
	munmap(huge, huge_size);
}

/*
 * Pages that a driver put into a VMA (VM_MIXEDMAP) are flushed where the VMA
 * ends, with what comes before them. The driver is io_uring's.
 *
 *   |P|  |M|  |P|
 *   |-|  |-|  |-|
 */
TEST_F(flush_kind, mixed_map_flushes_once_more)
{
	struct io_uring_params params = {};
	char *area = map_pages(5), *ring;
	int fd;

	ASSERT_NE(area, NULL);
	fd = syscall(__NR_io_uring_setup, 1, &params);
	if (fd < 0)
		SKIP(return, "needs io_uring");
	ring = mmap(NULL, psize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQES);
	ASSERT_NE(ring, MAP_FAILED);
	fill_pages(area, 5, 1);
	make_ranges(self->vec, 3, area, 1, 2);
	self->vec[1].iov_base = ring;

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 3, MADV_DONTNEED), 3 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, kernel_batches() ? 2 : 3);
	munmap(ring, psize());
	close(fd);
}

/*
 * Guards that replace pages share a flush; guards where there are none need
 * none.
 */
TEST_F(flush_kind, guards_flush_once)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	char *area = map_pages(32);

	if (reason)
		SKIP(return, "%s", reason);
	ASSERT_NE(area, NULL);
	fill_pages(area, 32, 1);
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 16, MADV_GUARD_INSTALL), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(16));

	flush_count_start(&self->count);
	EXPECT_EQ(advise_self(self->vec, 16, MADV_GUARD_INSTALL), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 0);
}

/*
 * Pages of a file that are mapped shared and clean share a flush.
 */
TEST_F(flush_kind, clean_file_pages_flush_once)
{
	int fd = memfd_create("madvise_flush", MFD_CLOEXEC);
	char *area;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, 32 * psize()), 0);
	area = mmap(NULL, 32 * psize(), PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(area, MAP_FAILED);
	ASSERT_TRUE(pages_hold(area, 32, 0));
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, MADV_DONTNEED), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, flushes(16));
	close(fd);
}

/*
 * Dirty ones do not: their flush comes before the page table is unlocked, so
 * that nobody finds the page clean while a CPU can still write to it. That is
 * one flush for each range (or page table, in a long range), batched or not.
 */
TEST_F(flush_kind, dirty_file_pages_flush_each_range)
{
	int fd = memfd_create("madvise_flush", MFD_CLOEXEC);
	char *area;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, 32 * psize()), 0);
	area = mmap(NULL, 32 * psize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	ASSERT_NE(area, MAP_FAILED);
	fill_pages(area, 32, 1);
	make_ranges(self->vec, 16, area, 1, 2);

	flush_count_start(&self->count);
	ASSERT_EQ(advise_self(self->vec, 16, MADV_DONTNEED), 16 * psize());
	flush_count_stop(&self->count);
	EXPECT_EQ(self->count.local, 16);
	EXPECT_TRUE(pages_hold(area, 32, 1));
	close(fd);
}

TEST_HARNESS_MAIN
