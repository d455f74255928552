"""The values that events have, to find predicates that none of them can satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.events import Events
from tocsin.model.keys import key_column
from tocsin.model.predicates import INTERVAL, SET
from tocsin.model.schema import Kind
from tocsin.model.wording import value_of


class Values(NamedTuple):
    """The keys of an attribute that occur in events."""

    keys: np.ndarray  # ascending: all of a category or flag, otherwise the least and the greatest
    has_null: bool
    is_complete: bool  # whether no other key occurs


def values_of(events: Events, attribute: int, kind: Kind) -> Values:
    """Return the values of an attribute in events."""
    is_complete = kind in ("category", "flag")
    parts = []
    for keys, _ in events.blocks():
        ends = [key_column(keys, attribute)]
        if keys.has_ranges:
            columns, rows = keys.highs
            ends.append(key_column(keys._replace(columns=columns, key=rows), attribute))
        for column in ends:
            present = column[column != NULL]
            seen = Values(present, len(present) < len(column), is_complete)
            parts.append(unite([seen], is_complete))  # small, whatever the block
    return unite(parts, is_complete)


def unite(parts: Sequence[Values], is_complete: bool) -> Values:
    """Return the values of an attribute in all parts of the data."""
    keys = np.concatenate([np.empty(0, np.int64), *(part.keys for part in parts)])
    if len(keys):
        keys = np.unique(keys if is_complete else np.array([keys.min(), keys.max()]))
    return Values(keys, any(part.has_null for part in parts), is_complete)


def find_unreachable(c: Conjunctions, attribute: int, values: Values) -> np.ndarray:
    """Return the rows of an attribute whose predicate no value of the data can satisfy."""
    rows = np.flatnonzero(c.attribute == attribute)
    low, high = c.low[rows], c.high[rows]
    holds = np.zeros(len(rows), bool)
    keys = values.keys
    intervals = c.kind[rows] == INTERVAL
    if len(keys) and values.is_complete:
        at = np.searchsorted(keys, low)
        following = np.append(keys, HIGHEST)[at]
        holds = (at < len(keys)) & (following <= high)
    elif len(keys):
        holds = (low <= keys[-1]) & (high >= keys[0])
    holds |= values.has_null & (low == NULL)
    for i in np.flatnonzero(~intervals):
        points = c.points[low[i] : high[i]]
        holds[i] = _holds_for_set(points, c.kind[rows[i]] == SET, values)
    return rows[~holds]


def _holds_for_set(points: np.ndarray, is_in: bool, values: Values) -> bool:
    """Return whether some value is among the points; or, if not `is_in`, some is not."""
    keys = np.append(values.keys, NULL) if values.has_null else values.keys
    if is_in and not values.is_complete and len(values.keys):
        inside = (points >= values.keys[0]) & (points <= values.keys[-1])
        return bool(inside.any()) or (values.has_null and NULL in points)
    if not is_in and not values.is_complete and len(values.keys) == 2:
        return True  # what is between the two may not be among the points
    return bool((np.isin(keys, points) == is_in).any())


def describe(values: Values, name: str, kind: Kind) -> str:
    """Return which values an attribute has in the data."""
    if not len(values.keys):
        return f"{name} is always null"
    if kind == "category":
        return "no event has a matching value"
    low, high = (value_of(kind, int(key)) for key in (values.keys[0], values.keys[-1]))
    return f"{name} is always {low}" if low == high else f"{name} ranges from {low} to {high}"
