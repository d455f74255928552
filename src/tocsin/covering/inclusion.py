"""Whether a conjunction covers another one, decided by their predicates.

A conjunction is a product of sets of keys, one for each attribute: an interval, a list of values,
or all values but some. So it covers another one exactly if each of its sets includes the other's.
An attribute that is not tested has all keys, null included. The values that a kind can have are
taken into account: of a flag, `f <> TRUE` and `f = FALSE` are the same. A conjunction with
residuals, which are tests of shapes, covers only those that have the same, and perhaps more.

A rule covers another one if each conjunction of the other is covered by one of its own. That is
sound, but for rules of several conjunctions not complete: `x < 3 OR x >= 3` covers `x > 0`, and no
part of it does. To decide this in general is coNP-hard, even for boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32s, Int64Out, Int64s, bare_step, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, LOWEST, NAN, NULL, OTHER, number_key
from tocsin.model.predicates import INTERVAL, SET
from tocsin.model.schema import Kind

_LIMITS = {"number": (number_key(-np.inf), NAN), "flag": (0, 1), "category": (OTHER, HIGHEST)}


class Domain(NamedTuple):
    """The keys that values of each attribute can have, besides NULL."""

    low: Int64s
    high: Int64s


class ResidualNumbers(NamedTuple):
    """The residuals of n conjunctions, equal ones with equal numbers."""

    offsets: Int64s  # [n + 1] those of conjunction c are offsets[c] to offsets[c + 1]; [0] if none
    number: Int32s


NO_RESIDUALS = freeze_fields(ResidualNumbers, offsets=[], number=[])


def domain_of(kinds: Sequence[Kind]) -> Domain:
    """Return the keys that attributes of these kinds can have."""
    limits = [_LIMITS.get(kind, (LOWEST, HIGHEST)) for kind in kinds]
    return freeze_fields(Domain, low=[low for low, _ in limits], high=[high for _, high in limits])


@bare_step
def is_in_set(c, row, key):
    """Return whether a key is among the points of a row, which is a set or a complement."""
    low, high = c.low[row], c.high[row]
    while low < high:
        middle = (low + high) // 2
        if c.points[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < c.high[row] and c.points[low] == key


@bare_step
def last_row(c, row, stop):
    """Return one after the last row that tests the same attribute as a row."""
    end = row + 1
    while end < stop and c.attribute[end] == c.attribute[row]:
        end += 1
    return end


@bare_step
def key_after(key, low):
    """Return the next key of a domain that begins at `low`."""
    return low if key == NULL else key + 1


@bare_step
def key_before(key, low):
    """Return the key before, which is NULL for the lowest of a domain."""
    return np.int64(NULL) if key == low else key - 1


@bare_step
def ends_of(c, row, stop, domain):
    """Return the least and the greatest key that satisfy the rows of one attribute.

    If there is none, the least is above the greatest.
    """
    attribute = c.attribute[row]
    first, last = domain.low[attribute], domain.high[attribute]
    low, high = np.int64(NULL), last
    for each in range(row, stop):
        if c.kind[each] == INTERVAL:
            low, high = max(low, c.low[each]), min(high, c.high[each])
        elif c.kind[each] == SET:
            low, high = max(low, c.points[c.low[each]]), min(high, c.points[c.high[each] - 1])
    if NULL < low < first:
        low = first
    for each in range(row, stop):
        if c.kind[each] != INTERVAL and c.kind[each] != SET:
            while low <= high and is_in_set(c, each, low):
                low = key_after(low, first)
            while low < high and is_in_set(c, each, high):
                high = key_before(high, first)
    return low, high


@bare_step
def satisfies(c, row, stop, key):
    """Return whether a key satisfies the rows of one attribute."""
    for each in range(row, stop):
        if c.kind[each] == INTERVAL:
            if key < c.low[each] or key > c.high[each]:
                return False
        elif is_in_set(c, each, key) != (c.kind[each] == SET):
            return False
    return True


@bare_step
def includes(a, row, b, first, stop, domain):
    """Return whether a row's predicate holds for all keys that satisfy rows of its attribute."""
    low, high = ends_of(b, first, stop, domain)
    if low > high:
        return True
    if a.kind[row] == INTERVAL:
        return a.low[row] <= low and high <= a.high[row]
    if a.kind[row] != SET:
        for i in range(a.low[row], a.high[row]):
            if satisfies(b, first, stop, a.points[i]):
                return False
        return True
    if b.kind[first] == SET:
        for i in range(b.low[first], b.high[first]):
            key = b.points[i]
            if satisfies(b, first, stop, key) and not is_in_set(a, row, key):
                return False
        return True
    # An interval, perhaps without some points. It has at most as many as the set, or is not inside.
    left, key = a.high[row] - a.low[row], low
    while key <= high:
        if satisfies(b, first, stop, key):
            left -= 1
            if left < 0 or not is_in_set(a, row, key):
                return False
        if key == high:
            break
        key = key_after(key, domain.low[b.attribute[first]])
    return True


@bare_step
def includes_all(a, row, domain):
    """Return whether a row's predicate holds for all keys."""
    attribute = a.attribute[row]
    return a.kind[row] == INTERVAL and a.low[row] == NULL and a.high[row] >= domain.high[attribute]


@bare_step
def includes_residuals(a_residuals, i, b_residuals, j):
    """Return whether conjunction j of `b` has all residuals of conjunction i of `a`."""
    if a_residuals.offsets.shape[0] == 0:
        return True
    for at in range(a_residuals.offsets[i], a_residuals.offsets[i + 1]):
        is_found = False
        if b_residuals.offsets.shape[0] > 0:
            for other in range(b_residuals.offsets[j], b_residuals.offsets[j + 1]):
                is_found |= b_residuals.number[other] == a_residuals.number[at]
        if not is_found:
            return False
    return True


@bare_step
def covers(a, a_residuals, i, b, b_residuals, j, domain):
    """Return whether conjunction i of `a` covers conjunction j of `b`."""
    if not includes_residuals(a_residuals, i, b_residuals, j):
        return False
    at, stop = b.offsets[j], b.offsets[j + 1]
    for row in range(a.offsets[i], a.offsets[i + 1]):
        while at < stop and b.attribute[at] < a.attribute[row]:
            at += 1
        if at == stop or b.attribute[at] != a.attribute[row]:
            if not includes_all(a, row, domain):
                return False
        elif not includes(a, row, b, at, last_row(b, at, stop), domain):
            return False
    return True


@bare_step
def covers_all(a, a_residuals, first, stop, b, b_residuals, begin, end, domain):
    """Return whether each of some conjunctions of `b` is covered by one of some of `a`."""
    for j in range(begin, end):
        i = first
        while i < stop and not covers(a, a_residuals, i, b, b_residuals, j, domain):
            i += 1
        if i == stop:
            return False
    return True


@kernel
def rule_covers(
    a: Conjunctions,
    a_residuals: ResidualNumbers,
    b: Conjunctions,
    b_residuals: ResidualNumbers,
    domain: Domain,
) -> bool:
    """Return whether the rule with conjunctions `a` covers that with conjunctions `b`."""
    stop, end = a.rule.shape[0], b.rule.shape[0]
    return covers_all(a, a_residuals, 0, stop, b, b_residuals, 0, end, domain)


@kernel
def write_points(
    c: Conjunctions, numbers: Int64s, attributes: Int32s, domain: Domain, points: Int64Out
) -> None:
    """Write the points (-l1, r1, ...) of conjunctions: the ends of some attributes, in order."""
    d = attributes.shape[0]
    for n in range(numbers.shape[0]):
        row, stop = c.offsets[numbers[n]], c.offsets[numbers[n] + 1]
        for j in range(d):
            low, high = np.int64(NULL), domain.high[attributes[j]]
            while row < stop and c.attribute[row] < attributes[j]:
                row += 1
            if row < stop and c.attribute[row] == attributes[j]:
                low, high = ends_of(c, row, last_row(c, row, stop), domain)
            points[(n * d + j) * 2], points[(n * d + j) * 2 + 1] = ~low, high
