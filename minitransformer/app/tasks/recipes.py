"""Sizes and settings of a training run. "default" is small and quick, tuned on the built-in language; "lab" is what the
two course labs prescribe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from minitransformer.errors import UserError
from minitransformer.presets import LAB, LAB_TRANSLATOR


@dataclass(frozen=True)
class Recipe:
    """One of steps and epochs is given, at least; `texts` is how many built-in ones make an epoch."""

    lr: float
    batch: int
    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    clip: float | None = 1.0
    warmup: int = 0
    warmup_as_asked: bool = False  # else at most a tenth of the run, so that a short one gets anywhere
    cosine: bool = True  # falls to 0 at the last step; else the rate stays
    texts: int = 0
    model: dict[str, Any] = field(default_factory=dict)

    def check_warmup(self, total: int) -> None:
        if self.warmup_as_asked and self.warmup and self.warmup >= total:
            raise UserError(f"--warmup {self.warmup}: the whole run has {total} steps; give fewer")

    def total(self, batches: int) -> int:
        """Steps of the whole run, with `batches` of them an epoch."""
        totals = [self.steps, None if self.epochs is None else self.epochs * batches]
        return min(total for total in totals if total is not None)


def _sizes(preset: dict[str, Any]) -> dict[str, Any]:
    """A preset without its vocabulary, which comes from the data."""
    return {name: value for name, value in preset.items() if not name.endswith(("vocab", "vocab_size"))}


_SMALL = {"n_heads": 4, "dropout": 0.0, "norm_first": True}

PRETRAIN = {
    "default": Recipe(
        lr=3e-3, batch=16, steps=2000, warmup=100, texts=6400,
        model=_SMALL | {"d_model": 96, "n_layers": 2, "d_ff": 192, "max_len": 64},
    ),
    "lab": Recipe(lr=3e-4, batch=16, epochs=2, clip=0.5, cosine=False, texts=50_000, model=_sizes(LAB)),
}  # fmt: skip
FINETUNE = {
    "default": Recipe(lr=1e-3, batch=16, epochs=10, warmup=20, texts=1000, model=PRETRAIN["default"].model),
    "lab": Recipe(lr=1e-4, batch=8, epochs=15, clip=0.5, cosine=False, texts=1600, model=_sizes(LAB)),
}
TRANSLATOR = {
    "default": Recipe(
        lr=3e-3, batch=32, steps=900, warmup=100, texts=6400,
        model=_SMALL | {"d_model": 96, "n_encoder": 2, "n_decoder": 2, "d_ff": 192, "max_len": 32},
    ),
    "lab": Recipe(lr=1e-3, batch=64, epochs=10, clip=None, cosine=False, texts=50_000, model=_sizes(LAB_TRANSLATOR)),
}  # fmt: skip


def choose(recipes: dict[str, Recipe], options: Any) -> Recipe:
    """The preset that was asked for, with whatever else was asked for on top. Steps or epochs replace both."""
    recipe = recipes[options.preset]
    if options.steps is not None or options.epochs is not None:
        recipe = replace(recipe, steps=options.steps, epochs=options.epochs)
    names = ("lr", "batch", "minutes", "texts", "clip", "warmup")
    recipe = replace(recipe, **{n: getattr(options, n) for n in names if getattr(options, n, None) is not None})
    recipe = replace(recipe, warmup_as_asked=getattr(options, "warmup", None) is not None)
    if recipe.steps is not None:
        recipe.check_warmup(recipe.steps)  # now, not when a long text has been read
    sizes = {n: getattr(options, n) for n in SIZES if getattr(options, n, None) is not None}
    layers = sizes.pop("n_layers", None)
    if layers is not None:
        sizes |= {name: layers for name in recipe.model if name in ("n_layers", "n_encoder", "n_decoder")}
    model = recipe.model | sizes
    if model["d_model"] % model["n_heads"]:
        raise UserError(f"--width {model['d_model']} cannot be shared by --heads {model['n_heads']}: choose a multiple")
    if model["d_model"] % 2:
        raise UserError(f"--width {model['d_model']}: choose an even number, for the positions come in pairs")
    return replace(recipe, model=model)


# the models' names for what the command line calls --width, --heads, --layers, --ff, --max-len and so on
SIZES = ("d_model", "n_heads", "n_layers", "d_ff", "max_len", "dropout", "activation", "norm_first", "tie_weights")
