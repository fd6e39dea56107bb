"""A small process that watches over the ranks of a job, and says which of them was the first to go.

The ranks cannot say it: a launcher that misses one kills the others, often before they have noticed anything, and names
whom it likes. This process is none of the launcher's: it has a session of its own, and what it writes still comes to
the terminal when all ranks have gone. It is started before a rank loads anything else, see watched.py, and uses nothing
but what comes with Python.

    before the ranks have met   it looks after those of its own machine (Linux): whichever of them comes first starts
                                it, it sees a process end that has not even begun, and whoever has begun holds a line
                                to it
    from then on                every rank holds a line to that of rank 0; nothing is sent as long as all is well

When a process dies, its system closes the line, whatever it died of. When a machine cannot be reached any more, it does
not answer the probes that the system sends by itself (TCP's keep-alive); that works while a process computes without a
pause, and no clock of ours can go wrong when a machine sleeps for a while."""

import os
import select
import selectors
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

# what launchers tell their processes: MPICH and Intel MPI, Open MPI, and those that speak PMIx
RANK = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
SIZE = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
NEIGHBOURS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")  # ranks of one machine
# the words on a line: I have done my work; it went wrong, and it has been said; the ranks know each other (with the
# socket where to expect them); another watcher looks after us; all lines are there
BYE, KNOWN, MET, LEAVE, READY = b"b", b"k", b"m", b"l", b"r"
TOKEN = 32  # letters of a word that only the ranks of this job know
HELLO = struct.Struct(f"!{TOKEN}sI64s")  # of a rank: the token, its number, the name of its machine
LOST_AFTER = 10  # seconds without an answer from a machine, about
KILLED = "has ended without a word (killed, or out of memory?)"
UNREACHED = f"has not been reached for some {LOST_AFTER} seconds (network, or machine down?)"
_LOOKS, _PAUSE = 400, 0.005  # for ranks on this machine; seconds in between
_PATIENCE = 3.0  # seconds for ranks that have all the same reason to end
_FOREVER = float("inf")


def told(names: tuple[str, ...]) -> int | None:
    """What the launcher has said under one of these names."""
    return next((int(os.environ[name]) for name in names if name in os.environ), None)


def loudest(launcher: int) -> int:
    """Where a line is sure to be seen: the standard error of mpiexec itself, if it is on this machine. What ranks write
    is handed on by a process that may break when one of them is killed while MPI starts."""
    with suppress(OSError, ValueError, IndexError):
        for process in (launcher, _parent(launcher)):
            with open(f"/proc/{process}/comm") as file:
                if file.read().startswith(("mpiexec", "mpirun")):
                    return os.open(f"/proc/{process}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
    return 2


def _parent(process: int) -> int:
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


class Watcher:
    """own: the line to the rank that has started this process, by its descriptor; door: where others knock, or -1"""

    def __init__(self, own: int, door: int, rank: int, size: int, neighbours: int, process: int, launcher: int):
        self.size, self.neighbours, self.process, self.launcher = size, neighbours, process, launcher
        self.lines = {socket.socket(fileno=own): rank}
        self.hosts = [socket.gethostname()] * size
        self.token: bytes | None = None  # from when the ranks have met
        self.server: socket.socket | None = None  # where those come from who have no line yet
        self.beside: dict[int, tuple[int, int]] = {}  # pidfd → rank and process, of the others on this machine
        self.seen = 1  # ranks on this machine, in all
        self.first: int | None = None  # of those that has ended
        self.limit = _FOREVER  # when patience ends
        self.events = selectors.DefaultSelector()  # Linux tells them in the order in which they have happened
        for line in self.lines:
            self.events.register(line, selectors.EVENT_READ, self._hear)
        self.met = 1  # ranks whose line is for good
        self.error = 2  # the descriptor to which the last word is written
        self.door = socket.socket(fileno=door) if door >= 0 else None
        if self.door is not None:
            self.events.register(self.door, selectors.EVENT_READ, self._let_in)

    def watch(self) -> None:
        self._look_beside()
        self.error = loudest(self.launcher)
        for look in range(sys.maxsize):
            if look < _LOOKS and self.token is None and self.seen != self.neighbours:
                self._look_beside()
                seconds = _PAUSE
            else:
                seconds = self.limit - time.monotonic()
            for key, _ in self.events.select(None if seconds == _FOREVER else max(0.0, seconds)):
                if self.events.get_map().get(key.fd) is key:  # what happened before it has not made it void
                    key.data(key.fileobj)
            if not self.lines and (self.token is not None or not self.beside):
                return
            if time.monotonic() > self.limit:
                self._end("" if self.first is None else f"{self._name(self.first)} has ended before it met the others")

    def _name(self, rank: int) -> str:
        if self.token is None and self.seen < self.neighbours:
            return f"a rank of {self.size} on {self.hosts[rank]}"  # it may have been another one, before we have looked
        return f"rank {rank} of {self.size} on {self.hosts[rank]}"

    def _forget(self, end: socket.socket | int) -> None:
        self.events.unregister(end)
        os.close(end) if isinstance(end, int) else end.close()

    # ------------------------------------------------------------------------------------------ processes

    def _look_beside(self) -> None:
        """The launcher's other processes are ranks too. They may not all be there yet."""
        if self.launcher == 1:  # it has gone, and somebody else's processes are there
            return
        known = {process for _, process in self.beside.values()} | {self.process}
        with suppress(OSError, AttributeError):  # AttributeError: a system without pidfd
            with open(f"/proc/{self.launcher}/task/{self.launcher}/children") as file:
                processes = {*map(int, file.read().split())} - known
            for process in processes:
                with suppress(OSError, ValueError), open(f"/proc/{process}/environ", "rb") as file:
                    told = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)
                    ranks = [int(told[name.encode()]) for name in RANK if name.encode() in told]
                    if ranks:
                        end = os.pidfd_open(process)
                        self.beside[end] = ranks[0], process
                        self.seen += 1
                        self.events.register(end, selectors.EVENT_READ, self._see_end)

    def _let_in(self, door: socket.socket) -> None:
        """The system says which process has come."""
        line, _ = door.accept()
        process, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self._look_beside()
        ranks = [rank for rank, other in self.beside.values() if other == process]
        if self.token is None and ranks and user == os.getuid():
            self.lines[line] = ranks[0]
            self.events.register(line, selectors.EVENT_READ, self._hear)
        else:
            line.close()

    def _see_end(self, end: int) -> None:
        rank, _ = self.beside.pop(end)
        self._forget(end)
        for line in [line for line, other in self.lines.items() if other == rank]:
            self._hear(line)  # how it has ended
            return
        if self.token is None and self.first is None:
            # killed, the launcher ends us too, and all is clear; by itself, others may be about to fail alike
            self.first, self.limit = rank, min(self.limit, time.monotonic() + _PATIENCE)

    # ------------------------------------------------------------------------------------------ lines

    def _hear(self, line: socket.socket) -> None:
        word, how = b"", KILLED
        ends: list[int] = []
        try:
            if self.token is None:
                word, ends, _, _ = socket.recv_fds(line, 1 + TOKEN, 1)
            else:
                word = line.recv(1)
        except ConnectionResetError:
            pass
        except OSError:
            how = UNREACHED
        if word[:1] == MET:
            if self.door is not None:
                self._forget(self.door)  # all have come
            self.token, self.server = word[1:], socket.socket(fileno=ends[0])
            self.server.settimeout(0)
            self.events.register(self.server, selectors.EVENT_READ, self._accept)
            return
        rank = self.lines.pop(line)
        self._forget(line)
        word = word[:1]
        if word == LEAVE:
            is_here = 0 in {*self.lines.values(), *(other for other, _ in self.beside.values())}
            if self.token is None and not is_here:
                raise SystemExit
            return  # else this is the watcher of rank 0, whose word has come or is on its way
        if self.token is None and word:  # it has said why. Has it failed alone? Then others wait for it
            for other in self.lines if word == KNOWN else ():  # if not, they need not say it again
                with suppress(OSError):
                    other.sendall(KNOWN)
            self.first, self.limit = None, time.monotonic() + _PATIENCE
        elif word == KNOWN:
            self._end("")
        elif word != BYE:
            self._end(f"{self._name(rank if self.first is None else self.first)} {how}")

    def _accept(self, server: socket.socket) -> None:
        import secrets

        with suppress(OSError, struct.error):
            line, _ = server.accept()
            line.settimeout(2.0)  # a rank has said it already
            token, rank, host = HELLO.unpack(line.recv(HELLO.size, socket.MSG_WAITALL))
            if not secrets.compare_digest(token, self.token or b"") or not 0 < rank < self.size:
                line.close()
                return
            self.hosts[rank] = host.rstrip(b"\0").decode(errors="replace")
            keep_alive(line)
            line.settimeout(None)
            for former in [former for former, other in self.lines.items() if other == rank]:
                del self.lines[former]
                self._forget(former)
            self.lines[line] = rank
            self.events.register(line, selectors.EVENT_READ, self._hear)
            self.met += 1
            if select.select([line], [], [], 0)[0]:
                self._hear(line)  # it has ended: before whatever else has happened and is still to be heard of
                return
            if self.met == self.size:
                next(line for line, rank in self.lines.items() if rank == 0).sendall(READY)

    # ------------------------------------------------------------------------------------------ the end

    def _end(self, line: str) -> None:
        """line: what is to be said, if that has not been done"""
        signal.alarm(5)  # nobody may be left who reads
        if line:
            with suppress(OSError):
                os.write(self.error, f"\n{line}; the others end too, and what was saved can be resumed\n".encode())
        while self.server is not None and select.select([self.server], [], [], 0)[0]:
            self._accept(self.server)  # who have come, and shall hear it too
        for other in self.lines:
            with suppress(OSError):
                other.sendall(KNOWN)
        if self.token is None:  # they may be waiting inside MPI for the one who has gone
            own = [self.process] if os.getppid() == self.process else []
            for process in [process for _, process in self.beside.values()] + own:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        raise SystemExit


def keep_alive(line: socket.socket) -> None:
    """The system asks the other end every two seconds, and gives up after LOST_AFTER."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", LOST_AFTER // 2 - 1)):
        with suppress(OSError):
            if hasattr(socket, name):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


if __name__ == "__main__":
    Watcher(*map(int, sys.argv[1:])).watch()
