"""The faults as a whole: each is explained, found under one name, and used."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import kernels
from lessons import faults

ROOT = Path(__file__).parents[3]
MODULES = [file.stem for file in (ROOT / "lessons" / "faults").glob("[a-z]*.py")]


def faults_of(module):
    found = importlib.import_module(f"lessons.faults.{module}")
    functions = inspect.getmembers(found, inspect.isfunction)
    own = [(name, f) for name, f in functions if f.__module__ == found.__name__ and not name.startswith("_")]
    return {name: f for name, f in own if next(iter(inspect.signature(f).parameters), "") == "engine"}


@pytest.mark.parametrize("module", MODULES)
def test_a_fault_is_explained_and_found_under_one_name(module):
    for name, fault in faults_of(module).items():
        assert getattr(faults, name, None) is fault, f"lessons/faults/__init__.py does not import {name}"
        assert fault.__doc__ and "\n" not in fault.__doc__, f"{name}: what is broken, in one line that students read"


def test_no_fault_is_left_without_use():
    scripts = [*(ROOT / "lessons").glob("[0-9]*.py"), *(ROOT / "lessons" / "results").glob("*.py")]
    used = {name for file in scripts for name in re.findall(r"faults\.(\w+)", file.read_text(encoding="utf-8"))}
    used |= {fault.__name__ for fault in faults.REPORTED.values()}
    defined = {name for module in MODULES for name in faults_of(module)}
    assert len(defined) > 50 and defined - used == set()


def test_a_fault_of_something_in_a_lesson_keeps_its_name_and_meaning():
    class Sums:
        def rescale(self, top):
            return "rescaled"

    fault = faults.sum_not_rescaled(Sums)
    assert fault.__name__ == "sum_not_rescaled" and fault.__doc__ == "the sums are not rescaled when the maximum rises"
    with faults.broken(fault):
        assert Sums().rescale(1) is None
    assert Sums().rescale(1) == "rescaled"


def test_symptoms_are_counted_without_training():
    with kernels.use("numpy"):  # the faults lie above the kernels, and the others would have to be compiled
        counts = {name: faults.symptoms(fault) for name, fault in faults.REPORTED.items()}
    assert not any(counts.pop("sound").values())
    shown = {name: {what for what, count in found.items() if count} for name, found in counts.items()}
    assert shown == {
        "no norm": {"still"},
        "mask after softmax": {"future"},
        "leaked target": {"answer"},
        "unregistered weights": {"still"},
        "no padding mask": {"padding"},
    }
