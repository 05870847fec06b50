#!/bin/sh
#
# make run shows what the series is for.
#
# Checks: one flush for each call after, one for each range before; the same
#         figures in out/run.tsv; its steps are numbered to the last.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

run() {
	rm -f "$OUT/run.tsv"
	"$ROOT/scripts/run.sh" > "$tmp/said"
	cat "$tmp/said"
	grep -q '^Before, each range flushed the TLB' "$tmp/said"
	[ "$(grep -c '^\[[1-5]/5\] ' "$tmp/said")" -eq 5 ]
}
ok "ends with what should be seen" run

header() {
	printf 'kernel advice calls ranges vmas threads bytes flushes_local flushes_remote mmap_locks\n' |
		tr ' ' '\t' > "$tmp/header"
	head -n 1 "$OUT/run.tsv" | cmp - "$tmp/header"
}
ok "out/run.tsv: the header" header

# figures KERNEL COLUMN-OF-FLUSHES: advice and ranges all there, each as it must be.
# A flush that finds the other CPU in the kernel may leave it alone (column 9).
figures() {
	awk -F '\t' -v kernel="$1" -v column="$2" '
		$1 != kernel || (column == 9 && !$6) { next }
		{ n[$2, $4]++; want = kernel == "before" ? $3 * $4 : $3 }
		(column == 9 ? $9 > want || (kernel == "before" && $9 < 0.9 * want) : $8 != want) || $10 != $3 || $7 <= 0 || $5 < 100 { print "want " want " flushes: " $0; bad = 1 }
		END {
			split("DONTNEED DONTNEED_LOCKED FREE", advice, " ")
			split("1 16 128 1024", ranges, " ")
			for (i = 1; i <= 3; i++)
				for (j = 1; j <= 4; j++)
					if (n[advice[i], ranges[j]] < (column == 9 ? 1 : 2)) {
						print "missing: " advice[i] " " ranges[j]
						bad = 1
					}
			exit bad
		}' "$OUT/run.tsv"
}
ok "before: a flush for each range" figures before 8
ok "before: of those, nearly all interrupt another CPU that runs a thread" figures before 9
ok "after: a flush for each call" figures after 8
ok "after: of those, none interrupts another CPU a second time" figures after 9
done_testing
