"""What matching relies on in stored arrays, and `Keyed.validate` checks."""

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
    attributes, runs, blocks = len(g.pair_start), len(g.key_attribute), len(g.block_bound)
    shelves = len(g.run_offsets) - 1
    require(len(g.local) <= width, f"'local' must be of at most {width:,} attributes")
    tested = np.sort(g.local[g.local >= 0])
    require(
        np.array_equal(tested, np.arange(attributes)) and g.local.min(initial=-1) >= -1,
        "each attribute must have a number of its own in 'local', or -1",
    )
    check_offsets("cut_offsets", g.cut_offsets, attributes, len(g.cuts))
    check_within("cut_offsets", np.diff(g.cut_offsets), 0, CODES + 1)
    _check_shelves(g, attributes, shelves)
    check_offsets("run_offsets", g.run_offsets, shelves, runs)
    check_lengths(g, runs, "span_start", "span_shift", "run_bound")
    check_within("key_attribute", g.key_attribute, 0, attributes + 1)
    check_within("span_shift", g.span_shift, 0, 17)
    check_lengths(g, HEAD * blocks, "heads")
    check_offsets("row_offsets", g.row_offsets, blocks, len(g.rows))
    require(not (g.row_offsets % ROW).any(), f"'row_offsets' must be multiples of {ROW}")
    check_lengths(g, LANES * blocks, "entry_bound", "candidate")
    check_numbers("candidate", g.candidate, size)
    heads = g.heads.reshape(-1, HEAD // LANES, LANES)
    rows = g.rows.reshape(-1, ROW // LANES, LANES)
    check_within("heads", heads[:, 2].reshape(-1), 0, attributes + 1)
    check_within("rows", rows[:, 0].reshape(-1), 0, attributes + 1)
    ends = _check_spans(g, blocks)
    run = np.searchsorted(ends, np.arange(blocks), "right")
    block_attribute = np.append(g.key_attribute, attributes)[run]
    _check_entries(g, heads[:, 0], heads[:, 1], block_attribute, size)


def _check_shelves(g: Layout, attributes: int, shelves: int) -> None:
    """Raise unless each shelf is of one attribute, of none, or of two, and of nothing else."""
    require(shelves > attributes, "there must be a shelf for each attribute, and one for none")
    starts = g.pair_start[g.pair_start >= 0]
    require(
        np.array_equal(np.sort(starts), np.arange(len(starts)) * attributes)
        and g.pair_start.min(initial=-1) >= -1
        and len(g.pair_shelf) == len(starts) * attributes,
        "each attribute must have a part of its own in 'pair_shelf', or -1",
    )
    used = np.sort(g.pair_shelf[g.pair_shelf >= 0])
    check_within("pair_shelf", used, attributes + 1, shelves)
    require(
        bool((used[1:] > used[:-1]).all()) and g.pair_shelf.min(initial=-1) >= -1,
        "each two attributes must have a shelf of their own, or -1",
    )


def _check_spans(g: Layout, blocks: int) -> np.ndarray:
    """Raise unless spans name blocks, each run others; return the block after each run's last."""
    cuts = np.append(np.diff(g.cut_offsets), 0)[g.key_attribute]
    starts = 2 * np.concatenate([[0], np.cumsum((cuts >> g.span_shift) + 1)])
    require(
        np.array_equal(g.span_start, starts[:-1]) and starts[-1] == len(g.spans),
        "a run must have a span for each code that an event can have",
    )
    check_within("spans", g.spans, 0, blocks + 1)
    if not len(g.key_attribute):
        return np.empty(0, np.int32)
    first, last = (f.reduceat(g.spans, starts[:-1]) for f in (np.minimum, np.maximum))
    require(bool((first[1:] >= last[:-1]).all()), "runs must have their blocks one after the other")
    return last


def _check_entries(
    g: Layout, low: np.ndarray, high: np.ndarray, block_attribute: np.ndarray, size: int
) -> None:
    """Raise unless an event finds at most one entry of a conjunction; keys are by block and lane.

    Several entries are the points of a set: under one attribute, with keys that do not overlap.
    """
    # A lane without an entry has a key above all codes.
    lane = np.flatnonzero(low.reshape(-1) <= CODES)
    candidate = g.candidate[lane].astype(np.int64)
    number = np.maximum(candidate, ~candidate)
    several = np.bincount(number, minlength=size)[number] > 1
    if not several.any():
        return
    lane, number = lane[several], number[several]
    begin, end = (bounds.reshape(-1)[lane].astype(np.int64) for bounds in (low, high))
    order = np.argsort(number << 16 | begin)
    lane, number, begin, end = (each[order] for each in (lane, number, begin, end))
    value, attribute = g.candidate[lane], block_attribute[lane // LANES]
    same_conjunction = number[1:] == number[:-1]
    apart = (value[1:] == value[:-1]) & (attribute[1:] == attribute[:-1])
    apart &= (begin[1:] > end[:-1]) & (begin[:-1] <= end[:-1])
    require(
        bool((apart | ~same_conjunction).all()),
        "the entries of a conjunction must be points of one attribute, none of them twice",
    )
