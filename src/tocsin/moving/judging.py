"""What changed rules hold for: a new rule is judged by the last reports of all objects.

Few rules are searched as a scan of the log: of each conjunction the interval of one number is
compared with a column as it lies in memory, which finds candidates, and the rules are matched with
these. With a velocity constrained index, only what is not in it is scanned (`velocity_search.py`).
Many rules are matched with all reports, through the index that they have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.merging import exhaustive_segment
from tocsin.engine.segment import LiveSegment, none_removed
from tocsin.engine.version import Version
from tocsin.jit import Float64s, Int32Out, Int64Out, Int64s, UInt8s, kernel
from tocsin.model.conjunctions import Conjunctions, take
from tocsin.model.encoding import NULL, integer_value, number_value
from tocsin.model.event_tables import add_missing
from tocsin.model.events import Events
from tocsin.model.predicates import INTERVAL
from tocsin.moving.objects import CONFIRMED, COUNT, POSITION, ROW, RULE, START, STAY, WORDS, Objects
from tocsin.moving.reports import Reports
from tocsin.moving.rule_changes import Changes
from tocsin.moving.transitions import CHANGED, REPLACES, WIDE
from tocsin.moving.velocity_search import VelocitySearch
from tocsin.moving.widening import Widened, keep_widened

_FEW = 64  # rules that are searched by a scan; chosen: it takes about 1.5 ns a rule and object


class Holding(NamedTuple):
    """The rules that hold for objects, of those that changed or were added."""

    slots: np.ndarray  # int32, ascending
    offsets: np.ndarray  # int64
    rules: np.ndarray  # int64, positions with flags, ascending for each slot


def find_holding(
    changes: Changes,
    version: Version,
    objects: Objects,
    reports: Reports,
    widened: Widened | None,
    search: VelocitySearch | None = None,
    time_type: pa.DataType | None = None,
) -> Holding:
    """Return which objects changed and added rules hold for, by their last reports."""
    wanted = np.union1d(changes.added, changes.changed).astype(np.int32)
    chosen, proposed = version, None
    if len(wanted) and len(wanted) <= _FEW:
        chosen = _select_rules(version, wanted)
        if search is not None:
            proposed = search.find_rows(chosen, objects, reports, time_type)
    elif search is not None:
        search.by_match += len(wanted)
    slots, rules = _match_reports(wanted, chosen, reports, proposed)
    found = rules.astype(np.int64)
    found[np.isin(rules, changes.changed)] |= REPLACES
    if widened is not None and len(changes.changed):
        wide_slots, wide = _find_wide(changes, version, objects, reports, widened, slots, rules)
        slots, found = np.concatenate([slots, wide_slots]), np.concatenate([found, wide])
    return to_holding(slots, found)


def to_holding(slots: np.ndarray, found: np.ndarray) -> Holding:
    """Return pairs of a slot and the position of a rule, with flags, in order."""
    order = np.lexsort((found & POSITION, slots))
    slots, found = slots[order], found[order]
    distinct, counts = np.unique(slots, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Holding(distinct.astype(np.int32), offsets, found)


def _match_reports(
    wanted: np.ndarray, rules: Version, reports: Reports, proposed: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of a slot and the position of a wanted rule that its last report matches.

    `rules` are all, or the few that are wanted. `proposed` are rows of the log, if an index has
    found all that may match of those that it has taken in.
    """
    slots, found = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    is_few = len(wanted) <= _FEW
    start = 0
    for table, own_slots, is_last in reports.tables() if len(wanted) else ():
        rows = np.flatnonzero(is_last)
        if is_few:
            first = 0
            own = np.empty(0, np.int64)
            if proposed is not None:
                first = min(max(0, reports.taken - start), table.num_rows)
                own = proposed[(proposed >= start) & (proposed < start + first)] - start
            rows = first + find_candidates(rules, table.slice(first), is_last[first:])
            rows = np.concatenate([own, rows])
        start += table.num_rows
        if not len(rows):
            continue
        part = table if len(rows) == table.num_rows else table.take(pa.array(rows))
        part = add_missing(part, rules.tested())
        matches = rules.match(part)
        keep = slice(None) if is_few else np.isin(matches.rules, wanted)
        slots.append(own_slots[rows[matches.events]][keep])
        found.append(matches.rules[keep])
    return np.concatenate(slots), np.concatenate(found)


def _select_rules(version: Version, positions: np.ndarray) -> Version:
    """Return a version with only the rules at these positions, searched exhaustively."""
    segments = []
    for live in version.segments:
        segment = live.segment
        places = np.searchsorted(segment.positions, positions)
        places = places[places < len(segment)]
        places = places[np.isin(segment.positions[places], positions)]
        if not len(places):
            continue
        keep = np.zeros(len(segment), bool)
        keep[places] = True
        numbers = segment.positions[keep]
        metadata = segment.metadata.select(keep)
        parts = [part.conjunctions for part in segment.parts]
        chosen = [take(c, np.flatnonzero(np.isin(c.rule, numbers))) for c in parts]
        for c in [c for c in chosen if c.size] or chosen[:1]:
            own = np.isin(numbers, c.rule) if c.size else np.ones(len(numbers), bool)
            each = exhaustive_segment(metadata.select(own), c)
            segments.append(LiveSegment("recent", each, none_removed(each)))
    return replace(version, segments=tuple(segments))


# ------------------------------------------------------------ the scan


def find_candidates(rules: Version, table: pa.Table, is_last: np.ndarray) -> np.ndarray:
    """Return the rows, of those that are the last of their objects, that may match."""
    columns = {
        name.lower(): column.chunk(0)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.num_chunks == 1 and (t.is_float64(column.type) or t.is_int64(column.type))
    }
    found = []
    for live in rules.segments:
        for part in live.segment.parts:
            c = part.conjunctions
            for number in range(c.size):
                rows = _scan(c, number, rules, columns, is_last)
                if rows is None:
                    return np.flatnonzero(is_last)
                found.append(rows)
    if len(found) == 1:
        return found[0]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _scan(
    c: Conjunctions,
    number: int,
    rules: Version,
    columns: dict[str, pa.Array],
    is_last: np.ndarray,
) -> np.ndarray | None:
    """Return rows where the intervals of a conjunction over plain numbers hold; None: no such."""
    rows: np.ndarray | None = None
    for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
        a, low, high = int(c.attribute[row]), int(c.low[row]), int(c.high[row])
        column = columns.get(rules.attributes.name(a).lower())
        kind = rules.attributes.kind(a)
        if c.kind[row] != INTERVAL or low == NULL or column is None or a in rules.attributes.terms:
            continue
        values: np.ndarray
        if kind == "number" and t.is_float64(column.type):
            values = np.frombuffer(column.buffers()[1], np.float64)[column.offset :][: len(column)]
            ends: tuple[float, float] = number_value(low), number_value(high)
        elif kind == "integer" and t.is_int64(column.type):
            values = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column)]
            ends = integer_value(low), min(integer_value(high), 2**63 - 1)
        else:
            continue
        # NaN, and what is null, is found as well.
        if rows is not None:
            own = values[rows]
            rows = rows[~(own < ends[0]) & ~(own > ends[1])]
        elif kind == "number":
            rows = np.empty(len(values), np.int64)
            rows = rows[: scan_floats(values, *ends, is_last.view(np.uint8), rows)]
        else:
            rows = np.flatnonzero((values >= ends[0]) & (values <= ends[1]) & is_last)
    return rows


@kernel
def scan_floats(values: Float64s, low: float, high: float, is_last: UInt8s, out: Int64Out) -> int:
    """Write the rows whose value is not outside of an interval; return how many."""
    found = 0
    for row in range(values.shape[0]):
        out[found] = row
        found += (is_last[row] != 0) & (not values[row] < low) & (not values[row] > high)
    return found


# ------------------------------------------------------------ margins


def _find_wide(
    changes: Changes,
    version: Version,
    objects: Objects,
    reports: Reports,
    widened: Widened,
    slots: np.ndarray,
    rules: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return objects in a changed rule for which it holds only when it is widened."""
    out_slots = np.empty(objects.pool_end // STAY, np.int32)
    out_rules = np.empty(len(out_slots), np.int64)
    n = list_changed_stays(
        objects.records, objects.pool, objects.slots, changes.verdicts, out_slots, out_rules
    )
    members, new = (
        out_slots[:n].astype(np.int64),
        changes.new_position[out_rules[:n]].astype(np.int64),
    )
    is_wide = ~np.isin(members * 2**32 + new, slots.astype(np.int64) * 2**32 + rules)
    members, new = members[is_wide], new[is_wide]
    holds = np.zeros(len(members), np.uint8)
    rows = objects.records.reshape(-1, WORDS)[members, ROW]
    attributes = {a: i for i, a in enumerate(version.tested_attributes())}
    for table, places in reports.take(rows):
        table = add_missing(table, version.tested())
        events = Events.read(table, version.attributes, attributes, version.categories)
        out = np.zeros(len(places), np.uint8)
        keep_widened(widened, events.keys(0, len(places)), np.arange(len(places)), new[places], out)
        holds[places] = out
    return members[holds != 0].astype(np.int32), new[holds != 0] | WIDE | REPLACES


@kernel
def list_changed_stays(
    records: Int64s, pool: Int64s, slots: int, verdicts: UInt8s, out: Int32Out, rules: Int64Out
) -> int:
    """Write the slots and rules of those who are in a rule that changed; return how many."""
    found = 0
    for slot in range(slots):
        start = records[slot * WORDS + START]
        for i in range(records[slot * WORDS + COUNT]):
            word = pool[start + i * STAY + RULE]
            if verdicts[word & POSITION] == CHANGED and (word & CONFIRMED) != 0:
                out[found] = slot
                rules[found] = word & POSITION
                found += 1
    return found
