"""Real data by name: fetched once, checked, and written as files that the training commands take."""

from minitransformer.app.data.sets.folders import Dataset, cache, fetch, record_of
from minitransformer.app.data.sets.imdb import IMDB

KNOWN: dict[str, Dataset] = {dataset.name: dataset for dataset in (IMDB,)}

__all__ = ["KNOWN", "Dataset", "cache", "fetch", "record_of"]
