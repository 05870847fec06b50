#!/bin/sh
#
# Compiles the kernels before and after.
#
# What:   the commits that the tags before and after name, each in a folder of
#         its own: out/BASE/build/CONFIG/before and .../after. The second begins
#         as a copy of the first, so that only what differs is compiled.
# Config: allnoconfig, and over it the fragments of configs/ that CONFIG names,
#         merged by the kernel's own script.
# Checks: every option of a fragment took effect; nothing warned.
# Skips:  what was compiled from the same commit with the same configuration.
# Usage:  build.sh [-k KERNEL] [-c "FRAGMENT ..."] [COMMIT]
#         With COMMIT: that one, in the folder that KERNEL names, for a check
#         that needs other kernels than these two.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
kernels='before after'
while getopts :hk:c: opt; do
	case $opt in
	h) usage ;;
	k) kernels=$OPTARG ;;
	c) CONFIG=$OPTARG ;;
	*) misuse "see build.sh -h" ;;
	esac
done
shift $((OPTIND - 1))
commit=${1-}

[ -f "$W/tree.stamp" ] || die "no tree yet: 'make tree'"
for tool in flex:flex bison:bison bc:bc gcc:gcc ld:binutils rsync:rsync; do
	need "${tool%:*}" "${tool#*:}"
done

# A line that moves while the kernel compiles: on a terminal the last object,
# else a sign of life now and then.
progress() {
	if [ -t 2 ]; then tty=1; else tty=0; fi
	awk -v what="$1" -v tty=$tty '
	{ n++; line = sprintf("build: %s: %d, %s", what, n, $NF) }
	tty { printf "\r\033[K%.79s", line > "/dev/stderr" }
	!tty && n % 500 == 0 { print line > "/dev/stderr" }
	END { if (tty) printf "\r\033[K" > "/dev/stderr" }'
}

# configure FOLDER
configure() {
	fragments=
	for name in $CONFIG; do
		[ -f "$ROOT/configs/$name.config" ] ||
			misuse "no configs/$name.config: CONFIG= is of $(cd "$ROOT/configs" && echo *.config)"
		fragments="$fragments $ROOT/configs/$name.config"
	done
	# shellcheck disable=SC2086 # a list of files
	(cd "$SRC" && ARCH=$ARCH scripts/kconfig/merge_config.sh -n -y -Q -O "$1" $fragments) \
		> "$1.log" 2>&1 || die "cannot configure: see $1.log"
	lost=$(sed -n 's/^Value requested for \(.*\) not in final .*/\1/p' "$1.log" | paste -sd' ')
	[ -z "$lost" ] ||
		die "did not take in the configuration: $lost: what they depend on is missing from configs/ ($CONFIG)"
}

for kernel in $kernels; do
	id=$(git_ -C "$GITDIR" rev-parse -q --verify "${commit:-refs/tags/$kernel}^{commit}") ||
		misuse "no commit ${commit:-$kernel} in out/$BASE/git: 'make tree', or see build.sh -h"
	o=$(folder "$kernel")
	# shellcheck disable=SC2086 # a list of names
	stamp="$id $(cd "$ROOT/configs" && for f in $CONFIG; do cat "$f.config" 2>/dev/null; done | sha256sum | cut -c1-32)"
	[ ! -f "$o/stamp" ] || [ "$(cat "$o/stamp")" != "$stamp" ] || continue

	checkout "$id"
	first=$(folder before)
	if [ ! -d "$o" ]; then
		room 2 "a kernel build"
		mkdir -p "${o%/*}"
		rm -rf "$o.new"
		if [ -f "$first/stamp" ]; then
			cp -a "$first" "$o.new"
			rm "$o.new/stamp"
		else
			mkdir "$o.new"
		fi
		mv "$o.new" "$o"
	fi
	rm -f "$o/stamp"
	configure "$o"
	say "$kernel: compiling $(git_ -C "$SRC" log -1 --format='%h %s')"
	{
		kmake "$o" LOCALVERSION="-$kernel" 2> "$o.err" || echo failed > "$o.rc"
	} | progress "$kernel"
	if [ -f "$o.rc" ]; then
		rm "$o.rc"
		tail -n 30 "$o.err" >&2
		die "$kernel does not compile: see above, all of it is in $o.err"
	fi
	if [ -s "$o.err" ]; then
		cat "$o.err" >&2
		die "$kernel compiles with the warnings above: mend what they name"
	fi
	echo "$stamp" > "$o/stamp"
done
