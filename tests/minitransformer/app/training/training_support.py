"""A tiny training run for the tests, and the process that starts it over and over and kills it.

As a script:  training_support.py random FOLDER SEED KILLS | places FOLDER | train FOLDER STEPS
Everything is imported once and each run is forked from there, so that even a life of 10 ms reaches the training."""

import builtins
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time

import numpy as np

import kernels
import minitransformer.app.training.run
from minitransformer.app.data import LanguageModelBatches
from minitransformer.app.progress import Lines, Silent
from minitransformer.app.training import Options, train
from minitransformer.app.training.checkpoints import RunFolder, read
from minitransformer.models import LanguageModel
from minitransformer.optim import Adam, warmup_cosine

STEPS = 40


def tiny_model(**changes):
    settings = {"vocab_size": 12, "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "dropout": 0.3, "max_len": 8}
    return LanguageModel(**(settings | changes))


def tiny_batches(seed=5, documents=21):
    generator = np.random.default_rng(seed)
    texts = [generator.integers(4, 12, generator.integers(2, 7)) for _ in range(documents)]
    return LanguageModelBatches(texts, max_len=8, rows=3, seed=seed)  # 7 batches an epoch: no multiple of the rest


def loss_of(model, batch):
    return model.loss(batch.ids, batch.targets, ignore_index=batch.ignore)


def evaluate(model):
    return sum(float(loss_of(model, batch)) for batch in tiny_batches(6).epoch(0)) / 7


def tiny_run(folder, steps=STEPS, resume=None, model=None, optimizer=None, source=None, loss=loss_of, **changes):
    """Trains, or goes on if there is a checkpoint; returns the model and the result."""
    model = tiny_model() if model is None else model
    extra = {name: changes.pop(name) for name in ("progress", "resume_command", "settings") if name in changes}
    scoring = changes.pop("evaluate", evaluate)
    options = {"max_steps": steps, "evaluate_every": 5, "save_every": 1, "log_every": 4} | changes
    result = train(
        model,
        Adam(model.named_parameters(), lr=0.01) if optimizer is None else optimizer,
        tiny_batches() if source is None else source,
        loss,
        Options(**options),
        schedule=warmup_cosine(5, STEPS),
        evaluate=scoring,
        folder=None if folder is None else str(folder),
        resume=bool(folder and RunFolder(folder).steps()) if resume is None else resume,
        **({"progress": Silent()} | extra),
    )
    return model, result


def digest(state):
    """SHA-256 over names and bytes of all arrays."""
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(name.encode() + str(state[name].shape).encode() + state[name].tobytes())
    return total.hexdigest()


def saved_digest(folder):
    """Weights and moments of the latest checkpoint, its random state, its position, and the metrics without times."""
    checkpoint = RunFolder(folder).latest()
    arrays = digest(checkpoint.load(""))
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    times = ("seconds", "cpu_seconds", "tokens_per_second")
    timeless = [{k: v for k, v in line.items() if k not in times} for line in lines]
    return [arrays, checkpoint.model, checkpoint.step, checkpoint.epoch, checkpoint.batch, checkpoint.best, timeless]


def forked(work):
    """Runs work() in a child; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def ended_well(pid):
    """True: done; False: killed; anything else is a failure of the run itself."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"a run ended with {status}")
    return status == 0


def kill_at_random(folder, seed, wanted):
    """Runs to the end again and again, each life cut off after some milliseconds, until `wanted` kills."""
    generator = random.Random(seed)
    kills = half_written = runs = 0
    ends = []
    while kills < wanted:
        here = os.path.join(folder, str(runs))
        fruitless, before = 0, -1
        while True:
            pid = forked(lambda here=here: tiny_run(here))
            time.sleep(generator.uniform(0.010, 0.060 + 0.050 * fruitless))  # longer while the run does not advance
            os.kill(pid, signal.SIGKILL)  # not yet waited for: the number cannot belong to anybody else
            if ended_well(pid):
                break
            kills += 1
            names = os.listdir(here) if os.path.isdir(here) else []
            steps = RunFolder(here).steps()
            orphans = sum(name.endswith(".safetensors") for name in names) - len(steps)
            half_written += any(name.endswith(".tmp") for name in names) or orphans > 0
            now = steps[-1] if steps else -1
            fruitless, before = (0 if now > before else fruitless + 1), now
        runs += 1
        ends.append(saved_digest(here))
    print(json.dumps({"kills": kills, "half_written": half_written, "runs": runs, "ends": ends}))


class Mortal:
    """Counts what a process asks of the disk, and kills it in the middle of request number `last`."""

    def __init__(self, last):
        self.left = last

    def request(self, work=lambda: None):
        self.left -= 1
        if self.left == 0:
            work()
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        for name in ("fsync", "replace", "unlink", "open"):
            setattr(os, name, self._wrapped(getattr(os, name)))
        former = builtins.open

        def opened(file, mode="r", *arguments, **options):
            result = former(file, mode, *arguments, **options)
            return MortalFile(result, self) if str(file).endswith(".tmp") else result

        builtins.open = opened

    def _wrapped(self, function):
        def call(*arguments, **options):
            self.request()
            return function(*arguments, **options)

        return call


class PassingFile:
    """An open file that passes everything on; a subclass looks at some of it."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __iter__(self):
        return iter(self.file)


class MortalFile(PassingFile):
    """A file whose first, second and tenth write can be cut in half."""

    def __init__(self, file, mortal):
        super().__init__(file)
        self.mortal, self.writes = mortal, 0

    def write(self, data):
        self.writes += 1
        if self.writes in (1, 2, 10):
            self.mortal.request(lambda: (self.file.write(bytes(data)[: len(data) // 2]), self.file.flush()))
        return self.file.write(data)


def kill_at_every_place(folder):
    """A run of 12 steps that stopped at step 4 goes on, and is killed at its first request to the disk; then another
    one at its second, and so on through the whole checkpoint of step 5, with an evaluation before it."""
    start = os.path.join(folder, "start")
    assert ended_well(forked(lambda: tiny_run(start, steps=4)))
    ends, kills, place = [], 0, 0
    while True:
        here = os.path.join(folder, str(place))
        shutil.copytree(start, here)

        def doomed(here=here, place=place):
            if place:  # the run in folder 0 is left in peace, for comparison
                Mortal(place).install()
            tiny_run(here, steps=12)

        kills += not ended_well(forked(doomed))
        steps = RunFolder(here).steps()
        for step in steps:  # not only the latest one is whole
            read(RunFolder(here).file(step))
        assert ended_well(forked(lambda here=here: tiny_run(here, steps=12)))
        ends.append(saved_digest(here))
        if place and steps[-1] > 5:
            break
        place += 1
    print(json.dumps({"kills": kills, "places": place, "ends": ends}))


if __name__ == "__main__":
    kernels.use("numpy")
    task, target, *numbers = sys.argv[1:]
    if task != "train":
        minitransformer.app.training.run.draw_curve = lambda *_: None  # half a second a life for each
    if task == "random":
        kill_at_random(target, *map(int, numbers))
    elif task == "places":
        kill_at_every_place(target)
    else:
        progress = Lines(seconds=0)
        outcome = tiny_run(target, int(numbers[0]), progress=progress, resume_command="train again --resume")[1]
        sys.exit(128 + outcome.signal if outcome.interrupted else 0)
