"""Which object: range, nearest, minimum and maximum over uncertain values (thesis, 5.3).

Values of different objects are independent. Equal values without uncertainty share their
probability; all other ties have probability 0. Unlike in Fig. 5.6, objects whose interval only
touches the bound are not in the answer; nor are those that begin where the probability of no nearer
object is below 1e-20.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import UncertainError
from tocsin.model.arrow import refuse_spark
from tocsin.uncertain.answers import Answer
from tocsin.uncertain.densities import write_probabilities
from tocsin.uncertain.disks import Disks
from tocsin.uncertain.distances import Bounded, bound_disks, bound_values
from tocsin.uncertain.evaluation import evaluate
from tocsin.uncertain.readings import ON_SPARK, Readings, read_number


def in_range(readings: Readings, low: float, high: float, at_least: float | None = None) -> Answer:
    """Return which values may be within [low, high], both ends included (ERQ, 5.3.1).

    With `at_least`, those of at least this probability.

    >>> from tocsin import uncertain
    >>> rooms = uncertain.Readings.uniform(["hall", "lab"], [18, 21], [22, 26])
    >>> uncertain.in_range(rooms, 20, 25, at_least=0.6)
    Answer: 1 of 2 is in the range with probability >= 0.6; quality 0.3
      lab: probability 0.8
    """
    _check_values(readings, "in_range", may_be_empty=True)
    low, high = read_range(low, high)
    at_least = read_threshold(at_least)
    out = np.empty(len(readings))
    write_probabilities(readings.densities, low, high, out)
    return Answer("in range", readings.ids, out, None, at_least)


def minimum(readings: Readings, at_least: float | None = None) -> Answer:
    """Return which values may be the smallest (EMinQ, 5.3.3)."""
    _check_values(readings, "minimum")
    bottom = float(readings.low.min())
    bounds = bottom, float(readings.high.min())
    bounded = bound_values(readings.densities, bottom)
    return _answer("minimum", readings.ids, bounded, bounds, at_least)


def maximum(readings: Readings, at_least: float | None = None) -> Answer:
    """Return which values may be the largest (EMaxQ, 5.3.3)."""
    _check_values(readings, "maximum")
    top = float(readings.high.max())
    bounds = float(readings.low.max()), top
    bounded = bound_values(readings.densities, top)
    return _answer("maximum", readings.ids, bounded, bounds, at_least)


def nearest(readings: Readings | Disks, q: Any, at_least: float | None = None) -> Answer:
    """Return which values may be nearest to q (ENNQ, 5.3.2); of disks, q is a point.

    >>> from tocsin import uncertain
    >>> taxis = uncertain.Readings.disks(["a", "b"], [[0, 0], [5, 0]], radii=[2, 3])
    >>> uncertain.nearest(taxis, (2, 0))
    Answer: 2 of 2 may be the nearest; quality -6.64922
      a: probability 0.737059
      b: probability 0.262941
    """
    if isinstance(readings, Disks):
        bounded = bound_disks(readings.centers, readings.radii, readings.read_place(q))
    else:
        _check_values(readings, "nearest")
        bounded = bound_values(readings.densities, read_number(q, "q"))
    return _answer("nearest", readings.ids, bounded, (0.0, bounded.f), at_least)


def _answer(
    question: str,
    ids: pa.Array,
    bounded: Bounded,
    bounds: tuple[float, float],
    at_least: float | None,
) -> Answer:
    at_least = read_threshold(at_least)
    return Answer(question, ids, evaluate(bounded, at_least), bounds, at_least)


def _check_values(readings: Any, query: str, may_be_empty: bool = False) -> None:
    if isinstance(readings, Disks):
        raise UncertainError(f"{query} needs values on a line; disks are for nearest")
    check_readings(readings, may_be_empty)


def check_readings(readings: Any, may_be_empty: bool = False) -> None:
    """Raise unless these are readings, and not empty."""
    if not isinstance(readings, Readings):
        refuse_spark(readings, UncertainError, "readings", ON_SPARK)
        hint = "; use .at(time)" if hasattr(readings, "at") else ""
        raise UncertainError(f"a query needs Readings, got {type(readings).__name__}{hint}")
    if not len(readings) and not may_be_empty:
        raise UncertainError("there are no readings; this query needs at least one")


def read_range(low: Any, high: Any) -> tuple[float, float]:
    """Return the ends of a range, which may be infinite; raise if it is reversed."""
    low, high = _read_end(low, "low"), _read_end(high, "high")
    if low > high:
        raise UncertainError(f"the range is reversed: low {low:.12g} is above high {high:.12g}")
    return low, high


def read_threshold(at_least: Any) -> float | None:
    """Return a least probability; raise unless it is one."""
    if at_least is None:
        return None
    threshold = read_number(at_least, "at_least")
    if not 0 < threshold <= 1:
        raise UncertainError(f"at_least is a probability above 0 and up to 1, got {threshold:.12g}")
    return threshold


def read_count(n: Any) -> int:
    """Return how many values to draw; raise unless it is a count."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise UncertainError(f"n must be a count of values, got {n!r}")
    return int(n)


def _read_end(value: Any, name: str) -> float:
    """Return an end of a range, which may be infinite."""
    try:
        end = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UncertainError(f"{name} must be a number, got {value!r}") from None
    if np.isnan(end):
        raise UncertainError(f"{name} is NaN; a range needs two ends, which may be infinite")
    return end
