#!/bin/sh
#
# Writes the series for quilt, as a Debian source package has it.
#
# What:   out/BASE/quilt/debian/patches: a patch for each commit of the
#         assembled tree, new files and all, with DEP-3 headers, and `series`
#         with their order. Made anew each time.
# Why:    for those who build Debian's own kernel package, or have a kernel
#         without git, such as an unpacked linux-source.
# Use:    in an unpacked linux-source:
#             export QUILT_PATCHES=HERE/out/6.12/quilt/debian/patches
#             quilt push -a --fuzz=0
#         in the kernel's source package: copy the topics' directories into its
#         debian/patches, and the lines of `series` to the end of the one there.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see quilt.sh -h" ;;
esac
assembled

dir=$W/quilt
tmp=$dir.new
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
rm -rf "$tmp"
mkdir -p "$tmp/debian/patches"

# dep3 COMMIT: the header. What follows the first line of a field is indented,
# and an empty line of it is a dot.
dep3() {
	git_ -C "$TREE" log -1 --format=%B "$1" | sed '1s/^/Description: /; 2d; 3,$ { s/^$/./; s/^/ / }; ${/^ \.$/d}'
	git_ -C "$TREE" log -1 --date=short --format='Author: %an <%ae>%nForwarded: no%nLast-Update: %ad%n---' "$1"
}

series > "$tmp/lines"
git_ -C "$TREE" rev-list --reverse base.."$tip" | paste -d' ' - "$tmp/lines" > "$tmp/commits"
while read -r commit topic patch _; do
	mkdir -p "$tmp/debian/patches/$topic"
	{
		dep3 "$commit"
		git_ -C "$TREE" diff-tree -p --abbrev=12 --no-renames "$commit^" "$commit"
	} > "$tmp/debian/patches/$topic/$patch"
	echo "$topic/$patch" >> "$tmp/debian/patches/series"
done < "$tmp/commits"
rm "$tmp/lines" "$tmp/commits"

rm -rf "$dir"
mv "$tmp" "$dir"
echo "out/$BASE/quilt/debian/patches: $(wc -l < "$dir/debian/patches/series") patches"
