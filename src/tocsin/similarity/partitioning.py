"""Partitions of a join that is too large for one process.

A k-d tree, built from a sample, divides space into cells with about as many points each. A point of
`a` belongs to the one cell that it is in, a point of `b` to every cell within reach of it. So every
pair is found in exactly one cell. A cell that is crowded but not much larger than epsilon is not
divided further, since all of its points of `b` would be in both halves. Instead its points of `a`
are spread over several *parts* by a hash, and its points of `b` belong to all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32Out, Int64Out, Int64s, freeze_fields, kernel

_MOST_REPEATED = 0.8  # of the points of b in both halves of a cell; chosen: then it is not divided


class Partition(NamedTuple):
    """n nodes of a k-d tree, whose leaves are cells; each has one or more parts."""

    dimension: Int64s  # [n] in which a node is divided; -1: it is a cell
    split: Float64s  # [n] lower coordinates are on the left
    child: Int64s  # [n] the left child, and the right one follows; of a cell, its first part
    parts: Int64s  # [n] of a cell


def make_partition(
    a: np.ndarray, b: np.ndarray, reach: float, target: int
) -> tuple[Partition, int]:
    """Return a partition into about `target` parts, given samples, and the number of parts."""
    most = 1 / target
    dimension, split, child, parts = [-1], [0.0], [0], [1]
    pending = [(0, a, b)]
    count = 0
    while pending:
        node, own, other = pending.pop()
        weight = (len(own) / len(a) + len(other) / len(b)) / 2
        halves = _divide(own, other, reach) if weight > most else None
        if halves is None:
            child[node], parts[node] = count, max(1, round(weight / most))
            count += parts[node]
            continue
        dimension[node], split[node], *both = halves
        child[node] = len(child)
        for half in both:
            pending.append((len(child), *half))
            dimension.append(-1)
            split.append(0.0)
            child.append(0)
            parts.append(1)
    partition = freeze_fields(Partition, dimension=dimension, split=split, child=child, parts=parts)
    return partition, count


def _divide(a: np.ndarray, b: np.ndarray, reach: float) -> tuple | None:
    """Return the dimension and the coordinate to divide at, and both halves; None if none helps."""
    if len(a) < 2 or not len(b):
        return None
    # The widest dimension, in units of its own: halves do not overflow.
    widths = 0.5 * a.max(axis=0) - 0.5 * a.min(axis=0)
    best = None
    for k in np.argsort(-widths)[:4].tolist():
        split = float(np.median(a[:, k]))
        is_left = a[:, k] < split
        in_left, in_right = b[:, k] - reach < split, b[:, k] + reach >= split
        repeated = float((in_left & in_right).mean())
        if is_left.any() and repeated <= _MOST_REPEATED and (best is None or repeated < best[0]):
            best = repeated, k, split, (a[is_left], b[in_left]), (a[~is_left], b[in_right])
    return None if best is None else best[1:]


def find_parts(points: np.ndarray, hashes: np.ndarray, partition: Partition) -> np.ndarray:
    """Return the part of each point of `a`; in a cell of several parts, by its hash."""
    out: np.ndarray = np.empty(len(points), np.int32)
    write_parts(points.reshape(-1), points.shape[1], hashes, partition, out)
    return out


def list_parts(
    points: np.ndarray, reach: float, partition: Partition
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of the points of `b`: rows of points, and a part for each."""
    n, d = points.shape
    offsets: np.ndarray = np.zeros(n + 1, np.int64)
    nothing: np.ndarray = np.empty(0, np.int32)
    visit_parts(points.reshape(-1), d, reach, partition, offsets, nothing)
    parts: np.ndarray = np.empty(int(offsets[-1]), np.int32)
    visit_parts(points.reshape(-1), d, reach, partition, offsets, parts)
    return np.repeat(np.arange(n), np.diff(offsets)), parts


@kernel
def write_parts(
    points: Float64s, d: int, hashes: Int64s, partition: Partition, out: Int32Out
) -> None:
    """Write the part of each point."""
    for i in range(out.shape[0]):
        node = 0
        while partition.dimension[node] >= 0:
            is_right = points[i * d + partition.dimension[node]] >= partition.split[node]
            node = partition.child[node] + is_right
        out[i] = partition.child[node] + hashes[i] % partition.parts[node]


@kernel
def visit_parts(
    points: Float64s, d: int, reach: float, partition: Partition, offsets: Int64Out, out: Int32Out
) -> None:
    """Count the parts within reach of each point, and write them if there is room."""
    stack = np.empty(64 + partition.dimension.shape[0], np.int64)
    found = 0
    for i in range(offsets.shape[0] - 1):
        stack[0], size = 0, 1
        while size > 0:
            size -= 1
            node = stack[size]
            if partition.dimension[node] < 0:
                for part in range(partition.parts[node]):
                    if out.shape[0] > 0:
                        out[found] = partition.child[node] + part
                    found += 1
                continue
            value = points[i * d + partition.dimension[node]]
            if value + reach >= partition.split[node]:
                stack[size] = partition.child[node] + 1
                size += 1
            if value - reach < partition.split[node]:
                stack[size] = partition.child[node]
                size += 1
        offsets[i + 1] = found
