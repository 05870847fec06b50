#!/bin/sh
#
# The Debian packages of the patched kernel hold a kernel that boots.
#
# What:   make deb with the small configuration; the image package unpacked, as
#         dpkg would do it, and its kernel booted in the guest.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled

deb=$W/deb
ok "packages are built" "$ROOT/scripts/deb.sh"
for package in linux-image linux-headers linux-libc-dev; do
	ok "there is one $package" test "$(find "$deb/packages" -name "$package*.deb" | wc -l)" -eq 1
done
image=$(find "$deb/packages" -name 'linux-image-*.deb')
name=$(dpkg-deb -f "$image" Package)
release=${name#linux-image-}
ok "for this machine's architecture" test "$(dpkg-deb -f "$image" Architecture)" = "$(dpkg --print-architecture)"

# A repository of its own, whose kernel is the one in the package
root=$deb/root
at_exit "rm -rf '$root'"
unpack() {
	rm -rf "$root"
	mkdir -p "$root/unpacked"
	dpkg-deb -x "$image" "$root/unpacked"
	for file in boot/vmlinuz- boot/config- boot/System.map- lib/modules/; do
		ls -d "$root/unpacked/$file$release"
	done
}
ok "the image has kernel, configuration, symbols and modules" unpack
boot() {
	cp -r "$ROOT/scripts" "$ROOT/patches" "$ROOT/lists" "$ROOT/Makefile" "$root"
	kernel=$root${W#"$ROOT"}/build/$(echo "$CONFIG $ARCH" | tr ' ' +)/after/arch/x86/boot
	mkdir -p "$kernel"
	cp "$root/unpacked/boot/vmlinuz-$release" "$kernel/bzImage"
	"$root/scripts/boot.sh" -k after -t 120 uname -r > "$tmp/uname"
	echo "$release" | diff "$tmp/uname" -
}
ok "its kernel boots" boot
done_testing
