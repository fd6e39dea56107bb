"""What the tests of several ranks share: jobs under mpiexec, in processes with time limits."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason="mpi4py or mpiexec is not installed"
)
TINY = ("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "16", "--batch", "6")
WORDS = ("the", "film", "was", "very", "good", "a", "dull", "plot")
LIMIT = 120  # seconds; a job that hangs fails its test
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MINITRANSFORMER_BACKEND": "numpy",
    "PYTHONPATH": str(Path(__file__).with_name("without_pictures")),
}  # fmt: skip


def launched(folder, *arguments):
    return subprocess.Popen(
        [MPIEXEC, *arguments], cwd=folder, env=os.environ | ONE_THREAD, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def started(folder, ranks, *program):
    return launched(folder, "-n", str(ranks), sys.executable, *program)


def ended(process):
    try:
        out, error = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT)  # else its pipes are found open in the middle of another test
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def write_texts(folder):
    """For pretrain, finetune and train-translator; the built-in texts would take longer to make."""
    generator = np.random.default_rng(0)
    texts, reviews, pairs = ([" ".join(generator.choice(WORDS, 7)) for _ in range(count)] for count in (60, 24, 24))
    (folder / "texts").write_text("\n".join(texts))
    (folder / "reviews.tsv").write_text("\n".join(["text\tlabel", *(f"{text}\t{len(text) % 2}" for text in reviews)]))
    (folder / "pairs").write_text("\n".join(f"{text[: 9 + i]}\t{text}" for i, text in enumerate(pairs)))


def tiny(folder):
    """A command that trains for a few moments."""
    write_texts(folder)
    return ["-m", "minitransformer", "pretrain", str(folder / "texts"), *TINY]


def pretrain(folder, ranks, *arguments):
    return started(folder, ranks, *tiny(folder), *arguments)


def until(happened, process):
    limit = time.monotonic() + LIMIT
    while not happened():
        if time.monotonic() > limit or process.poll() is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"waited in vain; {process.communicate()[1]}")
        time.sleep(0.01)


def ranks_of(process):
    """Rank → id of its process. They are the children of a child of mpiexec."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            told = dict(pair.partition("=")[::2] for pair in (entry / "environ").read_text().split("\0"))
            if "PMI_RANK" in told and _parent(_parent(entry.name)) == process.pid:
                found[int(told["PMI_RANK"])] = int(entry.name)
    return found


def _parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
