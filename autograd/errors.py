"""What can go wrong on the tape. The messages stand where it happens, except those about rules that users wrote."""

from collections.abc import Sequence
from typing import Any


class AutogradError(RuntimeError):
    """Something that cannot be differentiated, or not any more; the message says what to do."""


class MissingRule(AutogradError):
    """A Function without a derivative rule was asked for its derivative."""


# ---------------------------------------------------------------------------------------------------- users' rules


def refuse_static_methods(rule: type) -> None:
    """PyTorch's forward and backward are static methods; whoever writes such a rule is told what to change."""
    if any(isinstance(vars(rule).get(name), staticmethod) for name in ("forward", "backward")):
        raise TypeError(
            f"{rule.__name__}: forward and backward are methods here, not static: def forward(self, x), "
            "self.save(x) for ctx.save_for_backward(x), self.saved for ctx.saved_tensors; apply is the same"
        )


def several_outputs(name: str, outputs: Sequence) -> AutogradError:
    return AutogradError(f"{name}.forward must return one array, not {len(outputs)}")


def too_many_gradients(name: str, gradients: tuple, inputs: tuple) -> AutogradError:
    return AutogradError(f"{name}.backward returned {len(gradients)} gradients for {len(inputs)} inputs")


def misfitting_gradient(name: str, position: int, dx: Any, tensor: Any) -> AutogradError:
    return AutogradError(
        f"{name}.backward returned shape {tuple(dx.shape)} {dx.dtype} "
        f"for input {position}, which has shape {tensor.shape} {tensor.dtype}"
    )
