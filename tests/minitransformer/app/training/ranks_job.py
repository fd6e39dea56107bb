"""Trains small models on the ranks that mpiexec started, and writes down a digest of everything each run has left:
weights, optimizer state, metrics and checkpoints, times taken out.

    ranks_job.py 4 2,1    on 4 ranks; then on two of them and, at the same time, on one

N.json is what N ranks have left; two of them also try some faults. program.py and the command lines of commands.json
are run as well, and these go on with what the ranks of the first round have left. It is one job, because most of the
time goes into starting processes. Started by test_ranks.py."""

import copy
import hashlib
import json
import math
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from bytes_job import received_for_a_step

import autograd.functional as F
import kernels
from minitransformer import Bert, Classifier, LanguageModel, Translator
from minitransformer.app import ranks
from minitransformer.app.cli.main import main as command_line
from minitransformer.app.data import ClassifierBatches, LanguageModelBatches, TranslationBatches
from minitransformer.app.data.batches import BertBatch
from minitransformer.app.progress import Pace, Silent
from minitransformer.app.tasks import measures
from minitransformer.app.training import Options, loop, run, train
from minitransformer.app.training.ranks import sending, shares, slices, tree
from minitransformer.optim import SGD, Adam

SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 12, "max_len": 12, "dropout": 0.3, "seed": 3}
TIMES = ("seconds", "cpu_seconds", "check")


def documents(count, longest=10, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 20, generator.integers(1, longest)) for _ in range(count)]


class BertRows:
    """Batches of five rows, padded, and slices without a hidden word in them."""

    def count(self, epoch=0):
        return 4

    def epoch(self, epoch=0, start=0):
        for number in range(start, 4):
            generator = np.random.default_rng([epoch, number])
            lengths = generator.integers(3, 9, 5)
            ids = np.where(np.arange(9) < lengths[:, None], generator.integers(4, 20, (5, 9)), 1)
            hidden = (generator.random((5, 9)) < 0.2) & (np.arange(9) < lengths[:, None])
            hidden[number % 5], hidden[(number + 1) % 5, 0] = False, True
            targets = np.where(hidden, ids, 1)
            yield BertBatch(ids, (np.arange(9) > 3) * np.ones_like(ids), lengths, targets, ids[:, 0] % 2, lengths, 1)


def language_model(rows, **more):
    batches = LanguageModelBatches(documents(22), max_len=10, rows=rows, seed=1)
    held_back = LanguageModelBatches(documents(9, seed=5), max_len=10, rows=2, shuffle=False)
    model = LanguageModel(vocab_size=20, n_layers=1, **SMALL | more)
    return model, batches, measures.word_loss, lambda model: measures.language_model_loss(model, held_back.epoch())


def classifier():
    texts = documents(21)
    batches = ClassifierBatches(texts, [len(text) % 3 for text in texts], max_len=10, rows=6, seed=1)

    def loss(model, batch):
        logits = model(batch.ids, batch.lengths).numpy()
        return model.loss(batch.ids, batch.labels, batch.lengths), {
            "accuracy": (logits.argmax(1) == batch.labels).mean()
        }

    model = Classifier(vocab_size=20, n_classes=3, n_layers=1, **SMALL)
    return model, batches, loss, lambda model: measures.classifier_scores(model, batches.epoch())


def translator():
    batches = TranslationBatches(documents(20), documents(20, seed=2), max_len=10, rows=7, seed=1)
    model = Translator(source_vocab=20, target_vocab=20, n_encoder=1, n_decoder=1, **SMALL)
    return model, batches, measures.translation_loss, lambda model: measures.translator_loss(model, batches.epoch())


def bert():
    model = Bert(vocab_size=20, n_layers=1, **SMALL)

    def loss(model, batch):
        words, following = model(batch.ids, batch.segments, batch.lengths)
        hidden = F.cross_entropy(words, batch.masked_targets, batch.ignore) if batch.counts()[0] else None
        return [hidden, F.cross_entropy(following, batch.next_labels)]

    return model, BertRows(), loss, None


CASES = {
    "padded, rows that no number of ranks divides": lambda: language_model(11),
    "fewer rows than slices": lambda: language_model(3),
    "tied weights": lambda: language_model(8, tie_weights=True),
    "double precision": lambda: language_model(8, dtype="float64"),
    "classifier": classifier,
    "translator": translator,
    "Bert, slices without a hidden word": bert,
}


class StepsAreSeconds(Pace):
    """Then tokens per second are a count, that of the last step, and can be compared."""

    def __init__(self):
        super().__init__(window=1)

    def add(self, tokens, values):
        self._steps.append((1.0, tokens, values))


# ---------------------------------------------------------------------------------------------------- faults
# Each is a mistake that programs of this kind have made; the digests must then differ from those of one rank.

FAULTY = next(iter(CASES))
STEPS = slices.SlicedSteps
_send_gradients, _seed, _begin = STEPS._send_gradients, STEPS._seed, sending.Sending.begin


def mean_of_means(self, step, batch):
    mine, bounds = self.slices_of(self.ranks.rank), tree.cuts(batch.rows(), self.slices)
    own = batch.part(bounds[mine[0]], bounds[mine[-1] + 1]).counts()
    batch = copy.copy(batch)
    object.__setattr__(batch, "counts", lambda: tuple(max(1, count) * self.ranks.size for count in own))
    return _send_gradients(self, step, batch)


def reduced_too_early(self, nodes):
    *nodes, last = nodes  # what it will become is not waited for
    _begin(self, [*nodes, tree.Node(last.first, last.width, last.sum.copy())])


def sent_too_early(self, array):
    self.ready |= dict.fromkeys(self.buckets_of[array])  # other arrays of the bucket are not final yet
    self._send_ready()
    for one in self.sent:
        one and one.result()


def local_norm(self, gradient):
    return math.sqrt(shares._block_sums(gradient).sum())


def own_tokens(batch):
    return int(batch.lengths[ranks._training.rank :: ranks._training.size].sum())


def as_they_come(nodes, node):
    if nodes:
        nodes[0].sum += node.sum
    else:
        nodes.append(node)


FAULTS = {
    "mean of means": (STEPS, "_send_gradients", mean_of_means),
    "one dropout seed for all ranks": (
        STEPS, "_seed", lambda self, step, n: _seed(self, step, n - self.slices_of(self.ranks.rank)[0] if n else 0),
    ),
    "clip by the local norm": (STEPS, "_norm", local_norm),
    "a missing broadcast": (shares.OwnPart, "share_weights", lambda self: None),
    "summing as they come": (tree, "add_node", as_they_come),
    "reduction before accumulation has ended": (sending.Sending, "begin", reduced_too_early),
    "a bucket that leaves before it is full": (sending.Sending, "is_final", sent_too_early),
    "tokens of rank 0 only": (loop, "count_tokens", own_tokens),
}  # fmt: skip


def without_times(value):
    """Nor the checksum of a file that holds times."""
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in TIMES}
    return value


def digest(folder):
    known = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        if path.suffix == ".safetensors":
            known.update(path.name.encode() + path.read_bytes())
        elif path.suffix in (".json", ".jsonl"):
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            known.update(json.dumps([path.name, *(without_times(json.loads(line)) for line in lines)]).encode())
    return known.hexdigest()[:12]


def left_by(case, everybody, folder, optimizer=Adam, count=8):
    model, batches, loss_of, evaluate = CASES[case]()
    made = optimizer(model.named_parameters(), lr=1e-2)
    options = Options(max_steps=2, clip=0.1, save_every=1, evaluate_every=1, log_every=2, slices=count)
    train(
        model, made, batches, loss_of, options, evaluate=evaluate, folder=folder, ranks=everybody, progress=Silent()
    )  # fmt: skip
    return digest(folder) if everybody.rank == 0 else ""


def commands(everybody, first):
    """What a program and command lines leave, and what these ranks make of what the first ones have left, without its
    last checkpoint. Their folder: first"""
    found = {}
    with changed(ranks, "_world", everybody):
        exec((first.parent / "program.py").read_text(), {})
    if everybody.rank == 0:
        found["program.py"] = digest("runs/mine")
    for name, words in json.loads((first.parent / "commands.json").read_text()).items():
        again = f"{name}, gone on with"
        with changed(ranks, "_world", everybody):
            assert command_line([*words, "--out", name]) == 0
            if everybody.rank == 0:
                shutil.copytree(first / name, again)
                newest = max(path.stem for path in Path(again).glob("step-*"))
                for path in Path(again).glob(f"{newest}.*"):
                    path.unlink()
            everybody.greatest(0)  # the others wait for that
            assert command_line([*words, "--out", again, "--resume"]) == 0
        found |= {out: digest(out) for out in (name, again) if everybody.rank == 0}
    return found


def main():
    from mpi4py import MPI

    rounds, place = sys.argv[1:], Path.cwd()
    kernels.use("numpy")
    run.draw_curve = lambda *given: None  # a picture has the time in it, and takes longer to draw than all steps
    loop.Pace = StepsAreSeconds
    shares.Shares.message = shares.BLOCK  # these models are small: so that they have several buckets
    world = ranks.world()
    for sizes in rounds:
        groups = [size for size in map(int, sizes.split(",")) for _ in range(size)]  # for each rank that takes part
        size = groups[world.rank] if world.rank < len(groups) else 0
        everybody = ranks.Mpi(MPI.COMM_WORLD.Split(size))
        if size:
            os.makedirs(place / f"of {size}", exist_ok=True)
            os.chdir(place / f"of {size}")
            left = digests(everybody) | commands(everybody, place / f"of {rounds[0]}")
            found = {"left": left, "sent": received_for_a_step(everybody)}
            if everybody.rank == 0:
                (place / f"{size}.json").write_text(json.dumps(found))
        all_done = MPI.COMM_WORLD.Ibarrier()
        while not all_done.Test():
            time.sleep(0.01)


def digests(everybody):
    found = {}
    for case in CASES:
        found[case] = left_by(case, everybody, case)
    found["momentum"] = left_by("classifier", everybody, "sgd", lambda p, lr: SGD(p, lr, 0.9))
    # more slices than ranks, also where there are eight: each accumulates the gradients of two, and some have no target
    found["sixteen slices"] = left_by(FAULTY, everybody, "sixteen", count=16)
    with changed(sending.Sending, "overlap", False):
        found["tied weights, no overlap"] = left_by("tied weights", everybody, "no overlap")
    with changed(shares.Shares, "message", 2**16):
        found["tied weights, one bucket"] = left_by("tied weights", everybody, "one bucket")
    for name, (owner, attribute, wrong) in FAULTS.items() if everybody.size == 2 else ():
        with changed(owner, attribute, wrong):
            found[f"fault: {name}"] = left_by(FAULTY, everybody, name)
    return found


@contextmanager
def changed(owner, attribute, value):
    former = getattr(owner, attribute)
    setattr(owner, attribute, value)
    yield
    setattr(owner, attribute, former)


if __name__ == "__main__":
    main()
