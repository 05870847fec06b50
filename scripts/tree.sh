#!/bin/sh
#
# Assembles the patched kernel as a git tree: out/BASE/tree.
#
# What:   the base as one commit, then one commit for each patch of the series
#         in patches/BASE/series; the files that a line of it names are added
#         from this repository. Branch series; tags base, before (the
#         prerequisites alone) and after (the batching topic on top).
# Checks: every patch applies without fuzz; one that does not stops everything,
#         and what stood in the tree before still stands.
# Why:    the same input gives the same commit ids on every machine, so that
#         they can be compared and quoted.
# Never:  touches a tree that has commits or changes of a developer's.
#         'make patches' takes those into patches/.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see tree.sh -h" ;;
esac

tmp=$W/assembling
cleanup() {
	rm -rf "$tmp"
	[ ! -d "$GITDIR" ] || git_ -C "$GITDIR" worktree prune
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ -f "$W/base" ] || die "no base yet: 'make fetch'"
VERSION='' KSRC='' COMMIT='' PACKAGE='' DEBVERSION='' DEB=''
# shellcheck source=/dev/null
. "$W/base"

input=$(inputs)
if [ -d "$TREE" ]; then
	read -r was tip < "$W/tree.stamp"
	work=$(work_in_tree "$tip")
	if [ "$was" = "$input" ]; then
		[ -z "$work" ] || say "out/$BASE/tree has $work: 'make patches' takes that into patches/"
		exit 0
	fi
	[ -z "$work" ] ||
		die "out/$BASE/tree has $work, and patches/ changed too: 'make patches' if yours is newer, or remove out/$BASE/tree"
fi
cleanup


base_of_ksrc() {
	# KSRC's objects are read where they are; where it is shallow, its history
	# ends here too.
	in_ksrc() { git -C "$KSRC" rev-parse --path-format=absolute --git-path "$1"; }
	in_ksrc objects >> "$GITDIR/objects/info/alternates"
	sort -u -o "$GITDIR/objects/info/alternates" "$GITDIR/objects/info/alternates"
	if [ -f "$(in_ksrc shallow)" ]; then cp "$(in_ksrc shallow)" "$GITDIR/shallow"; fi
	base=$COMMIT
	git_ -C "$GITDIR" cat-file -e "$base^{tree}" || die "cannot read commit $base of KSRC=$KSRC"
}

base_of_package() {
	ref=refs/bases/$(printf %s "$DEBVERSION" | tr '~:' --)
	! base=$(git_ -C "$GITDIR" rev-parse -q --verify "$ref") || return 0
	say "unpacking $PACKAGE $DEBVERSION"
	mkdir "$tmp/base"
	dpkg-deb --fsys-tarfile "$DEB" | tar -xO "./usr/src/$PACKAGE.tar.xz" |
		tar -xJ --strip-components=1 -C "$tmp/base" ||
		die "cannot unpack $DEB: remove it and 'make fetch'"
	# Debian's .gitignore hides every file that is new from a developer.
	sed -i '\|^/\*$|d; \|^!/debian/$|d' "$tmp/base/.gitignore"
	# Big files go into one pack as they come. So do all here: several times
	# faster than a file for each.
	git_ -C "$GITDIR" -c core.bare=false -c core.bigFileThreshold=1 -c core.compression=1 \
		--work-tree="$tmp/base" add -Af .
	base=$(printf '%s\n\n%s\n' "Linux $VERSION" "The source in Debian's $PACKAGE $DEBVERSION, but for .gitignore." |
		GIT_AUTHOR_NAME=Linux GIT_AUTHOR_EMAIL=linux@localhost GIT_AUTHOR_DATE="$GIT_COMMITTER_DATE" \
		git_ -C "$GITDIR" commit-tree "$(git_ -C "$GITDIR" write-tree)")
	git_ -C "$GITDIR" update-ref "$ref" "$base"
	rm -rf "$tmp/base" "$GITDIR/index"
}

# apply TOPIC PATCH [NEW-FILE...]: one commit on top of the work tree's
apply() {
	patch=patches/$BASE/$1/$2
	[ -f "$ROOT/$patch" ] || die "patches/$BASE/series names $1/$2, which is not there"
	if ! git_ -C "$tmp/am" am -q --empty=keep --keep-non-patch --whitespace=nowarn \
		--committer-date-is-author-date "$ROOT/$patch" > "$tmp/log" 2>&1; then
		files=$(sed -n 's/^error: \(.*\): \(patch does not apply\|does not exist in index\|already exists in index\)$/\1/p' \
			"$tmp/log" | sort -u | paste -sd' ')
		[ -n "$files" ] || die "$patch is no patch: $(tail -n 1 "$tmp/log")"
		die "$patch does not apply to $files of $from: bring the patch up to that"
	fi
	shift 2
	[ $# -gt 0 ] || return 0
	for file; do
		[ -f "$ROOT/$file" ] || die "patches/$BASE/series names the new file $file, which is not there"
		! git_ -C "$tmp/am" cat-file -e "HEAD:$file" 2>/dev/null ||
			die "$file of patches/$BASE/series is not new: the kernel has it, so change it by the patch"
		mkdir -p "$tmp/am/${file%/*}"
		cp "$ROOT/$file" "$tmp/am/$file"
		git_ -C "$tmp/am" add -f "$file"
	done
	GIT_COMMITTER_DATE=$(git_ -C "$tmp/am" log -1 --format=%ad --date=raw) \
		git_ -C "$tmp/am" commit -q --amend --no-edit --allow-empty --cleanup=verbatim
}

export GIT_COMMITTER_NAME=series GIT_COMMITTER_EMAIL=series@localhost
export GIT_COMMITTER_DATE='2024-11-17 22:15:08 +0000'
from="Linux $VERSION${DEBVERSION:+ ($DEBVERSION)}"

[ -d "$GITDIR" ] || git_ init -q --bare "$GITDIR"
mkdir -p "$tmp"
if [ -n "$KSRC" ]; then base_of_ksrc; else base_of_package; fi

# Without its files: git takes from the commit those that a patch touches.
git_ -C "$GITDIR" worktree add -q --detach --no-checkout "$tmp/am" "$base"
git_ -C "$tmp/am" read-tree HEAD
at() { git_ -C "$tmp/am" rev-parse HEAD; }
before=$base after=
series > "$tmp/series"
while read -r topic patch new; do
	# shellcheck disable=SC2086 # a list of files
	apply "$topic" "$patch" $new
	case $topic in
	prerequisites) before=$(at) ;;
	batching) after=$(at) ;;
	esac
done < "$tmp/series"
tip=$(at)

for tag in "base $base" "before $before" "after ${after:-$before}"; do
	git_ -C "$GITDIR" update-ref "refs/tags/${tag% *}" "${tag#* }"
done
if [ -d "$TREE" ]; then
	git_ -C "$TREE" checkout -q --no-track -B series "$tip"
else
	git_ -C "$GITDIR" worktree add -q --no-track -B series "$tmp/tree" "$tip"
	git_ -C "$GITDIR" worktree move "$tmp/tree" "$TREE"
fi
echo "$input $tip" > "$W/tree.stamp"
say "out/$BASE/tree: $(wc -l < "$tmp/series") patches on $from"
