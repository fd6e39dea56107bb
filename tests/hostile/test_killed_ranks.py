"""kill -9 of a rank at a random moment, from the start of its process to the last step: one line names it, all others
end, and the run goes on with any number of ranks to the same bytes."""

import os
import re
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from ranks_support import ended, needs_mpi, pretrain, ranks_of, until

KILLS = 12
STEPS = ("--steps", "200")
LAST = "step-00000200.safetensors"

pytestmark = [
    needs_mpi,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc to see who is watched"),
]


def is_watched(ranks):
    """Whether a child of one of these processes, the watcher, waits for the end of all others."""
    for process in ranks.values():
        with suppress(OSError):  # it is about to end
            for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
                told = [entry.read_text() for entry in Path(f"/proc/{child}/fdinfo").iterdir()]
                if sum("\nPid:" in one for one in told) == len(ranks) - 1:
                    return True
    return False


def test_ranks_killed_at_random_moments(tmp_path, generator, share, record_property):
    whole = ended(pretrain(tmp_path, 1, *STEPS, "--out", "whole"))
    assert whole.returncode == 0, whole.stderr
    expected = (tmp_path / "whole" / LAST).read_bytes()
    early, late, longest = 0, 0, 0.0
    while early + late < share(KILLS):
        size, out = generator.choice((2, 4)), tmp_path / "run"
        process = pretrain(tmp_path, size, *STEPS, "--out", str(out))
        until(lambda process=process, size=size: len(ranks_of(process)) == size, process)
        time.sleep(generator.choice((generator.uniform(0, 0.3), generator.uniform(0, 4))))
        victim, ranks = generator.randrange(size), ranks_of(process)
        watched, killed = is_watched(ranks), time.monotonic()
        with suppress(KeyError, ProcessLookupError):  # it is done already
            os.kill(ranks[victim], signal.SIGKILL)
        result = ended(process)
        if result.returncode != 0:
            longest = max(longest, time.monotonic() - killed)
            named = re.findall(r"(\S+ \S+) of \d on \S+ has ended without a word", result.stderr)
            # before there is a watcher, nobody may be named; but nobody else, and nobody twice
            assert named in ([[f"rank {victim}"]] if watched else [[f"rank {victim}"], ["a rank"], []]), result.stderr
            early, late = early + (not watched), late + watched
            resume = ["--resume"] if any(out.glob("step-*.json")) else []
            result = ended(pretrain(tmp_path, generator.randint(1, 4), *STEPS, "--out", str(out), *resume))
        assert result.returncode == 0, result.stderr
        assert (out / LAST).read_bytes() == expected
        shutil.rmtree(out)
    assert late
    record_property(
        "hostile",
        f"ranks: {early + late} killed, {late} of them watched and named; all jobs ended, at most {longest:.1f} s "
        "later, and resumed bit for bit",
    )
