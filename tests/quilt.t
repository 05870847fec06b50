#!/bin/sh
#
# The patches for quilt apply to the source of the Debian package.
#
# What:   the files that the patches touch are taken from the package itself; all
#         patches are pushed by quilt without fuzz, and what comes out is what
#         the assembled tree has, to the byte; then all are popped. Each patch
#         has the headers of DEP-3.
# Skips:  with KSRC, where there is no package.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled

DEB='' PACKAGE=''
# shellcheck source=/dev/null
. "$W/base"
[ -n "$DEB" ] || skip_all "the base is a git tree, no package"

ok "make quilt writes patches" "$ROOT/scripts/quilt.sh"
export QUILT_PATCHES="$W/quilt/debian/patches" QUILT_PC="$tmp/pc" HOME="$tmp" LC_ALL=C.UTF-8
ok "one for each of the series" test "$(wc -l < "$QUILT_PATCHES/series")" -eq "$(series | wc -l)"

# DEP-3: fields from the first line on, their later lines indented, to ---
dep3() {
	while read -r patch; do
		sed '/^---$/q' "$QUILT_PATCHES/$patch" > "$tmp/header"
		for field in Description Author Forwarded Last-Update; do
			[ "$(grep -c "^$field: [^ ]" "$tmp/header")" -eq 1 ] || { echo "$patch: no $field"; return 1; }
		done
		! grep -nv '^\([A-Z][A-Za-z-]*: [^ ]\|  *[^ ]\|---$\)' "$tmp/header" || { echo "$patch: no field"; return 1; }
	done < "$QUILT_PATCHES/series"
}
ok "each has the headers of DEP-3" dep3

# The package's own tree, as far as the patches touch it
git_ -C "$GITDIR" diff --no-renames --name-only base "$tip" > "$tmp/files"
git_ -C "$GITDIR" diff --no-renames --name-only --diff-filter=a base "$tip" > "$tmp/files.there"
linux=$tmp/$PACKAGE
unpack() {
	sed "s|^|$PACKAGE/|" "$tmp/files.there" > "$tmp/list"
	dpkg-deb --fsys-tarfile "$DEB" | tar -xO "./usr/src/$PACKAGE.tar.xz" |
		tar -xJ -C "$tmp" -T "$tmp/list"
	cp -r "$linux" "$tmp/unpacked"
}
ok "the package has the files that the patches change" unpack
push() { cd "$linux" && quilt push -a --fuzz=0; }
ok "quilt push -a, without fuzz" push
same() {
	while read -r file; do
		git_ -C "$GITDIR" show "$tip:$file" | cmp - "$linux/$file"
	done < "$tmp/files"
	test "$(find "$linux" -type f | wc -l)" -eq "$(wc -l < "$tmp/files")"
}
ok "the files are those of the assembled tree" same
pop() {
	cd "$linux"
	quilt pop -a
	find . -type d -empty -delete
	diff -r "$tmp/unpacked" .
}
ok "quilt pop -a gives back what was there" pop
done_testing
