"""Real data by name: fetched once, checked, and written as files that the training commands take."""

import os

from minitransformer.app.data.sets.folders import Dataset, fetch, record_of
from minitransformer.app.data.sets.imdb import IMDB
from minitransformer.download import cache
from minitransformer.errors import UserError

KNOWN: dict[str, Dataset] = {dataset.name: dataset for dataset in (IMDB,)}


def files_of(name: str, part: str) -> tuple[str, str | None] | None:
    """The files of the data set of that name: the data, and those to validate on, if any. None if the name is that of
    no data set, or of a file. part: see Dataset"""
    if name not in KNOWN or os.path.isfile(name):
        return None
    folder = cache() / name
    if record_of(KNOWN[name], folder) is None:
        raise UserError(f"{name} is not fetched yet: type `minitransformer data {name}` first")
    data, valid = KNOWN[name].parts[part]
    return str(folder / data), None if valid is None else str(folder / valid)


__all__ = ["KNOWN", "Dataset", "cache", "fetch", "files_of", "record_of"]
