#!/bin/sh
#
# scripts/boot.sh says truly what happened in the guest.
#
# Checks: output and status of a command; a guest that panics, hangs or ends
#         without a verdict is lost (128); a splat in the kernel's log fails; the
#         guest is what it is said to be; a shell works on a terminal; no guest
#         outlives its boot.sh.
# shellcheck disable=SC2016 # what is in single quotes, the guest expands
set -eu
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
boot() { "$ROOT/scripts/boot.sh" "$@"; }
[ -f "$(folder after)/stamp" ] || skip_all "no kernels yet: 'make build'"

output() {
	printf '%s\n' "one two" "it's" "err" > "$tmp/want"
	gives 7 boot -t 60 -o "$tmp/copy" 'echo "one  two" | tr -s " "; echo "it'\''s"; echo err >&2; exit 7' > "$tmp/got"
	grep -v '^status' "$tmp/got" | diff "$tmp/want" -
	diff "$tmp/want" "$tmp/copy"
}
ok "a command's output, errors included, and its status" output

words() {
	boot -t 60 printf '<%s>' "a b" "c'd" '$HOME' '' > "$tmp/got"
	[ "$(cat "$tmp/got")" = "<a b><c'd><\$HOME><>" ]
}
ok "a command's words arrive as they are" words

guest() {
	for kernel in before after; do
		boot -k $kernel -t 60 '
			set -ex
			case $(uname -r) in *-'$kernel') ;; *) exit 1 ;; esac
			[ "$KERNEL" = '$kernel' ]
			[ "$(pwd)" = "'"$ROOT"'" ]
			[ "$(nproc)" -ge 2 ]
			[ "$(id -u)" -eq 0 ]
			! touch README.md
			! touch /usr/x
			touch /tmp/x /dev/shm/x /run/x
			grep nr_tlb /proc/vmstat
			cat /sys/kernel/tracing/events/tlb/tlb_flush/id
			test -d /sys/kernel/debug/tracing
			mountpoint /dev/hugepages
			mountpoint /sys/fs/cgroup'
	done
}
ok "before and after: the kernel, two CPUs, / read-only, what tests need mounted" guest

ok "a panic: lost" gives 128 boot -t 60 'echo c > /proc/sysrq-trigger; sleep 60'
ok "the guest ends by itself, without a verdict: lost" gives 128 boot -t 60 'busybox reboot -f; sleep 60'
ok "out of time: lost" gives 128 boot -t 10 'sleep 100'
ok "QEMU does not start: lost" gives 128 env MEM=nonsense "$ROOT/scripts/boot.sh" -t 60 true
ok "a warning in the kernel's log: failed" gives 1 boot -t 60 'echo "WARNING: CPU: 0 PID: 1 at mm/x.c" > /dev/kmsg'
ok "a splat and a status: the status stays" gives 5 boot -t 60 'echo "BUG: x" > /dev/kmsg; exit 5'

allowed() { # by a copy of the repository whose list allows it
	mkdir -p "$tmp/copy.d/lists" "$tmp/copy.d/out" "$tmp/copy.d/patches/$BASE"
	cp -r "$ROOT/scripts" "$ROOT/Makefile" "$tmp/copy.d"
	ln -s "$W" "$tmp/copy.d/out/$BASE"
	printf '# PATTERN\tREASON\n^.*WARNING: planted [0-9]+$\ta test\n' > "$tmp/copy.d/lists/kernel-log.tsv"
	"$tmp/copy.d/scripts/boot.sh" -t 60 'echo "WARNING: planted 1" > /dev/kmsg'
	gives 1 "$tmp/copy.d/scripts/boot.sh" -t 60 'echo "WARNING: planted x" > /dev/kmsg'
}
ok "a line that lists/kernel-log.tsv allows: good; another: failed" allowed

gone() { # SIGNAL
	: > "$tmp/up"
	"$ROOT/scripts/boot.sh" -t 120 'echo up; sleep 100' > "$tmp/up" 2>&1 &
	script=$!
	echo "$W/guest/after.$script" >> "$tmp/left"
	for _ in $(seq 60); do
		if grep -q up "$tmp/up"; then break; fi
		sleep 1
	done
	grep -q up "$tmp/up"
	guests=$(pgrep -f "guest/after.$script/status" | sort)
	echo "guests: $guests"
	[ -n "$guests" ]
	kill "-$1" "$script"
	for _ in $(seq 20); do
		if ! pgrep -f "guest/after.$script/status"; then
			rm -rf "$W/guest/after.$script"
			return 0
		fi
		sleep 1
	done
	return 1
}
ok "boot.sh is ended: its guest ends" gone TERM
ok "boot.sh is killed: its guest ends" gone KILL
xargs rm -rf < "$tmp/left"

ok "a shell: job control, Ctrl-C, Ctrl-Z, window size, exit N" python3 "$ROOT/tests/lib/shell.py" "$ROOT/scripts/boot.sh"
ok "a shell needs a terminal" gives 2 boot < /dev/null
done_testing
