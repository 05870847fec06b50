#!/bin/sh
#
# What a user does wrong, or the machine lacks, ends in one line that says what is
# wrong and what to do.
#
# Checks: base, tree and configuration that are not as they must be; nothing is
#         left behind, and nothing is written into the user's tree.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/lib/mini.sh
. "$(dirname "$0")/lib/mini.sh"
unset BASEVER

mini=$tmp/kernel
mini_kernel "$mini"
a=$tmp/a
mini_repository "$a"

# KSRC
fetch() { KSRC=$1 KREF=${2-HEAD} "$a/scripts/fetch.sh"; }
mkdir "$tmp/empty"
cp -R "$mini" "$tmp/nogit"
rm -rf "$tmp/nogit/.git"
variant() { # DIR SED-SCRIPT: the small kernel with another Makefile
	cp -R "$mini" "$tmp/$1"
	sed -i "$2" "$tmp/$1/Makefile"
	git_ -C "$tmp/$1" -c user.name=x -c user.email=x@localhost commit -qam x
}
variant newer 's/^PATCHLEVEL = .*/PATCHLEVEL = 99/'
variant none '/^VERSION = /d'
ok "KSRC that is not there" fails_with 1 'is no directory' fetch "$tmp/nowhere"
ok "KSRC that is no kernel" fails_with 1 'no kernel source' fetch "$tmp/empty"
ok "KSRC that is no git tree" fails_with 1 'not the top of a git tree' fetch "$tmp/nogit"
ok "KSRC without a version" fails_with 1 'no version' fetch "$tmp/none"
ok "KSRC of a version without patches" fails_with 1 'there is no patches/6\.99' fetch "$tmp/newer"
ok "KREF that is no commit" fails_with 1 'KREF=nothing is no commit' fetch "$mini" nothing
ok "BASE without patches" fails_with 2 'no directory patches/9\.9' env BASE=9.9 "$a/scripts/fetch.sh"

# A machine that lacks something: PATH has only what is named
lacking() {
	lack=$1
	shift
	rm -rf "${tmp:?}/bin"
	mkdir "$tmp/bin"
	for dir in /usr/sbin /usr/bin /sbin /bin; do
		find "$dir/" -maxdepth 1 ! -type d ! -name "$lack" -exec ln -sf -t "$tmp/bin" {} +
	done
	PATH=$tmp/bin "$@"
}
ok "no apt and no KSRC" fails_with 1 'no apt.*KSRC' lacking 'apt-get' "$a/scripts/fetch.sh"
ok "no git" fails_with 1 'git is missing.*package git' lacking git "$a/scripts/fetch.sh"

full() { # a df that knows of 1 GB
	mkdir "$tmp/df"
	printf '#!/bin/sh\necho h\necho x 1 1 1048576 1 y\n' > "$tmp/df/df"
	chmod +x "$tmp/df/df"
	PATH=$tmp/df:$PATH fetch "$mini"
}
ok "too little disk" fails_with 1 'needs [0-9]+ GB.*has 1 GB' full

# The tree
ok "no base" fails_with 1 "make fetch" in_mini "$a" tree
in_mini "$a" fetch
patch=$a/patches/$BASE/$(series | awk 'NR == 2 { print $1 "/" $2 }')
file=$(sed -n 's|^--- a/||p' "$patch" | head -n 1)
version=$(sed -n 's/^VERSION=//p' "$a/out/$BASE/base")

refused() { # a patch whose context is not that of the base
	sed -i 's/^ .*[a-z].*/&XX/' "$patch"
	fails_with 1 "${patch##*/} does not apply to .*$file.* of Linux $version" in_mini "$a" tree
	[ ! -e "$a/out/$BASE/tree" ]
	[ ! -e "$a/out/$BASE/assembling" ]
	[ -z "$(git_ -C "$a/out/$BASE/git" tag)" ]
}
ok "a patch that does not apply" refused

fuzzy() { # one line of the context of one hunk: patch(1) would take it
	cp "$ROOT/${patch#"$a/"}" "$patch"
	awk '/^@@/ { hunk++ } hunk == 1 && /^ / && !done { $0 = $0 "XX"; done = 1 } { print }' \
		"$patch" > "$tmp/patch"
	cp "$tmp/patch" "$patch"
	fails_with 1 "${patch##*/} does not apply to $file" in_mini "$a" tree
}
ok "a patch that applies only with fuzz" fuzzy

kept() { # what was assembled before stays
	cp "$ROOT/${patch#"$a/"}" "$patch"
	in_mini "$a" tree
	was=$(git_ -C "$a/out/$BASE/tree" rev-parse HEAD)
	cp "$tmp/patch" "$patch"
	fails_with 1 'does not apply' in_mini "$a" tree
	cp "$ROOT/${patch#"$a/"}" "$patch"
	[ "$(git_ -C "$a/out/$BASE/tree" rev-parse HEAD)" = "$was" ]
	in_mini "$a" tree
}
ok "a patch that does not apply leaves the tree there was" kept

empty() {
	cp "$patch" "$tmp/patch"
	echo nonsense > "$patch"
	fails_with 1 'is no patch' in_mini "$a" tree
	cp "$tmp/patch" "$patch"
}
ok "a file that is no patch" empty

not_there() {
	echo 0099-none.patch >> "$a/patches/$BASE/series"
	fails_with 1 '0099-none.patch, which is not there' in_mini "$a" tree
	cp "$PATCHES/series" "$a/patches/$BASE/series"
}
ok "a patch that the series names and is not there" not_there

not_new() {
	sed -i "/^0001/{s|\$| $file|;:a;n;ba}" "$a/patches/$BASE/series"
	mkdir -p "$a/${file%/*}"
	echo > "$a/$file"
	fails_with 1 "$file of .* is not new" in_mini "$a" tree
	rm "$a/$file"
	cp "$PATCHES/series" "$a/patches/$BASE/series"
}
ok "a new file that the kernel has" not_new

untouched() {
	git_ -C "$mini" status --porcelain
	[ -z "$(git_ -C "$mini" status --porcelain)" ]
	[ "$(git_ -C "$mini" for-each-ref | wc -l)" -eq 1 ]
	[ "$(git_ -C "$mini" count-objects | cut -d' ' -f1)" -eq "$objects" ]
}
objects=$(git_ -C "$mini" count-objects | cut -d' ' -f1)
in_mini "$a" tree
ok "nothing is written into KSRC" untouched

kinds() {
	git_ clone -q --bare "$mini" "$tmp/bare"
	git_ -C "$mini" worktree add -q --detach "$tmp/worktree"
	git_ -C "$tmp/bare" -c user.name=x -c user.email=x@localhost \
		update-ref HEAD "$(git_ -C "$tmp/bare" -c user.name=x -c user.email=x@localhost \
			commit-tree -p HEAD -m second 'HEAD^{tree}')"
	git_ clone -q --depth 1 "file://$tmp/bare" "$tmp/shallow"
	for kind in bare worktree shallow; do
		rm -rf "$a/out"
		KSRC=$tmp/$kind "$a/scripts/fetch.sh"
		"$a/scripts/tree.sh"
		git_ -C "$a/out/$BASE/tree" log --format=%h%x20%s | sed -n '$p'
		git_ -C "$a/out/$BASE/tree" fsck --no-dangling
	done
}
ok "KSRC that is bare, a work tree, shallow" kinds

# The configuration, with this repository's own kernel tree
if [ -d "$SRC" ]; then
	rm -rf "$a/out/$BASE"
	mkdir "$a/out/$BASE"
	git_ clone -q --mirror --shared "$GITDIR" "$a/out/$BASE/git"
	ln -s "$SRC" "$a/out/$BASE/src"
	cp "$W/tree.stamp" "$a/out/$BASE"
	printf 'CONFIG_USERFAULTFD=y\n' > "$a/configs/wrong.config"
	printf 'CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON=y\n' >> "$a/configs/wrong.config"
	lost() { fails_with 1 'CONFIG_HUGETLB_PAGE_OPTIMIZE_VMEMMAP_DEFAULT_ON' "$a/scripts/build.sh" -c 'boot wrong' -k before; }
	ok "an option that does not take" lost
	ok "a fragment that is not there" fails_with 2 'no configs/none.config' "$a/scripts/build.sh" -c 'boot none' -k before
else
	skip "an option that does not take" "no kernel was built here yet"
fi
for script in "$ROOT"/scripts/*.sh; do
	case ${script##*/} in
	lib.sh | guest-*) continue ;;
	esac
	ok "${script##*/} -h says what it is" sh -c "$script -h | grep -q '[a-z]'"
	ok "${script##*/} refuses what it does not know" fails_with 2 . "$script" --nonsense
done
done_testing
