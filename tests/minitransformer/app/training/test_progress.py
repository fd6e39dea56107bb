"""What the user sees: lines, the bar, times, and the learning curve."""

import io
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import redirect_stderr

import pytest
from training_support import tiny_run

import kernels
from minitransformer.app import progress
from minitransformer.app.data import PieceTokenizer, WordTokenizer
from minitransformer.app.progress import Bar, Lines, Pace, Status, clocked, counted, duration, progress_on
from minitransformer.app.tasks.options import TokenizerOptions
from minitransformer.app.tasks.sources import trained_tokenizer
from minitransformer.app.training.checkpoints import CheckpointError
from minitransformer.app.training.metrics import draw_curve, read_metrics

LETTERS = "abcdefghijklmnop"


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


def status(step=7, **changes):
    values = {"total": 40, "epoch": 1, "values": {"loss": 2.34567, "perplexity": 10.4}, "tokens_per_second": 12345.6}
    return Status(**({"step": step, "seconds_left": 245.0} | values | changes))


def test_lines_come_every_few_seconds_and_say_everything(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    lines = Lines(stream, seconds=5)
    for second in range(12):
        clock.now = 100.0 + second
        lines.update(status(second + 1))
    assert stream.getvalue().splitlines() == [
        f"step {step}/40, epoch 2, loss 2.346, perplexity 10.4, 12.3k tokens/s, 4:05 left" for step in (1, 6, 11)
    ]
    assert "\r" not in stream.getvalue()


def test_what_nobody_knows_is_left_out():
    stream = io.StringIO()
    Lines(stream).update(status(total=None, seconds_left=None, values={"loss": 1234.5}))
    assert stream.getvalue() == "step 7, epoch 2, loss 1234, 12.3k tokens/s\n"  # 1234.5 rounds to even


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_items_that_take_long_are_counted_and_quick_ones_are_not(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    for _ in counted(range(5), "reading", stream):
        clock.now += 0.3
    assert stream.getvalue() == ""
    seen = []
    for item in counted(range(2000), "reading", stream):
        seen.append(item)
        clock.now += 0.01
    assert seen == [*range(2000)]
    assert [line.split(" of ")[0] for line in stream.getvalue().splitlines()] == [
        f"reading: {number:,}" for number in (200, 700, 1200, 1700)
    ]


def test_on_a_terminal_nothing_is_left_of_the_count(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    terminal = Terminal()
    assert [*counted("abc", "reading", terminal)] == ["a", "b", "c"]
    assert "reading" in terminal.getvalue() and terminal.getvalue().endswith("\r")


def spoken(stream, text: str) -> bool:
    """Waits for the thread that speaks: as long as it takes on a busy machine."""
    patience = time.monotonic() + 60
    while text not in stream.getvalue() and time.monotonic() < patience:
        time.sleep(0.01)
    return text in stream.getvalue()


def test_work_that_cannot_be_counted_shows_its_seconds(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    for stream in (io.StringIO(), Terminal()):
        with clocked("choosing", stream):
            assert spoken(stream, "choosing: 0 s")
            assert not stream.isatty() or spoken(stream, "choosing: 1 s"), "each second, on a terminal"
        assert stream.getvalue().endswith("\r\033[K" if stream.isatty() else " s\n")


def test_quick_work_is_not_clocked_and_a_failure_ends_the_clock():
    stream, before = Terminal(), threading.active_count()
    with pytest.raises(ValueError, match="no text"), clocked("choosing", stream):
        raise ValueError("no text")
    assert stream.getvalue() == "" and threading.active_count() == before


@pytest.mark.parametrize("kind, learner", [("pieces", PieceTokenizer), ("words", WordTokenizer)])
def test_choosing_a_vocabulary_is_clocked(monkeypatch, kind, learner):
    log = io.StringIO()
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(learner, "train", lambda texts, **options: spoken(log, f"choosing {kind} from 9 letters: 0 s"))
    with redirect_stderr(log):
        assert trained_tokenizer(["some", "words"], TokenizerOptions(), kind) is True


def test_sentencepiece_lets_the_clock_run(monkeypatch):
    """While it computes, and not only while it reads: else the seconds would stand still."""
    ticks, read = [], threading.Event()

    def texts():
        yield from (f"{a}{b} {b}{c}{a}" for a in LETTERS for b in LETTERS for c in LETTERS)
        read.set()

    def tick():
        while not done.wait(0.001):
            ticks.append(read.is_set())

    done, clock = threading.Event(), threading.Thread(target=tick)
    clock.start()
    try:
        PieceTokenizer.train(texts(), vocab_size=200)
    finally:
        done.set()
        clock.join()
    assert sum(ticks) > 3


def test_the_bar_is_for_terminals_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    bar = progress_on(terminal)
    assert isinstance(bar, Bar)
    assert isinstance(progress_on(io.StringIO()), Lines)
    bar.update(status(6))
    bar.note("a note")
    bar.update(status(7))
    bar.close()
    text = terminal.getvalue()
    last = text.rstrip("\n").split("\r")[-1]
    assert last.startswith("epoch 2  18% |")
    assert "7/40" in last
    assert "loss 2.346, perplexity 10.4, 12.3k tokens/s, 4:05 left" in last
    assert "a note\n" in text


def test_a_bar_without_an_end():
    terminal = Terminal()
    bar = Bar(terminal)
    bar.update(status(7, total=None, seconds_left=None))
    bar.close()
    assert "epoch 2 7 steps, loss 2.346" in terminal.getvalue()


def test_pace_looks_at_the_last_steps_only(monkeypatch):
    clock = Clock(monkeypatch)
    pace = Pace(window=2)
    for seconds, tokens, loss in ((60.0, 10, 9.0), (1.0, 30, 4.0), (3.0, 50, 2.0)):  # the first one compiled
        clock.now += seconds
        pace.add(tokens, {"loss": loss})
    assert pace.seconds_per_step() == 2.0
    assert pace.tokens_per_second() == 20.0
    assert pace.means() == {"loss": 3.0}
    assert Pace().tokens_per_second() == 0.0


def test_durations():
    assert [duration(s) for s in (0.2, 59.4, 59.6, 245, 3599.7, 12000)] == [
        "0 s", "59 s", "1:00", "4:05", "1:00:00", "3:20:00",
    ]  # fmt: skip


def test_a_run_shows_its_true_numbers():
    seen = []

    class Watching(progress.Silent):
        def update(self, status):
            seen.append(status)

    with kernels.use("numpy"):
        tiny_run(None, steps=None, max_epochs=2, progress=Watching())
    assert [s.step for s in seen] == list(range(1, 15))
    assert {s.total for s in seen} == {14}
    assert [s.epoch for s in seen] == [0] * 7 + [1] * 7
    assert seen[-1].seconds_left == 0
    assert list(seen[-1].values) == ["loss", "perplexity"]
    assert all(s.tokens_per_second > 0 for s in seen)


# --------------------------------------------------------------------------------------------- the learning curve


def test_the_curve_is_a_picture_of_the_metrics(tmp_path):
    with kernels.use("numpy"):
        tiny_run(tmp_path / "run", steps=6)
    picture = (tmp_path / "run" / "curve.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(picture) > 10_000  # an empty pair of axes has some 8 kB
    records = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert draw_curve([r | {"accuracy": 0.5} for r in records], tmp_path / "two.png", "a $5 run_name^2 $x$")
    width = [int.from_bytes(p[16:20], "big") for p in (picture, (tmp_path / "two.png").read_bytes())]
    assert width[1] == 2 * width[0]  # a second panel


def test_no_numbers_no_picture(tmp_path):
    assert not draw_curve([], tmp_path / "a.png")
    assert not draw_curve([{"kind": "train", "step": 1, "loss": None}], tmp_path / "a.png")
    assert os.listdir(tmp_path) == []
    with pytest.raises(CheckpointError, match=r"a\.png: cannot be written: it does not exist"):
        draw_curve([{"kind": "train", "step": 1, "loss": 1.0}], tmp_path / "nowhere" / "a.png")


def test_a_picture_that_cannot_be_written_does_not_spoil_the_run(tmp_path):
    os.makedirs(tmp_path / "run" / "curve.png")  # a folder in its place
    notes = []

    class Noting(progress.Silent):
        def note(self, text):
            notes.append(text)

    with kernels.use("numpy"):
        result = tiny_run(tmp_path / "run", steps=6, progress=Noting())[1]
    assert result.reason == "steps"
    assert any(re.match(r"no learning curve: .*curve\.png: cannot be written", note) for note in notes)


def test_training_is_imported_without_matplotlib_and_tqdm():
    heavy = (
        "import sys, minitransformer.app.training as _; "
        "print(sorted({'matplotlib', 'tqdm', 'safetensors'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
