"""Checks how much work the probability of a rule takes, when the rule is added."""

from __future__ import annotations

import numpy as np

from tocsin.engine.probabilities.ranges import DISCRETE, uncertainty_of
from tocsin.engine.probabilities.unions import MAX_WORK, union_work
from tocsin.errors import RuleError
from tocsin.jit import freeze, freeze_fields
from tocsin.model.attributes import Attributes
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import can_be_range


def check_work(c: Conjunctions, attributes: Attributes) -> None:
    """Raise if the probability of a rule of these conjunctions takes too much work."""
    rows = len(c.attribute)
    if c.size < 2 or not rows:
        return
    kept = _find_ranged(c, attributes)
    points = np.where(c.kind == INTERVAL, 1, c.high - c.low)
    pieces = 1 + 2 * np.bincount(c.attribute[kept], points[kept])
    # As if all combinations of pieces led to different states.
    if np.log2(pieces).sum() + np.log2(2 * rows * rows) < np.log2(MAX_WORK):
        return
    if measure_work(c, attributes) > MAX_WORK:
        raise RuleError(work_message(c.size))


def measure_work(c: Conjunctions, attributes: Attributes) -> int:
    """Return the work of a rule for the widest event, or more than `MAX_WORK`.

    In the widest event every attribute has all keys. Attributes that cannot be ranges (categories,
    flags, terms) have one value in every event, but it may be any. So predicates on these are left
    out, and the conjunctions that have them are never certain: they get a predicate on an attribute
    that comes last, and which is false.
    """
    width, kept = len(attributes), _find_ranged(c, attributes)
    owner = np.repeat(np.arange(c.size), np.diff(c.offsets))
    unsure = np.unique(owner[~kept])
    ones = np.ones(len(unsure), np.int64)
    owners = np.concatenate([owner[kept], unsure])
    tested = np.concatenate([c.attribute[kept], width * ones])
    order = np.lexsort((tested, owners))
    rule = freeze_fields(
        Conjunctions,
        offsets=np.searchsorted(owners[order], np.arange(c.size + 1)),
        attribute=tested[order],
        kind=np.concatenate([c.kind[kept], INTERVAL * ones])[order],
        low=np.concatenate([c.low[kept], ones])[order],
        high=np.concatenate([c.high[kept], ones])[order],
        points=c.points,
        weight=[],
        rule=c.rule,
    )
    values, values_high = np.full(width + 1, NULL), np.full(width + 1, HIGHEST)
    values[width] = values_high[width] = 0
    scale = freeze(np.full(width + 1, DISCRETE), np.uint8)
    return union_work(rule, uncertainty_of(scale, None), values, values_high, MAX_WORK)


def _find_ranged(c: Conjunctions, attributes: Attributes) -> np.ndarray:
    """Return which rows test an attribute that can be a range."""
    ranged = np.array([can_be_range(kind) for kind in attributes.kinds])
    ranged[list(attributes.terms)] = False
    return ranged[c.attribute]


def work_message(conjunctions: int) -> str:
    """Return the message for a rule whose probability takes too much work."""
    return (
        f"at_least requires the probability that one of {conjunctions:,} conjunctions holds, and "
        "their bounds on several attributes combine in too many ways; split the condition into "
        "several rules, or leave out at_least"
    )
