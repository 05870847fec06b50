#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Takes mail on a free port of loopback and keeps each as it came.

Usage: smtpd.py DIR: writes the port to DIR/port, then the mails to DIR/0001,
DIR/0002, ... in the order of their coming, and the recipients that each was
handed over for to DIR/0001.to, ... Runs until it is killed.
"""
import asyncio
import pathlib
import sys

from aiosmtpd.smtp import SMTP


class Keep:
    """Writes what comes into a directory."""

    def __init__(self, where):
        self.where = where
        self.count = 0

    async def handle_DATA(self, server, session, envelope):
        self.count += 1
        name = f"{self.count:04}"
        to = "".join(f"{address}\n" for address in envelope.rcpt_tos)
        (self.where / f"{name}.to").write_text(to)
        (self.where / name).write_bytes(envelope.original_content.replace(b"\r\n", b"\n"))
        return "250 OK"


async def main():
    where = pathlib.Path(sys.argv[1])
    keep = Keep(where)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(keep, hostname="localhost"), "127.0.0.1", 0)
    (where / "port.new").write_text(f"{server.sockets[0].getsockname()[1]}\n")
    (where / "port.new").rename(where / "port")
    await server.serve_forever()


asyncio.run(main())
