#!/bin/sh
#
# The kernel's mm selftests, and this repository's, on before and after.
#
# Checks: every case passes, or lists/ksft-known.tsv says why not; a case has the
#         same result before and after, or the list says why not; the list has
#         nothing in vain. Each test is a line here; its cases are in
#         out/BASE/ksft.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
known=$ROOT/lists/ksft-known.tsv
results=$KSFT/results.tsv

T='' K='before after' "$ROOT/scripts/ksft.sh" > "$tmp/said" 2>&1 || [ $? -eq 1 ] || {
	sed 's/^/# /' "$tmp/said"
	exit 1
}

# cases KERNEL TEST: its cases, of which one at least must have run
cases() {
	awk -F '\t' -v kernel="$1" -v test="$2" -v known="$known" '
		BEGIN {
			while ((getline line < known) > 0) {
				split(line, f, "\t")
				if (line !~ /^(#|$)/)
					listed[f[1], f[2], f[3], f[4]]
			}
		}
		$1 != kernel || $2 != test { next }
		{ n++ }
		$4 == "pass" || (kernel, test, $3, $4) in listed || ("*", test, $3, $4) in listed { next }
		{ print $4 ": " $3 ": " $5; bad = 1 }
		END {
			if (!n)
				print "no case ran"
			exit bad || !n
		}' "$results"
}
same() {
	for kernel in before after; do
		awk -F '\t' -v kernel=$kernel -v test="$1" -v known="$known" '
			BEGIN {
				while ((getline line < known) > 0) {
					split(line, f, "\t")
					if (f[1] == "before" || f[1] == "after")
						listed[f[2], f[3]]
				}
			}
			$1 == kernel && $2 == test && !((test, $3) in listed) { print $3 "\t" $4 }' \
			"$results" > "$tmp/$kernel"
	done
	diff "$tmp/before" "$tmp/after"
}
awk '!/^(#|$)/ { print $1 }' "$ROOT/lists/ksft.tsv" > "$tmp/tests"
while read -r test; do
	if unjudged | grep -qxF "$test"; then
		skip "$test" "the newer kernel that has it is not in the archive: see judge.sh"
		continue
	fi
	ok "before: $test" cases before "$test"
	ok "after: $test" cases after "$test"
	ok "same before and after: $test" same "$test"
done < "$tmp/tests"

log() { [ -z "$(awk -F '\t' '$2 == "(guest)"' "$results" | tee /dev/stderr)" ]; }
ok "no guest was lost, and no kernel complained" log

needed() {
	awk -F '\t' -v results="$results" -v absent="$(unjudged | paste -sd' ')" '
		BEGIN {
			split(absent, f, " ")
			for (i in f)
				without[f[i]]
			while ((getline line < results) > 0) {
				split(line, f, "\t")
				is[f[1], f[2], f[3], f[4]]
				is["*", f[2], f[3], f[4]]
			}
		}
		!/^(#|$)/ && !($2 in without) && !(($1, $2, $3, $4) in is) { print "does not occur: " $0; bad = 1 }
		!/^(#|$)/ && $5 == "" { print "has no reason: " $0; bad = 1 }
		END { exit bad }' "$known"
}
ok "lists/ksft-known.tsv has nothing in vain" needed
done_testing
