"""Times are the shortest of several runs, on one core that is given back."""

import numba
import pytest

from lessons.harness import stopwatch


def test_the_quickest_of_the_runs_after_the_first_is_kept(monkeypatch):
    ticks = iter([0, 7, 10, 13, 20, 25, 30, 34])  # runs that take 7, 3, 5 and 4
    monkeypatch.setattr(stopwatch, "CLOCK", lambda: next(ticks))
    runs = []
    assert stopwatch.shortest(lambda: runs.append(1), spend=0.0) == 3
    assert len(runs) == 5  # one to warm up


@pytest.mark.parametrize("ends", [lambda: None, lambda: 1 / 0], ids=["well", "with an error"])
def test_the_other_cores_are_given_back(ends):
    before = numba.get_num_threads()
    try:
        with stopwatch.one_core():
            assert numba.get_num_threads() == 1
            ends()
    except ZeroDivisionError:
        pass
    assert numba.get_num_threads() == before
