"""Codes of category values: all attributes share them, and only values that rules mention have one.

Codes count from 1 in the order in which values are first mentioned; all other values share `OTHER`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from tocsin.jit import frozen
from tocsin.model.conjunctions import Conjunctions, ranges
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import Schema
from tocsin.model.validation import require


class Categories:
    """The category values that rules mention, each with its code.

    A draft and the versions made from it share one object. Values are only added, so a version
    needs no copy: it remembers how many there were, and its rules mention no others. One thread
    may add values while others look them up. Values of a change that fails are `cut` off again,
    which no version notices, since it was made before them.

    `get(text, OTHER)` is the code of a value that an event has: the method of a dict itself, since
    a single event is matched in microseconds.

    >>> categories = Categories(["gold"])
    >>> categories.add("black"), categories.add("gold"), categories.text(2)
    (2, 1, 'black')
    """

    __slots__ = ("_codes", "_texts", "get")

    def __init__(self, texts: Iterable[str] = ()):
        self._texts = list(dict.fromkeys(texts))  # by code, from 1 on
        self._codes = dict(zip(self._texts, itertools.count(1)))
        self.get: Callable[[str, int], int] = self._codes.get

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        """Yield the values in the order of their codes."""
        return iter(self._texts)

    def add(self, text: str) -> int:
        """Return the code of a value that a rule mentions, the next one if it is new."""
        code = self._codes.get(text)
        if code is None:
            # In this order, so that whoever finds a code also finds its text.
            self._texts.append(text)
            code = self._codes[text] = len(self._texts)
        return code

    def text(self, code: int) -> str | None:
        """Return the value that has a code, None if none has."""
        return self._texts[code - 1] if 0 < code <= len(self._texts) else None

    def cut(self, size: int) -> None:
        """Forget the values that were added since there were `size` of them."""
        for text in self._texts[size:]:
            self._codes.pop(text, None)  # it has no code yet if adding it was interrupted
        del self._texts[size:]

    def copy(self, size: int) -> Categories:
        """Return the first `size` values, to be added to apart."""
        return Categories(self._texts[:size])

    def to_arrow(self, start: int = 0, stop: int | None = None) -> pa.Array:
        """Return the values from place `start` up to `stop`; the one at place i has code i + 1."""
        return pa.array(self._texts[start:stop], pa.large_string())


def check_codes(c: Conjunctions, count: int, schema: Schema) -> None:
    """Raise a StoreError unless the codes that valid conjunctions mention are among `count` values.

    Whoever turns them back into texts, or renumbers them, relies on it. What does not name a value
    (IS NULL and the like) is an interval to one of the ends of the line, or has null for a point.
    """
    rows = _on_categories(c, schema)
    intervals = rows & (c.kind == INTERVAL)
    low, high = c.low[intervals], c.high[intervals]
    named = (low > 0) & (high <= count)
    unnamed = (low <= LOWEST) & ((high == NULL) | (high == HIGHEST))
    sets = np.flatnonzero(rows & (c.kind != INTERVAL))
    points = c.points[ranges(c.low[sets], c.high[sets])]
    known = (points > 0) & (points <= count)
    require(
        bool((named | unnamed).all()) and bool((known | (points == NULL)).all()),
        f"a condition on a category must be about the {count:,} values that there are",
    )


def _on_categories(c: Conjunctions, schema: Schema) -> np.ndarray:
    """Tell of each row whether it is on a category."""
    is_category = np.array([schema.kind(a) == "category" for a in range(len(schema))], bool)
    found: np.ndarray = is_category[c.attribute]
    return found


def recode(
    c: Conjunctions, categories: Categories, schema: Schema
) -> tuple[Conjunctions, Categories]:
    """Return the same conjunctions over as few codes as they need, if that is worth it.

    Codes keep their order, and all codes inside an interval are in use (it stems from
    values that were listed), so intervals stay intervals.
    """
    count = len(categories)
    rows = _on_categories(c, schema)
    intervals = rows & (c.kind == INTERVAL) & (c.low > 0)
    sets = np.flatnonzero(rows & (c.kind != INTERVAL))
    in_sets = ranges(c.low[sets], c.high[sets])
    used = np.zeros(count + 2, np.int64)
    np.add.at(used, c.low[intervals], 1)
    np.add.at(used, c.high[intervals] + 1, -1)
    used = np.cumsum(used)
    points = c.points[in_sets]
    used[points[points > 0]] += 1
    in_use = used[: count + 1] > 0
    if int(in_use.sum()) * 2 + 1024 > count:
        return c, categories
    new = np.cumsum(in_use)
    low, high, all_points = c.low.copy(), c.high.copy(), c.points.copy()
    low[intervals], high[intervals] = new[low[intervals]], new[high[intervals]]
    all_points[in_sets] = np.where(points > 0, new[np.maximum(points, 0)], points)
    kept = Categories(itertools.compress(categories, in_use[1:].tolist()))
    changed = c._replace(
        low=frozen(low, np.int64), high=frozen(high, np.int64), points=frozen(all_points, np.int64)
    )
    return changed, kept
