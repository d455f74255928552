"""Keyed: each conjunction filed under one predicate, for rules that test a few of many attributes.

The BE*-tree (`bestar`) in flat form. Its two ideas are kept: an expression is filed under *one*
of its predicates, so an event looks only at what is filed under the attributes that it has; and
among these only at narrow buckets, not at the whole dimension. What the tree grows node by node is
here a sort: by attribute, by the width of the range in powers of four, by its low end. A bucket is
then a stretch of one array, found by bisection. Nothing points anywhere, and nothing can be
inserted: change lives in the engine.

*Codes.* The bounds of all predicates on an attribute cut its line into pieces; a value's code is
the number of cuts up to it. Whether a predicate holds depends on the code alone, so predicates are
pairs of codes, 16 bits each. An absent value has code 0, as null has. Where an attribute has more
than 65,534 cuts some are left out; a predicate whose own bounds are not cuts is left to accept.

*The key* of a conjunction is the predicate that the fewest events should satisfy: rare attributes
and narrow ranges. How often an attribute is present is guessed from how often rules test it; how
often a value is in a range from the share of the codes that the range has. Of a small IN-set each
value is a key, with an entry of its own; an event has one value, so it finds one of them. What
must be null, or may be, is no key; a conjunction without a key is filed under no attribute, and
looked at by every event.

In memory: an entry has its key's two codes, the *second* most telling predicate (attribute and two
codes), the sum of its weights, its id and where its other predicates begin: 26 bytes, in arrays of
their own; then 6 bytes for each other predicate, in the order of the entries, the most telling
first. An event costs a bisection for each value that it has, one for each width under that
attribute, about 1.5 nanoseconds for each entry in the stretch (both predicates are compared
without a branch), and only for those that pass, the rest of their predicates.

*Top-k* (section VI): entries carry the sum of their weights, stretches the greatest of these. An
event goes through its stretches in the order of these bounds, stops when the k-th best so far is
better than any left (the paper's pruning of nodes), and passes over entries whose own bound is
lower (its pruning of leaves), in the same comparison as the two predicates. Bounds are exact if
events have no weights of their own; else they are multiplied with the event's greatest.

When it is slow: wide ranges that all overlap and share their attributes. The stretch is then long,
though what passes the second predicate is less. For boxes over two attributes use `grid`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tocsin.index.accept import holds_within
from tocsin.index.finish import EventWeights, keep, score
from tocsin.index.laid import Laid
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    UInt16Out,
    UInt16s,
    kernel,
    laid,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, blank, load, unload
from tocsin.model.line import HIGHEST, NULL
from tocsin.model.predicates import INTERVAL, NOT_SET, SET

_CODES = 65_534  # cuts of an attribute, and attributes whose predicates can be second or later
_SMALL_SET = 8  # points: each is a key
_WIDTHS = 9  # classes: ranges of less than 4, 16, ... codes
_LOOK, _BISECT = 1.5, 40.0  # nanoseconds: at an entry, and for the two ends of a stretch
_AT_ONCE = 1024  # entries of a stretch that are compared before those that pass are looked at


class Layout(NamedTuple):
    """a attributes, r runs (an attribute's entries of one width), e entries."""

    local: Int32s  # number here of each attribute of the schema, -1 if it is not tested
    cut: Int64s  # [a + 1] cuts of an attribute are cut[i] to cut[i + 1]
    cuts: Int64s
    run: Int32s  # [a + 2] runs of an attribute; the last is of those without a key
    begin: Int32s  # [r + 1] entries of a run
    width: Int32s  # [r] codes from the low to the high end of its widest range
    heaviest: Float64s  # [r] the greatest of its bounds
    low: UInt16s  # [e] the key
    high: UInt16s
    second: UInt16s  # [e] attribute of the second predicate
    second_low: UInt16s
    second_high: UInt16s
    most: Float64s  # [e] the sum of its weights: its score for an event whose weights are 1
    candidate: Int32s  # [e] c, or ~c if predicates are left to accept
    start: Int32s  # [e + 1] where in rows its further predicates are
    rows: UInt16s  # attribute, low, high of each


class Keyed(Laid):
    """Conjunctions filed under their most telling predicate."""

    name: ClassVar[str] = "keyed"

    layout_class = Layout
    takes_ranges = True

    def proves_all(self) -> bool:
        """Tell whether no predicate is left to accept."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """Code all predicates, choose keys, sort."""
        return cls(conjunctions, filed(conjunctions, len(floats)))

    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose what the key, the second and the other coded predicates let through."""
        return propose(self.layout, keys, self.conjunctions.size, first, stop, offsets, out)

    def count(self, keys: Keys, width: int, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        tally(self.layout, keys, counts)

    def best(
        self,
        keys: Keys,
        width: int,
        first: int,
        events: int,
        before: int,
        removed: np.ndarray,
        single: bool,
        weights: EventWeights,
        k: int,
        sizes: np.ndarray,
        rules: np.ndarray,
        scores: np.ndarray,
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best; see `Ranked.best`."""
        seen = np.zeros(2, np.int64)
        rank(
            self.layout, self.conjunctions, removed, single, keys, width, first, events, before,
            weights, k, sizes, rules, scores, seen,
        )  # fmt: skip
        return int(seen[0]), int(seen[1])


# ------------------------------------------------------------ ask


@step
def cuts_up_to(cuts, begin, end, key):
    """Return how many cuts of an attribute, `begin` to `end`, are not above a key."""
    low, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        low += half if cuts[low + half - np.uint64(1)] <= key else np.uint64(0)
        length -= half
    return np.uint16(low - np.uint64(begin))


@step
def first_above(low, begin, end, code):
    """Return the first entry, from `begin` up to `end`, whose key begins above a code."""
    at, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        at += half if np.int64(low[at + half - np.uint64(1)]) <= code else np.uint64(0)
        length -= half
    return np.int64(at)


@step
def code_event(
    columns,
    column_attribute,
    offsets,
    attribute,
    key,
    event,
    local,
    cut,
    cuts,
    line,
    present,
    listed,
):
    """Put an event's codes onto the line; write its attributes and return how many.

    `listed` has for each attribute the last event that had it.
    """
    n = 0
    for c in range(column_attribute.shape[0]):
        a = local[column_attribute[c]] if column_attribute[c] < local.shape[0] else np.int32(-1)
        if a >= 0:
            line[a] = cuts_up_to(cuts, cut[a], cut[a + 1], columns[c, event])
            present[n], listed[a] = a, event
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            a = local[attribute[i]] if attribute[i] < local.shape[0] else np.int32(-1)
            if a >= 0:
                line[a] = cuts_up_to(cuts, cut[a], cut[a + 1], key[i])
                # Said twice, the last counts.
                if listed[a] != event:
                    present[n], listed[a] = a, event
                    n += 1
    return n


@step
def passing(begin, end, code, line, last, high, second, second_low, second_high, passed):
    """Write the entries, of some, whose key and second predicate hold; return how many.

    That their keys begin early enough is known already.
    """
    n = np.uint64(0)
    for j in range(np.uint64(begin), np.uint64(end)):
        a = second[j]
        passed[n] = np.int32(j)
        n += np.uint64((high[j] >= code) & (second_low[j] <= last[a]) & (line[a] <= second_high[j]))
    return np.int64(n)


@step
def rest_holds(begin, end, rows, line, last):
    """Tell whether an entry's further predicates hold, those from `begin` to `end`."""
    row = np.uint64(begin)
    while row < np.uint64(end):
        a = rows[row]
        if last[a] < rows[row + np.uint64(1)] or line[a] > rows[row + np.uint64(2)]:
            return False
        row += np.uint64(3)
    return True


@step
def without_doubles(found, out, begin):
    """Write candidates from `begin` on, in order and each once; return where they end.

    Of a small set that is a key an event finds one point, but a range may find several.
    """
    kept = begin
    for each in np.sort(found):
        if kept == begin or out[kept - 1] != each:
            out[kept] = each
            kept += 1
    return kept


@kernel
def propose(
    g: Layout, keys: Keys, most: int, first: int, stop: int, offsets: Int64Out, out: Int32Out
) -> int:
    """Write candidates event by event while there is room for `most`."""
    local, cut, cuts, run, begin, width = g.local, g.cut, g.cuts, g.run, g.begin, g.width
    low, high, second, second_low, second_high = (
        g.low, g.high, g.second, g.second_low, g.second_high
    )  # fmt: skip
    candidate, start, rows = g.candidate, g.start, g.rows
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    attributes = run.shape[0] - 2
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    passed = np.empty(_AT_ONCE, np.int32)
    into = np.empty(candidate.shape[0], np.int32) if ranged else out
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) + most <= out.shape[0]:
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed,
        )  # fmt: skip
        if ranged:
            n = np.uint64(0)
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local, cut,
                cuts, last, present, listed_last,
            )  # fmt: skip
        present[several] = attributes
        for i in range(several + 1):
            a = present[i]
            code = np.int64(line[a])
            for r in range(run[a], run[a + 1]):
                end = first_above(low, begin[r], begin[r + 1], np.int64(last[a]))
                at = first_above(low, begin[r], end, code - width[r] - 1)
                while at < end:
                    upto = min(at + _AT_ONCE, end)
                    left = passing(
                        at, upto, code, line, last, high, second, second_low, second_high, passed
                    )
                    for p in range(left):
                        if p + 6 < left:
                            prefetch(rows, np.int64(start[passed[p + 6]]))
                        j = np.uint64(passed[p])
                        into[n] = candidate[j]
                        n += np.uint64(
                            rest_holds(start[j], start[j + np.uint64(1)], rows, line, last)
                        )
                    at = upto
        for i in range(several):
            line[present[i]] = last[present[i]] = 0
        if ranged:
            n = np.uint64(without_doubles(into[:n], out, offsets[event - first]))
        event += 1
        offsets[event - first] = n
    return event


@kernel
def tally(g: Layout, keys: Keys, counts: Int64Out) -> None:
    """Add to each event's count the conjunctions that hold; asked only if all are proven.

    And never with ranges.
    """
    local, cut, cuts, run, begin, width = g.local, g.cut, g.cuts, g.run, g.begin, g.width
    low, high, second, second_low, second_high = (
        g.low, g.high, g.second, g.second_low, g.second_high
    )  # fmt: skip
    start, rows = g.start, g.rows
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    attributes = run.shape[0] - 2
    line = np.zeros(attributes + 1, np.uint16)
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    passed = np.empty(_AT_ONCE, np.int32)
    for event in range(counts.shape[0]):
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed,
        )  # fmt: skip
        present[several] = attributes
        n = 0
        for i in range(several + 1):
            a = present[i]
            code = np.int64(line[a])
            for r in range(run[a], run[a + 1]):
                end = first_above(low, begin[r], begin[r + 1], code)
                at = first_above(low, begin[r], end, code - width[r] - 1)
                while at < end:
                    upto = min(at + _AT_ONCE, end)
                    left = passing(
                        at, upto, code, line, line, high, second, second_low, second_high, passed
                    )
                    for p in range(left):
                        if p + 6 < left:
                            prefetch(rows, np.int64(start[passed[p + 6]]))
                        j = np.uint64(passed[p])
                        n += rest_holds(start[j], start[j + np.uint64(1)], rows, line, line)
                    at = upto
        for i in range(several):
            line[present[i]] = 0
        counts[event] += n


@step
def passing_bound(
    begin, end, code, line, last, high, second, second_low, second_high, most, least, passed
):
    """Like `passing`, and whose bound is not below `least`."""
    n = np.uint64(0)
    for j in range(np.uint64(begin), np.uint64(end)):
        a = second[j]
        passed[n] = np.int32(j)
        n += np.uint64(
            (high[j] >= code)
            & (second_low[j] <= last[a])
            & (line[a] <= second_high[j])
            & (most[j] >= least)
        )
    return np.int64(n)


@kernel
def rank(
    g: Layout,
    c: Conjunctions,
    removed: UInt8s,
    single: bool,
    keys: Keys,
    schema_width: int,
    first: int,
    events: int,
    before: int,
    event_weights: EventWeights,
    k: int,
    sizes: Int64Out,
    rules: Int32Out,
    scores: Float64Out,
    seen: Int64Out,
) -> None:
    """Merge what holds into each event's list of its k best; see `Ranked.best`.

    `seen` counts the entries that passed key, second predicate and bound, and those that
    were evaluated predicate by predicate.
    """
    local, cut, cuts, run, begin, width = g.local, g.cut, g.cuts, g.run, g.begin, g.width
    low, high, second, second_low, second_high = (
        g.low, g.high, g.second, g.second_low, g.second_high
    )  # fmt: skip
    candidate, start, rows, most, heaviest = g.candidate, g.start, g.rows, g.most, g.heaviest
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    row_of, tested, kind, row_low, row_high = c.offsets, c.attribute, c.kind, c.low, c.high
    points, weight, rule_of = c.points, c.weight, c.rule
    own, own_attribute, own_weight = (
        event_weights.offsets, event_weights.attribute, event_weights.weight
    )  # fmt: skip
    common = event_weights.common
    attributes = run.shape[0] - 2
    schema_of = np.full(attributes + 1, -1, np.int32)
    for a in range(local.shape[0]):
        if local[a] >= 0:
            schema_of[local[a]] = a
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    passed = np.empty(_AT_ONCE, np.int32)
    weights = common.copy()
    values = blank(schema_width)
    uppers = blank(schema_width) if ranged else values
    parts = np.empty(64, np.int64)
    some_removed, has_own = removed.shape[0] > 0, own.shape[0] > 0
    alone = single and not ranged  # a range may find several points of one set
    plain = not has_own
    for a in range(common.shape[0]):
        plain &= common[a] == 1.0
    for i in range(events):
        event = first + i
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed,
        )  # fmt: skip
        if has_own:
            for j in range(own[before + i], own[before + i + 1]):
                weights[own_attribute[j]] = own_weight[j]
        greatest = 1.0
        if not plain:
            # Bounds are times the greatest weight, and a little more for sums that round.
            greatest = 0.0
            for j in range(several):
                greatest = max(greatest, weights[schema_of[present[j]]])
            greatest *= 1.0000001
        if ranged:
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local, cut,
                cuts, last, present, listed_last,
            )  # fmt: skip
        present[several] = attributes
        # The stretches, those that may have the best first.
        several_parts = 0
        for p in range(several + 1):
            a = present[p]
            for r in range(run[a], run[a + 1]):
                if several_parts == parts.shape[0]:
                    more = np.empty(2 * several_parts, np.int64)
                    more[:several_parts] = parts
                    parts = more
                at = several_parts
                while at > 0 and heaviest[np.int32(parts[at - 1])] < heaviest[r]:
                    parts[at] = parts[at - 1]
                    at -= 1
                parts[at] = (np.int64(a) << 32) | np.int64(r)
                several_parts += 1
        base, size = i * k, sizes[i]
        loaded = False
        for p in range(several_parts):
            part_of, of_part = parts[p] >> 32, np.int64(np.int32(parts[p]))
            code = np.int64(line[part_of])
            # What falls below is strictly worse than the k-th best so far.
            least = scores[base + k - 1] / greatest if size == k and greatest > 0.0 else -1.0
            if heaviest[of_part] < least:
                break
            end = first_above(low, begin[of_part], begin[of_part + 1], np.int64(last[part_of]))
            at = first_above(low, begin[of_part], end, code - width[of_part] - 1)
            while at < end:
                upto = min(at + _AT_ONCE, end)
                left = passing_bound(
                    at, upto, code, line, last, high, second, second_low, second_high, most, least,
                    passed,
                )  # fmt: skip
                seen[0] += left
                for q in range(left):
                    if q + 6 < left:
                        soon = candidate[passed[q + 6]]
                        prefetch(rows, np.int64(start[passed[q + 6]]))
                        prefetch(rule_of, np.int64(soon if soon >= 0 else ~soon))
                    e = np.uint64(passed[q])
                    if most[e] < least:
                        continue
                    if not rest_holds(start[e], start[e + np.uint64(1)], rows, line, last):
                        continue
                    found = candidate[e]
                    if found < 0:
                        found = ~found
                        if not loaded:
                            load(columns, column_attribute, sparse, attribute, key, event, values)
                            if ranged:
                                load(
                                    columns_high, column_attribute, sparse, attribute, key_high,
                                    event, uppers,
                                )  # fmt: skip
                            loaded = True
                        seen[1] += 1
                        true = True
                        for row in range(row_of[found], row_of[found + 1]):
                            if not holds_within(
                                kind[row], row_low[row], row_high[row], points,
                                values[tested[row]], uppers[tested[row]],
                            ):  # fmt: skip
                                true = False
                                break
                        if not true:
                            continue
                    if some_removed and removed[found] != 0:
                        continue
                    value = most[e]
                    if not (plain and value < np.inf):
                        value = score(
                            tested, kind, row_high, weight, row_of[found], row_of[found + 1],
                            weights,
                        )  # fmt: skip
                    size = keep(rule_of[found], value, alone, k, base, size, rules, scores)
                    if size == k and greatest > 0.0:
                        least = scores[base + k - 1] / greatest
                at = upto
        sizes[i] = size
        if loaded:
            unload(sparse, attribute, event, values)
            unload(sparse, attribute, event, uppers)
        if has_own:
            for j in range(own[before + i], own[before + i + 1]):
                weights[own_attribute[j]] = common[own_attribute[j]]
        for p in range(several):
            line[present[p]] = last[present[p]] = 0


# ------------------------------------------------------------ build


def expected(c: Conjunctions, width: int) -> tuple[float, float]:
    """Return how many attributes an event has, of those tested, and how many entries it looks at.

    Guessed from the rules, as keys are chosen.
    """
    used = np.unique(c.attribute)
    local = np.full(width, -1, np.int32)
    local[used] = np.arange(len(used))
    telling = np.minimum(codes_of(c, local, len(used)).telling, 1.0)
    looked = np.ones(c.size)
    tested = np.diff(c.offsets) > 0
    looked[tested] = np.minimum.reduceat(telling, c.offsets[:-1][tested])
    return float(present_of(local[c.attribute], len(used), c.size).sum()), float(looked.sum())


def present_of(attribute: np.ndarray, attributes: int, size: int) -> np.ndarray:
    """Return how likely an event has each attribute: twice as likely as a rule tests it.

    Events say more than rules ask.
    """
    return np.minimum(1.0, 2 * np.bincount(attribute, minlength=attributes) / max(size, 1))


class Coded(NamedTuple):
    """The predicates of conjunctions in codes, row by row."""

    attribute: np.ndarray  # [rows] numbered here; that of a complement too
    low: np.ndarray  # [rows] codes
    high: np.ndarray
    exact: np.ndarray  # [rows] whether the codes say all
    by_point: np.ndarray  # [rows] whether it is a small set, and the codes tell its points apart
    telling: np.ndarray  # [rows] about how many events satisfy it, of all; infinite if no key
    cut: np.ndarray
    cuts: np.ndarray


def filed(c: Conjunctions, width: int) -> Layout:
    """Return the layout for conjunctions over a schema of `width` attributes."""
    used = np.unique(c.attribute)
    # Those tested most have the low numbers, which fit 16 bits.
    frequent = used[np.argsort(-np.bincount(c.attribute, minlength=width)[used], kind="stable")]
    local = np.full(width, -1, np.int32)
    local[frequent] = np.arange(len(frequent))
    coded = codes_of(c, local, len(used))
    entries = entries_of(c, coded, len(used))
    return laid(Layout, [local, coded.cut, coded.cuts, *entries])


def codes_of(c: Conjunctions, local: np.ndarray, attributes: int) -> Coded:
    """Cut the lines of all attributes, and code the predicates."""
    attribute = local[c.attribute]
    low, high = c.low, c.high
    if (c.kind != INTERVAL).any():
        low, high = low.copy(), high.copy()
        sets, complements = c.kind == SET, c.kind == NOT_SET
        low[sets], high[sets] = c.points[low[sets]], c.points[high[sets] - 1]
        low[complements], high[complements] = NULL, HIGHEST
    # The points of small sets are cuts too, so that each can be a key.
    by_point = (c.kind == SET) & (c.high - c.low <= _SMALL_SET)
    points = c.points[ranges(c.low[by_point], c.high[by_point])]
    of_points = np.repeat(attribute[by_point], (c.high - c.low)[by_point])
    often = np.bincount(attribute, minlength=attributes)
    places = 2 * (often + np.bincount(of_points, minlength=attributes))
    starts = np.cumsum(places) - places
    ends, filled = np.empty(int(places.sum()), np.int64), starts.copy()
    gather_ends(attribute, low, high, filled, ends)
    gather_ends(of_points, points, points, filled, ends)
    cut: np.ndarray = np.zeros(attributes + 1, np.int64)
    all_cuts = [np.empty(0, np.int64)]
    for a in range(attributes):
        cuts = np.unique(ends[starts[a] : filled[a]])
        if len(cuts) > _CODES:
            cuts = cuts[np.linspace(0, len(cuts) - 1, _CODES).astype(np.int64)]
        all_cuts.append(cuts)
        cut[a + 1] = cut[a] + len(cuts)
    cuts = np.concatenate(all_cuts)
    low_code, high_code = np.empty(len(low), np.uint16), np.empty(len(low), np.uint16)
    exact = np.empty(len(low), bool)
    code_rows(attribute, low, high, cut, cuts, low_code, high_code, exact.view(np.uint8))
    exact &= c.kind == INTERVAL
    by_point &= np.diff(cut)[attribute] < _CODES
    present = present_of(attribute, attributes, c.size) / (np.diff(cut) + 1)
    span = high_code - low_code + 1.0
    span[by_point] = (c.high - c.low)[by_point]
    telling = present[attribute] * span
    telling[low_code == 0] = np.inf
    return Coded(attribute, low_code, high_code, exact, by_point, telling, cut, cuts)


@kernel
def gather_ends(
    attribute: Int32s, low: Int64s, high: Int64s, place: Int64Out, ends: Int64Out
) -> None:
    """Write where predicates begin to hold and cease to, by attribute; `place` is the next."""
    for row in range(attribute.shape[0]):
        a = attribute[row]
        at = place[a]
        if low[row] > NULL:
            ends[at] = low[row]
            at += 1
        if high[row] < HIGHEST:
            ends[at] = high[row] + 1
            at += 1
        place[a] = at


@kernel
def code_rows(
    attribute: Int32s,
    low: Int64s,
    high: Int64s,
    cut: Int64s,
    cuts: Int64s,
    low_code: UInt16Out,
    high_code: UInt16Out,
    exact: UInt8Out,
) -> None:
    """Write the codes of predicates, and whether their own ends are cuts."""
    for row in range(attribute.shape[0]):
        begin, end = cut[attribute[row]], cut[attribute[row] + 1]
        first = cuts_up_to(cuts, begin, end, low[row])
        last = cuts_up_to(cuts, begin, end, high[row])
        low_code[row], high_code[row] = first, last
        exact[row] = (low[row] <= NULL or (first > 0 and cuts[begin + first - 1] == low[row])) and (
            high[row] == HIGHEST or (begin + last < end and cuts[begin + last] == high[row] + 1)
        )


def entries_of(c: Conjunctions, coded: Coded, attributes: int) -> list[Any]:
    """Choose each conjunction's key, and return the entries' arrays in their order."""
    n, lengths = c.size, np.diff(c.offsets)
    owner = np.repeat(np.arange(n), lengths)
    # Rows of each conjunction by how telling they are; its key is the first, if it can be one.
    by_telling = np.arange(len(owner))
    most_telling_first(c.offsets, coded.telling, by_telling)
    tested = lengths > 0
    key = np.full(n, -1)
    key[tested] = by_telling[c.offsets[:-1][tested]]
    key[~np.isfinite(at_rows(coded.telling, key, np.inf))] = -1
    has_key = key >= 0
    small = np.zeros(n, bool)
    small[has_key] = coded.by_point[key[has_key]]
    copies = np.ones(n, np.int64)
    copies[small] = c.high[key[small]] - c.low[key[small]]
    entry = np.repeat(np.arange(n), copies)
    attribute = at_rows(coded.attribute, key, attributes)[entry]
    low, high = (at_rows(codes, key, 0)[entry] for codes in (coded.low, coded.high))
    by_point = small[entry]
    points = c.points[ranges(c.low[key[small]], c.high[key[small]])]
    for a in np.unique(attribute[by_point]):
        mine = np.flatnonzero(by_point)[attribute[by_point] == a]
        cuts = coded.cuts[coded.cut[a] : coded.cut[a + 1]]
        low[mine] = high[mine] = np.searchsorted(cuts, points[attribute[by_point] == a], "right")

    # What the codes say is all, if each row is exact, or is a set of which this is a point.
    said = coded.exact & (coded.attribute < _CODES)
    said[key[has_key]] = coded.exact[key[has_key]] | small[has_key]
    settled = np.ones(n, bool)
    settled[owner[~said]] = False

    classes = np.ceil(np.log2(high - low + 1) / 2).astype(np.int64)
    group = attribute * _WIDTHS + classes
    group = joined_classes(group, high - low, coded.cut)[group]
    order = np.argsort(group << 16 | low, kind="stable")
    entry, group, low, high = entry[order], group[order], low[order], high[order]
    heads = np.flatnonzero(np.diff(group, prepend=-1))
    begin = np.append(heads, len(entry))
    run = np.searchsorted(group[heads], np.arange(attributes + 2) * _WIDTHS)
    most = bounds_of(c, owner)[entry]
    empty = not len(entry)
    width = np.zeros(0) if empty else np.maximum.reduceat(high - low, heads)
    heaviest = np.zeros(0) if empty else np.maximum.reduceat(most, heads)

    # The rows that are left for each entry: not its key, the most telling first.
    others = lengths - has_key
    rest = by_telling[ranges(c.offsets[:-1] + has_key, c.offsets[1:])]
    skip = (coded.attribute[rest] >= _CODES) | (c.kind[rest] == NOT_SET)
    # A set is tested by the interval around it, an interval in its own codes.
    rest_of = np.repeat(np.arange(n), others)[~skip]
    rest = rest[~skip]
    counts = np.bincount(rest_of, minlength=n)
    rest_start = np.cumsum(counts) - counts
    second = np.full(n, -1)
    some = counts > 0
    second[some] = rest[rest_start[some]]
    second_of = second[entry]
    # Without a second predicate: one that always holds.
    second_attribute = at_rows(coded.attribute, second_of, 0)
    second_low = at_rows(coded.low, second_of, 0)
    second_high = at_rows(coded.high, second_of, _CODES + 1)
    further = np.maximum(counts - 1, 0)[entry]
    start = np.concatenate([[0], 3 * np.cumsum(further)])
    picked = rest[ranges(rest_start[entry] + 1, rest_start[entry] + 1 + further)]
    rows = np.stack([coded.attribute[picked], coded.low[picked], coded.high[picked]], axis=1)
    candidate = np.where(settled, np.arange(n), ~np.arange(n))[entry]
    return [
        run, begin, width, heaviest, low, high, second_attribute, second_low, second_high, most,
        candidate, start, rows.reshape(-1),
    ]  # fmt: skip


@kernel
def most_telling_first(offsets: Int64s, telling: Float64s, order: Int64Out) -> None:
    """Order the rows within each conjunction, the first of equals first."""
    for i in range(offsets.shape[0] - 1):
        for row in range(offsets[i] + 1, offsets[i + 1]):
            at = row
            while at > offsets[i] and telling[order[at - 1]] > telling[row]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = row


def joined_classes(group: np.ndarray, width: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Return for each attribute's classes of widths the class that each is filed with.

    A class of its own costs an event two bisections; with a wider one it costs the entries that
    are looked at in vain.
    """
    attributes = len(cut)
    sizes = np.bincount(group, minlength=attributes * _WIDTHS).reshape(-1, _WIDTHS)
    widest: np.ndarray = np.zeros(attributes * _WIDTHS, np.int64)
    np.maximum.at(widest, group, width)
    widest = widest.reshape(-1, _WIDTHS)
    codes = np.append(np.diff(cut), 0) + 1
    into = np.tile(np.arange(_WIDTHS), (attributes, 1))
    held = np.zeros(attributes, np.int64)  # entries of the class at hand, and of those within it
    for narrow in range(_WIDTHS - 1):
        held += sizes[:, narrow]
        wide = np.where(sizes[:, narrow + 1] > 0, widest[:, narrow + 1], widest[:, narrow])
        vain = held * (wide - widest[:, narrow]) / codes
        join = _LOOK * vain < _BISECT
        into[:, : narrow + 1][join[:, None] & (into[:, : narrow + 1] == narrow)] = narrow + 1
        widest[:, narrow + 1] = np.where(join, wide, widest[:, narrow + 1])
        held[~join] = 0
    return (into + np.arange(attributes)[:, None] * _WIDTHS).reshape(-1)


def bounds_of(c: Conjunctions, owner: np.ndarray) -> np.ndarray:
    """Return each conjunction's sum of weights, added up in the order of `finish.score`."""
    weight = c.weight if c.weight.shape[0] else np.ones(len(c.kind))
    counted = ~((c.kind == INTERVAL) & (c.high == NULL))
    repeated = np.zeros(len(c.kind), bool)
    repeated[1:] = (c.attribute[1:] == c.attribute[:-1]) & (owner[1:] == owner[:-1])
    once = np.where(counted & ~repeated, weight, 0.0)
    total = np.bincount(owner, once, minlength=c.size).astype(np.float64)
    # What may be null scores also for an event that does not have it, whatever its weights.
    may_be_null = counted & (c.kind == INTERVAL) & (c.low == NULL)
    complements = np.flatnonzero(c.kind == NOT_SET)
    may_be_null[complements] = c.points[c.low[complements]] != NULL
    total[owner[may_be_null]] = np.inf
    return total


def at_rows(values: np.ndarray, rows: np.ndarray, otherwise: Any) -> np.ndarray:
    """Return the values at rows, and something else where the row is -1."""
    found = np.full(len(rows), otherwise)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found


def ranges(first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the numbers of several ranges, one range after another."""
    sizes = stop - first
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - (ends - sizes), sizes)
