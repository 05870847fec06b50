#!/bin/sh
#
# A load of other people's making does the same before and after.
#
# What:   stress-ng's stressors of what the series touches, each alone with as
#         many workers as there are CPUs, and all at once, in the guest.
# Checks: a stressor did something, verified it, and ended well and in time;
#         the kernel's log has no splat.
# Not:    what needs CAP_SYS_ADMIN: with it, madvise makes its own memory fail, and
#         is killed for it.
# Skips:  without stress-ng.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
[ -f "$(folder after)/stamp" ] || skip_all "no kernels yet: 'make build'"
command -v stress-ng > /dev/null || skip_all "no stress-ng: install the package stress-ng"

seconds=10
stressors='madvise mmap mlock mremap munmap userfaultfd vm'
all=$(for name in $stressors; do printf ' --%s 1' "$name"; done)
merge='--vm-madvise mergeable'

# stressed KERNEL OPTION...: the status of stress-ng, what it says to the kernel's
# log and to $tmp/said
stressed() {
	kernel=$1
	shift
	"$ROOT/scripts/boot.sh" -k "$kernel" -t $((seconds * 8 + 120)) "
		echo 1 > /sys/kernel/mm/ksm/run
		busybox mkswap /dev/ram0 > /dev/null && swapon /dev/ram0
		setpriv --bounding-set -sys_admin --inh-caps -sys_admin \
			stress-ng --temp-path /tmp --vm-bytes 64M --mmap-bytes 64M --mremap-bytes 32M --verify --metrics-brief \
			--timeout $seconds $*" > "$tmp/said" 2>&1 || {
		echo "status $?"
		cat "$tmp/said"
		return 1
	}
	# NAME BOGO-OPS of those that did something
	sed -n 's/^stress-ng: metrc: \[[0-9]*\] \([a-z]*\)  *\([0-9][0-9]*\) .*/\1 \2/p' "$tmp/said" > "$tmp/ops"
}
one() { # KERNEL STRESSOR [OPTION...]
	kernel=$1 name=$2
	shift 2
	stressed "$kernel" "--$name" 0 "$@"
	cat "$tmp/said"
	grep -q "^$name [1-9]" "$tmp/ops"
}
together() { # KERNEL
	# shellcheck disable=SC2086 # lists of options
	stressed "$1" $all $merge
	cat "$tmp/said"
	[ "$(grep -c ' [1-9]' "$tmp/ops")" -eq "$(echo "$stressors" | wc -w)" ]
}
for kernel in before after; do
	for name in $stressors; do
		ok "$kernel: $name" one $kernel "$name"
	done
	# shellcheck disable=SC2086 # a list of options
	ok "$kernel: vm, memory that KSM merges" one $kernel vm $merge
	ok "$kernel: all at once" together $kernel
done
done_testing
