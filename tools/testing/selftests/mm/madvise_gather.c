// SPDX-License-Identifier: GPL-2.0
/*
 * Whatever way a request to give memory back takes, each gather that it starts
 * is finished once, none is live while mmap_lock is not held, and the lock is
 * taken once, plus once for each time that the request had to let it go.
 *
 * The module madvise_probe sees that, and forces the ways that chance takes
 * rarely. Whether the kernel batches makes no difference here, but for the
 * flushes that a forced retry costs.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

#define NR_RANGES	16

FIXTURE(gather)
{
	char *area;		/* a page for each range, and one between them */
	struct iovec vec[MAX_RANGES + 1];
	struct flush_count count;
	long huge_pool;
};

FIXTURE_VARIANT(gather)
{
	int advice;
	bool locked;		/* memory is locked */
	bool batched;		/* and removes memory */
	bool gathers;		/* into the gather of the request */
	bool empties;		/* pages read zero afterwards */
};

FIXTURE_VARIANT_ADD(gather, dontneed)
{
	.advice = MADV_DONTNEED,
	.batched = true,
	.gathers = true,
	.empties = true,
};

FIXTURE_VARIANT_ADD(gather, dontneed_locked)
{
	.advice = MADV_DONTNEED_LOCKED,
	.locked = true,
	.batched = true,
	.gathers = true,
	.empties = true,
};

FIXTURE_VARIANT_ADD(gather, free)
{
	.advice = MADV_FREE,
	.batched = true,
	.gathers = true,
};

/* An advice that has a gather of its own. */
FIXTURE_VARIANT_ADD(gather, cold)
{
	.advice = MADV_COLD,
};

/* An advice that has none, and takes the lock for writing. */
FIXTURE_VARIANT_ADD(gather, sequential)
{
	.advice = MADV_SEQUENTIAL,
};

/* An advice that really loses races, and adds to the gather when it does. */
FIXTURE_VARIANT_ADD(gather, guard_install)
{
	.advice = MADV_GUARD_INSTALL,
	.gathers = true,
};

FIXTURE_SETUP(gather)
{
	const char *reason = lacks_advice(variant->advice);

	if (!reason)
		reason = lacks_probe();
	if (!reason)
		reason = lacks_flush_count(&self->count);
	if (reason)
		SKIP(return, "%s", reason);

	probe_reset();
	self->huge_pool = read_number(HUGE_POOL);
	self->area = map_pages(2 * NR_RANGES);
	ASSERT_NE(self->area, NULL);
	if (variant->locked &&
	    mlock2(self->area, 2 * NR_RANGES * psize(), MLOCK_ONFAULT))
		SKIP(return, "needs to lock memory");
	fill_pages(self->area, 2 * NR_RANGES, 1);
	make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
}

FIXTURE_TEARDOWN(gather)
{
	probe_reset();
	write_number(HUGE_POOL, self->huge_pool);
	munmap(self->area, 2 * NR_RANGES * psize());
	close(self->count.local_fd);
	close(self->count.remote_fd);
}

/*
 * A vector that is done takes the lock once. It has a gather live from range to
 * range if the advice is batched, else none.
 */
TEST_F(gather, vector)
{
	struct request req;

	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, NR_RANGES * psize());
	EXPECT_EQ(req.steps, NR_RANGES);
	EXPECT_EQ(req.steps_live,
		  variant->gathers && kernel_batches() ? NR_RANGES : 0);
	EXPECT_BALANCED(req, 1);
}

/* So does a vector as long as it can be. */
TEST_F(gather, longest_vector)
{
	struct request req;
	size_t i;

	for (i = 0; i < MAX_RANGES; i++)
		self->vec[i] = self->vec[i % NR_RANGES];
	req = watch_vector(self->vec, MAX_RANGES, variant->advice);
	EXPECT_EQ(req.ret, MAX_RANGES * psize());
	EXPECT_EQ(req.steps, MAX_RANGES);
	EXPECT_BALANCED(req, 1);
}

/* madvise() takes the lock once. */
TEST_F(gather, madvise)
{
	struct request req;

	req = watch_madvise(self->area, 4 * psize(), variant->advice);
	EXPECT_EQ(req.ret, 0);
	EXPECT_EQ(req.steps, 1);
	EXPECT_BALANCED(req, 1);
}

/* A vector over memory that is not there yet takes the lock once. */
TEST_F(gather, empty_memory)
{
	char *area = map_pages(NR_RANGES);
	struct request req;

	ASSERT_NE(area, NULL);
	make_ranges(self->vec, NR_RANGES, area, 1, 1);
	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, NR_RANGES * psize());
	EXPECT_BALANCED(req, 1);
}

/* Empty ranges between others change nothing. */
TEST_F(gather, empty_ranges)
{
	struct request req;

	self->vec[0].iov_len = 0;
	self->vec[7].iov_len = 0;
	self->vec[NR_RANGES - 1].iov_len = 0;
	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, (NR_RANGES - 3) * psize());
	EXPECT_BALANCED(req, 1);
}

/* What is refused as a whole balances, and nothing is done. */
TEST_F(gather, refused)
{
	struct request req;

	req = watch_vector(self->vec, NR_RANGES, 12345);
	EXPECT_EQ(req.ret, -1);
	EXPECT_EQ(req.err, EINVAL);
	EXPECT_BALANCED(req, 0);

	make_ranges(self->vec, MAX_RANGES + 1, self->area, 1, 0);
	req = watch_vector(self->vec, MAX_RANGES + 1, variant->advice);
	EXPECT_EQ(req.ret, -1);
	EXPECT_EQ(req.err, EINVAL);
	EXPECT_BALANCED(req, 0);

	req = watch_madvise(self->area + 1, psize(), variant->advice);
	EXPECT_EQ(req.ret, -1);
	EXPECT_EQ(req.err, EINVAL);
	EXPECT_BALANCED(req, 0);

	EXPECT_TRUE(pages_hold(self->area, 2 * NR_RANGES, 1));
}

static const size_t places[] = { 0, NR_RANGES / 2, NR_RANGES - 1 };

/* A bad range at any place ends the request, which balances. */
static void bad_range_at_each_place(struct __test_metadata *_metadata,
				    FIXTURE_DATA(gather) * self,
				    const FIXTURE_VARIANT(gather) * variant,
				    char *range, int err, int steps)
{
	struct request req;
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		at = places[i];
		make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
		self->vec[at].iov_base = range;

		req = watch_vector(self->vec, NR_RANGES, variant->advice);
		EXPECT_EQ(req.ret, at ? at * psize() : -1);
		EXPECT_EQ(req.err, at ? 0 : err);
		EXPECT_EQ(req.steps, at + steps);
		EXPECT_BALANCED(req, 1);
	}
}

TEST_F(gather, unaligned_range)
{
	bad_range_at_each_place(_metadata, self, variant, self->area + 1,
				EINVAL, 0);
}

TEST_F(gather, unmapped_range)
{
	char *hole = map_pages(1);

	ASSERT_NE(hole, NULL);
	ASSERT_EQ(munmap(hole, psize()), 0);
	bad_range_at_each_place(_metadata, self, variant, hole, ENOMEM, 0);
}

/*
 * A range with a hole is done where it is mapped, then ends the request.
 *
 *   |PP  PP|
 *   |------|
 */
TEST_F(gather, range_with_hole)
{
	char *area = map_pages(6);
	struct request req;

	ASSERT_NE(area, NULL);
	fill_pages(area, 6, 1);
	ASSERT_EQ(munmap(area + 2 * psize(), 2 * psize()), 0);
	self->vec[8].iov_base = area;
	self->vec[8].iov_len = 6 * psize();

	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, 8 * psize());
	EXPECT_EQ(req.steps, 10);
	EXPECT_BALANCED(req, 1);

	req = watch_madvise(area, 6 * psize(), variant->advice);
	EXPECT_EQ(req.ret, -1);
	EXPECT_EQ(req.err, ENOMEM);
	EXPECT_EQ(req.steps, 2);
	EXPECT_BALANCED(req, 1);
}

/* The advice does not take the memory of the range. */
TEST_F(gather, range_refused)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	struct request req;
	char *area;

	if (variant->advice != MADV_DONTNEED && variant->advice != MADV_FREE)
		SKIP(return, "takes all memory that there is here");
	/* MADV_FREE takes no shared memory, MADV_DONTNEED no locked memory. */
	if (variant->advice == MADV_FREE)
		flags = MAP_SHARED | MAP_ANONYMOUS;
	area = mmap(NULL, psize(), PROT_READ | PROT_WRITE, flags, -1, 0);
	ASSERT_NE(area, MAP_FAILED);
	*area = 1;
	if (variant->advice == MADV_DONTNEED && mlock(area, psize()))
		SKIP(return, "needs to lock memory");

	/* One step more: it is the one that refuses. */
	bad_range_at_each_place(_metadata, self, variant, area, EINVAL, 1);
	EXPECT_EQ(*area, 1);

	req = watch_madvise(area, psize(), variant->advice);
	EXPECT_EQ(req.ret, -1);
	EXPECT_EQ(req.err, EINVAL);
	EXPECT_BALANCED(req, 1);
	munmap(area, psize());
}

/*
 * Huge pages between others balance, and so does a range that splits one. They
 * are flushed and freed before another thread's fault may look for them in the
 * pool.
 */
TEST_F(gather, hugetlb_range)
{
	size_t huge_size = default_huge_page_size();
	struct request req;
	size_t i, at;
	char *huge;

	if (!variant->empties)
		SKIP(return, "not an advice for huge pages");
	write_number(HUGE_POOL, 2);
	huge = mmap(NULL, huge_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED)
		SKIP(return, "needs a huge page");

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		at = places[i];
		make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
		fill_pages(self->area, 2 * NR_RANGES, 1);
		*huge = 1;
		self->vec[at].iov_base = huge;
		self->vec[at].iov_len = huge_size;

		req = watch_vector(self->vec, NR_RANGES, variant->advice);
		EXPECT_EQ(req.ret, ranges_size(self->vec, NR_RANGES));
		EXPECT_BALANCED(req, 1);
		EXPECT_EQ(req.huge_zaps, 1);
		EXPECT_EQ(req.huge_zaps_live, 0);
		EXPECT_EQ(*huge, 0);

		self->vec[at].iov_base += psize();
		req = watch_vector(self->vec, NR_RANGES, variant->advice);
		EXPECT_EQ(req.ret, at ? at * psize() : -1);
		EXPECT_BALANCED(req, 1);
	}
	munmap(huge, huge_size);
}

/*
 * Whoever follows the page tables, as KVM does for its guests, is told of each
 * range before its pages go and after, and to flush what TLBs it has of its own
 * when the CPUs do: also where the request fails.
 */
TEST_F(gather, notifiers)
{
	long ranges = variant->gathers ? NR_RANGES : 0;
	struct request req;
	int fails;

	if (probe_set("notify", 1))
		SKIP(return, "needs MMU notifiers");
	for (fails = 0; fails <= 1; fails++) {
		if (variant->advice == MADV_GUARD_INSTALL)
			madvise(self->area, 2 * NR_RANGES * psize(),
				MADV_GUARD_REMOVE);
		fill_pages(self->area, 2 * NR_RANGES, 1);
		if (fails) {
			self->vec[NR_RANGES - 1].iov_base++;
			ranges -= !!ranges;
		}

		req = watch_vector(self->vec, NR_RANGES, variant->advice);
		EXPECT_EQ(req.ret, (NR_RANGES - fails) * psize());
		EXPECT_EQ(req.notified, ranges);
		EXPECT_EQ(req.notified_pages, ranges);
		EXPECT_EQ(req.notified_mapped, ranges);
		EXPECT_EQ(req.notified_end, ranges);
		/* MADV_FREE leaves pages where they are. */
		EXPECT_EQ(req.notified_end_mapped,
			  variant->advice == MADV_FREE ? ranges : 0);
		if (variant->gathers) {
			EXPECT_EQ(req.notified_flush,
				  kernel_batches() ? 1 : ranges);
		}
		EXPECT_BALANCED(req, 1);
	}
}

/*
 * A monitor of UFFD_EVENT_REMOVE. Before it takes an event it does to the page
 * what the test wants.
 */
enum monitor_does {
	MONITOR_NOTHING,
	MONITOR_UNMAPS,
	MONITOR_LOCKS,
};

struct monitor {
	pthread_t thread;
	int uffd;
	char *page;
	enum monitor_does does;
	int events;
	long pending;		/* the most live gathers seen */
	bool stop;
};

static void *monitor_main(void *arg)
{
	struct monitor *monitor = arg;
	struct pollfd poll_fd = { .fd = monitor->uffd, .events = POLLIN };
	struct uffd_msg msg;

	while (!__atomic_load_n(&monitor->stop, __ATOMIC_ACQUIRE)) {
		long pending;

		if (poll(&poll_fd, 1, 20) != 1)
			continue;
		pending = probe_get("pending");
		if (pending)
			monitor->pending = pending;
		if (monitor->does == MONITOR_UNMAPS)
			munmap(monitor->page, psize());
		else if (monitor->does == MONITOR_LOCKS)
			mlock2(monitor->page, psize(), MLOCK_ONFAULT);
		monitor->does = MONITOR_NOTHING;
		/* Before it is taken: the request goes on then. */
		monitor->events++;
		if (read(monitor->uffd, &msg, sizeof(msg)) != sizeof(msg) ||
		    msg.event != UFFD_EVENT_REMOVE)
			monitor->events--;
	}
	return NULL;
}

/* Returns the reason to skip, or NULL. */
static const char *monitor_start(struct monitor *monitor, char *area,
				 size_t size)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_EVENT_REMOVE,
	};

	monitor->uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (monitor->uffd < 0 || ioctl(monitor->uffd, UFFDIO_API, &api) ||
	    uffd_register(monitor->uffd, area, size, true, false, false))
		return "needs userfaultfd with UFFD_EVENT_REMOVE";
	if (pthread_create(&monitor->thread, NULL, monitor_main, monitor))
		return "needs a thread";
	return NULL;
}

static void monitor_stop(struct monitor *monitor)
{
	__atomic_store_n(&monitor->stop, true, __ATOMIC_RELEASE);
	pthread_join(monitor->thread, NULL);
	close(monitor->uffd);
}

/*
 * Under userfaultfd with UFFD_EVENT_REMOVE each range lets the lock go, with
 * its gather finished.
 */
TEST_F(gather, userfaultfd_drops)
{
	struct monitor monitor = {};
	const char *reason;
	struct request req;

	if (!variant->batched)
		SKIP(return, "not an advice that removes memory");
	reason = monitor_start(&monitor, self->area, 2 * NR_RANGES * psize());
	if (reason)
		SKIP(return, "%s", reason);

	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	monitor_stop(&monitor);
	EXPECT_EQ(req.ret, NR_RANGES * psize());
	EXPECT_EQ(monitor.events, NR_RANGES);
	EXPECT_EQ(monitor.pending, 0);
	EXPECT_BALANCED(req, 1 + NR_RANGES);
}

/* So does a single range between others, and madvise(). */
TEST_F(gather, userfaultfd_drops_once)
{
	struct monitor monitor = {};
	const char *reason;
	struct request req;

	if (!variant->batched)
		SKIP(return, "not an advice that removes memory");
	reason = monitor_start(&monitor, self->vec[8].iov_base, psize());
	if (reason)
		SKIP(return, "%s", reason);

	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, NR_RANGES * psize());
	EXPECT_EQ(monitor.events, 1);
	EXPECT_EQ(monitor.pending, 0);
	EXPECT_BALANCED(req, 2);

	req = watch_madvise(self->vec[8].iov_base, psize(), variant->advice);
	monitor_stop(&monitor);
	EXPECT_EQ(req.ret, 0);
	EXPECT_EQ(monitor.events, 2);
	EXPECT_EQ(monitor.pending, 0);
	EXPECT_BALANCED(req, 2);
}

/*
 * If the range is gone when the lock is back, or is not for this advice any
 * more, the request ends there, and balances.
 */
TEST_F(gather, userfaultfd_drop_loses_range)
{
	static const struct {
		enum monitor_does does;
		int err;
	} losses[] = {
		{ MONITOR_UNMAPS, ENOMEM },
		{ MONITOR_LOCKS, EINVAL },
	};
	struct monitor monitor;
	const char *reason;
	struct request req;
	size_t i, first;
	char *page;

	if (!variant->batched || variant->locked)
		SKIP(return, "needs an advice that refuses locked memory");

	for (i = 0; i < ARRAY_SIZE(losses); i++) {
		/* The lost range has ranges before it, or is the first. */
		for (first = 0; first <= 8; first += 8) {
			page = map_pages(1);
			ASSERT_NE(page, NULL);
			*page = 1;
			memset(&monitor, 0, sizeof(monitor));
			monitor.page = page;
			monitor.does = losses[i].does;
			reason = monitor_start(&monitor, page, psize());
			if (reason)
				SKIP(return, "%s", reason);

			make_ranges(self->vec, NR_RANGES, self->area, 1, 2);
			fill_pages(self->area, 2 * NR_RANGES, 1);
			self->vec[8].iov_base = page;
			req = watch_vector(self->vec + first,
					   NR_RANGES - first, variant->advice);
			monitor_stop(&monitor);
			if (first) {
				EXPECT_EQ(req.ret, -1);
				EXPECT_EQ(req.err, losses[i].err);
			} else {
				EXPECT_EQ(req.ret, 8 * psize());
			}
			EXPECT_EQ(monitor.events, 1);
			EXPECT_EQ(monitor.pending, 0);
			EXPECT_BALANCED(req, 2);
			munmap(page, psize());
		}
	}
}

/*
 * A range that loses a race lets the lock go, with its gather finished, takes
 * it again and is done once more: at any place, once and many times. Each place
 * costs a flush more where something is given back after it.
 */
TEST_F(gather, retry)
{
	static const long times[] = { 1, 2, 50 };
	long long flushes;
	struct request req;
	size_t i, j, at;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		for (j = 0; j < ARRAY_SIZE(times); j++) {
			at = places[i];
			if (variant->advice == MADV_GUARD_INSTALL)
				madvise(self->area, 2 * NR_RANGES * psize(),
					MADV_GUARD_REMOVE);
			fill_pages(self->area, 2 * NR_RANGES, 1);
			probe_force(at + 1, times[j]);

			flush_count_start(&self->count);
			req = watch_vector(self->vec, NR_RANGES,
					   variant->advice);
			flush_count_stop(&self->count);

			EXPECT_EQ(req.ret, NR_RANGES * psize());
			EXPECT_EQ(req.forced, times[j]);
			EXPECT_EQ(req.steps, NR_RANGES + times[j]);
			EXPECT_BALANCED(req, 1 + times[j]);
			if (variant->empties) {
				EXPECT_EQ(pages_present(self->area,
							2 * NR_RANGES),
					  NR_RANGES);
			}
			flushes = at == NR_RANGES - 1 ? 1 : 2;
			if (!kernel_batches())
				flushes = NR_RANGES;
			if (variant->batched)
				EXPECT_EQ(self->count.local, flushes);
		}
	}
}

/* A range over several VMAs that loses a race in the third is done from its start. */
TEST_F(gather, retry_in_range_over_vmas)
{
	struct request req;

	ASSERT_EQ(split_vmas(self->area, 8), 0);
	self->vec[0].iov_len = 8 * psize();
	probe_force(3, 1);
	req = watch_vector(self->vec, 1, variant->advice);
	EXPECT_EQ(req.ret, 8 * psize());
	EXPECT_EQ(req.forced, 1);
	if (variant->batched)
		EXPECT_EQ(req.steps, 3 + 8);
	EXPECT_BALANCED(req, 2);
}

/* madvise() that loses a race starts again as a system call. */
TEST_F(gather, retry_of_madvise)
{
	struct request req;

	probe_force(1, 3);
	req = watch_madvise(self->area, 4 * psize(), variant->advice);
	EXPECT_EQ(req.ret, 0);
	EXPECT_EQ(req.forced, 3);
	EXPECT_BALANCED(req, 4);
}

/* A retry, then a range that fails. */
TEST_F(gather, retry_then_error)
{
	struct request req;

	probe_force(3, 1);
	self->vec[8].iov_base += 1;
	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	EXPECT_EQ(req.ret, 8 * psize());
	EXPECT_EQ(req.forced, 1);
	EXPECT_BALANCED(req, 2);
}

/* A retry under userfaultfd: both let the lock go. */
TEST_F(gather, retry_with_userfaultfd)
{
	struct monitor monitor = {};
	const char *reason;
	struct request req;

	if (!variant->batched)
		SKIP(return, "not an advice that removes memory");
	reason = monitor_start(&monitor, self->vec[8].iov_base, psize());
	if (reason)
		SKIP(return, "%s", reason);

	probe_force(9, 2);
	req = watch_vector(self->vec, NR_RANGES, variant->advice);
	monitor_stop(&monitor);
	EXPECT_EQ(req.ret, NR_RANGES * psize());
	EXPECT_EQ(req.forced, 2);
	EXPECT_EQ(monitor.events, 3);
	EXPECT_EQ(monitor.pending, 0);
	EXPECT_BALANCED(req, 1 + 2 + 3);
}

/*
 * A request that is killed where it lost a race does not take the lock again.
 * It shares its address space with this process, which lives on, and must find
 * the lock free and no gather live.
 */
TEST_F(gather, killed_at_retry)
{
	struct request req;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		probe_force(places[i] + 1, 1000);
		probe_set("force_kill", 1);
		ASSERT_EQ(watch_killed(self->vec, NR_RANGES, variant->advice,
				       &req),
			  SIGKILL);
		EXPECT_EQ(req.forced, 1);
		EXPECT_EQ(req.steps, places[i] + 1);
		EXPECT_BALANCED(req, 1);
	}
}

/*
 * A request that is killed while it waits to take the lock again ends without
 * the lock: nothing is let go or finished that it does not have.
 */
TEST_F(gather, killed_at_relock)
{
	struct request req;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		probe_force(places[i] + 1, 1);
		probe_set("force_kill", 2);
		ASSERT_EQ(watch_killed(self->vec, NR_RANGES, variant->advice,
				       &req),
			  SIGKILL);
		EXPECT_EQ(req.forced, 1);
		EXPECT_EQ(req.relock_failed, 1);
		EXPECT_EQ(req.steps, places[i] + 1);
		EXPECT_BALANCED(req, 1);
		/* A lock that was let go twice, or kept, shows here. */
		probe_reset();
		EXPECT_EQ(madvise(self->area, psize(), MADV_RANDOM), 0);
		EXPECT_EQ(madvise(self->area, psize(), MADV_NORMAL), 0);
	}
}

/*
 * Others who zap pages have a gather that is theirs alone, and finish it: here, to
 * make a hole in a mapped file, and to cut it off. A hole leaves the private copy
 * of a page alone, the end of the file does not. Notifiers hear of both.
 */
TEST(others_who_zap)
{
	const off_t size = NR_RANGES * psize();
	struct request req = {};
	char *area, *private;
	bool notifies;
	int fd;

	if (lacks_probe())
		SKIP(return, "%s", lacks_probe());
	fd = memfd_create("zapped", MFD_CLOEXEC);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, size), 0);
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT_NE(area, MAP_FAILED);
	ASSERT_NE(private, MAP_FAILED);
	fill_pages(area, NR_RANGES, 1);
	ASSERT_TRUE(pages_hold(private, NR_RANGES, 1));
	*private = 2;

	notifies = probe_set("notify", 1) == 0;
	probe_set("watch", 1);
	EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			    size / 2), 0);
	probe_read(&req);
	EXPECT_EQ(req.pending, 0);
	if (notifies) {
		EXPECT_EQ(req.notified, 2);
		EXPECT_EQ(req.notified_pages, NR_RANGES);
		EXPECT_EQ(req.notified_mapped, 2);
		EXPECT_EQ(req.notified_end, 2);
		/* The private copy. */
		EXPECT_EQ(req.notified_end_mapped, 1);
	}
	EXPECT_TRUE(pages_hold(area, NR_RANGES / 2, 0));
	EXPECT_TRUE(pages_hold(area + size / 2, NR_RANGES / 2, 1));
	EXPECT_EQ(*private, 2);
	EXPECT_TRUE(pages_hold(private + psize(), NR_RANGES / 2 - 1, 0));
	EXPECT_EQ(ftruncate(fd, 0), 0);
	EXPECT_EQ(probe_get("pending"), 0);
	EXPECT_EQ(pages_present(area, NR_RANGES), 0);
	EXPECT_EQ(pages_present(private, NR_RANGES), 0);
	probe_reset();
	munmap(private, size);
	munmap(area, size);
	close(fd);
}

/*
 * What injects errors into memory takes no lock and has no steps: to find the
 * pages is its own business.
 */
TEST(injected_errors)
{
	char *area = map_pages(2);
	struct request req;
	struct iovec vec[2];

	if (lacks_probe())
		SKIP(return, "%s", lacks_probe());
	ASSERT_NE(area, NULL);
	make_ranges(vec, 2, area, 1, 1);
	fill_pages(area, 2, 1);
	/* Any advice that looks at pages empties this CPU's list of pages. */
	ASSERT_EQ(madvise(area, 2 * psize(), MADV_COLD), 0);
	if (madvise(area, psize(), MADV_SOFT_OFFLINE))
		SKIP(return, "needs root and MADV_SOFT_OFFLINE");
	req = watch_vector(vec + 1, 1, MADV_SOFT_OFFLINE);
	EXPECT_EQ(req.ret, psize());
	EXPECT_EQ(req.steps, 0);
	EXPECT_BALANCED(req, 0);
	EXPECT_TRUE(pages_hold(area, 2, 1));
	munmap(area, 2 * psize());
}

TEST_HARNESS_MAIN
