#!/bin/sh
#
# The kernel's semantic patches find nothing in the touched files that they do
# not find in the base.
#
# What:   spatch in mode report with each file of scripts/coccinelle, over all
#         touched C files that the kernel had, at the base and at the tip.
# Skips:  without spatch; what spatch cannot do, or not within a minute, with the
#         base's own files.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled
command -v spatch > /dev/null || skip_all "no spatch: install the package coccinelle"

git_ -C "$GITDIR" diff --no-renames --name-only --diff-filter=M base "$tip" -- '*.c' > "$tmp/touched"
for commit in base "$tip"; do
	git clone -q --shared --no-checkout "$GITDIR" "$tmp/$commit"
	{ echo /scripts/coccinelle/; echo /include/; sed 's|^|/|' "$tmp/touched"; } |
		git -C "$tmp/$commit" sparse-checkout set --no-cone --stdin
	git -C "$tmp/$commit" checkout -q --detach "$commit"
done

# found COMMIT COCCI: its reports, without line numbers
found() {
	options=$(sed -n 's|^// Options: ||p' "$tmp/base/$2")
	cd "$tmp/$1"
	# shellcheck disable=SC2086 # a list of options
	xargs timeout 60 spatch -D report --no-show-diff --very-quiet $options --cocci-file "$2" \
		< "$tmp/touched" > "$tmp/reports" 2> "$tmp/errors" || { cat "$tmp/errors" >&2; return 1; }
	sed 's/:[0-9][-0-9:]*/:/' "$tmp/reports" | sort
}
check() {
	found "$tip" "$1" > "$tmp/found.tip"
	[ -z "$(comm -13 "$tmp/found.base" "$tmp/found.tip" | tee /dev/stderr)" ]
}
(cd "$tmp/base" && find scripts/coccinelle -name '*.cocci' | sort |
	xargs grep -lE '^virtual (.*[ ,])?report') > "$tmp/cocci"
while read -r cocci; do
	if grep -q '^@.*ocaml' "$tmp/base/$cocci"; then
		skip "$cocci" "Debian's spatch runs no OCaml"
	elif ! (found base "$cocci" > "$tmp/found.base" 2> "$tmp/why"); then
		skip "$cocci" "of the base already: $( (grep . "$tmp/why" || echo 'spatch does not end in a minute') | tail -n 1)"
	else
		ok "$cocci" check "$cocci" < /dev/null
	fi
done < "$tmp/cocci"
done_testing
