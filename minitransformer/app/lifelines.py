"""Whether the other ranks of a job are still alive.

MPI does not tell: whoever waits for a rank that has gone may wait for ever. So every rank holds one connection to
rank 0, over which nothing is sent as long as all is well. When a process dies, its system closes the connection,
whatever it died of. When a machine cannot be reached any more, it does not answer the probes that the system sends by
itself (TCP's keep-alive); that works while a process computes without a pause, and no clock of ours can go wrong when
a machine sleeps for a while.

    rank 0 notices that another one has gone:   it says so, tells the others, and ends
    another one notices that rank 0 has gone:   it says so and ends"""

from __future__ import annotations

import atexit
import secrets
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

LOST_AFTER = 10  # seconds without an answer from a machine, about
_BYE, _KNOWN = b"b", b"k"  # last words: I have done my work; something went wrong, and it has been said
_GRACE = 2.0  # seconds
_CONNECT = 20.0  # seconds in which all ranks have to be connected
_ASK_FOR_ADDRESS = 0x8915  # SIOCGIFADDR


class Lifelines:
    """The connections of one rank.

    gathered   array of any length → those of all ranks
    one_place  whether all ranks are on this machine
    lost       called with a line that says which rank has gone, or "" if that was said elsewhere; to end the process"""

    def __init__(
        self,
        rank: int,
        size: int,
        gathered: Callable[[np.ndarray], list[np.ndarray]],
        one_place: bool,
        lost: Callable[[str], None],
    ):
        self.rank, self.size, self.lost = rank, size, lost
        self.ending = False  # from then on it does not matter who else goes
        self.lines: dict[socket.socket, int] = {}  # → the rank at its other end
        here = socket.gethostname()
        with socket.create_server(("127.0.0.1" if one_place else "", 0), backlog=size) as server:
            token = secrets.token_hex(16)  # whoever does not know it is not one of us
            addresses = ["127.0.0.1"] if one_place else _addresses()
            told = f"{here} {server.getsockname()[1]} {token} {' '.join(addresses)}"
            known = [text.tobytes().decode().split() for text in gathered(np.frombuffer(told.encode(), dtype=np.uint8))]
            self.hosts = [host for host, *_ in known]
            with suppress(OSError):
                self._accept(server, token) if rank == 0 else self._connect(*known[0][1:])
        for line in self.lines:
            _keep_alive(line)
        if self.lines:
            atexit.register(self.say, _BYE)
            # a launcher that notices first kills us at once: the thread must not wait for its turn
            sys.setswitchinterval(min(sys.getswitchinterval(), 5e-4))
            threading.Thread(target=self._watch, name="lifelines", daemon=True).start()

    def _accept(self, server: socket.socket, token: str) -> None:
        limit = time.monotonic() + _CONNECT
        while len(self.lines) < self.size - 1:
            server.settimeout(max(0.1, limit - time.monotonic()))
            line, _ = server.accept()
            with suppress(OSError, ValueError, struct.error):
                line.settimeout(5.0)
                said, rank = line.recv(36, socket.MSG_WAITALL), -1
                if secrets.compare_digest(said[:32], token.encode()):
                    (rank,) = struct.unpack("!I", said[32:])
                if 0 < rank < self.size:
                    self.lines[line] = rank
                    continue
            line.close()

    def _connect(self, port: str, token: str, *addresses: str) -> None:
        for address in addresses:
            with suppress(OSError):
                line = socket.create_connection((address, int(port)), timeout=_CONNECT / len(addresses))
                line.sendall(token.encode() + struct.pack("!I", self.rank))
                self.lines[line] = 0
                return

    def say(self, word: bytes) -> None:
        """The last that the others hear of this rank."""
        self.ending = True
        for line in [*self.lines]:
            with suppress(OSError):
                line.sendall(word)

    def told(self) -> None:
        """This rank is about to end all of them, and has said why."""
        self.say(_KNOWN)

    def _watch(self) -> None:
        with selectors.DefaultSelector() as ends:
            for line in self.lines:
                line.settimeout(None)
                ends.register(line, selectors.EVENT_READ, line)
            while ends.get_map():
                for key, _ in ends.select():
                    line = key.data
                    ends.unregister(line)
                    word, how = b"", "has ended without a word (killed, or out of memory?)"
                    try:
                        word = line.recv(1)
                    except ConnectionResetError:
                        pass
                    except OSError:
                        how = f"has not been reached for some {LOST_AFTER} seconds (network, or machine down?)"
                    rank = self.lines[line]
                    line.close()
                    if word != _BYE:
                        self._lose(rank, word == _KNOWN, how)

    def _lose(self, rank: int, is_said: bool, how: str) -> None:
        if is_said:
            time.sleep(_GRACE)  # MPI ends us meanwhile, with the exit code of whoever has said it
        elif self.rank:  # all of them see rank 0 go, and one is to say so
            time.sleep(0.1 * (self.rank - 1))
        if not self.ending:
            self.told()
            self.lost("" if is_said else f"rank {rank} of {self.size} on {self.hosts[rank]} {how}")


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


def _keep_alive(line: socket.socket) -> None:
    """The system asks the other end every two seconds, and gives up after LOST_AFTER."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", LOST_AFTER // 2 - 1)):
        with suppress(OSError):
            if hasattr(socket, name):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
