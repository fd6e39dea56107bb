"""Storage: the memory behind an array, and who may write to it.

A derivative rule reads arrays that its forward pass saved. They must still hold what they held then, so
    - while a Function needs an array, whoever asks for it outside (`tensor.data`, `tensor.numpy()`) gets a read-only
      view, and views handed out before become read-only: NumPy complains at the line that writes
    - the engine's own writers (optimizers, caches) are counted instead, and `backward` compares the count
Two ways remain to spoil an array unseen: a slice of `tensor.data` that was taken before the forward pass and is written
to after it, since NumPy keeps no list of an array's slices; and CuPy's arrays, which have no such flag. There the count
alone protects, which sees `tensor.data -= ...` but not `tensor.data[0] = ...`.
"""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np


def owner_of(array: Any) -> Any:
    """The array that owns the memory which this one looks at."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


class Storage:
    """What Tensors that look at the same memory have in common.

    owner    the array that owns the memory
    version  how often it was written to
    needed   how many Functions still need what it holds
    shown    the views that were handed out and are still held by somebody
    """

    __slots__ = ("owner", "version", "needed", "shown")

    def __init__(self, array: Any, needed: int = 0):
        self.owner = owner_of(array)
        self.version = 0
        self.needed = needed
        self.shown: WeakValueDictionary[int, np.ndarray] | None = None

    def show(self, array: Any) -> Any:
        """An array of this memory for somebody outside."""
        if not isinstance(array, np.ndarray) or not array.flags.writeable:
            return array  # CuPy's, or repeated by broadcasting
        view = array.view()
        view.flags.writeable = not self.needed
        if self.shown is None:
            self.shown = WeakValueDictionary()
        self.shown[id(view)] = view
        return view

    def keep(self) -> None:
        """One more Function needs what is here."""
        self.needed += 1
        self._set_flags()

    def let_go(self) -> None:
        """One Function less does."""
        self.needed -= 1
        self._set_flags()

    def _set_flags(self) -> None:
        for view in self.shown.values() if self.shown else ():
            view.flags.writeable = not self.needed
