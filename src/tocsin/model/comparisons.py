"""Predicates of comparisons, from the cuts of their constants."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.model.categories import Categories
from tocsin.model.constants import Constant, Cuts, Literals
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import ALWAYS, Predicate, interval, none_of

Binder = Callable[[Literals, Categories], Predicate | None]  # turns literals into a predicate


def bind_comparison(operator: str, cuts: Callable[[Literals, Categories], Cuts]) -> Binder:
    """Return the function that binds a comparison with a constant, given by its cuts."""

    def less(s: Literals, c: Categories) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[0] - 1)

    def at_most(s: Literals, c: Categories) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[1] - 1)

    def greater(s: Literals, c: Categories) -> Predicate | None:
        return interval(cuts(s, c)[1], HIGHEST)

    def at_least(s: Literals, c: Categories) -> Predicate | None:
        return interval(cuts(s, c)[0], HIGHEST)

    def equal(s: Literals, c: Categories) -> Predicate | None:
        least, above = cuts(s, c)
        return interval(least, above - 1)

    def unequal(s: Literals, c: Categories) -> Predicate | None:
        return none_of([NULL, *range(*cuts(s, c))])

    return {
        "<": less,
        "<=": at_most,
        ">": greater,
        ">=": at_least,
        "=": equal,
        "<>": unequal,
    }[operator]


def fold_beyond_bigint(operator: str, constant: Constant, bind: Binder) -> Binder:
    """Return `bind`, but fold a comparison with a constant beyond bigint to TRUE or FALSE.

    Spark's analyzer does so: `n < 9223372036854775808` is the literal TRUE, even if n is null.
    """

    def fold(s: Literals, categories: Categories) -> Predicate | None:
        value = constant.read(s)
        if value > HIGHEST:
            return ALWAYS if operator in ("<", "<=") else None
        if value < NULL:
            return ALWAYS if operator in (">", ">=") else None
        return bind(s, categories)

    return fold


def clip_to_flags(bind: Binder) -> Binder:
    """Return `bind` with intervals clipped to the two keys of flags: nothing is above TRUE."""

    def clip(s: Literals, categories: Categories) -> Predicate | None:
        predicate = bind(s, categories)
        return predicate and interval(max(predicate.low, 0), min(predicate.high, 1))

    return clip
