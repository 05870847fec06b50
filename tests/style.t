#!/bin/sh
#
# What is this repository's own is clean: scripts under shellcheck, C programs
# under the kernel's checkpatch.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

(cd "$ROOT" && git ls-files) > "$tmp/files"
while read -r file; do
	[ ! -f "$ROOT/$file" ] || ! head -n 1 "$ROOT/$file" | grep -qx '#!/bin/sh' || echo "$file"
done < "$tmp/files" > "$tmp/sh"

shell() { (cd "$ROOT" && xargs shellcheck -x < "$tmp/sh"); }
ok "shellcheck: $(wc -l < "$tmp/sh") scripts" shell

safe() { (cd "$ROOT" && ! xargs grep -L '^set -eu' < "$tmp/sh" | grep -v '^scripts/guest-'); }
ok "scripts stop at what fails: set -eu" safe

says() { (cd "$ROOT" && grep '^scripts/' "$tmp/sh" | xargs awk 'FNR == 3 && !/^# ./ { print FILENAME; bad = 1 } END { exit bad }'); }
ok "scripts open with what they are for" says

if [ -d "$TREE" ]; then
	grep '^bench/.*\.[ch]$' "$tmp/files" > "$tmp/c"
	while read -r file; do
		ok "checkpatch --strict: $file" \
			"$TREE/scripts/checkpatch.pl" --no-tree --strict --terse --no-summary --file "$ROOT/$file"
	done < "$tmp/c"
else
	skip "checkpatch" "no out/$BASE/tree yet: 'make tree'"
fi
done_testing
