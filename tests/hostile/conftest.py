"""Attacks on the whole program: seeded and bounded. MINITRANSFORMER_HOSTILE_SEED=N tries others."""

import os
import random

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if os.sep + "hostile" + os.sep in str(item.path):
            item.add_marker(pytest.mark.hostile)


@pytest.fixture
def generator():
    return random.Random(int(os.environ.get("MINITRANSFORMER_HOSTILE_SEED", "0")))
