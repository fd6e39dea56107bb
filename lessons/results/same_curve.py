"""Is this engine's training PyTorch's training? The labs' language model is trained in both, side by side.

Both start from the same weights and see the same batches of French text: Adam at 3e-4, gradients clipped at a norm of
0.5, float32, as many threads. They take turns step by step. What is not the same is rounding: sums are taken in another
order, and the clip divides by the norm here and by the norm + 1e-6 there. Two more runs show what that does:

  perturbed            our engine again, from weights that differ in their last bit: how far rounding alone leads
  pytorch_double_norm  PyTorch again, but the norm for the clip is summed in double precision, as it is here. PyTorch
                       sums it in float32, and over ten million numbers loses the fourth digit: that is where the
                       first steps differ

  python -m lessons.results.same_curve --text runs/novels/lab.txt --dict dict.txt --sentencepiece french.model
  python -m lessons.results.same_curve --draw        draws same_curve.png again, from same_curve.json
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lessons.results.record_files import environment, load, load_record, rounded, save_figure, save_record
from lessons.results.side_by_side import Engine, Run, nudged, record_of, take_turns
from minitransformer.app.bench.ours import threads
from minitransformer.app.cli.main import orderly
from minitransformer.app.data import LabTokenizer, LanguageModelBatches, read_documents
from minitransformer.app.progress import progress_on
from minitransformer.errors import UserError, make_or_refuse
from minitransformer.models import build

NAME = "same_curve"
ROWS, MAX_LEN, LR, CLIP = 16, 512, 3e-4, 0.5  # the labs' settings
SEED, NUDGE_SEED = 0, 1
AIM = 1e-3  # relative difference of the losses
FLOOR = 3e-8  # half a unit in the last place of a float32: differences of zero are drawn here


def torch_twin(model: Any, double_norm: bool = False) -> Run:
    from lessons.results import torch_twin

    torch_twin.use_threads(threads())
    names = ("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_len")
    sizes = {name: model.settings()[name] for name in names}
    return torch_twin.Twin(sizes, model.state_dict(), LR, CLIP, double_norm)


def batches_of(documents: Sequence[np.ndarray]) -> Iterator[Any]:
    batches = make_or_refuse(LanguageModelBatches, documents, rows=ROWS, max_len=MAX_LEN, seed=SEED)
    for epoch in count():
        yield from batches.epoch(epoch)


# ---------------------------------------------------------------------------------------------------------- the figure


def draw(record: Mapping[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    from lessons.harness import style

    style.apply()
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7.2, 6.2), height_ratios=[3, 2])
    _curves(above, record, style)
    _differences(below, record, style)
    figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=3)  # no line runs under it
    save_figure(figure, path)


def _curves(axes: Any, record: Mapping[str, Any], style: Any) -> None:
    ours, theirs = (record["curves"][name]["loss"] for name in ("ours", "pytorch"))
    steps = range(1, len(ours) + 1)
    axes.plot(steps, ours, color=style.BLUE, alpha=0.35, linewidth=6, linestyle="-", label="this engine")
    axes.plot(steps, theirs, color="#1a1a1a", linewidth=1, linestyle="-", label="PyTorch")
    axes.set_ylabel("loss (nats per piece)")
    axes.set_title(f"{record['settings']['weights']:,} weights, the same batches, the same curve", loc="left")
    axes.legend(loc="upper right")


def _differences(axes: Any, record: Mapping[str, Any], style: Any) -> None:
    labels = {
        "pytorch": ("PyTorch", style.BLUE),
        "pytorch_double_norm": ("PyTorch, gradient norm in double", style.GREEN),
        "perturbed": ("this engine, last bits changed", style.ORANGE),
    }
    for (name, (label, colour)), dashes in zip(labels.items(), style.DASHES, strict=False):
        if name in record["loss_differences"]:
            values = np.maximum(record["loss_differences"][name], FLOOR)
            steps = np.arange(1, len(values) + 1)
            axes.plot(steps, values, ".", color=colour, markersize=5, alpha=0.4, markeredgewidth=0)
            axes.plot(steps, _smooth(values), color=colour, linestyle=dashes, label=label)
    axes.axhline(AIM, color=style.GREY, linewidth=1, linestyle="--")
    axes.annotate("0.1 %", (1, AIM), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right")
    axes.set_yscale("log")
    axes.set_ylim(bottom=FLOOR / 1.5, top=max(2 * AIM, axes.get_ylim()[1]))
    axes.margins(x=0.01)
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel("|difference| / loss")
    axes.set_title("How far their losses are from this engine's", loc="left")


def _smooth(values: np.ndarray, reach: int = 7) -> list[float]:
    """The median of a window around each step."""
    return [float(np.median(values[max(0, i - reach) : i + reach + 1])) for i in range(len(values))]


# ---------------------------------------------------------------------------------------------------- the command line


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return orderly(NAME, lambda: redraw(options) if options.draw else experiment(options))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", metavar="FILE", help="one document a line; .spm if already cut into pieces")
    parser.add_argument("--dict", metavar="FILE", help="the labs' dictionary of pieces")
    parser.add_argument("--sentencepiece", metavar="FILE", help="the model that cuts text into those pieces")
    parser.add_argument("--steps", type=int, default=300, help="how many (default: 300)")
    parser.add_argument(
        "--perturbed", action=argparse.BooleanOptionalAction, default=True, help="our second run (default: yes)"
    )
    parser.add_argument(
        "--double-norm", action=argparse.BooleanOptionalAction, default=True, help="PyTorch's second run (default: yes)"
    )
    parser.add_argument("--draw", action="store_true", help="only draw the figure again, from the record")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path(__file__).parent, help="default: beside this script"
    )
    return parser


def redraw(options: argparse.Namespace) -> int:
    path = options.out / f"{NAME}.png"
    draw(load_record(options.out / f"{NAME}.json"), path)
    print(f"drawn: {path}")
    return 0


def experiment(options: argparse.Namespace) -> int:
    check(options)
    texts, documents, vocabulary = read(options)
    model: Any = build("lab", vocab_size=vocabulary, seed=SEED)
    start = model.state_dict()
    runs: dict[str, Run] = {"ours": Engine(model, LR, CLIP), "pytorch": torch_twin(model)}
    if options.perturbed:
        runs["perturbed"] = Engine(nudged(model, NUDGE_SEED), LR, CLIP)
    if options.double_norm:
        runs["pytorch_double_norm"] = torch_twin(model, double_norm=True)
    before = load()
    curves, stopped = take_turns(runs, batches_of(documents), options.steps, progress_on())
    if not curves["ours"]["loss"]:
        raise UserError("stopped before the first step: nothing to write")
    settings = settings_of(options, model, texts)
    record = {"settings": settings, **environment(), "load": rounded({"before": before, "at_the_end": load()})}
    record |= record_of(curves, start, {name: run.weights() for name, run in runs.items()})
    options.out.mkdir(parents=True, exist_ok=True)
    save_record(record, options.out / f"{NAME}.json")
    draw(record, options.out / f"{NAME}.png")
    report(record)
    return 128 + stopped if stopped else 0


def check(options: argparse.Namespace) -> None:
    """What is missing is said before the text is read."""
    if options.text is None or options.dict is None:
        raise UserError("give the text and its dictionary: --text FILE --dict FILE (or --draw, to draw again)")
    if options.sentencepiece is None and not options.text.endswith(".spm"):
        raise UserError(f"--dict numbers pieces, but {options.text} is text: give --sentencepiece FILE to cut it")
    if options.steps < 1:
        raise UserError(f"--steps {options.steps}: give at least 1")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UserError("this experiment needs PyTorch: pip install 'minitransformer[bench]'") from None


def read(options: argparse.Namespace) -> tuple[list[str], list[np.ndarray], int]:
    """The texts, their ids, and the size of the vocabulary."""
    tokenizer = make_or_refuse(LabTokenizer.from_files, options.dict, options.sentencepiece)
    texts = read_documents(options.text)
    return texts, tokenizer.encode_all(texts, in_pieces=options.text.endswith(".spm")), tokenizer.vocab_size


def settings_of(options: argparse.Namespace, model: Any, texts: list[str]) -> dict[str, Any]:
    return {
        "preset": "lab",
        "weights": model.num_parameters(),
        "vocabulary": model.config.vocab_size,
        "dtype": "float32",
        "rows": ROWS,
        "max_len": MAX_LEN,
        "optimizer": "Adam",
        "lr": LR,
        "clip": CLIP,
        "threads": threads(),
        "seeds": {"weights": SEED, "batches": SEED, "last_bits": NUDGE_SEED},
        "steps_asked": options.steps,
        "text": Path(options.text).name,
        "documents": len(texts),
        "sha256_of_documents": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
    }


def report(record: Mapping[str, Any]) -> None:
    curves, figures = record["curves"], record["figures"]
    print(f"{len(curves['ours']['loss'])} steps of {record['settings']['weights']:,} weights")
    for name, curve in curves.items():
        print(f"  {name:20} loss {curve['loss'][0]:.4f} → {curve['loss'][-1]:.4f}")
    columns = ("loss_first_step", "loss_median", "loss_largest", "gradient_norm_median", "weights_largest")
    print(f"relative difference from ours: {', '.join(columns).replace('_', ' ')}")
    for name in list(curves)[1:]:
        print(f"  {name:20} {', '.join(f'{figures[name][column]:.1e}' for column in columns)}")
    s = figures["speed"]
    times = f"ours {s['ours_seconds']:.2f}, PyTorch {s['pytorch_seconds']:.2f}"
    print(f"seconds a step (median): {times}; PyTorch takes {s['pytorch_over_ours_seconds']:.2f} times as long")
    if crowded(record):
        print("  but others were at work on this machine, and the times say little")


def crowded(record: Mapping[str, Any]) -> bool:
    """Whether other programs wanted the processor too; at the end our own threads are in the count."""
    before, end = record["load"].values()
    return before is not None and max(before, end - record["settings"]["threads"]) > 0.5


if __name__ == "__main__":
    sys.exit(main())
