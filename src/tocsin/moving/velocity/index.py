"""The velocity constrained index over objects with keys, in a table of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import MonitorError, shorten
from tocsin.index.appending import copy_with_room
from tocsin.moving.velocity.inputs import Clock, read_box, read_numbers, read_speeds
from tocsin.moving.velocity.keys import Keys
from tocsin.moving.velocity.tree import PAGE, Answer, Pages, VelocityTree


class VelocityIndex:
    """Moving objects, and which of them are in a box now.

    Parameters
    ----------
    keys
        Texts or integers, a different one for each object: a list, an array or an Arrow array.
    x, y
        Where the objects are. A position that is NaN or null is in no box.
    v_max
        The most that an object can move in a unit of time (a second, if times are datetimes): one
        number, or one for each object. Where it is None, null, NaN or infinite, it is not known.
    at
        When the objects are there: a time, or one for each object. Times are numbers, or datetimes;
        those without a zone are in UTC.
    clustered
        Whether positions are in the order of the leaves (2.5.1, optimisation 3).
    capacity
        Entries of a node, and positions of a page.
    published
        Expand everything in a node by the node's v_max, as the thesis does.

    `query` returns what brute force over the current positions returns, for objects that keep their
    v_max, and for others, too: see the package. The current position of an object is that of its
    latest report. What the index cannot know is that an object moved which did not report.

    >>> from tocsin.moving.velocity import VelocityIndex
    >>> index = VelocityIndex(["a", "b", "c"], [1, 5, 9], [1, 5, 9], v_max=0.5, at=0)
    >>> index.query([0, 0], [6, 6], now=0)
    ['a', 'b']
    >>> index.update(["a", "b"], [2, 8], [1, 5], at=10)
    >>> index.query([0, 0], [6, 6], now=10)
    ['a']
    """

    def __init__(
        self,
        keys: Any,
        x: Any,
        y: Any,
        v_max: Any,
        at: Any,
        *,
        clustered: bool = True,
        capacity: int = PAGE,
        published: bool = False,
    ):
        self.clustered = clustered
        self._clock = Clock()
        self._keys = Keys(pa.array([], pa.int64()))
        # Objects have numbers, in the order in which they were added, and rows in the table.
        self._row = np.empty(0, np.int32)  # by number; -1 for those that were removed
        self._number = np.empty(0, np.int32)  # by row
        self._x, self._y, self._seen = np.empty((3, 0))
        self.tree = VelocityTree(self._x, self._y, self._seen, capacity, published)
        self.insert(keys, x, y, v_max, at)
        self._pack()

    # ------------------------------------------------------------ queries

    def query(self, low: Sequence[Any], high: Sequence[Any], now: Any) -> list[Any]:
        """Return the keys of the objects in the box from low to high, ends included.

        `low` and `high` are points [x, y]; an end can be infinite or None. Keys are in the order of
        the index, which is always the same for the same calls. The answer is about the latest
        reports: a `now` before one of them is taken as that report's time.
        """
        return self.keys_at(self.search(low, high, now).rows)

    def search(self, low: Sequence[Any], high: Sequence[Any], now: Any) -> Answer:
        """Return the rows of the objects in a box, and what the search did; see `query`."""
        return self.tree.search(read_box(low, high), self._clock.read(now, "now"))

    def pages(self, lows: Any, highs: Any, now: Any) -> Pages:
        """Return which pages of the index and of the table these queries read (2.6.4).

        The objects of all queries are looked up together, as optimisations 1 and 2 do: each object
        and each page is counted once. (The thesis sorts objects by page, to read each page once. In
        memory that costs more than looking up positions, so `query` looks them up at once, and in
        the order of pages anyway if the table is clustered.)
        """
        boxes = [read_box(low, high) for low, high in zip(lows, highs, strict=True)]
        return self.tree.pages(np.array(boxes).reshape(-1, 4), self._clock.read(now, "now"))

    def keys_at(self, rows: np.ndarray) -> list[Any]:
        """Return the keys of the objects in these rows."""
        return self._keys.values(self._number[rows])

    def rows_of(self, keys: Any) -> np.ndarray:
        """Return the rows of objects, for `update_rows`; they are valid until `rebuild`."""
        array = self._keys.read(keys)
        numbers = self._keys.find(array)
        rows = np.full(len(numbers), -1, np.int32)
        is_known = numbers >= 0
        rows[is_known] = self._row[numbers[is_known]]
        if len(rows) and rows.min() < 0:
            key = array[int(np.argmin(rows))].as_py()
            raise MonitorError(f"there is no object {shorten(repr(key), 60)}; insert it first")
        return rows

    @property
    def keys(self) -> list[Any]:
        """The keys of all objects, in the order in which they were added."""
        return self._keys.values(self._live())

    def __len__(self) -> int:
        return len(self._live())

    # ------------------------------------------------------------ reports

    def update(self, keys: Any, x: Any, y: Any, at: Any) -> None:
        """Take reports of where objects are, in the order given; the tree is not changed.

        Keys may occur several times. A report that is older than the latest one of its object is
        ignored and counted (`counters`). An object that moved faster than its v_max is counted, and
        from then on has none.
        """
        if isinstance(keys, str | int | np.integer):
            keys, x, y = [keys], [x], [y]
        self.update_rows(self.rows_of(keys), x, y, at)

    def update_rows(self, rows: np.ndarray, x: Any, y: Any, at: Any) -> None:
        """Take reports of the objects in these rows; see `update` and `rows_of`."""
        n = len(rows)
        x, y = read_numbers(x, "x", n), read_numbers(y, "y", n)
        self.tree.report(rows, x, y, self._clock.read_each(at, "at", n))

    # ------------------------------------------------------------ objects that come and go

    def insert(self, keys: Any, x: Any, y: Any, v_max: Any, at: Any) -> None:
        """Add objects. Queries scan them until `rebuild`."""
        if isinstance(keys, str | int | np.integer):
            keys, x, y = [keys], [x], [y]
        array = self._keys.read(keys)
        n, before = len(array), len(self._keys)
        x, y = read_numbers(x, "x", n), read_numbers(y, "y", n)
        speeds, seen = read_speeds(v_max, array), self._clock.read_each(at, "at", n)
        added = Keys(array)  # raises if some are equal
        numbers = self._keys.find(array)
        present = np.flatnonzero(numbers >= 0)
        present = present[self._row[numbers[present]] >= 0]
        if len(present):
            key = array[int(present[0])].as_py()
            raise MonitorError(
                f"object {shorten(repr(key), 60)} is already in the index; use update for reports"
            )
        if before:
            self._keys.append(array)
        else:
            self._keys = added
        self._make_room(before + n)
        rows = np.arange(before, before + n)  # which are its numbers, until the next rebuild
        self._row[rows] = self._number[rows] = rows
        self._x[rows], self._y[rows], self._seen[rows] = x, y, seen
        self.tree.track(rows, speeds)

    def remove(self, keys: Any) -> None:
        """Remove objects. Their entries in the tree are marked, until `rebuild`."""
        array = self._keys.read(keys)
        self.tree.forget(self.rows_of(array))
        self._row[self._keys.find(array)] = -1

    # ------------------------------------------------------------ refresh and rebuild

    def refresh(self, x: Any = None, y: Any = None, at: Any = None) -> None:
        """Index the current positions, without changing the structure of the tree (2.5.1).

        With `x` and `y`, these are the current positions, of all objects in the order of `keys`,
        and `at` is their time. Without them it is the latest reports. Each is as old as it is, and
        expanded accordingly, unless `at` says until when objects have stayed where they were seen.
        """
        self.tree.report(*self._read_positions(x, y, at))
        self.tree.refresh()

    def rebuild(self, x: Any = None, y: Any = None, at: Any = None, v_max: Any = None) -> None:
        """Index the current positions in a tree that is packed anew.

        The arguments are those of `refresh`. A new `v_max` is a number, or one for each object, in
        the order of `keys`. Rows change.
        """
        live = self._live()
        positions = self._read_positions(x, y, at)
        if v_max is not None:
            speeds = read_speeds(v_max, pa.array(self._keys.values(live), self._keys.array.type))
            self.tree.change_speeds(self._row[live], speeds)
        self.tree.report(*positions)
        self._pack()

    @property
    def refresh_period(self) -> float:
        """The time between refreshes that costs least, as measured; infinite if none pays yet.

        It is sqrt(2 R / (q g)), where a refresh costs R, there are q queries per unit of time, and
        each costs g more per unit of time since the last refresh (`refreshing.py`).
        """
        return self.tree.costs.period

    def refresh_pays(self, now: Any) -> bool:
        """Return whether the last refresh is at least `refresh_period` ago."""
        return self.tree.age(self._clock.read(now, "now")) >= self.refresh_period

    @property
    def counters(self) -> dict[str, int]:
        """Counts of what the index has, and of what searches and reports did."""
        return {"objects": len(self), "listed": self.tree.listed, **self.tree.counters}

    def _live(self) -> np.ndarray:
        """Return the numbers of the objects that are present."""
        return np.flatnonzero(self._row[: len(self._keys)] >= 0)

    def _read_positions(
        self, x: Any, y: Any, at: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, and the positions to report of them; see `refresh`."""
        if (x is None) != (y is None) or (x is not None and at is None):
            raise MonitorError(
                "x, y and at are given together: positions, and the time they are of"
            )
        rows = self._row[self._live()] if at is not None else np.empty(0, np.int32)
        n = len(rows)
        if x is None:
            x, y = self._x[rows], self._y[rows]
        times = np.empty(0) if at is None else self._clock.read_each(at, "at", n)
        return rows, read_numbers(x, "x", n), read_numbers(y, "y", n), times

    def _pack(self) -> None:
        """Pack the tree, drop removed objects, and move the others to their rows."""
        live = self._live()
        rows, n = self._row[live], len(live)
        if n < len(self._keys) or len(self._keys) > len(self._keys.array):
            self._keys = self._keys.take(live)
        order, entries = rows, None
        if self.clustered:
            entries = self.tree.order(rows)
            is_rest = np.ones(len(self._x), bool)
            is_rest[entries] = False
            order = np.concatenate([entries, rows[is_rest[rows]]])
        self._x, self._y, self._seen = self._x[order], self._y[order], self._seen[order]
        self.tree.arrange(order, (self._x, self._y, self._seen))
        self.tree.rebuild(None if entries is None else np.arange(len(entries)))
        new_row = np.empty(len(self._row), np.int32)
        new_row[order] = np.arange(n)
        self._row = new_row[rows]
        self._number = np.empty(n, np.int32)
        self._number[self._row] = np.arange(n)

    def _make_room(self, needed: int) -> None:
        """Make the arrays of the table long enough."""
        if needed <= len(self._x):
            return
        used = len(self._x)
        for name in ("_x", "_y", "_seen", "_row", "_number"):
            setattr(self, name, copy_with_room(getattr(self, name)[:used], needed))
        self.tree.share(self._x, self._y, self._seen)
