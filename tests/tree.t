#!/bin/sh
#
# The tree is the same everywhere, and goes back to patches/ as it came.
#
# What:   scripts/tree.sh and scripts/patches.sh on a scratch copy of this
#         repository, with a small kernel tree that has only the files that the
#         series touches.
# Checks: ids do not depend on who assembles; nothing is done where nothing
#         changed; edited, added, dropped, moved and renamed commits, and new
#         files, become patches; nothing else is written; no work is lost.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/lib/mini.sh
. "$(dirname "$0")/lib/mini.sh"
unset BASEVER

mini=$tmp/kernel
mini_kernel "$mini"
a=$tmp/a
mini_repository "$a"
git_ -C "$a" init -q
git_ -C "$a" add -A
git_ -C "$a" -c user.name=a -c user.email=a@localhost commit -qm start
tree=$a/out/$BASE/tree
id() { git_ -C "$1/out/$BASE/tree" rev-parse HEAD refs/tags/base refs/tags/before refs/tags/after; }
written() { git_ -C "$a" status --porcelain -uall; }
again() { git_ -C "$a" checkout -q . && git_ -C "$a" clean -qfd && rm -rf "$a/out" && assemble "$a"; }
assemble() {
	in_mini "$1" fetch
	in_mini "$1" tree
}
dev() { git_ -C "$tree" -c user.name=dev -c user.email=dev@localhost "$@"; }

ok "assembles" assemble "$a"

same_ids() {
	mini_repository "$tmp/b"
	mkdir "$tmp/home"
	printf '[user]\n\tname = Other\n\temail = o@localhost\n[commit]\n\tgpgsign = true\n[core]\n\tautocrlf = true\n[am]\n\tkeepcr = true\n' \
		> "$tmp/home/.gitconfig"
	(
		umask 077
		export HOME="$tmp/home" TZ=Asia/Tokyo LC_ALL=C.UTF-8 GIT_AUTHOR_NAME=x GIT_COMMITTER_NAME=x
		assemble "$tmp/b"
	)
	id "$a"
	id "$tmp/b"
	[ "$(id "$a")" = "$(id "$tmp/b")" ]
}
ok "another user gets the same commit ids" same_ids

order() {
	git_ -C "$tree" merge-base --is-ancestor refs/tags/base refs/tags/before
	git_ -C "$tree" merge-base --is-ancestor refs/tags/before refs/tags/after
	git_ -C "$tree" merge-base --is-ancestor refs/tags/after HEAD
	[ "$(git_ -C "$tree" rev-list refs/tags/base..HEAD | wc -l)" -eq "$(series | wc -l)" ]
	[ -z "$(git_ -C "$tree" status --porcelain)" ]
}
ok "base, before, after and the last commit follow each other" order

new_files() {
	series | cut -d' ' -f3- | tr ' ' '\n' | sed '/^$/d' | while read -r file; do
		cmp "$ROOT/$file" "$tree/$file"
	done
}
ok "new files are in the tree as they are here" new_files

nothing() {
	in_mini "$a" tree
	in_mini "$a" patches
	[ "$(id "$a")" = "$(id "$tmp/b")" ]
	[ -z "$(written)" ] || { written; return 1; }
}
ok "nothing changed: nothing is done, nothing is written" nothing

rebased() {
	dev rebase -q --force-rebase refs/tags/base
	[ "$(id "$a")" != "$(id "$tmp/b")" ]
	in_mini "$a" patches
	[ "$(id "$a")" = "$(id "$tmp/b")" ]
	[ -z "$(written)" ] || { written; return 1; }
}
ok "commits made anew without a change: nothing is written, and the ids are back" rebased

uncommitted() {
	echo >> "$tree/Makefile"
	fails_with 1 'not committed' in_mini "$a" patches
	echo "# comment" >> "$a/patches/$BASE/series"
	echo >> "$a/patches/$BASE/series"
	sed -i 's/^Subject: /&XX /' "$a/patches/$BASE/$(series | awk 'NR == 1 { print $1 "/" $2 }')"
	fails_with 1 'not committed' in_mini "$a" tree
	git_ -C "$tree" checkout -q Makefile
	git_ -C "$a" checkout -q .
}
ok "changes that are not committed stop both ways, and stay" uncommitted

both() {
	dev commit -q --allow-empty -m "mm: x" -m "y"
	sed -i 's/^Subject: /&XX /' "$a/patches/$BASE/$(series | awk 'NR == 1 { print $1 "/" $2 }')"
	fails_with 1 'changed too' in_mini "$a" tree
	fails_with 1 'both' in_mini "$a" patches
	[ "$(git_ -C "$tree" log -1 --format=%s)" = "mm: x" ]
}
ok "work in the tree and in patches/ at once stops both ways, and stays" both
again

last=$(series | awk 'END { print $1 }')
count=$(series | awk -v last="$last" '$1 == last' | wc -l)
number() { printf %04d $((count + $1)); }

added() {
	printf 'new\n' > "$tree/mm/new.c"
	printf '#!/bin/sh\n' > "$tree/mm/new.sh"
	chmod +x "$tree/mm/new.sh"
	echo "# more" >> "$tree/Makefile"
	dev add -A
	dev commit -qm "mm: add a thing" -m "Log."
	printf 'new\n' > "$tree/mm/alone.c"
	dev add -A
	dev commit -qm "mm: add a file" -m "Log."
	in_mini "$a" patches
	written > "$tmp/got"
	sort > "$tmp/want" <<-EOF2
	 M patches/$BASE/series
	?? mm/alone.c
	?? mm/new.c
	?? mm/new.sh
	?? patches/$BASE/$last/$(number 1)-mm-add-a-thing.patch
	?? patches/$BASE/$last/$(number 2)-mm-add-a-file.patch
	EOF2
	sort "$tmp/got" | diff "$tmp/want" -
	grep -qx "$(number 1)-mm-add-a-thing.patch mm/new.c mm/new.sh" "$a/patches/$BASE/series"
	if grep -q new.c "$a/patches/$BASE/$last/$(number 1)-mm-add-a-thing.patch"; then return 1; fi
	[ -x "$a/mm/new.sh" ]
	[ ! -x "$a/mm/new.c" ]
	in_mini "$a" patches
}
ok "added commits and files" added

from_scratch() {
	was=$(id "$a")
	rm -rf "$a/out"
	assemble "$a"
	[ "$(id "$a")" = "$was" ]
}
ok "what was written gives the same tree from nothing" from_scratch

dropped() {
	dev reset -q --hard HEAD~2
	in_mini "$a" patches
	[ -z "$(written)" ] || { written; return 1; }
}
ok "dropped commits and their files" dropped

# The first patch of a topic, with another subject: found by its date; a date of
# its own is given to it first.
renamed() {
	dev checkout -q refs/tags/before
	first=$(git_ -C "$tree" rev-list --reverse refs/tags/before..series | head -n 1)
	dev cherry-pick "$first"
	dev commit -q --amend --no-edit --date='2026-01-02 03:04:05 +0000'
	dev cherry-pick "$first..series"
	in_mini "$a" patches
	[ "$(written | wc -l)" -eq 1 ]
	dev checkout -q refs/tags/before
	dev cherry-pick "$(git_ -C "$tree" rev-list --reverse refs/tags/before..series | head -n 1)"
	dev commit -q --amend -m "mm: another subject" -m "Log."
	dev cherry-pick "$(git_ -C "$tree" rev-list --reverse refs/tags/before..series | head -n 1)..series"
	in_mini "$a" patches
	[ -f "$a/patches/$BASE/batching/0001-mm-another-subject.patch" ]
	written
	[ "$(written | wc -l)" -eq 3 ]
}
ok "a subject that changed: the patch is renamed in its topic" renamed
again

moved() {
	dev commit -q --allow-empty -m "mm: one" -m "Log."
	dev commit -q --allow-empty -m "mm: two" -m "Log."
	in_mini "$a" patches
	cp "$a/patches/$BASE/$last/$(number 1)-mm-one.patch" "$tmp/one"
	two=$(dev rev-parse HEAD)
	dev reset -q --hard HEAD~2
	dev cherry-pick --allow-empty "$two" "$two~1"
	in_mini "$a" patches
	cmp "$tmp/one" "$a/patches/$BASE/$last/$(number 2)-mm-one.patch"
}
ok "commits that changed places: renumbered, and else the same to the byte" moved
again

twice() {
	echo x > "$tree/mm/new.c"
	dev add -A
	dev commit -qm "mm: one"
	echo y > "$tree/mm/new.c"
	dev commit -qam "mm: two"
	fails_with 1 'an earlier commit adds' in_mini "$a" patches
	[ -z "$(written)" ]
}
ok "a new file that a second commit changes stops it" twice
done_testing
