"""Attacks on the whole program: seeded and bounded (tests/seeded.py)."""

import os
import random

import pytest
from seeded import PART, SEED


def pytest_collection_modifyitems(items):
    for item in items:
        if os.sep + "hostile" + os.sep in str(item.path):
            item.add_marker(pytest.mark.hostile)


@pytest.fixture
def generator():
    return random.Random(SEED)


@pytest.fixture
def share():
    """So many of a number of attacks."""
    return lambda count: -(-count // PART)
