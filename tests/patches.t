#!/bin/sh
#
# patches/ keeps the rules of patches/README.md.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# Of the series of each base: BASE TOPIC PATCH [NEW-FILE...]
for dir in "$ROOT"/patches/*/; do
	base=$(basename "$dir")
	(PATCHES=$ROOT/patches/$base; series) | sed "s/^/$base /"
done > "$tmp/all"

# each COMMAND...: for every patch, with base, topic, name and its file
each() {
	# shellcheck disable=SC2030,SC2031 # each function is called in this loop
	while read -r base topic patch _; do
		file=$ROOT/patches/$base/$topic/$patch
		set +e
		(set -e; "$@")	# not as a condition: in one, set -e means nothing
		status=$?
		set -e
		[ "$status" -eq 0 ] || { echo "in patches/$base/$topic/$patch"; return 1; }
	done < "$tmp/all"
}
# the header, unfolded: FIELD
field() { git mailinfo -b "$tmp/msg" /dev/null < "$file" | sed -n "s/^$1: //p"; }

only() { # FILE...: nothing else is there
	(cd "$ROOT/patches" && find . -type f ! -name cover) | sed 's|^\./||' | sort > "$tmp/are"
	{
		echo README.md
		awk '{ print $1 "/base"; print $1 "/series"; print $1 "/" $2 "/" $3 }' "$tmp/all"
	} | sort -u | diff - "$tmp/are"
}
ok "the directories have what the series files name, once each, and nothing else" only

once() { [ -z "$(cut -d' ' -f1-3 "$tmp/all" | sort | uniq -d | tee /dev/stderr)" ]; }
ok "no patch is named twice" once

topics() {
	for file in "$ROOT"/patches/*/series; do
		set -- "$(awk '$1 == "topic" { print $2 }' "$file" | paste -sd' ')"
		case "$1 " in
		"prerequisites batching "*) ;;
		*) echo "topics of $file: $1"; return 1 ;;
		esac
	done
}
ok "topics: prerequisites, batching, then others" topics

base_file() {
	for dir in "$ROOT"/patches/*/; do
		grep -qE '^PACKAGE=linux-source-' "$dir/base"
		# shellcheck source=patches/6.12/base
		. "$dir/base"
		[ -n "$TESTED" ]
		for version in $TESTED; do
			grep -qE "^[0-9a-f]{64}  linux-source-[0-9.]+_${version}_all.deb$" "$dir/base"
		done
	done
}
ok "base: the package, and a checksum for each tested version" base_file

numbers() {
	awk '{ want = sprintf("%04d-", ++n[$1, $2]) }
		substr($3, 1, 5) != want { print $1 "/" $2 "/" $3 " should begin with " want; bad = 1 }
		END { exit bad }' "$tmp/all"
}
ok "patches are numbered from 0001 in each topic" numbers

# shellcheck disable=SC2031 # of each()
name() {
	want=${patch%%-*}-$(field Subject | sed 's/[^A-Za-z0-9._]\{1,\}/-/g; s/\.\{2,\}/./g' | cut -c1-52 | sed 's/[-.]*$//').patch
	[ "$patch" = "$want" ] || { echo "should be $want"; return 1; }
}
ok "a patch has the name that git format-patch gives" each name

mail_form() {
	head -n 1 "$file" | grep -qx 'From 0\{40\} Mon Sep 17 00:00:00 2001'
	[ "$(grep -c '^Subject: \[PATCH\] ' "$file")" -eq 1 ]
	if tail -n 2 "$file" | grep -qx -e '-- '; then echo "has a signature"; return 1; fi
	if grep -qE '^index [0-9a-f]{0,11}\.' "$file"; then echo "index shorter than 12"; return 1; fi
}
ok "git format-patch's form, without commit ids and signature" each mail_form

no_new_files() { ! grep -n -e '^new file mode' -e '^--- /dev/null' "$file"; }
ok "patches change what there is; new files stand at their path" each no_new_files

new_files() {
	cut -d' ' -f4- "$tmp/all" | tr ' ' '\n' | sed '/^$/d' | while read -r file; do
		[ -f "$ROOT/$file" ] || { echo "$file is not there"; return 1; }
	done
}
ok "new files that the series name are there" new_files

all_named() {
	(cd "$ROOT" && git ls-files -- tools Documentation mm include arch fs io_uring) > "$tmp/new"
	cut -d' ' -f4- "$tmp/all" | tr ' ' '\n' | sed '/^$/d' | sort -u > "$tmp/named"
	[ -z "$(sort "$tmp/new" | comm -23 - "$tmp/named" | tee /dev/stderr)" ]
}
ok "every file at a kernel path is named by a series" all_named

subject() {
	field Subject | tee "$tmp/subject"
	grep -qE '^([a-z0-9_.-]+/)*[a-z0-9_.-]+(, [a-z0-9_.-]+)*: [a-z]' "$tmp/subject"
	awk '/\.$/ || length > 100 { exit 1 }' "$tmp/subject"
}
ok "subject: prefix, then what it does; 100 characters at the most, no full stop" each subject

log() {
	field Subject > /dev/null
	sed '/^[A-Z][A-Za-z-]*: /,$d' "$tmp/msg" > "$tmp/log"
	[ "$(wc -w < "$tmp/log")" -ge 20 ] || { echo "the log says nothing"; return 1; }
	awk 'length > 75 && /[^ ].* .*[^ ]/ && !/^ / { print "longer than 75: " $0; bad = 1 } END { exit bad }' "$tmp/log"
}
ok "a log, in lines of 75 characters at the most" each log

trailers() {
	field Subject > /dev/null
	grep -qx 'Assisted-by: LLM' "$tmp/msg"
	if grep -nE '^(Signed-off|Reviewed|Acked|Tested|Reported|Suggested|Co-developed)-by:' "$tmp/msg"; then
		echo "a tag in somebody's name"
		return 1
	fi
}
ok "Assisted-by: LLM, no Signed-off-by, no tag in somebody's name" each trailers
done_testing
