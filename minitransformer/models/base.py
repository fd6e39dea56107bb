"""What all models share: their configuration, their random state, and the embedding of words at positions."""

import math
from typing import Any, Self

import numpy as np

from autograd import Tensor
from minitransformer.layers import Embedding, EncoderLayer, Stack
from minitransformer.models.inputs import counts
from minitransformer.module import Init, Module
from minitransformer.positions import Positions


class Model(Module):
    """A whole network. `init` makes its weights and its dropout masks."""

    init: Init

    def __init__(self, arguments: dict[str, Any]):
        """arguments: `locals()` of the subclass's constructor, so that `config` has each of them, and none is
        forgotten."""
        self._config = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
        self._config["dtype"] = np.dtype(self._config["dtype"]).name
        not_sizes = ("dropout", "seed", "dtype", "activation", "positions", "pooling")
        counts(**{n: v for n, v in self._config.items() if n not in not_sizes and not isinstance(v, bool)})
        self.init = Init(self._config["seed"], self._config["dtype"])

    def config(self) -> dict[str, Any]:
        """The constructor's arguments; numbers, strings and booleans, ready for JSON."""
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in self._config.items()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """A fresh model with these arguments; load_state_dict brings the weights."""
        return cls(**config)

    def rng_state(self) -> dict[str, int]:
        """Where the sequence of dropout masks stands."""
        seeds = self.init.dropout_seeds
        return {"seed": seeds.seed, "counter": seeds.counter}

    def set_rng_state(self, state: dict[str, int]) -> None:
        """Goes on with the dropout masks from there."""
        seeds = self.init.dropout_seeds
        seeds.seed, seeds.counter = int(state["seed"]), int(state["counter"])


class TokenEmbedding(Embedding):
    """A vector for each word plus one for its position.   ids (B, T) → (B, T, C)

    scale multiplies the words by √C, so that they are not drowned by waves of size 1."""

    def __init__(self, vocabulary: int, d_model: int, max_len: int, scale: bool, positions: str, *, init: Init):
        super().__init__(vocabulary, d_model, init=init)
        self.vocabulary, self.max_len = vocabulary, max_len
        self.scale = math.sqrt(d_model) if scale else 1.0
        self.positions = Positions(max_len, d_model, positions, init=init)

    def forward(self, ids: Any, starts: np.ndarray | None = None) -> Tensor:
        words = super().forward(ids)
        if self.scale != 1.0:
            words = words * self.scale
        return words + self.positions(ids.shape[1], starts)


def encoder(
    n_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float, activation: str, norm_first: bool, init: Init
) -> Stack:
    """The stack of encoder layers that serves every model."""
    options = (d_model, n_heads, d_ff, dropout, activation, norm_first)
    return Stack([EncoderLayer(*options, init=init) for _ in range(n_layers)], d_model, init=init)
