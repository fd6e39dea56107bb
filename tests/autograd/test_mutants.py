"""The checker is checked: hundreds of wrong derivative rules, and gradcheck must catch every one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["autograd", "reference", "cpu"])
def test_every_mutant_is_caught(tier, capsys):
    script = Path(__file__).with_name("mutation_score.py")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # small arrays: no use for two
    if tier == "cpu":
        environment["NUMBA_DISABLE_JIT"] = "1"
    result = subprocess.run([sys.executable, str(script), tier], env=environment, capture_output=True, text=True)
    assert result.stdout, result.stderr
    score = json.loads(result.stdout.splitlines()[-1])
    caught = score["mutants"] - len(score["survivors"])
    with capsys.disabled():
        print(
            f"\nmutation score, {tier}: {caught} of {score['mutants']} wrong rules caught "
            f"({100 * caught / score['mutants']:.0f} %), {score['rules']} rules, {score['equivalent']} mutants set "
            "aside because they compute the same"
        )
    assert not score["survivors"], "\n".join(score["survivors"])
    assert score["mutants"] > 100  # the generator itself must not dry up
