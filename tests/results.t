#!/bin/sh
#
# What the texts say was measured is what results/ says.
#
# Checks: each table that README.md or a text in results/ quotes is the file's;
#         quote.sh writes numbers and words as they are, and stops at a file that
#         is not there and at a quote without an end.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
quote=$ROOT/scripts/quote.sh

ok "the texts quote what results/ says" "$quote" -c

plain() {
	printf 'ranges\tbefore_ms\tname\n1\t10.25\tone\n1024\t3\tmany more\n' > "$tmp/x.tsv"
	cat > "$tmp/want" <<-EOF2
	        before
	ranges      ms  name
	     1   10.25  one
	  1024       3  many more
	EOF2
	"$quote" "$tmp/x.tsv" | diff "$tmp/want" -
}
ok "a table as plain text" plain

# A scratch copy, whose texts may be wrong
copy=$tmp/copy
mkdir -p "$copy/results" "$copy/patches/$BASE"
cp -R "$ROOT/scripts" "$ROOT/Makefile" "$copy"
printf 'a\tb_c\nx\t1\ny\t2\n' > "$copy/results/x.tsv"
text() { printf '%s\n' "$@" > "$copy/README.md"; }

again() {
	text before '<!-- quote results/x.tsv 1 -->' wrong '<!-- end of quote -->' after
	if "$copy/scripts/quote.sh" -c; then return 1; fi
	"$copy/scripts/quote.sh"
	"$copy/scripts/quote.sh" -c
	# shellcheck disable=SC2016
	text before '<!-- quote results/x.tsv 1 -->' '| a | b c |' '| --- | ---: |' '| `x` | 1 |' \
		'<!-- end of quote -->' after
	"$copy/scripts/quote.sh" -c
}
ok "a table in a text is written again" again

stops() {
	cp "$copy/README.md" "$tmp/text"
	if "$copy/scripts/quote.sh"; then return 1; fi
	cmp "$copy/README.md" "$tmp/text"
}
text '<!-- quote results/none.tsv -->' '<!-- end of quote -->'
ok "a file that is not there stops it" stops
text '<!-- quote results/x.tsv -->' text
ok "a quote without an end stops it" stops
done_testing
