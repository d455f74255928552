"""Codes of categories: those that rules mention, and forgetting the others."""

from __future__ import annotations

import numpy as np

from tocsin.jit import frozen
from tocsin.model.conjunctions import Conjunctions, ranges
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import Schema


def are_coded(c: Conjunctions, codes: int, schema: Schema) -> bool:
    """Tell whether all category values that conjunctions mention are among so many codes."""
    intervals, in_sets = _mentions(c, schema)
    highest = [c.high[intervals], c.points[in_sets]]
    return all(int(keys.max(initial=0)) <= codes for keys in highest)


def _mentions(c: Conjunctions, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows are intervals of category values, and which points are such values."""
    is_category = np.array([schema.kind(a) == "category" for a in range(len(schema))], bool)
    rows = is_category[c.attribute]
    sets = np.flatnonzero(rows & (c.kind != INTERVAL))
    return rows & (c.kind == INTERVAL) & (c.low > 0), ranges(c.low[sets], c.high[sets])


def recoded(
    c: Conjunctions, codes: dict[str, int], schema: Schema
) -> tuple[Conjunctions, dict[str, int]]:
    """Return the same conjunctions over as few codes as they need, if that is worth it.

    Codes keep their order, and all codes inside an interval are in use (it stems from
    values that were listed), so intervals stay intervals.
    """
    intervals, in_sets = _mentions(c, schema)
    used = np.zeros(len(codes) + 2, np.int64)
    np.add.at(used, c.low[intervals], 1)
    np.add.at(used, c.high[intervals] + 1, -1)
    used = np.cumsum(used)
    points = c.points[in_sets]
    used[points[points > 0]] += 1
    in_use = used[: len(codes) + 1] > 0
    if int(in_use.sum()) * 2 + 1024 > len(codes):
        return c, codes
    new = np.cumsum(in_use)
    low, high, all_points = c.low.copy(), c.high.copy(), c.points.copy()
    low[intervals], high[intervals] = new[low[intervals]], new[high[intervals]]
    all_points[in_sets] = np.where(points > 0, new[np.maximum(points, 0)], points)
    kept = {text: int(new[code]) for text, code in codes.items() if in_use[code]}
    changed = c._replace(
        low=frozen(low, np.int64), high=frozen(high, np.int64), points=frozen(all_points, np.int64)
    )
    return changed, kept
