"""The meters of the lessons: what is held at one time is seen, what was given back before is not counted again."""

import numpy as np

from lessons.excerpts import excerpt
from lessons.measuring import peak_bytes, shortest

BYTES = 8 * 10**6  # of one array
PYTHON = 2**16  # for Python's own objects, as the lessons allow


def test_the_peak_is_what_exists_at_one_time():
    assert BYTES <= peak_bytes(lambda: np.zeros(10**6)) < BYTES + PYTHON
    assert 2 * BYTES <= peak_bytes(lambda: (np.zeros(10**6), np.zeros(10**6))) < 2 * BYTES + PYTHON

    def one_after_the_other():
        for _ in range(3):
            np.zeros(10**6)  # freed before the next is made

    assert BYTES <= peak_bytes(one_after_the_other) < BYTES + PYTHON


def test_an_array_that_was_there_before_does_not_count():
    before = np.zeros(10**6)
    assert peak_bytes(lambda: before) < PYTHON


def test_the_fastest_run_counts_and_the_first_does_not(monkeypatch):
    clock = iter((0, 5, 10, 12, 20, 24))  # three runs of 5, 2 and 4 seconds; nobody looks during the first
    monkeypatch.setattr("lessons.measuring.time.perf_counter", lambda: next(clock))
    runs = []
    assert shortest(lambda: runs.append("run"), tries=3) == 2 and len(runs) == 4


def test_an_excerpt_is_cut_out_of_the_engine_with_its_line():
    text = excerpt("reference/softmax.py", "def softmax(", "def softmax_backward")
    head, *lines = text.splitlines()
    assert head.startswith("--- kernels/reference/softmax.py, line ") and lines[0] == "def softmax(x):"
    assert not any("backward" in line for line in lines) and lines[-1].startswith("    return")
