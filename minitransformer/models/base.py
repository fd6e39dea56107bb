"""What all models share: their configuration, their random state, and words at positions as vectors."""

import inspect
import math
from typing import Any, Self

import numpy as np

from autograd import Tensor, no_grad
from minitransformer.config import Config, field_named, names_of
from minitransformer.layers import Embedding, EncoderLayer, MultiheadAttention, Stack, norm
from minitransformer.models.inputs import row_lengths
from minitransformer.module import Init, Module
from minitransformer.positions import Positions


class Model(Module):
    """A whole network, made of a Config or of its settings: LanguageModel(config), LanguageModel(vocab_size=...).

    `config` says what it is; `init` makes its weights and its dropout masks."""

    kind: str  # which fields of Config it has
    kinds: dict[str, type["Model"]] = {}  # all there are, by name: a checkpoint says which one it holds

    def __init_subclass__(cls) -> None:
        Model.kinds[cls.__name__] = cls
        usual = {name: field_named(name).default for name in names_of(cls.kind)}
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what help() shows
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=usual[name]) for name in usual]
        )

    def __init__(self, *sizes: Any, **settings: Any):
        self.config = Config.of(self.kind, *sizes, **settings)
        self.init = Init(self.config.seed, self.config.dtype)

    def settings(self) -> dict[str, Any]:
        """What its constructor was given or took for granted, by name, ready for JSON."""
        return self.config.settings(self.kind)

    def attention(self, *inputs: Any, **options: Any) -> dict[str, np.ndarray]:
        """How much each word looks at each other: name of the attention layer → weights (B, H, T, S), rows of sum 1.
        The inputs are those of the model."""
        layers = {name: part for name, part in self.named_modules() if isinstance(part, MultiheadAttention)}
        training = self.training
        try:
            for layer in layers.values():
                layer.watched = []
            with no_grad():
                self.eval()(*inputs, **options)
            return {name: layer.watched[0] for name, layer in layers.items() if layer.watched}
        finally:
            self.train(training)
            for layer in layers.values():
                layer.watched = None

    def recompute(self, on: bool = True) -> Self:
        """From now on, layers keep their inputs only while training, and are computed again in backward: less memory
        for about a third more arithmetic, and the same gradients to the last bit."""
        for part in self.modules():
            if isinstance(part, Stack):
                part.recompute = on
        return self

    def fuse(self, on: bool = True) -> Self:
        """From now on, under `no_grad` and without dropout, one kernel computes a whole encoder layer: the same up to
        rounding in less time, a third less on few words. Layers of another form than BERT's (norms before, gates,
        rotary positions) go their usual way, and so does a model that writes word by word."""
        for part in self.modules():
            if isinstance(part, EncoderLayer):
                part.fused = on
        return self

    def generate(self, ids: Any, lengths: Any = None, **options: Any) -> list[list[int]]:
        """New words for each row of a language model or translator. Options: minitransformer.decoding.stream."""
        from minitransformer.decoding import generate  # which knows the models

        return generate(self, ids, lengths, **options)  # type: ignore[arg-type]  # others are refused there

    def rng_state(self) -> dict[str, int]:
        """Where the sequence of dropout masks stands."""
        seeds = self.init.dropout_seeds
        return {"seed": seeds.seed, "counter": seeds.counter}

    def set_rng_state(self, state: dict[str, int]) -> None:
        """Goes on with the dropout masks from there."""
        seeds = self.init.dropout_seeds
        seeds.seed, seeds.counter = int(state["seed"]), int(state["counter"])


class TokenEmbedding(Embedding):
    """A vector for each word plus one for its position, where positions are vectors.   ids (B, T) → (B, T, C)

    With `scale_embedding` words are multiplied by √C, so that they are not drowned by waves of size 1."""

    def __init__(self, vocab_size: int, config: Config, *, init: Init):
        super().__init__(vocab_size, config.d_model, init=init)
        self.vocab_size, self.max_len = vocab_size, config.max_len
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        added = config.positions in ("sinusoidal", "learned")
        self.positions = Positions(config.max_len, config.d_model, config.positions, init=init) if added else None
        self.norm = norm(config, init=init) if config.norm_embedding else None

    def forward(self, ids: Any, starts: np.ndarray | None = None) -> Tensor:
        words = super().forward(ids)
        if self.scale != 1.0:
            words = words * self.scale
        if self.positions is not None:
            words = words + self.positions(ids.shape[1], starts)
        return words if self.norm is None else self.norm(words)


def mean_of_rows(x: Tensor, lengths: Any = None) -> Tensor:
    """Σ over t < lengths[b] of x[b, t] / lengths[b]: a text as a whole.   x (B, T, C) → (B, C)"""
    B, T, C = x.shape
    lengths = row_lengths("lengths", lengths, B, T)
    xp = x.backend.xp
    ends = x.backend.asarray(np.full(B, T) if lengths is None else lengths)[:, None, None]
    weights = xp.where(xp.arange(T) < ends, 1 / ends, 0.0).astype(x.dtype)  # (B, 1, T)
    return (Tensor(weights, backend=x.backend) @ x).reshape(B, C)
