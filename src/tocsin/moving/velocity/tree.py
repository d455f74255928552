"""The velocity constrained index over rows of a table that the caller owns and numbers."""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

import numpy as np

from tocsin.errors import MonitorError
from tocsin.moving.velocity import building, reporting, searching
from tocsin.moving.velocity.layout import (
    CERTAIN,
    CHECKED,
    FIRST,
    LATE,
    LEVELS,
    LISTED,
    SCANNED,
    STRAYED,
    TOO_FAST,
    VISITED,
    Objects,
    Trace,
)
from tocsin.moving.velocity.refreshing import RefreshCosts

PAGE = 100  # entries of a node and rows of a page of the table: 2 KB (thesis, 2.6.3)

_NO_ROWS = np.empty(0, np.int32)
_NOTHING = np.empty(0, np.uint8)
_NO_TRACE = Trace(_NOTHING, _NOTHING, _NOTHING)
_OWN_ARRAYS = {"v_max": np.nan, "entry": -1, "place": -1, "listed": 0}


class Answer(NamedTuple):
    """The rows of the objects in a box, and what the search did."""

    rows: np.ndarray  # int32
    visited: tuple[int, ...]  # nodes by level: leaves first, the root last
    checked: int  # objects of the tree whose position was looked up
    certain: int  # objects of the tree that cannot be outside of the box
    scanned: int  # objects of the list


class Pages(NamedTuple):
    """What searches have read, each thing counted once however often they did."""

    nodes: tuple[int, ...]  # by level: leaves first, the root last
    objects: int  # positions in the table (optimisation 1)
    table_pages: int  # pages of the table (optimisation 2)
    visited: tuple[int, ...]  # nodes by level, once for each search
    looked_up: int  # positions, once for each search


class VelocityTree:
    """Objects in the rows of a table of positions, indexed by where they were.

    Parameters
    ----------
    x, y, seen
        Where the object of each row is, and when it was seen there: float64 arrays that the tree
        reads and writes in place. Times are finite numbers, such as seconds.
    capacity
        Entries and children of a node, and rows of a page of the table.
    published
        Expand everything in a node by the node's v_max, as the thesis does, and not each object and
        child by its own.

    A row is not part of the tree before `track`. Between packings, objects are in the list, or have
    an entry in the tree. Nothing may run beside a method that changes the tree.

    >>> x, y, seen = np.array([1.0, 5.0]), np.array([1.0, 5.0]), np.zeros(2)
    >>> tree = VelocityTree(x, y, seen)
    >>> tree.track([0, 1], [0.5, 0.5])
    >>> tree.rebuild()
    >>> tree.report([0], [2.0], [1.0], [4.0])
    >>> tree.search((0, 0, 3, 3), now=10.0)
    Answer(rows=array([0], dtype=int32), visited=(1,), checked=2, certain=0, scanned=0)
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        seen: np.ndarray,
        capacity: int = PAGE,
        published: bool = False,
    ):
        if not isinstance(capacity, int) or not 2 <= capacity < 2**20:
            raise MonitorError(f"capacity must be from 2 to 1,048,575 entries, got {capacity!r}")
        self._capacity, self._published = capacity, published
        self._objects = _make_objects(np.zeros(4, np.int64))
        self._latest = self._refreshed_at = -np.inf  # of all reports, and of those before a refresh
        self.costs = RefreshCosts()
        self.searches = 0
        self._counts = np.zeros(VISITED, np.int64)  # of all searches
        self._tree = building.make_tree(_NO_ROWS, capacity, published)
        self.share(x, y, seen)
        searching.search.compile()  # so that costs are measured without
        building.refresh.compile()

    # ------------------------------------------------------------ objects

    def share(self, x: np.ndarray, y: np.ndarray, seen: np.ndarray) -> None:
        """Use other arrays for the table: longer ones, with the same objects in the same rows."""
        rows, before = len(x), len(self._objects.x)
        for name, array in (("x", x), ("y", y), ("seen", seen)):
            _check_shared(name, array, rows, before)
        own = {}
        for name, fill in _OWN_ARRAYS.items():
            old = getattr(self._objects, name)
            own[name] = np.concatenate([old, np.full(rows - before, fill, old.dtype)])
        self._objects = self._objects._replace(x=x, y=y, seen=seen, **own)

    def track(self, rows: np.ndarray, v_max: np.ndarray) -> None:
        """Start to track objects, whose positions are in the table: in the list, until `rebuild`.

        `v_max` is NaN if it is not known.
        """
        rows = self._read_rows(rows)
        self._objects.v_max[rows] = v_max
        self._latest = max(self._latest, float(self._objects.seen[rows].max(initial=-np.inf)))
        building.track(self._objects, rows)

    def forget(self, rows: np.ndarray) -> None:
        """No longer track objects."""
        building.forget(self._tree, self._objects, self._read_rows(rows))

    def is_tracked(self) -> np.ndarray:
        """Return a mask of the rows whose objects are tracked."""
        return (self._objects.entry >= 0) | (self._objects.place >= 0)

    def report(self, rows: np.ndarray, x: np.ndarray, y: np.ndarray, at: np.ndarray) -> None:
        """Write positions at some times to the table, in this order.

        Whatever is older than an object's latest report is ignored, and counted. Rows that are not
        tracked are written, too. If the caller has written the table already, an object that is too
        fast is found only if it has left what its entry covers.
        """
        rows = self._read_rows(rows)
        x, y, at = (np.ascontiguousarray(values, np.float64) for values in (x, y, at))
        if not len(rows) == len(x) == len(y) == len(at):
            raise MonitorError(
                f"{len(rows):,} rows are reported with {len(x):,} and {len(y):,} coordinates at "
                f"{len(at):,} times; give one of each for a report"
            )
        self._latest = max(self._latest, float(at.max(initial=-np.inf)))
        reporting.report(self._tree, self._objects, rows, x, y, at)

    def _read_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return rows as kernels take them; raise if the table does not have one."""
        array, size = np.asarray(rows), len(self._objects.x)
        if len(array) and not 0 <= array.min() <= array.max() < size:
            bad = array.min() if array.min() < 0 else array.max()
            raise MonitorError(
                f"there is no row {bad:,}, the table has {size:,}; rows change when an index is "
                "rebuilt"
            )
        return np.ascontiguousarray(array, np.int32)

    # ------------------------------------------------------------ refresh and rebuild

    def refresh(self) -> None:
        """Take the positions in the table into the tree, which keeps its structure."""
        begin = time.perf_counter()
        building.refresh(self._tree, self._objects)
        self.costs.note_refresh(time.perf_counter() - begin)
        self._refreshed_at = self._latest

    def rebuild(self, rows: np.ndarray | None = None) -> None:
        """Pack all objects whose v_max and position are known into a new tree.

        `rows` says which these are, and in which order, if the caller knows (`order`).
        """
        objects = self._objects
        tracked = np.flatnonzero(self.is_tracked())
        if rows is None:
            rows = self.order(tracked)
        objects.entry[:] = -1
        objects.entry[rows] = np.arange(len(rows))
        building.track(objects, tracked.astype(np.int32))
        self._tree = building.make_tree(rows, self._capacity, self._published)
        self.refresh()

    def order(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some rows that a tree would index, in the order of its leaves."""
        objects = self._objects
        x, y = objects.x[rows], objects.y[rows]
        rows = rows[(objects.v_max[rows] >= 0) & np.isfinite(x) & np.isfinite(y)]
        return rows[building.pack(objects.x[rows], objects.y[rows], self._capacity)]

    def arrange(self, order: np.ndarray, table: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Move the objects of the rows `order` to the rows 0, 1, ... of another table.

        x, y and seen are already there. No other object is tracked any more, and all of these are
        in the list: pack them with `rebuild`.
        """
        n, v_max, head = len(order), self._objects.v_max[order], self._objects.head
        head[LISTED] = 0
        self._objects = _make_objects(head)
        self._tree = building.make_tree(_NO_ROWS, self._capacity, self._published)
        self.share(*table)
        self.track(np.arange(n), v_max)

    def change_speeds(self, rows: np.ndarray, v_max: np.ndarray) -> None:
        """Change the v_max of objects. The tree has that of the last `refresh`."""
        self._objects.v_max[rows] = v_max

    # ------------------------------------------------------------ search

    def search(self, box: tuple[float, float, float, float], now: float) -> Answer:
        """Return the objects whose positions in the table are in a box: x, y low, then x, y high.

        A time before the latest report is taken as that of the report.
        """
        begin = time.perf_counter()
        answer = self._search(box, now, _NO_TRACE)
        self.costs.note_query(self.age(now), time.perf_counter() - begin)
        return answer

    def pages(self, boxes: np.ndarray, now: float) -> Pages:
        """Search with boxes[n, 4], and return what was read, counted once for all of them."""
        objects = len(self._objects.x)
        trace = Trace(
            np.zeros(max(1, len(self._tree.v_max)), np.uint8),
            np.zeros(objects, np.uint8),
            np.zeros(objects // self._capacity + 1, np.uint8),
        )
        answers = [self._search(tuple(box), now, trace) for box in boxes]
        first = self._tree.shape[FIRST:]
        nodes = tuple(int(trace.node[a:b].sum()) for a, b in itertools.pairwise(first))
        return Pages(
            nodes,
            int(trace.object.sum()),
            int(trace.page.sum()),
            tuple(sum(counts) for counts in zip(*(answer.visited for answer in answers))),
            sum(answer.checked + answer.scanned for answer in answers),
        )

    def _search(self, box: tuple[float, float, float, float], now: float, trace: Trace) -> Answer:
        out = np.empty(len(self._objects.x) + 1, np.int32)
        counts = np.zeros(VISITED + int(self._tree.shape[LEVELS]), np.int64)
        now = max(now, self._latest)
        n = searching.search(self._tree, self._objects, np.array(box, np.float64), now, out, counts,
                             trace)  # fmt: skip
        self.searches += 1
        self._counts += counts[:VISITED]
        checked, certain, scanned, *visited = counts.tolist()
        return Answer(out[:n].copy(), tuple(visited), checked, certain, scanned)

    # ------------------------------------------------------------ figures

    def age(self, now: float) -> float:
        """Return the time from the last refresh, or the latest report before it, until now."""
        age = max(now, self._latest) - self._refreshed_at
        return age if np.isfinite(age) else 0.0  # nothing was ever reported

    @property
    def listed(self) -> int:
        """How many objects are in the list."""
        return int(self._objects.head[LISTED])

    @property
    def counters(self) -> dict[str, int]:
        """Counts of all searches and reports."""
        head, counts = self._objects.head, self._counts
        return {
            "searches": self.searches,
            "checked": int(counts[CHECKED]),
            "certain": int(counts[CERTAIN]),
            "scanned": int(counts[SCANNED]),
            "too_fast": int(head[TOO_FAST]),
            "strayed": int(head[STRAYED]),
            "late": int(head[LATE]),
        }


def _make_objects(head: np.ndarray) -> Objects:
    """Return a table without rows."""
    x, y, seen, v_max = np.empty((4, 0))
    return Objects(x, y, seen, v_max, _NO_ROWS, _NO_ROWS, _NO_ROWS, head)


def _check_shared(name: str, array: np.ndarray, rows: int, least: int) -> None:
    """Raise unless an array can be read and written in place by kernels."""
    flags = array.flags
    is_usable = array.dtype == np.float64 and flags.c_contiguous and flags.writeable
    if not is_usable or array.shape != (rows,) or rows < least:
        raise MonitorError(
            f"{name} must be a writable, contiguous float64 array, as long as the other ones and "
            f"with at least {least:,} rows; got {array.dtype} of shape {array.shape}"
        )
