"""Mistakes planted in the CUDA files, one at a time: which detector finds which, and together all of them.

Each runs in processes of its own: a planted mistake may write anywhere. Run as a script, it prints the table:
    python tests/kernels/test_gpu_planted.py [NUMBER ...]
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from gpu_planted import PLANTED, planted

ROOT = Path(__file__).parents[2]
GPU = ROOT / "kernels" / "gpu"
DETECTORS = ("reference", "grid", "checked", "banks", "far")
ONE = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kernels.cuda import source
source.FOLDER = Path(sys.argv[2])
if sys.argv[3] == "far":
    from gpu_far import far_faults
    found = far_faults(source.FOLDER)
else:
    from gpu_detectors import DETECTORS
    found = DETECTORS[sys.argv[3]](sys.argv[4])
sys.exit(f"found: {found}" if found else 0)
"""


def notices(detector: str, folder: Path, name: str) -> bool:
    """Whether a detector finds something in the files of a folder; a process that dies has found it too."""
    command = [sys.executable, "-c", ONE, str(Path(__file__).parent), str(folder), detector, name]
    env = {**os.environ, "MINITRANSFORMER_QUIET": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=1800).returncode != 0


def found_by(number: int, everybody: bool = False) -> list[str]:
    """Who finds it; without `everybody`, the first one who does."""
    file, name, *change = PLANTED[number]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "gpu"
        shutil.copytree(GPU, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        text = (folder / file).read_text(encoding="utf-8")
        (folder / file).write_text(planted(text, *change), encoding="utf-8")
        found = (detector for detector in DETECTORS if notices(detector, folder, name))
        return list(found if everybody else islice(found, 1))


def report(numbers: list[int], everybody: bool = False) -> list[int]:
    """Prints who found what (each mistake: the first who did, or everybody); returns the mistakes that nobody found."""
    count = dict.fromkeys(DETECTORS, 0)
    missed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, found in zip(numbers, pool.map(lambda n: found_by(n, everybody), numbers), strict=True):
            file, _, old, new, *_ = PLANTED[number]
            what = " ".join(f"{old.strip()} -> {new.strip() or 'nothing'}".split())
            print(f"{number:3d}  {file:24s} {', '.join(found) or 'NOBODY':34s} {what}", flush=True)
            for detector in found:
                count[detector] += 1
            if not found:
                missed.append(number)
    print(f"{len(numbers) - len(missed)} of {len(numbers)} found; by detector: {count}", flush=True)
    return missed


@pytest.mark.parametrize("change", PLANTED, ids=lambda change: f"{change[0]}: {change[2].strip()[:40]}")
def test_every_text_is_still_there(change):
    planted((GPU / change[0]).read_text(encoding="utf-8"), *change[2:])


@pytest.mark.hostile
def test_every_planted_mistake_is_found(record_property):
    from seeded import PART, SEED

    import kernels

    if (reason := kernels.reasons()["emulated"]) is not None:
        pytest.skip(f"the emulator cannot be used: {reason}")
    assert not [d for d in DETECTORS for name in ("exp", "cross_entropy") if notices(d, GPU, name)], (
        "nothing is planted"
    )
    numbers = sorted(random.Random(SEED).sample(range(len(PLANTED)), -(-len(PLANTED) // PART)))
    assert report(numbers) == []
    record_property("hostile", f"mistakes planted in the CUDA files: {len(numbers)}, all found")


if __name__ == "__main__":
    sys.exit(bool(report([int(n) for n in sys.argv[1:]] or list(range(len(PLANTED))), everybody=True)))
