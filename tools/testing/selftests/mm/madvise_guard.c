// SPDX-License-Identifier: GPL-2.0
/*
 * Guards are for private anonymous memory that nobody has locked or sealed. They
 * stay until their owner removes them, keep nobody else out of the address space,
 * and leave alone what is not in their range.
 *
 * That is the same whether the kernel batches or not.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"
#include "madvise_batch.h"

#define LONG_PAGES	(1024 * 1024UL)	/* so many that a kill comes in between */
#define MAX_TRIES	20

static bool is_guarded(char *page)
{
	return madvise(page, psize(), MADV_POPULATE_READ) && errno == EFAULT;
}

/* Memory that cannot have guards. */
FIXTURE(refused)
{
	char *area;
	size_t size;
};

FIXTURE_VARIANT(refused)
{
	int flags;	/* of mmap() */
	bool file;
	bool locked;
};

FIXTURE_VARIANT_ADD(refused, shared)
{
	.flags = MAP_SHARED | MAP_ANONYMOUS,
};

FIXTURE_VARIANT_ADD(refused, shared_file)
{
	.flags = MAP_SHARED,
	.file = true,
};

FIXTURE_VARIANT_ADD(refused, private_file)
{
	.flags = MAP_PRIVATE,
	.file = true,
};

FIXTURE_VARIANT_ADD(refused, hugetlb)
{
	.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
};

FIXTURE_VARIANT_ADD(refused, locked)
{
	.flags = MAP_PRIVATE | MAP_ANONYMOUS,
	.locked = true,
};

FIXTURE_SETUP(refused)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	int fd = -1;

	if (reason)
		SKIP(return, "%s", reason);
	self->size = variant->flags & MAP_HUGETLB ? default_huge_page_size() :
						    (size_t)psize();
	if (variant->file) {
		fd = memfd_create("refused", MFD_CLOEXEC);
		ASSERT_GE(fd, 0);
		ASSERT_EQ(ftruncate(fd, self->size), 0);
	}
	self->area = mmap(NULL, self->size, PROT_READ | PROT_WRITE,
			  variant->flags, fd, 0);
	if (fd >= 0)
		close(fd);
	if (variant->flags & MAP_HUGETLB && self->area == MAP_FAILED)
		SKIP(return, "needs a huge page");
	ASSERT_NE(self->area, MAP_FAILED);
	*self->area = 1;
}

FIXTURE_TEARDOWN(refused)
{
	if (self->area && self->area != MAP_FAILED)
		munmap(self->area, self->size);
}

/* To install them is an error, and nothing is lost. */
TEST_F(refused, install)
{
	struct iovec vec = { self->area, self->size };

	if (variant->locked && mlock(self->area, self->size))
		SKIP(return, "needs to lock memory");
	EXPECT_ERROR(madvise(self->area, self->size, MADV_GUARD_INSTALL),
		     EINVAL);
	EXPECT_ERROR(advise_self(&vec, 1, MADV_GUARD_INSTALL), EINVAL);
	EXPECT_EQ(*self->area, 1);
}

/* So is to remove them, but for memory that was locked since. */
TEST_F(refused, remove)
{
	if (!variant->locked) {
		EXPECT_ERROR(madvise(self->area, self->size, MADV_GUARD_REMOVE),
			     EINVAL);
		EXPECT_EQ(*self->area, 1);
		return;
	}
	ASSERT_EQ(madvise(self->area, self->size, MADV_GUARD_INSTALL), 0);
	if (mlock2(self->area, self->size, MLOCK_ONFAULT))
		SKIP(return, "needs to lock memory");
	EXPECT_EQ(madvise(self->area, self->size, MADV_GUARD_REMOVE), 0);
	EXPECT_EQ(*self->area, 0);
}

/*
 * Sealed memory that cannot be written to keeps its contents: guards can be
 * removed from it, not installed.
 */
TEST(sealed)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	char *area;

	if (reason)
		SKIP(return, "%s", reason);
	area = map_pages(2);
	ASSERT_NE(area, NULL);
	*area = 1;
	ASSERT_EQ(madvise(area + psize(), psize(), MADV_GUARD_INSTALL), 0);
	ASSERT_EQ(mprotect(area, 2 * psize(), PROT_READ), 0);
	if (syscall(__NR_mseal, area, 2UL * psize(), 0UL))
		SKIP(return, "needs mseal()");

	EXPECT_ERROR(madvise(area, psize(), MADV_GUARD_INSTALL), EPERM);
	EXPECT_EQ(*area, 1);
	EXPECT_EQ(madvise(area, 2 * psize(), MADV_GUARD_REMOVE), 0);
	EXPECT_EQ(*area, 1);
	EXPECT_EQ(area[psize()], 0);
}

/* Two pages with a userfaultfd: the first is a guard, the second is empty. */
FIXTURE(guard_uffd)
{
	char *area;
	char *source;
	int uffd;
};

FIXTURE_SETUP(guard_uffd)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_UNPOPULATED,
	};
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);

	self->uffd = -1;
	if (reason)
		SKIP(return, "%s", reason);
	self->area = map_pages(2);
	self->source = map_pages(1);
	ASSERT_NE(self->area, NULL);
	ASSERT_NE(self->source, NULL);
	fill_pages(self->source, 1, 1);
	self->uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (self->uffd < 0 || ioctl(self->uffd, UFFDIO_API, &api) ||
	    uffd_register(self->uffd, self->area, 2 * psize(), true, true,
			  false))
		SKIP(return, "needs userfaultfd with write protection");
	ASSERT_EQ(madvise(self->area, psize(), MADV_GUARD_INSTALL), 0);
}

FIXTURE_TEARDOWN(guard_uffd)
{
	if (self->uffd >= 0)
		close(self->uffd);
	munmap(self->area, 2 * psize());
	munmap(self->source, psize());
}

/* A monitor fills what is empty, but not a guard. */
TEST_F(guard_uffd, is_not_filled)
{
	struct uffdio_copy copy = {
		.src = (unsigned long)self->source,
		.len = psize(),
		.dst = (unsigned long)self->area,
	};

	EXPECT_EQ(ioctl(self->uffd, UFFDIO_COPY, &copy), -1);
	EXPECT_EQ(copy.copy, -EEXIST);
	copy.dst += psize();
	EXPECT_EQ(ioctl(self->uffd, UFFDIO_COPY, &copy), 0);

	ASSERT_EQ(uffd_unregister(self->uffd, self->area, 2 * psize()), 0);
	EXPECT_TRUE(is_guarded(self->area));
	EXPECT_EQ(self->area[psize()], 1);
}

/* A guard is neither made nor lost by write protection that comes and goes. */
TEST_F(guard_uffd, stays_without_protection)
{
	struct uffdio_writeprotect protect = {
		.range = { (unsigned long)self->area, 2 * psize() },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	ASSERT_EQ(ioctl(self->uffd, UFFDIO_WRITEPROTECT, &protect), 0);
	protect.mode = 0;
	ASSERT_EQ(ioctl(self->uffd, UFFDIO_WRITEPROTECT, &protect), 0);
	ASSERT_EQ(uffd_unregister(self->uffd, self->area, 2 * psize()), 0);
	EXPECT_TRUE(is_guarded(self->area));
	EXPECT_EQ(self->area[psize()], 0);
}

/*
 * To remove guards leaves a huge page whole.
 *
 *   |HHHHHHHH|g       |
 *   |-----------------|
 */
TEST(huge_page_stays)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	size_t size = read_pmd_pagesize();
	char *map, *area;

	if (reason)
		SKIP(return, "%s", reason);
	if (!size)
		SKIP(return, "needs transparent huge pages");
	map = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(map, MAP_FAILED);
	area = (char *)(((unsigned long)map + size - 1) & ~(size - 1));
	ASSERT_EQ(madvise(area, 2 * size, MADV_HUGEPAGE), 0);
	fill_pages(area, size / psize(), 1);
	if (!check_huge_anon(area, 1, size))
		SKIP(return, "no transparent huge page was to be had");
	ASSERT_EQ(madvise(area + size, psize(), MADV_GUARD_INSTALL), 0);

	EXPECT_EQ(madvise(area, 2 * size, MADV_GUARD_REMOVE), 0);
	EXPECT_TRUE(check_huge_anon(area, 1, size));
	EXPECT_TRUE(pages_hold(area, size / psize(), 1));
	EXPECT_EQ(area[size], 0);
	munmap(map, 3 * size);
}

/* mmap_lock is taken for reading: others can go on with the address space. */
TEST(lock_is_shared)
{
	int fd = trace_count_open(TRACE_LOCK, TRACE_LOCK_TAKEN " && write == 1");
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	struct iovec vec[2];
	long long taken;
	char *area;

	if (reason)
		SKIP(return, "%s", reason);
	if (fd < 0)
		SKIP(return, "needs root, perf events and the trace points of mmap_lock");
	area = map_pages(4);
	ASSERT_NE(area, NULL);
	fill_pages(area, 4, 1);
	make_ranges(vec, 2, area, 1, 2);

	taken = -trace_count_read(fd);
	EXPECT_EQ(madvise(area, psize(), MADV_GUARD_INSTALL), 0);
	EXPECT_EQ(advise_self(vec, 2, MADV_GUARD_INSTALL), 2 * psize());
	EXPECT_EQ(madvise(area, psize(), MADV_GUARD_REMOVE), 0);
	EXPECT_EQ(advise_self(vec, 2, MADV_GUARD_REMOVE), 2 * psize());
	EXPECT_EQ(taken + trace_count_read(fd), 0);

	ASSERT_EQ(mprotect(area, psize(), PROT_READ), 0);
	EXPECT_EQ(taken + trace_count_read(fd), 1);
	close(fd);
}

static int install_long(void *area)
{
	return madvise(area, LONG_PAGES * psize(), MADV_GUARD_INSTALL) != 0;
}

/*
 * One who is killed while he installs guards in a long range dies before the end
 * of it. He shares his address space with this process, which sees how far he
 * came.
 */
TEST(killed_on_the_way)
{
	const char *reason = lacks_advice(MADV_GUARD_INSTALL);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	char *area, *last;
	int try, status;
	bool all = true;
	pid_t pid;

	if (!reason)
		reason = lacks_second_cpu();
	if (reason)
		SKIP(return, "%s", reason);
	ASSERT_GE(fd, 0);
	for (try = 0; all && try < MAX_TRIES; try++) {
		area = mmap(NULL, LONG_PAGES * psize(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ASSERT_NE(area, MAP_FAILED);
		last = area + (LONG_PAGES - 1) * psize();
		pin_to_cpu(test_cpus[1]);
		pid = clone_sharing(install_long, area);
		pin_to_cpu(test_cpus[0]);
		ASSERT_GT(pid, 0);
		while (!(pagemap_get_entry(fd, area) & PM_SWAP))
			;
		kill(pid, SIGKILL);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		all = pagemap_get_entry(fd, last) & PM_SWAP;
		munmap(area, LONG_PAGES * psize());
	}
	TH_LOG("%d tries", try);
	EXPECT_FALSE(all);
	close(fd);
}

TEST_HARNESS_MAIN
