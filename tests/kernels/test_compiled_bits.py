"""The same bits from a process that compiles the kernels and from one that loads them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary

from kernels.cpu.self_contained import WRAPPINGS, KernelCompiler

ROOT = Path(__file__).parents[2]
# A few steps of training, and a digest of what each kernel was given and what it returned. Rows are longer than a
# vector register and no multiple of it, so that sums are regrouped in every way that the compiler knows.
TRAIN = """
import hashlib, json, sys
import numpy as np
import kernels
from kernels.contract import CONTRACT
from minitransformer import LanguageModel
from minitransformer.optim import Adam, clip_grad_norm

calls, fast = [], kernels.backend("numba")

def digest(values):
    total, left = hashlib.sha256(), [values]
    while left:
        value = left.pop()
        if isinstance(value, np.ndarray):
            total.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, tuple | list):
            left.extend(value)
    return total.hexdigest()[:16]

def watched(name, kernel):
    def call(*args):
        given = digest(args)
        result = kernel(*args)
        calls.append([name, given, digest((result, args))])
        return result
    return call

for name in CONTRACT:
    setattr(fast, name, watched(name, getattr(fast, name)))
words = np.random.default_rng(0).integers(0, 97, 1000)
for parts in ({}, {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1}):
    sizes = {"vocab_size": 97, "d_model": 72, "n_heads": 2, "n_layers": 1, "d_ff": 100, "max_len": 33}
    model = LanguageModel(**sizes, dropout=0.1, **parts)
    optimizer = Adam(model.parameters(), lr=3e-3)
    for step in range(3):
        rows = words[step : step + 8 * 34].reshape(8, 34)
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
print(json.dumps(calls))
"""


@pytest.mark.slow
def test_compiling_and_loading_give_the_same_bits(tmp_path):
    def calls() -> list:
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "MINITRANSFORMER_QUIET": "1"}
        result = subprocess.run([sys.executable, "-c", TRAIN], cwd=ROOT, env=env, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    compiled = calls()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert len(kept) > 20
    loaded = calls()
    assert kept == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert len(compiled) == len(loaded) > 100
    different = {one[0] for one, other in zip(compiled, loaded, strict=True) if one[1] == other[1] and one != other}
    assert different == set()
    assert compiled == loaded


def test_a_part_of_a_kernel_becomes_machine_code_only_when_somebody_asks(monkeypatch):
    emitted = []
    emit = JITCodeLibrary._finalize_final_module

    def note(library):
        emitted.append(library.name)
        emit(library)

    monkeypatch.setattr(JITCodeLibrary, "_finalize_final_module", note)

    def doubled(x):
        for i in numba.prange(x.size):
            x[i] *= 2

    kernel = numba.njit(parallel=True, pipeline_class=KernelCompiler)(doubled)
    x = np.arange(5.0)
    kernel(x)
    assert x.tolist() == [0, 2, 4, 6, 8]
    assert emitted and not any(wrapping in name for name in emitted for wrapping in WRAPPINGS)
    numba.njit(parallel=True)(doubled)(x)
    assert all(any(wrapping in name for name in emitted) for wrapping in WRAPPINGS), "Numba's own way is left alone"


def test_what_other_kernels_copy_is_from_before_machine_code():
    """The last steps to machine code rewrite addresses; LLVM begins the names of what they add with "lsr"."""

    def add_up(x):
        total = 0.0
        for row in range(x.shape[0]):
            for column in range(x.shape[1]):
                total += x[row, column]
        return total

    kernel = numba.njit(pipeline_class=KernelCompiler)(add_up)
    assert kernel(np.ones((3, 5))) == 15
    library = kernel.overloads[kernel.signatures[0]].library
    assert "%lsr." in str(library._final_module), "nothing was rewritten, so this test shows nothing"
    assert "%lsr." not in str(library._get_module_for_linking())
