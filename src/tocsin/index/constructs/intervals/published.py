"""Virtual construct intervals as published: closed intervals between whole numbers.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing, section 2. This file
is the option `lattice="published"`, from 2.2 to 2.4, top to bottom; `decomposition` has the same in
plain Python, with the numbers and the tables.

The lattice is the whole numbers a_0 to a_0 + R - 1. Constructs are the closed intervals [a, b] with
ends on lattice points and lengths 1..L (SCI), or powers of two up to L = 2^k (LCI). An interval
[x, y] is cut from the left, the longest construct first. An event looks up all constructs that
cover its value: on a lattice point 2L + k of LCI or L(L + 1)/2 + L of SCI, and strictly between two
points 2L - 1 or L(L + 1)/2. Their numbers are one of two tables of differences, plus V_min.

What the paper leaves open:

* Two pieces that share an end point both cover an event there, which must find their interval only
  once. The second of them begins at the event. So each entry says whether it is the first piece of
  its interval, and in constructs that begin at the event all other entries are left out.
* Ends that are not whole are expanded to the nearest whole numbers (2.1), and so is an interval of
  length 0, which the paper excludes. Accept then decides: such a candidate is not proven.
* Bounds may be open, null or too far away: the first and the last lattice point lie one beyond
  the bounds, and stand for all that lies there. An interval that reaches them is not proven.
* There are at most 4 million constructs. If the bounds lie further apart, the lattice is around the
  median bound, and the rest lies beyond it: correct, but slow.
* L is, unless given, the greatest power of two up to the mean length. That is what Fig. 12 finds
  best for rectangles, whose mean sides of 10 and 20 suit L = 8 and 16. It is at most 4,096 for LCI
  and 64 for SCI, whose covers grow with its square.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.errors import RuleError
from tocsin.index.constructs.decomposition import count_too_short, tabulate_differences
from tocsin.index.constructs.intervals.building import bound_conjunctions
from tocsin.index.constructs.intervals.validation import count_covering
from tocsin.index.plane import choose_axes, to_values
from tocsin.index.posting_lists import (
    check_entries,
    delete_entries,
    find_entries,
    insert_entries,
    shift_offsets,
)
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, LOWEST
from tocsin.model.keys import to_key, to_number
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

MOST_CONSTRUCTS = 1 << 22  # chosen: 32 MiB of offsets
LONGEST_LOGARITHMIC, LONGEST_SIMPLE = 4096, 64  # that are chosen
_FAR = 2**53  # floats beyond are outside of the lattice: not all whole numbers are floats there
_MOST_NUMBERS = 2**30  # conjunctions, of which an entry has twice the number


class PublishedLayout(NamedTuple):
    """R lattice points, and P constructs from each, over n conjunctions.

    An entry of conjunction c is 2c in the list of its first piece and 2c + 1 in those of the
    others, or ~ of that where c is not proven. So `entry >> 1` is what to propose, c or ~c.
    """

    attribute: Int32s  # [1] -1: none
    proven: UInt8s  # [1] whether all candidates are
    floats: UInt8s  # [1] whether keys are those of floats
    first: Int64s  # [1] a_0
    longest: Int64s  # [1] L
    per_point: Int64s  # [1] P: k + 1 (LCI) or L (SCI)
    on_point: Int64s  # [2L + k or L(L + 1)/2 + L] differences from V_min, on a lattice point
    between: Int64s  # [2L - 1 or L(L + 1)/2] the same between two
    piece: Int64s  # [R P + 1] where a construct's list begins
    piece_id: Int32s


# ------------------------------------------------------------ lattice and intervals (2.1)


def build_published(
    conjunctions: Conjunctions, floats: np.ndarray, longest: int | None, logarithmic: bool
) -> PublishedLayout:
    """Return the layout over the most selective attribute."""
    (attribute, _), (is_float, _) = choose_axes(conjunctions, floats)
    low, high, exact = bound_conjunctions(conjunctions, int(attribute))
    most = longest or (LONGEST_LOGARITHMIC if logarithmic else LONGEST_SIMPLE)
    first, points = _choose_points(
        low, high, bool(is_float), MOST_CONSTRUCTS // _count_kinds(most, logarithmic)
    )
    x, y, exact = _expand(low, high, exact, bool(is_float), first, points)
    if longest is None:
        mean = float((y - x).mean()) if len(x) else 1.0
        longest = min(most, 1 << int(np.log2(mean)))
    per_point = _count_kinds(longest, logarithmic)
    counts, entries = _decompose(x, y, _number(exact, 0), longest, per_point, points)
    return freeze_fields(
        PublishedLayout,
        attribute=[attribute],
        proven=[bool(exact.all())],
        floats=[is_float],
        first=[first],
        longest=[longest],
        per_point=[per_point],
        on_point=tabulate_differences(longest, logarithmic, on_lattice=True),
        between=tabulate_differences(longest, logarithmic, on_lattice=False),
        piece=np.concatenate([[0], np.cumsum(counts)]),
        piece_id=entries,
    )


def _count_kinds(longest: int, logarithmic: bool) -> int:
    """Return how many constructs start at each lattice point: k + 1, or L."""
    return longest.bit_length() if logarithmic else longest


def _choose_points(low: np.ndarray, high: np.ndarray, is_float: bool, most: int) -> tuple[int, int]:
    """Return the first of the lattice's whole numbers, and how many there are, at most `most`.

    They are those of the bounds, and one beyond at each end.
    """
    if is_float:
        low, high = np.floor(to_values(low, True)), np.ceil(to_values(high, True))
        bounds = np.concatenate([low, high])
        bounds = bounds[np.abs(bounds) < _FAR].astype(np.int64)
    else:
        bounds = np.concatenate([low, high])
        bounds = bounds[(bounds > LOWEST) & (bounds < HIGHEST)]
    if not len(bounds):
        return -1, 3
    begin, end = int(bounds.min()), int(bounds.max())
    if end - begin + 3 > most:
        middle = int(np.sort(bounds)[len(bounds) // 2])
        begin = min(max(begin, middle - most // 2), end - most + 3)
        end = begin + most - 3
    return begin - 1, end - begin + 3


def _expand(
    low: np.ndarray, high: np.ndarray, exact: np.ndarray, is_float: bool, first: int, points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lattice points of intervals' ends, x < y from 0, and whether each is proven."""
    last = first + points - 1
    if is_float:
        low, high = to_values(low, True), to_values(high, True)
        exact = exact & (np.floor(low) == low) & (np.ceil(high) == high)
        low, high = np.floor(low), np.ceil(high)
    exact = exact & (first < low) & (low < high) & (high < last)
    x = np.clip(low, first, last - 1).astype(np.int64) - first
    y = np.clip(high, first, last).astype(np.int64) - first
    return x, np.maximum(y, x + 1), exact.astype(np.uint8)


# ------------------------------------------------------------ decomposition (2.3)


def _number(exact: np.ndarray, before: int) -> np.ndarray:
    """Return the entries of the first pieces of conjunctions numbered from `before` on."""
    if before + len(exact) > _MOST_NUMBERS:
        raise RuleError(
            f"index 'intervals' with lattice='published' holds at most {_MOST_NUMBERS:,} "
            f"conjunctions, got {before + len(exact):,}; split them over several Rules"
        )
    numbers = 2 * np.arange(before, before + len(exact))
    return np.where(exact != 0, numbers, ~numbers).astype(np.int32)


def _decompose(
    x: np.ndarray, y: np.ndarray, ids: np.ndarray, longest: int, per_point: int, points: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many entries each construct has, and the entries, construct by construct."""
    check_entries(int(((y - x) // longest).sum()))  # at least so many: before they are counted
    counts = np.zeros(points * per_point, np.int64)
    decompose(x, y, ids, longest, per_point, counts, np.empty(0, np.int32))
    entries = np.empty(int(counts.sum()), np.int32)
    if len(entries):
        decompose(x, y, ids, longest, per_point, np.cumsum(counts) - counts, entries)
    return counts, entries


@kernel
def decompose(
    x: Int64s,
    y: Int64s,
    ids: Int32s,
    longest: int,
    per_point: int,
    piece: Int64Out,
    piece_id: Int32Out,
) -> None:
    """Decompose intervals [x, y], as `decompose_interval` does.

    Count each construct's entries in `piece`, or, if `piece_id` has places, write them where
    `piece` says, and move it on.
    """
    fill = piece_id.shape[0] > 0
    logarithmic = per_point != longest  # up to L = 2 both have the same constructs
    for i in range(x.shape[0]):
        a = x[i]
        while a < y[i]:
            length = min(longest, y[i] - a)
            kind = length - 1
            if logarithmic:
                kind = np.int64(0)
                while 2 << kind <= length:
                    kind += 1
                length = np.int64(1) << kind
            number = a * per_point + kind  # 2.2, from 0 for a_0
            if fill:
                piece_id[piece[number]] = ids[i] ^ np.int32(a != x[i])
            piece[number] += 1
            a += length


# ------------------------------------------------------------ search (2.4)


@step
def find_point(key, is_float, first, points):
    """Return the lattice point at or before a key, from 0, and whether the key is on it."""
    last = first + points - 1
    if key <= (to_key(np.float64(first)) if is_float != 0 else first):
        return np.int64(0), True
    if key >= (to_key(np.float64(last)) if is_float != 0 else last):
        return points - 1, True
    if is_float == 0:
        return key - first, True
    value = to_number(key, is_float)
    whole = np.floor(value)
    return np.int64(whole) - first, whole == value


@step
def begins(entry):
    """Return whether an entry is that of its interval's first piece."""
    return (entry & 1) == (entry < 0)


@kernel
def propose_published(
    g: PublishedLayout,
    keys: Int64s,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write candidates event by event while there is room for all `size` conjunctions."""
    is_float, a_0, longest, per_point = g.floats[0], g.first[0], g.longest[0], g.per_point[0]
    on_point, between, piece, piece_id = g.on_point, g.between, g.piece, g.piece_id
    points = (piece.shape[0] - 1) // per_point
    n = np.uint64(offsets[0])
    room = out.shape[0] - size
    event = first
    while event < stop and np.int64(n) <= room:
        j, on = find_point(keys[event], is_float, a_0, points)
        v_min = (j - longest) * per_point + per_point - 1
        if not on:  # constructs that begin at j - L do not reach beyond j
            v_min += per_point
        differences = on_point if on else between
        for i in range(differences.shape[0]):
            number = v_min + differences[i]
            if number < 0:  # would begin before a_0
                continue
            begin, end = np.uint64(piece[number]), np.uint64(piece[number + 1])
            if on and number >= j * per_point:
                for at in range(begin, end):
                    if begins(piece_id[at]):  # the others may be one more than there is room for
                        out[n] = piece_id[at] >> 1
                        n += np.uint64(1)
            else:
                for at in range(end - begin):
                    out[n + at] = piece_id[begin + at] >> 1
                n += end - begin
        event += 1
        offsets[event - first] = n
    return event


@kernel
def tally_published(g: PublishedLayout, keys: Int64s, first: int, counts: Int64Out) -> None:
    """Add to each event's count the intervals that contain its value, where all are proven."""
    is_float, a_0, longest, per_point = g.floats[0], g.first[0], g.longest[0], g.per_point[0]
    on_point, between, piece, piece_id = g.on_point, g.between, g.piece, g.piece_id
    points = (piece.shape[0] - 1) // per_point
    for event in range(counts.shape[0]):
        j, on = find_point(keys[first + event], is_float, a_0, points)
        v_min = (j - longest) * per_point + per_point - 1
        if not on:
            v_min += per_point
        differences = on_point if on else between
        total = np.int64(0)
        for i in range(differences.shape[0]):
            number = v_min + differences[i]
            if number < 0:
                continue
            if on and number >= j * per_point:
                for at in range(piece[number], piece[number + 1]):
                    total += np.int64(begins(piece_id[at]))
            else:
                total += piece[number + 1] - piece[number]
        counts[event] += total


# ------------------------------------------------------------ changes


def insert_published(g: PublishedLayout, more: Conjunctions, before: int) -> dict[str, np.ndarray]:
    """Return the fields that change when conjunctions are added, numbered from `before` on."""
    low, high, exact = bound_conjunctions(more, int(g.attribute[0]))
    longest, per_point = int(g.longest[0]), int(g.per_point[0])
    points = (len(g.piece) - 1) // per_point
    x, y, exact = _expand(low, high, exact, bool(g.floats[0]), int(g.first[0]), points)
    counts, entries = _decompose(x, y, _number(exact, before), longest, per_point, points)
    return {
        "proven": g.proven & bool(exact.all()),
        "piece": g.piece + np.concatenate([[0], np.cumsum(counts)]),
        "piece_id": insert_entries(g.piece_id, np.repeat(g.piece[1:], counts), entries),
    }


def remove_published(g: PublishedLayout, size: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields that change when some of the `size` conjunctions are taken out."""
    places = find_entries(g.piece_id >> 1, size, numbers)
    return {
        "piece": shift_offsets(g.piece, places),
        "piece_id": delete_entries(g.piece_id, places),
    }


# ------------------------------------------------------------ validation


def check_published(g: PublishedLayout, n: int, attributes: int) -> None:
    """Raise unless constructs have lists, no longer than they may be, and tables are those of L."""
    check_lengths(g, 1, "attribute", "proven", "floats", "first", "longest", "per_point")
    check_within("attribute", g.attribute, -1, attributes)
    if g.floats[0]:
        check_within("first", g.first, -_FAR - 1, _FAR)
    longest, per_point = int(g.longest[0]), int(g.per_point[0])
    require(
        1 <= longest <= LONGEST_LOGARITHMIC and longest & (longest - 1) == 0,
        f"'longest' must be a power of two from 1 to {LONGEST_LOGARITHMIC:,}, got {longest:,}",
    )
    require(
        per_point in (longest, longest.bit_length()),
        f"'per_point' must be {longest.bit_length()} or {longest:,}, got {per_point:,}",
    )
    logarithmic = per_point != longest
    for name, on_lattice in (("on_point", True), ("between", False)):
        require(
            np.array_equal(
                getattr(g, name), tabulate_differences(longest, logarithmic, on_lattice)
            ),
            f"{name!r} must be the differences of constructs up to {longest:,}",
        )
    constructs = len(g.piece) - 1
    require(
        constructs > 0 and constructs % per_point == 0,
        f"as many constructs must start at each point, got {constructs:,}, {per_point:,} at each",
    )
    check_offsets("piece", g.piece, constructs, len(g.piece_id))
    check_numbers("piece_id", g.piece_id >> 1, n, proven=bool(g.proven[0]))
    # Those that cover a lattice point and begin before it are those that cover the gap before.
    between = count_covering(g.piece, per_point, np.array(count_too_short(longest, logarithmic)))
    first_pieces = np.concatenate([[0], np.cumsum((g.piece_id & 1) == (g.piece_id < 0))])
    begun = np.diff(first_pieces[g.piece[::per_point]])
    found = max(int(between.max()), int((np.append(0, between[:-1]) + begun).max()))
    require(found <= n, f"an event finds {found:,} candidates, and there are {n:,} conjunctions")
