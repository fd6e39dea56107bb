"""Runs every mutant of every backward rule of one tier, and reports which ones gradcheck let pass.

    python tests/autograd/mutation_score.py autograd | reference | cpu

The Numba tier is mutated as plain Python (NUMBA_DISABLE_JIT=1, which the caller sets): compiling each mutant would
take seconds, and the formulas are the same.
"""

import importlib
import json
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from mutants import mutants

import kernels
from autograd import Function, Tensor, functional, gradcheck, operators, shapes
from autograd.examples import EXAMPLES
from kernels.samples import SEVERAL_BLOCKS, samples

# Functions that are part of a backward rule without being named after it: where they live, and whose samples run them.
HELPERS = {
    "reference": [("feed_forward", "activate_backward", ["feed_forward"])],
    "cpu": [
        ("feed_forward", "_activation_backward", ["feed_forward"]),
        ("layer_norm", "_layer_norm_backward", ["layer_norm"]),
        ("rms_norm", "_rms_norm_backward", ["rms_norm"]),
        ("softmax", "_softmax_backward", ["softmax"]),
        ("softmax", "_log_softmax_backward", ["log_softmax"]),
        ("cross_entropy", "row_gradient", ["cross_entropy"]),
        ("linear_cross_entropy", "_forward", ["linear_cross_entropy"]),
        ("linear_cross_entropy", "_move_shifts", ["linear_cross_entropy"]),
        ("linear_cross_entropy", "_row_gradient", ["linear_cross_entropy"]),
        ("linear_cross_entropy", "_weight_gradient", ["linear_cross_entropy"]),
        ("linear_cross_entropy", "linear_cross_entropy", ["linear_cross_entropy"]),
        ("embedding", "_embedding_backward", ["embedding"]),
        ("attention", "_backward", ["attention"]),
        ("attention", "_backward_tile", ["attention"]),
        ("attention", "weigh", ["attention"]),
        ("linear", "_linear_backward", ["linear"]),
        ("linear", "weight_block", ["linear", "feed_forward"]),
        ("linear", "add_rows", ["linear", "feed_forward"]),
        ("feed_forward", "_feed_forward_backward", ["feed_forward"]),
        ("gated_feed_forward", "_gated_feed_forward_backward", ["gated_feed_forward"]),
        ("gated_feed_forward", "_gate_backward", ["gated_feed_forward"]),
        ("quantised_linear", "_backward", ["quantised_linear"]),
        ("gelu", "slope64", ["gelu"]),
        ("silu", "silu_slope", ["silu"]),
        ("silu", "gelu_tanh_slope", ["gelu_tanh"]),
        ("silu", "argument_slope64", ["gelu_tanh"]),
    ],
}

# Mutants that are no mistake: what they compute is the same number. Each with its reason.
LONGEST = 100  # seconds of processor time for one mutant; the right rules take a few
SAME_SHAPE = "only a shape is read, and the two arrays share it"
TWICE = "a block begins too early, at rows that another task computes as well"
SHARES = "into how many shares the work is cut decides who does it, not what comes out"
EARLY = "only what is asked for in advance is another, and no number depends on that"
UNSEEN = "keys or queries are visited of which nobody sees anything: their weights are 0"
EQUIVALENT = {
    ("Index.backward", "line 8, lost gradient: return self.xp.zeros(self.shape, dtype=dy.dtype)"): "zeros are zeros",
    ("Index.backward", "line 8, flipped sign: return self.xp.zeros(self.shape, dtype=dy.dtype)"): "zeros are zeros",
    ("reference/attention.attention_backward", "line 5, stale value v: k"): SAME_SHAPE,
    ("cpu/layer_norm._layer_norm_backward", "line 4, stale value dbias: dweight"): SAME_SHAPE,
    ("cpu/feed_forward.feed_forward_backward", "line 5, stale value x: dy"): SAME_SHAPE,
    ("cpu/attention.attention_backward", "line 3, stale value v: k"): SAME_SHAPE,
    ("cpu/attention.attention_backward", "line 3, stale value k: q"): SHARES,
    ("cpu/attention.attention_backward", "line 3, flipped sign: -(-k.shape[2] // BLOCK)"): SHARES,
    ("cpu/attention.attention_backward", "line 3, flipped sign: -k.shape[2]"): SHARES,
    ("cpu/attention.attention_backward", "line 6, stale value v: k"): SAME_SHAPE,
    ("cpu/attention.attention_backward", "line 11, stale value k: q"): SAME_SHAPE,
    ("cpu/attention.attention_backward", "line 11, stale value v: k"): SAME_SHAPE,
    ("cpu/attention.attention_backward", "line 3, missing second factor: k.shape[0] * k.shape[1]"): SHARES,
    ("cpu/attention.attention_backward", "line 3, missing first factor: k.shape[0] * k.shape[1]"): SHARES,
    ("cpu/attention._backward", "line 5, stale value v: k"): SAME_SHAPE,
    ("cpu/attention._backward", "line 5, stale value dv: dk"): SAME_SHAPE,
    ("cpu/attention._backward", "line 23, flipped sign: T - 1"): UNSEEN,
    ("cpu/attention._backward", "line 23, dropped second term: T - 1"): UNSEEN,
    ("cpu/attention._backward", "line 26, missing second factor: max(0, start - mask.query_offset) // BLOCK * BLOCK"):
        UNSEEN,
    ("cpu/attention._backward_tile", "line 7, stale value v: k"): SAME_SHAPE,
    ("cpu/attention._backward_tile", "line 11, flipped sign: start + j0"): UNSEEN,
    ("cpu/attention._backward_tile", "line 11, dropped second term: start + j0"): UNSEEN,
    ("cpu/attention._backward_tile", "line 11, dropped first term: start + j0"): UNSEEN,
    ("cpu/attention._backward_tile", "line 11, stale value start: first"):
        "wrong only where several tiles meet; the comparison with the reference over several tiles finds it",
    ("cpu/quantised_linear._backward", "line 7, missing second factor: i * N"): TWICE,
    ("cpu/feed_forward._feed_forward_backward", "line 4, stale value x: dy"): SAME_SHAPE,
    ("cpu/feed_forward._feed_forward_backward", "line 13, stale value db1: dw1"): SHARES,
    ("cpu/feed_forward._feed_forward_backward", "line 13, stale value db2: dw2"): SHARES,
    ("cpu/gated_feed_forward._gated_feed_forward_backward", "line 7, stale value x: dy"): SAME_SHAPE,
    ("cpu/gated_feed_forward.gated_feed_forward_backward", "line 5, stale value w_up: w_gate"): SAME_SHAPE,
    ("cpu/gated_feed_forward.gated_feed_forward_backward", "line 7, stale value x: dy"): SAME_SHAPE,
    ("cpu/gated_feed_forward.gated_feed_forward_backward", "line 8, stale value w_up: w_gate"): SAME_SHAPE,
    ("cpu/linear_cross_entropy._forward", "line 9, stale value bias: weight"): SAME_SHAPE,
    ("cpu/linear_cross_entropy._forward", "line 36, stale value shifts: dx"): "one empty array in place of another",
    ("cpu/linear_cross_entropy._weight_gradient", "line 8, missing second factor: C // (2 * TILE) * TILE"): SHARES,
    ("cpu/linear_cross_entropy._weight_gradient", "line 8, missing first factor: C // (2 * TILE) * TILE"): SHARES,
    ("cpu/linear_cross_entropy._weight_gradient", "line 8, missing second factor: 2 * TILE"): SHARES,
    ("cpu/linear_cross_entropy._weight_gradient", "line 8, missing first factor: 2 * TILE"): SHARES,
    ("cpu/linear_cross_entropy._weight_gradient", "line 24, stale value shifts: e"): EARLY,
    ("cpu/linear_cross_entropy._weight_gradient", "line 24, stale value dbias: dweight"): EARLY,
    ("cpu/linear_cross_entropy._forward", "line 46, stale value bias: weight"): EARLY,
    ("cpu/linear_cross_entropy._forward", "line 46, flipped sign: v0 + BLOCK"): EARLY,
    ("cpu/linear_cross_entropy._forward", "line 46, dropped second term: v0 + BLOCK"): EARLY,
    ("cpu/linear_cross_entropy._forward", "line 46, dropped first term: v0 + BLOCK"): EARLY,
    ("cpu/embedding.embedding_backward", "line 8, flipped sign: ends - starts"): SHARES,
    ("cpu/embedding.embedding_backward", "line 8, dropped second term: ends - starts"): SHARES,
    ("cpu/embedding.embedding_backward", "line 8, dropped first term: ends - starts"): SHARES,
    ("cpu/linear_cross_entropy.linear_cross_entropy", "line 24, missing second factor: dtype.type(1) / dtype.type(N)"):
        "a sum instead of a mean, in loss and gradient alike; the comparison with the reference finds it",
    ("cpu/linear_cross_entropy.linear_cross_entropy", "line 7, stale value label_smoothing: ignore_index"):
        "other rows count, in loss and gradient alike; the comparison with the reference finds it",
    ("cpu/linear_cross_entropy.linear_cross_entropy", "line 8, stale value weight: x"):
        "the general path is taken although every row counts: the same numbers",
}  # fmt: skip


def leaf(*shape):
    return Tensor(np.random.default_rng(len(shape)).standard_normal(shape), requires_grad=True)


def check_cast():
    """float32 has too few digits for differences, but casting is linear: the gradient is the upstream one."""
    x = leaf(2, 3)
    (x.astype("float32") * 2).backward(np.full((2, 3), 3.0))
    assert x.grad.numpy().tolist() == [[6.0] * 3] * 2


def check_handing_over():
    """gradcheck keeps the graph, so that the short cut for a graph used once needs a look of its own."""
    x, weight = leaf(5, 4), leaf(3, 4)
    loss = functional.linear_cross_entropy(x, weight, None, np.array([0, 2, 1, 1, 0]))
    loss.backward(retain_graph=True)
    kept, x.grad = x.grad.numpy(), None
    loss.backward()
    assert np.array_equal(x.grad.numpy(), kept)


DIRECT = {"Cast": [check_cast], "LinearCrossEntropy": [check_handing_over]}


_first: dict[str, str] = {}  # kernel → the sample that caught the last mutant: likely to catch the next one too


def check_kernel(name):
    """gradcheck on every sample, a few entries each where the Jacobian is large; raises when something is wrong."""
    # several blocks: hundreds of thousands of steps in Python; small blocks (see main) serve the purpose
    chosen = [sample for sample in samples(name, "float64") if sample[0] != SEVERAL_BLOCKS]
    for label, arguments in sorted(chosen, key=lambda sample: sample[0] != _first.get(name)):
        tensors = [Tensor(a, requires_grad=True) if getattr(a, "dtype", None) == "float64" else a for a in arguments]
        try:
            gradcheck(Function.rules[name].apply, tensors, full_jacobian=150, directions=3, explain=False)
        except Exception:
            _first[name] = label
            raise


def survives(check) -> bool:
    """Whether a broken rule passes the check. Any complaint counts: a wrong shape is an error too, and so is a loop
    that does not end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            check()
        except Exception:
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return True


def stop(*_):
    raise TimeoutError


def must_pass(check, name):
    """The right rule, under the very same check: without this, a broken check would catch everything."""
    try:
        check()
    except Exception as error:
        raise SystemExit(f"{name} fails before it is broken: {error}") from error


def held_by(function, original):
    """Where a function that was made of others (`by_precision`) holds this one."""
    return [cell for cell in getattr(function, "__closure__", None) or () if cell.cell_contents is original]


def kernel_mutants(tier):
    """(rule, description, survived) for every mutant of the backward kernels of a tier."""
    folder = importlib.import_module(f"kernels.{tier}")
    backend = kernels.current()
    files = sorted({p.stem for p in Path(folder.__path__[0]).glob("*.py")} - {"__init__"})
    targets = list(HELPERS[tier])
    for file in files:
        module = importlib.import_module(f"kernels.{tier}.{file}")
        for name in vars(module):
            base = name.removesuffix("_backward")
            if (
                name.endswith("_backward")
                and base in Function.rules
                and vars(module)[name].__module__ == module.__name__
            ):
                targets.append((file, name, [base]))
    for file, name, checked in targets:
        module = importlib.import_module(f"kernels.{tier}.{file}")
        original = getattr(module, name)
        users = [m for m in list(sys.modules.values()) if getattr(m, name, None) is original]
        cells = [cell for function in vars(module).values() for cell in held_by(function, original)]
        must_pass(lambda names=checked: [check_kernel(n) for n in names], name)
        for description, source in mutants(original):
            if (f"{tier}/{file}.{name}", description) in EQUIVALENT:
                yield f"{tier}/{file}.{name}", description, True
                continue
            scope = dict(vars(module))
            exec(compile(source, f"<mutant of {name}>", "exec"), scope)
            for user in users:
                setattr(user, name, scope[name])
            for cell in cells:
                cell.cell_contents = scope[name]
            for key in [k for k in vars(backend) if k not in ("name", "folder", "xp")]:
                delattr(backend, key)  # checked kernels are kept by the backend; look them up anew
            try:
                survived = survives(lambda names=checked: [check_kernel(n) for n in names])
            finally:
                for user in users:
                    setattr(user, name, original)
                for cell in cells:
                    cell.cell_contents = original
            yield f"{tier}/{file}.{name}", description, survived
    for key in [k for k in vars(backend) if k not in ("name", "folder", "xp")]:
        delattr(backend, key)


def rule_mutants():
    """The same for the backward methods of autograd's Functions, and for unbroadcast, which many of them call."""
    for module in (operators, shapes, functional):
        for name, rule in list(vars(module).items()):
            if not (isinstance(rule, type) and issubclass(rule, Function)) or "backward" not in vars(rule):
                continue
            if rule.__module__ != module.__name__:
                continue
            original = rule.backward
            checks = checks_of(rule)
            must_pass(lambda checks=checks: [check() for check in checks], name)
            for description, source in mutants(original):
                scope = dict(vars(module))
                exec(compile(source, f"<mutant of {name}>", "exec"), scope)
                rule.backward = scope["backward"]
                try:
                    survived = survives(lambda checks=checks: [check() for check in checks])
                finally:
                    rule.backward = original
                yield f"{name}.backward", description, survived
    original = operators.unbroadcast
    for description, source in mutants(original):
        scope = dict(vars(operators))
        exec(compile(source, "<mutant of unbroadcast>", "exec"), scope)
        operators.unbroadcast = scope["unbroadcast"]
        try:
            survived = survives(lambda: check_kernel("multiply"))
        finally:
            operators.unbroadcast = original
        yield "unbroadcast", description, survived


def checks_of(rule):
    direct = DIRECT.get(rule.__name__, [])
    if rule.kernel is not None:
        return [lambda: check_kernel(rule.kernel), *direct]
    if direct:
        return direct
    if rule.__name__ in EXAMPLES:
        return [lambda: gradcheck(*EXAMPLES[rule.__name__](), explain=False)]
    users = [r for r in Function.rules.values() if issubclass(r, rule)]  # a base class: its subclasses are checked
    assert users, f"{rule.__name__} has neither a kernel nor an example"
    return [lambda name=user.kernel: check_kernel(name) for user in users]


def main(tier: str) -> int:
    signal.signal(signal.SIGVTALRM, stop)
    if tier == "cpu":
        import numba

        assert numba.config.DISABLE_JIT, "run with NUMBA_DISABLE_JIT=1"
        import kernels.cpu.attention as attention

        # small tiles: plain Python is slow, and tile edges are met with small inputs; shifts move often
        attention.BLOCK, attention.CUT, attention.SLACK = 8, 4, 0.1
        import kernels.cpu.linear as linear
        import kernels.cpu.linear_cross_entropy as chunked

        linear.ROWS = linear.COLUMNS = linear.WEIGHT_BLOCK = 4

        import kernels.cpu.embedding as embedding
        import kernels.cpu.layer_norm as layer_norm
        import kernels.cpu.rms_norm as rms_norm

        layer_norm.TERMS = rms_norm.TERMS = 4  # rows of several blocks
        embedding.ROWS = 2  # ids that occur so often that their rows are summed in blocks

        import kernels.cpu.quantised_linear as quantised

        quantised.ROWS, quantised.TILE = 4, 2  # several blocks of dx, each from several tiles of W

        # a few rows a chunk, a word or two a block, several tasks; shifts move often
        chunked.BUFFER_BYTES, chunked.BLOCK, chunked.FEW, chunked.SLACK = 400, 2, 2, 0.1
        kernels.use("numba")
        found = kernel_mutants("cpu")
    else:
        kernels.use("numpy")
        found = rule_mutants() if tier == "autograd" else kernel_mutants("reference")
    total, survivors, rules, set_aside = 0, [], set(), 0
    for rule, description, survived in found:
        if (rule, description) in EQUIVALENT:
            set_aside += 1
            continue
        total += 1
        rules.add(rule)
        if survived:
            survivors.append(f"{rule}: {description}")
    print(json.dumps({"rules": len(rules), "mutants": total, "equivalent": set_aside, "survivors": survivors}))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
