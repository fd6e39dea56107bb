"""The gradient check itself: it must accept what is right and name what is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd.functional as F
import kernels
from autograd import Function, GradcheckError, Tensor, gradcheck
from kernels.samples import SAMPLES, samples
from minitransformer.app.cli.gradcheck import differentiable


def leaf(rng, *shape):
    return Tensor(rng.standard_normal(shape), requires_grad=True)


def check_every_sample(name, **how):
    for label, arguments in samples(name, "float64"):
        try:
            gradcheck(Function.rules[name].apply, differentiable(arguments), **how)
        except GradcheckError as error:
            pytest.fail(f"{name}, {label}: {error}")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_rule_on_every_sample(backend, name):
    """The emulator computes thread by thread: there Jacobians are checked along two directions, below in full."""
    check_every_sample(name, **({"full_jacobian": 0, "directions": 2} if backend.name == "emulated" else {}))


class Arena:
    """New arrays lie one after another in one piece of memory, so many bytes apart."""

    def __init__(self, apart):
        self.memory, self.used, self.apart = np.zeros(1 << 25, dtype=np.uint8), 0, apart

    def empty(self, shape, dtype=float, **_):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        start, self.used = self.used, -(-(self.used + size) // 64) * 64 + self.apart
        return self.memory[start : start + size].view(dtype).reshape(shape)

    def zeros(self, shape, dtype=float, **_):
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def empty_like(self, like, dtype=None, **_):
        return self.empty(like.shape, dtype or like.dtype)

    def copy(self, array):
        copied = self.empty_like(array)
        copied[...] = array
        return copied


@pytest.mark.parametrize("name", SAMPLES)
def test_bits_do_not_depend_on_where_arrays_lie(monkeypatch, name):
    """Compiled loops go another way where a result lies right behind an input. A gradient that is zero but for one
    element leaves zeros behind, whose sign would show which way was taken."""
    for label, arguments in samples(name, "float64"):
        seen = set()
        for apart in (0, 64, 1 << 12):
            arena = Arena(apart)
            with kernels.use("numba"), monkeypatch.context() as patched:
                for function in ("empty", "zeros", "empty_like"):
                    patched.setattr(np, function, getattr(arena, function))
                inputs = differentiable([arena.copy(a) if isinstance(a, np.ndarray) else a for a in arguments])
                output = Function.rules[name].apply(*inputs)
                output.backward(arena.copy(np.eye(1, output.size, output.size // 2).reshape(output.shape)))
                seen.add(b"".join(t.grad.numpy().tobytes() for t in inputs if isinstance(t, Tensor)))
        assert len(seen) == 1, f"{name}, {label}: other bits where arrays lie close together"


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_every_rule_in_full_on_the_emulator(name):
    if (reason := kernels.reasons()["emulated"]) is not None:
        pytest.skip(f"the emulator cannot be used: {reason}")
    with kernels.use("emulated"):
        check_every_sample(name)


@pytest.mark.parametrize("name", SAMPLES)
def test_float32_gradients_follow_float64(backend, name):
    """No difference quotient has digits enough in float32; the float64 rule, checked above, is the measure."""
    for label, single in samples(name, "float32"):
        double = [a.astype("float64") if getattr(a, "dtype", None) == "float32" else a for a in single]
        gradients = []
        for arguments in (single, double):
            tensors = [
                Tensor(a, requires_grad=True) if getattr(getattr(a, "dtype", None), "kind", "") == "f" else a
                for a in arguments
            ]
            result = Function.rules[name].apply(*tensors)
            result.backward(np.cos(np.arange(result.size)).reshape(result.shape))
            gradients.append([t.grad.numpy() for t in tensors if isinstance(t, Tensor)])
        for ours, theirs in zip(*gradients, strict=True):
            assert ours.dtype == np.float32
            # as in test_agreement: 100 units in the last place of the largest element; layer norm divides by a
            # standard deviation that may be small, which its own gradient's size reflects
            scale = 100 * np.finfo("float32").eps * max(1.0, np.abs(theirs).max(initial=0.0))
            assert np.abs(ours - theirs).max(initial=0.0) <= scale, f"{name}, {label}"


@settings(max_examples=15)
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 6),
    st.booleans(),
    st.data(),
)
def test_attention_of_any_shape(B, G, T, S, D, is_causal, data):
    rng = np.random.default_rng(T * 100 + S)
    lengths = np.array(data.draw(st.lists(st.integers(0, S), min_size=B, max_size=B)))
    p = data.draw(st.sampled_from([0.0, 0.3]))
    H = G * data.draw(st.integers(1, 3))
    for backend in kernels.available():
        with kernels.use(backend):
            q, k, v = leaf(rng, B, H, T, D), leaf(rng, B, G, S, D), leaf(rng, B, G, S, D)
            gradcheck(
                lambda q, k, v: F.attention(q, k, v, is_causal, lengths, p, seed=1),
                (q, k, v),
                full_jacobian=200,
                directions=2,
            )


@settings(max_examples=8)
@given(st.integers(1, 9), st.integers(1, 17), st.integers(1, 9), st.sampled_from(["relu", "gelu", "tanh", "gelu_tanh"]))
def test_layers_of_any_shape(N, C, width, activation):
    rng = np.random.default_rng(N * 100 + C)
    for backend in kernels.available():
        with kernels.use(backend):
            # ReLU's corner: the numerical derivative steps over it unless the sample stays clear of 0
            x, w1, b1 = leaf(rng, N, C), leaf(rng, width, C), leaf(rng, width)
            pre = x.numpy() @ w1.numpy().T + b1.numpy()
            if activation == "relu" and np.abs(pre).min() < 0.1:
                activation = "tanh"
            gradcheck(
                lambda *a, activation=activation: F.feed_forward(*a, activation=activation),
                (x, w1, b1, leaf(rng, C, width), leaf(rng, C)), full_jacobian=100, directions=2,
            )  # fmt: skip
            gradcheck(F.layer_norm, (leaf(rng, N, C), leaf(rng, C), leaf(rng, C), 0.1), full_jacobian=100, directions=2)
            gate = ("silu", "gelu")[N % 2]
            gradcheck(
                lambda x, w, up, down, bias, gate=gate: F.gated_feed_forward(x, w, up, down, gate, b_up=bias),
                (leaf(rng, N, C), leaf(rng, width, C), leaf(rng, width, C), leaf(rng, C, width), leaf(rng, width)),
                full_jacobian=100, directions=2,
            )  # fmt: skip
            words = max(2, width)  # a choice of one has the gradient 0, of which rounding leaves no digit right
            targets = rng.integers(0, words, N)
            gradcheck(
                lambda x, w, b, t=targets: F.linear_cross_entropy(x, w, b, t),
                (leaf(rng, N, C), leaf(rng, words, C), leaf(rng, words)), full_jacobian=100, directions=2,
            )  # fmt: skip


COMPOSED = {
    "where": lambda x, y: F.where(x.numpy() > 0, x, y * 2),
    "where with a number": lambda x, y: F.where(np.array([True, False, True]), x * y, 1.0),
    "variance": lambda x, y: (x * y).var(axis=1, keepdims=True),
    "mean": lambda x, y: (x - y).mean(axis=0),
    "a vector on the left": lambda x, y: x[0] @ y.T,
    "a vector on the right": lambda x, y: x @ y[1],
    "expanded": lambda x, y: x[:, None].expand(2, 4, 3) * y[:, None],
    "concatenated, stacked and split": lambda x, y: F.split(F.stack([F.concatenate([x, y], axis=1)] * 2), 3, axis=2)[1],
    "cut into heads and joined": lambda x, y: F.joined_heads(F.heads(F.stack([x, y]), 1, 3, 1) * 2.0),
    "all heads but one": lambda x, y: F.heads(F.stack([x, y]), 0, 2, 1) * F.heads(F.stack([y, x]), 1, 3, 1),
    "picked several times": lambda x, y: x[[0, 1, 1, 0]] * y[:, [2, 2, 2]].sum(),
    "reversed": lambda x, y: x[::-1, ::2] * y[:, 1:],
    "absolute": lambda x, y: abs(x) * y,
    "softmax along the first axis": lambda x, y: F.softmax(x * y, axis=0),
    "log-softmax of three axes": lambda x, y: F.log_softmax(F.stack([x, y]), axis=1),
    "cast there and back": lambda x, y: x.astype("float64") * y,
    "several outputs": lambda x, y: (x * y, (x - y).sum(), x.exp()),
    "rows of a matrix": lambda x, y: F.stack([row * row for row in x]) + y,
    "power of two tensors": lambda x, y: (x * x + 1) ** y,
    "number to a power": lambda x, y: 2.0 ** (x * y),
    "three leading axes": lambda x, y: F.linear(x.reshape(1, 2, 1, 3), y),
    "embedding": lambda x, y: F.embedding(x, np.array([[0, 1], [1, 1]])) * y[0],
    "dropout": lambda x, y: F.dropout(x * y, 0.5, seed=4),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_functions(backend, rng, name):
    gradcheck(COMPOSED[name], (leaf(rng, 2, 3), leaf(rng, 2, 3)))


class Wrong(Function):
    """y = x², with a derivative that a test chooses."""

    rule = staticmethod(lambda self, dy: 2 * dy * self.x)

    def forward(self, x):
        self.x = x
        return x * x

    def backward(self, dy):
        return type(self).rule(self, dy)


def with_rule(rule):
    return type("Wrong", (Wrong,), {"rule": staticmethod(rule)}).apply


def test_the_message_names_the_worst_entry(backend):
    def rule(self, dy):
        dx = 2 * dy * self.x
        dx[0, 1] *= 1 + 1e-4
        return dx

    x = Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(with_rule(rule), (x,))
    message = str(caught.value)
    assert "d output[0, 1] / d input 0[0, 1], input of shape (2, 2)" in message
    assert "analytic 4.0004, numeric 4" in message and "relative error 0.0001" in message


@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6, 3e-7])
def test_small_errors_are_found_and_smaller_ones_are_not(backend, rng, error):
    """The tolerance is 1e-7: three times as much is caught, a third is let pass."""
    x = leaf(rng, 3)
    with pytest.raises(GradcheckError):
        gradcheck(with_rule(lambda self, dy: 2 * dy * self.x * (1 + error)), (x,))
    gradcheck(with_rule(lambda self, dy: 2 * dy * self.x * (1 + 3e-8)), (x,))


def test_large_inputs_are_checked_along_directions(backend, rng):
    x = leaf(rng, 3000)
    assert gradcheck(with_rule(lambda self, dy: 2 * dy * self.x), (x,)).entries == 6

    def one_wrong(self, dy):
        dx = 2 * dy * self.x
        dx[1234] *= -1
        return dx

    with pytest.raises(GradcheckError, match="along a random direction of input 0.*6 of 6 directions are wrong"):
        gradcheck(with_rule(one_wrong), (x,))


def test_a_missing_gradient_is_called_missing(backend, rng):
    with pytest.raises(GradcheckError, match="input 1 got no gradient at all, yet the function depends on it"):
        gradcheck(lambda x, y: x * y.detach(), (leaf(rng, 3), leaf(rng, 3)))
    with pytest.raises(GradcheckError, match="input 0 got no gradient at all"):
        gradcheck(with_rule(lambda self, dy: None), (leaf(rng, 2000),))


def test_an_input_that_does_not_matter_needs_no_gradient(backend, rng):
    assert gradcheck(lambda x, y: x * 2, (leaf(rng, 3), leaf(rng, 3)))


def test_wrong_shape_and_dtype_are_called_so(backend, rng):
    with pytest.raises(GradcheckError, match=r"returned shape \(1,\) float64 for input 0"):
        gradcheck(with_rule(lambda self, dy: dy[:1]), (leaf(rng, 3),))
    with pytest.raises(GradcheckError, match="float32 for input 0"):
        gradcheck(with_rule(lambda self, dy: (2 * dy * self.x).astype("float32")), (leaf(rng, 3),))


def test_other_bits_the_second_time_are_found(backend, rng):
    noise = np.random.default_rng(0)
    with pytest.raises(GradcheckError, match="other bits the second time"):
        gradcheck(with_rule(lambda self, dy: 2 * dy * self.x + 1e-14 * noise.random()), (leaf(rng, 3),))


def test_a_random_function_is_refused(backend, rng):
    with pytest.raises(GradcheckError, match="different values when called twice; fix its seed"):
        gradcheck(lambda x: F.dropout(x, 0.5), (leaf(rng, 100),))


def test_a_gradient_of_nan_is_wrong(backend, rng):
    with pytest.raises(GradcheckError):
        gradcheck(with_rule(lambda self, dy: dy * np.nan), (leaf(rng, 3),))


def test_misuse_is_explained(backend, rng):
    with pytest.raises(ValueError, match="differences need float64"):
        gradcheck(lambda x: x * 2, (Tensor(np.ones(3, "float32"), requires_grad=True),))
    with pytest.raises(ValueError, match="at least one input with requires_grad"):
        gradcheck(lambda x: x * 2, (Tensor(np.ones(3)),))
    with pytest.raises(GradcheckError, match="must return Tensors, not ndarray"):
        gradcheck(lambda x: x.numpy(), (leaf(rng, 3),))


def test_the_callers_tensors_are_left_alone(backend, rng):
    x = leaf(rng, 3)
    before = x.numpy().copy()
    gradcheck(lambda x: x * x, x)
    assert x.grad is None and x.numpy().tobytes() == before.tobytes()


@pytest.mark.parametrize("function", [lambda x: x.exp(), lambda x: (x * 30).tanh(), lambda x: (x * x * 1e6 + 1).log()])
def test_strongly_curved_functions_pass(backend, function):
    """The step adapts: at the first one, tanh(30x) is far from its Taylor polynomial."""
    x = Tensor(np.array([0.03, 0.3, -0.01, 2.0]), requires_grad=True)
    assert gradcheck(function, (x,)).worst_error < 1e-7


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_inputs_and_outputs_of_any_size(backend, rng, scale):
    x = Tensor(rng.uniform(0.5, 1.5, 4) * scale, requires_grad=True)
    assert gradcheck(lambda x: x * x, (x,))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_gradient_is_wrong(backend, value):
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(GradcheckError, match="analytic -?inf"):
        gradcheck(with_rule(lambda self, dy: np.where(self.x > 1.5, value, 2 * dy * self.x)), (x,))


class WrongReciprocal(Function):
    def forward(self, x):
        return 1 / x

    def backward(self, dy):
        return 17 * dy


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("point", [0.01, 0.005])
def test_near_a_pole_the_step_shrinks(backend, point):
    """The first step lands on or beyond the pole, where differences are infinite or meaningless."""
    x = Tensor(np.array([point]), requires_grad=True)
    with pytest.raises(GradcheckError, match="analytic 17"):
        gradcheck(WrongReciprocal.apply, (x,))
    assert gradcheck(lambda x: 1 / x, (x,))
    assert gradcheck(lambda x: x.log() + x.sqrt(), (x,))


def test_a_large_neighbour_does_not_hide_a_wrong_rule(backend):
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(GradcheckError, match="relative error 0.33"):
        gradcheck(lambda x: (x[:1] * 1e12, with_rule(lambda self, dy: 3 * dy * self.x)(x)), (x,))


def test_what_cannot_be_told_is_not_called_right(backend):
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(GradcheckError, match="drown in the rounding noise"):
        gradcheck(lambda x: with_rule(lambda self, dy: 3 * dy * self.x)(x) + 1e12, (x,))


def test_a_kink_is_suspected(backend):
    with pytest.raises(GradcheckError, match="a kink here, with slope .* on the left and 1 on the right"):
        gradcheck(
            lambda x: (x * x).sqrt() ** 1.5 * 0 + F.relu(x + 1e-7), Tensor(np.zeros(1) + 1e-9, requires_grad=True)
        )
    with pytest.raises(GradcheckError, match="nothing to differentiate"):
        gradcheck(lambda x: [], Tensor(np.ones(1), requires_grad=True))


MISTAKES = {
    "exactly twice the true one": lambda self, dy: 4 * dy * self.x,
    "3/2 times the true one": lambda self, dy: 3 * dy * self.x,
    "half of the true one": lambda self, dy: dy * self.x,
    "3.14159 times the true one": lambda self, dy: 2 * 3.14159 * dy * self.x,
    "the wrong sign": lambda self, dy: -2 * dy * self.x,
    "is transposed": lambda self, dy: (2 * dy * self.x).T,
    "is zero everywhere": lambda self, dy: 0 * dy,
    "where index 0 of the input is 1, whose gradient is zero": lambda self, dy: 2 * dy * self.x * [[1], [0], [1]],
    "where index 1 of the input is 0, 2": lambda self, dy: 2 * dy * self.x + dy * np.array([1, 0, 1]),
}


@pytest.mark.parametrize("sentence", MISTAKES)
@pytest.mark.parametrize("large", [False, True], ids=["all entries", "directions"])
def test_a_common_mistake_is_named(backend, rng, sentence, large):
    """Along random directions only what holds for the gradient as a whole can be seen."""
    if large and any(word in sentence for word in ("transposed", "index")):
        sentence = "6 of 6 directions are wrong"
    with pytest.raises(GradcheckError) as caught:
        gradcheck(
            with_rule(MISTAKES.get(sentence, MISTAKES["is transposed"])),
            leaf(rng, 3, 3),
            full_jacobian=0 if large else 81,
        )
    assert sentence in str(caught.value)


def test_a_mistake_that_explains_only_a_part_is_not_named(backend, rng):
    def mixed(self, dy):
        dx = 4 * dy * self.x
        dx[0, 0] *= 3
        return dx

    with pytest.raises(GradcheckError) as caught:
        gradcheck(with_rule(mixed), leaf(rng, 3, 3))
    assert "twice" not in str(caught.value) and "9 of 81 entries are wrong" in str(caught.value)


def test_the_op_is_named(backend, rng):
    class Flat(Function):
        def forward(self, x):
            return x * 3

        def backward(self, dy):
            return dy

    for function, name in ((Flat.apply, "Flat: "), (lambda x: Flat.apply(x).exp(), "a function that ends in Exp: ")):
        with pytest.raises(GradcheckError, match=name):
            gradcheck(function, leaf(rng, 2))


def test_several_outputs_have_places_of_their_own(backend, rng):
    wrong = with_rule(lambda self, dy: 3 * dy * self.x)
    with pytest.raises(GradcheckError, match=r"d output 1\[\d, \d\] / d input 0\[\d, \d\]"):
        gradcheck(lambda x: (x.sum(), wrong(x)), leaf(rng, 2, 3))


def test_a_forward_that_changes_its_input_is_named(backend, rng):
    class InPlace(Function):
        def forward(self, x):
            x *= 2
            return x.copy()

        def backward(self, dy):
            return 2 * dy

    with pytest.raises(GradcheckError, match="InPlace: the forward pass changes input 0 in place"):
        gradcheck(InPlace.apply, leaf(rng, 3))


def test_functions_in_pytorchs_form_are_explained():
    with pytest.raises(TypeError, match="methods here, not static.*self.save"):

        class Cube(Function):
            @staticmethod
            def forward(ctx, x):
                return x**3


def test_the_report_says_what_was_compared(backend, rng):
    few, many = gradcheck(lambda x: x * x, leaf(rng, 3)), gradcheck(lambda x: x * x, leaf(rng, 100))
    assert few.complete and str(few).startswith("right: all 9 entries agree")
    assert not many.complete and "random directions" in str(many)
