"""What students' code may do to the judge: nothing."""

import os
import time

import numpy as np
import pytest

import kernels
from lessons.exercises import catalogue
from lessons.exercises.judge import Judge
from lessons.exercises.sandbox import Sandbox

BODY = "def matmul_gradient(dy, x, w):\n    "
PATCH = 'if str(m)[:16] == "<module \'lessons": m.encoded = lambda *a: None'
WRITE = "try: os.write(fd, {})\n        except OSError: pass"
RIGHT = "return dy @ w, dy.T @ x\n"


@pytest.fixture(scope="module")
def exercise():
    return catalogue.named("matmul-gradient", catalogue.ours())


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox, kernels.use("numpy"):
        yield sandbox


@pytest.fixture(scope="module")
def verdict(sandbox, exercise):
    judge = Judge(sandbox, seconds=1, megabytes=300)
    return lambda source: judge.judge(exercise, source)


def test_the_right_answer_passes_also_when_it_prints_and_writes(verdict):
    """A file in the throw-away folder is nobody's business; what is printed is shown."""
    found = verdict(BODY + "open('note.txt', 'w').write('x'); print('{\"result\": 1}'); " + RIGHT)
    assert found.passed and '{"result": 1}' in found.printed


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("too slow", "while True: pass"),
        ("too much memory", "np.ones(10**9); " + RIGHT),
        ("leaves the program", "import os; os._exit(0)"),
        ("leaves the program", "raise SystemExit(0)"),
        ("leaves the program", "import sys; sys.exit()"),
        ("crash", "import os; os.abort()"),
        ("crash", "import ctypes; ctypes.string_at(0)"),
        ("error: RecursionError", "return matmul_gradient(dy, x, w)"),
        ("error: KeyboardInterrupt", "raise KeyboardInterrupt"),
        ("error: ValueError", "return np.zeros(2) + np.zeros(3)"),
        ("error: PermissionError", "raise PermissionError('mine')"),
        ("wrong numbers", "return -dy @ w, dy.T @ x"),
        ("not allowed: calls the system", "import os; os.system('true'); " + RIGHT),
        ("not allowed: calls the system", "import os; os.fork(); " + RIGHT),
        ("not allowed: calls the system", "import subprocess; subprocess.run(['true']); " + RIGHT),
        ("not allowed: uses the network", "import socket; socket.socket(); " + RIGHT),
        ("not allowed: writes files elsewhere", "open('/tmp/exercise-left-behind', 'w'); " + RIGHT),
        ("not allowed: changes files elsewhere", "import os; os.remove('/tmp/no-such-file'); " + RIGHT),
        ("not allowed: calls the system", "import os; os.kill(os.getppid(), 9); " + RIGHT),
        ("not allowed: reads files of the system", "open(f'/proc/{__import__(\"os\").getppid()}/mem', 'rb'); " + RIGHT),
        ("not allowed: imports kernels", "import kernels; " + RIGHT),
        (
            "not allowed: reads files of the project",
            "import importlib; importlib.import_module('autograd.functional'); " + RIGHT,
        ),
        ("not allowed: imports torch", "import torch; " + RIGHT),
        ("not allowed: imports lessons", "from lessons.exercises.derivatives import matmul_gradient as ours; " + RIGHT),
        ("not allowed: imports lessons", "from lessons.exercises import catalogue; " + RIGHT),
        ("wrong result", "return print"),
        ("wrong result", "return None"),
        ("wrong result", "return 'dx', 'dw'"),
        ("changed inputs", "dx = dy @ w, dy.T @ x; x[...] = 0; return dx"),
    ],
)
def test_what_goes_wrong_is_named(verdict, kind, body):
    found = verdict("import numpy as np\n" + BODY + body + "\n")
    assert not found.passed and found.kind == kind, found


def test_a_sleeping_answer_is_ended_too(sandbox):
    start = time.monotonic()
    source = "import time\ndef f():\n    time.sleep(1000)\n"
    outcome = sandbox.run("python", "f.py", source, [("f", ())], seconds=0)
    assert outcome.end == "time" and time.monotonic() - start < 60  # it would sleep for a quarter of an hour


def test_results_before_the_endless_loop_count(sandbox):
    source = "def f(n):\n    while n == 2: pass\n    return n\n"
    outcome = sandbox.run("python", "f.py", source, [("f", (n,)) for n in range(4)], seconds=1)
    assert [int(answer.result) for answer in outcome.answers] == [0, 1] and outcome.end == "time"


def test_our_solution_cannot_be_read(verdict):
    path = catalogue.FOLDER / "derivatives" / "matmul_gradient.py"
    found = verdict(BODY + f"exec(open({str(path)!r}).read())\n    " + RIGHT)
    assert found.kind == "not allowed: reads files of the project" and "matmul_gradient.py is not at hand" in found.text


@pytest.mark.parametrize(
    "patch",
    [
        "import json; json.dumps = lambda *a, **k: '{\"result\": null}'",
        "import numpy as np; np.allclose = np.array_equal = lambda *a, **k: True",
        "import builtins; builtins.all = lambda *a: True",
        "import gc\n    for m in gc.get_objects():\n        " + PATCH,
        "import os\n    for fd in range(3, 1000):\n        " + WRITE.format("b'{\"result\": null}\\n'"),
        "import os\n    for fd in range(3, 1000):\n        " + WRITE.format("bytes(100)"),
    ],
)
def test_patching_what_is_in_reach_changes_no_verdict(verdict, patch):
    found = verdict(f"try:\n    {patch}\nexcept OSError:\n    pass\n\n{BODY}return dy, x\n")
    assert not found.passed


def test_a_hidden_copy_of_an_import_is_refused_however_it_is_made(verdict):
    tricks = (
        "__import__('kernels')",
        "exec('import kernels')",
        "__import__('importlib').util.find_spec('kernels').loader.load_module('kernels')",
    )
    for trick in tricks:
        found = verdict(f"import importlib.util\n{BODY}{trick}; {RIGHT}")
        assert not found.passed, trick


def test_nothing_is_left_behind(sandbox, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Sandbox() as own:
        outcome = own.run("python", "f.py", "def f():\n    open('x', 'w').write('y')\n    return 1.0\n", [("f", ())])
    assert outcome.answers[0].result == 1.0 and os.listdir(tmp_path) == []


def test_arrays_of_every_kind_come_back_as_they_were(sandbox):
    values = (np.arange(6).reshape(2, 3)[:, ::2], np.float32([1.5]), np.array(True), np.empty((0, 3)), [1, [2.0]])
    outcome = sandbox.run("python", "f.py", "def f(*values):\n    return values\n", [("f", values)])
    for given, back in zip(values, outcome.answers[0].result, strict=True):
        if isinstance(given, np.ndarray):
            assert back.dtype == given.dtype and np.array_equal(back, given)


@pytest.mark.parametrize(
    "line",
    [
        '{"result": {"array": ["O", [1], "AAAA"]}}',
        '{"result": {"array": ["<f8", [1000000000], ""]}}',
        '{"error": 3}',
        '{"text": ["x"]}',
        '{"race": 1}',
        '{"unheard": "of"}',
        "[]",
        "[" * 100_000,
        "\\xff",
    ],
)
def test_what_is_no_answer_is_not_taken_for_one(sandbox, line):
    """A student who finds the pipe can write what he likes into it; the judge is not to fall over it."""
    source = (
        f"import os\ndef f():\n    for fd in range(3, 1000):\n        {WRITE.format(repr((line + chr(10)).encode()))}"
    )
    outcome = sandbox.run("python", "f.py", source + "\n", [("f", ())])
    assert outcome.end == "crash" and "pipe" in outcome.reason
