"""Adam with factors on the learning rate of some weights."""

import numpy as np
import pytest

from autograd import Tensor
from lessons.results.layer_rates import RatedAdam


def test_some_weights_can_learn_more_slowly():
    """The first step of Adam is lr in every direction; two factors that apply are multiplied."""
    names = ("words", "layers.0.a", "layers.1.a")
    weights = {name: Tensor(np.zeros(3), requires_grad=True) for name in names}
    optimizer = RatedAdam(weights.items(), lr=0.5, rates={"layers.": 0.1, "layers.1": 0.2})
    for weight in weights.values():
        weight.grad = Tensor(np.array([1.0, -2.0, 3e-3]))
    optimizer.step()
    for (name, weight), size in zip(weights.items(), (0.5, 0.05, 0.01), strict=True):
        np.testing.assert_allclose(weight.numpy(), [-size, size, -size], rtol=1e-5, err_msg=name)  # eps / 3e-3
    assert optimizer.lr == 0.5
    with pytest.raises(ValueError, match="no parameter's name begins with 'layer2'"):
        RatedAdam(weights.items(), rates={"layer2": 0.1})
