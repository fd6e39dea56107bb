"""Quantised weights that are packed, counted or unpacked in a wrong way."""

import numpy as np

import autograd.functional as F
from kernels.reference.quantised_linear import LAYOUTS
from lessons.harness.engine import Engine
from minitransformer import quantised
from minitransformer.module import Module, Parameter


def _change_blocks(engine: Engine, change) -> None:
    """Every product reads blocks (rows, blocks of a row) that `change` has been over."""

    def changed(weight, kind):
        array = np.array(getattr(weight, "array", weight))
        change(array.view(LAYOUTS[kind]), kind)
        return array

    engine.replace(
        F, "quantised_linear", lambda product: lambda x, weight, kind: product(x, changed(weight, kind), kind)
    )
    engine.replace(
        F,
        "quantised_gated_feed_forward",
        lambda layer: (
            lambda x, gate, up, down, kind, *more: layer(
                x, *(changed(weight, kind) for weight in (gate, up, down)), kind, *more
            )
        ),
    )


def halves_exchanged(engine: Engine) -> None:
    """the two halves of each byte are taken for each other"""

    def change(blocks, kind):
        if kind == "Q4_1":
            blocks["halves"] = blocks["halves"] >> 4 | blocks["halves"] << 4

    _change_blocks(engine, change)


def least_forgotten(engine: Engine) -> None:
    """the least value of a block is not added"""

    def change(blocks, kind):
        if kind == "Q4_1":
            blocks["least"] = 0

    _change_blocks(engine, change)


def neighbours_scale(engine: Engine) -> None:
    """each block is unpacked with the scale of the block before it"""

    def change(blocks, kind):
        blocks["scale"] = np.roll(blocks["scale"], 1, axis=1)

    _change_blocks(engine, change)


def _change_packing(engine: Engine, change) -> None:
    """Weights are packed as they should be; then `change` is given the blocks and the numbers (rows, blocks, 32)."""

    def changed(quantise):
        def pack(numbers, kind):
            blocks = quantise(numbers, kind).view(LAYOUTS[kind])
            change(blocks, np.asarray(numbers, float).reshape(*blocks.shape, 32), kind)
            return blocks.view(np.uint8)

        return pack

    engine.replace(quantised, "quantise", changed)


def _write_steps(blocks, steps) -> None:
    """The number of steps above the least value, two in a byte."""
    q = steps.clip(0, 15).astype(np.uint8)
    blocks["halves"] = q[..., :16] | q[..., 16:] << 4


def cut_instead_of_rounded(engine: Engine) -> None:
    """numbers between two steps become the lower one, not the nearer one"""

    def change(blocks, w, kind):
        if kind == "Q4_1":
            scale, least = (blocks[name].astype(float)[..., None] for name in ("scale", "least"))
            _write_steps(blocks, np.floor((w - least) / np.where(scale == 0, 1, scale)))

    _change_packing(engine, change)


def numbers_kept_beside(engine: Engine) -> None:
    """the float32 numbers are kept beside the bytes"""

    def change(put):
        def keep(model, weights):
            former = [parameter for name, parameter in model.named_parameters() if name in weights]
            put(model, weights)
            for number, parameter in enumerate(former):
                setattr(model, f"former_{number}", parameter)

        return keep

    engine.replace(quantised, "put", change)


def head_of_its_own(engine: Engine) -> None:
    """a head that shares the table of words gets a copy of it"""

    def change(put):
        def copy(model, weights):
            put(model, weights)
            head = model.head
            head.weight = quantised.QuantisedWeight(np.array(head.weight.array), head.weight.kind)

        return copy

    engine.replace(quantised, "put", change)


def memory_by_weights(engine: Engine) -> None:
    """the memory of a model is taken for four bytes a weight, whatever it holds"""
    engine.replace(
        Module, "num_bytes", lambda _: lambda model: sum(4 * p.size for p in model.parameters() if type(p) is Parameter)
    )


def one_scale_a_row(engine: Engine) -> None:
    """all blocks of a row share one scale and one least value"""

    def change(blocks, w, _kind):
        least = w.min(axis=(1, 2), keepdims=True)
        scale = (w.max(axis=(1, 2), keepdims=True) - least) / 15
        blocks["least"], blocks["scale"] = least[..., 0], scale[..., 0]
        _write_steps(blocks, np.rint((w - least) / scale))

    _change_packing(engine, change)


def largest_cut_off(engine: Engine) -> None:
    """the largest weight of a block is left out when its steps are chosen"""

    def change(quantise):
        def without_largest(numbers, kind):
            w = np.array(numbers).reshape(len(numbers), -1, 32)
            places = np.abs(w).argmax(axis=-1)[..., None]
            others = np.array(w)
            np.put_along_axis(others, places, np.median(w, axis=-1, keepdims=True), axis=-1)
            return quantise(others.reshape(len(numbers), -1), kind)

        return without_largest

    engine.replace(quantised, "quantise", change)
