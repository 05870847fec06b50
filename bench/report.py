#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""
Makes the files of results/ from what the guests printed.

usage: report.py DIR

DIR has the files NAME.raw that scripts/bench.sh collected, and upstream.tsv.
Written to DIR, each with a line of column names first:

  counts.tsv        TLB flushes and mmap_lock of each case
  instructions.tsv  guest instructions per page of each case, in two runs
  latency.tsv       each run, as it was measured
  profile.tsv       instructions per range by kernel function, in calls of 1,024
  table-exact.tsv   by ranges per call: flushes and instructions, before and after
  table-time.tsv    by ranges per call: latency, in the form of upstream.tsv; the
                    least of all samples, how the least of each run spread, and
                    how far the reduction moves when any one run is left out

Prints in words whether two runs of a kernel agree, and whether the goals of the
series are reached.
"""
import csv
import os
import statistics
import sys

CASE = ["method", "advice", "memory", "target", "layout", "ranges", "callers", "busy"]
# The case that upstream measured, at all sizes of a call
UPSTREAM = {"method": "process_madvise", "advice": "DONTNEED", "memory": "anon",
            "target": "self", "layout": "adjacent", "callers": "1", "busy": "0"}
PAGE = 4096

directory = sys.argv[1]
missed = []


def path(name):
    return os.path.join(directory, name)


def have(name):
    return os.path.exists(path(name))


def read(name):
    """Lines of a TSV file as dictionaries; comments and their last line, the
    column names, as upstream.tsv has them."""
    with open(path(name), newline="") as file:
        lines = file.read().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    data = [line for line in lines if not line.startswith("#")]
    names = comments[-1][1:].strip() if comments else data.pop(0)
    return list(csv.DictReader([names] + data, delimiter="\t"))


def write(name, columns, rows):
    with open(path(name), "w", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)


def is_case(row, **differs):
    return all(row[key] == value for key, value in {**UPSTREAM, **differs}.items())


def sizes(rows):
    return sorted({int(row["ranges"]) for row in rows if is_case(row)})


def spread(samples):
    """Standard deviation in percent of the mean."""
    if len(samples) < 2:
        return 0
    return 100 * statistics.stdev(samples) / statistics.mean(samples)


def goal(reached, text):
    if not reached:
        missed.append(text)


def counts():
    rows = []
    for row in read("counts.raw"):
        flushes = int(row["flushes_local"])
        rows.append([row["kernel"], *(row[key] for key in CASE), row["bytes"], row["calls"],
                     flushes, row["flushes_remote"], row["flushes_full"], row["mmap_locks"],
                     f"{flushes / int(row['calls']):.6g}",
                     f"{flushes / int(row['bytes']) * 2 ** 20:.6g}"])
    write("counts.tsv",
          ["kernel", *CASE, "bytes", "calls", "flushes", "flushes_remote", "flushes_full",
           "mmap_locks", "flushes_per_call", "flushes_per_mib"], rows)


def instructions():
    runs = {}
    for row in read("instructions.raw"):
        key = (row["kernel"], *(row[key] for key in CASE))
        runs.setdefault(key, []).append(int(row["p50_ns"]) / (int(row["bytes"]) / PAGE))
    rows = []
    for key, samples in runs.items():
        differ = 100 * (max(samples) - min(samples)) / min(samples)
        rows.append([*key, *(f"{sample:.2f}" for sample in samples), f"{differ:.4f}"])
    write("instructions.tsv", ["kernel", *CASE, "per_page", "per_page_again", "differ_pct"], rows)

    worst = max(rows, key=lambda row: float(row[-1]))
    print(f"Two runs of the same kernel differ by {worst[-1]} % of the instructions at the most", end="")
    if float(worst[-1]) > 0.1:
        print(": MORE than the 0.1 % that they may, in " + " ".join(worst[:-3]))
    else:
        print(".")


def latency():
    rows = read("latency.raw")
    write("latency.tsv", rows[0].keys(), (row.values() for row in rows))
    if "QEMU" in rows[0]["cpu"]:
        print("The time is that of an emulated CPU (" + rows[0]["cpu"] + "): take the ratios, not the times.")


def profile():
    """What the calls took per range, by function, largest first in the kernel after."""
    ranges_per_call = 1024
    each = {"before": {}, "after": {}}
    for kernel, per_range in each.items():
        lines = {row["function"]: int(row["instructions"])
                 for row in read("profile.raw") if row["kernel"] == kernel}
        calls = lines.pop("calls")
        per_range.update((name, count / calls / ranges_per_call) for name, count in lines.items())
        per_range["(all)"] = sum(per_range.values())
    before, after = each["before"], each["after"]
    names = sorted(set(before) | set(after), reverse=True,
                   key=lambda name: (after.get(name, 0), before.get(name, 0)))
    write("profile.tsv", ["function", "before", "after", "after_pct"],
          ([name, f"{before.get(name, 0):.1f}", f"{after.get(name, 0):.1f}",
            f"{100 * after.get(name, 0) / after['(all)']:.1f}"]
           for name in names if before.get(name, 0) + after.get(name, 0) >= 0.1))


def table_exact():
    counted, measured = read("counts.tsv"), read("instructions.tsv")

    def flushes(kernel, ranges):
        return next(row["flushes_per_call"] for row in counted
                    if row["kernel"] == kernel and is_case(row, ranges=ranges))

    def insns(kernel, ranges):
        return next(float(row["per_page"]) for row in measured
                    if row["kernel"] == kernel and is_case(row, ranges=ranges))

    limit = next(float(row["per_page"]) for row in measured
                 if row["kernel"] == "after" and row["method"] == "whole")
    rows = []
    for size in sizes(measured):
        ranges = str(size)
        before, after = insns("before", ranges), insns("after", ranges)
        reduction = 100 * (1 - after / before)
        rows.append([ranges, flushes("before", ranges), flushes("after", ranges),
                     f"{before:.0f}", f"{after:.0f}", f"{reduction:.1f}", f"{after / limit:.2f}"])
        goal(float(flushes("after", ranges)) == 1, f"one flush per call at {ranges} ranges")
        goal(size == 1 or reduction > 0, f"fewer instructions at {ranges} ranges")
        goal(size != 1 or reduction > -1, "no more instructions at one range per call")
    write("table-exact.tsv",
          ["ranges", "flushes_before", "flushes_after", "insns_before", "insns_after", "reduction_pct", "of_limit"],
          rows)


def least_by_run(rows, kernel, ranges):
    """The least sample of each run, in ms."""
    runs = {}
    for row in rows:
        if row["kernel"] == kernel and is_case(row, ranges=ranges):
            runs.setdefault(row["run"], []).append(int(row["min_ns"]) / 1e6)
    return [min(samples) for samples in runs.values()]


def reduced(before, after):
    """By how many percent the least is less."""
    return 100 * (1 - min(after) / min(before))


def table_time():
    rows = read("latency.tsv")
    upstream = {row["vlen"]: row["reduction_pct"] for row in read("upstream.tsv")}
    table, noisy = [], []
    for size in sizes(rows):
        ranges = str(size)
        before, after = (least_by_run(rows, kernel, ranges) for kernel in ("before", "after"))
        reduction = reduced(before, after)
        without = [reduced(before[:i] + before[i + 1:], after[:i] + after[i + 1:])
                   for i in range(len(before)) if len(before) > 1]
        table.append([ranges,
                      f"{min(before):.1f}", f"{spread(before):.1f}",
                      f"{min(after):.1f}", f"{spread(after):.1f}",
                      f"{reduction:.1f}", f"{max((abs(r - reduction) for r in without), default=0):.1f}",
                      f"{float(upstream[ranges]):.1f}"])
        if float(table[-1][-2]) > 5:
            noisy.append(ranges)
        goal(size == 1 or reduction > 0, f"less time at {ranges} ranges")
    if noisy:
        print("The machine was BUSY: at " + ", ".join(noisy) + " ranges per call the reduction of time moves by"
              " more than 5 points when one run is left out. Measure again on a quiet one, or with a larger RUNS=.")
    write("table-time.tsv",
          ["ranges", "before_ms", "before_spread_pct", "after_ms", "after_spread_pct",
           "reduction_pct", "reduction_spread", "upstream_pct"], table)


for make in (counts, instructions, latency, profile):
    if have(make.__name__ + ".raw"):
        make()
if have("counts.tsv") and have("instructions.tsv"):
    table_exact()
if have("latency.tsv"):
    table_time()
for text in missed:
    print("MISSED: " + text)
if not missed and have("table-exact.tsv") and have("table-time.tsv"):
    print("Reached at every size that was measured: one flush per call, fewer instructions and less time"
          " from 2 ranges per call up, no loss at 1.")
