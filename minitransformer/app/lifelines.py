"""Whether the other ranks of a job are still alive.

MPI does not tell: whoever waits for a rank that has gone may wait for ever. So every rank holds a line to a watcher, a
process beside rank 0 (watcher.py), who says which rank was the first to go and tells the others, which then end.
Should the watcher go, or its machine, they say so and end too."""

from __future__ import annotations

import atexit
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from minitransformer.app import watched, watcher

_GRACE = 2.0  # seconds
_CONNECT = 20.0  # seconds to reach the watcher
_ASK_FOR_ADDRESS = 0x8915  # SIOCGIFADDR


class Lifeline:
    """The line of one rank.

    lost  called with a line that says what has gone, or "" if that was said elsewhere; to end the process"""

    def __init__(self, lost: Callable[[str], None]):
        watched.start_early()
        self.rank, self.lost = watcher.told(watcher.RANK) or 0, lost
        self.line = watched.Line.own
        self.ending = False  # from then on it does not matter who else goes
        self.place = ""  # the watcher's machine
        atexit.register(self.say, watcher.BYE)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._let_go)  # a child that lives on is not this rank

    def meet(self, size: int, gathered: Callable[[bytes], list[bytes]], one_place: bool) -> None:
        """When MPI has been started: from now on all ranks have a line to the watcher of rank 0.

        gathered   what a rank has to tell → what all have told
        one_place  whether all ranks are on this machine"""
        if size == 1:
            self.say(watcher.LEAVE)
            return
        with socket.create_server(("127.0.0.1" if one_place else "", 0), backlog=size) as server:
            token = secrets.token_hex(watcher.TOKEN // 2)  # whoever does not know it is not one of us
            if self.rank == 0:
                watched.start(size)
                self.line = watched.Line.own
                if self.line is not None:
                    with suppress(OSError):
                        socket.send_fds(self.line, [watcher.MET + token.encode()], [server.fileno()])
            told = f"{socket.gethostname()} {server.getsockname()[1]} {token} "
            told += "127.0.0.1" if one_place else " ".join(_addresses())
            first = gathered(told.encode())[0].decode().split()
        self.place = first[0]
        if self.rank:
            self._connect(*first[1:])
        elif self.line is not None:
            with suppress(OSError):
                self.line.settimeout(_CONNECT)  # who cannot reach it has to do without
                self.line.recv(1)
            self.line.settimeout(None)
        gathered(b"")  # nobody begins before all are looked after
        if self.rank:
            watched.Line.say(watcher.LEAVE)  # that of rank 0 is enough
        if self.line is not None:
            threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    def _connect(self, port: str, token: str, *addresses: str) -> None:
        self.line = None
        for address in addresses:
            with suppress(OSError):
                line = socket.create_connection((address, int(port)), timeout=_CONNECT / len(addresses))
                line.settimeout(None)
                watcher.keep_alive(line)
                line.sendall(watcher.HELLO.pack(token.encode(), self.rank, socket.gethostname().encode()))
                self.line = watched.closed_first(line)
                return

    def say(self, word: bytes) -> None:
        """The last that the watcher hears of this rank."""
        self.ending = True
        if self.line is not None:
            with suppress(OSError):
                self.line.sendall(word)

    def was_said(self, seconds: float) -> bool:
        """Whether another rank has said within this time what keeps them from meeting."""
        if self.line is None or not select.select([self.line], [], [], seconds)[0]:
            return False
        with suppress(OSError):
            return self.line.recv(1) == watcher.KNOWN
        return False

    def told(self) -> None:
        """This rank is about to end all of them, and has said why."""
        self.say(watcher.KNOWN)

    def _let_go(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line, self.ending = None, True

    def _listen(self) -> None:
        assert self.line is not None
        word, how = b"", "the process that watches over the ranks, on {}, has ended without a word (killed?)"
        try:
            word = self.line.recv(1)
        except ConnectionResetError:
            pass
        except OSError:
            how = "rank 0 on {} " + watcher.UNREACHED
        # told: MPI ends us meanwhile, with the exit code of whoever has said it. Else all ranks see it, and one speaks
        time.sleep(_GRACE if word == watcher.KNOWN else 0.1 * self.rank)
        if not self.ending:
            self.told()
            self.lost("" if word == watcher.KNOWN else how.format(self.place))


def _addresses() -> list[str]:
    """Of this machine, as others may know it."""
    found = []
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, name in socket.if_nameindex():
                with suppress(OSError):
                    asked = struct.pack("256s", name.encode()[:15])
                    found.append(socket.inet_ntoa(fcntl.ioctl(probe, _ASK_FOR_ADDRESS, asked)[20:24]))
    except (ImportError, OSError):
        found = socket.gethostbyname_ex(socket.gethostname())[2]
    return [address for address in found if not address.startswith("127.")]
