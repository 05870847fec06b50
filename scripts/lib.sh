# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034 # used where this is sourced
#
# What the scripts share. Sourced by them, never run.
#
# Sets the knobs that are not set to the Makefile's defaults, so that a script
# called by itself behaves as under make, and the paths below.

ROOT=$(cd "$(dirname "$0")/.." && pwd -P)
ME=$(basename "$0" .sh)

# The one line that every error is. Status: 1 failed, 2 wrong use, 4 skipped.
die() { echo "$ME: $*" >&2; exit 1; }
misuse() { echo "$ME: $*" >&2; exit 2; }

# Says what goes on; on stderr, so that a script's result stays alone on stdout.
say() { echo "$ME: $*" >&2; }

# -h: the comment that opens the script
usage() { awk 'NR > 2 && !/^#/ { exit } NR > 2 { sub(/^# ?/, ""); print }' "$0"; exit 0; }

# need TOOL PACKAGE: stops, naming the package, when the tool is missing
need() {
	command -v "$1" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ||
		die "$1 is missing: 'make deps', or install the package $2"
}

# room GIGABYTES WHAT: stops when the disk of out/ has less
room() {
	mkdir -p "$OUT"
	_free=$(df -Pk "$OUT" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$_free" -ge "$1" ] ||
		die "$2 needs $1 GB of disk, $OUT has $_free GB: make room, or let out/ be a link to a larger disk"
}

# The repository's own git trees: no configuration, hook or signature of the
# user's may change a commit id.
git_() {
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 command git \
		-c core.hooksPath=/dev/null -c core.autocrlf=false -c gc.auto=0 \
		-c advice.detachedHead=false -c core.untrackedCache=true "$@"
}

# series: the series file as lines TOPIC PATCH [NEW-FILE...]
series() {
	awk '/^[ \t]*(#|$)/ { next } $1 == "topic" { topic = $2; next } { $1 = $1; print topic, $0 }' \
		"$PATCHES/series"
}

# inputs: a hash of all that the tree is assembled from
inputs() {
	(
		cd "$ROOT" || exit
		cat "$W/base"
		series
		series | while read -r topic patch new; do
			# shellcheck disable=SC2086 # a list of files
			sha256sum "patches/$BASE/$topic/$patch" $new
			for file in $new; do test -x "$file" && echo "x $file"; done
		done || :
	) 2>&1 | sha256sum | cut -c1-32
}

# work_in_tree TIP: what of a developer's the tree has that is not of the
# assembly whose last commit is TIP; nothing when there is none
work_in_tree() {
	if [ "$(git_ -C "$TREE" rev-parse -q --verify HEAD)" != "$1" ]; then
		echo "commits of its own"
	elif [ -n "$(git_ -C "$TREE" status --porcelain)" ]; then
		echo "changes that are not committed"
	fi
}

# assembled: sets tip to the last commit of the tree; stops unless the tree is
# what patches/ says, for scripts that give out its commits
assembled() {
	[ -f "$W/tree.stamp" ] || die "no out/$BASE/tree yet: 'make tree'"
	read -r _input tip < "$W/tree.stamp"
	[ "$_input" = "$(inputs)" ] || die "patches/ changed after out/$BASE/tree was assembled: 'make tree'"
	_work=$(work_in_tree "$tip")
	[ -z "$_work" ] || die "out/$BASE/tree has $_work: 'make patches' first"
}

# unjudged: the tests of a newer kernel that are not here, a line each
unjudged() {
	sed -n 's/^JUDGE_TESTS="\(.*\)"$/\1/p' "$PATCHES/base" | tr ' ' '\n' | while read -r _test; do
		[ -x "$KSFT/judge/$_test" ] || echo "$_test"
	done
}

# folder KERNEL: where it is compiled, with the fragments that CONFIG names
folder() { echo "$W/build/$(echo "$CONFIG $ARCH" | tr ' ' +)/$1"; }

# checkout COMMIT: puts it into out/BASE/src, which is this process's, and its
# subshells', until it ends or gives it back by release
src_is_ours=
checkout() {
	if [ -z "$src_is_ours" ]; then
		exec 9> "$W/build.lock"
		flock -n 9 || { say "waiting for another build"; flock 9; }
		src_is_ours=y
	fi
	if [ -d "$SRC" ]; then
		git_ -C "$SRC" checkout -qf --detach "$1"
	else
		git_ -C "$GITDIR" worktree prune
		git_ -C "$GITDIR" worktree add -q --detach "$SRC" "$1"
	fi
}

release() {
	exec 9>&-
	src_is_ours=
}

# kmake FOLDER ARGUMENT...: the kernel's make on out/BASE/src. ccache gets paths
# relative to out/BASE, so that one folder's objects serve another's.
kmake() {
	_o=$1 _ccache=
	shift
	! command -v ccache > /dev/null || _ccache='ccache '
	CCACHE_BASEDIR=$W CCACHE_NOHASHDIR=1 \
		make -C "$SRC" O="$_o" ARCH="$ARCH" CC="${_ccache}gcc" HOSTCC="${_ccache}gcc" \
		KBUILD_BUILD_USER=series KBUILD_BUILD_HOST=localhost \
		KBUILD_BUILD_TIMESTAMP='Sun Nov 17 22:15:08 UTC 2024' -j"$JOBS" "$@"
}

while read -r _name _value; do
	eval "_set=\${$_name-}"
	# shellcheck disable=SC2154
	[ -n "$_set" ] || eval "$_name=\$_value"
done <<EOF
$(sed -n 's/^\([A-Z]*\)[ \t]*?=[ \t]*/\1 /p' "$ROOT/Makefile")
EOF
# The knobs of the make that called are no business of the kernel's.
unset MAKEFLAGS MFLAGS MAKELEVEL
[ -n "$JOBS" ] || JOBS=$(nproc)

OUT=$ROOT/out				# all that is generated
W=$OUT/$BASE				# of this base
PATCHES=$ROOT/patches/$BASE
GITDIR=$W/git				# the bare repository behind tree and src
TREE=$W/tree				# the assembled tree: a developer's
SRC=$W/src				# the same, for builds: nobody's
KSFT=$W/ksft				# selftests: programs and results
[ -d "$PATCHES" ] || misuse "no directory patches/$BASE: BASE= is one of $(cd "$ROOT/patches" && echo [0-9]*)"
