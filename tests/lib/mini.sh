# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# A scratch copy of this repository, and a small kernel git tree for its KSRC:
# the files that the series touches, and no more, so that assembling takes a
# second. Sourced after tap.sh by tests of the scripts that handle trees.

# touched: the kernel's files that the patches of the series change
touched() {
	series | while read -r topic patch _; do
		sed -n 's|^--- a/||p' "$PATCHES/$topic/$patch"
	done | sort -u
}

# mini_kernel DIR: its sources are those of the assembled tree's base
mini_kernel() {
	mkdir -p "$1"
	# shellcheck disable=SC2046 # a list of files
	git_ -C "$GITDIR" archive refs/tags/base -- Makefile Kbuild $(touched) | tar -x -C "$1"
	git_ -C "$1" init -q
	git_ -C "$1" add -Af
	GIT_AUTHOR_NAME=k GIT_AUTHOR_EMAIL=k@localhost GIT_COMMITTER_NAME=k GIT_COMMITTER_EMAIL=k@localhost \
		GIT_AUTHOR_DATE='2024-11-17 00:00:00 +0000' GIT_COMMITTER_DATE='2024-11-17 00:00:00 +0000' \
		git_ -C "$1" commit -qm "mini kernel"
}

# mini_repository DIR: what is under way here, without out/
mini_repository() {
	mkdir -p "$1"
	(cd "$ROOT" && tar -c --exclude=./out --exclude=./.git .) | tar -x -C "$1"
}

# in_mini DIR SCRIPT [ARGUMENT...]: runs a script of that copy
in_mini() {
	_dir=$1 _script=$2
	shift 2
	KSRC=$mini KREF=HEAD "$_dir/scripts/$_script.sh" "$@"
}

# fails_with STATUS PATTERN COMMAND...: it stops with one line that says so
fails_with() {
	_want=$1 _pattern=$2 _got=0
	shift 2
	"$@" > "$tmp/said" 2>&1 || _got=$?
	cat "$tmp/said"
	[ "$_got" -eq "$_want" ]
	[ "$(wc -l < "$tmp/said")" -eq 1 ]
	grep -qE -e "$_pattern" "$tmp/said"
}
