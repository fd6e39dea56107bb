"""Training on several ranks: the same bytes for any number of them, and a clear end when one of them fails.

The jobs run under mpiexec, in processes with time limits; where mpi4py is not installed, they are left out."""

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest
from ranks_support import (
    MPIEXEC,
    TINY,
    ended,
    launched,
    needs_mpi,
    pretrain,
    ranks_of,
    started,
    tiny,
    until,
    write_texts,
)  # fmt: skip
from snippets import snippets

from minitransformer import __version__
from minitransformer.app.training.ranks.shares import BLOCK

PAGE = Path(__file__).parents[4] / "docs" / "ranks.md"
JOB = Path(__file__).with_name("ranks_job.py")


# what is typed after `mpiexec -n N minitransformer`, one folder below the texts
DROPOUT = ("--dropout", "0.2")
COMMANDS = {
    "pretrain": ["pretrain", "../texts", *TINY, "--steps", "24"],
    "masked": ["pretrain", "../texts", "--objective", "masked", *TINY, *DROPOUT, "--steps", "3"],
    "finetune": ["finetune", "../reviews.tsv", "--from", "pretrain", "--batch", "7", *DROPOUT, "--steps", "3"],
    "train-translator": ["train-translator", "../pairs", *TINY, *DROPOUT, "--tie-weights", "--steps", "3"],
}


class Job:
    """What jobs of several numbers of ranks have left. One job for all that are not slow."""

    def __init__(self, places):
        self.places, self.said, self.known = places, "", {}
        self.run("4", "2,1")

    def run(self, *rounds):
        place = self.places.mktemp("ranks")
        write_texts(place)
        (place / "program.py").write_text(snippets(PAGE)[0].code)
        (place / "commands.json").write_text(json.dumps(COMMANDS))
        result = ended(started(place, rounds[0], str(JOB), *rounds))
        assert result.returncode == 0, result.stderr
        self.said = self.said or result.stderr
        for path in place.glob("[0-9].json"):
            self.known[int(path.stem)] = json.loads(path.read_text()) | {"folder": place / f"of {path.stem}"}

    def of(self, ranks):
        if ranks not in self.known:
            self.run(str(ranks))
        return self.known[ranks]

    def digests(self, ranks):
        """Case → digest of all files."""
        return self.of(ranks)["left"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return Job(tmp_path_factory)


@needs_mpi
def test_neither_overlap_nor_buckets_nor_an_end_in_between_change_a_byte(job):
    of_one = job.digests(1)
    assert of_one["tied weights"] == of_one["tied weights, no overlap"] == of_one["tied weights, one bucket"]
    for command in COMMANDS:
        assert of_one[command] == of_one[f"{command}, gone on with"]
    assert len(of_one) == 20 and len({*of_one.values()}) == 14


@needs_mpi
@pytest.mark.parametrize("ranks", (4, *(pytest.param(number, marks=pytest.mark.slow) for number in (3, 8))))
def test_every_number_of_ranks_leaves_the_same_files(ranks, job):
    assert job.digests(ranks) == job.digests(1)


@needs_mpi
def test_two_ranks_leave_the_same_files_unless_a_fault_is_built_in(job):
    of_one, found = job.digests(1), job.digests(2)
    faults = {case: digest for case, digest in found.items() if case.startswith("fault: ")}
    assert {case: digest for case, digest in found.items() if case not in faults} == of_one
    assert len(faults) == 8
    for case, digest in faults.items():
        assert digest not in of_one.values(), case


@needs_mpi
def test_rank_0_speaks_for_all(job):
    """Each of three groups of ranks has run four commands, gone on with what was left, and run a program."""
    assert job.said.count("step 1/") == 3 * (4 + 1)  # the first step is shown at once
    assert job.said.count("resuming") == 3 * 4
    assert job.said.count("done after") == 3 * (4 + 4 + 1)


@needs_mpi
@pytest.mark.parametrize(("before", "killed", "after"), [(2, 1, 1), pytest.param(3, 0, 4, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_all_and_other_numbers_of_ranks_go_on(before, killed, after, tmp_path, job):
    out = tmp_path / "cut"
    process = pretrain(tmp_path, before, "--steps", "24", "--out", str(out))
    until(lambda: len(ranks_of(process)) == before, process)
    ranks = ranks_of(process)
    until(lambda: any(out.glob("step-*[1-9]*.json")), process)
    os.kill(ranks[killed], signal.SIGKILL)
    result = ended(process)
    assert result.returncode != 0
    assert re.findall(r"rank (\d) of \d on \S+ has ended without a word", result.stderr) == [str(killed)]
    result = ended(pretrain(tmp_path, after, "--steps", "24", "--out", str(out), "--resume"))
    assert result.returncode == 0, result.stderr
    name = "step-00000024.safetensors"
    assert (out / name).read_bytes() == (job.of(1)["folder"] / "pretrain" / name).read_bytes()


@needs_mpi
@pytest.mark.parametrize("ranks", (2, 4))
def test_a_step_sends_no_more_than_an_all_reduce_has_to(ranks, job):
    found = job.of(ranks)["sent"]
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


@needs_mpi
@pytest.mark.parametrize("ranks", (2, pytest.param(4, marks=pytest.mark.slow)))
def test_a_second_job_is_refused_and_ctrl_c_saves_once_and_says_how_to_go_on(ranks, tmp_path):
    first = pretrain(tmp_path, ranks, "--steps", "100000", "--out", "run")
    until((tmp_path / "run" / "step-00000000.json").exists, first)
    second = ended(pretrain(tmp_path, 1, "--steps", "100000", "--out", "run", "--resume"))
    assert second.returncode == 2
    assert "another process is training in this folder" in second.stderr
    first.send_signal(signal.SIGINT)
    result = ended(first)
    assert result.stderr.count("stopping after this step") == 1
    assert "Traceback" not in result.stderr
    (command,) = re.findall(rf"resume with: mpiexec (-n {ranks} .*)", result.stderr)

    metrics, stopped = tmp_path / "run" / "metrics.jsonl", int(re.findall(r"stopped at step (\d+)", result.stderr)[0])
    typed = shlex.split(command.replace("minitransformer", f"{shlex.quote(sys.executable)} -m minitransformer", 1))
    again = launched(tmp_path, *typed)
    until(lambda: json.loads(metrics.read_text().splitlines()[-1])["step"] > stopped, again)
    again.send_signal(signal.SIGINT)
    result = ended(again)
    assert "resuming" in result.stdout + result.stderr
    assert int(re.findall(r"stopped at step (\d+)", result.stderr)[0]) > stopped


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


@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not installed")
@pytest.mark.parametrize("ranks", (2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 5))))
def test_without_mpi4py_a_job_of_mpiexec_ends_in_one_line(ranks, tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no such module')")
    command = ["-n", str(ranks), "-env", "PYTHONPATH", str(tmp_path), sys.executable, *tiny(tmp_path)]
    result = ended(launched(tmp_path, *command))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "pip install 'minitransformer[mpi]'" in result.stderr
