"""The joins: their arguments, their methods, and the forms of their result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tocsin.errors import SimilarityError, suggest
from tocsin.similarity.blocks import BlockJoin
from tocsin.similarity.cells import CellJoin
from tocsin.similarity.closeness import Closeness, read_closeness
from tocsin.similarity.costs import Estimate, choose_method, estimate_join
from tocsin.similarity.ego import EgoJoin, EgoStarJoin, OrderedEgoJoin, OrderedEgoStarJoin
from tocsin.similarity.exhaustive import ExhaustiveJoin
from tocsin.similarity.grid_join import GridJoin
from tocsin.similarity.output import (
    LEAST_ROOM,
    Search,
    collect_pairs,
    count_pairs,
    stream_pairs,
)
from tocsin.similarity.pairs import SimilarPairs
from tocsin.similarity.points import read_both, read_points

METHODS: dict[str, Any] = {
    "exhaustive": ExhaustiveJoin,
    "cells": CellJoin,
    "blocks": BlockJoin,
    "grid": GridJoin,
    "ego": EgoJoin,
    "ego_star": EgoStarJoin,
    "ego_ordered": OrderedEgoJoin,
    "ego_star_ordered": OrderedEgoStarJoin,
}
BLOCK = 1 << 16  # pairs


def join(
    a: Any,
    b: Any,
    epsilon: float,
    method: str = "auto",
    metric: str = "l2",
    closed: bool = False,
) -> SimilarPairs:
    """Return all pairs of a point of `a` and a point of `b` that are closer than epsilon.

    Points are rows: of an array [points, coordinates], or of a table of numeric columns. With
    `closed`, points at distance epsilon belong to the join, too.
    """
    left, right, closeness = _read(a, b, epsilon, metric, closed)
    search = _prepare(left, right, closeness, method, same=False)
    return SimilarPairs(*collect_pairs(search), left, right, closeness.metric)


def self_join(
    a: Any, epsilon: float, method: str = "auto", metric: str = "l2", closed: bool = False
) -> SimilarPairs:
    """Return all pairs (i, j) of points of one set, i < j, that are closer than epsilon."""
    closeness = read_closeness(epsilon, metric, closed)
    points = read_points(a, "a").coordinates
    search = _prepare(points, points, closeness, method, same=True)
    return SimilarPairs(*collect_pairs(search), points, points, closeness.metric)


def count(
    a: Any,
    b: Any,
    epsilon: float,
    method: str = "auto",
    metric: str = "l2",
    closed: bool = False,
) -> int:
    """Return the number of pairs of `join`, without making them."""
    left, right, closeness = _read(a, b, epsilon, metric, closed)
    return count_pairs(_prepare(left, right, closeness, method, same=False))


def join_blocks(
    a: Any,
    b: Any,
    epsilon: float,
    method: str = "auto",
    metric: str = "l2",
    closed: bool = False,
    block_size: int = BLOCK,
) -> Iterator[SimilarPairs]:
    """Return an iterator over the pairs of `join` in blocks of at most `block_size` pairs.

    A block is valid until the next one: their memory is reused. It is that of the points, however
    many pairs there are.
    """
    if not isinstance(block_size, int | np.integer) or block_size < LEAST_ROOM:
        raise SimilarityError(
            f"block_size must be an integer, at least {LEAST_ROOM:,}; got {block_size!r}"
        )
    left, right, closeness = _read(a, b, epsilon, metric, closed)
    search = _prepare(left, right, closeness, method, same=False)
    blocks = stream_pairs(search, int(block_size))
    return (SimilarPairs(i, j, left, right, closeness.metric) for i, j in blocks)


def estimate(a: Any, b: Any, epsilon: float, metric: str = "l2", closed: bool = False) -> Estimate:
    """Estimate the pairs, seconds and memory of `join`, from samples, without running it.

    Issues a SimilarityWarning if epsilon gives implausibly many or few pairs; it
    names the epsilon that would give about one per point of `a`.
    """
    left, right, closeness = _read(a, b, epsilon, metric, closed)
    for points, name in ((left, "a"), (right, "b")):
        if not len(points):
            raise SimilarityError(f"{name} has no points, so there is nothing to estimate")
    return estimate_join(left, right, closeness)


def _read(
    a: Any, b: Any, epsilon: float, metric: str, closed: bool
) -> tuple[np.ndarray, np.ndarray, Closeness]:
    closeness = read_closeness(epsilon, metric, closed)
    return *read_both(a, b), closeness


def _prepare(a: np.ndarray, b: np.ndarray, closeness: Closeness, method: str, same: bool) -> Search:
    if method == "auto" and len(a) and len(b):
        method = choose_method(a, b, closeness, same)
    if not isinstance(method, str) or method not in (*METHODS, "auto"):
        raise SimilarityError(
            f"the method must be auto or one of {', '.join(METHODS)}; got {method!r}"
            + (suggest(method, METHODS) if isinstance(method, str) else "")
        )
    if not len(a) or not len(b):
        method = "exhaustive"  # the others need points
    search: Search = METHODS[method](a, b, closeness, same)
    return search
