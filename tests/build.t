#!/bin/sh
#
# The kernel builds after every patch, without a warning.
#
# What:   commit after commit of the series, in one build folder that begins as a
#         copy of before's; before and after themselves are built already.
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
assembled
[ -f "$(folder before)/stamp" ] || skip_all "no kernels yet: 'make build'"

at_exit "rm -rf '$(folder each)'"
git_ -C "$GITDIR" log --reverse --format='%h %s' refs/tags/base.."$tip" > "$tmp/commits"
while read -r commit subject; do
	id=$(git_ -C "$GITDIR" rev-parse "$commit")
	if grep -qs "^$id" "$(folder before)/stamp" "$(folder after)/stamp"; then
		ok "builds: $subject" true
	else
		ok "builds: $subject" "$ROOT/scripts/build.sh" -k each "$commit"
	fi
done < "$tmp/commits"
done_testing
