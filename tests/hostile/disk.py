"""A disk on which one request goes wrong: for the process that installs it, below one folder.

error   the request is refused
short   a write takes half of its bytes, and then the disk is full; other requests are refused
kill    the process ends in the middle of it
power   the process ends, and what was not brought to the disk by fsync is gone: a file is as long as it was when it
        was synced last (a new or emptied one is empty), and new names, renames and removals are undone where their
        folder was not synced
"""

import builtins
import errno
import io
import os
import shutil

from training_support import PassingFile

KINDS = ("error", "short", "kill", "power")
KILLED = 137


class Disk:
    def __init__(self, root, at=0, kind="error"):
        self.root, self.at, self.kind, self.count = os.path.realpath(root), at, kind, 0
        self.attic = f"{self.root}.attic"  # what a removed or replaced name stood for
        self.lengths, self.names = {}, []  # of files that are not synced: what is safe; (folder, how to undo it)

    def install(self):
        os.makedirs(self.attic, exist_ok=True)
        self.genuine = {name: getattr(os, name) for name in ("open", "fsync", "replace", "rename", "unlink", "remove")}
        self.genuine |= {name: getattr(os, name) for name in ("mkdir", "rmdir", "listdir", "scandir")}
        for name in self.genuine:
            setattr(os, name, getattr(self, f"_{name}", None) or self._plain(name))
        self.open = builtins.open
        builtins.open = io.open = self._opened

    # ------------------------------------------------------------------------------------------ one request

    def ours(self, path):
        try:
            return isinstance(path, str | os.PathLike) and os.path.realpath(path).startswith(self.root + os.sep)
        except (TypeError, ValueError):
            return False

    def point(self, half=lambda: None):
        """The next request; `half` does half of it."""
        self.count += 1
        if self.count != self.at:
            return
        if self.kind in ("short", "kill"):
            half()
        if self.kind in ("error", "short"):
            raise OSError(errno.ENOSPC if self.kind == "short" else errno.EIO, "planned for this test")
        if self.kind == "power":
            self.lose()
        os._exit(KILLED)

    def lose(self):
        for path, safe in self.lengths.items():
            if os.path.isfile(path):
                os.truncate(path, safe)
        for _, undo in reversed(self.names):
            undo()

    # ------------------------------------------------------------------------------------------ what is asked of it

    def _plain(self, name):
        genuine = self.genuine[name]

        def request(path, *arguments, **options):
            if not options.get("dir_fd") and self.ours(path):
                self.point()
            return genuine(path, *arguments, **options)

        return request

    def _open(self, path, flags, *arguments, **options):
        if options.get("dir_fd") is None and self.ours(path):
            self.point()
            if flags & os.O_CREAT:
                self._created(path, emptied=flags & os.O_TRUNC)
        return self.genuine["open"](path, flags, *arguments, **options)

    def _opened(self, file, mode="r", *arguments, **options):
        if isinstance(file, int):
            path = os.readlink(f"/proc/self/fd/{file}")
        else:
            path = file
            if self.ours(path):
                self.point()
        if not self.ours(path) or not set(mode) & set("wxa+"):
            return self.open(file, mode, *arguments, **options)
        path = os.path.realpath(path)
        if not isinstance(file, int):
            self._created(path, emptied="w" in mode)
        return File(self.open(file, mode, *arguments, **options), path, self)

    def _created(self, path, emptied):
        path = os.path.realpath(path)
        if emptied or not os.path.exists(path):
            self.lengths[path] = 0
        if not os.path.exists(path):
            self.names.append((os.path.dirname(path), lambda: os.path.exists(path) and self.genuine["unlink"](path)))

    def _fsync(self, descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if self.ours(path) or path == self.root:
            self.point()
            if os.path.isdir(path):
                self.names = [(folder, undo) for folder, undo in self.names if folder != path]
            self.lengths.pop(path, None)
        return self.genuine["fsync"](descriptor)

    def _replace(self, source, target):
        if self.ours(target):
            self.point()
            source, target = os.path.realpath(source), os.path.realpath(target)
            former = self._kept(target)
            self.genuine["replace"](source, target)
            moved = [path for path in self.lengths if path == source or path.startswith(source + os.sep)]
            self.lengths |= {target + path[len(source) :]: self.lengths.pop(path) for path in moved}

            def undo():
                self.genuine["replace"](target, source)
                if former:
                    self.genuine["replace"](former, target)

            self.names.append((os.path.dirname(target), undo))
            return
        self.genuine["replace"](source, target)

    _rename = _replace

    def _unlink(self, path, **options):
        if options.get("dir_fd") is None and self.ours(path):
            self.point()
            path = os.path.realpath(path)
            former = self._kept(path)
            self.genuine["unlink"](path)
            if former:
                self.names.append((os.path.dirname(path), lambda: self.genuine["replace"](former, path)))
            return
        self.genuine["unlink"](path, **options)

    _remove = _unlink

    def _mkdir(self, path, *arguments, **options):
        if self.ours(path):
            self.point()
            self.genuine["mkdir"](path, *arguments, **options)
            here = os.path.realpath(path)
            self.names.append((os.path.dirname(here), lambda: shutil.rmtree(here, ignore_errors=True)))
            return
        self.genuine["mkdir"](path, *arguments, **options)

    def _kept(self, path):
        """A second name for what a path stands for, to bring it back."""
        if not os.path.isfile(path):
            return None
        former = os.path.join(self.attic, str(len(os.listdir(self.attic))))
        os.link(path, former)
        return former


class File(PassingFile):
    """An open file whose every write is a request of its own."""

    def __init__(self, file, path, disk):
        super().__init__(file)
        self.path, self.disk = path, disk

    def write(self, data):
        def half():
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        self.disk.point(half)
        self.disk.lengths.setdefault(self.path, os.path.getsize(self.path))
        return self.file.write(data)

    def writelines(self, lines):
        for line in list(lines):
            self.file.write(line)
        self.disk.point()
