"""zip archives of unknown origin: every entry is checked before anything is read, and nothing is ever extracted.

    ┌──────────────┬─────────┬──────────────┬─────────┬─────┬───────────────────┬─────┐
    │ local header │ content │ local header │ content │ ... │ central directory │ end │
    └──────────────┴─────────┴──────────────┴─────────┴─────┴───────────────────┴─────┘
    a local header: "PK\\3\\4", 22 bytes that the central directory repeats, the lengths of two fields, the fields

The standard library reads the central directory and unpacks; where a content begins is read here, because arrays are
then taken from the file directly."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from minitransformer.errors import Path, WeightsError, excerpt
from minitransformer.pretrained.weight_file import Source

LOCAL_HEADER = struct.Struct("<4s22xHH")
PIECE = 1 << 20


@dataclass(frozen=True)
class Entry:
    name: str
    start: int  # where its content begins in the file
    size: int  # when unpacked
    packed: bool
    checksum: int  # CRC-32 of the unpacked content


class Archive:
    def __init__(self, path: Path):
        self.source = source = Source(path)
        self.entries: dict[str, Entry] = {}
        self._intact: set[str] = set()
        free = 0  # the first byte that belongs to no entry so far
        with self.opened() as archive:
            for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
                if info.filename in self.entries:
                    raise source.refused(f"holds two entries called {excerpt(info.filename)}")
                if not harmless(info.filename):
                    raise source.refused(f"holds an entry called {excerpt(info.filename)}")
                if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise source.refused(f"its entry {excerpt(info.filename)} is encrypted or packed in a rare way")
                packed = info.compress_type != zipfile.ZIP_STORED
                if not packed and info.compress_size != info.file_size:
                    raise source.refused(f"its entry {excerpt(info.filename)} has two lengths")
                header = source.read(info.header_offset, LOCAL_HEADER.size).tobytes()
                signature, name_length, extra_length = LOCAL_HEADER.unpack(header)
                start = info.header_offset + LOCAL_HEADER.size + name_length + extra_length
                if signature != b"PK\3\4" or info.header_offset < free or start + info.compress_size > source.size:
                    raise source.refused(f"its entry {excerpt(info.filename)} overlaps another or has no place")
                free = start + info.compress_size
                self.entries[info.filename] = Entry(info.filename, start, info.file_size, packed, info.CRC)

    @contextmanager
    def opened(self) -> Iterator[zipfile.ZipFile]:
        """The library's view of the archive. On damaged files it raises a dozen kinds of errors."""
        try:
            with self.source.open() as file, zipfile.ZipFile(file) as archive:
                yield archive
        except WeightsError:
            raise
        except Exception as error:
            raise self.source.refused(f"is not a sound zip archive ({error})") from None

    def read(self, entry: Entry, most: int | None = None) -> bytes:
        """The whole content of an entry; the library compares it with its checksum."""
        if most is not None and entry.size > most:
            raise self.source.refused(f"its entry {excerpt(entry.name)} has {entry.size:,} bytes, more than {most:,}")
        with self.opened() as archive, archive.open(entry.name) as file:
            content = file.read(entry.size)  # read() without a number would unpack whatever comes, however much
        if len(content) != entry.size:
            raise self.source.refused(f"its entry {excerpt(entry.name)} is shorter than it should be")
        return content

    def require_intact(self, entry: Entry) -> None:
        """Compares an entry that is not packed with its checksum, the first time that it is asked for."""
        if entry.name in self._intact:
            return
        checksum, end = 0, entry.start + entry.size
        for start in range(entry.start, end, PIECE):
            checksum = zlib.crc32(self.source.read(start, min(PIECE, end - start)).data, checksum)
        if checksum != entry.checksum:
            raise self.source.refused(f"its entry {excerpt(entry.name)} does not match its checksum")
        self._intact.add(entry.name)


def harmless(name: str) -> bool:
    """A relative name without a way out: no root, no drive, no parent folder."""
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or re.search(r"[\\:\0]", name))
