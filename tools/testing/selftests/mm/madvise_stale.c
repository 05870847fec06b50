// SPDX-License-Identifier: GPL-2.0
/*
 * When a request to give memory back has returned, in whatever way, no CPU
 * reaches the memory it took away through an entry left in its TLB.
 *
 * A thread on another CPU, the viewer, has the pages in its TLB, ready to be
 * written, when the request comes. As soon as the request has returned it looks
 * at them again, then writes to them:
 *
 * - MADV_DONTNEED, MADV_DONTNEED_LOCKED: it must see empty pages, and what it
 *   writes must be there for everybody.
 * - MADV_FREE: what it writes must survive the reclaim of the pages. A CPU that
 *   took the page for dirty already would not mark it dirty again, and reclaim
 *   would throw it away.
 *
 * Each way is taken a number of times. The order of things is fixed, so that
 * a flush left out shows nearly each time: nothing here waits for a race.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define NR_RANGES	16
#define ROUNDS		20

enum phase {
	PHASE_WRITE,		/* writes 1 to the pages */
	PHASE_READ,		/* reads them */
	PHASE_CHECK,		/* looks, and writes 2 to some */
	PHASE_REST,
};

struct viewer {
	struct other_thread other;
	char *pages[NR_RANGES];
	size_t nr;
	bool empties;
	enum phase phase;
	enum phase done;	/* the phase of the last whole round */
	int stale;		/* pages seen that should have been empty */
	int local_stale;	/* such pages seen by the caller itself */
	int lost;		/* writes that got lost */
	int reclaimed;		/* pages left alone that reclaim took */
	bool running;
};

/* MADV_FREE: pages that the viewer leaves alone, so that reclaim takes them. */
static bool left_alone(const struct viewer *viewer, size_t page)
{
	return !viewer->empties && page % 4 == 3;
}

static void view(void *arg)
{
	struct viewer *viewer = arg;
	enum phase phase = __atomic_load_n(&viewer->phase, __ATOMIC_ACQUIRE);
	size_t i;

	if (phase == PHASE_REST ||
	    (phase != PHASE_READ && viewer->done == phase)) {
		sched_yield();
	} else {
		for (i = 0; i < viewer->nr; i++) {
			char *page = viewer->pages[i];

			if (phase == PHASE_WRITE)
				*page = 1;
			else
				touch_page(page);
			if (phase != PHASE_CHECK)
				continue;
			if (viewer->empties && *page != 0)
				viewer->stale++;
			if (!left_alone(viewer, i))
				*page = 2;
		}
	}
	__atomic_store_n(&viewer->done, phase, __ATOMIC_RELEASE);
}

static void viewer_enter(struct viewer *viewer, enum phase phase)
{
	__atomic_store_n(&viewer->phase, phase, __ATOMIC_RELEASE);
	while (__atomic_load_n(&viewer->done, __ATOMIC_ACQUIRE) != phase)
		sched_yield();
}

FIXTURE(stale)
{
	struct viewer viewer;
	char *area;		/* a page for each range, and one between them */
	struct iovec vec[NR_RANGES + 1];
	long huge_pool;
};

FIXTURE_VARIANT(stale)
{
	int advice;
	bool locked;
	bool empties;
};

FIXTURE_VARIANT_ADD(stale, dontneed)
{
	.advice = MADV_DONTNEED,
	.empties = true,
};

FIXTURE_VARIANT_ADD(stale, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.locked = true,
	.empties = true,
};

FIXTURE_VARIANT_ADD(stale, free)
{
	.advice = MADV_FREE,
};

FIXTURE_SETUP(stale)
{
	const char *reason = lacks_advice(variant->advice);
	size_t i;

	if (!reason)
		reason = lacks_second_cpu();
	if (reason)
		SKIP(return, "%s", reason);

	self->huge_pool = read_number(HUGE_POOL);
	self->area = map_pages(2 * NR_RANGES);
	ASSERT_NE(self->area, NULL);
	if (variant->locked &&
	    mlock2(self->area, 2 * NR_RANGES * psize(), MLOCK_ONFAULT))
		SKIP(return, "needs to lock memory");
	fill_pages(self->area, 2 * NR_RANGES, 1);
	make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
	for (i = 0; i < NR_RANGES; i++)
		self->viewer.pages[i] = self->vec[i].iov_base;
	self->viewer.nr = NR_RANGES;
	self->viewer.empties = variant->empties;
}

FIXTURE_TEARDOWN(stale)
{
	probe_reset();
	if (self->viewer.running)
		other_thread_stop(&self->viewer.other);
	write_number(HUGE_POOL, self->huge_pool);
}

/* Until the request: all pages are in the TLBs of both CPUs. */
static int before_request(struct viewer *viewer)
{
	size_t i;

	if (!viewer->running) {
		viewer->phase = PHASE_REST;
		if (other_thread_start(&viewer->other, view, viewer))
			return -1;
		viewer->running = true;
	}
	viewer_enter(viewer, PHASE_WRITE);
	viewer_enter(viewer, PHASE_READ);
	for (i = 0; i < viewer->nr; i++)
		touch_page(viewer->pages[i]);
	return 0;
}

/* As soon as the request has returned. */
static void after_request(struct viewer *viewer)
{
	size_t i;

	for (i = 0; i < viewer->nr && viewer->empties; i++)
		viewer->local_stale += *viewer->pages[i] != 0;
	viewer_enter(viewer, PHASE_CHECK);
	viewer_enter(viewer, PHASE_REST);

	if (!viewer->empties)
		for (i = 0; i < viewer->nr; i++)
			madvise(viewer->pages[i], psize(), MADV_PAGEOUT);
	for (i = 0; i < viewer->nr; i++) {
		if (!left_alone(viewer, i))
			viewer->lost += *viewer->pages[i] != 2;
		else
			viewer->reclaimed += *viewer->pages[i] == 0;
	}
}

#define EXPECT_NOTHING_STALE() do {				\
	EXPECT_EQ(self->viewer.stale, 0);			\
	EXPECT_EQ(self->viewer.local_stale, 0);			\
	EXPECT_EQ(self->viewer.lost, 0);				\
	if (!variant->empties)					\
		EXPECT_GT(self->viewer.reclaimed, 0);			\
} while (0)

/* By a vector of nr ranges, which gives back all pages looked at. */
static void take_vector(struct __test_metadata *_metadata,
			FIXTURE_DATA(stale) * self,
			const FIXTURE_VARIANT(stale) * variant, size_t nr)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_EQ(advise_self(self->vec, nr, variant->advice),
			  NR_RANGES * psize());
		after_request(&self->viewer);
	}
	EXPECT_NOTHING_STALE();
}

/* After a vector that is done. */
TEST_F(stale, vector)
{
	take_vector(_metadata, self, variant, NR_RANGES);
}

/* After a vector of two ranges, and after one of one. */
TEST_F(stale, short_vectors)
{
	size_t nr;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		for (nr = 1; nr <= 2; nr++) {
			ASSERT_EQ(before_request(&self->viewer), 0);
			self->viewer.nr = nr;
			EXPECT_EQ(advise_self(self->vec, nr, variant->advice),
				  nr * psize());
			after_request(&self->viewer);
			self->viewer.nr = NR_RANGES;
		}
	}
	EXPECT_EQ(self->viewer.stale, 0);
	EXPECT_EQ(self->viewer.lost, 0);
}

/* After madvise() over the whole area. */
TEST_F(stale, madvise)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_EQ(madvise(self->area, 2 * NR_RANGES * psize(),
				  variant->advice), 0);
		after_request(&self->viewer);
	}
	EXPECT_NOTHING_STALE();
}

/* After a vector over many VMAs. */
TEST_F(stale, many_vmas)
{
	ASSERT_EQ(split_vmas(self->area, 2 * NR_RANGES), 0);
	take_vector(_metadata, self, variant, NR_RANGES);
}

/* After a vector whose last range fails: the ranges before it are done. */
TEST_F(stale, part_done)
{
	self->vec[NR_RANGES].iov_base = self->area + 1;
	self->vec[NR_RANGES].iov_len = psize();
	take_vector(_metadata, self, variant, NR_RANGES + 1);
}

/* By a vector and by madvise(): a range that fails after the pages looked at. */
static void take_failing_range(struct __test_metadata *_metadata,
			       FIXTURE_DATA(stale) * self,
			       const FIXTURE_VARIANT(stale) * variant, int err)
{
	int i;

	self->viewer.nr = NR_RANGES - 1;
	self->vec[0].iov_len = 2 * NR_RANGES * psize();
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_ERROR(advise_self(self->vec, 1, variant->advice), err);
		after_request(&self->viewer);

		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_ERROR(madvise(self->area, 2 * NR_RANGES * psize(),
				     variant->advice), err);
		after_request(&self->viewer);
	}
	EXPECT_NOTHING_STALE();
}

/*
 * After a request that fails in its only range, because of a hole, and has
 * given back what is mapped there.
 *
 *   |PPPPPPPP|  |P|
 *   |-------------|
 */
TEST_F(stale, failed_at_hole)
{
	size_t hole = 2 * NR_RANGES - 2;

	ASSERT_EQ(munmap(self->area + hole * psize(), psize()), 0);
	take_failing_range(_metadata, self, variant, ENOMEM);
}

/*
 * After a request that fails in its only range, because of a VMA that does not
 * take the advice, and has given back the VMAs before that.
 *
 *   |PPPPPPPP|L|
 *   |----------|
 */
TEST_F(stale, failed_at_vma)
{
	char *last = self->area + (2 * NR_RANGES - 2) * psize();

	if (variant->locked)
		SKIP(return, "takes all memory that there is here");
	if (mlock(last, 2 * psize()))
		SKIP(return, "needs to lock memory");
	take_failing_range(_metadata, self, variant, EINVAL);
}

/* After a vector with a range that lost a race, at the first, middle and last. */
TEST_F(stale, retry)
{
	static const long places[] = { 1, NR_RANGES / 2, NR_RANGES };
	const char *reason = lacks_probe();
	struct request req;
	size_t place;
	int i;

	if (reason)
		SKIP(return, "%s", reason);
	for (i = 0; i < ROUNDS; i++) {
		for (place = 0; place < ARRAY_SIZE(places); place++) {
			ASSERT_EQ(before_request(&self->viewer), 0);
			probe_force(places[place], 1 + i % 3);
			req = watch_vector(self->vec, NR_RANGES,
					   variant->advice);
			EXPECT_EQ(req.ret, NR_RANGES * psize());
			EXPECT_EQ(req.forced, 1 + i % 3);
			after_request(&self->viewer);
		}
	}
	EXPECT_NOTHING_STALE();
}

/*
 * After a request that was killed where its last range had lost a race. It
 * shares its address space with this process, which lives on.
 */
TEST_F(stale, killed)
{
	const char *reason = lacks_probe();
	struct request req;
	int i;

	if (reason)
		SKIP(return, "%s", reason);
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(before_request(&self->viewer), 0);
		probe_force(NR_RANGES, 1000);
		probe_set("force_kill", 1);
		EXPECT_EQ(watch_killed(self->vec, NR_RANGES, variant->advice,
				       &req),
			  SIGKILL);
		EXPECT_EQ(req.forced, 1);
		after_request(&self->viewer);
	}
	EXPECT_NOTHING_STALE();
}

/*
 * While a request waits for the monitor of a userfaultfd, mmap_lock is free: the
 * ranges before are given back already, and nobody sees them.
 */
struct monitor {
	pthread_t thread;
	int uffd;
	struct viewer *viewer;
	int events;
	bool stop;
};

static void *monitor_main(void *arg)
{
	struct monitor *monitor = arg;
	struct pollfd poll_fd = { .fd = monitor->uffd, .events = POLLIN };
	struct uffd_msg msg;

	while (!__atomic_load_n(&monitor->stop, __ATOMIC_ACQUIRE)) {
		if (poll(&poll_fd, 1, 20) != 1)
			continue;
		after_request(monitor->viewer);
		if (read(monitor->uffd, &msg, sizeof(msg)) == sizeof(msg) &&
		    msg.event == UFFD_EVENT_REMOVE)
			monitor->events++;
	}
	return NULL;
}

TEST_F(stale, userfaultfd_drop)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_EVENT_REMOVE,
	};
	struct monitor monitor = { .viewer = &self->viewer };
	char *page = map_pages(1);
	int i;

	ASSERT_NE(page, NULL);
	*page = 1;
	monitor.uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (monitor.uffd < 0 || ioctl(monitor.uffd, UFFDIO_API, &api) ||
	    uffd_register(monitor.uffd, page, psize(), true, false, false))
		SKIP(return, "needs userfaultfd with UFFD_EVENT_REMOVE");
	ASSERT_EQ(pthread_create(&monitor.thread, NULL, monitor_main, &monitor),
		  0);

	self->vec[NR_RANGES].iov_base = page;
	self->vec[NR_RANGES].iov_len = psize();
	for (i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(before_request(&self->viewer), 0);
		EXPECT_EQ(advise_self(self->vec, NR_RANGES + 1,
				      variant->advice),
			  (NR_RANGES + 1) * psize());
	}
	__atomic_store_n(&monitor.stop, true, __ATOMIC_RELEASE);
	pthread_join(monitor.thread, NULL);
	EXPECT_EQ(monitor.events, ROUNDS);
	EXPECT_NOTHING_STALE();
	close(monitor.uffd);
}

/* After a vector with a huge page between others. */
TEST_F(stale, hugetlb)
{
	size_t huge_size = default_huge_page_size();
	char *huge;
	int i;

	if (!variant->empties)
		SKIP(return, "not an advice for huge pages");
	write_number(HUGE_POOL, 2);
	huge = mmap(NULL, huge_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED)
		SKIP(return, "needs a huge page");
	self->vec[8].iov_base = huge;
	self->vec[8].iov_len = huge_size;
	self->viewer.pages[8] = huge + huge_size / 2;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
			  ranges_size(self->vec, NR_RANGES));
		after_request(&self->viewer);
	}
	other_thread_stop(&self->viewer.other);
	self->viewer.running = false;
	munmap(huge, huge_size);
	EXPECT_NOTHING_STALE();
}

/* After a vector with a transparent huge page, or a part of one, in it. */
TEST_F(stale, transparent_huge)
{
	size_t huge_size = read_pmd_pagesize(), len;
	char *map, *huge;
	int i, made = 0;

	if (!huge_size)
		SKIP(return, "needs transparent huge pages");
	map = mmap(NULL, 2 * huge_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(map, MAP_FAILED);
	huge = (char *)(((unsigned long)map + huge_size - 1) & ~(huge_size - 1));
	madvise(huge, huge_size, MADV_HUGEPAGE);

	for (i = 0; i < ROUNDS; i++) {
		len = i % 2 ? huge_size : huge_size / 2;
		madvise(huge, huge_size, MADV_DONTNEED);
		*huge = 1;
		made += check_huge_anon(huge, 1, huge_size);
		self->vec[8].iov_base = huge;
		self->vec[8].iov_len = len;
		self->viewer.pages[8] = huge + len / 2;

		ASSERT_EQ(before_request(&self->viewer), 0);
		EXPECT_EQ(advise_self(self->vec, NR_RANGES, variant->advice),
			  ranges_size(self->vec, NR_RANGES));
		after_request(&self->viewer);
	}
	other_thread_stop(&self->viewer.other);
	self->viewer.running = false;
	munmap(map, 2 * huge_size);
	if (!made)
		SKIP(return, "no transparent huge page was to be had");
	EXPECT_NOTHING_STALE();
}

/* Nor is one left by others who zap pages: by a hole made in a mapped file. */
struct holes {
	char *area;
	bool made;
	int stale;
};

static void look_for_holes(void *arg)
{
	struct holes *holes = arg;
	bool made = __atomic_load_n(&holes->made, __ATOMIC_ACQUIRE);

	if (!pages_hold(holes->area, NR_RANGES, 0) && made &&
	    __atomic_load_n(&holes->made, __ATOMIC_ACQUIRE))
		holes->stale++;
}

TEST(hole_in_file)
{
	const off_t size = NR_RANGES * psize();
	struct other_thread other;
	struct holes holes = {};
	int fd, i, local_stale = 0;
	char *content;

	if (lacks_second_cpu())
		SKIP(return, "%s", lacks_second_cpu());
	content = map_pages(NR_RANGES);
	ASSERT_NE(content, NULL);
	fill_pages(content, NR_RANGES, 1);
	fd = memfd_create("holes", MFD_CLOEXEC);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, size), 0);
	/* Not to write: a page that was written is flushed at once. */
	holes.area = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(holes.area, MAP_FAILED);
	ASSERT_EQ(other_thread_start(&other, look_for_holes, &holes), 0);

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(pwrite(fd, content, size, 0), size);
		other_thread_rounds(&other, 1);
		EXPECT_TRUE(pages_hold(holes.area, NR_RANGES, 1));
		EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    0, size), 0);
		local_stale += !pages_hold(holes.area, NR_RANGES, 0);
		__atomic_store_n(&holes.made, true, __ATOMIC_RELEASE);
		other_thread_rounds(&other, 1);
		__atomic_store_n(&holes.made, false, __ATOMIC_RELEASE);
	}
	other_thread_stop(&other);
	close(fd);
	EXPECT_EQ(local_stale, 0);
	EXPECT_EQ(holes.stale, 0);
}

TEST_HARNESS_MAIN
