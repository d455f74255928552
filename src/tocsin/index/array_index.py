"""What indexes have in common whose own arrays are one named tuple: they are stored by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.jit import laid
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys
from tocsin.model.validation import typed_arrays

_ROOM = 1 << 20  # candidates that are counted together


class ArrayIndex:
    """An index over conjunctions, with a layout."""

    name: ClassVar[str]
    version: ClassVar[int]
    supports_ranges: ClassVar[bool] = False
    layout_class: ClassVar[type[Any]]

    def __init__(self, conjunctions: Conjunctions, layout: Any):
        self.conjunctions = conjunctions
        self.layout = layout
        self.proven = self.proves_all()

    @abstractmethod
    def proves_all(self) -> bool:
        """Tell whether no candidate is left for accept to evaluate."""

    @abstractmethod
    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose candidates; see `Index.candidates`."""

    def count(self, keys: Keys, width: int, counts: np.ndarray) -> None:
        """Add the number of candidates, all proven; for an index that has no faster way."""
        offsets = np.zeros(keys.size + 1, np.int64)
        out = np.empty(self.conjunctions.size + _ROOM, np.int32)
        first = 0
        while first < keys.size:
            stop = self.candidates(keys, width, first, keys.size, offsets, out)
            counts[first:stop] += np.diff(offsets[: stop - first + 1])
            first = stop

    @property
    def nbytes(self) -> int:
        """Bytes of the layout."""
        return sum(array.nbytes for array in self.layout)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the layout's arrays by name."""
        return self.layout._asdict()

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose arrays these are."""
        layout = cls.layout_class
        return cls(conjunctions, laid(layout, typed_arrays(layout, arrays)))

    @abstractmethod
    def validate(self, attributes: int) -> None:
        """Raise unless the layout is as kernels rely on; see `Index.validate`."""

    def become(self, conjunctions: Conjunctions, arrays: dict[str, np.ndarray]) -> None:
        """Take other conjunctions, and other arrays in place of those named."""
        layout = laid(self.layout_class, (self.arrays() | arrays).values())
        ArrayIndex.__init__(self, conjunctions, layout)
