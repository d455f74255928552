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
    Tree,
)
from tocsin.model.conjunctions import expand_ranges


def pack_tree(t: Tree) -> Tree:
    """Return the tree with records renumbered, runs side by side, and nothing free.

    Runs are as short as their entries allow.
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

    conjunctions = np.arange(len(t.home))  # keep their numbers
    leaves = _pack_runs(t, buckets, (LEAF, SIZE, LEAF_CLASS), conjunctions, 0)
    words, end = (DIRECTORY, NODES, DIRECTORY_CLASS), len(leaves[0])
    directories = _pack_runs(t, buckets, words, new_pnode, end)
    target, required = (np.concatenate(both) for both in zip(leaves, directories, strict=True))
    box = _pack_boxes(t, buckets, level=np.append(pnodes[:, LEVEL], 0)[buckets[:, NODE]])

    state = t.state.copy()
    state[[BUCKETS, PNODES, ENTRIES, BOXES]] = len(buckets), len(pnodes), len(target), len(box)
    state[[FREE_BUCKET, FREE_PNODE]] = -1
    state[LONGEST_LEAF] = buckets[:, SIZE].max()
    state[MOST_MEMBERS] = state[MEMBERS]
    max_sums = t.max_sums[: 2 * len(kept_buckets)].reshape(-1, 2)
    return t._replace(
        bucket=buckets.reshape(-1),
        max_sums=max_sums[kept_buckets].reshape(-1),
        pnode=pnodes.reshape(-1),
        loss=t.loss[: len(kept_pnodes)][kept_pnodes],
        target=target,
        required=required,
        box=box,
        home=np.where(t.home >= 0, new_bucket[t.home], -1).astype(np.int32),
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


def _next_power(sizes: np.ndarray) -> np.ndarray:
    """Return the least power of two that is at least each size, 1 or more."""
    power = np.ones(len(sizes), np.int64)
    while (short := power < sizes).any():
        power[short] *= 2
    return power
