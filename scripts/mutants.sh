#!/bin/sh
#
# Breaks the series in one place at a time, and sees whether the tests notice.
#
# What:   for each tests/mutants/NAME.patch: puts it on the kernel after, builds
#         that in a folder of its own, runs the tests that the patch's header
#         names (Tests: ...) on it in the guest, and says the first test case
#         that failed. The same, and what is broken, goes to out/BASE/mutants.tsv:
#         mutant, caught by, what.
# Checks: each mutant is caught. One that no test notices, and one that no longer
#         applies or compiles, failed.
# Usage:  mutants.sh [NAME...]; the output is TAP
#         Without a name: all of them, one after the other, about a minute each.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
-*) misuse "see mutants.sh -h" ;;
esac

assembled
mutants=$ROOT/tests/mutants
[ $# -gt 0 ] || {
	for patch in "$mutants"/*.patch; do
		set -- "$@" "$(basename "$patch" .patch)"
	done
}
for name; do
	[ -f "$mutants/$name.patch" ] || misuse "no tests/mutants/$name.patch"
done


# commit NAME: after with the mutant on it, always the same
commit() (
	export GIT_INDEX_FILE="$W/mutant.index" GIT_AUTHOR_DATE='@1 +0000' GIT_COMMITTER_DATE='@1 +0000' \
		GIT_AUTHOR_NAME=series GIT_AUTHOR_EMAIL=series@localhost \
		GIT_COMMITTER_NAME=series GIT_COMMITTER_EMAIL=series@localhost
	git_ -C "$GITDIR" read-tree after
	git_ -C "$GITDIR" apply --cached < "$mutants/$1.patch" || exit
	git_ -C "$GITDIR" commit-tree -p after -m "mutant: $1" "$(git_ -C "$GITDIR" write-tree)"
	rm "$GIT_INDEX_FILE"
)

# caught NAME: says by what, or why not; the status is whether it is
caught() {
	commit=$(commit "$1") || {
		echo "does not apply"
		return 1
	}
	"$ROOT/scripts/build.sh" -k mutant "$commit" || {
		echo "does not compile"
		return 1
	}
	tests=$(sed -n 's/^Tests: //p' "$mutants/$1.patch")
	K=mutant "$ROOT/scripts/selftests.sh" || exit
	K=mutant T=$tests "$ROOT/scripts/ksft.sh" > "$W/mutant.log" 2>&1 || [ $? -eq 1 ] || {
		cat "$W/mutant.log" >&2
		return 1
	}
	# The first case that failed, or was skipped as it is not on a good kernel
	sed -n '/^ksft: mutant: .* \(failed\|skipped\): / { s/^ksft: mutant: //; s/ \(failed\|skipped\): .*//; p; q; }' "$W/mutant.log" | grep . || {
		echo survives
		return 1
	}
}

printf 'mutant\tcaught_by\twhat\n' > "$W/mutants.tsv"
echo "1..$#"
n=0 good=0
for name; do
	n=$((n + 1))
	what=$(head -n 1 "$mutants/$name.patch")
	result='not ok'
	if by=$(caught "$name"); then
		result=ok
		good=$((good + 1))
	fi
	printf '%s\t%s\t%s\n' "$name" "$by" "$what" >> "$W/mutants.tsv"
	echo "$result $n - $name: $by"
done
say "$good of $n mutants are caught; out/$BASE/mutants.tsv"
[ "$good" -eq "$n" ]
