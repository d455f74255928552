"""Finds the objects that a new fence may hold for in a velocity constrained index (thesis, 2.6.5).

A new rule is judged by last reports. Without an index, each of its boxes is compared with all of
them. With a velocity constrained index over where objects were (`velocity/`), a search finds the
few objects that may be in the box, and the rule is matched with the last reports of these only. So
answers are the same: the index proposes, and reports decide.

*Nothing is done for a report when it comes.* Those that came since the index last took some in are
the end of the log, and are scanned. When that has cost enough, the index takes them in, the last
one of each object: an object that is where the index expects it, by its v_max, costs a test; any
other goes to the list, which every search scans. Only an object that is forgotten leaves at once,
since its slot gets another object.

*What is cheaper* is estimated from constants, so it is the same each time. To build the index, to
take in reports, and to refresh cost more than one scan but serve later searches, too. So each is
done when what was spent without it has added up to its cost. (For refreshes that is the period of
`velocity/refreshing.py`: what searches cost beyond fresh ones adds up to a refresh.)

An object costs 72 bytes more in memory. There is no index for few objects, for conditions without a
range of a position column, and from the first report on whose position is not a plain number, such
as a range. Nothing of it is saved: a monitor that is opened builds it again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.version import Version
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL, integer_value, number_value
from tocsin.model.predicates import INTERVAL
from tocsin.moving.objects import LAST, ROW, WORDS, Objects
from tocsin.moving.options import MonitorOptions
from tocsin.moving.positions import to_times
from tocsin.moving.reports import Reports
from tocsin.moving.velocity.tree import PAGE, Answer, VelocityTree

# Nanoseconds, measured with a million objects by `python -m benchmarks.moving --only velocity`.
SCAN = 1.2  # a report in the log, for each box
SEARCH = 10_000.0  # a search, whatever it finds
TEST = 1.0  # an entry of a leaf that is visited
LOOK_UP = 35.0  # a position in the table, or an object of the list
TAKE_IN = 450.0  # a report
REFRESH = 80.0  # an object
BUILD = 500.0  # an object

_IN_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # units of timestamps
_LIST_SHARE = 8  # build anew if an eighth of the objects is in the list after a refresh; chosen
_LARGEST_SPEED = 1e308  # one that is so large is no constraint; chosen
_NOWHERE = np.empty(0)

Box = tuple[float, float, float, float]  # x, y low, then x, y high


class VelocitySearch:
    """Last positions in a velocity constrained index, which is built and kept when that pays."""

    def __init__(self, options: MonitorOptions):
        self._position = [name.lower() for name in options.position]
        self._v_max = options.v_max
        self.by_index = self.by_scan = self.by_match = 0  # rules
        self._can_index = True  # all positions that were taken in are plain numbers
        self._tree: VelocityTree | None = None
        # By slot; the tree has them, too.
        self._x = self._y = self._seen = _NOWHERE
        self._spent = 0.0  # on scans of reports that are not taken in
        self._excess = 0.0  # on searches and scans because the index is old
        self._estimate = SEARCH  # of the next search

    @property
    def nbytes(self) -> int:
        """Bytes of the index, about."""
        return 72 * len(self._x)

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of rules that were added or changed, by what was searched for them."""
        return {
            "rules_by_velocity_index": self.by_index,
            "rules_by_scan": self.by_scan,
            "rules_by_match": self.by_match,
        }

    def forget(self, slots: np.ndarray) -> None:
        """Forget objects; others may take their slots."""
        known = slots[slots < len(self._x)]
        if self._tree is not None and len(known):
            self._tree.forget(known)
            self._tree.change_speeds(known, np.full(len(known), np.nan))
            self._seen[known] = -np.inf

    def find_rows(
        self, rules: Version, objects: Objects, reports: Reports, time_type: pa.DataType | None
    ) -> np.ndarray | None:
        """Return rows of the log with last reports for which rules may hold; None: scan all.

        Reports from `reports.taken` on are not among them, and are to be scanned.
        """
        boxes = self._boxes_of(rules) if self._can_index else None
        if boxes is None or not self._prepare(len(boxes), objects, reports, time_type):
            self.by_scan += len(rules)
            return None
        self.by_index += len(rules)
        slots = np.unique(np.concatenate([np.empty(0, np.int32), *map(self._search, boxes)]))
        rows = objects.records.reshape(-1, WORDS)[slots, ROW]
        return rows[rows < reports.taken]

    # ------------------------------------------------------------ costs

    def _prepare(
        self, boxes: int, objects: Objects, reports: Reports, time_type: pa.DataType | None
    ) -> bool:
        """Bring the index up to date if that pays; return whether to search it."""
        scan = SCAN * boxes * reports.rows
        waiting = reports.rows - reports.taken
        if self._spent >= waiting * (BUILD if self._tree is None else TAKE_IN) > 0:
            self._take_in(objects, reports, time_type)
            self._spent, waiting = 0.0, 0
        if self._tree is None:
            self._spent += scan
            return False
        if self._excess >= REFRESH * objects.size:
            self._refresh(objects)
        if boxes * self._estimate >= scan:
            self._excess += scan
            return False
        if boxes * (self._estimate + SCAN * waiting) >= scan:
            self._spent += scan
            return False
        self._spent += SCAN * boxes * waiting
        return True

    def _refresh(self, objects: Objects) -> None:
        """Refresh the index, or build it anew if too many objects are not in it."""
        assert self._tree is not None
        is_list_long = self._tree.listed > objects.size // _LIST_SHARE
        if not is_list_long or self._excess >= BUILD * objects.size:
            (self._tree.rebuild if is_list_long else self._tree.refresh)()
            self._excess, self._estimate = 0.0, SEARCH

    def _search(self, box: Box) -> np.ndarray:
        assert self._tree is not None
        answer = self._tree.search(box, -np.inf)  # at the time of the latest report
        self._estimate = estimate_cost(answer)
        self._excess += self._estimate - SEARCH
        return answer.rows

    # ------------------------------------------------------------ reports

    def _take_in(self, objects: Objects, reports: Reports, time_type: pa.DataType | None) -> None:
        """Write the last reports that have come since this was done before to the index."""
        slots, x, y, v_max = [], [], [], []
        start = 0
        for table, own_slots, is_last in reports.tables():
            rows = np.flatnonzero(is_last)
            rows = rows[rows >= reports.taken - start]
            start += table.num_rows
            columns = {
                name.lower(): column
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
            places = [self._read_places(columns, axis, rows) for axis in range(2)]
            if places[0] is None or places[1] is None:
                self._can_index, self._tree = False, None
                self._x = self._y = self._seen = _NOWHERE
                return
            slots.append(own_slots[rows])
            x.append(places[0])
            y.append(places[1])
            v_max.append(self._read_speeds(columns, rows))
        taken, speeds = np.concatenate(slots), np.concatenate(v_max)
        times = objects.records.reshape(-1, WORDS)[taken, LAST]
        tree = self._tree_with_room(objects.slots)
        is_new = ~tree.is_tracked()[taken]
        tree.report(taken, np.concatenate(x), np.concatenate(y), _to_seconds(times, time_type))
        tree.track(taken[is_new], speeds[is_new])
        if isinstance(self._v_max, str):
            tree.change_speeds(taken, speeds)
        if self._tree is None:
            tree.rebuild()
        self._tree, reports.taken = tree, reports.rows

    def _tree_with_room(self, slots: int) -> VelocityTree:
        """Return the tree, or a new one, with room for these slots."""
        if slots > len(self._x):
            more = slots + slots // 4 - len(self._x)
            self._x, self._y, self._seen = (
                np.concatenate([values, np.full(more, fill)])
                for values, fill in (
                    (self._x, np.nan),
                    (self._y, np.nan),
                    (self._seen, -np.inf),
                )
            )
            if self._tree is not None:
                self._tree.share(self._x, self._y, self._seen)
        return self._tree or VelocityTree(self._x, self._y, self._seen)

    def _read_places(
        self, columns: dict[str, pa.ChunkedArray], axis: int, rows: np.ndarray
    ) -> np.ndarray | None:
        """Return a coordinate of some rows; None if it is no plain number.

        It is infinite where it is null, so that a box without an end there has the object.
        """
        column = columns.get(self._position[axis])
        if column is None or t.is_null(column.type):
            return np.full(len(rows), np.inf)
        if not (t.is_integer(column.type) or t.is_floating(column.type)):
            return None
        values = _to_floats(column)[rows]
        return np.where(np.isnan(values), np.inf, values)

    def _read_speeds(self, columns: dict[str, pa.ChunkedArray], rows: np.ndarray) -> np.ndarray:
        """Return the v_max of some rows, NaN where it is not known."""
        if not isinstance(self._v_max, str):
            return np.full(len(rows), self._v_max, np.float64)
        column = columns.get(self._v_max.lower())
        if column is None or not (t.is_integer(column.type) or t.is_floating(column.type)):
            return np.full(len(rows), np.nan)
        speeds = _to_floats(column)[rows]
        return np.where((speeds >= 0) & (speeds < _LARGEST_SPEED), speeds, np.nan)

    # ------------------------------------------------------------ boxes

    def _boxes_of(self, rules: Version) -> list[Box] | None:
        """Return boxes that have all positions for which rules hold; None if there are none."""
        boxes = []
        for live in rules.segments:
            for part in live.segment.parts:
                for number in range(part.conjunctions.size):
                    box = self._box_of(part.conjunctions, number, rules)
                    if box is None:
                        return None
                    boxes.append(box)
        return boxes

    def _box_of(self, c: Conjunctions, number: int, rules: Version) -> Box | None:
        box = [-np.inf, -np.inf, np.inf, np.inf]
        is_found = False
        for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
            a, low, high = int(c.attribute[row]), int(c.low[row]), int(c.high[row])
            name, kind = rules.attributes.name(a).lower(), rules.attributes.kind(a)
            is_term = a in rules.attributes.terms
            if c.kind[row] != INTERVAL or low == NULL or is_term or name not in self._position:
                continue
            axis = self._position.index(name)
            if kind == "number":
                box[axis], box[axis + 2] = number_value(low), number_value(high)
            elif kind == "integer":
                box[axis], box[axis + 2] = float(integer_value(low)), float(integer_value(high))
            else:
                continue
            if box[axis] != box[axis]:  # NaN is where numbers begin or end
                box[axis] = -np.inf
            if box[axis + 2] != box[axis + 2]:
                box[axis + 2] = np.inf
            is_found = True
        return (box[0], box[1], box[2], box[3]) if is_found else None


def estimate_cost(answer: Answer) -> float:
    """Return the nanoseconds that a search like the one with this answer takes."""
    tested = TEST * PAGE * answer.visited[0] if answer.visited else 0.0
    return SEARCH + tested + LOOK_UP * (answer.checked + answer.scanned)


def _to_floats(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as floats, NaN where they are null; rounding keeps their order."""
    return column.cast(pa.float64(), safe=False).to_numpy()


def _to_seconds(times: np.ndarray, time_type: pa.DataType | None) -> np.ndarray:
    """Return times as floats: seconds, or numbers as they are."""
    if time_type is not None and t.is_timestamp(time_type):
        return times / _IN_A_SECOND[time_type.unit]
    if time_type is not None and t.is_floating(time_type):
        return to_times(times, time_type).to_numpy()
    return times.astype(np.float64)
