"""Packing: a tree without free records and runs, so that their memory is released."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ABOVE,
    BOX,
    BOXES,
    BUCKET,
    BUCKETS,
    DIRECTORY,
    DIRECTORY_CLASS,
    ENTRIES,
    FREE,
    FREE_BUCKET,
    FREE_PNODE,
    LEAF,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LONGEST_LEAF,
    MEMBERS,
    MOST_MEMBERS,
    NODE,
    NODES,
    PARENT,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    SMALLEST_CLASS,
    SUMMARIES,
    SUMMARY,
    Tree,
)
from tocsin.model.conjunctions import expand_ranges


def pack_tree(t: Tree, size: int) -> Tree:
    """Return the tree of `size` conjunctions with records renumbered, and nothing free.

    Runs are side by side, and as short as their entries allow.
    """
    buckets = t.bucket[: t.state[BUCKETS] * BUCKET].reshape(-1, BUCKET).copy()
    pnodes = t.pnode[: t.state[PNODES] * PNODE].reshape(-1, PNODE).copy()
    kept_buckets, kept_pnodes = buckets[:, NODE] != FREE, pnodes[:, ABOVE] >= 0
    new_bucket = np.append(np.cumsum(kept_buckets) - 1, -1)  # -1 stays -1
    new_pnode = np.append(np.cumsum(kept_pnodes) - 1, -1)
    buckets, pnodes = buckets[kept_buckets], pnodes[kept_pnodes]
    for word in (LEFT, RIGHT, PARENT):
        buckets[:, word] = new_bucket[buckets[:, word]]
    buckets[:, NODE] = new_pnode[buckets[:, NODE]]
    for word in (ROOT, ABOVE):
        pnodes[:, word] = new_bucket[pnodes[:, word]]

    home, conjunctions = t.home[:size], np.arange(size)  # which keep their numbers
    leaves = _pack_runs(t, buckets, (LEAF, SIZE, LEAF_CLASS), conjunctions, 0)
    words, end = (DIRECTORY, NODES, DIRECTORY_CLASS), len(leaves[0])
    directories = _pack_runs(t, buckets, words, new_pnode, end)
    target, required = (np.concatenate(both) for both in zip(leaves, directories, strict=True))
    box = _pack_boxes(t, buckets, level=np.append(pnodes[:, LEVEL], 0)[buckets[:, NODE]])

    summary, attribute, weight = _pack_summaries(t, kept_buckets)

    state = t.state.copy()
    state[[BUCKETS, PNODES, ENTRIES, BOXES]] = len(buckets), len(pnodes), len(target), len(box)
    state[SUMMARIES] = len(attribute)
    state[[FREE_BUCKET, FREE_PNODE]] = -1
    state[LONGEST_LEAF] = buckets[:, SIZE].max()
    state[MOST_MEMBERS] = state[MEMBERS]
    max_sums = t.max_sums[: 2 * len(kept_buckets)].reshape(-1, 2)
    return t._replace(
        bucket=buckets.reshape(-1),
        max_sums=max_sums[kept_buckets].reshape(-1),
        pnode=pnodes.reshape(-1),
        leaf_gain=t.leaf_gain[kept_buckets[: len(t.leaf_gain)].nonzero()[0]],
        gain=t.gain[kept_pnodes[: len(t.gain)].nonzero()[0]],
        loss=t.loss[: len(kept_pnodes)][kept_pnodes],
        target=target,
        required=required,
        box=box,
        home=np.where(home >= 0, new_bucket[home], -1).astype(np.int32),
        place=t.place[:size].copy(),
        only_intervals=t.only_intervals[:size].copy(),
        summary=summary,
        summary_attribute=attribute,
        summary_weight=weight,
        free=np.full_like(t.free, -1),
        state=state,
    )


def _pack_runs(
    t: Tree, buckets: np.ndarray, words: tuple[int, int, int], numbers: np.ndarray, begin: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of all leaves, or of all directories, and write where they are.

    `words` are those of a bucket that have the start, the size and the size class of its run.
    `numbers` are the new ones of targets. The first run is put at `begin`.
    """
    run, size, size_class = words
    sizes = buckets[:, size]
    lengths = np.where(sizes > 0, np.maximum(_next_power(sizes), 1 << SMALLEST_CLASS), 0)
    starts = np.cumsum(lengths) - lengths
    old, new = (
        expand_ranges(buckets[:, run], buckets[:, run] + sizes),
        expand_ranges(starts, starts + sizes),
    )
    target, required = (np.zeros(int(lengths.sum()), np.int32) for _ in range(2))
    target[new], required[new] = numbers[t.target[old]], t.required[old]
    buckets[:, run] = np.where(sizes > 0, begin + starts, -1)
    buckets[:, size_class] = np.log2(np.maximum(lengths, 1)).astype(np.int64)
    return target, required


def _pack_boxes(t: Tree, buckets: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the inactive dimensions of all buckets, and write where they are."""
    words = np.maximum(2 * (level - 1), 0)
    lengths = np.where(words > 0, _next_power(words), 0)
    starts = np.cumsum(lengths) - lengths
    box = np.zeros(int(lengths.sum()), np.int64)
    old = expand_ranges(buckets[:, BOX], buckets[:, BOX] + words)
    box[expand_ranges(starts, starts + words)] = t.box[old]
    buckets[:, BOX] = np.where(words > 0, starts, -1)
    return box


def _pack_summaries(t: Tree, kept_buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the summaries of the kept buckets are, and their attributes and weights."""
    summary = t.summary[: SUMMARY * len(kept_buckets)].reshape(-1, SUMMARY)
    runs = summary[kept_buckets[: len(summary)]].reshape(-1, 2)  # start and size of each
    sizes = runs[:, 1]
    lengths = np.where(sizes > 0, np.maximum(_next_power(sizes), 1 << SMALLEST_CLASS), 0)
    starts = np.cumsum(lengths) - lengths
    old, new = (expand_ranges(first, first + sizes) for first in (runs[:, 0], starts))
    attribute, weight = np.zeros(int(lengths.sum()), np.int32), np.zeros(int(lengths.sum()))
    attribute[new], weight[new] = t.summary_attribute[old], t.summary_weight[old]
    starts = np.where(sizes > 0, starts, -1)
    return np.stack([starts, sizes], axis=1).reshape(-1), attribute, weight


def _next_power(sizes: np.ndarray) -> np.ndarray:
    """Return the least power of two that is at least each size, 1 or more."""
    power = np.ones(len(sizes), np.int64)
    while (short := power < sizes).any():
        power[short] *= 2
    return power
