#!/bin/sh
#
# Sends the mail series that series.sh wrote, or shows to whom it would go.
#
# What:   for each mail of out/BASE/series/vV (made now if it is not there) its subject and the recipients
#         that the kernel's scripts/get_maintainer.pl gives: maintainers as To,
#         reviewers and lists as Cc. The cover letter goes to all of them.
#         With SEND=yes the mails are then sent by the sender's own git
#         send-email configuration, after a question; what that configuration
#         adds (sendemail.to, cc, bcc) is added there.
# Checks: nothing is sent twice.
# Usage:  make send [V=1] [SEND=yes]
#         send.sh -t MAIL, send.sh -c MAIL: only print who is To, or Cc
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# recipients to|cc MAIL: an address a line
recipients() {
	case $1 in
	to) set -- "$2" --no-r --no-l ;;
	cc) set -- "$2" --no-m ;;
	esac
	mail=$1
	shift
	case $mail in
	*-0000-cover-letter.patch)
		for each in "${mail%/*}"/*.patch; do
			[ "$each" = "$mail" ] || maintainers "$@" "$each"
		done ;;
	*) maintainers "$@" "$mail" ;;
	esac | sort -u
}

# The tree has no history that says who knows a file.
maintainers() {
	(cd "$TREE" && scripts/get_maintainer.pl --norolestats --nogit --nogit-fallback --nofixes "$@")
}

[ -f "$W/tree.stamp" ] || die "no out/$BASE/tree yet: 'make tree'"
case ${1-} in
-h) usage ;;
-t) recipients to "$2"; exit 0 ;;
-c) recipients cc "$2"; exit 0 ;;
?*) misuse "see send.sh -h" ;;
esac

dir=$W/series/v$V
[ -d "$dir" ] || "$ROOT/scripts/series.sh" > /dev/null
[ ! -f "$dir/sent" ] || die "v$V was sent on $(cat "$dir/sent"): take V=$((V + 1))"
for mail in "$dir"/*.patch; do
	git mailinfo -k /dev/null /dev/null < "$mail" | sed -n 's/^Subject: //p'
	recipients to "$mail" | sed 's/^/    To: /'
	recipients cc "$mail" | sed 's/^/    Cc: /'
done
if [ "$SEND" != yes ]; then
	echo "Nothing is sent: SEND=yes sends it."
	exit 0
fi

[ -x "$(git --exec-path)/git-send-email" ] || die "git send-email is missing: 'make deps', or install the package git-email"
set -- "$dir"/*.patch
printf 'Send these %s mails? [y/N] ' $#
answer=
read -r answer || :
case $answer in
y | yes) ;;
*) die "nothing is sent: the answer was not y" ;;
esac
git -C "$ROOT" send-email --quiet --confirm=never --to-cmd="'$ROOT/scripts/send.sh' -t" \
	--cc-cmd="'$ROOT/scripts/send.sh' -c" "$@" ||
	die "git send-email failed: see its message above"
date -u +%Y-%m-%d > "$dir/sent"
say "v$V is sent; keep its mails, the next version is compared with them: out/$BASE/series/v$V"
