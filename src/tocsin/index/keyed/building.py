"""Building: bounds become codes, each conjunction gets a key, entries are sorted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.keyed.lanes import HEAD, LANES, ROW
from tocsin.index.keyed.layout import CODES, Layout
from tocsin.index.posting_lists import check_entries
from tocsin.jit import (
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt16Out,
    UInt16s,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions, expand_ranges
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.facts import AROUND, EXACT, NOTHING, facts_of, weight_sums

_SMALL_SET = 8  # points: each is a key
_WIDTHS = 9  # classes: ranges of at most 1, 4, 16, ... codes
_LOOK, _RUN = 0.8, 30.0  # nanoseconds: at an entry, and for a run more
_SHELF = 100.0  # and a shelf; it is more often in vain than if attributes came by chance
_CROWD = 16  # entries at least on a shelf of two attributes
_SPANS = 4  # for each block, at most
_ABOUT = 1.5  # times as telling as the best: as good
_ANY = CODES + 1  # above all codes


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
    bounded: np.ndarray  # [rows] whether they say anything: not of a complement
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
    return freeze_fields(Layout, local=local, cut=coded.cut, cuts=coded.cuts, **entries)


def codes_of(c: Conjunctions, local: np.ndarray, attributes: int) -> Coded:
    """Cut the lines of all attributes, and code the predicates."""
    attribute = local[c.attribute]
    low, high, worth = facts_of(c)
    # The points of small sets are cuts too, so that each can be a key.
    by_point = (worth == AROUND) & (c.high - c.low <= _SMALL_SET)
    points = c.points[expand_ranges(c.low[by_point], c.high[by_point])]
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
        if len(cuts) > CODES:
            cuts = cuts[np.linspace(0, len(cuts) - 1, CODES).astype(np.int64)]
        all_cuts.append(cuts)
        cut[a + 1] = cut[a] + len(cuts)
    cuts = np.concatenate(all_cuts)
    low_code, high_code = np.empty(len(low), np.uint16), np.empty(len(low), np.uint16)
    exact = np.empty(len(low), bool)
    code_rows(attribute, low, high, cut, cuts, low_code, high_code, exact.view(np.uint8))
    exact &= worth == EXACT
    by_point &= np.diff(cut)[attribute] < CODES
    present = present_of(attribute, attributes, c.size) / (np.diff(cut) + 1)
    span = high_code - low_code + 1.0
    span[by_point] = (c.high - c.low)[by_point]
    telling = present[attribute] * span
    telling[(low_code == 0) | (worth == NOTHING)] = np.inf
    bounded = worth != NOTHING
    return Coded(attribute, low_code, high_code, exact, bounded, by_point, telling, cut, cuts)


@step
def cuts_up_to(cuts, begin, end, key):
    """Return how many cuts of an attribute, `begin` to `end`, are not above a key."""
    low, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        low += half if cuts[low + half - np.uint64(1)] <= key else np.uint64(0)
        length -= half
    return np.uint16(low - np.uint64(begin))


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


@kernel
def code_points(
    attribute: Int64s, points: Int64s, cut: Int64s, cuts: Int64s, code: Int64Out
) -> None:
    """Write the codes of points."""
    for i in range(points.shape[0]):
        a = attribute[i]
        code[i] = cuts_up_to(cuts, cut[a], cut[a + 1], points[i])


def entries_of(c: Conjunctions, coded: Coded, attributes: int) -> dict[str, Any]:
    """Choose each conjunction's key, and return the entries' arrays in their order."""
    n, lengths = c.size, np.diff(c.offsets)
    owner = np.repeat(np.arange(n), lengths)
    # Rows of each conjunction by how telling they are; its key is the first, if it can be one.
    by_telling = np.arange(len(owner))
    most_telling_first(c.offsets, coded.attribute, coded.telling, by_telling)
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
    points = c.points[expand_ranges(c.low[key[small]], c.high[key[small]])]
    code: np.ndarray = np.empty(len(points), np.int64)
    code_points(attribute[by_point], points, coded.cut, coded.cuts, code)
    low[by_point] = high[by_point] = code

    # What the codes say is all, if each row is exact, or is a set of which this is a point.
    said = coded.exact & (coded.attribute < CODES)
    said[key[has_key]] = coded.exact[key[has_key]] | small[has_key]
    settled = np.ones(n, bool)
    settled[owner[~said]] = False

    # The rows that are left for each conjunction: not its key, the most telling first.
    others = lengths - has_key
    rest = by_telling[expand_ranges(c.offsets[:-1] + has_key, c.offsets[1:])]
    skip = (coded.attribute[rest] >= CODES) | ~coded.bounded[rest]
    # A set is tested by the interval around it, an interval in its own codes.
    rest_of = np.repeat(np.arange(n), others)[~skip]
    rest = rest[~skip]
    counts = np.bincount(rest_of, minlength=n)
    rest_start = np.cumsum(counts) - counts
    second = np.full(n, -1)
    second[counts > 0] = coded.attribute[rest[rest_start[counts > 0]]]

    # Entries by shelf, by width, by where their ranges begin. Those alike in their second
    # attribute and in length lie together: fewer blocks have a lane that passes, and fewer rows
    # of a block are empty.
    codes = np.append(np.diff(coded.cut) + 1, 1)
    share = (high - low + 1.0) / codes[attribute]
    present = present_of(coded.attribute, attributes, n)
    needed = np.full(n, -1)  # the second attribute, if an event must have it
    always = counts > 0
    always[always] = coded.low[rest[rest_start[always]]] > 0
    needed[always] = second[always]
    shelf, under, row, pair = shelves_of(attribute, needed[entry], share, present)
    group = shelf * _WIDTHS + np.ceil(np.log2(high - low + 1) / 2).astype(np.int64)
    group = joined_classes(group, high - low, codes[under])[group]
    alike = (second[entry] + 1) << 4 | np.maximum(15 - counts[entry], 0)
    order = np.argsort(group << 36 | low << 20 | alike, kind="stable")
    entry, group = entry[order], group[order]
    low, high = low[order].astype(np.uint16), high[order].astype(np.uint16)
    begin = np.flatnonzero(np.diff(group, prepend=-1))
    run = np.searchsorted(group[begin], np.arange(len(under) + 1) * _WIDTHS)

    # Runs in blocks.
    sizes = np.diff(begin, append=len(entry))
    blocks = -(-sizes // LANES)
    first_block = np.cumsum(blocks) - blocks
    lane = np.repeat(LANES * first_block - begin, sizes) + np.arange(len(entry))
    heads_of = np.flatnonzero(np.diff(lane // LANES, prepend=-1))

    def greatest(values: np.ndarray, of: np.ndarray = heads_of) -> np.ndarray:
        return np.maximum.reduceat(values, of) if len(of) else values[:0]

    start = np.concatenate([[0], ROW * np.cumsum(greatest(np.maximum(counts[entry] - 1, 0)))])
    check_entries(int(max(start[-1], HEAD * len(heads_of))))
    heads: np.ndarray = np.zeros((len(heads_of), HEAD // LANES, LANES), np.uint16)
    heads[:, 0] = heads[:, -1] = _ANY
    rows: np.ndarray = np.zeros((int(start[-1]) // ROW, ROW // LANES, LANES), np.uint16)
    rows[:, -1] = _ANY
    put_in_lanes(
        lane, entry, low, high, counts, rest_start, rest, coded.attribute, coded.low, coded.high,
        start, heads.reshape(-1), rows.reshape(-1),
    )  # fmt: skip
    under_run = under[group[begin] // _WIDTHS]
    reach = codes[under_run]
    shift = np.zeros(len(begin), np.int64)
    for _ in range(16):
        shift += (reach - 1 >> shift) + 1 > _SPANS * blocks
    spans_of = (reach - 1 >> shift) + 1
    span = 2 * (np.cumsum(spans_of) - spans_of)
    spans = np.empty(2 * int(spans_of.sum()), np.int32)
    lowest, highest = -greatest(-low.astype(np.int64)), greatest(high.astype(np.int64))
    find_spans(first_block, blocks, lowest, highest, shift, spans_of, span, spans)

    bounds = weight_sums(c)[entry]
    most, candidate = np.zeros(LANES * len(heads_of)), np.zeros(LANES * len(heads_of), np.int32)
    most[lane] = bounds
    candidate[lane] = np.where(settled[entry], entry, ~entry)
    return {
        "row": row,
        "pair": pair,
        "run": run,
        "under": under_run,
        "span": span,
        "shift": shift,
        "spans": spans,
        "heaviest": greatest(bounds, begin),
        "heads": heads.reshape(-1),
        "start": start,
        "rows": rows.reshape(-1),
        "peak": greatest(bounds),
        "most": most,
        "candidate": candidate,
    }


def shelves_of(
    attribute: np.ndarray, second: np.ndarray, share: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the shelf of each entry, the attribute of each shelf, and where pairs have theirs.

    An entry is on the shelf of its key's attribute, or, where that is crowded, on a shelf for
    those that have the same second attribute too: an event without it never comes there.
    """
    attributes = len(present)
    could = np.flatnonzero((attribute < attributes) & (second >= 0))
    both, which = np.unique(
        attribute[could].astype(np.int64) * attributes + second[could], return_inverse=True
    )
    count, looked = np.bincount(which), np.bincount(which, share[could])
    first, often = both // attributes, present[both % attributes]
    worth = (count >= _CROWD) & (_LOOK * looked * (1 - often) > _SHELF * often)
    # The row of an attribute has a place for every other: it must have as many entries.
    held = np.bincount(first[worth], count[worth], minlength=attributes)
    worth &= held[first] >= attributes
    row: np.ndarray = np.full(attributes, -1, np.int64)
    with_row = np.unique(first[worth])
    row[with_row] = np.arange(len(with_row)) * attributes
    number = np.where(worth, attributes + np.cumsum(worth), -1)
    pair: np.ndarray = np.full(len(with_row) * attributes, -1, np.int64)
    pair[row[first[worth]] + both[worth] % attributes] = number[worth]
    shelf = attribute.astype(np.int64)
    shelf[could] = np.where(number[which] < 0, shelf[could], number[which])
    check_entries(len(pair))
    return shelf, np.append(np.arange(attributes + 1), first[worth]), row, pair


@kernel
def put_in_lanes(
    lane: Int64s,
    entry: Int64s,
    low: UInt16s,
    high: UInt16s,
    counts: Int64s,
    rest_start: Int64s,
    rest: Int64s,
    row_attribute: Int32s,
    row_low: UInt16s,
    row_high: UInt16s,
    start: Int64s,
    heads: UInt16Out,
    rows: UInt16Out,
) -> None:
    """Write each entry's key and other predicates into its lane."""
    for i in range(entry.shape[0]):
        block, at = lane[i] // LANES, lane[i] % LANES
        heads[block * HEAD + at], heads[block * HEAD + LANES + at] = low[i], high[i]
        for q in range(counts[entry[i]]):
            row = rest[rest_start[entry[i]] + q]
            if q == 0:
                place, into = block * HEAD + 2 * LANES + at, heads
            else:
                place, into = start[block] + (q - 1) * ROW + at, rows
            into[place] = row_attribute[row]
            into[place + LANES], into[place + 2 * LANES] = row_low[row], row_high[row]


@kernel
def find_spans(
    first_block: Int64s,
    blocks: Int64s,
    lowest: Int64s,
    highest: Int64s,
    shift: Int64s,
    spans_of: Int64s,
    span: Int64s,
    spans: Int32Out,
) -> None:
    """Write for the codes of each run which blocks can have them, by their extremes."""
    for r in range(blocks.shape[0]):
        begin, end = first_block[r], first_block[r] + blocks[r]
        block = begin
        for i in range(spans_of[r]):
            while block < end and highest[block] < i << shift[r]:
                block += 1
            spans[span[r] + 2 * i] = block
        block = end
        for i in range(spans_of[r] - 1, -1, -1):
            while block > begin and lowest[block - 1] >= (i + 1) << shift[r]:
                block -= 1
            spans[span[r] + 2 * i + 1] = block


@kernel
def most_telling_first(
    offsets: Int64s, attribute: Int32s, telling: Float64s, order: Int64Out
) -> None:
    """Order the rows within each conjunction.

    Of those about as telling as the best the one on the rarest attribute is first: so rules over
    the same attributes have the same keys, and lie together.
    """
    for i in range(offsets.shape[0] - 1):
        for at in range(offsets[i], offsets[i + 1]):
            least = telling[order[at]]
            for other in range(at + 1, offsets[i + 1]):
                least = min(least, telling[order[other]])
            best = -1
            for other in range(at, offsets[i + 1]):
                row = order[other]
                if telling[row] <= _ABOUT * least and (
                    best < 0 or attribute[row] > attribute[order[best]]
                ):
                    best = other
            chosen = order[best]
            for other in range(best, at, -1):
                order[other] = order[other - 1]
            order[at] = chosen


def joined_classes(group: np.ndarray, width: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return for each shelf's classes of widths the class that each is filed with.

    A class of its own costs an event another run; with a wider one it costs the entries that
    are looked at in vain.
    """
    shelves = len(codes)
    sizes = np.bincount(group, minlength=shelves * _WIDTHS).reshape(-1, _WIDTHS)
    widest: np.ndarray = np.zeros(shelves * _WIDTHS, np.int64)
    np.maximum.at(widest, group, width)
    widest = widest.reshape(-1, _WIDTHS)
    into = np.tile(np.arange(_WIDTHS), (shelves, 1))
    held = np.zeros(shelves, np.int64)  # entries of the class at hand, and of those within it
    for narrow in range(_WIDTHS - 1):
        held += sizes[:, narrow]
        wide = np.where(sizes[:, narrow + 1] > 0, widest[:, narrow + 1], widest[:, narrow])
        vain = held * (wide - widest[:, narrow]) / codes
        join = _LOOK * vain < _RUN
        into[:, : narrow + 1][join[:, None] & (into[:, : narrow + 1] == narrow)] = narrow + 1
        widest[:, narrow + 1] = np.where(join, wide, widest[:, narrow + 1])
        held[~join] = 0
    return (into + np.arange(shelves)[:, None] * _WIDTHS).reshape(-1)


def at_rows(values: np.ndarray, rows: np.ndarray, otherwise: Any) -> np.ndarray:
    """Return the values at rows, and something else where the row is -1."""
    found = np.full(len(rows), otherwise)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found
