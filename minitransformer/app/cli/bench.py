"""Measure the engine, side by side with PyTorch and ONNX Runtime where they are installed.

Each case runs ours and the peer in turns, each in a process of its own with the same number of threads, for several
rounds: best and median, how much the rounds differ, the ratio, the peak memory of each, and the share of the
matrix-product rate that NumPy's BLAS reached between the rounds. Writes bench.json, bench.png, roofline.png, growth.png
and ledger.png to build/bench.

examples:
  minitransformer bench                       everything (half an hour)
  minitransformer bench --quick               what tells most, three rounds each (two minutes)
  minitransformer bench lm adam               two cases
  minitransformer bench lm --compile          also against torch.compile
  minitransformer bench deep recompute        memory and time of layers that are computed again in backward
  minitransformer bench encoder-1x16          an encoder, also against ONNX Runtime
  minitransformer bench ranks                 several processes that train together
  minitransformer bench --list
"""

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.app.cli import numbers
from minitransformer.app.cli.main import add_backend
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.tables import table
from minitransformer.errors import UserError

FOLDER = Path("build/bench")
GET_TORCH = 'pip install "torch>=2.4"'  # as the extra "bench" asks for
GET_ONNX = 'pip install "onnxruntime>=1.20" "onnx>=1.17"'
PEERS = {"torch": ("PyTorch", GET_TORCH), "onnx": ("ONNX Runtime", GET_ONNX)}
NAMES = {"torch": "PyTorch", "compiled": "compiled", "onnx": "ONNX Runtime"}
EXTRAS = {
    "start-up": "from nothing to the first training step, kernels cached and not, and to the first words",
    "profile": "where the training steps spend their time, kernel by kernel",
    "roofline": "every kernel under what this machine allows",
    "growth": "time and memory against length and vocabulary",
    "ledger": "the memory of a training step, moment by moment, predicted from the tape and measured",
    "ranks": "several processes (mpiexec): bytes, times, and what to expect of more of them",
    "smollm2": "SmolLM2 in 4 bits: a prompt of 256, then 128 words, beside llama.cpp where it is installed",
    "whisper": "Whisper: a window of 30 seconds, then 100 pieces of text, beside PyTorch and CTranslate2",
}


@dataclass(frozen=True)
class Options:
    case: Sequence[str] = ()
    list: bool = False
    quick: bool = False
    against: str | None = None
    compile: bool = False
    rounds: int | None = None
    data: str | None = None
    json: str | None = None
    backend: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", nargs="*", help="cases to run (default: all); --list shows them")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--quick", action="store_true", help="three rounds a case, and by default few cases")
    parser.add_argument("--against", choices=(*PEERS, "nothing"), help="the only peer (default: all installed)")
    parser.add_argument("--compile", action="store_true", help="torch.compile takes part in all cases (default: lm)")
    parser.add_argument("--rounds", type=numbers.at_least_one, metavar="N", help="rounds a case (default: 5 to 15)")
    parser.add_argument("--data", metavar="DIR", help="folder that holds cls-books-fr: real reviews for lm-padded")
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write the figures here too; - prints them"
    )
    add_backend(parser)


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    from minitransformer.app.bench import machine
    from minitransformer.app.bench.cases import CASES, QUICK

    known = {name: case.title for name, case in CASES.items()} | EXTRAS
    if options.list:
        print(table(("case", "what is measured"), list(known.items())))
        return 0
    unknown = [name for name in options.case if name not in known]
    if unknown:
        raise UserError(f"no case is called {unknown[0]!r}; there are: {', '.join(known)}")
    sides = ["ours"] + _peers(options)
    if options.backend:
        os.environ["MINITRANSFORMER_BACKEND"] = options.backend  # for the worker processes
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {FOLDER}: {error.strerror}; run from a folder you may write to") from None
    chosen = options.case or (QUICK if options.quick else list(known))
    report: dict[str, Any] = {"machine": machine.description(), "backend": _backend_line(), "sides": sides, "cases": []}
    report |= {"vectors": machine.vectors(), "sgemm": machine.sgemm_peak(), "memory": machine.bandwidth()}
    report["named"] = bool(options.case)  # what is asked for by name may be fetched
    print(f"{report['machine']}; {report['vectors']}; backend {report['backend']}")
    print(f"measured: products of large matrices {report['sgemm']:.0f} GFLOPS, memory {report['memory']:.0f} GB/s")
    for name in chosen:
        if name in CASES:
            report["cases"].append(_run_case(CASES[name], sides, options))
        else:
            report[name] = _EXTRA_RUNS[name](report)
    _tell("")
    _print_summary(report)
    _save(report, options.json)
    return 0


def _peers(options: Options) -> list[str]:
    """Those who take part, in the cases that have them."""
    if options.against == "nothing" and not options.compile:
        return []
    wanted = list(PEERS) if options.against is None else [options.against]
    installed = [peer for peer in wanted if _installed(peer)]
    if options.against in PEERS and not installed or options.compile and "torch" not in installed:
        name, get = PEERS["torch" if options.compile else options.against or "torch"]
        raise UserError(f"{name} is not installed; {get}, or leave --against and --compile out")
    if options.against is None and "torch" not in installed:
        missing = "its times, the ratios and the picture bench.png"
        print(f"PyTorch is not installed, so {missing} are left out; to have them: {GET_TORCH}", file=sys.stderr)
    return installed + (["compiled"] if options.compile else [])


def _installed(peer: str) -> bool:
    packages = {"torch": ["torch"], "onnx": ["onnx", "onnxruntime"]}[peer]
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _backend_line() -> str:
    import kernels

    folder = kernels.current().folder
    return kernels.current().name + (f" ({folder.device()})" if hasattr(folder, "device") else "")


def _tell(text: str) -> None:
    """One line that is written over, on a terminal; nothing in a file."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)


def _run_case(case: Any, sides: list[str], options: Options) -> dict[str, Any]:
    from minitransformer.app.bench.machine import bandwidth, sgemm_peak
    from minitransformer.app.bench.race import race

    contestants, peak = race(case, _sides(case, sides, options), options.data, _rounds(options), _tell, sgemm_peak)
    result: dict[str, Any] = {"name": case.name, "title": case.title, "target": case.target}
    for side in contestants:
        result[side.name] = {
            "best": side.best, "median": side.median, "slowest": max(side.best_of_rounds) / side.best,
            "seconds": side.seconds, "megabytes": side.megabytes, "first": side.first,
        }  # fmt: skip
    ours = contestants[0]
    if case.flops is not None:
        result["gflops"] = case.flops(case.sizes) / ours.best / 1e9
        result["peak"] = peak
    if case.name == "generate":  # one text: bound by reading the weights
        result["bandwidth"] = _generation_traffic() * case.sizes["words"] / ours.best / 1e9
        result["memory"] = bandwidth()
    for side in contestants[1:]:
        key = "ratio" if side.name == "torch" else f"ratio_{side.name}"
        result[key] = side.best / ours.best
        result[key + "_median"] = side.median / ours.median
        by_round = [a / b for a, b in zip(side.best_of_rounds, ours.best_of_rounds, strict=True)]
        result[key + "_range"] = min(by_round), max(by_round)
    _tell("")
    print(_line(result), flush=True)
    return result


def _sides(case: Any, sides: list[str], options: Options) -> list[str]:
    """Who takes part in this case. torch.compile takes a minute and a C++ compiler, so by itself only where it is most
    telling."""
    here = [side for side in sides if side == "ours" or side in case.peers and side != "compiled"]
    has_compiler = shutil.which(os.environ.get("CXX", "g++")) is not None
    by_itself = "compiled" in case.peers and has_compiler and not options.quick and options.against is None
    return here + (["compiled"] if "torch" in here and (options.compile or by_itself) else [])


def _rounds(options: Options) -> int | None:
    return options.rounds or (3 if options.quick else None)


def _generation_traffic() -> int:
    """Bytes of weights that one word of the labs' model must read: all but the embedding table."""
    from minitransformer.models import build

    model: Any = build("lab", seed=None)
    return 4 * (model.num_parameters() - model.base.embedding.weight.size)


def _line(result: dict[str, Any]) -> str:
    parts = [f"{result['title']}: {_time(result['ours']['best'])}"]
    for side, name in NAMES.items():
        key = "ratio" if side == "torch" else f"ratio_{side}"
        if key in result:
            parts.append(f"{name} {_time(result[side]['best'])}, ratio {result[key]:.2f}")
    if "gflops" in result:
        parts.append(f"{result['gflops']:.0f} GFLOPS = {result['gflops'] / result['peak']:.0%} of sgemm")
    if "bandwidth" in result:
        share = f"{result['bandwidth'] / result['memory']:.0%} of the memory's {result['memory']:.0f}"
        parts.append(f"weights are read at {result['bandwidth']:.0f} GB/s = {share}")
    return "; ".join(parts)


def _time(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


# Columns of the summary: heading, what it means, the entry (None where a case has none). Columns without entries are
# left out, and their explanations with them.
_COLUMNS = (
    ("best", "the shortest time of a unit of work", lambda r: _time(r["ours"]["best"])),
    ("median", "half of the units took longer", lambda r: _time(r["ours"]["median"])),
    ("spread", "how much longer the best unit of the slowest round took", lambda r: f"+{r['ours']['slowest'] - 1:.0%}"),
    ("PyTorch", "its best time", lambda r: _time(r["torch"]["best"])),
    ("median ", "", lambda r: _time(r["torch"]["median"])),
    ("spread ", "", lambda r: f"+{r['torch']['slowest'] - 1:.0%}"),
    ("ratio", "PyTorch's best time / ours", lambda r: f"{r['ratio']:.2f}"),
    ("by round", "the same ratio, lowest and highest of a single round",
     lambda r: "{:.2f}-{:.2f}".format(*r["ratio_range"])),
    ("aim", "the ratio we mean to reach", lambda r: f"{r['target']:.1f}" if "torch" in r and r["target"] else None),
    ("compiled", "the ratio to torch.compile", lambda r: f"{r['ratio_compiled']:.2f}"),
    ("ONNX", "the ratio to ONNX Runtime", lambda r: f"{r['ratio_onnx']:.2f}"),
    ("MB", "peak memory of the whole process", lambda r: f"{r['ours']['megabytes']:.0f}"),
    ("its MB", "the same of PyTorch's", lambda r: f"{r['torch']['megabytes']:.0f}"),
    ("of sgemm", "rate of our matrix products / that of NumPy's BLAS on large ones, met between the rounds",
     lambda r: f"{r['gflops'] / r['peak']:.0%}"),
)  # fmt: skip


def _print_summary(report: dict[str, Any]) -> None:
    def entry(make: Any, result: dict[str, Any]) -> str:
        try:
            return make(result) or ""
        except KeyError:  # this case has no such figure
            return ""

    columns = [(name, meaning, [entry(make, r) for r in report["cases"]]) for name, meaning, make in _COLUMNS]
    columns = [column for column in columns if any(column[2])]
    if columns:
        rows = list(zip([r["name"] for r in report["cases"]], *(entries for _, _, entries in columns), strict=True))
        header = ("case", *(name.strip() for name, _, _ in columns))
        print("\n" + table(header, rows, right=range(1, len(header))))
        print("\n".join(f"  {name}: {meaning}" for name, meaning, _ in columns if meaning))


def _start_up(report: dict[str, Any]) -> dict[str, float]:
    from minitransformer.app.bench import startup

    _tell("start-up: with an empty cache of kernels")
    cold = startup.first_step(1, cold=True)
    startup.first_step(1)  # fills this environment's own cache
    warm = startup.first_step(3)
    words = startup.first_words(3, with_torch="torch" in report["sides"])
    print(f"start-up, process start to the end of the first training step: {warm:.1f} s; compiling first: {cold:.0f} s")
    peer = f"; PyTorch {words['torch']:.2f} s, ratio {words['torch'] / words['ours']:.2f}" if "torch" in words else ""
    print(f"generate on a trained run, process start to finish: {words['ours']:.2f} s{peer}")
    return {"warm": warm, "cold": cold} | {f"words_{side}": seconds for side, seconds in words.items()}


def _roofline(report: dict[str, Any]) -> dict[str, Any]:
    from minitransformer.app.bench import charts, machine, roofline

    peak, bandwidth = machine.sgemm_peak(10), machine.bandwidth()
    points = roofline.measure(_tell)
    peak = max(peak, machine.sgemm_peak(10))
    charts.roofline(points, peak, bandwidth, report["machine"], FOLDER / "roofline.png")
    rows = [
        (p.kernel, f"{p.intensity:.2f}", f"{p.gflops:.1f}", f"{p.milliseconds:.2f}",
         f"{p.gflops / min(peak, p.intensity * bandwidth):.0%}") for p in points
    ]  # fmt: skip
    _tell("")
    print(f"\nsgemm {peak:.0f} GFLOPS, memory {bandwidth:.0f} GB/s")
    print(table(("kernel", "flop/byte", "GFLOPS", "ms", "of the roof"), rows, right=range(1, 5)))
    return {"peak": peak, "bandwidth": bandwidth, "points": [p._asdict() for p in points]}


def _growth(_report: dict[str, Any]) -> list[dict[str, Any]]:
    from minitransformer.app.bench import charts, growth

    def line(c: Any) -> str:
        exponents = f"time ~ {c.axis}^{c.exponent(c.seconds):.2f}, memory ~ {c.axis}^{c.exponent(c.megabytes):.2f}"
        return f"{c.title}: {exponents} at the end; {c.seconds[-1]:.2f} s, {c.megabytes[-1]:.0f} MB at {c.sizes[-1]:,}"

    return _drawn_and_told(growth.measure(_tell), charts.growth, "growth", line)


def _ledger(_report: dict[str, Any]) -> list[dict[str, Any]]:
    from minitransformer.app.bench import charts, ledger

    def line(step: Any) -> str:
        peaks = f"{step.predicted_peak / 1e6:.1f} MB predicted from the tape, {step.peak / 1e6:.1f} MB measured"
        return f"memory of a step, {step.title}: {peaks}"

    return _drawn_and_told(ledger.measure(_tell), charts.ledger, "ledger", line)


def _drawn_and_told(
    results: Sequence[Any], draw: Callable[..., Any], picture: str, line: Callable[[Any], str]
) -> list[dict[str, Any]]:
    """One picture of all results, and a line for each."""
    draw(results, FOLDER / f"{picture}.png")
    _tell("")
    for result in results:
        print(line(result))
    return [result._asdict() for result in results]


def _profile(_report: dict[str, Any]) -> dict[str, Any]:
    from minitransformer.app.bench import machine, profile

    result: dict[str, Any] = {"peak": machine.sgemm_peak()}
    for name in profile.STEPS:
        _tell(f"profile: {name}")
        total, shares = profile.measure(name)
        result["peak"] = max(result["peak"], machine.sgemm_peak())
        result[name] = {"milliseconds": total, "shares": [share._asdict() for share in shares]}
    _tell("")
    for name in profile.STEPS:
        rows = [
            (s["kernel"], s["calls"] or "", f"{s['milliseconds']:.1f}",
             f"{s['milliseconds'] / result[name]['milliseconds']:.0%}",
             f"{s['gflops']:.0f}" if s["gflops"] else "", f"{s['gflops'] / result['peak']:.0%}" if s["gflops"] else "")
            for s in result[name]["shares"] if s["milliseconds"] > 0.005 * result[name]["milliseconds"]
        ]  # fmt: skip
        print(f"\n{name}: {result[name]['milliseconds']:.0f} ms a step; sgemm {result['peak']:.0f} GFLOPS")
        print(table(("kernel", "calls", "ms", "share", "GFLOPS", "of sgemm"), rows, right=range(1, 6)))
    return result


def _ranks(_report: dict[str, Any]) -> dict[str, Any]:
    from minitransformer.app.bench import charts, ranks

    if not ranks.can_run():
        print("ranks: left out, because mpi4py or mpiexec is not installed; pip install 'minitransformer[mpi]'")
        return {}
    found = ranks.measure(_tell)
    _tell("")
    rows = [
        (name, f"{r['best']:.2f}", f"{r['median']:.2f}", f"{r['received'] / 1e6:.2f}", f"{r['talking']:.2f}",
         f"{r['waited']:.2f}", f"{r['megabytes']:.0f}") for name, r in found["measured"].items()
    ]  # fmt: skip
    print("\nthe labs' model, steps of 8 x 256 tokens, seconds; two threads in all")
    header = ("run", "best", "median", "MB received", "sending", "wait after backward", "MB of memory")
    print(table(header, rows, right=range(1, 7)))
    print(f"an all-reduce on 2 ranks has to bring {found['bound'] / 1e6:.2f} MB to each")
    for check in found["checks"]:
        done = f"{check['efficiency']:.0%} of what its ranks do alone"
        print(f"{check['plan']}: {check['measured']:.2f} s, on paper {check['expected']:.2f} s; {done}")
    rows = [
        (p["model"], p["wire"], f"{p['ranks']:,}", p["scaling"], f"{p['seconds']:.3f}", f"{p['sending']:.3f}",
         f"{p['efficiency']:.0%}") for p in found["paper"]
    ]  # fmt: skip
    print("\non paper, ranks as fast as a core of this machine; strong: one batch for all, weak: one for each")
    print(
        table(("model", "network", "ranks", "scaling", "s a step", "sending", "efficiency"), rows, right=(2, 4, 5, 6))
    )
    charts.ranks(found, FOLDER / "ranks.png")
    return found


def _smollm2(report: dict[str, Any]) -> dict[str, Any] | None:
    from minitransformer.app.bench import smollm2

    if not _is_there("smollm2", report):
        return None
    if smollm2.sides() == ["ours"]:
        print(f"llama.cpp is not installed, so smollm2 runs alone; to have it: {smollm2.GET_PEER}", file=sys.stderr)
    sides = _in_two_parts(smollm2)
    rows = []
    for side in sides:
        prompt, words = side.medians()
        rows.append((side.name, f"{smollm2.PROMPT / prompt:.1f}", f"{smollm2.WORDS / words:.1f}", _megabytes(side)))
    print("\nSmolLM2, 4 bits a weight: tokens a second, by the median round, and peak memory of the whole process")
    print(table(("side", "prompt of 256", "128 words after it", "MB"), rows, right=(1, 2, 3)))
    return {side.name: vars(side) for side in sides}


def _whisper(report: dict[str, Any]) -> dict[str, Any] | None:
    from minitransformer.app.bench import whisper

    if not _is_there("whisper", report):
        return None
    missing = [name for name in whisper.SIDES if name not in whisper.sides()]
    if missing:
        print(f"whisper runs without {' and '.join(missing)}; to have them: {whisper.GET_PEERS}", file=sys.stderr)
    sides = _in_two_parts(whisper)
    mine, rows = sum(sides[0].medians()), []
    for side in sides:
        total = sum(side.medians())
        rows.append((side.name, *map(_time, (*side.medians(), total)), f"{total / mine:.2f}", _megabytes(side)))
    print("\nWhisper tiny.en: a window of 30 seconds, then 100 pieces of text; by the median round, peak memory of all")
    print(table(("side", "encoder", "100 pieces", "both", "its time / ours", "MB"), rows, right=range(1, 6)))
    return {side.name: vars(side) for side in sides}


def _is_there(model: str, report: dict[str, Any]) -> bool:
    """Whether the model is in the cache; who names a case may have it fetched."""
    from minitransformer.pretrained.fetch import fetch, fetched

    if not report["named"] and not fetched(model):
        print(f"{model}: left out, the model is not in the cache; `minitransformer models fetch {model}` brings it")
        return False
    fetch(model)
    return True


def _in_two_parts(case: Any) -> Sequence[Any]:
    from minitransformer.app.bench.two_parts import measure

    sides = measure(case.__name__, case.sides(), _tell, case.ROUNDS)
    _tell("")
    return sides


def _megabytes(side: Any) -> str:
    return f"{side.megabytes:.0f}"


_EXTRA_RUNS = {
    "start-up": _start_up, "profile": _profile, "roofline": _roofline, "growth": _growth, "ledger": _ledger,
    "ranks": _ranks,
    "smollm2": _smollm2,
    "whisper": _whisper,
}  # fmt: skip


def _save(report: dict[str, Any], file: str | None) -> None:
    from minitransformer.app.bench import charts

    text = json.dumps(report, indent=1)
    (FOLDER / "bench.json").write_text(text + "\n", encoding="utf-8")
    if any("ratio" in r for r in report["cases"]):
        charts.bars(report["cases"], report["machine"], FOLDER / "bench.png")
    if file == "-":
        print(text)
    elif file is not None:
        try:
            Path(file).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"cannot write {file}: {error.strerror}; the figures are in {FOLDER / 'bench.json'}"
            ) from None
    print(f"\nfigures: {FOLDER}")
