"""Count a model's parameters part by part. The model is built, but without values: nothing large is stored.

presets:
  lab             the first lab's model: language model, or classifier with --head classifier
  lab-translator  the second lab's encoder-decoder
  base            the base model of "Attention is all you need"
  gpt2            GPT-2 in its smallest size
  llama           a model of Llama's type, SmolLM2-135M, with either head

Flags change a preset's sizes.

examples:
  minitransformer params --preset lab
  minitransformer params --preset lab --d-model 400 --tie-weights
  minitransformer params --preset lab --head classifier
  minitransformer params --preset base
"""

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import kernels
from minitransformer.app.cli.namespace import options_of
from minitransformer.app.cli.sizes import add_sizes, given_sizes
from minitransformer.app.tables import table
from minitransformer.config import ALL, PRESETS, names_of
from minitransformer.errors import UserError
from minitransformer.models import build
from minitransformer.module import Module

LAYER = re.compile(r"(?:.*\.)?(\w+)\.layers\.(\d+)\.([a-z_]+)\d?\.")
PARTS = {
    "self_attn": "self-attention",
    "multihead_attn": "attention to the encoder",
    "linear": "feed-forward",
    "gate": "feed-forward",
    "norm": "norms",
}
HEADS = {"lm": "the head of a language model", "classifier": "that of a classifier"}
MERELY_PRINTS = True


@dataclass(frozen=True)
class Options:
    preset: str = "lab"
    head: str = "lm"
    json: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=sorted(PRESETS), default="lab", help="which model (default: lab)")
    parser.add_argument("--head", choices=("lm", "classifier"), default="lm", help="which head (default: lm)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_sizes(parser, *ALL)


def parts_of(name: str) -> tuple[list[str], str]:
    """The parts of the model a weight belongs to, the larger first, and its layer's number if it is in one."""
    match = LAYER.match(name)
    if match is None:
        return [name.removeprefix("base.").rpartition(".")[0].replace("_", " ")], ""
    stack = f"{match[1]} layers"
    return [stack, f"  {stack}: {PARTS[match[3]]}"], match[2]


def count_parts(model: Module) -> list[tuple[str, int, int]]:
    """(part, how many times, parameters altogether), in the order of the model; tied weights once. A part whose name
    is indented is contained in the one above."""
    totals: dict[str, int] = {}
    layers: dict[str, set[str]] = {}
    for name, parameter in model.named_parameters():
        parts, layer = parts_of(name)
        for part in parts:
            totals[part] = totals.get(part, 0) + parameter.size
            layers.setdefault(part, set()).add(layer)
    return [(part, len(layers[part]), total) for part, total in totals.items()]


def shared(model: Module) -> Iterable[str]:
    """Second names of weights that are used in several places."""
    owners: dict[int, str] = {}
    for name, tensor in model._named_tensors():
        if tensor.requires_grad and owners.setdefault(id(tensor), name) != name:
            yield f"{name} is {owners[id(tensor)]}: counted once"


def totals_of(preset: str, sizes: dict[str, Any]) -> dict[str, int]:
    """The whole model with each head that it can have. Sizes that are of one head only do not count for the other."""
    totals = {}
    for head, (kind, _) in PRESETS[preset].items():
        own = {name: value for name, value in sizes.items() if name in names_of(kind)}
        totals[head] = build(preset, head, **own, seed=None).num_parameters()
    return totals


def run(arguments: argparse.Namespace) -> int:
    options = options_of(Options, arguments)
    kind = PRESETS[options.preset].get(options.head, ("",))[0]
    sizes = given_sizes(arguments, kind)
    try:
        with kernels.use("numpy"):  # nothing is computed, so nothing needs compiling
            model = build(options.preset, options.head, **sizes, seed=None)
            totals = totals_of(options.preset, sizes)
    except (ValueError, TypeError) as error:  # a size that cannot be, or that this kind of model has not
        raise UserError(str(error)) from error
    parts, total = count_parts(model), model.num_parameters()
    if options.json:
        import json

        listed = [{"part": part.strip(), "times": times, "parameters": number} for part, times, number in parts]
        report = {
            "preset": options.preset,
            "head": options.head,
            **sizes,
            "parts": listed,
            "total": total,
            "totals": totals,
        }
        print(json.dumps(report, indent=2))
        return 0
    rows: list[tuple[str, str, str, str]] = []
    for part, times, number in parts:
        each = f"{times} × {number // times:,}" if times > 1 else ""
        rows.append((part, each, f"{number:,}", f"{number / total:.1%}"))
    rows.append(("total", "", f"{total:,}", ""))
    changed = "".join(f", {name} {value}" for name, value in sizes.items())
    print(f"{type(model).__name__}, preset {options.preset}{changed}")
    print(table(("part", "each", "parameters", "share"), rows, right=(1, 2, 3)))
    if len(totals) > 1:
        print("in all: " + ", ".join(f"{number:,} with {HEADS[head]}" for head, number in totals.items()))
    for line in shared(model):
        print(line)
    return 0
