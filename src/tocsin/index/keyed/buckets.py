"""Buckets: the entries under a combination of codes, and the tables that find them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.keyed.coding import CodedPredicates, count_cuts
from tocsin.index.keyed.entries import OtherPredicates
from tocsin.index.keyed.key_sets import SET_SIZE, KeySets
from tocsin.index.keyed.layout import ABOVE_ALL, GATES
from tocsin.index.posting_lists import check_entries
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    UInt16Out,
    UInt16s,
    bare_step,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions

_MIN_DIRECT = 1 << 12  # up to so many combinations, a table is direct; chosen: 16 KiB
_DIRECT = 8  # combinations per bucket of a direct table, at most: as large as a hash table
_HASH = 0x9E3779B97F4A7C15  # Fibonacci hashing: 2**64 by the golden ratio


class Buckets(NamedTuple):
    """The e entries of k key sets in q buckets, sorted by set and bucket."""

    conjunction: np.ndarray  # [e]
    bucket: np.ndarray  # [e]
    set_start: np.ndarray  # [k] the first entry of each set
    first: np.ndarray  # [q] the first entry of each bucket


class Tables(NamedTuple):
    """How an event finds its bucket in each key set; see `Layout`."""

    set_attribute: np.ndarray
    set_stride: np.ndarray
    table_start: np.ndarray
    slot_start: np.ndarray
    slot_shift: np.ndarray
    table: np.ndarray
    slot_combination: np.ndarray


class Gates(NamedTuple):
    """What an event must satisfy to find anything in a bucket; see `Layout`."""

    gate_attribute: np.ndarray
    gate: np.ndarray


class PointPredicates(NamedTuple):
    """What combinations are made of, row by row; see `CodedPredicates`."""

    attribute: Int32s
    low: UInt16s
    ways: Int64s
    points: UInt8s
    cut_offsets: Int64s
    cuts: Int64s


@bare_step
def hash_slot(combination, shift):
    """Return the first slot to look at."""
    return np.int64((np.uint64(combination) * np.uint64(_HASH)) >> np.uint64(shift))


def make_buckets(
    c: Conjunctions, coded: CodedPredicates, sets: KeySets, others: OtherPredicates
) -> tuple[Buckets, Tables]:
    """Return the entries of all key sets, and the tables that find their buckets.

    Entries of one bucket are sorted by their second predicate, so that few blocks of a large bucket
    have a lane that passes.
    """
    predicates = freeze_fields(
        PointPredicates, attribute=coded.attribute, low=coded.low, ways=coded.ways,
        points=coded.points, cut_offsets=coded.cut_offsets, cuts=coded.cuts,
    )  # fmt: skip
    alike = _order_of_seconds(others)
    attributes, strides = _number_combinations(sets, coded)
    conjunction, bucket, combination = [], [], []
    sizes = []
    buckets = 0
    for k in range(len(sets.attributes)):
        members = np.flatnonzero(sets.number == k)
        members = members[np.argsort(alike[members], kind="stable")]
        owner, found = _multiply(c, predicates, members, attributes[k], strides[k])
        order = np.argsort(found, kind="stable")
        found = found[order]
        is_first = np.diff(found, prepend=-1) != 0
        conjunction.append(owner[order])
        bucket.append(buckets + np.cumsum(is_first) - 1)
        combination.append(found[is_first])
        sizes.append(len(found))
        buckets += len(combination[-1])
    all_buckets = np.concatenate([*bucket, np.empty(0, np.int64)])
    check_entries(len(all_buckets))
    return (
        Buckets(
            conjunction=np.concatenate([*conjunction, np.empty(0, np.int64)]),
            bucket=all_buckets,
            set_start=np.cumsum([0, *sizes])[:-1],
            first=np.flatnonzero(np.diff(all_buckets, prepend=-1)),
        ),
        _build_tables(attributes, strides, combination, coded),
    )


def find_gates(buckets: Buckets, others: OtherPredicates, no_attribute: int) -> Gates:
    """Return the intervals around the predicates of each bucket, on up to two attributes.

    Most events that find a bucket satisfy none of its ranges, for example if all of them are
    `delay > 75` or more.
    """
    count = len(buckets.first)
    attribute = np.full(GATES * count, no_attribute, np.int32)
    gate = np.tile(np.array([0, ABOVE_ALL], np.uint16), GATES * count)
    ends = np.append(buckets.first, len(buckets.conjunction))
    write_gates(ends, buckets.conjunction, others, attribute, gate)
    return Gates(attribute, gate)


@kernel
def write_gates(
    ends: Int64s,
    conjunction: Int64s,
    others: OtherPredicates,
    gate_attribute: Int32Out,
    gate: UInt16Out,
) -> None:
    """Write the intervals around predicates on attributes that all entries of a bucket test."""
    offsets, attribute, low, high = others.offsets, others.attribute, others.low, others.high
    for bucket in range(ends.shape[0] - 1):
        model = conjunction[ends[bucket]]
        found = 0
        for row in range(offsets[model], offsets[model + 1]):
            if found == GATES:
                break
            least, greatest, common = low[row], high[row], True
            for entry in range(ends[bucket] + 1, ends[bucket + 1]):
                tested = False
                for other in range(offsets[conjunction[entry]], offsets[conjunction[entry] + 1]):
                    if attribute[other] == attribute[row]:
                        least, greatest = min(least, low[other]), max(greatest, high[other])
                        tested = True
                if not tested:
                    common = False
                    break
            if common:
                at = GATES * bucket + found
                gate_attribute[at] = attribute[row]
                gate[2 * at], gate[2 * at + 1] = least, greatest
                found += 1


def _order_of_seconds(others: OtherPredicates) -> np.ndarray:
    """Return a sort key for each conjunction that puts similar second predicates together."""
    tests = np.diff(others.offsets)
    has_second = tests > 0
    at = others.offsets[:-1][has_second]
    alike: np.ndarray = np.zeros(len(tests), np.int64)
    second = (others.attribute[at].astype(np.int64) + 1) << 4 | np.maximum(
        15 - tests[has_second], 0
    )
    alike[has_second] = second << 16 | others.low[at]
    return alike


def _number_combinations(sets: KeySets, coded: CodedPredicates) -> tuple[np.ndarray, np.ndarray]:
    """Return the attributes of each set and the strides of their codes, [k, 3] both."""
    k, none = len(sets.attributes), len(coded.presence)
    attributes: np.ndarray = np.full((k, SET_SIZE), none, np.int64)
    for i, own in enumerate(sets.attributes):
        attributes[i, SET_SIZE - len(own) :] = own
    codes = coded.codes[attributes]
    strides: np.ndarray = np.ones((k, SET_SIZE), np.int64)
    for i in range(SET_SIZE - 2, -1, -1):
        strides[:, i] = strides[:, i + 1] * codes[:, i + 1]
    return attributes, strides


def _multiply(
    c: Conjunctions,
    predicates: PointPredicates,
    members: np.ndarray,
    attributes: np.ndarray,
    strides: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the conjunction and the combination of each entry of a set's members."""
    rows: np.ndarray = np.empty(SET_SIZE * len(members), np.int64)
    entries = find_rows(c, predicates, members, attributes, rows)
    owner, combination = np.empty(entries, np.int64), np.empty(entries, np.int64)
    write_combinations(c, predicates, members, rows, strides, owner, combination)
    return owner, combination


@kernel
def find_rows(
    c: Conjunctions, p: PointPredicates, members: Int64s, attributes: Int64s, rows: Int64Out
) -> int:
    """Write the row of each member on each attribute, -1 for none; return how many entries."""
    offsets, attribute, ways = c.offsets, p.attribute, p.ways
    entries = 0
    for i in range(members.shape[0]):
        product = 1
        for j in range(SET_SIZE):
            rows[SET_SIZE * i + j] = -1
            for row in range(offsets[members[i]], offsets[members[i] + 1]):
                if attribute[row] == attributes[j] and ways[row] > 0:
                    rows[SET_SIZE * i + j] = row
                    product *= ways[row]
        entries += product
    return entries


@step
def nth_code(row, n, low, is_points, first_point, points, attribute, cut_offsets, cuts):
    """Return the n-th code that satisfies the predicate of a row; 0 without a row."""
    if row < 0:
        return np.int64(0)
    if is_points[row] == 0:
        return np.int64(low[row]) + n
    a = attribute[row]
    return np.int64(
        count_cuts(cuts, cut_offsets[a], cut_offsets[a + 1], points[first_point[row] + n])
    )


@kernel
def write_combinations(
    c: Conjunctions,
    p: PointPredicates,
    members: Int64s,
    rows: Int64s,
    strides: Int64s,
    owner: Int64Out,
    combination: Int64Out,
) -> None:
    """Write an entry for each combination of the codes of a member's predicates."""
    first_point, points = c.low, c.points
    attribute, low, ways, is_points = p.attribute, p.low, p.ways, p.points
    cut_offsets, cuts = p.cut_offsets, p.cuts
    at = 0
    for i in range(members.shape[0]):
        x, y, z = rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]
        for j in range(ways[x] if x >= 0 else 1):
            in_x = strides[0] * nth_code(
                x, j, low, is_points, first_point, points, attribute, cut_offsets, cuts
            )
            for k in range(ways[y] if y >= 0 else 1):
                in_y = strides[1] * nth_code(
                    y, k, low, is_points, first_point, points, attribute, cut_offsets, cuts
                )
                for m in range(ways[z] if z >= 0 else 1):
                    in_z = strides[2] * nth_code(
                        z, m, low, is_points, first_point, points, attribute, cut_offsets, cuts
                    )
                    owner[at] = members[i]
                    combination[at] = in_x + in_y + in_z
                    at += 1


def _build_tables(
    attributes: np.ndarray,
    strides: np.ndarray,
    combination: list[np.ndarray],
    coded: CodedPredicates,
) -> Tables:
    """Return a direct table for each set with few combinations, and a hash table for the others."""
    tables, slots = [], []
    slot_start, slot_shift = [], []
    buckets = used_slots = 0
    for k, own in enumerate(combination):
        possible = int(strides[k, 0] * coded.codes[attributes[k, 0]])
        if possible <= max(_MIN_DIRECT, _DIRECT * len(own)):
            table: np.ndarray = np.full(possible, -1, np.int32)
            table[own] = buckets + np.arange(len(own))
            slot_start.append(-1)
            slot_shift.append(0)
        else:
            bits = max(int(2 * len(own) - 1).bit_length(), 1)  # at most half of the slots are used
            table = np.full(1 << bits, -1, np.int32)
            own_slots: np.ndarray = np.zeros(1 << bits, np.int64)
            fill_slots(own, buckets, 64 - bits, table, own_slots)
            slot_start.append(used_slots)
            slot_shift.append(64 - bits)
            slots.append(own_slots)
            used_slots += len(own_slots)
        tables.append(table)
        buckets += len(own)
    table_start = np.cumsum([0, *map(len, tables)])
    check_entries(int(table_start[-1]))
    return Tables(
        set_attribute=attributes.reshape(-1),
        set_stride=strides.reshape(-1),
        table_start=table_start,
        slot_start=np.array(slot_start, np.int64),
        slot_shift=np.array(slot_shift, np.int64),
        table=np.concatenate([*tables, np.empty(0, np.int32)]),
        slot_combination=np.concatenate([*slots, np.empty(0, np.int64)]),
    )


@kernel
def fill_slots(
    combination: Int64s, bucket: int, shift: int, table: Int32Out, slots: Int64Out
) -> None:
    """Put combinations, whose buckets are numbered from `bucket` on, into a hash table."""
    for i in range(combination.shape[0]):
        slot = hash_slot(combination[i], shift)
        while table[slot] >= 0:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot], slots[slot] = bucket + i, combination[i]
