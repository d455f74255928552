"""What matching relies on in stored entries, and `Keyed.validate` looks up."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.lanes import HEAD, LANES, ROW
from tocsin.index.keyed.layout import CODES, Layout
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)


def check_layout(g: Layout, size: int, width: int) -> None:
    """Raise unless the layout is sound, of `size` conjunctions over a schema of `width` attributes.

    An event visits each shelf once, so each run once, and the blocks of a run once, since runs
    share no block. In a block it finds each entry at most once. So only a conjunction with several
    entries may be found twice: these must exclude each other.
    """
    attributes, runs, blocks = len(g.row), len(g.under), len(g.peak)
    shelves = len(g.run) - 1
    require(len(g.local) <= width, f"'local' must be of at most {width:,} attributes")
    tested = np.sort(g.local[g.local >= 0])
    require(
        np.array_equal(tested, np.arange(attributes)) and g.local.min(initial=-1) >= -1,
        "each attribute must have a number of its own in 'local', or -1",
    )
    check_offsets("cut", g.cut, attributes, len(g.cuts))
    check_within("cut", np.diff(g.cut), 0, CODES + 1)
    _check_shelves(g, attributes, shelves)
    check_offsets("run", g.run, shelves, runs)
    check_lengths(g, runs, "span", "shift", "heaviest")
    check_within("under", g.under, 0, attributes + 1)
    check_within("shift", g.shift, 0, 17)
    check_lengths(g, HEAD * blocks, "heads")
    check_offsets("start", g.start, blocks, len(g.rows))
    require(not (g.start % ROW).any(), f"'start' must be multiples of {ROW}")
    check_lengths(g, LANES * blocks, "most", "candidate")
    check_numbers("candidate", g.candidate, size)
    heads = g.heads.reshape(-1, HEAD // LANES, LANES)
    rows = g.rows.reshape(-1, ROW // LANES, LANES)
    check_within("heads", heads[:, 2].reshape(-1), 0, attributes + 1)
    check_within("rows", rows[:, 0].reshape(-1), 0, attributes + 1)
    ends = _check_spans(g, blocks)
    under = np.append(g.under, attributes)[np.searchsorted(ends, np.arange(blocks), "right")]
    _check_entries(g, heads[:, 0], heads[:, 1], under, size)


def _check_shelves(g: Layout, attributes: int, shelves: int) -> None:
    """Raise unless each shelf is of one attribute, of none, or of two, and of nothing else."""
    require(shelves > attributes, "there must be a shelf for each attribute, and one for none")
    rows = g.row[g.row >= 0]
    require(
        np.array_equal(np.sort(rows), np.arange(len(rows)) * attributes)
        and g.row.min(initial=-1) >= -1
        and len(g.pair) == len(rows) * attributes,
        "each attribute must have a row of its own in 'pair', or -1",
    )
    used = np.sort(g.pair[g.pair >= 0])
    check_within("pair", used, attributes + 1, shelves)
    require(
        bool((used[1:] > used[:-1]).all()) and g.pair.min(initial=-1) >= -1,
        "each two attributes must have a shelf of their own, or -1",
    )


def _check_spans(g: Layout, blocks: int) -> np.ndarray:
    """Raise unless spans name blocks, each run others; return the block after each run's last."""
    counts = np.append(np.diff(g.cut), 0)[g.under]
    begins = 2 * np.concatenate([[0], np.cumsum((counts >> g.shift) + 1)])
    require(
        np.array_equal(g.span, begins[:-1]) and begins[-1] == len(g.spans),
        "a run must have a span for each code that an event can have",
    )
    check_within("spans", g.spans, 0, blocks + 1)
    if not len(g.under):
        return np.empty(0, np.int32)
    first, last = (f.reduceat(g.spans, begins[:-1]) for f in (np.minimum, np.maximum))
    require(bool((first[1:] >= last[:-1]).all()), "runs must have their blocks one after the other")
    return last


def _check_entries(
    g: Layout, low: np.ndarray, high: np.ndarray, under: np.ndarray, size: int
) -> None:
    """Raise unless an event finds at most one entry of a conjunction; bounds are by block and lane.

    Several entries are the points of a set: under one attribute, with keys that do not overlap.
    """
    # A lane without an entry has a key above all codes.
    lane = np.flatnonzero(low.reshape(-1) <= CODES)
    found = g.candidate[lane].astype(np.int64)
    number = np.maximum(found, ~found)
    several = np.bincount(number, minlength=size)[number] > 1
    if not several.any():
        return
    lane, number = lane[several], number[several]
    begin, end = (bounds.reshape(-1)[lane].astype(np.int64) for bounds in (low, high))
    order = np.argsort(number << 16 | begin)
    lane, number, begin, end = (each[order] for each in (lane, number, begin, end))
    value, attribute = g.candidate[lane], under[lane // LANES]
    same = number[1:] == number[:-1]
    apart = (value[1:] == value[:-1]) & (attribute[1:] == attribute[:-1])
    apart &= (begin[1:] > end[:-1]) & (begin[:-1] <= end[:-1])
    require(
        bool((apart | ~same).all()),
        "the entries of a conjunction must be points of one attribute, none of them twice",
    )
