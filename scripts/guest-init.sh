#!/bin/sh
#
# Process 1 of the guest.
#
# What:   makes what a program expects of a Linux system out of the host's root,
#         which is mounted read-only; runs the command that the host left in
#         JOB/command, or a shell where there is none; hands its exit status
#         to the host; ends the guest.
# How:    boot.sh names JOB on the kernel's command line. Output and status
#         leave by the virtio-serial ports of these names.
# Ends:   without a status when something here fails: the host then calls the
#         guest lost.
job=$1

mount -t devtmpfs dev /dev 2> /dev/null	# unless the kernel did it
mount -t proc proc /proc
mount -t sysfs sys /sys
# shellcheck source=/dev/null
. "$job/env"
export PATH KERNEL TERM HOME=/tmp

# The repository, and its out/ where that is a link, may stand below a directory
# that is hidden here.
mkdir -p /dev/kept/root /dev/kept/out
mount --bind "$ROOT" /dev/kept/root
mount --bind "$W" /dev/kept/out
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
# show PATH NAME: what is kept as NAME is at PATH as before
show() {
	case $1 in
	/tmp/* | /run/*)
		mkdir -p "$1"
		mount -n --move "/dev/kept/$2" "$1" ;;
	*) umount -n "/dev/kept/$2" ;;
	esac
}
show "$ROOT" root
show "$W" out
rmdir /dev/kept/root /dev/kept/out /dev/kept
mkdir -p /dev/pts /dev/shm /dev/hugepages /run/cgroup
mount -t devpts -o ptmxmode=666 pts /dev/pts
ln -sf pts/ptmx /dev/ptmx
ln -sf /proc/self/fd /dev/fd
mount -t tmpfs shm /dev/shm
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
mount -t hugetlbfs huge /dev/hugepages 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
busybox ip link set lo up 2>/dev/null
cd "$ROOT" || exit

# port NAME: the device of the virtio-serial port, once it is there
port() {
	for try in 1 2 3 4 5 6 7 8 9 10; do
		for dir in /sys/class/virtio-ports/*; do
			[ "$(cat "$dir/name" 2>/dev/null)" != "$1" ] || { echo "/dev/${dir##*/}"; return; }
		done
		sleep "0.$try"
	done
}

if [ -f "$job/command" ]; then
	setsid -w sh "$job/command" < /dev/null > "$(port output)" 2>&1
else
	export PS1="$KERNEL:\\w# "
	if command -v bash > /dev/null; then set -- bash --norc -i; else set -- sh -i; fi
	{
		# shellcheck disable=SC2154 # of JOB/env
		stty rows "$rows" cols "$cols" sane
		setsid -w -c "$@"
	} <> /dev/ttyS1 >&0 2>&1
fi
echo $? > "$(port status)"
exec busybox reboot -f	# -no-reboot makes QEMU end
