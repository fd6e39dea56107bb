"""Training on several ranks: the same bytes for any number of them, and a clear end when one of them fails.

The jobs run under mpiexec, in processes with time limits; where mpi4py is not installed, they are left out."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import kernels
from autograd import Tensor
from minitransformer import LanguageModel, __version__
from minitransformer.app.data import ClassifierBatches, LanguageModelBatches
from minitransformer.app.progress import Silent
from minitransformer.app.ranks import Alone, shared
from minitransformer.app.tasks.measures import word_loss
from minitransformer.app.training import Options, train
from minitransformer.app.training.agreement import demand_agreement
from minitransformer.app.training.loop import _fingerprint
from minitransformer.app.training.shares import BLOCK, OwnPart, Shares
from minitransformer.app.training.slices import SlicedSteps
from minitransformer.app.training.tree import Node, add_node, cuts
from minitransformer.errors import TrainingError
from minitransformer.optim import SGD

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason="mpi4py or mpiexec is not installed"
)
JOB = Path(__file__).with_name("ranks_job.py")
TINY = ("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "16", "--batch", "6")
LIMIT = 120  # seconds; a job that hangs fails its test
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MINITRANSFORMER_BACKEND": "numpy"}


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
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def tiny(folder):
    """A command that trains for a few moments; the built-in texts would take longer to make."""
    words, generator = ["the", "film", "was", "very", "good", "a", "dull", "plot"], np.random.default_rng(0)
    (folder / "texts").write_text("".join(f"{' '.join(generator.choice(words, 7))}\n" for _ in range(60)))
    return ["-m", "minitransformer", "pretrain", str(folder / "texts"), *TINY]


def pretrain(folder, ranks, *arguments):
    return started(folder, ranks, *tiny(folder), *arguments)


@pytest.fixture(scope="module")
def digests(tmp_path_factory):
    """Number of ranks → case → digest of all files that it left. One job for all that are not slow."""

    def left_by(*rounds):
        place = tmp_path_factory.mktemp("ranks")
        result = ended(started(place, rounds[0], str(JOB), str(place), *rounds))
        assert result.returncode == 0, result.stderr
        known.update({int(path.stem): json.loads(path.read_text()) for path in place.glob("*.json")})

    def of(ranks):
        if ranks not in known:
            left_by(str(ranks))
        return known[ranks]

    known = {}
    left_by("4", "2,1")
    return of


@needs_mpi
def test_neither_overlap_nor_buckets_change_a_byte(digests):
    of_one = digests(1)
    assert of_one["tied weights"] == of_one["tied weights, no overlap"] == of_one["tied weights, one bucket"]
    assert len(of_one) == 11 and len({*of_one.values()}) == 9


@needs_mpi
@pytest.mark.parametrize("ranks", (4, *(pytest.param(number, marks=pytest.mark.slow) for number in (3, 8))))
def test_every_number_of_ranks_leaves_the_same_files(ranks, digests):
    assert digests(ranks) == digests(1)


@needs_mpi
def test_two_ranks_leave_the_same_files_unless_a_fault_is_built_in(digests):
    of_one, found = digests(1), digests(2)
    faults = {case: digest for case, digest in found.items() if case.startswith("fault: ")}
    assert {case: digest for case, digest in found.items() if case not in faults} == of_one
    assert len(faults) == 7
    for case, digest in faults.items():
        assert digest not in of_one.values(), case


@needs_mpi
@pytest.mark.parametrize(("before", "killed", "after"), [(2, 1, 1), pytest.param(3, 0, 4, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_all_and_other_numbers_of_ranks_go_on(before, killed, after, tmp_path):
    whole = ended(pretrain(tmp_path, 1, "--steps", "20", "--out", "whole"))
    assert whole.returncode == 0, whole.stderr
    out = tmp_path / "cut"
    process = pretrain(tmp_path, before, "--steps", "20", "--out", str(out))
    until(lambda: any(out.glob("step-*[1-9]*.json")), process)
    os.kill(ranks_of(process)[killed], signal.SIGKILL)
    result = ended(process)
    assert result.returncode != 0
    assert re.findall(r"rank (\d) of \d on \S+ has ended without a word", result.stderr) == [str(killed)]
    result = ended(pretrain(tmp_path, after, "--steps", "20", "--out", str(out), "--resume"))
    assert result.returncode == 0, result.stderr
    name = "step-00000020.safetensors"
    assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@needs_mpi
@pytest.mark.parametrize("ranks", (pytest.param(2, marks=pytest.mark.slow), 4))
def test_a_step_sends_no_more_than_an_all_reduce_has_to(ranks, tmp_path):
    result = ended(started(tmp_path, ranks, str(JOB.with_name("bytes_job.py"))))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    least = 2 * (ranks - 1) / ranks * found["numbers"] * 4
    # a share may be one block larger than P/N, and one from each other rank comes; a double for each block, for the
    # norm; in double precision two values and a flag an array for each of 8 slices; the name of the loss's values
    more = ranks * BLOCK * 4 + (found["numbers"] / BLOCK + ranks) * 8 + 8 * (found["arrays"] + 2) * 8 + 100
    received, early, buckets, kept = zip(*found["ranks"], strict=True)
    assert ranks * least <= sum(received) and max(received) <= least + more
    assert max(received) - min(received) < more
    assert sum(kept) == 2 * found["numbers"]  # Adam's m and v, each number once
    assert max(kept) - min(kept) <= 2 * BLOCK
    assert min(early) > 0.5 * buckets[0] > 1  # most left before backward had ended


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


@needs_mpi
def test_a_second_job_is_refused_and_ctrl_c_saves_once_and_says_how_to_go_on(tmp_path):
    first = pretrain(tmp_path, 2, "--steps", "100000", "--out", "run")
    until((tmp_path / "run" / "step-00000000.json").exists, first)
    second = ended(pretrain(tmp_path, 1, "--steps", "100000", "--out", "run", "--resume"))
    assert second.returncode == 2
    assert "another process is training in this folder" in second.stderr
    first.send_signal(signal.SIGINT)
    result = ended(first)
    assert result.stderr.count("stopping after this step") == 1
    assert result.stderr.count("resume with: mpiexec -n 2 ") == 1
    assert "Traceback" not in result.stderr


@needs_mpi
def test_what_is_wrong_on_all_ranks_is_said_once(tmp_path):
    result = ended(pretrain(tmp_path, 2, "--steps", "2", "--slices", "6", "--out", "run"))
    assert result.returncode == 2
    assert result.stderr.strip() == "minitransformer pretrain: slices=6: give a power of two, such as 8"


def other_seed(there):
    return [], ["--seed", "4"], "seed: 4, not 0"


def other_data(there):
    """One word, in the middle."""
    lines = (there / "texts").read_text().splitlines()
    words = lines[30].split()
    lines[30] = " ".join(["good" if words[0] == "plot" else "plot", *words[1:]])
    (there / "texts").write_text("\n".join(lines))
    return [], [], "texts: "


def other_version(there):
    (there / "minitransformer-9.9.dist-info").mkdir()
    (there / "minitransformer-9.9.dist-info" / "METADATA").write_text("Name: minitransformer\nVersion: 9.9\n")
    return ["-env", "PYTHONPATH", str(there)], [], f"minitransformer: 9.9, not {__version__}"


@needs_mpi
@pytest.mark.parametrize(
    "other", (other_data, *(pytest.param(one, marks=pytest.mark.slow) for one in (other_version, other_seed)))
)
def test_ranks_that_differ_are_told_apart_at_the_start(other, tmp_path):
    """Two processes, each with a folder of its own, as on two machines."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        program = tiny(tmp_path / name)
    common = [sys.executable, *program[:3], "texts", *program[4:], "--steps", "2", "--out", "run"]
    launcher, options, difference = other(tmp_path / "there")
    first = ["-n", "1", "-wdir", str(tmp_path / "here"), *common]
    second = ["-n", "1", "-wdir", str(tmp_path / "there"), *launcher, *common, *options]
    result = ended(launched(tmp_path, *first, ":", *second))
    assert result.returncode == 2
    assert f"rank 1 differs from rank 0 in {difference}" in result.stderr
    assert not list(tmp_path.glob("*/run/step-*"))


@needs_mpi
def test_a_rank_that_fails_alone_is_named(tmp_path):
    common = [*tiny(tmp_path), "--steps", "2", "--out", "run"]
    result = ended(started(tmp_path, 1, *common, ":", "-n", "1", sys.executable, *common, "--d-model", "17"))
    assert result.returncode == 2
    assert "17" in result.stderr and result.stderr.strip().endswith("(rank 1 of 2)")
    assert result.stderr.count("\n") == 1


def test_without_mpi4py_a_job_of_mpiexec_ends_in_one_line(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no such module')")
    environment = os.environ | ONE_THREAD | {"PMI_RANK": "0", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, *tiny(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "pip install 'minitransformer[mpi]'" in result.stderr


# ---------------------------------------------------------------------------------------------------- in one process


def test_the_tree_is_the_same_for_every_division():
    """Floats of very different sizes: any other order of additions shows."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(8, 50)).astype(np.float32) * 10.0 ** generator.integers(-6, 6, (8, 50))
    values = values.astype(np.float32)
    s = [*values]
    expected = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    for ranks in range(1, 9):
        bounds, whole = cuts(8, ranks), []
        for rank in range(ranks):
            nodes = []
            for number in range(bounds[rank], bounds[rank + 1]):
                add_node(nodes, Node(number, 1, values[number].copy()))
            for node in nodes:
                add_node(whole, node)
        assert len(whole) == 1
        np.testing.assert_array_equal(whole[0].sum, expected)


@pytest.mark.parametrize("rows", (3, 8, 11))
def test_slices_take_the_steps_of_the_whole_batch(rows):
    """Up to rounding: no mean of means, no slice forgotten, the norm that of the whole."""
    generator = np.random.default_rng(1)
    texts = [generator.integers(4, 20, generator.integers(1, 9)) for _ in range(22)]
    weights, norms = [], []
    for slices in (None, 1, 4, 16):
        with kernels.use("numpy"):
            model = LanguageModel(
                vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10, dropout=0.0, dtype="float64"
            )
            batches = LanguageModelBatches(texts, max_len=10, rows=rows)
            options = Options(max_steps=3, clip=0.5, slices=slices)
            result = train(model, SGD(model.parameters(), lr=0.5), batches, word_loss, options, progress=Silent())
        weights.append(np.concatenate([array.ravel() for array in model.state_dict().values()]))
        norms.append(result.metrics["train"]["grad_norm"])
    for other, norm in zip(weights[1:], norms[1:], strict=True):
        np.testing.assert_allclose(other, weights[0], rtol=0, atol=1e-12)  # float64: some 1e-16 an operation
        assert norm == pytest.approx(norms[0], rel=1e-12)
    assert norms[0] > 0.5  # the clip was at work


def test_a_batch_that_memory_does_not_hold_is_trained_slice_by_slice():
    """Gradients accumulate: only the arrays of one slice are there at a time."""
    texts, most = [np.arange(30) % 16 + 4 for _ in range(64)], []
    for slices in (None, 16):
        with kernels.use("numpy"):
            model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=2, d_ff=16, max_len=32)
            batches, options = LanguageModelBatches(texts, max_len=32, rows=64), Options(max_steps=1, slices=slices)
            tracemalloc.start()
            train(model, SGD(model.parameters(), lr=0.5), batches, word_loss, options, progress=Silent())
            most.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    # a sixteenth of the rows; what does not depend on them (weights, gradients, the texts) is less than an eighth
    assert most[1] < most[0] * (1 / 16 + 1 / 8), most


class Threads(Alone):
    """Ranks that are threads of this process: every method waits until all have come."""

    can_use_threads = True

    def __init__(self, rank, size, desk, barrier):
        self.rank, self.size, self.desk, self.barrier = rank, size, desk, barrier

    def _all(self, given):
        self.desk[self.rank] = given
        self.barrier.wait(LIMIT)
        found = [*self.desk]
        self.barrier.wait(LIMIT)
        return found

    def gathered(self, array):
        assert type(array) is np.ndarray
        return self._all(array)

    def exchanged(self, arrays, lengths):
        return [given[self.rank] for given in self._all(arrays)]


@pytest.mark.parametrize("count", (2, 3, 5))
def test_shares_are_even_and_the_norm_is_the_same_for_every_number_of_ranks(count):
    sizes, generator = ((7, 50), (1,), (300,), (64, 33), (513,)), np.random.default_rng(0)
    parameters = [Tensor(generator.normal(size=size).astype(np.float32), requires_grad=True) for size in sizes]
    numbers = np.concatenate([parameter.numpy().ravel() for parameter in reversed(parameters)])
    alone, many = Shares(parameters, 1), Shares(parameters, count)
    many.message = 256
    many.__init__(parameters, count)
    own = [np.concatenate([numbers[bucket[rank]] for bucket in many.buckets]) for rank in range(count)]
    assert sum(map(len, own)) == len(numbers)
    assert max(map(len, own)) - min(map(len, own)) <= BLOCK
    with ThreadPoolExecutor(count) as pool:
        desk, barrier = [None] * count, threading.Barrier(count)
        found = pool.map(lambda rank: many.sum_of_squares(own[rank], Threads(rank, count, desk, barrier)), range(count))
        assert {*found} == {alone.sum_of_squares(numbers, Alone())}
    assert alone.sum_of_squares(numbers, Alone()) == pytest.approx((numbers.astype(np.float64) ** 2).sum(), rel=1e-13)
    pieces = [piece for of_rank in many.pieces for piece in of_rank]
    taken = [np.zeros(parameter.size, int) for parameter in many.parameters]
    for piece in pieces:
        taken[piece.array][piece.first : piece.last] += 1
    assert all((one == 1).all() for one in taken)


@pytest.mark.parametrize("differs", ("the data", "numpy", "seed", None))
def test_what_two_ranks_have_to_agree_on(differs):
    desk, barrier = [None] * 2, threading.Barrier(2)
    told = {"the data": "5f1c", "versions": {"numpy": "2.0"}, "options": {"seed": 0}}
    other = {"the data": "5f1d"} if differs == "the data" else {"versions": {"numpy": "2.1"}}
    other = {"options": {"seed": 1}} if differs == "seed" else {} if differs is None else other

    def work(rank):
        demand_agreement(Threads(rank, 2, desk, barrier), told | other if rank else told)

    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(work, rank) for rank in range(2)]:
            error = ended.exception(LIMIT)
            assert (error is None) == (differs is None)
            assert error is None or f"rank 1 differs from rank 0 in {differs}: " in str(error)


def test_data_that_differ_after_the_first_batch_are_noticed():
    texts = [np.arange(4, 8) + i for i in range(9)]
    found = set()
    for last_text, last_label in ((texts[8], 0), (texts[8], 1), (texts[0], 0)):
        labels = [*[0, 1] * 4, last_label]
        found.add(_fingerprint(ClassifierBatches([*texts[:8], last_text], labels, max_len=8, rows=2, shuffle=False)))
    assert len(found) == 3


def test_more_ranks_than_slices_are_refused():
    model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10)
    with pytest.raises(TrainingError, match="3 ranks cannot share 2 slices of a batch: .* give --slices 4"):
        SlicedSteps(model, SGD(model.parameters()), word_loss, 2, 0, None, Threads(0, 3, [], None))


def test_an_optimizer_that_needs_whole_arrays_is_refused():
    class OfWholeArrays(SGD):
        by_number = False

    model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10)
    shares = Shares(model.parameters(), 2)
    with pytest.raises(TrainingError, match="OfWholeArrays needs whole arrays, and 2 ranks divide them"):
        OwnPart(OfWholeArrays(model.parameters()), shares, Threads(0, 2, [], None))


def test_weights_that_lie_transposed_are_updated_too():
    """A view of part of them would be a copy, and the update lost."""
    weight = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    weight.data = np.asfortranarray(weight.numpy())
    part = OwnPart(SGD([weight], lr=1.0), Shares([weight], 1), Alone())
    part.take_state()
    part.step(np.ones(6), np.array([True]), 1.0, 1.0)
    np.testing.assert_array_equal(weight.numpy(), np.arange(6.0).reshape(2, 3) - 1)


class OnCard:
    """An array that lies elsewhere: NumPy cannot read it, as with CuPy's."""

    __array__ = None

    def __init__(self, values):
        self.values = values

    def __getattr__(self, name):
        return getattr(self.values, name)

    def reshape(self, *shape):
        return OnCard(self.values.reshape(*shape))

    def copy(self):
        return OnCard(self.values.copy())

    def __getitem__(self, key):
        return OnCard(self.values[key])

    def __setitem__(self, key, given):
        assert isinstance(given, OnCard)
        self.values[key] = given.values


class Card:
    """The backend of such arrays."""

    @staticmethod
    def to_numpy(array):
        assert isinstance(array, OnCard)
        return array.values.copy()

    @staticmethod
    def asarray(array):
        return OnCard(np.array(array))


def test_arrays_of_a_card_go_through_the_memory_of_the_host():
    """What other ranks are sent is NumPy's, and what comes from them is brought back to the card."""
    message, Shares.message = Shares.message, BLOCK
    desk, barrier = [None] * 2, threading.Barrier(2)

    def work(rank):
        ranks = Threads(rank, 2, desk, barrier)
        weights = [Tensor.holding(OnCard(np.full(shape, rank, np.float32)), Card()) for shape in ((30, 40), (7,))]
        part = OwnPart(SGD(weights, momentum=0.9), Shares(weights, 2), ranks)
        part.take_state()
        part.share_weights()
        return np.concatenate([weight.array.values.ravel() for weight in reversed(weights)])

    try:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(work, range(2))
    finally:
        Shares.message = message
    np.testing.assert_array_equal(first, second)
    assert {*first} == {0.0, 1.0}  # each rank has brought its own


def test_shared_is_a_map_on_one_rank():
    assert shared(lambda number: (number, number**2), range(4)) == [[0, 0], [1, 1], [2, 4], [3, 9]]
    assert shared(lambda number: (number,), []) == []
