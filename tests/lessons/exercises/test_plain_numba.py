"""A kernel as plain Python: stray indices and iterations that meet are found before anything is compiled."""

import numpy as np
import pytest

from lessons.exercises.sandbox import Sandbox

HEAD = "import numpy as np\nfrom numba import njit, prange\n\n@njit(parallel=True)\ndef f(x):\n"


@pytest.fixture(scope="module")
def run():
    with Sandbox() as sandbox:

        def answer(body):
            source = HEAD + "".join(f"    {line}\n" for line in [*body.splitlines(), "return out"])
            calls = [("f", (np.arange(1.0, 5.0),))]
            (one,) = sandbox.run("numba", "f.py", source, calls, plain=True, allowed=("numba",)).answers
            return one

        yield answer


# lines between the head and `return out`
RACES = {
    "one total for all": "out = np.zeros(1)\nfor i in prange(4): out[0] += x[i]",
    "a neighbour's element": "out = np.zeros(5)\nfor i in prange(4):\n    out[i + 1] = x[i]\n    out[i] = 0",
    "reads what another wrote": "out = np.zeros(4)\nfor i in prange(1, 4): out[i] = out[i - 1] + x[i]",
    "slices that overlap": "out = np.zeros(5)\nfor i in prange(4): out[i:i + 2] += x[i]",
    "through a view": "out = np.zeros((2, 2))\nrow = out[0]\nfor i in prange(4): row[i % 2] = x[i]",
    "through a method": "out = np.zeros(4)\nfor i in prange(4): out[i] = out.sum()",
}
FREE = {
    "each its own": "out = np.empty(4)\nfor i in prange(4): out[i] = x[i] * 2",
    "all read the same": "out = np.empty(4)\nfor i in prange(4): out[i] = x[0] + np.exp(x).sum() + x.max()",
    "an array of its own": "out = np.empty(4)\nfor i in prange(4):\n    own = np.zeros(2)\n    own[0] += i",
    "two loops": "out = np.zeros(4)\nfor i in prange(4): out[i] = x[i]\nfor i in prange(4): out[3 - i] += 1",
    "no prange": "out = np.zeros(1)\nfor i in range(4): out[0] += x[i]",
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found(run, name):
    answer = run(RACES[name])
    assert "same element" in answer.race and "line " in answer.race, answer


@pytest.mark.parametrize("name", FREE)
def test_no_race_is_found_where_there_is_none(run, name):
    answer = run(FREE[name])
    assert not answer.race and not answer.error, answer


def test_a_stray_index_is_an_error_with_its_line(run):
    answer = run("out = np.zeros(4)\nfor i in prange(5): out[i] = 1")
    assert answer.error == "IndexError" and answer.line == 7
