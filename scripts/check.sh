#!/bin/sh
#
# All tests that a change must pass.
#
# What:   gets base, tree and kernels, then runs the files tests/*.t, the quick
#         ones first; each line is a check, and each file says at its top what it
#         is about.
#         Some take so long that they run only with -a, which is make check-all.
# Checks: ends with the numbers of those that passed, failed and were skipped.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
all=
case ${1-} in
-h) usage ;;
-a) all=y ;;
?*) misuse "see check.sh -h" ;;
esac

for step in fetch tree build selftests; do
	"$ROOT/scripts/$step.sh"
done
# Where the archive does not have it, tests/ksft.t skips what it would judge.
"$ROOT/scripts/judge.sh" || [ $? -eq 4 ]
cd "$ROOT"
# What takes long comes last.
late='tests/build.t tests/ksft.t'
slow='tests/builds.t tests/coccicheck.t tests/deb.t tests/stress-ng.t tests/debug.t scripts/mutants.sh'
files=$(for file in tests/*.t; do
	case " $late $slow " in
	*" $file "*) ;;
	*) echo "$file" ;;
	esac
done)
# shellcheck disable=SC2086 # lists of files
exec perl tests/lib/harness.pl $files $late ${all:+$slow}
