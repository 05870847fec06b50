#!/bin/sh
#
# Runs kselftests in the guest, one after the other.
#
# What:   for each line TEST[:ARGUMENT]... SECONDS HUGE-PAGES of the plan on
#         stdin, puts the guest's memory settings back to the same start, runs
#         the test with its time limit, and marks in the output where it begins
#         and ends.
# Usage:  guest-ksft.sh DIRECTORY[:DIRECTORY] MODULE < PLAN
#         The tests are those of the directories, in a directory of links that
#         they can write to. MODULE is loaded first, for the tests that look
#         into the kernel.
programs=$1 module=$2

[ ! -f "$module" ] || busybox insmod "$module"
case $KERNEL in
before) export MADVISE_BATCHED=0 ;;
*) export MADVISE_BATCHED=1 ;;
esac
if [ -b /dev/ram0 ]; then
	busybox mkswap /dev/ram0 > /dev/null && swapon /dev/ram0
fi
mkdir /tmp/ksft && cd /tmp/ksft || exit
for dir in $(echo "$programs" | tr : ' '); do
	cp -s "$dir"/* . 2> /dev/null
done
while read -r test seconds huge; do
	echo 2 > /sys/kernel/mm/ksm/run
	echo 0 > /sys/kernel/mm/ksm/run
	echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
	echo 0 > /proc/sys/vm/overcommit_memory
	echo 0 > /proc/sys/vm/nr_hugepages
	echo 3 > /proc/sys/vm/drop_caches
	echo 1 > /proc/sys/vm/compact_memory
	echo "$huge" > /proc/sys/vm/nr_hugepages
	echo "@@ begin $test"
	# shellcheck disable=SC2046 # a program and its arguments
	timeout -k 5 "$seconds" $(echo "./$test" | tr : ' ') < /dev/null 2>&1
	echo "
@@ end $test $?"
done
