"""The base class of indexes whose arrays are the fields of one named tuple."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index.costs import Cost, Sample
from tocsin.index.options import Option, check_options
from tocsin.index.protocol import Summary
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch
from tocsin.model.validation import typed_arrays


class ArrayIndex(ABC):
    """An index over conjunctions; its arrays are the fields of `layout`."""

    name: ClassVar[str]
    version: ClassVar[int]
    supports_ranges: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    prunes: ClassVar[bool] = False
    changes_in_place: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    priced: ClassVar[bool] = False
    summary: ClassVar[Summary]
    options: ClassVar[Mapping[str, Option]] = {}
    layout_class: ClassVar[type[Any]]

    def __init__(self, conjunctions: Conjunctions, layout: Any):
        self.conjunctions = conjunctions
        self.layout = layout
        self.proven = self.proves_all()

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Check the options and build the index; see `Index.build`."""
        chosen = check_options(cls.name, cls.options, options)
        return cls(conjunctions, cls.build_layout(conjunctions, floats, **chosen))

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Any:
        """Return the layout of conjunctions; `options` are all that the class declares."""
        raise NotImplementedError

    @classmethod
    def cost(cls, sample: Sample) -> Cost | None:
        """Estimate the cost of an event; for an index that declares `priced`."""
        raise NotImplementedError

    @abstractmethod
    def proves_all(self) -> bool:
        """Return whether all candidates are proven, so that accept has nothing to evaluate."""

    @abstractmethod
    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose candidates; see `Index.candidates`."""

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches; for an index that declares `counts`."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the layout."""
        return sum(array.nbytes for array in self.layout)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the layout's arrays by name."""
        return self.layout._asdict()

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index from its stored arrays; see `Index.from_arrays`."""
        layout = cls.layout_class
        return cls(conjunctions, freeze_fields(layout, **typed_arrays(layout, arrays)))

    @abstractmethod
    def validate(self, attributes: int) -> None:
        """Raise unless the layout is safe for kernels; see `Index.validate`."""

    def check_removed(self, numbers: np.ndarray) -> np.ndarray:
        """Return the numbers of conjunctions to remove; raise unless the index has them all."""
        numbers, size = np.asarray(numbers, np.int64), self.conjunctions.size
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
            raise IndexError(f"numbers of conjunctions must be from 0 to {size - 1:,}")
        return numbers

    def become(self, conjunctions: Conjunctions, arrays: dict[str, np.ndarray]) -> None:
        """Replace the conjunctions, and the arrays of the layout named in `arrays`."""
        layout = freeze_fields(self.layout_class, **(self.arrays() | arrays))
        ArrayIndex.__init__(self, conjunctions, layout)
