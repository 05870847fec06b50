// SPDX-License-Identifier: GPL-2.0
/*
 * madvise_probe: look into one request of madvise() or process_madvise(), and
 * make it take the ways that chance takes it rarely.
 *
 * A request gathers pages whose TLB entries are still to be flushed. While a
 * gather is live, mm->tlb_flush_pending is raised. A request that has to let
 * go of mmap_lock before it is done must finish its gather first. This module
 * watches one task (and no other) and sees whether it does.
 *
 * Interface, in /sys/kernel/debug/madvise_probe/:
 *
 *   watch	   write 1: watch the writing task, and the workers that do its
 *		   io_uring requests, counters start from 0;
 *		   write 0: watch nobody, counters stay
 *   pending	   live gathers on the reader's address space
 *   steps	   steps the watched task made; a step is what a request does in
 *		   one VMA for one range
 *   lost	   how many of them lost a race by chance, as force_at makes them
 *   steps_live	   how many of them ended with a live gather: the request's
 *   acquired	   how often it took mmap_lock
 *   released	   how often it let mmap_lock go
 *   released_live how often it did so with a live gather (or with one finished
 *		   twice)
 *   huge_zaps	   how often it was done with huge pages of hugetlbfs
 *   huge_zaps_live how often it was so with a live gather: another thread's fault
 *		   may then find the pool empty
 *
 *   notify	   write 1: MMU notifiers, such as KVM's, listen to the changes of
 *		   the writer's address space; write 0: none does. Missing where
 *		   the kernel has no MMU notifiers.
 *   notified	   how often the watched task told that a range will change
 *   notified_pages the pages of these ranges
 *   notified_mapped in how many of them the first page was mapped when it was told
 *   notified_end  how often it told that the range has changed
 *   notified_end_mapped in how many of them the first page was still mapped
 *   notified_flush how often it told to flush what TLBs there are beside the CPUs'
 *
 *   force_at	   the number of the step, from 1, that does its work and then
 *		   says -ERESTARTNOINTR; 0: none. Such a step has lost a race:
 *		   the request lets mmap_lock go, takes it and does the range
 *		   once more.
 *   force_times   how many steps from that one on
 *   force_kill	   0: nothing more happens. 1: a fatal signal comes with each
 *		   forced step. 2: it comes when the request then lets mmap_lock
 *		   go, and the lock cannot be had again before the request gives
 *		   up (one that asks for it by an uninterruptible call hangs).
 *		   Without a forced step nothing happens.
 *   forced	   how many steps were forced
 *   relock_failed how often the request gave up waiting for mmap_lock
 *
 * An exiting task is not looked at: it has no request any more.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <trace/events/mmap_lock.h>

enum kill_mode {
	KILL_NOT,
	KILL_AT_STEP,
	KILL_AT_RELOCK,
};

/* How far a request with KILL_AT_RELOCK has come. */
enum relock_state {
	RELOCK_IDLE,
	RELOCK_FORCED,		/* a step was forced */
	RELOCK_KILLED,		/* the lock was let go, the signal is sent */
	RELOCK_BLOCKED,		/* we hold the lock against the request */
};

static struct dentry *dir;

static DEFINE_MUTEX(watch_mutex);
static struct task_struct *watched;
static struct mm_struct *watched_mm;	/* only to compare with */
static enum relock_state relock;

static u32 force_at, force_times = 1, force_kill;
static atomic_t steps, steps_live, lost, forced, acquired, released, released_live;
static atomic_t huge_zaps, huge_zaps_live, relock_failed;

static bool is_watched(struct mm_struct *mm)
{
	if (mm != current->mm || (current->flags & PF_EXITING))
		return false;
	if (current->flags & PF_IO_WORKER)
		return mm && mm == READ_ONCE(watched_mm);
	return READ_ONCE(watched) == current;
}

static int step_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	u32 step;

	if (!is_watched(current->mm))
		return 0;

	step = atomic_inc_return(&steps);
	if (atomic_read(&current->mm->tlb_flush_pending))
		atomic_inc(&steps_live);
	if ((int)regs_return_value(regs) == -ERESTARTNOINTR)
		atomic_inc(&lost);
	if (!force_at || step < force_at || step - force_at >= force_times)
		return 0;
	/* A step that failed ends the request: nothing to force. */
	if (regs_return_value(regs))
		return 0;

	atomic_inc(&forced);
	if (force_kill == KILL_AT_STEP)
		send_sig(SIGKILL, current, 1);
	else if (force_kill == KILL_AT_RELOCK)
		relock = RELOCK_FORCED;
	regs_set_return_value(regs, -ERESTARTNOINTR);
	return 0;
}

static struct kretprobe step_probe = {
	.handler = step_return,
	.kp.symbol_name = "madvise_vma_behavior",
};

/* On entry the gather must be finished: faults are let in from here on. */
static int huge_zap_end(struct kprobe *kp, struct pt_regs *regs)
{
	if (!is_watched(current->mm))
		return 0;

	atomic_inc(&huge_zaps);
	if (atomic_read(&current->mm->tlb_flush_pending))
		atomic_inc(&huge_zaps_live);
	return 0;
}

static struct kprobe huge_probe = {
	.pre_handler = huge_zap_end,
	.symbol_name = "__hugetlb_zap_end",
};

static void on_released(void *data, struct mm_struct *mm,
			const char *memcg_path, bool write)
{
	if (!is_watched(mm))
		return;

	atomic_inc(&released);
	if (atomic_read(&mm->tlb_flush_pending))
		atomic_inc(&released_live);

	if (relock == RELOCK_FORCED) {
		send_sig(SIGKILL, current, 1);
		relock = RELOCK_KILLED;
	}
}

/*
 * Take the lock in the name of the task that is about to ask for it, in the way
 * that excludes what it asks for, until it has given up. Lockdep would call that
 * a deadlock, and but for the signal it were one.
 */
static void on_start_locking(void *data, struct mm_struct *mm,
			     const char *memcg_path, bool write)
{
	bool blocked;

	if (!is_watched(mm) || relock != RELOCK_KILLED)
		return;

	lockdep_off();
	if (write)
		blocked = down_read_trylock(&mm->mmap_lock);
	else
		blocked = down_write_trylock(&mm->mmap_lock);
	lockdep_on();
	relock = blocked ? RELOCK_BLOCKED : RELOCK_IDLE;
}

static void on_acquire_returned(void *data, struct mm_struct *mm,
				const char *memcg_path, bool write,
				bool success)
{
	if (!is_watched(mm))
		return;

	if (success)
		atomic_inc(&acquired);
	else
		atomic_inc(&relock_failed);

	if (relock == RELOCK_BLOCKED) {
		relock = RELOCK_IDLE;
		lockdep_off();
		if (write)
			up_read(&mm->mmap_lock);
		else
			up_write(&mm->mmap_lock);
		lockdep_on();
	}
}

#ifdef CONFIG_MMU_NOTIFIER
static atomic_t notified, notified_pages, notified_mapped;
static atomic_t notified_end, notified_end_mapped, notified_flush;
static DEFINE_MUTEX(notify_mutex);
static struct mm_struct *notify_mm;	/* that the notifier listens to */

static bool page_is_mapped(unsigned long addr)
{
	struct page *page;

	if (get_user_pages_fast_only(addr, 1, 0, &page) != 1)
		return false;
	put_page(page);
	return true;
}

static int on_start(struct mmu_notifier *self,
		    const struct mmu_notifier_range *range)
{
	if (!is_watched(range->mm))
		return 0;

	atomic_inc(&notified);
	atomic_add((range->end - range->start) >> PAGE_SHIFT, &notified_pages);
	if (page_is_mapped(range->start))
		atomic_inc(&notified_mapped);
	return 0;
}

static void on_end(struct mmu_notifier *self,
		   const struct mmu_notifier_range *range)
{
	if (!is_watched(range->mm))
		return;

	atomic_inc(&notified_end);
	if (page_is_mapped(range->start))
		atomic_inc(&notified_end_mapped);
}

static void on_secondary(struct mmu_notifier *self, struct mm_struct *mm,
			 unsigned long start, unsigned long end)
{
	if (is_watched(mm))
		atomic_inc(&notified_flush);
}

/* Nobody may want both: two listen. */
static const struct mmu_notifier_ops change_ops = {
	.invalidate_range_start = on_start,
	.invalidate_range_end = on_end,
};

static const struct mmu_notifier_ops flush_ops = {
	.arch_invalidate_secondary_tlbs = on_secondary,
};

static struct mmu_notifier change_notifier = { .ops = &change_ops };
static struct mmu_notifier flush_notifier = { .ops = &flush_ops };

static int notify_set(void *data, u64 on)
{
	int ret = 0;

	mutex_lock(&notify_mutex);
	if (notify_mm) {
		mmu_notifier_unregister(&change_notifier, notify_mm);
		mmu_notifier_unregister(&flush_notifier, notify_mm);
	}
	notify_mm = NULL;
	if (on) {
		ret = mmu_notifier_register(&change_notifier, current->mm);
		if (ret)
			goto out;
		ret = mmu_notifier_register(&flush_notifier, current->mm);
		if (ret)
			mmu_notifier_unregister(&change_notifier, current->mm);
		else
			notify_mm = current->mm;
	}
out:
	mutex_unlock(&notify_mutex);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(notify_fops, NULL, notify_set, "%llu\n");

static void notify_reset(void)
{
	atomic_set(&notified, 0);
	atomic_set(&notified_pages, 0);
	atomic_set(&notified_mapped, 0);
	atomic_set(&notified_end, 0);
	atomic_set(&notified_end_mapped, 0);
	atomic_set(&notified_flush, 0);
}

static void notify_init(void)
{
	debugfs_create_file_unsafe("notify", 0200, dir, NULL, &notify_fops);
	debugfs_create_atomic_t("notified", 0400, dir, &notified);
	debugfs_create_atomic_t("notified_pages", 0400, dir, &notified_pages);
	debugfs_create_atomic_t("notified_mapped", 0400, dir, &notified_mapped);
	debugfs_create_atomic_t("notified_end", 0400, dir, &notified_end);
	debugfs_create_atomic_t("notified_end_mapped", 0400, dir, &notified_end_mapped);
	debugfs_create_atomic_t("notified_flush", 0400, dir, &notified_flush);
}

static void notify_exit(void)
{
	notify_set(NULL, 0);
}
#else
static void notify_reset(void) {}
static void notify_init(void) {}
static void notify_exit(void) {}
#endif

static int watch_set(void *data, u64 on)
{
	struct task_struct *last;

	mutex_lock(&watch_mutex);
	last = watched;
	WRITE_ONCE(watched, NULL);
	WRITE_ONCE(watched_mm, NULL);
	if (on) {
		atomic_set(&steps, 0);
		atomic_set(&steps_live, 0);
		atomic_set(&lost, 0);
		atomic_set(&forced, 0);
		atomic_set(&acquired, 0);
		atomic_set(&released, 0);
		atomic_set(&released_live, 0);
		atomic_set(&huge_zaps, 0);
		atomic_set(&huge_zaps_live, 0);
		atomic_set(&relock_failed, 0);
		notify_reset();
		relock = RELOCK_IDLE;
		WRITE_ONCE(watched_mm, current->mm);
		WRITE_ONCE(watched, get_task_struct(current));
	}
	if (last)
		put_task_struct(last);
	mutex_unlock(&watch_mutex);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(watch_fops, NULL, watch_set, "%llu\n");

static int pending_get(void *data, u64 *val)
{
	struct mm_struct *mm = current->mm;

	*val = mm ? atomic_read(&mm->tlb_flush_pending) : 0;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE_SIGNED(pending_fops, pending_get, NULL, "%lld\n");

static void unregister_all(void)
{
	unregister_trace_mmap_lock_acquire_returned(on_acquire_returned, NULL);
	unregister_trace_mmap_lock_start_locking(on_start_locking, NULL);
	unregister_trace_mmap_lock_released(on_released, NULL);
	tracepoint_synchronize_unregister();
	unregister_kretprobe(&step_probe);
	if (IS_ENABLED(CONFIG_HUGETLB_PAGE))
		unregister_kprobe(&huge_probe);
}

static int __init madvise_probe_init(void)
{
	int ret;

	ret = register_kretprobe(&step_probe);
	if (ret) {
		pr_err("no probe on %s (%d)\n", step_probe.kp.symbol_name, ret);
		return ret;
	}
	if (IS_ENABLED(CONFIG_HUGETLB_PAGE)) {
		ret = register_kprobe(&huge_probe);
		if (ret) {
			pr_err("no probe on %s (%d)\n", huge_probe.symbol_name,
			       ret);
			unregister_kretprobe(&step_probe);
			return ret;
		}
	}
	if (register_trace_mmap_lock_released(on_released, NULL) ||
	    register_trace_mmap_lock_start_locking(on_start_locking, NULL) ||
	    register_trace_mmap_lock_acquire_returned(on_acquire_returned,
						      NULL)) {
		pr_err("no probe on the trace points mmap_lock:*\n");
		unregister_all();
		return -EINVAL;
	}

	dir = debugfs_create_dir("madvise_probe", NULL);
	debugfs_create_file_unsafe("watch", 0200, dir, NULL, &watch_fops);
	debugfs_create_file_unsafe("pending", 0400, dir, NULL, &pending_fops);
	debugfs_create_atomic_t("steps", 0400, dir, &steps);
	debugfs_create_atomic_t("steps_live", 0400, dir, &steps_live);
	debugfs_create_atomic_t("lost", 0400, dir, &lost);
	debugfs_create_atomic_t("acquired", 0400, dir, &acquired);
	debugfs_create_atomic_t("released", 0400, dir, &released);
	debugfs_create_atomic_t("released_live", 0400, dir, &released_live);
	debugfs_create_atomic_t("huge_zaps", 0400, dir, &huge_zaps);
	debugfs_create_atomic_t("huge_zaps_live", 0400, dir, &huge_zaps_live);
	debugfs_create_u32("force_at", 0600, dir, &force_at);
	debugfs_create_u32("force_times", 0600, dir, &force_times);
	debugfs_create_u32("force_kill", 0600, dir, &force_kill);
	debugfs_create_atomic_t("forced", 0400, dir, &forced);
	debugfs_create_atomic_t("relock_failed", 0400, dir, &relock_failed);
	notify_init();
	return 0;
}

static void __exit madvise_probe_exit(void)
{
	debugfs_remove(dir);
	notify_exit();
	unregister_all();
	if (watched)
		put_task_struct(watched);
}

module_init(madvise_probe_init);
module_exit(madvise_probe_exit);
MODULE_DESCRIPTION("Watch a madvise() request and force its retry");
MODULE_LICENSE("GPL");
