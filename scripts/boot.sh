#!/bin/sh
#
# Boots a kernel in QEMU and runs a command in it, or gives a shell.
#
# What:   the guest's root is the host's /, read-only over 9p, its process 1 is
#         scripts/guest-init.sh; what the command prints comes through one
#         virtio-serial port and its exit status through another, while the
#         kernel's log has a serial port of its own and goes to a file.
# Checks: the kernel log has no splat but those that lists/kernel-log.tsv allows
#         (else status 1); the guest gives a verdict in time (else 128, lost).
# Why:    a guest's state never comes from reading its console, and a guest that
#         says nothing never passes.
# Usage:  boot.sh [-k KERNEL] [-c "FRAGMENT ..."] [-t SECONDS] [-o FILE]
#                 [-q QEMU-ARGUMENTS] COMMAND...
#         boot.sh [-k KERNEL] [-c "FRAGMENT ..."]
#         KERNEL is before or after (default); -o: a copy of the output.
#         COMMAND is run by sh as root, in this repository's root, with the
#         variable KERNEL set, a writable /tmp, and nothing else to write to.
#         Without it: a shell on this terminal; exit N ends the guest with N.
#         With ACCEL=icount the guest has one CPU, and its clock counts that
#         CPU's instructions: each is a nanosecond.
# Status: the command's own; 1 splat, 2 wrong use, 128 lost.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
kernel=after limit=600 copy='' more=''
while getopts :hk:c:t:o:q: opt; do
	case $opt in
	h) usage ;;
	k) kernel=$OPTARG ;;
	c) CONFIG=$OPTARG ;;
	t) limit=$OPTARG ;;
	o) copy=$OPTARG ;;
	q) more=$OPTARG ;;
	*) misuse "see boot.sh -h" ;;
	esac
done
shift $((OPTIND - 1))

[ "$ARCH" = x86 ] || die "no guest for ARCH=$ARCH: ARCH=x86 has one"
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
image=$(folder "$kernel")/arch/x86/boot/bzImage
[ -f "$image" ] || die "no kernel $kernel with CONFIG=\"$CONFIG\": 'make build' with it"
[ $# -gt 0 ] || { [ -t 0 ] && [ -t 1 ]; } || misuse "a shell needs a terminal: give a command"

# KVM only where it is sure to work: the device alone opens on machines where
# a guest then hangs before its first line.
case $ACCEL in
kvm | tcg | icount) ;;
'')
	if grep -qwE 'vmx|svm' /proc/cpuinfo && (: <>/dev/kvm) 2>/dev/null; then
		ACCEL=kvm
	else
		ACCEL=tcg
	fi ;;
*) misuse "ACCEL=$ACCEL: kvm, tcg or icount" ;;
esac
case $ACCEL in
kvm) cpu=host ;;
tcg) ACCEL=tcg,thread=multi cpu=max ;;
icount) ACCEL=tcg cpu=max CPUS=1 more="-icount shift=0,sleep=off $more" ;;
esac

job=$W/guest/$kernel.$$
rm -rf "$job"
mkdir -p "$job"
: > "$job/status"

qemu='' reader='' tty=''
# shellcheck disable=SC2317 # called by the traps
end() {
	[ -z "$qemu" ] || kill "$qemu" 2>/dev/null || :
	[ -z "$reader" ] || kill "$reader" 2>/dev/null || :
	[ -z "$tty" ] || stty "$tty"
	[ ! -f "$job/console" ] || mv "$job/console" "$W/guest/$kernel.log"
	rm -rf "$job"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# What the guest is to do: two files that its process 1 reads through 9p
case $# in
0) ;;
1) printf '%s\n' "$1" > "$job/command" ;;
*)
	for word; do
		printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
	done > "$job/command" ;;
esac
{
	echo "ROOT='$ROOT' W='$(realpath "$W")' KERNEL=$kernel"
	echo "PATH=$KSFT/o/kselftest/mm:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if [ $# -eq 0 ]; then
		echo "TERM='${TERM:-vt100}'"
		stty size | { read -r rows cols; echo "rows=$rows cols=$cols"; }
	fi
} > "$job/env"

# QEMU, which ends when this script does, even where it is killed
append="root=rootfs rootfstype=9p rootflags=trans=virtio,version=9p2000.L,cache=loose,msize=262144 ro"
append="$append console=ttyS0 panic=-1 oops=panic init=$ROOT/scripts/guest-init.sh -- $job"
words=$#
# shellcheck disable=SC2086 # a list of arguments
set -- setpriv --pdeathsig TERM qemu-system-x86_64 -accel "$ACCEL" -cpu "$cpu" -smp "$CPUS" -m "$MEM" $more \
	-nodefaults -no-user-config -display none -no-reboot \
	-kernel "$image" -append "$append" \
	-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
	-device virtio-9p-pci,fsdev=root,mount_tag=rootfs \
	-serial "file:$job/console" -device virtio-serial-pci \
	-chardev "file,id=status,path=$job/status" -device virtserialport,chardev=status,name=status

if [ "$words" -gt 0 ]; then
	mkfifo "$job/output"
	if [ -n "$copy" ]; then
		tee "$copy" < "$job/output" &
	else
		cat < "$job/output" &
	fi
	reader=$!
	setpriv --pdeathsig TERM timeout -k 5 "$limit" "$@" -chardev "file,id=output,path=$job/output" \
		-device virtserialport,chardev=output,name=output < /dev/null &
	qemu=$!
else
	say "kernel $kernel; its log is $job/console; exit ends the guest"
	tty=$(stty -g)
	exec 3<&0
	"$@" -chardev stdio,id=tty,signal=off -serial chardev:tty <&3 &
	qemu=$!
fi
ended=0
wait "$qemu" || ended=$?
qemu=
if [ -n "$reader" ]; then
	# Where QEMU did not come as far as opening it, the reader waits for that.
	(: <> "$job/output") 2> /dev/null || kill "$reader" || :
	wait "$reader" || :
fi
reader=

# The verdict, and the kernel's log
status=$(cat "$job/status")
case $status in
'' | *[!0-9]*)
	if [ "$ended" -eq 124 ] || [ "$ended" -eq 137 ]; then
		say "guest lost: no verdict within $limit s; the end of its log, $W/guest/$kernel.log:"
	else
		say "guest lost: it ended without a verdict; the end of its log, $W/guest/$kernel.log:"
	fi
	[ ! -f "$job/console" ] || tail -n 30 "$job/console" >&2
	exit 128 ;;
esac
splats=$(awk -F '\t' -v allowed="$ROOT/lists/kernel-log.tsv" '
	BEGIN {
		while ((getline < allowed) > 0)
			if ($0 !~ /^(#|$)/)
				allow[$1]
	}
	{ sub(/\r$/, "") }
	/WARNING:|BUG:|BUG at|KASAN|KCSAN|UBSAN|KFENCE|Oops|general protection|unable to handle/ ||
	/possible circular locking|inconsistent lock state|possible recursive locking|held lock freed|locks held by/ ||
	/suspicious RCU|rcu: INFO|rcu_.*stall|blocked for more than|soft lockup|hard LOCKUP|refcount_t|list_(add|del) corruption/ ||
	/Bad page|Bad rss-counter|page_table_check|non-zero pgtables_bytes|sleeping function called|scheduling while atomic|Kernel panic/ {
		for (pattern in allow)
			if ($0 ~ pattern)
				next
		print
	}' "$job/console")
if [ -n "$splats" ]; then
	say "the kernel complained (all of its log: $W/guest/$kernel.log):"
	echo "$splats" >&2
	[ "$status" -ne 0 ] || status=1
fi
exit "$status"
