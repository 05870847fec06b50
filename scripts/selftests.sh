#!/bin/sh
#
# Compiles the selftests that run in the guest.
#
# What:   the kernel's mm selftests, this repository's among them, from the last
#         commit of out/BASE/tree, into out/BASE/ksft; and for each kernel of K the
#         module madvise_probe, through which some of them look into it.
# Says:   which do not compile here; that is an error only where one is to run.
# Skips:  what was compiled from the same commits.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see selftests.sh -h" ;;
esac

[ -f "$W/tree.stamp" ] || die "no tree yet: 'make tree'"
read -r _ tip < "$W/tree.stamp"
programs=$KSFT/o/kselftest/mm
log=$KSFT/build.log
mkdir -p "$KSFT"

# The programs. Some do not compile with every libc: that matters only where
# one of them is wanted.
if [ "$(cat "$KSFT/stamp" 2>/dev/null)" != "$tip" ]; then
	need rsync rsync
	say "compiling the selftests"
	checkout "$tip"
	kmake "$KSFT/o" headers > "$log" 2>&1 || die "the kernel's headers do not install: see $log"
	rm -rf "$programs"
	make -k -j"$JOBS" -C "$SRC/tools/testing/selftests" O="$KSFT/o" TARGETS=mm >> "$log" 2>&1 || :
	release
	echo "$tip" > "$KSFT/stamp"
	failed=$(sed -n "s|^make.*: $programs/\([^]]*\)\] Error.*|\1|p" "$log" | sort -u | paste -sd' ')
	[ -z "$failed" ] || say "does not compile here: $failed (see $log)"
fi

# The module, for each kernel
for kernel in $K; do
	o=$(folder "$kernel")
	[ -f "$o/stamp" ] || die "no kernel $kernel: 'make build'"
	read -r commit _ < "$o/stamp"
	module=$KSFT/probe/$kernel
	stamp="$(cat "$o/stamp") $tip"
	[ "$(cat "$module/stamp" 2>/dev/null)" != "$stamp" ] || continue
	rm -rf "$module"
	mkdir -p "$module"
	git_ -C "$GITDIR" archive "$tip" tools/testing/selftests/mm/madvise_probe |
		tar -x --strip-components=5 -C "$module"
	checkout "$commit"
	kmake "$o" M="$module" modules > "$module.log" 2>&1 ||
		die "the module madvise_probe does not compile for $kernel: see $module.log"
	release
	echo "$stamp" > "$module/stamp"
done
