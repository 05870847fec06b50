#!/bin/sh
#
# Each patch compiles without a warning in kernels that are unlike the usual one.
#
# What:   after every patch, the objects that it touches: on x86 with each of the
#         options off that the touched code asks for; with clang; for 32-bit x86
#         and, with Debian's cross compilers, for other architectures.
# Why:    the whole kernel after every patch is compiled by tests/build.t, in one
#         configuration.
# Skips:  a compiler that is not installed.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled

git_ -C "$GITDIR" rev-list --reverse base.."$tip" > "$tmp/commits"
ccache=
! command -v ccache > /dev/null || ccache='ccache '

# make_ ARGUMENT...: for the variant that is set up
make_() { kmake "$o" -s ARCH="$arch" CROSS_COMPILE="$cross" CC="$ccache$cc" "$@" < /dev/null; }

# compiled OBJECT: is it part of this kernel? Its directory's Makefile says so.
compiled() {
	make -s -C "$SRC" -f - what="$1" dir="${1%/*}" config="$o/include/config/auto.conf" <<-'END'
	include $(config)
	include $(dir)/Makefile
	objects := $(obj-y) $(obj-m)
	objects += $(foreach object,$(objects),$($(object:.o=-y)) $($(object:.o=-objs)))
	all: ; @$(if $(filter $(notdir $(what)),$(objects)),true,false)
	END
}

# each_patch: compiles, commit by commit, what the commit touches
each_patch() {
	while read -r commit; do
		checkout "$commit"
		git_ -C "$GITDIR" diff-tree -r --name-only --diff-filter=d "$commit^" "$commit" |
			sed -n '/^tools\//d; s/\.c$/.o/p' > "$tmp/touched"
		objects=
		while read -r object; do
			! compiled "$object" 2> /dev/null || objects="$objects $object"
		done < "$tmp/touched"
		[ -n "$objects" ] || continue
		# shellcheck disable=SC2086 # a list of objects
		make_ prepare $objects > "$tmp/made" 2>&1 || { cat "$tmp/made"; git_ -C "$GITDIR" log -1 --format=%s "$commit"; return 1; }
		[ ! -s "$tmp/made" ] || { cat "$tmp/made"; git_ -C "$GITDIR" log -1 --format=%s "$commit"; return 1; }
		objects_made=$((objects_made + $(echo "$objects" | wc -w)))
	done < "$tmp/commits"
	echo "$objects_made objects"
	[ "$objects_made" -gt 0 ]
}
objects_made=0

# x86, the default configuration with one option off
without() {
	checkout refs/tags/base
	mkdir -p "$o"
	cp "$(folder after)/.config" "$o"
	"$SRC/scripts/config" --file "$o/.config" -d "$1"
	make_ olddefconfig
	if grep "^CONFIG_$1=" "$o/.config"; then return 1; fi
	make_ prepare > "$tmp/made" 2>&1 || { cat "$tmp/made"; return 1; }
	each_patch
}
# Another compiler or architecture: its default configuration, and of the tests'
# fragment what there is of it
other() {
	checkout refs/tags/base
	mkdir -p "$o"
	make_ "$1"
	(cd "$SRC" && scripts/kconfig/merge_config.sh -m -Q -O "$o" "$o/.config" "$ROOT/configs/ksft.config") > "$tmp/made"
	make_ olddefconfig
	make_ prepare > "$tmp/made" 2>&1 || { cat "$tmp/made"; return 1; }
	each_patch
}

if [ -f "$(folder after)/.config" ]; then
	arch=$ARCH cross='' cc=gcc o=$W/build/variants/x86
	for option in MEMORY_FAILURE USERFAULTFD HUGETLBFS TRANSPARENT_HUGEPAGE ADVISE_SYSCALLS KSM SWAP; do
		ok "without $option" without "$option"
	done
else
	skip "x86 with options off" "no kernels yet: 'make build'"
fi
while read -r name arch cross compiler config; do
	[ "$cross" != - ] || cross=''
	cc=$cross$compiler o=$W/build/variants/$name
	if command -v "$cc" > /dev/null; then
		ok "$name" other "$config"
	else
		skip "$name" "no $cc"
	fi
done <<END
clang x86 - clang defconfig
i386 i386 - gcc defconfig
arm64 arm64 aarch64-linux-gnu- gcc defconfig
riscv riscv riscv64-linux-gnu- gcc defconfig
s390 s390 s390x-linux-gnu- gcc defconfig
powerpc powerpc powerpc64le-linux-gnu- gcc ppc64le_defconfig
END
done_testing
