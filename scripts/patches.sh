#!/bin/sh
#
# Writes patches/ back from the commits of out/BASE/tree.
#
# What:   one patch for each commit on top of the base, in its topic's directory,
#         the files that it adds at their kernel path from the root of this
#         repository, and the series file. Then the tree is assembled again
#         from that, so that its commits are those that everyone gets.
# Topic:  the one that the patch of the same subject, else of the same author's
#         date, had; else that of the commit before it.
# Checks: no merges; a file that is new is new in one commit only; the tree
#         assembled afterwards has the same content.
# Keeps:  a patch whose header, log and diff are the same, to the byte; cover
#         letters; the comments of the series file.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see patches.sh -h" ;;
esac

[ -d "$TREE" ] || die "no out/$BASE/tree: 'make tree'"
read -r input tip < "$W/tree.stamp"
tmp=$W/writing
rm -rf "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$tmp"

git() { git_ -C "$TREE" "$@"; }
work=$(work_in_tree "$tip")
[ -z "$(git status --porcelain)" ] ||
	die "out/$BASE/tree has changes that are not committed: commit or drop them"
[ ! -d "$(git rev-parse --path-format=absolute --git-path rebase-merge)" ] ||
	die "a rebase is under way in out/$BASE/tree: end it first"
[ "$(inputs)" = "$input" ] || if [ -z "$work" ]; then
	die "patches/ changed after the tree was assembled, and the tree did not: 'make tree'"
else
	die "both patches/ and the tree changed since it was assembled: undo one of them"
fi
head=$(git rev-parse HEAD)
git merge-base --is-ancestor refs/tags/base "$head" || die "the tree's HEAD does not stand on its tag base"
merge=$(git rev-list --min-parents=2 refs/tags/base.."$head" | head -n 1)
[ -z "$merge" ] || die "commit $merge of the tree is a merge: rebase it to a line of commits"

# identify PATCH: a hash of what must not change unnoticed, the subject and the date
identify() {
	git mailinfo -b "$tmp/msg" "$tmp/diff" < "$1" > "$tmp/info"
	printf '%s\t%s\t%s' "$({ cat "$tmp/info" "$tmp/msg"; git patch-id --stable < "$tmp/diff"; } | sha256sum | cut -c1-32)" \
		"$(sed -n 's/^Subject: //p' "$tmp/info")" "$(sed -n 's/^Date: //p' "$tmp/info")"
}

# What there was: TOPIC PATCH HASH SUBJECT DATE
series > "$tmp/series"
while read -r topic patch _; do
	printf '%s\t%s\t%s\n' "$topic" "$patch" "$(identify "$PATCHES/$topic/$patch")"
done < "$tmp/series" > "$tmp/was"

topic_of() {
	awk -F '\t' -v subject="$1" -v date="$2" '
		$4 == subject { by_subject = $1 }
		$5 == date { by_date = $1; n++ }
		END { print by_subject ? by_subject : n == 1 ? by_date : "" }' "$tmp/was"
}

# patch_of COMMIT NUMBER [NEW-FILE...]: prints the name that it gets
patch_of() {
	commit=$1 number=$2
	shift 2
	if [ $# -gt 0 ]; then
		# the same commit without the files that are new
		export GIT_INDEX_FILE="$tmp/index"
		git read-tree "$commit"
		git update-index --force-remove -- "$@"
		commit=$(git log -1 --format=%B "$commit" |
			GIT_AUTHOR_NAME=$(git log -1 --format=%an "$commit") \
			GIT_AUTHOR_EMAIL=$(git log -1 --format=%ae "$commit") \
			GIT_AUTHOR_DATE=$(git log -1 --format=%ad --date=raw "$commit") \
			GIT_COMMITTER_NAME=series GIT_COMMITTER_EMAIL=series@localhost \
			git commit-tree "$(git write-tree)" -p "$commit^")
		unset GIT_INDEX_FILE
	fi
	git format-patch -1 --always --zero-commit --no-signature --no-numbered --no-thread --no-base \
		--abbrev=12 --start-number "$number" -o "$tmp/new" "$commit"
}

# What there is
topic='' number=0
: > "$tmp/lines"
mkdir "$tmp/files"
for commit in $(git rev-list --reverse refs/tags/base.."$head"); do
	git diff-tree -r --no-commit-id --no-renames --name-status "$commit" > "$tmp/changes"
	new=
	while read -r kind file; do
		if git cat-file -e "refs/tags/base:$file" 2>/dev/null; then
			continue
		elif [ "$kind" != A ]; then
			die "$(git log -1 --format='%h "%s"' "$commit") changes $file, which an earlier commit adds: squash it into that"
		fi
		new="$new $file"
		mkdir -p "$tmp/files/${file%/*}"
		git cat-file blob "$commit:$file" > "$tmp/files/$file"
		case $(git ls-tree "$commit" "$file") in
		100755*) chmod +x "$tmp/files/$file" ;;
		esac
	done < "$tmp/changes"
	# in the order that the series file names them in, others after those
	new=$(echo "$new" | tr ' ' '\n' | awk -v was="$tmp/series" '
		BEGIN { while ((getline line < was) > 0) for (i = 1; i <= split(line, f, " "); i++) at[f[i]] = ++n }
		NF { print ($0 in at ? sprintf("%09d", at[$0]) : "~"), $0 }' | sort | cut -d' ' -f2 | paste -sd' ')

	rm -rf "$tmp/new"
	# shellcheck disable=SC2086 # a list of files
	made=$(patch_of "$commit" 1 $new)
	identity=$(identify "$made")
	at=$(topic_of "$(echo "$identity" | cut -f2)" "$(echo "$identity" | cut -f3)")
	[ -n "$at" ] || at=${topic:-$(awk '$1 == "topic" { print $2; exit }' "$PATCHES/series")}
	[ -n "$at" ] || die "patches/$BASE/series has no topic: write 'topic NAME' there"
	if [ "$at" != "$topic" ]; then
		! grep -q "^$at	" "$tmp/lines" ||
			die "$(git log -1 --format='%h "%s"' "$commit") is of topic $at, and stands among topic $topic: move it"
		topic=$at number=0
	fi
	number=$((number + 1))
	name=$(printf '%04d' "$number")-${made##*/0001-}
	mkdir -p "$tmp/patches/$topic"
	same=$(awk -F '\t' -v hash="${identity%%	*}" '$3 == hash { print $1 "/" $2; exit }' "$tmp/was")
	[ -z "$same" ] || made=$PATCHES/$same
	cp "$made" "$tmp/patches/$topic/$name"
	printf '%s\t%s\t%s\n' "$topic" "$name" "$name${new:+ $new}" >> "$tmp/lines"
done

# The series file: comments stay above the line that they stand above.
awk -F '\t' -v was="$PATCHES/series" '
	function plain(name) { sub(/^[0-9]+-/, "", name); return name }
	{ order[++n] = $3; of[n] = $1; name[n] = plain($2) }
	END {
		while ((getline line < was) > 0) {
			if (line ~ /^[ \t]*(#|$)/) {
				note = note line "\n"
				continue
			}
			split(line, word, /[ \t]+/)
			if (word[1] == "topic") {
				topics[++t] = word[2]
				above["topic " word[2]] = note
			} else {
				above[topics[t] " " plain(word[1])] = note
			}
			note = ""
		}
		for (i = 1; i <= t; i++) {
			printf "%stopic %s\n", above["topic " topics[i]], topics[i]
			for (j = 1; j <= n; j++)
				if (of[j] == topics[i])
					printf "%s%s\n", above[of[j] " " name[j]], order[j]
		}
		printf "%s", note
	}' "$tmp/lines" > "$tmp/series.new"

# All is made: now write what differs.
put() {
	cmp -s "$1" "$2" && [ -x "$1" ] && [ -x "$2" ] && return
	cmp -s "$1" "$2" && [ ! -x "$1" ] && [ ! -x "$2" ] && return
	mkdir -p "${2%/*}"
	cp "$1" "$2"
	if [ -x "$1" ]; then chmod +x "$2"; else chmod -x "$2"; fi
	say "wrote ${2#"$ROOT/"}"
}
for old in "$PATCHES"/*/*.patch; do
	[ ! -f "$old" ] || [ -f "$tmp/patches/${old#"$PATCHES/"}" ] ||
		{ rm "$old"; say "removed ${old#"$ROOT/"}"; }
done
while read -r _ _ files; do
	for file in $files; do
		[ -f "$tmp/files/$file" ] || { rm -f "$ROOT/$file"; say "removed $file"; }
	done
done < "$tmp/series"
cut -f1,2 "$tmp/lines" | while read -r topic name; do
	put "$tmp/patches/$topic/$name" "$PATCHES/$topic/$name"
done
(cd "$tmp/files" && find . -type f) | while read -r file; do
	put "$tmp/files/$file" "$ROOT/${file#./}"
done
put "$tmp/series.new" "$PATCHES/series"

[ "$head" != "$tip" ] || [ "$(inputs)" != "$input" ] || exit 0
content=$(git rev-parse "$head^{tree}")
echo "written $head" > "$W/tree.stamp"
"$ROOT/scripts/tree.sh"
[ "$(git rev-parse 'HEAD^{tree}')" = "$content" ] ||
	die "what was written does not give the tree's content again, commit $head: a fault of patches.sh"
