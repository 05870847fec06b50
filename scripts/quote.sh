#!/bin/sh
#
# Quotes results: a file of results/ as a table in a text.
#
# What:   writes again, from results/, every table of README.md and of
#         results/*.md that stands between the lines
#             <!-- quote results/NAME.tsv [LINES] -->
#             <!-- end of quote -->
#         with its first LINES lines, or all of them.
# Why:    figures in a text are what was measured, and nobody's typing.
# Usage:  quote.sh		write the tables again
#         quote.sh -c		only check that they are what results/ says
#         quote.sh FILE.tsv	print that one as plain text, as for a mail
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# table STYLE FILE [LINES]: STYLE is markdown or plain
table() {
	[ -f "$2" ] || die "no $2: 'make bench' measures it"
	awk -F '\t' -v style="$1" -v most="${3-}" '
	NR == 1 {
		columns = NF
		for (i = 1; i <= NF; i++) {
			words[i] = split($i, word, "_")
			if (words[i] > high)
				high = words[i]
			for (j = 1; j <= words[i]; j++) {
				head[i, j] = word[j]
				fit(i, word[j])
			}
			gsub("_", " ", $i)
			name[i] = $i
		}
		next
	}
	most == "" || rows < most {
		rows++
		for (i = 1; i <= NF; i++) {
			cell[rows, i] = $i
			fit(i, $i)
			if ($i !~ /^-?[0-9.]+$/)
				text[i] = 1
		}
	}
	function fit(i, what) {
		if (length(what) > width[i])
			width[i] = length(what)
	}
	# A number stands at the right of its column, a text at the left.
	function put(i, what) {
		out = out sprintf(text[i] ? "%-" width[i] "s" : "%" width[i] "s", what) (i < columns ? "  " : "")
	}
	function line() {
		sub(/ +$/, "", out)
		print out
		out = ""
	}
	END {
		if (style == "markdown") {
			for (i = 1; i <= columns; i++) {
				out = out "| " name[i] " "
				rule = rule "| " (text[i] ? "---" : "---:") " "
			}
			print out "|\n" rule "|"
			for (r = 1; r <= rows; r++) {
				out = ""
				for (i = 1; i <= columns; i++)
					out = out "| " (text[i] ? "`" cell[r, i] "`" : cell[r, i]) " "
				print out "|"
			}
			exit
		}
		for (j = 1; j <= high; j++) {
			for (i = 1; i <= columns; i++)
				put(i, head[i, j - high + words[i]])
			line()
		}
		for (r = 1; r <= rows; r++) {
			for (i = 1; i <= columns; i++)
				put(i, cell[r, i])
			line()
		}
	}' "$2"
}

# A text with its tables made again
again() {
	inside=
	while IFS= read -r line; do
		case $line in
		'<!-- quote '*' -->')
			[ -z "$inside" ] || die "$1: a quote in a quote"
			inside=y
			printf '%s\n' "$line"
			words=${line#<!-- quote }
			# shellcheck disable=SC2086 # a file and a number
			table markdown ${words% -->} || exit ;;
		'<!-- end of quote -->')
			inside=
			printf '%s\n' "$line" ;;
		*)
			[ -n "$inside" ] || printf '%s\n' "$line" ;;
		esac
	done < "$1"
	[ -z "$inside" ] || die "$1: a quote has no '<!-- end of quote -->'"
}

case ${1-} in
-h) usage ;;
'' | -c) ;;
-*) misuse "see quote.sh -h" ;;
*)
	table plain "$1"
	exit 0 ;;
esac
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
for text in README.md results/*.md; do
	[ -f "$text" ] || continue
	again "$text" > "$tmp"
	cmp -s "$tmp" "$text" && continue
	[ "${1-}" != -c ] || die "$text does not quote what results/ says: 'make quote'"
	cat "$tmp" > "$text"
done
