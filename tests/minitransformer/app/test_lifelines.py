"""A rank that has gone is noticed and named, by a process that the launcher does not kill: without MPI, with processes
that stand for ranks, and this one for the launcher."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from minitransformer.app import lifelines, ranks, watcher

LIMIT = 60  # seconds; whatever hangs fails its test
KILLED = "has ended without a word (killed, or out of memory?); the others end too, and what was saved can be resumed"
RANK = """
import os, sys, types

if "late" in sys.argv[1]:
    sys.modules["numpy"] = None  # as if it had been loaded: then the watcher is a program started anew

for name, place in zip(("minitransformer", "minitransformer.app"), sys.argv[2:]):  # without all that they would load
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [place]

from minitransformer.app import lifelines, watcher

def gathered(mine):
    if mine and lifeline.rank == 0:
        print(mine.decode(), flush=True)
    return [sys.stdin.readline().encode()]

lifelines._GRACE, watcher._PATIENCE = 0.1, 0.5
lifeline = lifelines.Lifeline(lambda line: (print("lost:", line, flush=True), os._exit(3)))
if "meet" in sys.argv[1]:
    print("here", flush=True)
    sys.stdin.readline()  # MPI starts when all have come, and not before
    lifeline.meet(3, gathered, True)
print("ready", flush=True)
if sys.stdin.readline() == "known\\n":
    lifeline.told()
    sys.stdin.readline()
"""
PLACES = [os.path.dirname(os.path.dirname(watcher.__file__)), os.path.dirname(watcher.__file__)]
ASLEEP = "import sys; print('ready', flush=True); sys.stdin.readline()"


def until(happened, otherwise):
    limit = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < limit, otherwise
        time.sleep(0.01)


def children_of(process):
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


class Job:
    """Three ranks: their processes, and what they and their watcher say."""

    def __init__(self, said):
        self.said, self.ranks = said, {}

    def start(self, rank, code, *arguments):
        told = {"PMI_RANK": rank, "PMI_SIZE": 3, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": 3}
        command = [sys.executable, "-c", code, *arguments, *PLACES]
        with open(self.said, "ab") as error:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error,
                text=True, env=os.environ | {name: str(number) for name, number in told.items()},
            )  # fmt: skip
        self.ranks[rank] = process

    def tell(self, rank, line):
        self.ranks[rank].stdin.write(f"{line}\n")
        self.ranks[rank].stdin.flush()

    def hears(self, line):
        """The one line that is said."""
        until(self.said.read_text, "nothing was said")
        assert self.said.read_text().strip() == line.format(socket.gethostname())

    def kill(self, rank):
        self.ranks[rank].send_signal(signal.SIGKILL)
        self.ranks[rank].wait(LIMIT)


@pytest.fixture
def job(tmp_path):
    job = Job(tmp_path / "said")
    yield job
    for process in job.ranks.values():
        process.kill()
        process.communicate(timeout=LIMIT)


@pytest.fixture
def met(job, request):
    """The ranks know each other. Its parameters: which one comes first, and when"""
    first, when = getattr(request, "param", (0, "early"))
    job.start(first, RANK, f"meet {when}")
    until(lambda: children_of(job.ranks[first]), "no watcher")
    for rank in {0, 1, 2} - {first}:
        job.start(rank, RANK, f"meet {when}")
    for process in job.ranks.values():
        assert process.stdout.readline() == "here\n"
    for rank in range(3):
        job.tell(rank, "")
    address = job.ranks[0].stdout.readline().strip()
    for rank in range(3):
        job.tell(rank, address)
        job.tell(rank, "")
    for process in job.ranks.values():
        assert process.stdout.readline() == "ready\n"
    return job


def watched_by(process):
    """The processes whose end it waits for."""
    found = []
    for entry in Path(f"/proc/{process}/fdinfo").iterdir():
        with suppress(OSError):
            found += [line for line in entry.read_text().splitlines() if line.startswith("Pid:")]
    return found


@pytest.mark.parametrize(
    ("met", "rank"), [((0, "early"), 0), ((0, "early"), 1), ((2, "early"), 0), ((2, "early"), 2), ((0, "late"), 1)],
    indirect=["met"],
)  # fmt: skip
def test_a_killed_rank_is_named_whoever_it_is_and_the_others_hear_of_it(met, rank):
    met.kill(rank)
    met.hears(f"rank {rank} of 3 on {{}} {KILLED}")
    others = [process for process in met.ranks.values() if process is not met.ranks[rank]]
    assert [process.stdout.readline() for process in others] == ["lost: \n"] * 2  # it has been said


def test_the_first_one_is_named_also_if_the_launcher_kills_all_of_them_at_once(met):
    met.kill(1)
    for rank in (0, 2):
        met.ranks[rank].kill()
    met.hears(f"rank 1 of 3 on {{}} {KILLED}")


def test_a_rank_that_is_killed_while_it_is_stopped_is_named(met):
    """No answer of its own is needed to know that it lives, and none to know that it died."""
    met.ranks[2].send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    assert not met.said.read_text()
    met.kill(2)
    met.hears(f"rank 2 of 3 on {{}} {KILLED}")


def test_a_rank_that_ends_in_order_is_not_missed(met):
    met.ranks[0].communicate("\n", timeout=LIMIT)
    time.sleep(0.3)
    assert not met.said.read_text()
    met.kill(1)
    met.hears(f"rank 1 of 3 on {{}} {KILLED}")


def test_what_a_rank_has_said_itself_is_not_said_again(met):
    met.tell(1, "known")
    assert met.ranks[0].stdout.readline() == met.ranks[2].stdout.readline() == "lost: \n"
    met.kill(1)
    assert not met.said.read_text()


def test_a_watcher_that_is_killed_is_missed(met):
    (process,) = children_of(met.ranks[0])
    os.kill(process, signal.SIGKILL)
    line = (
        f"lost: the process that watches over the ranks, on {socket.gethostname()}, has ended without a word (killed?)"
    )
    assert [rank.stdout.readline().strip() for rank in met.ranks.values()] == [line] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sees processes end by pidfd")
class TestBeforeTheyHaveMet:
    def test_nobody_is_named_if_another_one_may_have_gone_before(self, job):
        """The third is not to be seen. Has it been killed before the watcher could look?"""
        job.start(0, RANK, "wait")
        job.start(1, ASLEEP)
        until(lambda: (children := children_of(job.ranks[0])) and watched_by(children[0]), "the watcher sees nobody")
        job.kill(1)
        job.kill(0)
        job.hears(f"a rank of 3 on {{}} {KILLED}")

    @pytest.fixture
    def starting(self, job):
        job.start(0, RANK, "wait")
        for rank in (1, 2):
            job.start(rank, ASLEEP)
        for process in job.ranks.values():
            assert process.stdout.readline() == "ready\n"
        until(lambda: len(watched_by(children_of(job.ranks[0])[0])) == 2, "the watcher does not see the others")
        return job

    def test_the_one_is_named_who_was_killed_first(self, starting):
        starting.kill(2)
        starting.kill(0)  # as launchers do
        starting.hears(f"rank 2 of 3 on {{}} {KILLED}")
        assert starting.ranks[1].wait(LIMIT) == -signal.SIGKILL  # by the watcher: it would have waited for ever

    def test_a_rank_that_leaves_the_others_waiting_ends_them_and_is_named(self, starting):
        starting.ranks[1].communicate("\n", timeout=LIMIT)
        end = "has ended before it met the others; the others end too, and what was saved can be resumed"
        starting.hears(f"rank 1 of 3 on {{}} {end}")
        assert {starting.ranks[rank].wait(LIMIT) for rank in (0, 2)} == {-signal.SIGKILL}

    def test_what_rank_0_has_said_itself_ends_the_others_in_silence(self, starting):
        starting.ranks[0].communicate("\n", timeout=LIMIT)
        assert {starting.ranks[rank].wait(LIMIT) for rank in (1, 2)} == {-signal.SIGKILL}
        assert not starting.said.read_text()


def test_a_stranger_is_not_taken_for_a_rank():
    """Whoever connects without the word that only the ranks know is sent away."""
    own, other = socket.socketpair()
    with own, other, socket.create_server(("127.0.0.1", 0)) as server:
        one = watcher.Watcher(other.detach(), -1, 0, 2, 2, os.getpid(), 1)
        one.token = b"0" * watcher.TOKEN
        for token in (b"?" * watcher.TOKEN, one.token):
            with socket.create_connection(server.getsockname()) as stranger:
                stranger.sendall(watcher.HELLO.pack(token, 1, b"there"))
                one._accept(server)
                assert len(one.lines) == 1 + (token == one.token)
                assert token == one.token or stranger.recv(1) == b""
        for line in [*one.lines]:
            one._forget(line)
        one.events.close()


def test_a_rank_that_ends_as_it_comes_is_named_before_those_that_end_after_it(capfd):
    own, other = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = watcher.Watcher(other.detach(), -1, 0, 2, 2, os.getpid(), 1)
        one.token, one.server = b"0" * watcher.TOKEN, server
        one.events.register(server, watcher.selectors.EVENT_READ, one._accept)
        with socket.create_connection(server.getsockname()) as late:
            late.sendall(watcher.HELLO.pack(one.token, 1, b"there"))
        own.close()  # rank 0, by the launcher
        with pytest.raises(SystemExit):
            one.watch()
        signal.alarm(0)
        assert capfd.readouterr().err.strip() == f"rank 1 of 2 on there {KILLED}"
        for line in [*one.lines]:
            one._forget(line)
        one.events.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_the_last_word_goes_to_mpiexec_itself(tmp_path):
    """Or to a child's parent of that name: not to whatever else has started it."""
    (tmp_path / "mpiexec").symlink_to("/bin/sh")
    with open(tmp_path / "said", "w") as said:
        command = [tmp_path / "mpiexec", "-c", "echo before >&2; sleep 60 & echo $!; wait"]
        mpiexec = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
    proxy = int(mpiexec.stdout.readline())
    try:
        for launcher in (mpiexec.pid, proxy):
            error = watcher.loudest(launcher)
            os.write(error, b"a word\n")
            os.close(error)
        assert (tmp_path / "said").read_text() == "before\na word\na word\n"
        assert watcher.loudest(os.getpid()) == 2
    finally:
        os.kill(proxy, signal.SIGKILL)
        mpiexec.communicate(timeout=LIMIT)


BEGINNING = """
import runpy, sys
from importlib.metadata import entry_points
from minitransformer.app import watched

def started():
    print("numpy" in sys.modules, flush=True)
    sys.exit()

watched.start_early = started
sys.argv[0] = "minitransformer"
if sys.argv.pop() == "-m":
    runpy.run_module("minitransformer", run_name="__main__")
(script,) = entry_points(group="console_scripts", name="minitransformer")
script.load()()
"""


@pytest.mark.parametrize(
    ("command", "how", "said"),
    [("pretrain", "script", "False\n"), ("pretrain", "-m", "False\n"), ("generate", "-m", "")],
)
def test_training_has_a_watcher_before_numpy_is_loaded(command, how, said):
    code = [sys.executable, "-c", BEGINNING, command, "--no-such-option", how]
    assert subprocess.run(code, stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout == said


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its interfaces")
def test_addresses_are_those_that_others_can_reach():
    assert all(len(address.split(".")) == 4 for address in lifelines._addresses())
    assert not any(address.startswith("127.") for address in lifelines._addresses())


@pytest.mark.skipif(sys.platform == "win32", reason="there the launcher takes what ranks write in another way")
def test_what_was_said_has_been_read_before_a_rank_ends_the_others():
    """The process that hands it on would otherwise end first, now and then. It is not waited for for ever."""
    end, start = os.pipe()
    os.write(start, b"rank 0 of 2 failed\n")
    ranks.wait_until_read(start, seconds=0.01)
    assert select.select([end], [], [], 0)[0], "nobody has read it"
    reader = threading.Timer(0.1, os.read, (end, 100))
    reader.start()
    ranks.wait_until_read(start, seconds=LIMIT)
    assert not select.select([end], [], [], 0)[0]
    reader.join()
    for pipe in (end, start):
        os.close(pipe)
