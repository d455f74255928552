"""The dictionary of category values: each value that a rule mentions has an integer code.

All attributes share one dictionary. Codes count from 1, in the order in which rules first mention
the values. All other values share the code `OTHER`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from tocsin.jit import freeze
from tocsin.model.conjunctions import Conjunctions, expand_ranges
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import Schema
from tocsin.model.text_codes import TextCodes
from tocsin.model.validation import require

# Texts that are looked up one by one, for each value that is not in the table, before these values
# are inserted. Chosen: inserting a value costs as much as looking up a few texts.
_LOOKUPS_PER_INSERTION = 0.25
_FEW = 4096  # values that are inserted at once, chosen: under a millisecond


class Categories:
    """The category values that rules mention, each with its code.

    A draft and its versions share one object. Values are only appended, so a version needs no
    copy: it remembers how many values there were, and its rules mention no others. One thread may
    add values while others look them up. `truncate` removes the values of a change that failed.
    Versions do not notice, because they are older than these values.

    `get(text, OTHER)` returns the code of an event's value. It is the method of the dict itself,
    because a single event is matched in microseconds. Columns of texts are looked up in a table
    (`text_codes`) that is made when it is worth it.

    >>> categories = Categories(["gold"])
    >>> categories.add("black"), categories.add("gold"), categories.text(2)
    (2, 1, 'black')
    """

    __slots__ = ("_codes", "_inserted", "_lock", "_lookups", "_table", "_texts", "get")

    def __init__(self, texts: Iterable[str] = ()):
        self._texts = list(dict.fromkeys(texts))  # the value with code i + 1 at index i
        self._codes = dict(zip(self._texts, itertools.count(1)))
        self.get: Callable[[str, int], int] = self._codes.get
        self._table = TextCodes.empty()
        self._inserted = 0  # values that may be in the table's memory, if an insertion was aborted
        self._lookups = 0  # texts that were not looked up in a table since it was extended
        self._lock = threading.RLock()  # a signal handler may match, too

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        """Yield the values in the order of their codes."""
        return iter(self._texts)

    def add(self, text: str) -> int:
        """Return the code of a value; a new value gets the next code."""
        code = self._codes.get(text)
        if code is None:
            # In this order, so that a thread that finds the code also finds its text.
            self._texts.append(text)
            code = self._codes[text] = len(self._texts)
        return code

    def text(self, code: int) -> str | None:
        """Return the value of a code, or None if no value has it."""
        return self._texts[code - 1] if 0 < code <= len(self._texts) else None

    def truncate(self, size: int) -> None:
        """Remove all values after the first `size`."""
        with self._lock:
            for text in self._texts[size:]:
                self._codes.pop(text, None)  # no code yet if `add` was interrupted
            del self._texts[size:]
            if self._inserted > size:  # last, since a signal handler may have extended it
                self._table, self._inserted = TextCodes.empty(), 0

    def table(self, lookups: int) -> TextCodes | None:
        """Return a table of at least the values that there are now, to look up so many texts.

        Returns None as long as looking them up one by one with `get` is cheaper than inserting the
        values that are not in the table yet.
        """
        table = self._table  # once: another thread may replace it
        missing = len(self._texts) - table.size
        if missing <= 0:
            return table
        self._lookups += lookups
        if missing > _FEW and self._lookups < missing * _LOOKUPS_PER_INSERTION:
            return None
        with self._lock:
            table = self._table
            if self._inserted > table.size:  # an insertion was aborted
                table = TextCodes.empty()
            new = self.to_arrow(table.size)
            if len(new):
                self._inserted = table.size + len(new)
                self._table, self._lookups = table.extend(new), 0
            return self._table

    def copy(self, size: int) -> Categories:
        """Return an independent copy of the first `size` values."""
        return Categories(self._texts[:size])

    def to_arrow(self, start: int = 0, stop: int | None = None) -> pa.Array:
        """Return the values from index `start` up to `stop`; index i has code i + 1."""
        return pa.array(self._texts[start:stop], pa.large_string())


def check_codes(c: Conjunctions, count: int, schema: Schema) -> None:
    """Raise a StoreError if valid conjunctions contain a code above `count`.

    Decoding and renumbering rely on it. Predicates without a value, such as IS NULL, are intervals
    that end at NULL or HIGHEST, or have NULL among their points.
    """
    on_category = _find_category_rows(c, schema)
    intervals = on_category & (c.kind == INTERVAL)
    low, high = c.low[intervals], c.high[intervals]
    has_values = (low > 0) & (high <= count)
    has_no_value = (low <= LOWEST) & ((high == NULL) | (high == HIGHEST))
    sets = np.flatnonzero(on_category & (c.kind != INTERVAL))
    points = c.points[expand_ranges(c.low[sets], c.high[sets])]
    is_known = (points > 0) & (points <= count)
    require(
        bool((has_values | has_no_value).all()) and bool((is_known | (points == NULL)).all()),
        f"predicates on categories must use codes of the {count:,} known values",
    )


def _find_category_rows(c: Conjunctions, schema: Schema) -> np.ndarray:
    """Return for each row whether its attribute is a category."""
    is_category = np.array([kind == "category" for kind in schema.kinds], bool)
    return np.asarray(is_category[c.attribute])


def recode(
    c: Conjunctions, categories: Categories, schema: Schema
) -> tuple[Conjunctions, Categories]:
    """Return the same conjunctions with as few codes as they need, if most codes are unused.

    Codes keep their order. All codes inside an interval are in use, because it comes from a list
    of values. So intervals stay intervals.
    """
    count = len(categories)
    on_category = _find_category_rows(c, schema)
    intervals = on_category & (c.kind == INTERVAL) & (c.low > 0)
    sets = np.flatnonzero(on_category & (c.kind != INTERVAL))
    in_sets = expand_ranges(c.low[sets], c.high[sets])
    uses = np.zeros(count + 2, np.int64)
    np.add.at(uses, c.low[intervals], 1)
    np.add.at(uses, c.high[intervals] + 1, -1)
    uses = np.cumsum(uses)
    points = c.points[in_sets]
    uses[points[points > 0]] += 1
    is_used = uses[: count + 1] > 0
    if int(is_used.sum()) * 2 + 1024 > count:
        return c, categories
    new_code = np.cumsum(is_used)
    low, high, all_points = c.low.copy(), c.high.copy(), c.points.copy()
    low[intervals], high[intervals] = new_code[low[intervals]], new_code[high[intervals]]
    all_points[in_sets] = np.where(points > 0, new_code[np.maximum(points, 0)], points)
    recoded = c._replace(
        low=freeze(low, np.int64), high=freeze(high, np.int64), points=freeze(all_points, np.int64)
    )
    return recoded, Categories(itertools.compress(categories, is_used[1:].tolist()))
