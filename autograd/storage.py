"""Storage: the memory behind an array, and who may write to it.

A derivative rule reads arrays that its forward pass saved. They must still hold what they held then, so
    - while a Function needs an array, whoever asks for it outside (`tensor.data`, `tensor.numpy()`) gets a read-only
      view, and views handed out before become read-only: NumPy complains at the line that writes
    - the engine's own writers (optimizers, caches) are counted instead, and `backward` compares the count
    - slices that somebody took of such a view stay as they are, since NumPy keeps no list of them; but they can be
      counted, and a Function that finds some saves a copy
CuPy's arrays have no such flag. There the count of versions alone protects, which sees `tensor.data -= ...` but not
`tensor.data[0] = ...`.
"""

import sys
from typing import Any
from weakref import WeakValueDictionary, ref

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
    anchor   the bytes of the memory as an array, which these views and all their slices hold, and nobody else
    """

    __slots__ = ("owner", "version", "needed", "shown", "anchor")

    def __init__(self, array: Any, needed: int = 0):
        self.owner = owner_of(array)
        self.version = 0
        self.needed = needed
        self.shown: WeakValueDictionary[int, np.ndarray] | None = None
        self.anchor: ref[np.ndarray] | None = None

    def show(self, array: Any) -> Any:
        """An array of this memory for somebody outside."""
        if not isinstance(array, np.ndarray) or not array.flags.writeable:
            return array  # CuPy's, or repeated by broadcasting
        anchor = self.anchor() if self.anchor else None
        if anchor is None:
            # NumPy looks for an array's base no further than to the first that is based on something else
            anchor = np.asarray(memoryview(self.owner.ravel(order="K").view(np.uint8)))
            self.anchor = ref(anchor)
        offset = array.ctypes.data - anchor.ctypes.data
        view: np.ndarray = np.ndarray(array.shape, array.dtype, anchor, offset, array.strides)
        view.flags.writeable = not self.needed
        if self.shown is None:
            self.shown = WeakValueDictionary()
        self.shown[id(view)] = view
        return view

    @property
    def sliced(self) -> bool:
        """Whether somebody holds slices of what was shown."""
        anchor = self.anchor() if self.anchor else None
        if anchor is None or self.shown is None:
            return False
        holders = sys.getrefcount(anchor) - 2  # but for `anchor` above, and the argument of the call
        return holders > len(self.shown)

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
