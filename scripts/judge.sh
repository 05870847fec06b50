#!/bin/sh
#
# Gets a second judge: a newer kernel's own tests of what the series brings.
#
# What:   downloads the source package of a newer kernel that patches/BASE/base
#         names (JUDGE, of the suite JUDGE_SUITE), and compiles the tests
#         JUDGE_TESTS of its mm selftests, unmodified and with its own headers,
#         into out/BASE/ksft/judge, from where ksft.sh runs them in the guest.
# How:    apt with a configuration of its own below out/: the mirror that the
#         machine uses for Debian, with that suite. The system is not touched.
# Skips:  what is there already; status 4 where the archive does not have the
#         package.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1-} in
-h) usage ;;
?*) misuse "see judge.sh -h" ;;
esac

JUDGE='' JUDGE_SUITE='' JUDGE_TESTS=''
# shellcheck source=patches/6.12/base
. "$PATCHES/base"
[ -n "$JUDGE" ] || { say "patches/$BASE/base names no JUDGE"; exit 4; }
have=y
for test in $JUDGE_TESTS; do
	[ -x "$KSFT/judge/$test" ] || have=
done
[ -z "$have" ] || exit 0

command -v apt-get > /dev/null || { say "no apt here to get $JUDGE"; exit 4; }
need rsync rsync
need xz xz-utils
room 1 "$JUDGE"
tmp=$KSFT/judge.new
rm -rf "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# shellcheck disable=SC2016 # the format is apt's
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "Debian" { print $2; exit }')
[ -n "$mirror" ] || { say "apt has no Debian mirror to get $JUDGE from"; exit 4; }
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/src"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $JUDGE_SUITE main" > "$tmp/sources.list"
apt() {
	apt-get -q -o Dir::Etc::SourceList="$tmp/sources.list" -o Dir::Etc::SourceParts=- \
		-o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User= "$@"
}
say "downloading $JUDGE of $JUDGE_SUITE"
if ! { apt update && cd "$tmp" && apt download "$JUDGE"; } > "$tmp/log" 2>&1; then
	say "the archive does not give $JUDGE of $JUDGE_SUITE: $(tail -n 1 "$tmp/log")"
	exit 4
fi
cd "$ROOT"

say "compiling $JUDGE_TESTS of $(cd "$tmp" && echo "$JUDGE"_*.deb)"
top=$JUDGE
dpkg-deb --fsys-tarfile "$tmp/$JUDGE"_*.deb | tar -xO "./usr/src/$JUDGE.tar.xz" |
	tar -xJ --strip-components=1 -C "$tmp/src" --wildcards "$top/Makefile" "$top/Kbuild" "$top/Kconfig" \
		"$top/scripts/*" "$top/include/*" "$top/arch/x86/*" "$top/tools/*" "$top/usr/include/*" "$top/mm/gup_test.h" ||
	die "cannot unpack $JUDGE"
mkdir "$tmp/judge"
targets=$(for test in $JUDGE_TESTS; do echo "$tmp/judge/$test"; done)
# shellcheck disable=SC2086 # a list of files
if ! {
	make -C "$tmp/src" -j"$JOBS" O="$tmp/o" headers &&
		make -C "$tmp/src/tools/testing/selftests/mm" -j"$JOBS" O="$tmp/o" OUTPUT="$tmp/judge" $targets
} > "$KSFT/judge.log" 2>&1; then
	die "$JUDGE_TESTS of $JUDGE do not compile: see $KSFT/judge.log"
fi
rm -rf "$KSFT/judge"
mv "$tmp/judge" "$KSFT/judge"
