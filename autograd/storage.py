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
    views    those that were handed out and are still held by somebody
    anchor   the bytes of the memory as an array, which these views and all their slices hold, and no other array
    """

    __slots__ = ("owner", "version", "needed", "views", "anchor")

    def __init__(self, array: Any, needed: int = 0):
        self.owner = owner_of(array)
        self.version = 0
        self.needed = needed
        self.views: WeakValueDictionary[int, np.ndarray] | None = None  # until somebody asks for one
        self.anchor: np.ndarray | None = None

    def show(self, array: Any) -> Any:
        """An array of this memory for somebody outside."""
        if not isinstance(array, np.ndarray) or not array.flags.writeable:
            return array  # CuPy's, or repeated by broadcasting
        if self.anchor is None or self.views is None:
            # NumPy looks for an array's base no further than to the first that is based on something else
            self.anchor = np.asarray(memoryview(self.owner.ravel(order="K").view(np.uint8)))
            self.views = WeakValueDictionary()
        offset = array.ctypes.data - self.anchor.ctypes.data
        view: np.ndarray = np.ndarray(array.shape, array.dtype, self.anchor, offset, array.strides)
        view.flags.writeable = not self.needed
        self.views[id(view)] = view
        return view

    @property
    def sliced(self) -> bool:
        """Whether somebody holds slices of what was shown."""
        # 2: this object holds the anchor too, and so does the call that counts
        return self.views is not None and sys.getrefcount(self.anchor) - 2 > len(self.views)

    def count_need(self, change: int) -> None:
        """One Function more (+1) or less (-1) needs what is here."""
        self.needed += change
        for view in self.views.values() if self.views else ():
            view.flags.writeable = not self.needed


def storage_of(array: Any, tensors: tuple[Any, ...]) -> Storage | None:
    """That of the first Tensor whose memory this array looks at; None if it is nobody's."""
    owner = owner_of(array)
    for tensor in tensors:
        if tensor is not None and tensor.storage.owner is owner:
            return tensor.storage
    return None
