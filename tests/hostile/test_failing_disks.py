"""Every request to the disk fails once, in every way: nothing is lost, and nobody sees a traceback."""

import json
import os
import subprocess
import sys

import pytest
from seeded import PART, SEED

SCRIPT = os.path.join(os.path.dirname(__file__), "faults.py")


@pytest.mark.parametrize("subject", ["training", "resuming", "tokenizers", "data", "cache"])
def test_every_request_to_the_disk_fails_once(subject, tmp_path, record_property):
    command = [sys.executable, SCRIPT, subject, str(tmp_path / "x"), str(PART), str(SEED)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    outcomes = ", ".join(f"{count} {what}" for what, count in report["outcomes"].items())
    record_property("hostile", f"{subject}: {report['points']} requests, {report['faults']} faults: {outcomes}")
    assert report["failures"] == []
    assert report["points"] >= 15 and report["outcomes"]["killed"] >= report["faults"] / 4
