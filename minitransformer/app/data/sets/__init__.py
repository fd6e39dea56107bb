"""Real data by name: fetched once, checked, and written as files that the training commands take."""

from minitransformer.app.data.sets.folders import Dataset, fetch, record_of
from minitransformer.app.data.sets.imdb import IMDB
from minitransformer.download import cache

KNOWN: dict[str, Dataset] = {dataset.name: dataset for dataset in (IMDB,)}

__all__ = ["KNOWN", "Dataset", "cache", "fetch", "record_of"]
