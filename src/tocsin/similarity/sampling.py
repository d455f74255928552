"""Samples of points, always the same for the same points."""

from __future__ import annotations

import numpy as np


def draw(points: np.ndarray, size: int, seed: int = 0) -> np.ndarray:
    """Return about `size` different points, or all if there are fewer."""
    if len(points) <= size:
        return points
    # A few are drawn twice; to draw without replacement would take time for all points.
    rows = np.unique(np.random.default_rng(seed).integers(0, len(points), size))
    return points[rows]
