"""Brute force: where objects are is a dict, and a box is compared with all of them."""

from fractions import Fraction
from math import inf, isnan


class Fleet:
    """Objects and their latest reports."""

    def __init__(self):
        self.seen = {}  # key to (x, y, at), in the order of addition

    def insert(self, key, x, y, at):
        assert key not in self.seen
        self.seen[key] = (x, y, at)

    def remove(self, key):
        del self.seen[key]

    def report(self, key, x, y, at):
        if at >= self.seen[key][2]:
            self.seen[key] = (x, y, at)

    def query(self, low, high):
        return {
            key
            for key, (x, y, _) in self.seen.items()
            if is_between(low[0], x, high[0]) and is_between(low[1], y, high[1])
        }


def is_between(low, value, high):
    """Compare exactly, also floats with integers and fractions."""
    if isnan(value):
        return False
    low, high = -inf if low is None else low, inf if high is None else high
    return exact(low) <= exact(value) <= exact(high)


def exact(value):
    return value if value in (inf, -inf) else Fraction(value)


def check(index, fleet, low, high, now):
    """Compare an answer with that of brute force, and return what the search did."""
    keys = index.query(low, high, now)
    assert len(set(keys)) == len(keys)
    assert set(keys) == fleet.query(low, high)
    answer = index.search(low, high, now)
    assert index.keys_at(answer.rows) == keys
    assert answer.certain <= len(keys) <= answer.certain + answer.checked + answer.scanned
    return answer
