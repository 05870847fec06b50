#!/bin/sh
#
# Runs kselftests of mm in the guest.
#
# What:   runs those that T names, by default those of lists/ksft.tsv, on the
#         kernels that K names; writes out/BASE/ksft/KERNEL/TEST.tap and, a line
#         for each case, out/BASE/ksft/results.tsv: kernel, test, case, result
#         (pass, fail, skip), note.
# Checks: no case fails but those that lists/ksft-known.tsv has; a test that ends
#         badly, or not in its time, and a guest that is lost with it, failed.
# Skips:  cases the kernel lacks something for; each that lists/ksft-known.tsv
#         does not have is told, with what it lacks. By default also
#         the tests of a newer kernel where 'make judge' did not get them.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see ksft.sh -h" ;;
esac

list=$ROOT/lists/ksft.tsv
[ -n "$T" ] || T=$(awk '!/^(#|$)/ { print $1 }' "$list" | grep -vxF "$(unjudged)" | paste -sd' ')
programs=$KSFT/o/kselftest/mm:$KSFT/judge

for test in $T; do
	PATH=$programs command -v "${test%%:*}" > /dev/null || die "no program ${test%%:*}: misspelt, or see $KSFT/build.log"
done

# Where a guest is lost, the rest goes on in another.
run() {
	awk -v tests="$T" '
		BEGIN { n = split(tests, name, " ") }
		!/^(#|$)/ { limit[$1] = $2 " " $3 }
		END { for (i = 1; i <= n; i++) print name[i], name[i] in limit ? limit[name[i]] : "300 64" }' \
		"$list" > "$KSFT/$kernel/plan"
	while [ -s "$KSFT/$kernel/plan" ]; do
		limit=$(awk '{ s += $2 + 10 } END { print s + 60 }' "$KSFT/$kernel/plan")
		echo 0 > "$KSFT/$kernel/status"
		{
			"$ROOT/scripts/boot.sh" -k "$kernel" -t "$limit" -o "$KSFT/$kernel/output" \
				"scripts/guest-ksft.sh $programs $KSFT/probe/$kernel/madvise_probe.ko < $KSFT/$kernel/plan" ||
				echo $? > "$KSFT/$kernel/status"
		} | awk -v kernel="$kernel" '/^@@ begin / { print "ksft: " kernel ": " $3 > "/dev/stderr" }'
		perl "$ROOT/tests/lib/ktap.pl" "$kernel" "$KSFT/$kernel" < "$KSFT/$kernel/output"
		case $(cat "$KSFT/$kernel/status") in
		1) printf '%s\t(guest)\tkernel log\tfail\t%s\n' "$kernel" "see $W/guest/$kernel.log" ;;
		esac
		begun=$(grep -c '^@@ begin ' "$KSFT/$kernel/output" || :)
		if [ "$begun" -eq 0 ]; then
			printf '%s\t(guest)\tboot\tfail\t%s\n' "$kernel" "lost before the first test"
			return
		fi
		sed -i "1,${begun}d" "$KSFT/$kernel/plan"
	done
}
printf 'kernel\ttest\tcase\tresult\tnote\n' > "$KSFT/results.tsv"
for kernel in $K; do
	rm -rf "${KSFT:?}/$kernel"
	mkdir -p "$KSFT/$kernel"
	run "$kernel"
done >> "$KSFT/results.tsv"

# What it comes to
awk -F '\t' -v known="$ROOT/lists/ksft-known.tsv" '
	BEGIN {
		while ((getline line < known) > 0) {
			split(line, f, "\t")
			if (line !~ /^(#|$)/)
				listed[f[1], f[2], f[3], f[4]]
		}
	}
	NR == 1 { next }
	{ n[$1, $4]++; kernel[$1] }
	($4 == "fail" || $4 == "skip") && !(($1, $2, $3, $4) in listed) && !(("*", $2, $3, $4) in listed) {
		printf "ksft: %s: %s: %s %s: %s\n", $1, $2, $3, $4 == "fail" ? "failed" : "skipped", $5
		bad = bad || $4 == "fail"
	}
	END {
		for (k in kernel)
			printf "ksft: %s: %d passed, %d failed, %d skipped\n", k, n[k, "pass"], n[k, "fail"], n[k, "skip"]
		exit bad
	}' "$KSFT/results.tsv"
