"""The keys of objects, numbered in the order in which they were added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.ids import IdIndex
from tocsin.errors import MonitorError, shorten
from tocsin.moving.velocity.inputs import read_keys


class Keys:
    """Distinct keys of one type, found by hash.

    Keys of objects that are inserted later are in a dict, until `take` starts anew.
    """

    def __init__(self, keys: pa.Array):
        self.array = keys
        self._index = IdIndex(keys)
        pair = self._index.find_duplicate()
        if pair is not None:
            raise MonitorError(
                f"object {_show(keys[pair[0]].as_py())} is in the rows {pair[0]:,} and "
                f"{pair[1]:,}; keys must be distinct"
            )
        self._recent: dict[Any, int] = {}
        self._recent_keys: list[Any] = []

    def __len__(self) -> int:
        return len(self.array) + len(self._recent_keys)

    def read(self, keys: Any) -> pa.Array:
        """Return keys as an Arrow array of the type of these; a key alone is one of them."""
        array = read_keys([keys] if isinstance(keys, str | int | np.integer) else keys)
        if len(self) and len(array) and array.type != self.array.type:
            kind = "integers" if t.is_integer(self.array.type) else "texts"
            raise MonitorError(f"the keys of this index are {kind}, got {_show(array[0].as_py())}")
        return array if len(array) else array.cast(self.array.type)

    def append(self, keys: pa.Array) -> None:
        """Add keys to those that there are. Some may have been removed, under another number."""
        for number, key in enumerate(keys.to_pylist(), len(self)):
            self._recent[key] = number
            self._recent_keys.append(key)

    def find(self, keys: pa.Array) -> np.ndarray:
        """Return the numbers of keys; -1 if there is none."""
        if not len(self.array):
            return np.full(len(keys), -1)
        numbers = self._index.find_many(keys)
        if self._recent:
            recent = np.array([self._recent.get(key, -1) for key in keys.to_pylist()], np.int64)
            numbers = np.where(recent >= 0, recent, numbers)
        return numbers

    def values(self, numbers: np.ndarray) -> list[Any]:
        """Return the keys with these numbers."""
        if not self._recent_keys:
            return self.array.take(pa.array(numbers)).to_pylist()
        size = len(self.array)
        is_recent = numbers >= size
        base = iter(self.array.take(pa.array(numbers[~is_recent])).to_pylist())
        return [
            self._recent_keys[number - size] if recent else next(base)
            for number, recent in zip(numbers.tolist(), is_recent.tolist())
        ]

    def take(self, numbers: np.ndarray) -> Keys:
        """Return those with these numbers, numbered anew."""
        array = pa.concat_arrays([self.array, pa.array(self._recent_keys, self.array.type)])
        return Keys(array.take(pa.array(numbers)))


def _show(key: Any) -> str:
    return shorten(repr(key), 60)
