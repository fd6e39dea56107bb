"""Reverse-mode differentiation, small enough to read in one sitting.

    from autograd import Tensor, no_grad, gradcheck
    import autograd.functional as F

The whole idea, in the order in which to read it:
    tensor.py    a Tensor remembers the Function that made it; `backward` walks that record from end to beginning, and
                 gradients from several uses add up
    function.py  what a Function is asked for, and what it saves for its derivative
    storage.py   what was saved must not change meanwhile
Then `operators.py`, `shapes.py` and `functional.py`: the derivative rules, one short class each. `syntax.py` lets one
write a + b, `torch_names.py` what PyTorch taught; `conversion.py` says what becomes a Tensor and how leaves are copied,
`partial_gradient.py` spares the zeros around slices and rows, `scaled_gradient.py` is what clipping leaves behind,
`recomputation.py` trades time for memory; `recorder.py` notes every kernel's call, and `tape.py`, `draw.py` and
`gradcheck.py` ask questions.
"""

import kernels

PROJECT = "minitransformer"  # tells this package from others of its name

if getattr(kernels, "PROJECT", None) != PROJECT:
    raise ImportError(
        f"the package 'kernels' that Python found ({getattr(kernels, '__file__', None) or 'no file'}) is not "
        "minitransformer's; install minitransformer in an environment of its own (make does), or: pip uninstall kernels"
    )

from autograd import functional  # noqa: E402 - only after the check above
from autograd.draw import draw  # noqa: E402
from autograd.errors import AutogradError, MissingRule  # noqa: E402
from autograd.function import Function, is_grad_enabled, no_grad  # noqa: E402
from autograd.functional import manual_seed  # noqa: E402
from autograd.gradcheck import GradcheckError, gradcheck  # noqa: E402
from autograd.recomputation import recompute  # noqa: E402
from autograd.tensor import Tensor  # noqa: E402
from autograd.torch_names import ones, randn, zeros  # noqa: E402

__all__ = [
    "AutogradError",
    "Function",
    "GradcheckError",
    "MissingRule",
    "Tensor",
    "draw",
    "functional",
    "gradcheck",
    "is_grad_enabled",
    "manual_seed",
    "no_grad",
    "ones",
    "randn",
    "recompute",
    "zeros",
]
