#!/bin/sh
#
# Everything from nothing to what the series is for.
#
# What:   gets the base, assembles the tree, builds the kernels before and after,
#         and in each gives back the dead pages of an allocator's arena by
#         process_madvise(), counting TLB flushes and mmap_lock acquisitions
#         (bench/arena.c). Prints them side by side; the same figures are in
#         out/run.tsv.
# Checks: that the live pages of the arena hold what was written to them; that a
#         call flushes once after, where it flushed once for each range before.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see run.sh -h" ;;
esac

n=0
step() {
	n=$((n + 1))
	echo "[$n/5] $*"
}

step "get the base"
"$ROOT/scripts/fetch.sh"
step "assemble the tree"
"$ROOT/scripts/tree.sh"
step "build the kernels before and after"
"$ROOT/scripts/build.sh"
cc -O2 -Wall -pthread -o "$W/arena" "$ROOT/bench/arena.c"
for kernel in before after; do
	step "measure in the kernel $kernel"
	"$ROOT/scripts/boot.sh" -k $kernel -t 300 "$W/arena -k $kernel" > "$W/arena.$kernel" || {
		status=$?
		cat "$W/arena.$kernel" >&2
		exit $status
	}
done
{
	printf 'kernel advice calls ranges vmas threads bytes flushes_local flushes_remote mmap_locks\n' | tr ' ' '\t'
	cat "$W/arena.before" "$W/arena.after"
} > "$OUT/run.tsv"
echo
awk -F '\t' '
	NR == 1 { next }
	{ id = $2 FS $4 FS $6 }
	$1 == "before" { n++; ids[n] = id; calls[id] = $3; vmas[id] = $5; bytes[id] = $7 }
	{ local[$1, id] = $8; remote[$1, id] = $9; locks[$1, id] = $10 }
	END {
		print "                                                       TLB flushes   to other CPUs   mmap_lock taken"
		print "advice           ranges/call calls VMAs threads  MiB  before  after  before  after     before  after"
		for (i = 1; i <= n; i++) {
			id = ids[i]
			split(id, f, FS)
			printf "%-16s %11d %5d %4d %7d %4.1f  %6d %6d  %6d %6d     %6d %6d\n", f[1], f[2], calls[id],
				vmas[id], f[3], bytes[id] / 1048576, local["before", id], local["after", id],
				remote["before", id], remote["after", id], locks["before", id], locks["after", id]
			ranges = calls[id] * f[2]
			flushes["before"] += local["before", id]
			flushes["after"] += local["after", id]
			allranges += ranges
			allcalls += calls[id]
			# A flush that finds the other CPU in the kernel, idle or
			# in an interrupt, does not need to interrupt it.
			if (local["before", id] != ranges || local["after", id] != calls[id] ||
			    (f[3] && remote["before", id] < 0.9 * ranges) || remote["after", id] > calls[id] ||
			    locks["before", id] != calls[id] || locks["after", id] != calls[id])
				odd = odd "\n  " f[1] ", " f[2] " ranges per call, " f[3] " threads"
		}
		printf "\n%d ranges in %d calls, the live pages between them untouched.\n", allranges, allcalls
		printf "Before, each range flushed the TLB: %d flushes. After, each call did: %d flushes.\n",
			flushes["before"], flushes["after"]
		if (n == 0 || odd) {
			print "That is not so in each line, as it should be:" (odd ? odd : " there is none")
			exit 1
		}
		print "With a thread of the process on another CPU, each flush interrupts that CPU: compare the columns"
		print "in the lines with 1024 ranges in a call. mmap_lock was taken once for each call by both."
	}' "$OUT/run.tsv"
