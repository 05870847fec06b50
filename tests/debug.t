#!/bin/sh
#
# The tests on kernels that check themselves: nothing is complained of.
#
# What:   the kernel after, with configs/debug.config (memory, locks, page tables):
#         all kselftests of lists/ksft.tsv, and random requests; with
#         configs/kcsan.config (data races): those of the series. With each also
#         ten minutes of stress.
# Checks: the kernel does check itself; the tests pass, and the kernel's log has
#         no splat but those that lists/kernel-log.tsv has.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled

# More memory: a map of what may be touched takes an eighth of it, and mremap_test
# maps 2 GB.
export K=after MEM=3G
programs=$(awk '$1 ~ /^madvise_/ { print $1 }' "$ROOT/lists/ksft.tsv" | paste -sd' ')
ksft() { "$ROOT/scripts/selftests.sh" && T=$1 "$ROOT/scripts/ksft.sh"; } # "PROGRAM ...", or "" for all
stress() { # SECONDS
	"$ROOT/scripts/boot.sh" -k after -t $(($1 + 300)) "
		busybox mkswap /dev/ram0 && swapon /dev/ram0
		madvise_stress $1"
}
# checks PATTERN...: the log of the kernel's start has them all
checks() {
	"$ROOT/scripts/boot.sh" -k after -t 300 dmesg > "$tmp/dmesg"
	for pattern; do
		grep "$pattern" "$tmp/dmesg" || { echo "not in the log: $pattern"; return 1; }
	done
}

for config in debug kcsan; do
	export CONFIG="boot ksft $config"
	ok "$config: compiles" "$ROOT/scripts/build.sh" -k after
	case $config in
	debug) ok "debug: it checks itself" checks 'KernelAddressSanitizer initialized' 'Lock dependency validator' ;;
	kcsan) ok "kcsan: it checks itself" checks 'kcsan: enabled early' 'kcsan: selftest: \([0-9]*\)/\1 tests passed' ;;
	esac
	ok "$config: stress for 10 minutes" stress 600
	case $config in
	debug)
		ok "debug: all kselftests" ksft ""
		ok "debug: random requests, whole and in parts" "$ROOT/scripts/equal.sh" -m vectors -n 1000
		ok "debug: random requests that race" "$ROOT/scripts/equal.sh" -m race -n 1000
		;;
	kcsan) ok "kcsan: the tests of the series" ksft "$programs" ;;
	esac
done
done_testing
