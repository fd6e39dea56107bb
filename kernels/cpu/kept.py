"""Numba's files of machine code, with the promises of `kernels/disk_cache.py`.

Numba unpickles what it finds: an empty or cut file ends in an exception at every command, one with a changed byte may
do anything, and one that another user has put there runs as this user. Here such a file is as good as missing: the
kernel is compiled anew, and the reason is said once. These are Numba's internals: where a version of it has others, its
own cache is used as it is.
"""

import itertools
import os
import pickle
from pathlib import Path

from numba.core.caching import IndexDataCacheFile
from numba.core.runtime import rtsys

from kernels.disk_cache import put, say_damaged, say_once, seal, unsealed, why_not_private

SOURCES = Path(__file__).parents[1]  # whoever can write here can change the program itself
NEEDED = ("_load_index", "_save_index", "_data_name", "_data_path", "_dump", "load", "save")


def sealed_files(files):
    """The same folder, names and stamp, with sealed files."""
    if type(files) is not IndexDataCacheFile or not all(hasattr(files, name) for name in NEEDED):
        return files
    name = files._index_name.removesuffix(".nbi")
    return SealedFiles(files._cache_path, f"{name}.sealed", files._source_stamp)


def load_at_once(cache):
    """Before Numba loads machine code it gets ready to compile, which takes as long as loading ten kernels. The code
    needs none of that but the runtime; and where something is compiled, Numba gets ready once more anyway."""
    if not all(hasattr(cache, name) for name in ("_load_overload", "load_overload")):
        return

    def load(signature, context):
        rtsys.initialize(context)
        return cache._load_overload(signature, context)

    cache.load_overload = load


class SealedFiles(IndexDataCacheFile):
    def _load_index(self):
        contents = self._read(self._index_path)
        if contents is None:
            return {}
        *made_by, overloads = pickle.loads(contents)
        # what others wrote may not even unpickle: another Numba, or sources whose classes have gone since
        return pickle.loads(overloads) if made_by == [self._version, self._source_stamp] else {}

    def _save_index(self, overloads):
        self._write(self._index_path, pickle.dumps((self._version, self._source_stamp, self._dump(overloads))))

    def load(self, key):
        name = self._load_index().get(key)
        contents = None if name is None else self._read(self._data_path(name))
        if contents is None:
            return None  # Numba then compiles
        version, of_what, data = pickle.loads(contents)
        if version != self._version or pickle.loads(of_what) != (self._source_stamp, key):
            return None
        return pickle.loads(data)

    def save(self, key, data):
        """The index and the code are two files, and a process may end between them: the index could then name machine
        code of former sources. So the code says itself what it was made from."""
        overloads = self._load_index()
        taken = set(overloads.values())
        free = (name for number in itertools.count(1) if (name := self._data_name(number)) not in taken)
        name = overloads.get(key) or next(free)
        contents = pickle.dumps((self._version, self._dump((self._source_stamp, key)), self._dump(data)))
        self._write(self._data_path(name), contents)
        self._save_index(overloads | {key: name})

    def _is_private(self) -> bool:
        if not os.path.isdir(self._cache_path):
            return True  # nothing is there yet
        reason = why_not_private(Path(self._cache_path), below=SOURCES)
        if reason is not None:
            say_once(f"compiled Numba kernels are not kept: {reason}, or set NUMBA_CACHE_DIR to a folder of your own")
        return reason is None

    def _read(self, path: str) -> bytes | None:
        if not self._is_private():
            return None
        try:
            contents = unsealed(Path(path).read_bytes())
        except OSError:  # not there, or not to be read: the kernel is compiled
            return None
        if contents is None:
            say_damaged(Path(path))
        return contents

    def _write(self, path: str, contents: bytes) -> None:
        if not self._is_private():
            return
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(seal(contents))
            put(temporary, Path(path))
        except OSError:  # a full disk, say: the kernel is compiled, and the next process compiles again
            Path(temporary).unlink(missing_ok=True)
