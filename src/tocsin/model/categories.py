"""Codes of categories: those that rules mention, and forgetting the others."""

from __future__ import annotations

import numpy as np

from tocsin.jit import frozen
from tocsin.model.conjunctions import Conjunctions, ranges
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import Schema
from tocsin.model.validation import require


def check_codes(c: Conjunctions, count: int, schema: Schema) -> None:
    """Raise a StoreError unless the codes that valid conjunctions mention are among `count` values.

    Whoever turns them back into texts, or renumbers them, relies on it. What does not name a value
    (IS NULL and the like) is an interval to one of the ends of the line, or has null for a point.
    """
    rows = _on_categories(c, schema)
    intervals = rows & (c.kind == INTERVAL)
    low, high = c.low[intervals], c.high[intervals]
    named = (low > 0) & (high <= count)
    unnamed = (low <= LOWEST) & ((high == NULL) | (high == HIGHEST))
    sets = np.flatnonzero(rows & (c.kind != INTERVAL))
    points = c.points[ranges(c.low[sets], c.high[sets])]
    known = (points > 0) & (points <= count)
    require(
        bool((named | unnamed).all()) and bool((known | (points == NULL)).all()),
        f"a condition on a category must be about the {count:,} values that there are",
    )


def _on_categories(c: Conjunctions, schema: Schema) -> np.ndarray:
    """Tell of each row whether it is on a category."""
    is_category = np.array([schema.kind(a) == "category" for a in range(len(schema))], bool)
    found: np.ndarray = is_category[c.attribute]
    return found


def recoded(
    c: Conjunctions, codes: dict[str, int], schema: Schema
) -> tuple[Conjunctions, dict[str, int]]:
    """Return the same conjunctions over as few codes as they need, if that is worth it.

    Codes keep their order, and all codes inside an interval are in use (it stems from
    values that were listed), so intervals stay intervals.
    """
    rows = _on_categories(c, schema)
    intervals = rows & (c.kind == INTERVAL) & (c.low > 0)
    sets = np.flatnonzero(rows & (c.kind != INTERVAL))
    in_sets = ranges(c.low[sets], c.high[sets])
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
