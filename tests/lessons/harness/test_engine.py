"""An engine that was broken or watched is whole afterwards."""

import types

import pytest

from lessons.harness.engine import Engine, broken, watched


def test_replace_puts_everything_back():
    class Base:
        value = 1

    class Child(Base):
        pass

    child, module = Child(), types.SimpleNamespace(value=1)
    engine = Engine()
    for owner in (child, Child, module):
        engine.replace(owner, "value", lambda old: old + 1)
        engine.replace(owner, "value", lambda old: old * 10)
    assert (child.value, Child.value, module.value) == (20, 20, 20)
    engine.restore()
    assert (child.value, Child.value, module.value, Base.value) == (1, 1, 1, 1)
    assert "value" not in vars(child) and "value" not in vars(Child), "what was inherited is inherited again"


def test_a_crash_leaves_no_broken_engine_behind():
    world = types.SimpleNamespace(colour="blue")
    with pytest.raises(ZeroDivisionError), broken(lambda engine: engine.replace(world, "colour", lambda old: "red")):
        assert world.colour == "red"
        _ = 1 / 0
    assert world.colour == "blue"


def test_watching_notes_arguments_and_changes_nothing():
    world = types.SimpleNamespace(add=lambda a, b, scale=1: (a + b) * scale)
    with watched(world, "add") as calls:
        assert world.add(1, 2, scale=3) == 9 and world.add(4, 5) == 9
    assert calls == [(1, 2), (4, 5)]
    assert world.add(6, 7) == 13 and len(calls) == 2
