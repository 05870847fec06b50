#!/bin/sh
#
# Gets the base: the kernel source that the series is applied to.
#
# What:   by default the Debian package that patches/BASE/base names, with apt,
#         into out/dl: not installed, and from the mirror that the machine's own
#         apt uses. With KSRC the commit KREF of an existing kernel git tree, in
#         which nothing is written. What was chosen stands in out/BASE/base.
# Why:    apt checks the archive's signature; the checksums in patches/BASE/base
#         say that it is the very file that the series was tested on.
# Takes:  BASEVER when it is given, else the first tested version that the
#         archive still has, else the newest one, and says that it is untested.
# Usage:  fetch.sh [-n]	-n: only download, and print the package's path
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
only=
while getopts :hn opt; do
	case $opt in
	h) usage ;;
	n) only=y ;;
	*) misuse "see fetch.sh -h" ;;
	esac
done

# Writes out/BASE/base from stdin; leaves it alone when nothing changed.
choose() {
	mkdir -p "$W"
	cat > "$W/base.new"
	if cmp -s "$W/base.new" "$W/base"; then rm "$W/base.new"; else mv "$W/base.new" "$W/base"; fi
}

need git git
[ -d "$TREE" ] || [ -n "$only" ] || room 7 "a source tree with two kernels built from it"

if [ -n "$KSRC" ] && [ -z "$only" ]; then
	[ -d "$KSRC" ] || die "KSRC=$KSRC is no directory"
	KSRC=$(cd "$KSRC" && pwd -P)
	[ -f "$KSRC/Kbuild" ] || [ -f "$KSRC/HEAD" ] || [ -f "$KSRC/.git/HEAD" ] ||
		die "KSRC=$KSRC is no kernel source: it has no Kbuild"
	[ "$(git -C "$KSRC" rev-parse --show-cdup 2>&1)" = "" ] ||
		die "KSRC=$KSRC is not the top of a git tree: 'git init && git add -A && git commit' there, or leave KSRC out"
	commit=$(git -C "$KSRC" rev-parse -q --verify "$KREF^{commit}") ||
		die "KREF=$KREF is no commit of $KSRC"
	version=$(git -C "$KSRC" cat-file -p "$commit:Makefile" 2>/dev/null |
		sed -n 's/^\(VERSION\|PATCHLEVEL\|SUBLEVEL\) = //p' | paste -sd.)
	case $version in
	*.*.*) ;;
	*) die "KSRC=$KSRC at $KREF is no kernel source: no version in its Makefile" ;;
	esac
	[ -d "$ROOT/patches/${version%.*}" ] ||
		die "KSRC=$KSRC is Linux $version, and there is no patches/${version%.*}: use KREF= of a $BASE kernel"
	[ "${version%.*}" = "$BASE" ] ||
		die "KSRC=$KSRC is Linux $version: use BASE=${version%.*} for it"
	choose <<-EOF
	VERSION=$version
	KSRC='$KSRC'
	COMMIT=$commit
	EOF
	exit 0
fi

# shellcheck source=patches/6.12/base
. "$PATCHES/base"
command -v apt-get >/dev/null ||
	die "no apt here to get $PACKAGE: give a kernel git tree with KSRC=DIR"
need dpkg-deb dpkg
need xz xz-utils

offered() { apt-cache madison "$PACKAGE" 2>/dev/null | awk '{ print $3 }'; }
update() {
	if [ "$(id -u)" -eq 0 ]; then apt-get -q update >&2; else sudo apt-get -q update >&2; fi ||
		die "apt-get update failed: see its message above"
}

versions=$(offered)
if [ -z "$versions" ]; then
	update
	versions=$(offered)
	[ -n "$versions" ] || die "apt knows no $PACKAGE: is this Debian 12 or newer? Else give KSRC=DIR"
fi
version=$BASEVER
if [ -z "$version" ]; then
	for tested in $TESTED; do
		for offer in $versions; do
			[ -n "$version" ] || [ "$offer" != "$tested" ] || version=$tested
		done
	done
fi
[ -n "$version" ] || version=$(echo "$versions" | head -n 1)
case " $TESTED " in
*" $version "*) ;;
*) [ -n "$only" ] || say "$PACKAGE $version is untested: tested are $TESTED" ;;
esac

deb=$OUT/dl/${PACKAGE}_${version}_all.deb
right() {
	sum=$(printf '%s' "$SHA256" | awk -v file="${deb##*/}" '$2 == file { print $1 }')
	[ -z "$sum" ] || echo "$sum  $deb" | sha256sum --status -c
}
if [ ! -f "$deb" ]; then
	say "downloading $PACKAGE $version"
	mkdir -p "$OUT/dl/new"
	download() {
		(cd "$OUT/dl/new" && apt-get -q -o APT::Sandbox::User= download "$PACKAGE=$version") >&2
	}
	download || { update; download; } ||
		die "apt could not download $PACKAGE $version: the archive has $(echo "$versions" | paste -sd' ')"
	mv "$OUT/dl/new/${deb##*/}" "$deb"
	rmdir "$OUT/dl/new"
	right || { rm "$deb"; die "${deb##*/} is not the file that was tested: wrong SHA256 against patches/$BASE/base"; }
fi
if [ -n "$only" ]; then
	echo "$deb"
	exit 0
fi
choose <<-EOF
VERSION=${version%%-*}
PACKAGE=$PACKAGE
DEBVERSION='$version'
DEB='$deb'
EOF
