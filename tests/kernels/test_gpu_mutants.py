"""Every derivative in CUDA C is broken on purpose, one term at a time; each time the comparison must notice."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_agreement import assert_same

import kernels
from autograd import Function, Tensor, functional  # noqa: F401 - the rules register when they are imported
from kernels.cuda import source
from kernels.samples import samples

# file → the kernels in it that compute derivatives, and whose samples run them
TARGETS = {
    "attention": {"attention_delta": ["attention"], "attention_backward_queries": ["attention"],
                  "attention_backward_keys": ["attention"]},
    "cross_entropy": {"cross_entropy_factor": ["cross_entropy"], "cross_entropy_backward": ["cross_entropy"]},
    "elementwise": {f"{name}_backward": [name] for name in (
        "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_tanh", "silu")},
    "embedding": {"embedding_backward": ["embedding"]},
    "feed_forward": {"activation_backward": ["feed_forward"]},
    "gated_feed_forward": {"gate_backward": ["gated_feed_forward"]},
    "layer_norm": {"layer_norm_backward": ["layer_norm"], "layer_norm_backward_weights": ["layer_norm"]},
    "linear": {"column_sums": ["linear"]},
    "linear_cross_entropy": {"loss_and_gradient": ["linear_cross_entropy"]},
    "quantised_linear": {"weight_of": ["quantised_linear"], "dot_rows": ["quantised_linear"]},
    "rms_norm": {"rms_norm_backward": ["rms_norm"], "rms_norm_backward_weight": ["rms_norm"]},
    "rotary": {"rotary_table": ["rotary"], "rotary_turn": ["rotary"]},
    "softmax": {"softmax_backward": ["softmax"], "log_softmax_backward": ["log_softmax"]},
}  # fmt: skip
# Mutants that change no number, each with its reason.
EQUIVALENT: dict[tuple[str, str], str] = {}
MISTAKES = (  # what is looked for, what takes its place
    (re.compile(r" - "), " + "),
    (re.compile(r" \+= "), " -= "),
    (re.compile(r"\.add\((?!!)"), ".add(2 * "),
    (re.compile(r" \*= "), " = "),
    (re.compile(r" \* [A-Za-z_]\w*(?:\[[^\[\]]*\])*(?!\w*\()"), ""),
)


def body(text: str, kernel: str) -> tuple[int, int]:
    """Where a kernel's body begins and ends."""
    start = text.index("{", re.search(rf"\b{kernel}\(", text).start())
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return start, position
    raise AssertionError(f"{kernel} never ends")


def mutants(file: str):
    """(kernel, line, what was changed, the whole text) for every mistake in an expression. Indices, pointers and
    loop bounds are left alone: a mistake there is an access out of bounds, which the emulator's own tests look at."""
    text = (source.FOLDER / f"{file}.cu").read_text(encoding="utf-8")
    for kernel in TARGETS[file]:
        start, end = body(text, kernel)
        for mistake, replacement in MISTAKES:
            for found in mistake.finditer(text, start, end):
                line_start, line_end = text.rindex("\n", 0, found.start()) + 1, text.index("\n", found.start())
                line, before = text[line_start:line_end].strip(), text[line_start : found.start()]
                inside_index = before.count("[") > before.count("]")
                heading = re.match(r"\s*(for|\w+_LOOP)\b", before) and before.count("(") > before.count(")")
                pointer = any(word in line for word in ("head *", "group *", "the next head"))
                pointer = pointer or line.startswith(("long long", "const long long"))
                if inside_index or heading or pointer or "//" in before:
                    continue
                changed = text[: found.start()] + replacement + text[found.end() :]
                yield kernel, line, f"{found[0].strip()} -> {replacement.strip() or 'nothing'}", changed


def result_and_gradients(backend: str, name: str, arguments: tuple) -> list[np.ndarray]:
    """The result of a kernel, and its derivatives by every input that has one, for a fixed upstream gradient."""
    with kernels.use(backend):
        inputs = [Tensor(a, requires_grad=True) if getattr(a, "dtype", None) == "float64" else a for a in arguments]
        result = Function.rules[name].apply(*inputs)
        result.backward(np.random.default_rng(0).standard_normal(result.shape))
        return [result.numpy(), *(t.grad.numpy() for t in inputs if isinstance(t, Tensor) and t.grad is not None)]


def notices(name: str) -> bool:
    """Whether some sample gives other derivatives than the reference."""
    for label, arguments in samples(name, "float64"):
        if name == "attention" and arguments[0].shape[2] > 10:
            continue  # the small ones meet every line
        try:
            expected = result_and_gradients("numpy", name, arguments)
            assert_same(name, label, result_and_gradients("emulated", name, arguments), expected, np.dtype("float64"))
        except AssertionError:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(TARGETS))
def test_every_mistake_is_noticed(file, tmp_path, monkeypatch):
    if "emulated" not in kernels.available():
        pytest.skip(f"emulated: {kernels.reasons()['emulated']}")
    for names in TARGETS[file].values():
        assert not any(notices(name) for name in names), f"{names} differ before anything was broken"
    survivors, count = [], 0
    for kernel, line, change, text in mutants(file):
        if (kernel, f"{line}: {change}") in EQUIVALENT:
            continue
        count += 1
        folder = tmp_path / str(count)
        shutil.copytree(source.FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        (folder / f"{file}.cu").write_text(text, encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(source, "FOLDER", Path(folder))
            if not any(notices(name) for name in TARGETS[file][kernel]):
                survivors.append(f"{kernel}: {line}: {change}")
    assert count > 0 and not survivors, f"{len(survivors)} of {count} went unnoticed:\n" + "\n".join(survivors)
