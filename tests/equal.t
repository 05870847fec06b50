#!/bin/sh
#
# Random requests get the same on before and after, and a vector the same as its
# ranges one by one.
#
# Checks: scripts/equal.sh finds no difference in what its requests return and do
#         to the memory; it made requests of all kinds, on memory of all kinds,
#         that were done, done in part and refused. Requests of many threads at
#         once succeed, and only memory that was given back changes.
#         And that a difference is found: of a run that lies it tells the request,
#         makes the case small and says how to repeat it; a run of nothing fails.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
[ -f "$(folder after)/stamp" ] || skip_all "no kernels yet: 'make build'"
equal() { env K="before after" "$ROOT/scripts/equal.sh" "$@"; }
on_after() { env K=after "$@"; }
least=20000
o=$W/equal

for use in "-m sometimes" "-n 0" "-n many" "-s -1" "-k 3" "-i 3" "-m race -k 3" "-m kernels -k x" "-x" word; do
	wrong() {
		# shellcheck disable=SC2086 # options
		gives 2 equal $use 2> "$tmp/wrong"
		cat "$tmp/wrong"
		[ "$(wc -l < "$tmp/wrong")" -eq 1 ]
	}
	ok "wrong use: $use" wrong
done

# The smaller runs first: the records of the last one stay.
nothing() {
	gives 1 equal -m vectors -n 50 -P /bin/true > "$tmp/nothing"
	cat "$tmp/nothing"
	[ "$(grep -c ': 0 records, where there must be more' "$tmp/nothing")" -eq 4 ]
}
ok "a run of nothing fails" nothing

lied() {
	gives 1 on_after "$ROOT/scripts/equal.sh" -m vectors -n 50 -f 8,3,2 > "$tmp/lied" 2> "$tmp/lied.err"
	cat "$tmp/lied.err" "$tmp/lied"
	grep -q 'different: seed 1, request 8: ret' "$tmp/lied"
	again=$(sed -n 's/^To repeat it: K=after //p' "$tmp/lied")
	echo "$again" | grep -qE '^scripts/equal.sh -m vectors -s 1 -k 3,8 -i 2 -f 8,3,2$'
	# As told, and without what it needs
	cd "$ROOT"
	# shellcheck disable=SC2086 # a command
	gives 1 on_after $again > "$tmp/again"
	cat "$tmp/again"
	grep -q 'after.parts: 1	8	' "$tmp/again"
	# shellcheck disable=SC2046 # a command
	gives 0 on_after $(echo "$again" | sed 's/3,8/4,8/')
}
ok "a run that lies is found out, in a case of 2 requests and 1 range" lied

ok "no difference in $least requests" equal -n $((least / 4 + 50))
cp "$tmp/ok.log" "$tmp/said"
sed 's/^/# /' "$tmp/said"

says() { grep -F -- "$1" "$tmp/said"; }
ok "before and after: the same" says "before and after: the same"
for k in before after; do
	ok "$k: a whole vector and range by range: the same" says "on $k, a whole vector and range by range: the same"
	ok "$k: threads" grep -E "^threads, on $k: .* good$" "$tmp/said"
done

# column NAME: its number
column() { head -n 1 "$o/after.whole.tsv" | tr '\t' '\n' | grep -nx "$1" | cut -d: -f1; }
enough() {
	n=$(cat "$o"/*.whole.tsv "$o"/*.parts.tsv | grep -c '^[0-9]')
	echo "$n requests"
	[ "$n" -ge "$least" ]
}
ok "$least requests at least" enough
for advice in DONTNEED FREE DONTNEED_LOCKED GUARD_INSTALL; do
	kinds() {
		awk -F '\t' -v advice="$advice" '
			$4 != advice { next }
			$5 > 1 && $7 >= 0 && $7 == $6 { n["all done"]++ }
			$5 > 1 && $7 >= 0 && $7 < $6 { n["in part"]++ }
			$5 > 64 && $7 > 0 { n["more than 64 ranges"]++ }
			$3 == "m" && $7 == 0 { n["madvise"]++ }
			$7 < 0 { n["refused"]++ }
			END {
				for (what in n) {
					print what, n[what]
					kinds++
				}
				exit kinds != 5
			}' "$o/after.whole.tsv"
	}
	ok "$advice: all done, in part, refused; large vectors; madvise()" kinds
done
errors() {
	for error in 1 9 12 14 22; do
		cut -f"$(column errno)" "$o/after.whole.tsv" | grep -cx "$error"
	done
}
ok "each error: EPERM, EBADF, ENOMEM, EFAULT, EINVAL" errors
memory() {
	for what in present swapped markers protected rss swap lazyfree huge locked merged; do
		n=$(cut -f"$(column $what)" "$o/after.whole.tsv" | grep -c '^[1-9]')
		echo "$what $n"
		[ "$n" -ge 20 ]
	done
}
ok "memory of each kind" memory
done_testing
