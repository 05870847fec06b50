#!/bin/sh
#
# Writes a mail series, ready for git send-email.
#
# What:   out/BASE/series/vV/*.patch: a cover letter, made from the `cover` of
#         the first topic and from results/, and a mail for each commit of the
#         topics, signed off by the sender's git identity. The letter ends with
#         what the series stands on: the Debian package and its version, or with
#         KSRC the commit, and the patch ids of the prerequisites. Its text alone
#         is out/BASE/series/vV/cover, for other tools that send.
#         From V=2 on it has the range-diff against the version before: against
#         the mails in out/BASE/series, or where PREV says (a directory of
#         mails, or an mbox).
# Checks: the cover says what changed since the version before; a version that
#         was sent is not written again.
# Usage:  make series [TOPIC="batching selftests"] [V=1] [PREV=DIR-or-mbox]
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see series.sh -h" ;;
esac
case $V in
'' | *[!0-9]* | 0*) misuse "V=$V is no version: V=1, V=2, ..." ;;
esac
dir=$W/series/v$V
# shellcheck disable=SC2153 # a knob, set by lib.sh
cover=patches/$BASE/${TOPIC%% *}/cover
need git git

[ ! -f "$dir/sent" ] || die "v$V was sent on $(cat "$dir/sent"): take V=$((V + 1))"
assembled
# the series file has a line for each commit after the base
lines=$(series | awk -v topics="$TOPIC" '
	BEGIN { n = split(topics, topic); for (i in topic) want[topic[i]] }
	$1 in want { seen[$1]; if (!first) first = NR; if (last && last < NR - 1) gap = 1; last = NR }
	END { for (t in want) if (!(t in seen)) gap = 1; if (gap || !n) exit 1; print first, last }') ||
	misuse "TOPIC='$TOPIC' must name topics of patches/$BASE/series that stand next to each other"
[ -f "$ROOT/$cover" ] || die "no $cover: a series needs a cover letter"
! LC_ALL=C grep -n '[^ -~]' "$ROOT/$cover" >&2 ||
	die "$cover has more than plain ASCII in the lines above: reword them"
sender=$(git -C "$ROOT" -c user.useConfigOnly=true var GIT_COMMITTER_IDENT 2>/dev/null) ||
	die "no git identity to sign off with: git config --global user.name 'Your Name', and user.email likewise"
sender=${sender%>*}\>

tmp=$dir.new
cleanup() {
	rm -rf "$tmp"
	git_ -C "$GITDIR" worktree prune
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cleanup
mkdir -p "$tmp/mails"

# 1. Which commits
nth() { if [ "$1" -eq 0 ]; then echo base; else git_ -C "$TREE" rev-list --reverse base.."$tip" | sed -n "$1p"; fi; }
start=$(nth $((${lines% *} - 1)))
end=$(nth "${lines#* }")

# 2. The version before, as commits: its mails applied where this one starts.
previous=
if [ "$V" -gt 1 ]; then
	PREV=${PREV:-$W/series/v$((V - 1))}
	[ -e "$PREV" ] || die "V=$V is compared with v$((V - 1)), which is not in $PREV: its mails with PREV=DIR-or-mbox"
	grep -q "^Changes since v$((V - 1)):" "$ROOT/$cover" ||
		die "$cover does not say what changed: 'Changes since v$((V - 1)):', and a list"
	git_ -C "$GITDIR" worktree add -q --detach --no-checkout "$tmp/previous" "$start"
	git_ -C "$tmp/previous" read-tree HEAD
	if [ -d "$PREV" ]; then set -- "$PREV"/*.patch; else set -- "$PREV"; fi
	# without the sign-off, which the commits of the tree do not have either
	for mail; do
		LC_ALL=C sed '/^Signed-off-by: /d' "$mail" > "$tmp/${mail##*/}"
		set -- "$@" "$tmp/${mail##*/}"
		shift
	done
	GIT_COMMITTER_NAME=series GIT_COMMITTER_EMAIL=series@localhost \
		git_ -C "$tmp/previous" am -q -3 --empty=drop "$@" > "$tmp/log" 2>&1 ||
		die "the mails of $PREV do not apply to the kernel before: $(head -n 1 "$tmp/log")"
	previous=$(git_ -C "$tmp/previous" rev-parse HEAD)
fi

# 3. The mails. The identity is handed on by hand, so that no other setting of
#    the sender's changes what they look like.
GIT_COMMITTER_NAME=${sender% <*}
GIT_COMMITTER_EMAIL=${sender##*<}
GIT_COMMITTER_EMAIL=${GIT_COMMITTER_EMAIL%>}
export GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
git_ -C "$TREE" format-patch -q -o "$tmp/mails" -v "$V" --subject-prefix="PATCH $BASE.y" \
	--cover-letter --thread=shallow --from="$sender" --signoff --base=base --abbrev=12 \
	${previous:+--range-diff="$start..$previous"} "$start..$end"

# 4. The cover letter; a line @FILE@ of it stands for that table of results.
while IFS= read -r line; do
	case $line in
	@*@)
		file=${line#@}
		file=${file%@}
		if [ -f "$ROOT/$file" ]; then
			"$ROOT/scripts/quote.sh" "$file"
		else
			echo "(not measured)"
			say "the cover has no figures: no $file, 'make bench' makes it"
		fi ;;
	*) printf '%s\n' "$line" ;;
	esac
done < "$ROOT/$cover" > "$tmp/mails/cover"
VERSION='' KSRC='' PACKAGE='' DEBVERSION=''
# shellcheck source=/dev/null
. "$W/base"
standing=
[ -n "$KSRC" ] || standing="base: Linux $VERSION, Debian package $PACKAGE $DEBVERSION"
for letter in "$tmp/mails"/*-0000-cover-letter.patch; do
	awk -v standing="$standing" '
		NR == FNR { if (NR == 1) subject = $0; else if (NR > 2) text = text $0 "\n"; next }
		/^\*\*\* BLURB HERE \*\*\*$/ { printf "%s", text; next }
		/^base-commit: / && standing { print standing; next }
		{ if (!done) done = sub(/\*\*\* SUBJECT HERE \*\*\*/, subject); print }' \
		"$tmp/mails/cover" "$letter" > "$tmp/letter"
	cat "$tmp/letter" > "$letter"
done

# Each header in one line, as git send-email sends it: b4 0.12 fails on others.
for mail in "$tmp/mails"/*.patch; do
	awk '
		body { print; next }
		/^[ \t]/ { sub(/^[ \t]+/, ""); line = line " " $0; next }
		NR > 1 { print line }
		{ line = $0 }
		/^$/ { print; body = 1 }' "$mail" > "$tmp/mail"
	cat "$tmp/mail" > "$mail"
done

rm -rf "$dir"
mv "$tmp/mails" "$dir"
for mail in "$dir"/*.patch; do
	echo "${mail#"$ROOT/"}"
done
