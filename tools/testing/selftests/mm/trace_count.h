/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Count the hits of a trace point in the calling thread, and in no other.
 *
 * A counter is a perf event on the trace point. It runs from the moment it is
 * opened: what a call costs is the difference of two readings. Nothing is
 * sampled, so the counted code is not disturbed. Needs root, and a kernel with
 * CONFIG_PERF_EVENTS and CONFIG_EVENT_TRACING.
 *
 * How x86 reports its TLB flushes (arch/x86/mm/tlb.c): each flush of a user
 * address range, whatever its width, hits tlb:tlb_flush once in the thread that
 * asks for it, with reason TLB_LOCAL_MM_SHOOTDOWN. If other CPUs may hold
 * entries of the same address space, it hits it once more, with reason
 * TLB_REMOTE_SEND_IPI. So the first of the two is the number of flushes, and
 * the second the number of those that went to other CPUs. (The counters of
 * /proc/vmstat do not tell: nr_tlb_local_flush_one counts pages.)
 */
#ifndef __TRACE_COUNT_H
#define __TRACE_COUNT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <linux/perf_event.h>

#define TRACE_FLUSH		"tlb/tlb_flush"
#define TRACE_FLUSH_LOCAL	"reason == 3"	/* TLB_LOCAL_MM_SHOOTDOWN */
#define TRACE_FLUSH_REMOTE	"reason == 4"	/* TLB_REMOTE_SEND_IPI */
#define TRACE_LOCK		"mmap_lock/mmap_lock_acquire_returned"
#define TRACE_LOCK_TAKEN	"success == 1"

/* Returns a file descriptor, or a negative errno. */
static inline int trace_count_open(const char *event, const char *filter)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
	};
	unsigned long long id;
	char path[256];
	int fd, ret;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s/id", event);
	f = fopen(path, "r");
	if (!f) {
		/* Fails where it is mounted already: the next open() tells. */
		mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
		f = fopen(path, "r");
	}
	if (!f)
		return -errno;
	ret = fscanf(f, "%llu", &id);
	fclose(f);
	if (ret != 1)
		return -EIO;

	attr.config = id;
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1,
		     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* Returns the hits so far, or -1. */
static inline long long trace_count_read(int fd)
{
	unsigned long long count = 0;

	/*
	 * Write it now. If its page is shared with the parent since fork(), to
	 * copy that page is a TLB flush: in read() it would come too late for
	 * this reading, and be counted in the next.
	 */
	asm volatile("" : "+m" (count));
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return -1;
	return count;
}

#endif /* __TRACE_COUNT_H */
