#!/bin/sh
#
# A request of one range costs no more after than before.
#
# What:   the guest instructions of giving memory back, one range in each call,
#         on both kernels: process_madvise() and madvise(); advice that is
#         batched and that is not; small pages, transparent and hugetlb pages,
#         file memory; one madvise() over the whole area.
# Checks: the kernel after takes at most 1 % more than the kernel before. It is a
#         count of instructions, by QEMU's -icount, and so no matter of how
#         busy the machine is.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

bench=$W/noloss
gcc -O2 -o "$bench" "$ROOT/bench/madvise_bench.c" -lm -pthread
cases='-m process_madvise -a DONTNEED
-m process_madvise -a DONTNEED_LOCKED
-m process_madvise -a FREE
-m process_madvise -a COLD
-m process_madvise -a NORMAL
-m process_madvise -a WILLNEED
-m madvise -a DONTNEED
-m madvise -a DONTNEED_LOCKED
-m madvise -a FREE
-m madvise -a COLD
-m madvise -a NORMAL
-m madvise -a WILLNEED
-m process_madvise -a DONTNEED -M file
-m madvise -a DONTNEED -M file
-m process_madvise -a DONTNEED -M thp
-m process_madvise -a DONTNEED -M thp -r 2048
-m madvise -a FREE -M thp -r 2048
-m process_madvise -a DONTNEED -M hugetlb -r 2048
-m madvise -a DONTNEED -M hugetlb -r 2048
-m whole -a DONTNEED
-m whole -a FREE
-m whole -a DONTNEED -M file
-m whole -a DONTNEED -M hugetlb -r 2048'

for k in before after; do
	ACCEL=icount "$ROOT/scripts/boot.sh" -k $k "
		echo 8 > /proc/sys/vm/nr_hugepages
		while read -r options; do
			$bench -k $k -s 8 -i 5 -n 1 \$options < /dev/null || exit
		done <<-EOF
		$cases
		EOF" > "$tmp/$k" || {
		sed 's/^/# /' "$tmp/$k"
		exit 1
	}
done
# In both files a line for each case: what it took in the middle of five times
column() { "$bench" -H | tr '\t' '\n' | grep -nx "$1" | cut -d: -f1; }
cut -f"$(column p50_ns)" "$tmp/before" > "$tmp/before.ns"
cut -f"$(column p50_ns)" "$tmp/after" > "$tmp/after.ns"

within() {
	echo "instructions: $1 before, $2 after"
	[ $(($2 * 100)) -le $(($1 * 101)) ]
}
echo "$cases" | paste "$tmp/before.ns" "$tmp/after.ns" - > "$tmp/all"
while read -r before after options; do
	ok "one range costs no more: $options" within "$before" "$after"
done < "$tmp/all"
done_testing
