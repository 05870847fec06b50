#!/bin/sh
#
# Installs the Debian packages that are missing.
#
# What:   the packages that scripts/deps.txt lists, with apt; through sudo when
#         the caller is not root. Nothing is asked of the archive when all of
#         them are there. With -a also those that only make check-all needs.
# Checks: that each is installed afterwards.
# Stops:  where there is no apt: then they are the user's to install.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
skip=check-all:
case ${1-} in
-h) usage ;;
-a) skip= ;;
?*) misuse "see deps.sh -h" ;;
esac

# shellcheck disable=SC2016 # the format is dpkg-query's
missing() {
	sed 's/#.*//; /^$/d' "$ROOT/scripts/deps.txt" | while read -r package purpose _; do
		[ -z "$skip" ] || [ "$purpose" != "$skip" ] || continue
		case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) in
		installed) ;;
		*) printf ' %s' "$package" ;;
		esac
	done
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	say "no apt here: taking it that what scripts/deps.txt lists is installed"
	exit 0
fi
packages=$(missing)
[ -n "$packages" ] || exit 0

say "installing$packages"
if [ "$(id -u)" -eq 0 ]; then
	root=
else
	command -v sudo >/dev/null || die "not root and no sudo: install$packages, or run this as root"
	root=sudo
fi
install() {
	# shellcheck disable=SC2086 # a list of packages
	$root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $packages >&2
}
install || { $root apt-get -q update >&2 && install; } ||
	die "apt could not install$packages: see its message above"
packages=$(missing)
[ -z "$packages" ] || die "still missing:$packages"
