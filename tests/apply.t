#!/bin/sh
#
# The series applies to every version of the base that the archive has: to the
# oldest and the newest, without fuzz. The mutants apply on top of it.
#
# What:   the files that the series touches, out of the packages of those two
#         versions, and git apply, patch after patch.
# Skips:  without apt.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
command -v apt-get > /dev/null || skip_all "no apt here to ask for versions"

# shellcheck source=patches/6.12/base
. "$PATCHES/base"
versions=$(apt-cache madison "$PACKAGE" | awk '{ print $3 }' | sort -uV | sed -n '1p;$p' | uniq)
series > "$tmp/series"
while read -r topic patch _; do
	sed -n 's|^--- a/||p' "$PATCHES/$topic/$patch"
done < "$tmp/series" | sort -u > "$tmp/touched"

applies() {
	deb=$(BASEVER=$1 "$ROOT/scripts/fetch.sh" -n)
	dir=$tmp/$1
	mkdir "$dir"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/$PACKAGE.tar.xz" |
		tar -xJ --strip-components=1 -C "$dir" --no-anchored -T "$tmp/names"
	cd "$dir"
	while read -r topic patch _; do
		GIT_CEILING_DIRECTORIES=$tmp git_ apply --allow-empty --whitespace=nowarn "$PATCHES/$topic/$patch" ||
			{ echo "patches/$BASE/$topic/$patch does not apply to $1"; return 1; }
	done < "$tmp/series"
}
sed "s|^|$PACKAGE/|" "$tmp/touched" > "$tmp/names"
for version in $versions; do
	ok "applies to $PACKAGE $version" applies "$version"
done

mutants() {
	cd "$tmp/$version"
	for mutant in "$ROOT"/tests/mutants/*.patch; do
		GIT_CEILING_DIRECTORIES=$tmp git_ apply --check "$mutant" || { echo "$mutant does not apply"; return 1; }
	done
}
ok "the mutants apply to the newest" mutants
done_testing
