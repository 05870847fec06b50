#!/bin/sh
#
# The patches pass what reviewers' tools check.
#
# What:   over all commits of the assembled tree, new files included:
#           checkpatch --strict, with the sign-off that make series adds;
#           codespell, over logs and added lines, and over this repository's texts;
#           spdxcheck and get_maintainer, over the new files;
#           the numbers of new advice, in the headers of all architectures;
#           kernel-doc, docutils, W=1 and sparse, over the touched files: they
#           say nothing that they do not say of the base as well.
#         What remains stands in lists/static.tsv with its reason; one that no
#         longer occurs fails.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled
PATH=/usr/bin:$PATH	# Debian's own python3, which has the modules that the tools need

list=$ROOT/lists/static.tsv
git_ -C "$GITDIR" diff --no-renames --name-only --diff-filter=d base "$tip" > "$tmp/touched"
git_ -C "$GITDIR" diff --no-renames --name-only --diff-filter=A base "$tip" > "$tmp/added"
# The commits with a sign-off of their author's
GIT_COMMITTER_NAME=series GIT_COMMITTER_EMAIL=series@localhost \
	git_ -C "$GITDIR" format-patch -q -o "$tmp/mails" --no-renames base.."$tip"
for mail in "$tmp/mails"/*; do
	author=$(git mailinfo /dev/null /dev/null < "$mail" | sed -n 's/^Author: //p')
	address=$(git mailinfo /dev/null /dev/null < "$mail" | sed -n 's/^Email: //p')
	sed -i "0,/^---$/s//Signed-off-by: $author <$address>\n---/" "$mail"
done

# A clone with the touched files and what the tools read: the tree itself may be
# a developer's, and spdxcheck wants a repository that has its files.
clone=$tmp/clone
git clone -q --shared --no-checkout "$GITDIR" "$clone"
{ echo /LICENSES/; echo /scripts/; sed 's|^|/|' "$tmp/touched"; } |
	git -C "$clone" sparse-checkout set --no-cone --stdin
at() { git -C "$clone" checkout -q --detach "$1"; }

# says CHECK < MESSAGES: fails, and shows them, if there are some that the list
# does not allow
says() {
	awk -F '\t' -v check="$1" '$1 == check { print $2 }' "$list" > "$tmp/allowed"
	tee -a "$tmp/said.$1" | grep -Evf "$tmp/allowed" > "$tmp/remains" || :
	[ ! -s "$tmp/remains" ] || { cat "$tmp/remains"; return 1; }
}

checkpatch() {
	(cd "$TREE" && scripts/checkpatch.pl --strict --terse --no-summary --show-types "$tmp/mails"/*.patch) |
		sed "s|^$tmp/mails/||" | says checkpatch
}
ok "checkpatch --strict" checkpatch

spelling() {
	mkdir "$tmp/spell"
	for mail in "$tmp/mails"/*; do
		sed '/^diff --git/,$ { /^[-@ ]/d }' "$mail" > "$tmp/spell/${mail##*/}"
	done
	(cd "$tmp/spell" && codespell .) | says codespell
	(cd "$ROOT" && git ls-files -z | grep -zv '^\(COPYING$\|patches/.*\.patch$\|results/.*\.svg$\)' | xargs -0 codespell --ignore-regex '^@@ .*') |
		says codespell
}
ok "codespell" spelling

spdx() {
	at "$tip"
	(cd "$clone" && xargs python3 scripts/spdxcheck.py < "$tmp/added")
}
ok "spdxcheck: every new file has a licence" spdx

owners() {
	while read -r file; do
		(cd "$TREE" && scripts/get_maintainer.pl --nogit --nogit-fallback --norolestats --no-l -f "$file") |
			grep -q @ || { echo "$file has no maintainer"; return 1; }
	done < "$tmp/added"
}
ok "get_maintainer: every new file has an owner" owners

# Some architectures have headers of their own. The partial ones of tools/ do not count
advice() {
	git_ -C "$GITDIR" grep -lE '#define[[:space:]]+MADV_COLLAPSE[[:space:]]' "$tip" > "$tmp/headers"
	[ -s "$tmp/headers" ] || { echo "no header has numbers of advice"; return 1; }
	while read -r header; do
		git_ -C "$GITDIR" show "$header" | awk '
			$1 == "#define" { of[$2] = $3; with[$3] = with[$3] " " $2 }
			END { exit !(of["MADV_GUARD_INSTALL"] == 102 && of["MADV_GUARD_REMOVE"] == 103 &&
				with[102] == " MADV_GUARD_INSTALL" && with[103] == " MADV_GUARD_REMOVE") }' ||
			{ echo "$header: the guards are not 102 and 103, or not alone"; return 1; }
	done < "$tmp/headers"
}
ok "uapi: an advice has the same number on each architecture" advice

# more COMMAND...: the messages of COMMAND, which takes a commit, that it has of
# the tip and not of the base. The line number of a message does not count.
more() {
	for commit in base "$tip"; do
		"$@" "$commit" > "$tmp/more.out" 2>&1 || :
		sed 's/:[0-9][0-9]*:\([0-9][0-9]*:\)\{0,1\}/:/g' "$tmp/more.out" | sort > "$tmp/more.$commit"
	done
	comm -13 "$tmp/more.base" "$tmp/more.$tip"
}

documented() {
	at "$1"
	(cd "$clone" && grep '\.[ch]$' "$tmp/touched" | while read -r file; do
		[ ! -f "$file" ] || scripts/kernel-doc -none -Wall "$file"
	done)
}
kernel_doc() { more documented | says kernel-doc; }
ok "kernel-doc says no more than of the base" kernel_doc

texts() {
	at "$1"
	(cd "$clone" && grep '\.rst$' "$tmp/touched" | while read -r file; do
		[ ! -f "$file" ] || rst2pseudoxml "$file" /dev/null
	done)
}
docutils() { more texts | says docutils; }
ok "documentation has no more errors than of the base" docutils

# W=1 and sparse: the touched objects alone, in a folder of their own.
objects=$(sed -n '/^tools\//d; s/\.c$/.o/p' "$tmp/touched")
o=$W/build/static
compile() {
	checkout "$1"
	# shellcheck disable=SC2086 # a list of objects
	kmake "$o" -s -k W=1 C=2 KCFLAGS=-fno-diagnostics-show-caret $objects
}
compiled() {
	mkdir -p "$o"
	cp "$(folder after)/.config" "$o"
	checkout "$tip"
	"$SRC/scripts/config" --file "$o/.config" -d WERROR
	kmake "$o" -s olddefconfig prepare
	more compile | says compile
	for object in $objects; do
		test -f "$o/$object"
	done
}
if [ -f "$(folder after)/.config" ]; then
	ok "W=1 and sparse say no more than of the base" compiled
else
	skip "W=1 and sparse say no more than of the base" "no kernels yet: 'make build'"
fi

# what the list allows and nobody says any more
unused() {
	! grep -v '^#' "$list" | while IFS="$(printf '\t')" read -r check pattern _; do
		[ ! -f "$tmp/said.$check" ] || grep -Eq -e "$pattern" "$tmp/said.$check" || echo "$check: $pattern"
	done | grep .
}
ok "lists/static.tsv has nothing in vain" unused
done_testing
