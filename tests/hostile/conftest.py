"""Attacks on the whole program: seeded and bounded (tests/seeded.py)."""

import random

import pytest
from seeded import PART, SEED


@pytest.fixture
def generator():
    return random.Random(SEED)


@pytest.fixture
def share():
    """So many of a number of attacks."""
    return lambda count: -(-count // PART)
