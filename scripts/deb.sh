#!/bin/sh
#
# Builds Debian packages of the patched kernel, to install.
#
# What:   out/BASE/deb/packages/*.deb, by the kernel's own bindeb-pkg: image, headers and
#         linux-libc-dev for the machine's architecture, as 6.12.y-after.
# Config: the fragments of configs/ that CONFIG names: the small kernel that the
#         guest runs, which has no drivers for a real machine. Or a file: CONFIG
#         with a slash in it, as CONFIG=/boot/config-$(uname -r); that takes
#         hours and 30 GB.
# Usage:  make deb [CONFIG="FRAGMENT ..." or CONFIG=FILE]
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see deb.sh -h" ;;
esac
need dpkg-buildpackage dpkg-dev
need dh_builddeb debhelper

VERSION=''
[ -f "$W/tree.stamp" ] || die "no tree yet: 'make tree'"
# shellcheck source=/dev/null
. "$W/base"
deb=$W/deb
rm -rf "$deb/packages"
mkdir -p "$deb/packages"
case $CONFIG in
*/*)
	[ -f "$CONFIG" ] || misuse "CONFIG=$CONFIG is no file"
	room 30 "a kernel with the configuration of a distribution"
	o=$deb/build
	checkout refs/tags/after
	mkdir -p "$o"
	cp "$CONFIG" "$o/.config"
	kmake "$o" olddefconfig > "$deb/log" ;;
*)
	# in its folder, so that what is compiled already is not again
	"$ROOT/scripts/build.sh" -k after
	checkout refs/tags/after
	o=$(folder after) ;;
esac

# It leaves the packages beside its folder.
say "packing Linux $VERSION-after"
kmake "$o" LOCALVERSION=-after KDEB_PKGVERSION="$VERSION-1" KDEB_CHANGELOG_DIST=unstable \
	DPKG_FLAGS=-d bindeb-pkg > "$deb/log" 2>&1 || {
	tail -n 20 "$deb/log" >&2
	die "bindeb-pkg failed: see above, all of it is in $deb/log"
}
rm -r "$o/debian" "${o%/*}"/*.buildinfo "${o%/*}"/*.changes
mv "${o%/*}"/*.deb "$deb/packages"
for package in "$deb"/packages/*.deb; do
	echo "${package#"$ROOT/"}"
done
