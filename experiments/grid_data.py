"""Objects and queries of the thesis (3.3): three distributions, all inside the unit square."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_CLUSTERS = 5
_OBJECTS_SPREAD, _QUERIES_SPREAD = 0.05, 0.1  # standard deviations within a cluster
_DENSE = 0.001  # the side of the corner that has half of the hyper-skewed objects and queries

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # low, high, points; each [2, n]


def query_sides(queries: int, elongated: bool) -> np.ndarray:
    """Return the sides of squares, or of thin queries of the same area, half of them upright."""
    if not elongated:
        return np.full((2, queries), 0.01)
    return np.where(np.arange(queries) % 2, [[0.1], [0.001]], [[0.001], [0.1]])


def uniform(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    low = rng.random((2, queries)) * (1 - sides)
    return low, low + sides, rng.random((2, objects))


def skewed(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    """Return objects and queries of five normally distributed clusters."""
    centres = rng.random((2, _CLUSTERS))
    middle = draw_clusters(rng, centres, _QUERIES_SPREAD, sides / 2)
    points = draw_clusters(rng, centres, _OBJECTS_SPREAD, np.zeros((2, objects)))
    return middle - sides / 2, middle + sides / 2, points


def draw_clusters(
    rng: np.random.Generator, centres: np.ndarray, spread: float, margins: np.ndarray
) -> np.ndarray:
    """Return points of clusters, drawn again until they are inside the square and its margins."""
    points = np.empty_like(margins)
    missing = np.arange(margins.shape[1])
    while len(missing):
        cluster = rng.integers(0, centres.shape[1], len(missing))
        points[:, missing] = centres[:, cluster] + rng.normal(0, spread, (2, len(missing)))
        drawn, margin = points[:, missing], margins[:, missing]
        outside = ((drawn < margin) | (drawn > 1 - margin)).any(axis=0)
        missing = missing[outside]
    return points


def hyper_skewed(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    """Return uniform objects and queries, half of them shrunk into a corner.

    The thesis says so of squares, whose sides become 0.00001. Elongated queries are shrunk alike.
    """
    low, high, points = uniform(rng, objects, queries, sides)
    # In random order, so that the first ones are from both halves.
    dense = rng.permutation(queries) < queries // 2
    low[:, dense] *= _DENSE
    high[:, dense] = low[:, dense] + _DENSE * sides[:, dense]
    points[:, rng.permutation(objects) < objects // 2] *= _DENSE
    return low, high, points


SHAPES: dict[str, Callable[..., Data]] = {
    "uniform": uniform,
    "skewed": skewed,
    "hyper-skewed": hyper_skewed,
}
