"""Sizes and settings of a training run. "default" is small and quick, tuned on the built-in language; "lab" is what the
two course labs prescribe; "llama" is "default" made of the parts of Llama's type instead of those of 2017."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minitransformer.app.tasks.options import TrainingOptions
from minitransformer.config import LAB, LAB_TRANSLATOR, Config
from minitransformer.errors import UserError, make_or_refuse


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
    model: Config = Config()  # without a vocabulary, which comes from the data

    def check_warmup(self, total: int) -> None:
        if self.warmup_as_asked and self.warmup and self.warmup >= total:
            raise UserError(f"--warmup {self.warmup}: the whole run has {total} steps; give fewer")

    def total(self, batches: int) -> int:
        """Steps of the whole run, with `batches` of them an epoch."""
        totals = [self.steps, None if self.epochs is None else self.epochs * batches]
        return min(total for total in totals if total is not None)


_SMALL = Config(d_model=96, n_heads=4, n_layers=2, n_encoder=2, n_decoder=2, d_ff=192, max_len=64, norm_first=True)
_LLAMA = replace(  # a gate takes a third matrix: two thirds of the width make as many weights
    _SMALL, d_ff=128, norm="rms", activation="swiglu", positions="rotary", n_kv_heads=2, bias=False, head_bias=False,
    scale_embedding=False,
)  # fmt: skip
_NO_WORDS: dict[str, Any] = {"vocab_size": None, "source_vocab": None, "target_vocab": None}
_LAB, _LAB_TRANSLATOR = replace(LAB, **_NO_WORDS), replace(LAB_TRANSLATOR, **_NO_WORDS)

PRETRAIN = {
    "default": Recipe(lr=3e-3, batch=16, steps=2000, warmup=100, texts=6400, model=_SMALL),
    "lab": Recipe(lr=3e-4, batch=16, epochs=2, clip=0.5, cosine=False, texts=50_000, model=_LAB),
    "llama": Recipe(lr=3e-3, batch=16, steps=2000, warmup=100, texts=6400, model=_LLAMA),
}
FINETUNE = {
    "default": Recipe(lr=1e-3, batch=16, epochs=10, warmup=20, texts=1000, model=_SMALL),
    "lab": Recipe(lr=1e-4, batch=8, epochs=15, clip=0.5, cosine=False, texts=1600, model=_LAB),
    "llama": Recipe(lr=1e-3, batch=16, epochs=10, warmup=20, texts=1000, model=_LLAMA),
}
# On the base of a model that others trained on a billion words: small steps, lest it forget them.
BORROWED = Recipe(lr=1e-4, batch=16, epochs=4, warmup=20)
BORROWED_READING = Recipe(lr=1e-4, batch=16, epochs=1, warmup=100)
TRANSLATOR = {
    "default": Recipe(lr=3e-3, batch=32, steps=900, warmup=100, texts=6400, model=replace(_SMALL, max_len=32)),
    "lab": Recipe(lr=1e-3, batch=64, epochs=10, clip=None, cosine=False, texts=50_000, model=_LAB_TRANSLATOR),
}

PRESETS = {"LanguageModel": PRETRAIN, "Classifier": FINETUNE, "Translator": TRANSLATOR}  # by the kind of model


def choose(recipes: dict[str, Recipe], options: TrainingOptions, short: str) -> Recipe:
    """The preset that was asked for, with whatever else was asked for on top. Steps or epochs replace both.
    short: why a single position is not enough"""
    recipe = recipes[options.preset]
    if options.steps is not None or options.epochs is not None:
        recipe = replace(recipe, steps=options.steps, epochs=options.epochs)
    asked = {name: getattr(options, name) for name in ("lr", "batch", "minutes", "texts", "clip", "warmup")}
    recipe = replace(recipe, **{name: value for name, value in asked.items() if value is not None})
    recipe = replace(recipe, warmup_as_asked=options.warmup is not None)
    if recipe.steps is not None:
        recipe.check_warmup(recipe.steps)  # at once, not when a long text has been read
    width, heads = (options.sizes.get(name, getattr(recipe.model, name)) for name in ("d_model", "n_heads"))
    if width % heads:
        raise UserError(f"--d-model {width} cannot be shared by --n-heads {heads}: choose a multiple")
    model = make_or_refuse(replace, recipe.model, **options.sizes)
    if model.d_model % 2 and model.positions == "sinusoidal":
        raise UserError(f"--d-model {model.d_model}: choose an even number, for the positions come in pairs")
    if model.max_len < 2:
        raise UserError(f"--max-len 1: {short}; give at least 2")
    return replace(recipe, model=model)
