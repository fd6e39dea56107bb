"""A desk for tests of the command `exercise`: a folder of their own."""

import pytest

import kernels


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINITRANSFORMER_EXERCISES", raising=False)
    with kernels.use("numpy"):
        yield tmp_path
