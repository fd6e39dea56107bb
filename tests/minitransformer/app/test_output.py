"""Output is never fatal: a reader that leaves, a full disk, a closed terminal or no stream at all end no work."""

import errno
import io
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from command_support import FRUGAL, TINY, WORDS

from minitransformer.app import output
from minitransformer.app.output import OutputLost, Stream, forgiving
from minitransformer.app.progress import Bar, Lines, Status, counted
from minitransformer.app.training.checkpoints import RunFolder
from minitransformer.app.training.interrupts import Interrupts

# on a text of one's own: the built-in language takes a second to build
TEXT = "".join(f"{' '.join(WORDS[i % 7 : i % 7 + 5])}\n" for i in range(40))
TRAIN = ("pretrain", "text.txt", "--tokenizer", "words", "--steps", "30", "--max-len", "12", *TINY)


# ----------------------------------------------------------------------------------------------------------- one stream


class Broken(io.StringIO):
    """Takes some words, then no more."""

    def __init__(self, room=0, error=None):
        super().__init__()
        self.room, self.error, self.refused = room, error or OSError(errno.ENOSPC, "No space left"), 0

    def write(self, text):
        if self.tell() + len(text) > self.room:
            self.refused += 1
            raise self.error
        return super().write(text)


ERRORS = [OSError(errno.ENOSPC, "full"), BrokenPipeError(errno.EPIPE, "gone"), ValueError("I/O on closed file")]


@pytest.mark.parametrize("error", ERRORS)
def test_a_stream_fails_once_says_so_once_and_drops_the_rest(error):
    broken, told = Broken(5, error), []
    stream = Stream(broken, dropped=told.append)
    for text in ("12345", "x", "y", "z"):
        assert stream.write(text) == len(text)
        stream.flush()
    assert broken.getvalue() == "12345" and broken.refused == 1
    (reason,) = told
    assert reason.startswith("stderr can")


def test_a_lost_result_is_told_from_a_reader_that_left():
    for error, left in ((OSError(errno.ENOSPC, "full"), False), (BrokenPipeError(errno.EPIPE, "gone"), True)):
        stream = Stream(Broken(error=error), "stdout")
        stream.fatal = True
        with pytest.raises(OutputLost) as lost:
            stream.write("x")
        assert lost.value.reader_left == left
    assert not issubclass(OutputLost, OSError)  # argparse swallows those


def test_letters_that_a_terminal_lacks_are_replaced():
    raw = io.BytesIO()
    stream = Stream(io.TextIOWrapper(raw, encoding="ascii"))
    stream.write("a → b")
    stream.flush()
    assert raw.getvalue() == b"a ? b" and stream.failure is None


def test_without_any_stream(monkeypatch):
    """As after 2>&-."""
    monkeypatch.setattr(sys, "stderr", None)
    Lines().note("nobody hears this")
    assert [*counted([1, 2], "counting")] == [1, 2]
    output.note("nor this")
    assert not forgiving().isatty()


@pytest.mark.parametrize("kind", [Lines, Bar])
@pytest.mark.parametrize("room", [0, 40, 200])
def test_progress_goes_on_whatever_its_stream_does(kind, room):
    shown = kind(Broken(room))
    for step in range(1, 4):
        shown.update(Status(step, 3, 0, {"loss": 1.0}, 10.0, 1.0))
        shown.note("a note")
    shown.close()
    shown.note("the last note")


# ---------------------------------------------------------------------------------------------------------- one command


def shell(folder, line: str, *arguments: str, unbuffered: bool = False) -> subprocess.CompletedProcess:
    """A line of a shell in which $C is the command."""
    quoted = " ".join([sys.executable, "-m", "minitransformer", *arguments])
    environment = {**os.environ, **FRUGAL, "MINITRANSFORMER_BACKEND": "numpy", "C": quoted}
    environment["PYTHONUNBUFFERED"] = "1" if unbuffered else ""
    (folder / "text.txt").write_text(TEXT)
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    result = shell(folder, "$C", *TRAIN, "--out", "run")
    assert result.returncode == 0, result.stderr
    return (folder / "run" / "step-00000030.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("$C 2>&1 | grep -m1 evaluation; exit ${PIPESTATUS[0]}", 0, "evaluation"),
        ("$C 2>/dev/full", 0, "note: stderr cannot be written: the disk is full; the work goes on, unseen"),
        ("$C 2>&-", 0, "it says"),
        ("$C 2>&1 >&- <&-", 0, "done after 30 steps"),
        ("$C >&- 2>&- <&-", 0, ""),
        ("$C | true; exit ${PIPESTATUS[0]}", 0, "note: stdout can no longer be written: its reader has gone"),
        ("$C >/dev/full", 1, "note: stdout cannot be written: the disk is full; the work goes on"),
        ("$C >/dev/full 2>&1", 1, ""),
        ("PYTHONIOENCODING=ascii LC_ALL=C $C", 0, "it says"),
    ],
)
def test_training_comes_to_its_end_and_saves(tmp_path, undisturbed, line, code, said):
    result = shell(tmp_path, line, *TRAIN, "--out", "run")
    assert result.returncode == code, result.stderr
    assert said in result.stdout + result.stderr and "Traceback" not in result.stderr
    assert (tmp_path / "run" / "step-00000030.safetensors").read_bytes() == undisturbed


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [
        ("params", False), ("params --json", True), ("backends", False), ("generate --help", False), ("--help", True),
        ("generate", False), ("generate", True),
    ],
)  # fmt: skip
def test_a_result_that_cannot_be_written_is_one_line_and_exit_code_1(tmp_path_factory, command, unbuffered, model):
    """Buffered, the disk refuses only when Python has all but ended."""
    name = command if command.startswith("-") else command.split()[0]
    result = shell(model, "$C >/dev/full 2>errors", *command.split(), unbuffered=unbuffered)
    lines = [x for x in (model / "errors").read_text().splitlines() if not x.startswith(("using", "seed"))]
    assert lines == [f"minitransformer {name}: stdout cannot be written: the disk is full"]
    assert result.returncode == 1
    result = shell(model, "$C | true; exit ${PIPESTATUS[0]}", *command.split(), unbuffered=unbuffered)
    assert result.returncode == 0
    assert not [x for x in result.stderr.splitlines() if not x.startswith(("using", "seed"))]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    assert shell(folder, "$C", *TRAIN).returncode == 0
    return folder


# -------------------------------------------------------------------------------------------------------------- signals


def wait_for_steps(folder):
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        if RunFolder(folder).steps():
            return
        time.sleep(0.05)
    raise AssertionError("no step within a minute")


ENDLESS = [sys.executable, "-m", "minitransformer", "pretrain", "text.txt", "--steps", "1000000", *TRAIN[2:4], *TINY]


def test_a_terminal_that_is_closed_costs_nothing(tmp_path):
    """The system sends SIGHUP, more than once, and every further word to the terminal is an error."""
    (tmp_path / "text.txt").write_text(TEXT)
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.chdir(tmp_path)
        os.environ.update(FRUGAL, MINITRANSFORMER_BACKEND="numpy")
        os.execv(ENDLESS[0], [*ENDLESS, "--out", "run"])
    wait_for_steps(tmp_path / "run")
    seen = b""
    while b"loss" not in seen:  # training has begun
        seen += os.read(terminal, 4096)
    os.close(terminal)
    with_patience = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert with_patience == 128 + signal.SIGHUP
    assert RunFolder(tmp_path / "run").latest().step > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_before_training_a_signal_ends_the_command_in_order(tmp_path, number):
    """Waiting for a text that never comes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minitransformer", "classify"], cwd=tmp_path, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(3)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number)  # the latter if it had not yet begun
    assert "Traceback" not in error and out == ""


def test_what_a_user_chose_to_ignore_stays_ignored(monkeypatch):
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            assert interrupts.signal is None
    finally:
        signal.signal(signal.SIGHUP, former)


def test_a_closed_terminal_hurries_nobody_and_a_second_ctrl_c_does():
    with Interrupts() as interrupts:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
        assert interrupts.signal == signal.SIGHUP
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.at_once():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGHUP)  # while the evaluation is being abandoned
                reached = True
        assert reached
