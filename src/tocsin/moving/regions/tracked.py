"""The regions of all objects: where each may be silent, and who must report.

A region is computed from an object's last row of an update, if that row was looked up. It stays
while the object is in it, whatever its other attributes are: where it ends depends on positions
alone. With a margin it also depends on the fences that the object is in, and so is computed anew
with each row that is looked up. A fence that arrives shrinks the regions that it cuts, and their
objects are asked; one that leaves changes nothing until an object leaves its region.

An object takes 57 bytes. A row costs a comparison with one region, and if other attributes matter
to it, those of the object's last report are read. A region costs a search of the fences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.version import Version
from tocsin.errors import MonitorError
from tocsin.jit import freeze, freeze_fields
from tocsin.model.conjunctions import expand_ranges
from tocsin.model.encoding import NULL, integer_value
from tocsin.model.event_tables import add_missing
from tocsin.model.events import Events
from tocsin.model.keys import Keys, key_column
from tocsin.moving.judging import Holding, list_changed_stays, to_holding
from tocsin.moving.objects import (
    CONFIRMED,
    COUNT,
    POSITION,
    ROW,
    RULE,
    START,
    STAY,
    WORDS,
    Objects,
)
from tocsin.moving.options import MonitorOptions
from tocsin.moving.positions import Positions, order_rows
from tocsin.moving.regions.boxes import SHARED, Columns, fences_of, select_fences
from tocsin.moving.regions.distance import NO_EXCEPTIONS, Exceptions, find_distances
from tocsin.moving.regions.layout import Fences, line_of, values_of_keys
from tocsin.moving.regions.rectangle import AREA, PERIMETER, find_rectangles
from tocsin.moving.regions.region import (
    REGION_TYPE,
    SafeDistance,
    SafeRectangle,
    SafeRegion,
    SafeSphere,
    to_struct,
)
from tocsin.moving.regions.shapes import (
    ASKED,
    AT_X,
    AT_Y,
    CENTER_X,
    CENTER_Y,
    DIST,
    IGNORED,
    INSIDE,
    NO_REGION,
    OUTSIDE,
    RADIUS,
    RECT,
    SAFE,
    SHAPE,
    SPHERE,
    UNCHANGED,
    find_undecided,
    forget_regions,
    judge_rows,
    shrink_regions,
    widen_boxes,
)
from tocsin.moving.reports import Reports
from tocsin.moving.rule_changes import Changes
from tocsin.moving.transitions import CHANGED, MOVED, REPLACES, UNDECIDED
from tocsin.moving.widening import FLOAT, INTEGER

_KINDS = {"dist": DIST, "sphere": SPHERE, "rect": RECT}
_MEASURES = {"area": AREA, "perimeter": PERIMETER}
# The columns in which regions are saved.
COLUMNS = pa.schema(
    [
        ("region", pa.uint8()),
        ("fixed", pa.uint64()),
        *((f"region_{word}", pa.int64()) for word in range(SHAPE)),
    ]
)
COUNTERS = ("reports_saved", "index_visits_saved", "regions_computed")

_NO_SLOTS = np.empty(0, np.int32)


class Cuts(NamedTuple):
    """What new and changed fences do to regions."""

    fences: Fences  # these fences
    slots: np.ndarray  # int32, objects to ask
    undecided: np.ndarray  # int64, slot << 32 | rule, ascending
    forgotten: np.ndarray  # int32, objects whose regions are none from now on


class JudgedRows(NamedTuple):
    """What becomes of n rows."""

    x: np.ndarray  # int64 keys, null where a value is known as a range
    y: np.ndarray
    verdict: np.ndarray  # uint8
    left: np.ndarray  # float64, the distance that is left

    @property
    def visits(self) -> np.ndarray:
        """The rows to look up in the index."""
        return np.flatnonzero((self.verdict == OUTSIDE) | (self.verdict == INSIDE))


class Regions:
    """The regions of a monitor's objects, by slot; see `shapes`."""

    def __init__(self, options: MonitorOptions):
        assert options.safe_regions is not None
        self._options = options
        self._kind = _KINDS[options.safe_regions]
        self.status = np.zeros(0, np.uint8)
        self.fixed = np.zeros(0, np.uint64)
        self.shape = np.zeros(0, np.int64)
        # What the bits of `fixed` are: an attribute as SQL, and the columns that it is made of.
        self.names: list[tuple[str, tuple[str, ...]]] = []
        self.kinds: tuple[int, int] | None = None  # of positions
        self._version: Version | None = None
        self._columns: Columns | None = None
        self._fences: tuple[Version, Fences, np.ndarray] | None = None

    @property
    def has_shapes(self) -> bool:
        """Whether a region stays as it is when the object enters or leaves a fence."""
        return not self._options.has_margin

    def attach(self, version: Version, kinds: tuple[int, int]) -> np.ndarray:
        """Take the rules as they are now; other rules may number attributes differently.

        Return the slots of objects whose region is another, or described otherwise.
        """
        changed = np.empty(0, np.int32)
        if version is self._version:
            return changed
        x, y = (name.lower() for name in self._options.position)
        key, time = self._options.key.lower(), self._options.time.lower()
        self._columns = Columns(x, y, time, key, kinds)
        names = _names_of(version, {x, y, time, key})
        if self.names[:SHARED] != names[: min(SHARED, len(self.names))]:
            changed = np.flatnonzero(self.fixed).astype(np.int32)
            self._renumber(names)
        if self.kinds not in (None, kinds):
            changed = np.flatnonzero(self.status).astype(np.int32)
            self._forget(changed, ASKED)
        self.names, self.kinds, self._version = names, kinds, version
        return changed

    def _renumber(self, names: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Give attributes that are fixed their new bits; ask where these are not clear."""
        places: dict[str, list[int]] = {}
        for bit, (sql, _) in enumerate(names):
            places.setdefault(sql.lower(), []).append(bit)
        fixed, is_unclear = np.zeros_like(self.fixed), np.zeros(len(self.fixed), bool)
        for bit, (sql, _) in enumerate(self.names):
            has_bit = (self.fixed >> np.uint64(bit)) & np.uint64(1) != 0
            found = places.get(sql.lower(), [])
            if bit == SHARED or len(found) > 1:
                is_unclear |= has_bit
            elif found:
                fixed[has_bit] |= np.uint64(1) << np.uint64(found[0])
        self.fixed = fixed
        self._forget(np.flatnonzero(is_unclear & (self.status != NO_REGION)), ASKED)

    def _forget(self, slots: np.ndarray, status: int) -> None:
        self.status[slots] = status
        self.fixed[slots] = 0
        forget_regions(slots.astype(np.int32), self.shape)

    def forget(self, slots: np.ndarray) -> None:
        """Forget objects, which have other slots or none from now on."""
        self.status[slots[slots < len(self.status)]] = NO_REGION

    def reserve(self, slots: int) -> None:
        """Make room for the regions of as many objects."""
        if slots > len(self.status):
            size = slots + slots // 2
            for name, words in (("status", 1), ("fixed", 1), ("shape", SHAPE)):
                array = getattr(self, name)
                larger = np.zeros(size * words, array.dtype)
                larger[: len(array)] = array
                setattr(self, name, larger)

    def fences(self, version: Version) -> tuple[Fences, np.ndarray]:
        """Return the fences of a version, and the order of their boxes by rule."""
        if self._fences is None or self._fences[0] is not version:
            assert self._columns is not None
            fences = fences_of(version, self._columns)
            order = np.empty(0, np.int64)
            if self._options.has_margin:
                order = np.argsort(fences.rule, kind="stable")
            self._fences = version, fences, order
        return self._fences[1:]

    # ------------------------------------------------------------ rules

    def find_cuts(
        self, changes: Changes, version: Version, objects: Objects, margin: np.ndarray | None
    ) -> Cuts:
        """Return which regions new fences cut; nothing changes yet. `margin` is of rules."""
        assert self._columns is not None
        is_wanted = np.zeros(version.next_position + 1, bool)
        is_wanted[changes.added] = is_wanted[changes.changed] = True
        fences = select_fences(version, self._columns, is_wanted)
        slots = np.flatnonzero(self.status[: objects.slots]).astype(np.int32)
        exceptions, forgotten = NO_EXCEPTIONS, _NO_SLOTS
        if margin is not None:
            members, rules = _list_members(objects, changes, changes.verdicts)
            places = np.searchsorted(slots, members)
            order = np.argsort(fences.rule, kind="stable")
            has_region = self.status[members] != NO_REGION
            exceptions = _widen(
                fences, order, margin, len(slots), places[has_region], rules[has_region]
            )
            if self._options.margin_column is not None:  # the payload may have changed
                moved = np.where(changes.verdicts == MOVED, CHANGED, 0).astype(np.uint8)
                forgotten = np.unique(_list_members(objects, changes, moved)[0])
                forgotten = forgotten[self.status[forgotten] != NO_REGION]
        room = len(slots) + 1024
        while True:
            out_slots, out_rules = np.empty(room, np.int32), np.empty(room, np.int32)
            n = find_undecided(
                fences, exceptions, self._kind, slots, self.shape, self.fixed, out_slots, out_rules
            )
            if n <= room:
                break
            room = n
        undecided = np.unique(_pairs(out_slots[:n], out_rules[:n]))
        asked = (undecided >> 32).astype(np.int32)
        if margin is not None:
            # What is left of their regions depends on the widened edges of the fences they are in.
            forgotten = np.union1d(forgotten, np.intersect1d(asked, members))
        asked = np.union1d(asked, forgotten)
        return Cuts(fences, asked.astype(np.int32), undecided, forgotten.astype(np.int32))

    def leave_undecided(
        self, holding: Holding, cuts: Cuts, changes: Changes, objects: Objects
    ) -> Holding:
        """Return what holds, without what is not known: of objects to ask, and of some asked now.

        Who is in a rule that has changed stays in it.
        """
        slots = np.repeat(holding.slots, np.diff(holding.offsets))
        decided = self._is_decided(slots, holding.rules & POSITION, cuts)
        members, rules = _list_members(objects, changes, changes.verdicts)
        stays = ~self._is_decided(members, rules, cuts)
        return to_holding(
            np.concatenate([slots[decided], members[stays]]),
            np.concatenate([holding.rules[decided], rules[stays] | UNDECIDED | REPLACES]),
        )

    def _is_decided(self, slots: np.ndarray, rules: np.ndarray, cuts: Cuts) -> np.ndarray:
        return (self.status[slots] != ASKED) & ~np.isin(_pairs(slots, rules), cuts.undecided)

    def apply(self, cuts: Cuts, version: Version) -> None:
        """Shrink the regions that are cut; their objects are to be asked."""
        if not len(cuts.slots):
            return
        hull = self.fences(version)[0].hull
        shrink_regions(cuts.fences, self._kind, cuts.slots, hull, self.shape, self.fixed)
        self.status[cuts.slots] = ASKED
        self._forget(cuts.forgotten, ASKED)

    # ------------------------------------------------------------ rows

    def judge(
        self,
        positions: Positions,
        version: Version,
        objects: Objects | None,
        reports: Reports,
        cuts: Cuts | None,
    ) -> JudgedRows:
        """Return what becomes of rows; nothing changes yet."""
        x, y = self._read_positions(positions.reports, version)
        n = len(x)
        verdict = np.where(positions.is_valid != 0, OUTSIDE, IGNORED).astype(np.uint8)
        judged = JudgedRows(x, y, verdict, np.zeros(n))
        if objects is None:
            return judged
        slots = objects.find(positions.keys)
        status = self.status.copy()
        if cuts is not None:
            status[cuts.slots] = NO_REGION
        rows = np.flatnonzero((positions.is_valid != 0) & (slots >= 0))
        rows = rows[status[slots[rows]] != NO_REGION].astype(np.int32)
        if not len(rows):
            return judged
        order = order_rows(positions, slots, rows)
        is_same = self._compare_fixed(rows, slots, positions.reports, version, objects, reports)
        judge_rows(
            self._kind, np.array(self.kinds, np.uint8), objects.records, status, self.shape, order,
            slots, positions.times, positions.removed, x, y, is_same, verdict, judged.left,
        )  # fmt: skip
        return judged

    def _read_positions(self, table: pa.Table, version: Version) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of positions, null for a row that has a range anywhere."""
        axes = [version.attributes.index(name) for name in self._options.position]
        keys = _read_keys(table, version, {*axes, *version.tested_attributes()})
        x, y = (key_column(keys, a) for a in axes)
        if keys.has_ranges:
            columns, sparse = keys.highs
            is_range = (keys.columns != columns).any(axis=0)
            if len(keys.offsets):
                wide = np.flatnonzero(keys.key != sparse)
                is_range[np.searchsorted(keys.offsets, wide, side="right") - 1] = True
            x = np.where(is_range, NULL, x)
        return x, y

    def _compare_fixed(
        self,
        rows: np.ndarray,
        slots: np.ndarray,
        table: pa.Table,
        version: Version,
        objects: Objects,
        reports: Reports,
    ) -> np.ndarray:
        """Return for each row whether what is fixed for its object is as in the last report."""
        is_same = np.ones(len(slots), np.uint8)
        fixed = self.fixed[slots[rows]]
        rows, fixed = rows[fixed != 0], fixed[fixed != 0]
        if not len(rows):
            return is_same
        union = int(np.bitwise_or.reduce(fixed))
        tested = version.tested_attributes()
        chosen = [a for a in tested if union >> min(a, SHARED) & 1]
        last = objects.records.reshape(-1, WORDS)[slots[rows], ROW]
        new = _read_keys(table.take(pa.array(rows)), version, chosen)
        for old_table, places in reports.take(last):
            old = _read_keys(old_table, version, chosen)
            for a in chosen:
                differs = key_column(old, a) != key_column(new, a)[places]
                differs &= fixed[places] >> np.uint64(min(a, SHARED)) & np.uint64(1) != 0
                is_same[rows[places[differs]]] = 0
        return is_same

    def settle(
        self,
        slots: np.ndarray,
        rows: np.ndarray,
        judged: JudgedRows,
        version: Version,
        objects: Objects,
        margin: np.ndarray | None,
    ) -> np.ndarray:
        """Give objects the regions of their last rows; return the slots of those computed."""
        verdict = judged.verdict[rows]
        is_kept = verdict == UNCHANGED
        if self.has_shapes:
            is_kept |= verdict == INSIDE
        if self._kind == DIST:
            is_kept &= judged.left[rows] > 0
        shape = self.shape.reshape(-1, SHAPE)
        kept, own = slots[is_kept], rows[is_kept]
        self.status[kept] = SAFE
        if self._kind == RECT:
            shape[kept, AT_X], shape[kept, AT_Y] = judged.x[own], judged.y[own]
        elif self._kind == DIST:
            shape[kept, CENTER_X], shape[kept, CENTER_Y] = judged.x[own], judged.y[own]
            shape[kept, RADIUS] = judged.left[own].view(np.int64)
        new, own = slots[~is_kept], rows[~is_kept]
        if len(new):
            self._compute(new, judged.x[own], judged.y[own], version, objects, margin)
        return new

    def _compute(
        self,
        slots: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        version: Version,
        objects: Objects,
        margin: np.ndarray | None,
    ) -> None:
        fences, order = self.fences(version)
        exceptions = NO_EXCEPTIONS
        if margin is not None:
            owners, rules = _stays_of(objects, slots)
            exceptions = _widen(fences, order, margin, len(slots), owners, rules)
        shape = np.zeros((len(slots), SHAPE), np.int64)
        reach = self._options.rect_reach
        if self._kind != RECT or reach is not None:
            distances = find_distances(fences, x, y, exceptions)
        if self._kind == RECT:
            by = _MEASURES[self._options.rect_by]
            limits = {}
            if reach is not None:
                with np.errstate(over="ignore"):
                    limits["reach"] = reach * distances.distance
            found = find_rectangles(fences, x, y, by, exceptions=exceptions, **limits)
            shape[:, :4], shape[:, AT_X], shape[:, AT_Y] = found.bound, x, y
            is_region, others = found.bound[:, 0] <= found.bound[:, 1], found.others
        else:
            shape[:, CENTER_X], shape[:, CENTER_Y] = x, y
            shape[:, RADIUS] = distances.distance.view(np.int64)
            is_region, others = distances.distance > 0, distances.others
        self.shape.reshape(-1, SHAPE)[slots] = shape
        self.fixed[slots], self.status[slots] = others, SAFE
        self._forget(slots[~is_region], NO_REGION)

    # ------------------------------------------------------------ save

    def columns(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Return the regions of objects as columns of `COLUMNS`."""
        shape = self.shape.reshape(-1, SHAPE)[slots]
        words = {f"region_{word}": shape[:, word] for word in range(SHAPE)}
        return {"region": self.status[slots], "fixed": self.fixed[slots]} | words

    def describe(self) -> dict[str, Any]:
        """Return what the columns mean, as values that JSON has."""
        return {"names": self.names, "kinds": self.kinds}

    def restore(self, meaning: dict[str, Any], columns: dict[str, np.ndarray]) -> None:
        """Take regions that were saved, of objects at the first slots; raise if there are none."""
        self.names = [(str(sql), tuple(map(str, own))) for sql, own in meaning["names"]]
        status, fixed = columns["region"], columns["fixed"]
        if meaning["kinds"] is not None:
            x, y = meaning["kinds"]
            self.kinds = x, y
        is_known = self.kinds is None or set(self.kinds) <= {INTEGER, FLOAT}
        known_bits = np.uint64((1 << min(len(self.names), 64)) - 1)
        if not is_known or len(self.names) > SHARED + 1 or (self.kinds is None and status.any()):
            raise MonitorError("what the regions mean is not known")
        if (status > ASKED).any() or (fixed & ~known_bits).any():
            raise MonitorError("a region is of no kind that there is")
        self.reserve(len(status))
        self.status[: len(status)], self.fixed[: len(status)] = status, fixed
        words = np.stack([columns[f"region_{word}"] for word in range(SHAPE)], axis=1)
        if self._kind != RECT and np.isnan(words[:, RADIUS].copy().view(np.float64)).any():
            raise MonitorError("a radius is no number")
        self.shape[: words.size] = words.ravel()

    # ------------------------------------------------------------ look

    def region_of(self, slot: int) -> SafeRegion | None:
        """Return the region of the object at a slot."""
        words = self.shape[slot * SHAPE : (slot + 1) * SHAPE]
        if self.status[slot] == NO_REGION:
            return None
        assert self.kinds is not None
        bits = int(self.fixed[slot])
        columns = [c for bit, (_, own) in enumerate(self.names) if bits >> bit & 1 for c in own]
        fixed = tuple(dict.fromkeys(columns))
        if self._kind == RECT:
            low_x, high_x, low_y, high_y = words[:4].tolist()
            if low_x > high_x:
                return None
            (x, last_x), (y, last_y) = (
                (_value(low, kind), _value(high, kind))
                for low, high, kind in zip((low_x, low_y), (high_x, high_y), self.kinds)
            )
            return SafeRectangle((x, y, last_x, last_y), fixed)
        distance = float(words[RADIUS : RADIUS + 1].view(np.float64)[0])
        if not distance > 0:
            return None
        if self._kind == DIST:
            return SafeDistance(distance, fixed)
        center = [_value(int(w), k) for w, k in zip(words[:2], self.kinds)]
        return SafeSphere((center[0], center[1]), distance, fixed)

    def to_arrow(self, slots: np.ndarray, is_wanted: np.ndarray) -> pa.Array:
        """Return the regions of slots as a column, null where they are not wanted."""
        regions = [
            to_struct(self.region_of(slot)) if wanted else None
            for slot, wanted in zip(slots.tolist(), is_wanted.tolist(), strict=True)
        ]
        return pa.array(regions, REGION_TYPE)

    def asked(self, slots: np.ndarray) -> np.ndarray:
        """Return which of these slots are those of objects to ask, in the same order."""
        return slots[self.status[slots] == ASKED]

    @property
    def nbytes(self) -> int:
        """Bytes of the regions, without the fences."""
        return self.status.nbytes + self.fixed.nbytes + self.shape.nbytes


def _value(key: int, kind: int) -> int | float:
    low, high = line_of(kind)
    if key <= low or key >= high:
        return -np.inf if key <= low else np.inf
    return integer_value(key) if kind == INTEGER else float(values_of_keys(np.array(key), kind))


def _pairs(slots: np.ndarray, rules: np.ndarray) -> np.ndarray:
    pairs: np.ndarray = (slots.astype(np.int64) << 32) | rules
    return pairs


def _names_of(version: Version, own: set[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return what bits are: attributes, and one for all from `SHARED` on."""
    attributes, count = version.attributes, version.attribute_count
    names = []
    for a in range(min(count, SHARED)):
        columns = [name for name in attributes.columns_of([a]) if name.lower() not in own]
        names.append((attributes.sql(a), tuple(columns)))
    if count > SHARED:
        tested = [a for a in version.tested_attributes() if a >= SHARED]
        columns = [n for n in attributes.columns_of(tested) if n.lower() not in own]
        names.append(("", tuple(columns)))
    return names


def _read_keys(table: pa.Table, version: Version, attributes: Any) -> Keys:
    used = {a: i for i, a in enumerate(sorted(attributes))}
    table = add_missing(table, version.attributes.columns_of(used))
    events = Events.read(table, version.attributes, used, version.categories)
    return events.keys(0, len(events))


# ------------------------------------------------------------ members of fences


def _list_members(
    objects: Objects, changes: Changes, verdicts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return slots, ascending, and the new positions of changed rules that objects are in."""
    slots = np.empty(objects.pool_end // STAY, np.int32)
    rules = np.empty(len(slots), np.int64)
    n = list_changed_stays(objects.records, objects.pool, objects.slots, verdicts, slots, rules)
    slots, new = slots[:n], changes.new_position[rules[:n]].astype(np.int64)
    order = np.lexsort((new, slots))
    return slots[order], new[order]


def _stays_of(objects: Objects, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of an index into slots and a rule that its object is in."""
    records = objects.records.reshape(-1, WORDS)[slots]
    first, count = records[:, START] // STAY, records[:, COUNT]
    pool = objects.pool[: len(objects.pool) // STAY * STAY].reshape(-1, STAY)
    words = pool[expand_ranges(first, first + count), RULE]
    owners = np.repeat(np.arange(len(slots)), count)
    is_inside = words & CONFIRMED != 0
    return owners[is_inside], words[is_inside] & POSITION


def _widen(
    fences: Fences,
    order: np.ndarray,
    margin: np.ndarray,
    n: int,
    owners: np.ndarray,
    rules: np.ndarray,
) -> Exceptions:
    """Return the widened boxes of rules that objects are in; pairs are ascending."""
    by_rule = fences.rule[order]
    rules = rules.astype(np.int32)
    first, stop = (np.searchsorted(by_rule, rules, side) for side in ("left", "right"))
    boxes = order[expand_ranges(first, stop)]
    rule = freeze(fences.rule[boxes], np.int32)
    bound = fences.bound.reshape(-1, 4)[boxes].ravel()
    widened = np.empty_like(bound)
    widen_boxes(fences.kinds, freeze(margin, np.float64), bound, rule, widened)
    counts = np.bincount(np.repeat(owners, stop - first), minlength=n)
    skipped = np.bincount(owners, minlength=n)
    return freeze_fields(
        Exceptions,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        bound=widened,
        others=fences.others[boxes],
        restless=fences.restless[boxes],
        rule=rule,
        skipped=np.concatenate([[0], np.cumsum(skipped)]),
        rules=rules,
    )
