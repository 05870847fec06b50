#!/bin/sh
#
# What reads results, reads them right: tests/lib/ktap.pl those of the guest's
# tests, tests/lib/harness.pl those of these files.
#
# Checks: each way in which a test can end, and that none but the good one passes.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# reads NAME EXPECTED < OUTPUT: the lines that ktap.pl gives, kernel left out
reads() {
	cat > "$tmp/in"
	perl "$ROOT/tests/lib/ktap.pl" k "$tmp" < "$tmp/in" | cut -f2- | tr '\t' '|' > "$tmp/got"
	printf '%s\n' "$@" | diff - "$tmp/got"
}
# one BODY STATUS: the output of the guest with one test, x
one() { printf '@@ begin x\n%b\n@@ end x %s\n' "$1" "$2"; }

ends() { # BODY STATUS LINE...
	one "$1" "$2" > "$tmp/one"
	shift 2
	reads "$@" < "$tmp/one"
}
ok "cases that pass, fail and skip" ends \
	'noise\nTAP version 13\n1..4\n# note\nok 1 one\nnot ok 2 two\nok 3 three # SKIP no such thing\nok 4 # SKIP why' 1 \
	'x|one|pass|' 'x|two|fail|' 'x|three|skip|no such thing' 'x|4|skip|why'
ok "a case that the plan has and that did not run" ends 'TAP version 13\n1..3\nok 1 a\nok 2 b' 0 \
	'x|a|pass|' 'x|b|pass|' 'x|(plan)|fail|Bad plan.  You planned 3 tests but ran 2.'
ok "all passed, then a crash" ends '1..1\nok 1 a' 139 'x|a|pass|' 'x|(exit)|fail|status 139, but every case passed'
ok "out of time" ends '1..2\nok 1 a' 124 'x|a|pass|' 'x|(exit)|fail|out of time, or killed'
ok "skipped as a whole" ends '1..0 # SKIP not here' 4 'x|(all)|skip|not here'
ok "no TAP: good" ends 'all fine' 0 'x|(exit)|pass|'
ok "no TAP: skipped" ends 'lacks it' 4 'x|(exit)|skip|status 4'
ok "no TAP: failed" ends 'broken' 1 'x|(exit)|fail|status 1'
ok "killed before a line" ends '' 137 'x|(exit)|fail|out of time, or killed'
ok "two cases of one name" ends '1..2\nok 1 a\nok 2 a' 0 'x|a|pass|' 'x|a #2|pass|'

lost() {
	{ one '1..1\nok 1 a' 0; printf '@@ begin y\n1..2\nok 1 b\n'; } | reads 'x|a|pass|' 'y|b|pass|' 'y|(exit)|fail|the guest was lost'
}
ok "the guest is lost in the second test" lost

# says STATUS LAST-LINE SCRIPT...: the verdict on files that are these scripts
says() {
	want=$1 last=$2 status=0 n=0
	shift 2
	rm -f "$tmp"/*.sub.t
	for text; do
		n=$((n + 1))
		printf '#!/bin/sh\n%s\n' "$text" > "$tmp/$n.sub.t"
	done
	perl "$ROOT/tests/lib/harness.pl" "$tmp"/*.sub.t > "$tmp/out" 2>&1 || status=$?
	cat "$tmp/out"
	[ "$(tail -n 1 "$tmp/out")" = "check: $last" ]
	[ "$status" -eq "$want" ]
}
good='echo ok 1; echo 1..1'
ok "good" says 0 '2 passed, 0 failed, 0 skipped' "$good" "$good"
ok "one fails" says 1 '2 passed, 1 failed, 0 skipped' "$good" 'echo ok 1; echo not ok 2; echo 1..2'
ok "one ends early" says 1 '2 passed, 1 failed, 0 skipped' "$good" 'echo ok 1'
ok "one ends badly" says 1 '2 passed, 1 failed, 0 skipped' "$good" "$good; exit 3"
ok "one is killed" says 1 '1 passed, 1 failed, 0 skipped' "$good" 'kill -9 $$'
ok "one case, and one file, skipped" says 0 '1 passed, 0 failed, 2 skipped' "$good" \
	'echo "ok 1 # SKIP no"; echo 1..1' 'echo "1..0 # SKIP no"'
ok "nothing ran" says 1 '0 passed, 0 failed, 1 skipped' 'echo "1..0 # SKIP no"'
done_testing
