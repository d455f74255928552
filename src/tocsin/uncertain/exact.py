"""Differences of floats without rounding: pairs of a difference and what rounding takes from it.

A value that is much narrower than its distance from a query point would be lost in the rounding of
that distance. So distances are pairs; the gap between two of them is then exact to rounding,
however close they are.
"""

from __future__ import annotations

from tocsin.jit import bare_step


@bare_step
def subtract(a, b):
    """Return a - b and the rest that its rounding leaves (Knuth)."""
    difference = a - b
    back = difference - a
    return difference, (a - (difference - back)) - (b + back)


@bare_step
def gap(a, a_rest, b, b_rest):
    """Return how far the pair a is above the pair b."""
    return (a - b) + (a_rest - b_rest)


@bare_step
def is_below(a, a_rest, b, b_rest):
    """Return whether the pair a is below the pair b; the rests are what `subtract` leaves."""
    return a < b or (a == b and a_rest < b_rest)
