"""Kernels among threads, tasks and processes: forked children work, choices stay where they were made, and the number
of threads is what it was whatever happens."""

import asyncio
import contextvars
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numba
import numpy as np
import pytest

import kernels
from autograd import Tensor, no_grad

ROOT = Path(__file__).parents[2]
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
WORK = """
import multiprocessing, os, sys, threading
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import kernels
fast, rng = kernels.backend("{backend}"), np.random.default_rng(0)
x, w = rng.standard_normal((400, 200)).astype("f4"), rng.standard_normal((300, 200)).astype("f4")

def work(_=None):
    y = fast.softmax(fast.linear(x, w, None))
    return b"".join(part.tobytes() for part in (y, *fast.linear_backward(y, x, w, True)))

def report(queue):
    queue.put(work())

def grandchild(_):
    with context.Pool(1) as pool:
        return pool.map(work, range(1))[0]

context = multiprocessing.get_context("fork")
expected = work()
{code}
assert work() == expected
print("fine")
"""
WAYS = {
    "Pool": "with context.Pool(2) as pool:\n    assert pool.map(work, range(4)) == [expected] * 4",
    "Process": "queue = context.Queue()\nprocess = context.Process(target=report, args=(queue,))\nprocess.start()\n"
    "assert queue.get(timeout=100) == expected\nprocess.join()\nassert process.exitcode == 0",
    "concurrent.futures": "with ProcessPoolExecutor(2, mp_context=context) as pool:\n"
    "    assert list(pool.map(work, range(4))) == [expected] * 4",
    "a child of a child": "with ProcessPoolExecutor(1, mp_context=context) as pool:\n"
    "    assert list(pool.map(grandchild, range(1))) == [expected]",
}

# The same while two other threads call kernels all the time, so that there is no moment in which nobody does.
BUSY = """
stop, calls = threading.Event(), []
def busy():
    while not stop.is_set():
        calls.append(work() == expected)
others = [threading.Thread(target=busy) for _ in range({threads})]
[other.start() for other in others]
for _ in range({times}):
    {way}
    before = len(calls)
    while len(calls) < before + 4: pass  # the parent's threads go on
stop.set()
[other.join() for other in others]
assert all(calls)
"""
FORK_ITSELF = "child = os.fork()\nif child == 0:\n    os._exit(0 if work() == expected else 1)\n"
FORK_ITSELF += "assert os.waitpid(child, 0)[1] == 0"


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "MINITRANSFORMER_QUIET": "1", **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400)


@FORK
@pytest.mark.parametrize(
    ("way", "layer"),
    [*((way, "omp") for way in WAYS), ("Pool", "workqueue"),
     *(pytest.param(way, "workqueue", marks=pytest.mark.slow) for way in WAYS if way != "Pool")],
)  # fmt: skip
def test_a_forked_child_computes_the_same_bits(way, layer):
    """After the parent has used kernels, whose threads the child does not have."""
    result = run(WORK.format(code=WAYS[way], backend="numba"), NUMBA_THREADING_LAYER=layer)
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


@FORK
@pytest.mark.parametrize(
    ("way", "name"),
    [("os.fork", "numba"), ("Pool", "numba"), ("Pool", "numpy"),
     *(pytest.param(way, "numba", marks=pytest.mark.slow) for way in WAYS if way != "Pool")],
)  # fmt: skip
def test_a_fork_waits_for_kernels_of_other_threads(way, name):
    """A child that is forked in the midst of one inherits locks that nobody there will ever open."""
    code = textwrap.indent(WAYS.get(way, FORK_ITSELF), "    ").strip()
    times = 8 if way == "os.fork" else 2
    code = BUSY.format(way=code, threads=2, times=times)
    result = run(WORK.format(code=code, backend=name), NUMBA_THREADING_LAYER="omp")
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


@FORK
def test_a_fork_into_a_kernel_that_does_not_end_is_told():
    """The child refuses to compute, at once; the parent goes on."""
    code = """
from kernels import forks
forks.PATIENCE = 0.1
release = threading.Event()
stuck = threading.Thread(target=forks.finished_before_forks(release.wait))
stuck.start()
child = os.fork()
if child == 0:
    try:
        work()
    except kernels.BackendError as error:
        os._exit(7 if "get_context('spawn')" in str(error) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
release.set()
"""
    result = run(WORK.format(code=code, backend="numba"), NUMBA_THREADING_LAYER="omp")
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")


def test_an_unknown_threading_layer_is_one_clear_error():
    code = "import numpy as np, kernels\ntry: kernels.backend('numba').softmax(np.ones((2, 3)))\n"
    code += "except kernels.BackendError as error: print(error)"
    result = run(code, NUMBA_THREADING_LAYER="nonsense")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(
        "NUMBA_THREADING_LAYER='nonsense' in the environment: Numba cannot start its threads"
    )
    assert result.stdout.count("\n") == 1 and "or leave it unset" in result.stdout


def test_workqueue_refuses_a_second_thread():
    """Numba would abort the process."""
    code = """
import threading, numpy as np, kernels
fast, x, said = kernels.backend("numba"), np.ones((2000, 300)), []
fast.softmax(x)
def work():
    try:
        for _ in range(200): fast.softmax(x)
    except kernels.BackendError as error:
        said.append(str(error))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
fast.softmax(x)
print(said[0])
"""
    result = run(code, NUMBA_THREADING_LAYER="workqueue")
    assert result.returncode == 0, result.stderr
    assert "'workqueue' serves one Python thread at a time" in result.stdout
    assert "set NUMBA_THREADING_LAYER=omp" in result.stdout


# --------------------------------------------------------------------------------------- choices and where they hold


def state() -> tuple[str, bool]:
    x = Tensor(np.ones(2), requires_grad=True)
    return kernels.current().name, (x * x).requires_grad


def test_choices_hold_in_their_thread():
    """Two threads, each inside its own `with` while the other leaves; a third one has chosen nothing."""
    default, meet, seen = state(), threading.Barrier(2, timeout=60), {}

    def first():
        with kernels.use("numpy"), no_grad():
            meet.wait()  # both are inside
            meet.wait()  # the other has left
            seen["first"] = state()
        seen["first, after"] = state()

    def second():
        with kernels.use("emulated" if "emulated" in kernels.available() else "numba"):
            meet.wait()
            seen["third"] = ThreadPoolExecutor(1).submit(state).result()
        meet.wait()
        seen["second"] = state()

    threads = [threading.Thread(target=one) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"first": ("numpy", False), "first, after": default, "second": default, "third": default}
    assert state() == default


def test_choices_hold_in_their_task():
    """Two tasks of one thread take turns inside their blocks; a task begins with what its starter had."""
    default = state()

    async def inside(name, gradients):
        for _ in range(3):
            with kernels.use(name), nullcontext() if gradients else no_grad():
                await asyncio.sleep(0)
                assert state() == (name, gradients)
                await asyncio.sleep(0)
                assert await asyncio.create_task(later()) == (name, gradients)
            assert state() == default

    async def later():
        return state()

    async def both():
        await asyncio.gather(inside("numpy", False), inside("numba", True))

    asyncio.run(both())
    assert state() == default


def test_a_thread_can_be_given_the_choice():
    with kernels.use("numpy"), no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(contextvars.copy_context().run, state).result() == ("numpy", False)


def test_an_exception_anywhere_leaves_the_number_of_threads_as_it_was():
    """Ctrl-C is raised where Python looks for signals: at the start of a function and after each call in it. All
    these places in one call of a kernel are tried, one after another."""
    fast, x = kernels.backend("numba"), np.ones((64, 64))
    fast.linear(x, x, None)
    former = numba.get_num_threads()
    place, raised = 0, True
    while raised:
        place, seen, raised = place + 1, 0, False

        def profile(frame, event, _argument, place=place):
            nonlocal seen, raised
            if event in ("call", "return", "c_return") and "kernels/cpu" in frame.f_code.co_filename:
                seen += 1
                if seen == place:
                    raised = True
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            fast.linear(x, x, None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert numba.get_num_threads() == former, f"place {place}"
    assert place > 10  # there were places to try
