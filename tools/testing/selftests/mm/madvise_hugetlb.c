// SPDX-License-Identifier: GPL-2.0
/*
 * A thread that touches a huge page while another gives it back never finds the
 * pool empty: the page is flushed and free again before the fault is let in.
 * There is one page, so a fault that comes too early gets SIGBUS.
 *
 * Whether the two meet is chance. The test goes on until they have met often
 * enough, and says how often they did; madvise_gather.c looks at the same
 * without chance.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <sys/resource.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define SECONDS		10
#define ENOUGH_FAULTS	2000
#define TAIL_PAGES	256

struct toucher {
	struct other_thread other;
	char *huge;
	long faults;
	int sigbus;
};

static __thread sigjmp_buf touch_env;

static void on_sigbus(int sig)
{
	siglongjmp(touch_env, 1);
}

static void touch_huge(void *arg)
{
	struct toucher *toucher = arg;
	struct rusage usage;
	int i;

	if (sigsetjmp(touch_env, 1)) {
		toucher->sigbus++;
		return;
	}
	for (i = 0; i < 100; i++)
		__atomic_store_n(toucher->huge, 1, __ATOMIC_RELAXED);
	getrusage(RUSAGE_THREAD, &usage);
	__atomic_store_n(&toucher->faults, usage.ru_minflt, __ATOMIC_RELAXED);
}

FIXTURE(hugetlb)
{
	struct toucher toucher;
	struct iovec vec[3];
	size_t huge_size;
	char *area;
	long huge_pool;
};

FIXTURE_VARIANT(hugetlb)
{
	int advice;
};

FIXTURE_VARIANT_ADD(hugetlb, dontneed)
{
	.advice = MADV_DONTNEED,
};

FIXTURE_VARIANT_ADD(hugetlb, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
};

FIXTURE_SETUP(hugetlb)
{
	const char *reason = lacks_advice(variant->advice);
	unsigned long pool_free;

	if (!reason)
		reason = lacks_second_cpu();
	if (reason)
		SKIP(return, "%s", reason);

	self->huge_size = default_huge_page_size();
	self->huge_pool = read_number(HUGE_POOL);
	write_number(HUGE_POOL, 1);
	pool_free = get_free_hugepages();
	self->toucher.huge = mmap(NULL, self->huge_size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
				  -1, 0);
	if (pool_free != 1 || self->toucher.huge == MAP_FAILED) {
		write_number(HUGE_POOL, self->huge_pool);
		SKIP(return, "needs a pool of one free huge page");
	}
	self->area = map_pages(2 * TAIL_PAGES);
	ASSERT_NE(self->area, NULL);
	signal(SIGBUS, on_sigbus);
}

FIXTURE_TEARDOWN(hugetlb)
{
	munmap(self->toucher.huge, self->huge_size);
	write_number(HUGE_POOL, self->huge_pool);
}

/* Returns when the two have met often enough, or the time is over. */
static void give_back_and_touch(struct __test_metadata *_metadata,
				FIXTURE_DATA(hugetlb) * self,
				const struct iovec *vec, size_t nr, int advice)
{
	time_t end = time(NULL) + SECONDS;
	long requests = 0;

	ASSERT_EQ(other_thread_start(&self->toucher.other, touch_huge,
				     &self->toucher), 0);
	while (time(NULL) < end && !self->toucher.sigbus &&
	       __atomic_load_n(&self->toucher.faults, __ATOMIC_RELAXED) <
	       ENOUGH_FAULTS) {
		if (nr > 1)
			fill_pages(self->area, 2 * TAIL_PAGES, 1);
		EXPECT_EQ(advise_self(vec, nr, advice), ranges_size(vec, nr));
		requests++;
	}
	other_thread_stop(&self->toucher.other);

	ksft_print_msg("%ld requests, %ld faults\n", requests,
		       self->toucher.faults);
	EXPECT_EQ(self->toucher.sigbus, 0);
	EXPECT_GT(self->toucher.faults, 10);
}

/* The huge page alone. */
TEST_F(hugetlb, alone)
{
	self->vec[0].iov_base = self->toucher.huge;
	self->vec[0].iov_len = self->huge_size;
	give_back_and_touch(_metadata, self, self->vec, 1, variant->advice);
}

/*
 * The huge page amid others of the vector. Those after it take a while: if the
 * huge page waits for them, a fault comes too early nearly each time.
 *
 *   |PPPPPPPP|  |HHHH|  |PPPPPPPP|
 *   |--------|  |----|  |--------|
 */
TEST_F(hugetlb, amid_others)
{
	make_ranges(self->vec, 3, self->area, TAIL_PAGES, TAIL_PAGES);
	self->vec[2] = self->vec[1];
	self->vec[1].iov_base = self->toucher.huge;
	self->vec[1].iov_len = self->huge_size;
	give_back_and_touch(_metadata, self, self->vec, 3, variant->advice);
}

/* The huge page at the end of the vector. */
TEST_F(hugetlb, last)
{
	make_ranges(self->vec, 1, self->area, 2 * TAIL_PAGES, 0);
	self->vec[1].iov_base = self->toucher.huge;
	self->vec[1].iov_len = self->huge_size;
	give_back_and_touch(_metadata, self, self->vec, 2, variant->advice);
}

TEST_HARNESS_MAIN
