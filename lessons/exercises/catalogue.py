"""All exercises, in the order in which they are proposed: track by track, the tracks as the lessons go."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lessons.exercises.exercise import Exercise, read_exercise
from minitransformer.errors import UserError

FOLDER = Path(__file__).parent
# name of a track → what is done in it; its exercises are the files of the folder of that name, in this order
TRACKS: Mapping[str, tuple[str, Sequence[str]]] = {
    "derivatives": (
        "derivatives by hand",
        ("product", "broadcasting", "matmul-gradient", "softmax-gradient", "layer-norm-gradient", "attention-gradient"),
    ),
    "attention": (
        "attention and masks",
        ("attention-by-hand", "causal-mask", "padding-mask", "split-heads", "cross-attention"),
    ),
    "positions": ("how words know their place", ("position-table", "shift-matrix", "relative-score", "rotary")),
    "counting": ("what a model costs", ("count-operations", "count-parameters")),
    "training": (
        "losses, optimizers and tasks",
        ("cross-entropy", "clip-gradients", "adam-step", "warm-up", "head-swap", "mask-words", "label-smoothing"),
    ),
    "models": ("all parts put together", ("encoder-layer", "small-gpt", "beat-the-bigram")),
    "decoding": ("from probabilities to text", ("greedy", "key-value-cache", "beam-search", "no-repeat")),
    "real": (
        "bits, pieces and sound: what real models need",
        (
            "unpack-four-bits", "eight-bits", "sentence-search", "cut-word", "merge-pairs", "sound-frames",
            "align-words",
        ),
    ),
    "scale": ("many machines, little memory", ("sum-of-slices", "ring-steps", "step-memory")),
    "numba": (
        "kernels for the processor",
        ("row-sums", "layer-norm-kernel", "online-softmax", "tiled-attention", "scatter-add"),
    ),
    "cuda": (
        "kernels for the graphics card, run in the emulator",
        ("vector-add", "warp-reduction", "softmax-row", "layer-norm-cuda", "tiled-transpose", "tiled-attention-cuda"),
    ),
    "bugs": (
        "find the bug",
        ("bug-scale", "bug-mask", "bug-residual", "bug-position", "bug-optimizer", "bug-race"),
    ),
}  # fmt: skip


@cache
def ours() -> tuple[Exercise, ...]:
    """The exercises of the project."""
    places = [(track, name) for track, (_, names) in TRACKS.items() for name in names]
    files = [FOLDER / track / f"{name.replace('-', '_')}.py" for track, name in places]
    return tuple(read_exercise(file) for file in files if file.is_file())


def exercises(more: Sequence[Path] = ()) -> list[Exercise]:
    """Ours, and those in the folders of a teacher, one file each."""
    found = list(ours())
    for folder in more:
        if not folder.is_dir():
            raise UserError(f"--more {folder}: there is no such folder")
        files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
        if not files:
            raise UserError(f"--more {folder}: no exercises there; each is a file NAME.py (see CONTRIBUTING.md)")
        found += [read_exercise(file) for file in files]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two exercises are called {name!r}; rename the file of one of them")
    return found


def named(name: str, among: Sequence[Exercise]) -> Exercise:
    for one in among:
        if name.replace("_", "-") in (one.name, one.file):
            return one
    near = difflib.get_close_matches(name, [one.name for one in among], n=3, cutoff=0.4)
    advice = f"did you mean {' or '.join(near)}?" if near else "`minitransformer exercise` lists them"
    raise UserError(f"no exercise is called {name!r}; {advice}")
