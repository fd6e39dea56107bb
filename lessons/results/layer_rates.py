"""Adam with a learning rate of its own for some of the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from minitransformer.optim import Adam, Parameters


class RatedAdam(Adam):
    """Adam moves every weight by about as much, however small its gradient is; this is the way to hold some back.

    rates: for names that begin so, a factor on the learning rate; where several apply, their product"""

    def __init__(self, parameters: Parameters, lr: float = 1e-3, *, rates: Mapping[str, float], **options: Any):
        super().__init__(parameters, lr, **options)
        unused = [start for start in rates if not any(name.startswith(start) for name in self.parameters)]
        if unused:
            raise ValueError(f"rates: no parameter's name begins with {unused[0]!r}")
        self.factors = {
            name: math.prod(factor for start, factor in rates.items() if name.startswith(start))
            for name in self.parameters
        }

    def rate(self, name: str) -> float:
        return self.lr * self.factors[name]
