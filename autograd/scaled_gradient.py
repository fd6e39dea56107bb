"""A gradient times a number that is multiplied as late as possible: what clipping leaves behind."""

from typing import Any

from autograd.storage import Storage
from autograd.tensor import Tensor


class ScaledGradient(Tensor):
    """gradient · factor. An optimizer's kernel multiplies while it reads, which spares a pass over the array; for
    whoever asks for anything else than these two, it becomes the product."""

    __slots__ = ("gradient", "factor")

    def __init__(self, gradient: Tensor, factor: float):
        self.gradient, self.factor = gradient, factor  # and nothing of a Tensor yet

    def __getattr__(self, name: str) -> Any:
        """Only asked for what there is not."""
        if name not in Tensor.__slots__:
            return super().__getattr__(name)
        backend, array = self.gradient.backend, self.gradient.array
        product = backend.multiply(array, backend.asarray(array.dtype.type(self.factor)))
        self._hold(product, backend, Storage(product, needed=1))
        self.gradient, self.factor = self.detach(), 1.0
        return getattr(self, name)

    def __reduce__(self):
        return self.detach().__reduce__()


def gradient_and_factor(gradient: Tensor) -> tuple[Any, float]:
    """Array and number whose product is the gradient."""
    if isinstance(gradient, ScaledGradient):
        return gradient.gradient.array, gradient.factor
    return gradient.array, 1.0
