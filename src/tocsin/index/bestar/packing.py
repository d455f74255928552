"""Packing: a tree without the records and runs that are free."""

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
    LONGEST,
    MEMBERS,
    NODE,
    NODES,
    PARENT,
    PEAK,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    SMALLEST,
    Tree,
)


def packed(t: Tree) -> Tree:
    """Return the tree with its records numbered anew, its runs side by side and no longer than
    they must be, and nothing free.
    """
    buckets, pnodes = _records(t)
    live, living = buckets[:, NODE] != FREE, pnodes[:, ABOVE] >= 0
    new_bucket = np.append(np.cumsum(live) - 1, -1)  # -1 stays -1
    new_pnode = np.append(np.cumsum(living) - 1, -1)
    buckets, pnodes = buckets[live], pnodes[living]
    level = np.append(pnodes[:, LEVEL], 0)[new_pnode[buckets[:, NODE]]]
    for word in (LEFT, RIGHT, PARENT):
        buckets[:, word] = new_bucket[buckets[:, word]]
    buckets[:, NODE] = new_pnode[buckets[:, NODE]]
    for word in (ROOT, ABOVE):
        pnodes[:, word] = new_bucket[pnodes[:, word]]

    # Leaves first, then directories.
    target: list[np.ndarray] = []
    need: list[np.ndarray] = []
    end = 0
    for run, size, k in ((LEAF, SIZE, LEAF_CLASS), (DIRECTORY, NODES, DIRECTORY_CLASS)):
        sizes = buckets[:, size]
        powers = _powers(sizes)
        starts = end + np.cumsum(powers) - powers
        moved, to = _runs(buckets[:, run], sizes), _runs(starts - end, sizes)
        for made, old in ((target, t.target), (need, t.need)):
            fresh = np.zeros(int(powers.sum()), np.int32)
            fresh[to] = old[moved] if made is need or run == LEAF else new_pnode[old[moved]]
            made.append(fresh)
        buckets[:, run] = np.where(sizes > 0, starts, -1)
        buckets[:, k] = np.where(sizes > 0, np.log2(np.maximum(powers, 1)).astype(np.int64), 0)
        end += int(powers.sum())
    words = np.maximum(2 * (level - 1), 0)
    room = np.where(words > 0, _power(words), 0)
    starts = np.cumsum(room) - room
    box = np.zeros(int(room.sum()), np.int64)
    box[_runs(starts, words)] = t.box[_runs(buckets[:, BOX], words)]
    buckets[:, BOX] = np.where(words > 0, starts, -1)

    state = t.state.copy()
    state[[BUCKETS, PNODES, ENTRIES, BOXES]] = len(buckets), len(pnodes), end, len(box)
    state[[FREE_BUCKET, FREE_PNODE]] = -1
    state[LONGEST] = buckets[:, SIZE].max()
    state[PEAK] = state[MEMBERS]
    return t._replace(
        bucket=buckets.reshape(-1),
        most=t.most[: 2 * len(live)].reshape(-1, 2)[live].reshape(-1),
        pnode=pnodes.reshape(-1),
        loss=t.loss[: len(living)][living],
        target=np.concatenate(target),
        need=np.concatenate(need),
        box=box,
        home=np.where(t.home >= 0, new_bucket[t.home], -1).astype(np.int32),
        free=np.full_like(t.free, -1),
        state=state,
    )


def _records(t: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Return copies of the records that are, or were, in use: a row each."""
    buckets = t.bucket[: t.state[BUCKETS] * BUCKET].reshape(-1, BUCKET).copy()
    return buckets, t.pnode[: t.state[PNODES] * PNODE].reshape(-1, PNODE).copy()


def _power(sizes: np.ndarray) -> np.ndarray:
    """Return the least power of two that is at least each size, 1 or more."""
    power = np.ones(len(sizes), np.int64)
    while (short := power < sizes).any():
        power[short] *= 2
    return power


def _powers(sizes: np.ndarray) -> np.ndarray:
    """Return how long a run of each size is; none is needed for no entries."""
    return np.where(sizes > 0, np.maximum(_power(sizes), 1 << SMALLEST), 0)


def _runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the places of all entries of runs, one run after the other."""
    before = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
