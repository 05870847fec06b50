#!/bin/sh
#
# Compares random requests on random memory: before and after, whole and in parts.
#
# What:   runs tests/equal.c in the guest, which says for each request its result
#         and the state of the memory. Compared are, by -m: kernels, before and
#         after; vectors, on each kernel of K a process_madvise() with its whole
#         vector and a call for each range. With -m race many threads do such
#         things at once, and only what must hold for each is checked. Without
#         -m: all of it. Records: out/BASE/equal/*.tsv; tests/equal.c has the
#         columns.
#         A difference is made as small as it gets, by leaving out requests and
#         ranges, and told with the command that repeats it.
# Checks: the records are the same, all requests were made, no kernel complained.
# Usage:  equal.sh [-m kernels|vectors|race] [-n REQUESTS] [-s FIRST-SEED]
#         equal.sh -m kernels|vectors -s SEED -k REQUESTS [-i RANGES]
#         -n: requests of a run (5100), 50 from each seed; -m race: by its threads
#         -k: only these requests of the seed, as 3,8,20-22, told one by one;
#         -i: only these ranges of the last of them, the first is 0
#         For the test of the test: -f STEP[,STEP[,RANGE]] makes one of the two
#         runs lie; -P PROGRAM is run instead. See tests/equal.c.
# Status: 0 the same, 1 not, 2 wrong use, 128 a guest was lost.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
mode=all requests=5100 seed=1 steps='' ranges='' lie='' program=''
number() {
	case $2 in
	'' | *[!0-9]* | ?????????*) misuse "-$1 $2: not a number" ;;
	esac
}
list() {
	case $2 in
	'' | *[!0-9,-]*) misuse "-$1 $2: not a list of numbers such as 3,8,20-22" ;;
	esac
}
while getopts :hm:n:s:k:i:f:P: opt; do
	case $opt in
	h) usage ;;
	m) mode=$OPTARG ;;
	n) requests=$OPTARG && number n "$requests" ;;
	s) seed=$OPTARG && number s "$seed" ;;
	k) steps=$OPTARG && list k "$steps" ;;
	i) ranges=$OPTARG && list i "$ranges" ;;
	f) lie=$OPTARG && list f "$lie" ;;
	P) program=$OPTARG ;;
	*) misuse "see equal.sh -h" ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || misuse "see equal.sh -h"
case $mode in
kernels | vectors | race | all) ;;
*) misuse "-m $mode: kernels, vectors or race" ;;
esac
[ "$requests" -gt 0 ] || misuse "-n 0: nothing to compare"
[ -z "$ranges" ] || [ -n "$steps" ] || misuse "-i needs -k"
case $mode in
kernels | vectors) ;;
*) [ -z "$steps$lie" ] || misuse "-k and -f need -m kernels or -m vectors" ;;
esac

# What is run: names KERNEL.whole, KERNEL.parts and KERNEL.race; and which of
# them are compared.
per_seed=50
runs='' pairs=''
case $mode in
kernels | all)
	runs='before.whole after.whole' pairs=before.whole:after.whole ;;
esac
case $mode in
vectors | all)
	for k in $K; do
		runs="$runs $k.whole $k.parts" pairs="$pairs $k.whole:$k.parts"
	done ;;
esac
case $mode in
race | all) for k in $K; do runs="$runs $k.race"; done ;;
esac
runs=$(echo "$runs" | tr ' ' '\n' | awk 'NF && !seen[$1]++')

o=$W/equal
mkdir -p "$o"
rm -f "$o"/*.tsv "$o"/*.out "$o"/*.plan
if [ -z "$program" ]; then
	program=$o/equal
	gcc -O2 -Wall -Wextra -pthread -o "$program" "$ROOT/tests/equal.c"
fi

# The guest: no choice is left to daemons and to what was before.
# shellcheck disable=SC2016 # the guest expands it
guest='
busybox mkswap /dev/ram0 > /dev/null && swapon /dev/ram0
echo 0 > /proc/sys/vm/page-cluster
echo 0 > /proc/sys/vm/compaction_proactiveness
echo 16 > /proc/sys/vm/nr_hugepages
cd /sys/kernel/mm/transparent_hugepage
echo 4000000000 > khugepaged/scan_sleep_millisecs
echo 4000000000 > khugepaged/alloc_sleep_millisecs
echo madvise > enabled
cd /sys/kernel/mm/ksm
echo 0 > smart_scan
echo 0 > sleep_millisecs
echo 10000 > pages_to_scan
mkdir /tmp/equal
mount -t ramfs equal /tmp/equal
cd /tmp/equal
while read -r name options; do
	echo "@@ $name"
	$program -d /tmp/equal $options < /dev/null 2> /tmp/err || echo "@! $name: status $?"
	sed "s|^|@! $name: |" /tmp/err
done'

# run PLAN: in guests, one for each kernel, the lines RUN[/CASE] OPTIONS of a
# file; what they print goes to PLAN.out
run() {
	: > "$1.out"
	for k in $(echo before after "$K" | tr ' ' '\n' | awk '!seen[$1]++'); do
		grep "^$k\." "$1" > "$o/$k.plan" || continue
		status=0
		"$ROOT/scripts/boot.sh" -k "$k" -t "$limit" "program=$program; {
			$guest
			} < $o/$k.plan" > "$o/$k.out" || status=$?
		cat "$o/$k.out" >> "$1.out"
		[ "$status" -eq 0 ] || {
			say "kernel $k: the guest ended with status $status, see $W/guest/$k.log"
			[ "$status" -eq 128 ] || status=1
			exit $status
		}
	done
}

# options RUN: those that all cases of the run have
options() {
	case $1 in
	*.parts) echo "-1${lie:+ -f $lie}" ;;
	after.whole) echo "${lie:+$([ "$mode" != kernels ] || echo "-f $lie")}" ;;
	esac
}

# compress: a list of numbers, a line each, as 1-3,5
compress() {
	sort -n | awk '
		function flush() { if (n) printf "%s%s", sep, from == to ? from : from "-" to; sep = "," }
		n && $1 == to + 1 { to = $1; next }
		{ if (n++) flush(); from = to = $1 }
		END { flush(); print "" }'
}
expand() {
	echo "$1" | tr , '\n' | awk -F - '{ for (i = $1; i <= $NF; i++) print i }'
}

# first_difference A B: of two files of records: seed, request, number of ranges,
# the columns that differ
first_difference() {
	awk -F '\t' -v other="$2" '
		NR == 1 { for (i = 1; i <= NF; i++) name[i] = $i }
		{
			if ((getline line < other) < 1)
				line = ""
			if (line == $0)
				next
			split(line, f, "\t")
			for (i = 1; i <= NF; i++)
				if ($i != f[i])
					what = what " " name[i]
			print $1, $2, $5 == "-" ? 0 : $5, what
			exit
		}' "$1"
}

# differing A B < CASES: of the lines STEPS RANGES (- for all), which are run, the
# smallest that differs; nothing when none does
differing() {
	awk '{ print NR, $0 }' > "$o/cases"
	while read -r n s r; do
		[ "$r" != - ] || r=
		for name in "$1" "$2"; do
			echo "$name/$n $(options "$name") -s $seed -r $last -k $s${r:+ -i $r}"
		done
	done < "$o/cases" > "$o/shrink"
	run "$o/shrink"
	awk -v a="$1" -v b="$2" -v cases="$o/cases" '
		function size(list,  parts, n, i, ends, sum) {
			n = split(list, parts, ",")
			for (i = 1; i <= n; i++)
				sum += split(parts[i], ends, "-") == 2 ? ends[2] - ends[1] + 1 : 1
			return sum
		}
		/^@@ / { name = $2; next }
		{ said[name] = said[name] "\n" $0 }
		END {
			while ((getline < cases) > 0) {
				if (said[a "/" $1] == said[b "/" $1])
					continue
				n = 10000 * size($2) + ($3 == "-" ? 9999 : size($3))
				if (!best || n < best) {
					best = n
					line = $2 " " $3
				}
			}
			if (best)
				print line
		}' "$o/shrink.out"
}

# without LIST PARTS: lists that have only a part of it, or all but a part, a line
# each; it is cut into that many parts, half and a quarter as many
without() {
	expand "$1" > "$o/list"
	n=$(wc -l < "$o/list")
	for parts in $(($2 / 4)) $(($2 / 2)) "$2"; do
		size=$(((n + parts - 1) / parts))
		[ "$size" -lt "$n" ] || continue
		from=1
		while [ "$from" -le "$n" ]; do
			sed -n "$from,$((from + size - 1))p" "$o/list" | compress
			[ "$n" -le 2 ] || sed "$from,$((from + size - 1))d" "$o/list" | compress
			from=$((from + size))
		done
	done | sort -u
}

# fewer A B FORMAT LIST: the smallest part of the list with which there still is
# a difference; FORMAT makes STEPS RANGES of a list
fewer() {
	left=$4 cut=8
	while :; do
		case $left in *[,-]*) ;; *) break ;; esac
		without "$left" $cut | while read -r l; do
			# shellcheck disable=SC2059 # that is what it is
			printf "$3\n" "$l"
		done > "$o/try"
		small=$(differing "$1" "$2" < "$o/try") || exit
		if [ -n "$small" ]; then
			cut=8
			case $3 in
			%s,*) left=$(echo "${small% *}" | sed 's/,[0-9]*$//') ;;
			*) left=${small#* } ;;
			esac
		elif [ $cut -eq 8 ] && [ "$(expand "$left" | wc -l)" -gt 8 ]; then
			cut=64
		else
			break
		fi
	done
	echo "$left"
}

# shrink A B: makes the difference of that seed at request last smaller. The
# result is in steps and ranges.
shrink() {
	say "making it smaller"
	limit=600
	{
		echo "$last -"
		i=1
		while [ "$i" -lt "$last" ]; do
			echo "$i,$last -"
			echo "$i-$last -"
			i=$((i + 1))
		done
	} | sort -u > "$o/try"
	small=$(differing "$1" "$2" < "$o/try") || exit
	steps=${small% *}
	[ -n "$steps" ] || return 0
	# More than the last and one other
	case $steps in
	*[,-]*[,-]* | *-*)
		steps=$(expand "$steps" | sed '$d' | compress)
		steps=$(fewer "$1" "$2" "%s,$last -" "$steps") || exit
		steps=$steps,$last ;;
	esac
	[ "$count" -le 1 ] || ranges=$(fewer "$1" "$2" "$steps %s" "0-$((count - 1))") || exit
	[ "$ranges" != "0-$((count - 1))" ] || ranges=''
}

# story A B: the small case, told
story() {
	for name in "$1" "$2"; do
		echo "$name $(options "$name") -p -s $seed -r 4095 -k $steps${ranges:+ -i $ranges}"
	done > "$o/story"
	run "$o/story"
	awk -v a="$1" '
		/^@@ / { name = $2; next }
		/^#/ { if (name == a) print; next }
		{ print name ": " $0 }' "$o/story.out"
}

called() {
	case $1 in
	kernels) echo "before and after" ;;
	*) echo "on ${1%%.*}, a whole vector and range by range" ;;
	esac
}
verdict=0

# One case, told
if [ -n "$steps" ]; then
	limit=120
	for pair in $pairs; do
		story "${pair%:*}" "${pair#*:}"
		for name in "${pair%:*}" "${pair#*:}"; do
			awk -v name="$name" '/^@@ / { on = $2 == name; next } on && !/^#/' "$o/story.out" > "$o/$name"
		done
		what=$(called "$([ "$mode" = kernels ] && echo kernels || echo "$pair")")
		if [ ! -s "$o/${pair%:*}" ]; then
			echo "$what: nothing was run"
			verdict=1
		elif cmp -s "$o/${pair%:*}" "$o/${pair#*:}"; then
			echo "$what: the same"
		else
			echo "$what: different"
			verdict=1
		fi
	done
	exit $verdict
fi

# All
seeds=$(((requests + per_seed - 1) / per_seed))
limit=$((120 + seeds * per_seed / 4))
for name in $runs; do
	case $name in
	*.race) echo "$name -s $seed -t $((seeds * per_seed))" ;;
	*) echo "$name $(options "$name") -s $seed -n $seeds -r $per_seed" ;;
	esac
done > "$o/all"
run "$o/all"
columns() { "$o/equal" -H | sed -n "$1p"; }
[ -x "$o/equal" ] || columns() { :; }
for name in $runs; do
	{
		case $name in
		*.race) columns 2 ;;
		*) columns 1 ;;
		esac
		awk -v name="$name" '/^@@ / { on = $2 == name; next } on && !/^(#|@)/' "$o/all.out"
	} > "$o/$name.tsv"
done
if grep -q '^@!' "$o/all.out"; then
	sed -n 's/^@! //p' "$o/all.out"
	verdict=1
fi

# What was run, in numbers, so that it can be seen that it was something
made=0
for name in $runs; do
	rows=$(($(wc -l < "$o/$name.tsv") - 1))
	case $name in
	*.race) [ "$rows" -eq 1 ] && continue ;;
	*)
		made=$((made + rows))
		[ "$rows" -ne $((seeds * per_seed)) ] || continue ;;
	esac
	echo "$name: $((rows > 0 ? rows : 0)) records, where there must be more"
	verdict=1
done
for name in after.whole before.whole; do
	[ -s "$o/$name.tsv" ] || continue
	awk -F '\t' '
		NR == 1 { next }
		{
			a = $4
			if (a !~ /^(DONTNEED|FREE|DONTNEED_LOCKED|GUARD_INSTALL|GUARD_REMOVE|COLD|PAGEOUT|WILLNEED)$/)
				a = "others"
			n[a]++
			ranges[a] += $3 == "p" ? $5 : 1
			if ($7 < 0)
				refused[a]++
			else if ($3 == "p" && $7 < $6)
				part[a]++
			else
				whole[a]++
		}
		END {
			printf "%-16s %8s %8s %8s %8s %8s\n", "advice", "requests", "ranges", "done", "in part", "refused"
			m = split("DONTNEED FREE DONTNEED_LOCKED GUARD_INSTALL GUARD_REMOVE COLD PAGEOUT WILLNEED others", names, " ")
			for (i = 1; i <= m; i++)
				printf "%-16s %8d %8d %8d %8d %8d\n", names[i], n[names[i]], ranges[names[i]], whole[names[i]], part[names[i]], refused[names[i]]
		}' "$o/$name.tsv"
	awk -F '\t' '
		NR == 1 {
			for (i = 1; i <= NF; i++)
				name[i] = $i
			next
		}
		{
			for (i = 1; i <= NF; i++)
				if (name[i] == "pool" ? $i < 16 : $i > 0)
					n[name[i]]++
		}
		END {
			printf "memory: of %d records %d had pages swapped out, %d markers, %d pages protected by userfaultfd, %d hugetlb;\n",
				NR - 1, n["swapped"], n["markers"], n["protected"], n["pool"]
			printf "        of those that looked at mappings %d had pages to free lazily, %d transparent huge, %d locked, %d merged\n",
				n["lazyfree"], n["huge"], n["locked"], n["merged"]
		}' "$o/$name.tsv"
	break
done
[ "$made" -eq 0 ] || echo "$made requests: from each of $seeds seeds from $seed on $per_seed, in $(echo "$runs" | grep -vc race) runs"
for name in $runs; do
	case $name in
	*.race)
		awk -F '\t' -v on="${name%.race}" 'NR > 1 {
			printf "threads, on %s: %d requests (%d in part, %d refused), %d fills, %d reads (%d guards), %d mappings, %d children: %s\n",
				on, $2, $4, $5, $6, $7, $8, $9, $10, $11
			for (i = 2; i <= 10; i++)
				if ($i == 0)
					none = 1
			exit none || $11 != "good"
		}' "$o/$name.tsv" || verdict=1 ;;
	esac
done

# Which are the same
for pair in $pairs; do
	a=${pair%:*} b=${pair#*:}
	case $b in
	after.whole) what=$(called kernels) again="-m kernels" ;;
	*) what=$(called "$a") again="-m vectors" ;;
	esac
	if cmp -s "$o/$a.tsv" "$o/$b.tsv"; then
		[ $verdict -ne 0 ] || echo "$what: the same"
		continue
	fi
	verdict=1
	difference=$(first_difference "$o/$a.tsv" "$o/$b.tsv")
	# shellcheck disable=SC2086 # words
	set -- $difference
	case ${2-} in
	'' | 0)
		echo "$what: different: one of them ends early"
		continue ;;
	esac
	seed=$1 last=$2 count=$3
	shift 3
	echo "$what: different: seed $seed, request $last: $*"
	ranges=
	shrink "$a" "$b"
	if [ -z "$steps" ]; then
		echo "It does not happen again when it is run again with this seed alone."
		continue
	fi
	case $b in
	after.whole) ;;
	*) again="K=${a%.*} scripts/equal.sh $again" ;;
	esac
	case $again in K=*) ;; *) again="scripts/equal.sh $again" ;; esac
	echo "The smallest case found:"
	story "$a" "$b" | sed 's/^/  /'
	echo "To repeat it: $again -s $seed -k $steps${ranges:+ -i $ranges}${lie:+ -f $lie}"
	steps=
done
echo "Records: out/$BASE/equal"
exit $verdict
