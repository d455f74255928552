"""Conjunctions with room to grow, for indexes that change in place.

`Conjunctions` are never changed, since segments share them. So an index that inserts copies them
once, into buffers of its own with room at the end; what is inserted later is written there. What
was handed out before is a view of the front of a buffer, which stays as it is. Buffers grow by half
(chosen), so that an insertion costs what it adds, on average.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import field_types, freeze
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.predicates import INTERVAL

_DTYPES = field_types(Conjunctions)


class AppendedConjunctions:
    """Conjunctions to which further ones can be appended.

    >>> from tocsin.model.conjunctions import ConjunctionBuilder
    >>> nothing = ConjunctionBuilder().build()
    >>> AppendedConjunctions(nothing).append(nothing).size
    0
    """

    def __init__(self, conjunctions: Conjunctions):
        self._share(conjunctions)

    def _share(self, conjunctions: Conjunctions) -> None:
        self._buffers = conjunctions._asdict()
        self._lengths = {name: len(array) for name, array in self._buffers.items()}
        self._is_own = dict.fromkeys(self._buffers, False)  # whether a buffer may be written to

    def append(self, more: Conjunctions) -> Conjunctions:
        """Append conjunctions, and return all; those returned before remain valid."""
        if not self._lengths["rule"]:
            self._share(more)
            return more
        rows, points = self._lengths["attribute"], self._lengths["points"]
        low, high, weight = more.low, more.high, more.weight
        if points and len(more.points):
            is_set = more.kind != INTERVAL
            low, high = np.where(is_set, low + points, low), np.where(is_set, high + points, high)
        if len(weight) and not self._lengths["weight"]:
            self._write("weight", np.ones(rows))
        elif not len(weight) and self._lengths["weight"]:
            weight = np.ones(len(more.kind))
        score, size = more.score, self._lengths["rule"]
        if len(score) and not self._lengths["score"]:
            self._write("score", np.full(size, np.nan))
        elif not len(score) and self._lengths["score"]:
            score = np.full(more.size, np.nan)
        self._write("offsets", more.offsets[1:] + rows)
        self._write("attribute", more.attribute)
        self._write("kind", more.kind)
        self._write("low", low)
        self._write("high", high)
        self._write("points", more.points)
        self._write("weight", weight)
        self._write("score", score)
        self._write("rule", more.rule)
        return Conjunctions(
            **{
                name: freeze(buffer[: self._lengths[name]], _DTYPES[name])
                for name, buffer in self._buffers.items()
            }
        )

    def _write(self, name: str, values: np.ndarray) -> None:
        """Write values at the end of a buffer, which is replaced if it is shared or too short."""
        length = self._lengths[name]
        needed = length + len(values)
        if needed == length:
            return
        if not self._is_own[name] or needed > len(self._buffers[name]):
            self._buffers[name] = copy_with_room(self._buffers[name][:length], needed)
            self._is_own[name] = True
        self._buffers[name][length:needed] = values
        self._lengths[name] = needed


def copy_with_room(array: np.ndarray, needed: int) -> np.ndarray:
    """Return a copy of an array with `needed` elements and half as many again, not initialised."""
    longer = np.empty(needed + needed // 2 + 8, array.dtype)
    longer[: len(array)] = array
    return longer
