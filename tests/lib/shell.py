#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Talks to the shell of boot.sh as a person at a terminal does.

Usage: shell.py BOOT.SH
In Python for its pseudo-terminal. Ends with 0 when all went as it must.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""


def until(text, seconds=60):
    """Reads until the text comes; what is left is for the next time."""
    global seen
    end = time.monotonic() + seconds
    while text not in seen:
        if time.monotonic() > end:
            os.kill(pid, 15)
            sys.exit(f"waited in vain for {text!r}, saw {seen!r}")
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65536)
    sys.stdout.write(seen.decode(errors="replace"))
    seen = seen[seen.index(text) + len(text):]


def say(text):
    os.write(terminal, text)


until(b"# ")
say(b"stty size; tty; echo $KERNEL $((1+1))\r")
until(b"33 101")
until(b"after 2")
until(b"# ")
say(b"sleep 100\r")
time.sleep(2)
say(b"\x03")
until(b"# ")
say(b"echo status $?\r")
until(b"status 130")
until(b"# ")
say(b"sleep 100\r")
time.sleep(2)
say(b"\x1a")
until(b"Stopped")
until(b"# ")
say(b"fg\r")
time.sleep(2)
say(b"\x03")
until(b"# ")
say(b"echo back $?\r")
until(b"back 130")
until(b"# ")
say(b"command -v madvise_flush cow\r")
until(b"/madvise_flush")
until(b"/cow")
until(b"# ")
say(b"exit 9\r")
end = time.monotonic() + 30
while time.monotonic() < end:
    if select.select([terminal], [], [], 0.2)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            pass
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        code = os.waitstatus_to_exitcode(status)
        sys.exit(0 if code == 9 else f"exit 9 gave {code}")
os.kill(pid, 15)
sys.exit("the guest did not end after exit")
