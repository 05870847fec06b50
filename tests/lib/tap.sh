# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What the tests share: TAP, a scratch directory, an end that cleans up. Sourced
# by them, with set -eu: . "$(dirname "$0")/lib/tap.sh"

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/../scripts/lib.sh"

tmp=$(mktemp -d)
tests=0
finished=
ends=
trap 'eval "$ends"; rm -rf "$tmp"; [ -n "$finished" ] || echo "# $ME ended early"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# at_exit COMMAND: run when the test ends, however it does; the last comes first
at_exit() {
	ends="$1
$ends"
}

# ok NAME COMMAND...: one test; what the command prints is shown when it fails
ok() {
	tests=$((tests + 1))
	_name=$1
	shift
	set +e
	# Not as a condition: in one, set -e means nothing.
	(set -e; "$@") > "$tmp/ok.log" 2>&1
	_status=$?
	set -e
	if [ "$_status" -eq 0 ]; then
		echo "ok $tests - $_name"
	else
		echo "not ok $tests - $_name"
		sed 's/^/# /' "$tmp/ok.log"
		echo "# status $_status"
	fi
}

# gives STATUS COMMAND...: it ends with that status
gives() {
	want=$1 got=0
	shift
	"$@" || got=$?
	echo "status $got"
	[ "$got" -eq "$want" ]
}

# skip NAME REASON: one test that cannot be made here
skip() {
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# skip_all REASON: the whole file
skip_all() {
	finished=1
	echo "1..0 # SKIP $1"
	exit 0
}

done_testing() {
	finished=1
	echo "1..$tests"
}
