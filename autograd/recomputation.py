"""Recomputation: a part of the network keeps its inputs only, and is computed again when its derivative is due.

Memory is traded for time. A stack of L layers normally keeps every layer's inner results until backward comes for
them; with each layer recomputed, it keeps L layer inputs and the inner results of the one layer that backward is in.
The price is a second forward pass, about a third more arithmetic in a training step.

    y = recompute(layer, x, parameters=layer.parameters())      # the same y, the same gradients, less memory

The gradients are the same to the last bit, since the same numbers are computed twice. That is looked at, not believed:
a function that draws new random numbers, or reads a switch that somebody has turned meanwhile, is refused.
`minitransformer.layers.Stack` shows how dropout draws the same numbers again.
"""

from collections.abc import Callable, Iterable
from typing import Any

from autograd.errors import AutogradError
from autograd.function import Rule, grad_mode, no_grad
from autograd.tensor import Tensor


def recompute(function: Callable[..., Tensor], *inputs: Tensor, parameters: Iterable[Tensor] = ()) -> Tensor:
    """function(*inputs), whose inner results are not kept for backward.

    parameters  the Tensors that function uses beside its inputs, and that want a gradient"""
    parameters = [p for p in parameters if p.requires_grad]
    if not grad_mode.get() or not any(x.requires_grad for x in (*inputs, *parameters)):
        return function(*inputs)  # there will be no backward
    return Recomputed.apply(function, len(inputs), *inputs, *parameters)


class Recomputed(Rule):
    """y = function(x_1 ... x_n), with parameters p_1 ... p_m that the function knows by itself."""

    def forward(self, function: Callable[..., Tensor], count: int, *arrays: Any) -> Any:
        self.function, self.count = function, count
        with no_grad():
            y = function(*self._leaves(arrays[:count])).array
        # the parameters too: nobody may change them before the second time. y costs nothing: whoever uses it keeps it
        self.save(y, *arrays)
        return y

    def backward(self, dy: Any) -> tuple:
        leaves, y = self.again()
        gradients = {id(leaf): dx for leaf, dx in y.leaf_gradients(dy)} if y.requires_grad else {}
        if gradients.keys() - {id(leaf) for leaf in leaves}:
            raise AutogradError(
                "a recomputed function uses a Tensor that wants a gradient and is neither among its inputs nor among "
                "its parameters; name it: recompute(function, *inputs, parameters=[...])"
            )
        return None, None, *(gradients.get(id(leaf)) for leaf in leaves)

    def again(self) -> tuple[list[Any], Tensor]:
        """Inputs and parameters, and y once more, on a tape that ends at them."""
        former, *arrays = self.saved
        inputs = self._leaves(arrays[: self.count])
        for leaf, needed in zip(inputs, self.needs[2:], strict=False):
            leaf.requires_grad = needed
        recording = grad_mode.set(True)
        try:
            y = self.function(*inputs)
        finally:
            grad_mode.reset(recording)
        if not self._is_the_same(y.array, former):
            raise AutogradError(
                "a recomputed function gave other numbers the second time; it must not draw new random numbers, and "
                "what it reads (weights, training or eval mode) must stay as it was until backward"
            )
        return [*inputs, *self.inputs[2 + self.count :]], y

    def _is_the_same(self, y: Any, former: Any) -> bool:
        return bool(self.xp.array_equal(y, former, equal_nan=True))

    def _leaves(self, arrays: Any) -> list[Tensor]:
        """The inputs without their past."""
        return [Tensor.holding(array, self.kernels.backend) for array in arrays]
