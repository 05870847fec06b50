#!/bin/sh
#
# Measures what batching gives: the kernels before and after, in turn.
#
# What:   four measurements, with bench/madvise_bench.c in the guest:
#           counts        TLB flushes and mmap_lock, by perf events: exact
#           instructions  guest instructions per page, under QEMU's -icount,
#                         two runs of each kernel: repeatable
#           latency       time, RUNS runs of each kernel, alternating, each with
#                         all cases six times over; of all samples the least:
#                         what else the machine does adds to a sample, and takes
#                         from none
#           profile       instructions of a call by kernel function
#         The first, second and fourth do not depend on the machine.
# Gives:  results/: a file for each, what they say together (table-*.tsv), the
#         machine (machine.tsv) and plots (*.svg). What it says is printed, too.
#         results/ changes only when all that was asked for has been measured.
# Says:   where two runs of the same kernel differ by more than 0.1 % in their
#         instructions, and where a goal of the series is missed.
# Usage:  bench.sh [MEASUREMENT...]	all of them by default
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
esac
all='counts instructions latency profile'
[ $# -gt 0 ] || eval "set -- $all"
for what; do
	case " $all " in
	*" $what "*) ;;
	*) misuse "no measurement $what: it is of $all" ;;
	esac
done

config='boot bench'
build=$W/build/$(echo "$config $ARCH" | tr ' ' +)
tmp=$W/bench
bench=$tmp/madvise_bench
plugin=$tmp/profile.so

need gnuplot gnuplot-nox
need gcc gcc
need python3 python3
"$ROOT/scripts/build.sh" -c "$config"
rm -rf "$tmp"
mkdir -p "$tmp"
gcc -O2 -o "$bench" "$ROOT/bench/madvise_bench.c" -lm -pthread
gcc -O2 -fPIC -shared -o "$plugin" "$ROOT/bench/profile.c"
columns=$("$bench" -H)

# guest KERNEL CASES [ARGUMENT-OF-BOOT...]: a line of TSV for each case, which
# is a line of options for the program
guest() {
	kernel=$1 cases=$2
	shift 2
	"$ROOT/scripts/boot.sh" -k "$kernel" -c "$config" -t 900 "$@" "
		while read -r options; do
			$bench -k $kernel \$options < /dev/null || exit
		done <<-EOF
		$cases
		EOF" > "$tmp/guest" || {
		status=$?
		tail -n 3 "$tmp/guest" >&2
		say "the guest of the kernel $kernel failed: its log is in out/$BASE/guest/$kernel.log"
		exit $status
	}
	cat "$tmp/guest"
}

# each FORMAT VALUE...: a line for each value
each() {
	format=$1
	shift
	for value; do
		# shellcheck disable=SC2059 # it is one
		printf -- "$format\n" "$value"
	done
}
sizes='1 2 4 8 16 32 64 128 256 512 1024'

counts() {
	# shellcheck disable=SC2086 # lists of numbers
	cases=$(
		each '-s 4 -i 0 -n %s' $sizes
		each '-s 4 -i 0 -b 1 -n %s' $sizes
		for n in 1 64 1024; do
			each "-s 4 -i 0 -n $n -l %s" gaps random vmas
			each "-s 4 -i 0 -n $n -a %s" FREE DONTNEED_LOCKED NORMAL WILLNEED COLD
			echo "-s 4 -i 0 -n $n -a COLD -t other"
			echo "-s 4 -i 0 -n $n -M file"
		done
		for n in 1 64 256; do
			each "-s 1 -i 0 -n $n -b %s" 2 3
			each "-s 1 -i 0 -n $n -c %s" 2 3 4
		done
		echo '-s 4 -i 0 -m madvise'
		echo '-s 4 -i 0 -m madvise -b 1'
		echo '-s 4 -i 0 -m whole'
		echo '-s 4 -i 0 -m whole -b 1'
	)
	echo "$columns" > "$tmp/counts.raw"
	for k in before after; do
		say "counts: $k"
		CPUS=4 guest $k "$cases" >> "$tmp/counts.raw"
	done
}

instructions() {
	# shellcheck disable=SC2086
	cases=$(
		each '-s 16 -i 3 -n %s' $sizes
		for n in 1 1024; do
			each "-s 16 -i 3 -n $n -l %s" gaps random vmas
			each "-s 16 -i 3 -n $n -a %s" FREE DONTNEED_LOCKED
		done
		echo '-s 16 -i 3 -m madvise'
		echo '-s 16 -i 3 -m whole'
	)
	echo "run	$columns" > "$tmp/instructions.raw"
	for run in 1 2; do
		for k in before after; do
			say "instructions: run $run of 2, $k"
			ACCEL=icount guest $k "$cases" > "$tmp/lines"
			sed "s/^/$run	/" "$tmp/lines" >> "$tmp/instructions.raw"
		done
	done
}

# The order turns round with each run, so that a drift hits both kernels alike.
latency() {
	# shellcheck disable=SC2086
	cases=$(
		for _ in 1 2 3 4 5 6; do
			each '-s 64 -i 2 -n %s' $sizes
			echo '-s 64 -i 2 -m whole'
		done
	)
	echo "run	$columns" > "$tmp/latency.raw"
	order='before after'
	run=1
	while [ $run -le "$RUNS" ]; do
		for k in $order; do
			say "latency: run $run of $RUNS, $k"
			guest "$k" "$cases" > "$tmp/lines"
			sed "s/^/$run	/" "$tmp/lines" >> "$tmp/latency.raw"
		done
		case $order in
		before*) order='after before' ;;
		*) order='before after' ;;
		esac
		run=$((run + 1))
	done
}

# 64 MiB in calls of 1,024 ranges are 16 calls; the first 16 run under the
# counters.
profile() {
	echo "kernel	function	instructions" > "$tmp/profile.raw"
	for k in before after; do
		say "profile: $k"
		ACCEL=icount guest $k '-s 64 -i 3 -n 1024' -q \
			"-plugin $plugin,map=$build/$k/System.map,enter=__x64_sys_process_madvise,skip=16,out=$tmp/$k" \
			> /dev/null
		sed "s/^/$k	/" "$tmp/$k" >> "$tmp/profile.raw"
	done
}

# What was measured on: the guests' own part is in each line of latency.tsv.
machine() {
	tab=$(printf '\t')
	cat <<-EOF
	what${tab}value
	date${tab}$(date -u '+%Y-%m-%d %H:%M')
	base${tab}$(git_ -C "$GITDIR" log -1 --format=%s base)
	before${tab}$(cut -c1-12 "$build/before/stamp")
	after${tab}$(cut -c1-12 "$build/after/stamp")
	config${tab}$config
	compiler${tab}$(gcc --version | head -n 1)
	host_cpu${tab}$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
	host_cpus${tab}$(nproc)
	qemu${tab}$(qemu-system-x86_64 --version | head -n 1)
	EOF
}

for what; do
	$what
done
machine > "$tmp/machine.tsv"

# What was not measured now is taken from what was before.
mkdir -p "$tmp/results"
cp "$ROOT"/results/*.tsv "$tmp/results"
cp "$tmp"/*.raw "$tmp/machine.tsv" "$tmp/results"
python3 "$ROOT/bench/report.py" "$tmp/results"
rm "$tmp"/results/*.raw
if [ -f "$tmp/results/table-exact.tsv" ] && [ -f "$tmp/results/table-time.tsv" ]; then
	(cd "$tmp/results" && gnuplot "$ROOT/bench/plots.gp")
fi
cp "$tmp"/results/* "$ROOT/results"

for table in "$tmp"/results/table-*.tsv; do
	[ ! -f "$table" ] || "$ROOT/scripts/quote.sh" "$table"
done
say "all of it is in results/; 'make quote' writes it into README.md"
