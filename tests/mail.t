#!/bin/sh
#
# The series arrives by mail as it was made.
#
# What:   the series of all topics after the prerequisites is written, sent by
#         git send-email to an SMTP server on loopback, and what came is
#         applied by git am, and by b4 am from an mbox, on the kernel before:
#         each time to the same tree, to the byte. The same with patches of a
#         scratch repository that mail likes to break: lines that are long or
#         begin with From, text that is not ASCII or not even UTF-8, blanks at
#         the ends of lines.
# Why:    a mail that was changed on its way is no patch any more.
# Never:  leaves the machine: the recipients are those of the kernel, but the
#         only server that is asked is the one on loopback.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled

# A repository of its own that shares the assembled tree with this one, so that
# no series that somebody makes here is touched.
root=$tmp/root
w=$root/out/$BASE
mkdir -p "$w" "$tmp/home" "$tmp/mail"
cp -r "$ROOT/scripts" "$ROOT/patches" "$ROOT/Makefile" "$root"
if [ -d "$ROOT/results" ]; then cp -r "$ROOT/results" "$root"; fi
# the new files too: the tree is known by what it was assembled from
series | cut -d' ' -f3- | tr ' ' '\n' | (cd "$ROOT" && xargs -r cp --parents -t "$root")
cp "$W/base" "$W/tree.stamp" "$w"
ln -s "$GITDIR" "$TREE" "$w"

unset V PREV SEND
TOPIC=$(series | awk '$1 != "prerequisites" && !seen[$1]++ { print $1 }' | paste -sd' ')
export TOPIC
patches=$(series | awk '$1 != "prerequisites"' | wc -l)
prerequisites=$(series | awk '$1 == "prerequisites"' | wc -l)
mails=$((patches + 1))
made=$w/series/v1
came=$tmp/mail

# The sender has no configuration but this, and no server but this one.
export HOME="$tmp/home" XDG_CONFIG_HOME="$tmp/home" XDG_DATA_HOME="$tmp/home" XDG_CACHE_HOME="$tmp/home"
export GIT_CONFIG_NOSYSTEM=1
unset EMAIL GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL || :
make_series() { "$root/scripts/series.sh"; }
send() { "$root/scripts/send.sh"; }

# fails_naming TEXT COMMAND...: it fails, and what it says has the text
fails_naming() {
	_what=$1
	shift
	! "$@" > "$tmp/said" 2>&1 || return 1
	cat "$tmp/said"
	grep -q "$_what" "$tmp/said"
}

ok "without an identity: says what to set" fails_naming 'git config' make_series
git config --global user.name 'Jørgen Ægir Tester'
git config --global user.email tester@localhost.example
sob='Signed-off-by: Jørgen Ægir Tester <tester@localhost.example>'

# 1. The series as files
ok "the series is written" make_series
count() { [ "$(find "$1" -name "$2" | wc -l)" -eq "$3" ]; }
ok "a cover letter and $patches patches" count "$made" '*.patch' "$mails"
each_has() {
	for _mail in "$made"/*.patch; do
		case $_mail in
		*-0000-*) continue ;;
		esac
		git mailinfo -k "$tmp/msg" /dev/null < "$_mail" > "$tmp/info"
		cat "$tmp/info" "$tmp/msg" > "$tmp/both"
		grep -qF -- "$1" "$tmp/both" || { echo "$_mail: no $1"; return 1; }
	done
}
ok "each mail: subject with base, version and number" each_has "Subject: [PATCH $BASE.y v1 "
ok "each mail: the sender's sign-off" each_has "$sob"
cover=$(echo "$made"/*-0000-*)
ok "the cover names each prerequisite" test "$(grep -c '^prerequisite-patch-id: ' "$cover")" -eq "$prerequisites"
ok "the cover names the base" grep -Eq '^base(-commit)?: ' "$cover"
filled_in() { ! grep -n '\*\*\* \|^@' "$cover"; }
ok "nothing is left to fill in" filled_in

# 2. Sending
"$ROOT/tests/smtpd.py" "$came" & smtpd=$!
at_exit "kill $smtpd"
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ ! -f "$came/port" ] || break
	sleep 1
done
git config --global sendemail.smtpServer 127.0.0.1
git config --global sendemail.smtpServerPort "$(cat "$came/port")"

send > "$tmp/dry"
ok "a dry run shows each mail" test "$(grep -c '^\[PATCH' "$tmp/dry")" -eq "$mails"
ok "a dry run shows recipients for each" test "$(awk '/^\[/ { to = 1; next } to && /^ *To: .*@/ { n++; to = 0 } END { print n }' "$tmp/dry")" -eq "$mails"
send_with() { echo "$1" | SEND=yes send; }
ok "the answer no sends nothing" fails_naming 'nothing is sent' send_with n
ok "nothing came so far" count "$came" '0*' 0
ok "the answer yes sends" send_with y
ok "all mails came" count "$came" '0??[0-9]' "$mails"
to_all() {
	sort -u "$came"/0*.to > "$tmp/all"
	sort -u "$came/0001.to" | diff - "$tmp/all"
}
ok "the cover letter went to all" to_all
ok "what was sent is not sent again" fails_naming 'was sent' send_with y
ok "what was sent is not written again" fails_naming 'was sent' make_series

# 3. Applying, on a fresh base with the prerequisites. A clone without files: git
#    takes those that a patch touches from the commit.
git clone -q --shared --no-checkout "$GITDIR" "$tmp/clone"
applied() {
	git -C "$tmp/clone" checkout -q -f -B came before
	git -C "$tmp/clone" am -q --empty=drop "$@"
	test "$(git -C "$tmp/clone" rev-parse 'came^{tree}')" = "$(git -C "$tmp/clone" rev-parse "$tip^{tree}")"
}
git -C "$tmp/clone" sparse-checkout set --no-cone /MAINTAINERS
ok "git am of the mails gives the same tree" applied "$came"/0???
same_logs() {
	git -C "$tmp/clone" log --reverse --format='%an <%ae>%n%B' before.."$tip" > "$tmp/logs.want"
	git -C "$tmp/clone" log --reverse --format='%an <%ae>%n%B' before..came |
		grep -vxF "$sob" | diff "$tmp/logs.want" -
}
ok "and the same authors and logs" same_logs

for mail in "$came"/0???; do
	echo 'From mboxrd@z Thu Jan  1 00:00:00 1970'
	sed 's/^>*From />&/' "$mail"
	echo
done > "$tmp/mbox"
id=$(sed -n 's/^Message-I[dD]: <\(.*\)>$/\1/p' "$came/0001")
b4_() { (cd "$tmp/clone" && b4 --no-interactive --no-stdin "$@" < /dev/null); }
b4_am() { # ARGUMENT...
	rm -rf "$tmp/b4"
	mkdir "$tmp/b4"
	b4_ --offline-mode am -o "$tmp/b4" "$@"
	applied "$tmp/b4"/*.mbx
}
ok "b4 am from an mbox, offline, gives the same tree" b4_am -m "$tmp/mbox" "$id"
cat "$made"/*.patch > "$tmp/files"
ok "b4 am of the files as they are does, too" b4_am -m "$tmp/files"

# 4. The next version
next() {
	sed '/^Changes since v1:/,$d; /^First version\.$/d' "$ROOT/patches/$BASE/${TOPIC%% *}/cover" > "$root/patches/$BASE/${TOPIC%% *}/cover"
	printf 'Changes since v1:\n- none\n' >> "$root/patches/$BASE/${TOPIC%% *}/cover"
	make_series
}
V=2
export V
ok "v2 without its changes in the cover: says so" fails_naming 'Changes since v1' make_series
ok "v2 is written" next
ok "v2 has a range-diff against what was sent: all the same" \
	test "$(grep -c '^[0-9]*:  [0-9a-f]* = [0-9]*:  [0-9a-f]* ' "$w"/series/v2/*-0000-*)" -eq "$patches"

# 5. b4 in the tree, on a branch of the sender's, as the README says
b4_send() {
	git -C "$tmp/clone" checkout -q -b mine "$tip"
	b4_ prep -e before
	EDITOR="cp $made/cover" b4_ prep --edit-cover
	b4_ send --no-sign --to nobody@localhost.example -o "$tmp/b4.out"
	rm "$tmp"/b4.out/0000-*	# the cover letter
	applied "$tmp"/b4.out/*.eml
}
ok "b4 prep and b4 send -o: their mails give the same tree" b4_send

# 6. What mail likes to break
odd=$tmp/odd
git init -q "$odd"
{
	echo 'trailing blanks   '
	printf 'a tab at the end\t\n'
	echo
	echo 'From here to there'
	echo '>From here'
	echo 'From mboxrd@z Thu Jan  1 00:00:00 1970'
	echo 'grün, 日本語'
	printf 'latin-1: gr\374n\n'
	printf 'formfeed\f\n'
	echo '.'
	echo '..'
	head -c 3000 /dev/zero | tr '\0' x
	echo
	echo '-- '
	echo 'end'
} > "$odd/file"
git -C "$odd" add file
git -C "$odd" commit -q -m base
git -C "$odd" tag base
sed -i '3s/^/in the midst/' "$odd/file"
git -C "$odd" commit -q -a -m 'context: blanks at the ends of lines' \
	-m 'From the start of a line, and a log that is not ASCII: grün, 日本語.'
sed -i '/^formfeed/d; /^\.\./d; s/^>From/> From/; $s/$/ /' "$odd/file"
{ echo '.'; echo 'From that'; head -c 2000 /dev/zero | tr '\0' y; echo; printf 'no end of line'; } >> "$odd/file"
git -C "$odd" commit -q -a --author='Łukasz Ünder <l@localhost.example>' -m 'ändern: what is long, begins with a dot, or with From'
odd_arrive() {
	rm -f "$came"/0*
	git -C "$odd" format-patch -q -o "$tmp/odd.mails" base
	git send-email --quiet --confirm=never --to=nobody@localhost.example "$tmp"/odd.mails/*.patch
	git -C "$odd" checkout -q -b came base
	git -C "$odd" am -q --keep-cr "$came"/0???
	git -C "$odd" diff --exit-code master came
	test "$(git -C "$odd" log --format='%an%B' came)" = "$(git -C "$odd" log --format='%an%B' master)"
}
ok "long lines, From, not ASCII, not UTF-8, blanks at line ends survive" odd_arrive

done_testing
