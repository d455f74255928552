"""An index from ids to places: 12 bytes per rule, where a Python dict takes 150.

An id has an int64 code: an integer is its own code, a text is hashed. Places are sorted by code. A
lookup is a binary search and, for texts, a comparison of the ids, since hashes may collide.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.jit import Int64Out, Int64s, UInt8s, kernel
from tocsin.model.validation import check_dtype, check_within, require


class IdIndex:
    """Finds the places of ids in an array of distinct ids (int64 or large text)."""

    def __init__(self, ids: pa.Array):
        self._ids = ids
        self._has_texts = not t.is_integer(ids.type)
        self._codes = _compute_codes(ids)
        ascending = bool((self._codes[1:] > self._codes[:-1]).all())
        self._order = None if ascending else np.argsort(self._codes, kind="stable").astype(np.int32)

    @classmethod
    def from_arrays(cls, ids: pa.Array, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index of ids from its stored `arrays`."""
        for name, dtype in (("codes", "int64"), ("order", "int32")):
            if name in arrays:
                check_dtype(name, arrays[name], dtype)
        index = cls.__new__(cls)
        index._ids = ids
        index._has_texts = not t.is_integer(ids.type)
        index._codes = arrays["codes"] if "codes" in arrays else _compute_codes(ids)
        index._order = arrays.get("order")
        return index

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store besides the ids."""
        arrays = {} if t.is_integer(self._ids.type) else {"codes": self._codes}
        return arrays if self._order is None else arrays | {"order": self._order}

    def validate(self) -> None:
        """Raise a StoreError unless the codes and the order are those of the ids."""
        codes, size = _compute_codes(self._ids), len(self._ids)
        require(np.array_equal(self._codes, codes), "'codes' must be those of the ids")
        if self._order is not None:
            require(len(self._order) == size, f"'order' must have {size:,} elements")
            check_within("order", self._order, 0, size)
            once = np.bincount(self._order, minlength=size) == 1
            require(bool(once.all()), "'order' must have each place once")
            codes = codes[self._order]
        require(
            bool((codes[1:] >= codes[:-1]).all()), "the ids must be in the order of their codes"
        )

    def find_duplicate(self) -> tuple[int, int] | None:
        """Return two places that hold the same id, or None."""
        if self._order is None:
            return None
        codes = self._codes[self._order]
        for i in np.flatnonzero(codes[1:] == codes[:-1]):
            # A run of equal codes is a duplicate id or, very rarely, a hash collision.
            j = i + 1
            while j < len(codes) and codes[j] == codes[i]:
                a, b = int(self._order[i]), int(self._order[j])
                if self._ids[a] == self._ids[b]:
                    return min(a, b), max(a, b)
                j += 1
        return None

    def find(self, id_: Any) -> int:
        """Return the place of an id, or -1."""
        if isinstance(id_, str) != self._has_texts:
            return -1
        code = _code_of(id_) if self._has_texts else id_
        # Arrays of one element would take three times as long as the search; and with `sorter`,
        # NumPy would first copy the order of all ids to 64 bits.
        if self._order is None:
            at = int(self._codes.searchsorted(code))
        else:
            at = bisect.bisect_left(self._order.data, code, key=self._codes.data.__getitem__)
        if at == len(self._codes):
            return -1
        place = at if self._order is None else int(self._order[at])
        if self._codes[place] != code:
            return -1
        if not self._has_texts or self._ids[place].as_py() == id_:
            return place
        return self._search_collisions(at, pa.scalar(id_, self._ids.type))

    def find_many(self, ids: pa.Array) -> np.ndarray:
        """Return the places of ids of the same type, -1 if there is none."""
        codes = _compute_codes(ids)
        at = np.searchsorted(self._codes, codes, sorter=self._order)
        inside = at < len(self._codes)
        places = np.where(inside, at, 0)
        if self._order is not None and len(self._order):
            places = self._order[places]
        present = inside.copy()
        present[inside] = self._codes[places[inside]] == codes[inside]
        if not t.is_integer(ids.type):
            hits = np.flatnonzero(present)
            same = np.asarray(
                pc.equal(self._ids.take(pa.array(places[hits])), ids.take(pa.array(hits)))
            )
            for hit in hits[~same]:  # hash collisions
                places[hit] = self._search_collisions(int(at[hit]), ids[int(hit)])
                present[hit] = places[hit] >= 0
        return np.where(present, places, -1)

    def _search_collisions(self, at: int, id_: pa.Scalar) -> int:
        order = self._order if self._order is not None else np.arange(len(self._codes))
        code = self._codes[order[at]]
        while at < len(order) and self._codes[order[at]] == code:
            if self._ids[int(order[at])] == id_:
                return int(order[at])
            at += 1
        return -1


@functools.lru_cache(maxsize=1)  # every segment is searched for the same id
def _code_of(text: str) -> int:
    return int(_compute_codes(pa.array([text], pa.large_string()))[0])


def _compute_codes(ids: pa.Array) -> np.ndarray:
    if t.is_integer(ids.type):
        return np.asarray(ids)
    out = np.empty(len(ids), np.int64)
    if len(ids):
        _, offsets, data = ids.buffers()
        starts = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        letters = np.frombuffer(data, np.uint8) if data is not None and data.size else _NO_LETTERS
        hash_texts(starts, letters, out)
    return out


_NO_LETTERS = np.empty(0, np.uint8)


@kernel
def hash_texts(offsets: Int64s, letters: UInt8s, out: Int64Out) -> None:
    """Write a 64-bit hash (FNV-1a, mixed once more) of each text of an Arrow array."""
    for i in range(out.shape[0]):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(letters[j])) * np.uint64(0x100000001B3)
        h ^= h >> np.uint64(32)
        out[i] = np.int64(h * np.uint64(0x9E3779B97F4A7C15))
