"""What indexes have in common whose own arrays are one named tuple: they are stored by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.jit import laid
from tocsin.model.conjunctions import Conjunctions


class Laid:
    """An index over conjunctions, with a layout."""

    name: ClassVar[str]
    takes_ranges: ClassVar[bool] = False
    layout_class: ClassVar[type[Any]]

    def __init__(self, conjunctions: Conjunctions, layout: Any):
        self.conjunctions = conjunctions
        self.layout = layout
        self.proven = self.proves_all()

    @abstractmethod
    def proves_all(self) -> bool:
        """Tell whether no candidate is left for accept to evaluate."""

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
        return cls(conjunctions, laid(layout, [arrays[name] for name in layout._fields]))

    def become(self, conjunctions: Conjunctions, arrays: dict[str, np.ndarray]) -> None:
        """Take other conjunctions, and other arrays in place of those named."""
        layout = laid(self.layout_class, (self.arrays() | arrays).values())
        Laid.__init__(self, conjunctions, layout)
