"""A rank that has gone is noticed: by a connection that breaks, without MPI and without a clock."""

import queue
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from minitransformer.app import lifelines
from minitransformer.app.lifelines import Lifelines

LIMIT = 60  # seconds; whatever hangs fails its test
OTHER = """
import sys
import numpy as np
from minitransformer.app import lifelines
from minitransformer.app.lifelines import Lifelines

lifelines._GRACE = 0.1
lost = lambda line: (print("lost:", line, flush=True), __import__("os")._exit(3))
told = [np.frombuffer(sys.argv[2].encode(), dtype=np.uint8), np.zeros(0, np.uint8), np.zeros(0, np.uint8)]
told[1] = told[2] = np.frombuffer(b"there 0 0", dtype=np.uint8)
lines = Lifelines(int(sys.argv[1]), 3, lambda mine: told, True, lost)
print("tied", flush=True)
word = sys.stdin.readline().strip()
if word == "known":
    lines.told()
    sys.stdin.readline()
"""


@pytest.fixture
def job(monkeypatch):
    """Rank 0 in this process, ranks 1 and 2 in others → what rank 0 was told, and the others."""
    monkeypatch.setattr(lifelines, "_GRACE", 0.1)
    heard, others = queue.Queue(), []

    def gathered(mine):
        for rank in (1, 2):
            command = [sys.executable, "-c", OTHER, str(rank), mine.tobytes().decode()]
            others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        there = np.frombuffer(b"there 0 0", dtype=np.uint8)
        return [mine, there, there]

    lines = Lifelines(0, 3, gathered, True, heard.put)
    for other in others:
        assert other.stdout.readline() == "tied\n"
    yield heard, others
    for other in others:
        other.kill()
        other.communicate(timeout=LIMIT)
    lines.say(lifelines._BYE)


def test_a_killed_rank_is_named(job):
    heard, others = job
    others[1].send_signal(signal.SIGKILL)
    assert heard.get(timeout=LIMIT) == "rank 2 of 3 on there has ended without a word (killed, or out of memory?)"


def test_a_rank_that_is_killed_while_it_is_stopped_is_named(job):
    """No answer of its own is needed to know that it lives, and none to know that it died."""
    heard, others = job
    others[0].send_signal(signal.SIGSTOP)
    with pytest.raises(queue.Empty):
        heard.get(timeout=0.5)
    others[0].send_signal(signal.SIGKILL)
    assert "rank 1 of 3" in heard.get(timeout=LIMIT)


def test_a_rank_that_ends_in_order_is_not_missed(job):
    heard, others = job
    others[0].communicate("\n", timeout=LIMIT)
    with pytest.raises(queue.Empty):
        heard.get(timeout=0.5)
    others[1].send_signal(signal.SIGKILL)
    assert "rank 2 of 3" in heard.get(timeout=LIMIT)


def test_what_a_rank_has_said_itself_is_not_said_again(job):
    heard, others = job
    others[0].stdin.write("known\n")
    others[0].stdin.flush()
    assert heard.get(timeout=LIMIT) == ""


def test_the_others_hear_what_rank_0_has_seen(job):
    heard, others = job
    others[0].send_signal(signal.SIGKILL)
    assert "rank 1 of 3" in heard.get(timeout=LIMIT)
    assert others[1].stdout.readline() == "lost: \n"  # said by rank 0 already


def test_rank_0_is_missed_by_the_others():
    """Rank 1 is a thread's, so that rank 0 can be closed by hand."""
    heard = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = f"here {server.getsockname()[1]} {'0' * 32} 127.0.0.1"
        known = [np.frombuffer(text.encode(), dtype=np.uint8) for text in (told, "there 0 0")]
        threading.Thread(target=lambda: Lifelines(1, 2, lambda mine: known, True, heard.put), daemon=True).start()
        line, _ = server.accept()
    assert line.recv(36, socket.MSG_WAITALL) == b"0" * 32 + bytes([0, 0, 0, 1])
    line.close()
    assert heard.get(timeout=LIMIT) == "rank 0 of 2 on here has ended without a word (killed, or out of memory?)"


def test_a_stranger_is_not_taken_for_a_rank(monkeypatch):
    """Whoever connects without the word that only the ranks know is sent away; the job goes on without that rank."""
    monkeypatch.setattr(lifelines, "_CONNECT", 0.5)

    def gathered(mine):
        port = int(mine.tobytes().decode().split()[1])
        stranger = socket.create_connection(("127.0.0.1", port))
        stranger.sendall(b"?" * 32 + bytes([0, 0, 0, 1]))
        strangers.append(stranger)
        return [mine, mine]

    strangers = []
    lines = Lifelines(0, 2, gathered, True, lambda line: None)
    assert lines.lines == {}
    with strangers[0] as stranger:
        assert stranger.recv(1) == b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its interfaces")
def test_addresses_are_those_that_others_can_reach():
    assert all(len(address.split(".")) == 4 for address in lifelines._addresses())
    assert not any(address.startswith("127.") for address in lifelines._addresses())
