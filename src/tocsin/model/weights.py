"""Checks the weights of rules and of events. Weights are per attribute; the default is 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.errors import ConditionError, RuleError, suggest
from tocsin.model.schema import Schema


def check_weights(
    weights: Mapping[str, Any], tested: frozenset[int], schema: Schema
) -> dict[int, float]:
    """Return the weights of a rule by attribute number; raise if one is not valid."""
    if not isinstance(weights, Mapping):
        raise RuleError(
            f"weights must be a dict from attribute to number, got {type(weights).__name__}"
        )
    return check_weight_pairs(weights.items(), tested, schema)


def check_weight_pairs(
    pairs: Iterable[tuple[Any, Any]], tested: frozenset[int], schema: Schema
) -> dict[int, float]:
    """Return the weights of a rule by attribute number, from pairs of name and weight."""
    by_attribute: dict[int, float] = {}
    for name, weight in pairs:
        try:
            attribute = schema.index(str(name))
        except ConditionError as error:
            raise RuleError(f"weight for {error}") from None
        if attribute not in tested:
            names = [schema.name(a) for a in sorted(tested)]
            raise RuleError(
                f"a weight is given for attribute {name!r}, which the condition does not test"
                + (suggest(name, names) or f"; it tests {', '.join(names) or 'none'}")
            )
        if attribute in by_attribute:
            raise RuleError(
                f"attribute {schema.name(attribute)!r} has two weights, "
                f"{by_attribute[attribute]:g} and {weight}; names are case-insensitive"
            )
        by_attribute[attribute] = check_weight(name, weight)
    return by_attribute


def check_weight(name: object, weight: Any) -> float:
    """Return a weight as a float; raise unless it is a finite number, 0 or more."""
    is_number = not isinstance(weight, bool | str) and weight is not None
    try:
        value = float(weight) if is_number else math.nan
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise RuleError(
            f"the weight of attribute {name!r} must be a finite number, 0 or more; got {weight!r}"
        )
    return value
