"""Readings: uncertain values of many objects, by id.

A reading is an interval and a density within it (thesis, Definitions 5.1 and 5.2). Values of
different objects are independent. `Growing` are readings whose intervals widen with the time since
the last report (5.2.1); at a time they are `Readings`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import UncertainError, suggest
from tocsin.jit import freeze_fields
from tocsin.model.arrow import decode, refuse_spark
from tocsin.uncertain.densities import (
    FAMILIES,
    HISTOGRAM,
    NORMAL,
    POINT,
    UNIFORM,
    Densities,
    take_densities,
)
from tocsin.uncertain.disks import Disks

_MOST_DEVIATIONS = 1e8  # of a truncated normal; beyond, squares of deviations lose all digits
_MOST_SHOWN = 8  # objects in a repr
ON_SPARK = "use the queries of tocsin.spark.uncertain"


class Readings:
    """Uncertain values, one per id. Make them with `uniform`, `normal`, `histogram` or `points`.

    Readings of different families are joined with `+`.

    >>> from tocsin.uncertain import Readings
    >>> Readings.uniform(["a", "b"], [10, 12], [14, 13]) + Readings.points(["c"], [11.5])
    Readings: 3 values
      a: uniform in [10, 14]
      b: uniform in [12, 13]
      c: 11.5
    """

    def __init__(self, ids: pa.Array, densities: Densities):
        self.ids = ids
        self.densities = densities

    # ------------------------------------------------------------ make

    @classmethod
    def uniform(cls, ids: Any, low: Any, high: Any) -> Readings:
        """Return values that are anywhere in [low, high], with equal densities.

        An interval of one value is a point. `low` and `high` are numbers or arrays.
        """
        ids = _read_ids(ids)
        low, high = (_read_numbers(x, name, ids) for x, name in ((low, "low"), (high, "high")))
        _check_intervals(ids, low, high)
        return cls._of(ids, np.where(low == high, POINT, UNIFORM), low, high)

    @classmethod
    def normal(cls, ids: Any, mean: Any, deviation: Any, low: Any, high: Any) -> Readings:
        """Return values of normal distributions that are truncated to [low, high].

        `mean` and `deviation` are those before truncation; the mean may be outside of the interval.
        An interval of one value is a point; so is a deviation of 0, with its mean inside.
        """
        ids = _read_ids(ids)
        mean, deviation, low, high = (
            _read_numbers(x, name, ids)
            for x, name in (
                (mean, "mean"), (deviation, "deviation"), (low, "low"), (high, "high"),
            )
        )  # fmt: skip
        _check_intervals(ids, low, high)
        _check(ids, deviation < 0, "the deviation is {}, but it must not be negative", deviation)
        exact = (deviation == 0) & (low < high)
        _check(
            ids,
            exact & ((mean < low) | (mean > high)),
            "the deviation is 0, so the mean {} must be within the interval",
            mean,
        )
        is_point = exact | (low == high)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            far = np.maximum(np.abs(low - mean), np.abs(high - mean)) / deviation
        _check(
            ids,
            ~is_point & ~(far <= _MOST_DEVIATIONS),
            "an end of the interval is {} deviations from the mean; at most 1e8 can be computed "
            "with, so check the deviation, or use a uniform reading",
            far,
        )
        low, high = np.where(exact, mean, low), np.where(exact, mean, high)
        family = np.where(is_point, POINT, NORMAL)
        mean, deviation = np.where(is_point, 0, mean), np.where(is_point, 0, deviation)
        return cls._of(ids, family, low, high, mean, deviation)

    @classmethod
    def histogram(cls, ids: Any, edges: Any, weights: Any) -> Readings:
        """Return values with a histogram each: equal densities between two edges.

        `edges` and `weights` are a list per id, with one edge more than weights; a single list of
        edges is that of all. Weights are probabilities: they add up to 1.
        """
        ids = _read_ids(ids)
        n = len(ids)
        weights = _read_lists(weights, "weights", ids, n)
        edges = _read_lists(edges, "edges", ids, n)
        first = np.zeros(n + 1, np.int64)
        edge, below = [], []
        for i, (own_edges, own_weights) in enumerate(zip(edges, weights, strict=True)):
            own_edges, shares = _check_histogram(ids, i, own_edges, own_weights)
            first[i + 1] = first[i] + len(own_edges)
            edge.append(own_edges)
            below.append(shares)
        joined = np.concatenate(edge) if edge else np.empty(0)
        low = joined[first[:-1]] if n else np.empty(0)
        high = joined[first[1:] - 1] if n else np.empty(0)
        return cls._of(
            ids, np.full(n, HISTOGRAM), low, high, first=first, edge=joined,
            below=np.concatenate(below) if below else np.empty(0),
        )  # fmt: skip

    @classmethod
    def points(cls, ids: Any, values: Any) -> Readings:
        """Return values without uncertainty."""
        ids = _read_ids(ids)
        values = _read_numbers(values, "values", ids)
        return cls._of(ids, np.full(len(ids), POINT), values, values)

    @classmethod
    def within(cls, ids: Any, values: Any, d: Any) -> Readings:
        """Return uniform values at most `d` away from the reported ones.

        The model of objects that report again as soon as they are further away.
        """
        ids = _read_ids(ids)
        values, d = (_read_numbers(x, name, ids) for x, name in ((values, "values"), (d, "d")))
        _check(ids, d < 0, "d is {}, but it must not be negative", d)
        return cls.uniform(ids, *_widen(ids, values, d))

    @classmethod
    def disks(cls, ids: Any, centers: Any, radii: Any) -> Disks:
        """Return places that are anywhere within `radii` of their centers, in 2-D or 3-D.

        `centers` are an array [n, 2] or [n, 3]. They are for `nearest`.
        """
        ids = _read_ids(ids)
        radii = _read_numbers(radii, "radii", ids)
        _check(ids, radii < 0, "the radius is {}, but it must not be negative", radii)
        try:
            centers = np.array(centers, np.float64)
        except (TypeError, ValueError) as error:
            raise UncertainError(f"centers must be numbers: {error}") from None
        if centers.ndim != 2 or len(centers) != len(ids) or centers.shape[1] not in (2, 3):
            raise UncertainError(
                f"centers must be an array [{len(ids)}, 2] or [{len(ids)}, 3]; its shape is "
                f"{centers.shape}"
            )
        for values in centers.T:
            _check(ids, ~np.isfinite(values), "a coordinate is {}, but it must be finite", values)
        return Disks(ids, centers, radii)

    @classmethod
    def growing(
        cls,
        ids: Any,
        values: Any,
        rates: Any,
        times: Any,
        domain: tuple[float, float] | None = None,
    ) -> Growing:
        """Return readings that change by at most `rates` per unit of time since their report.

        `values` were reported at `times`. Values never leave the `domain`, if it is given.
        """
        return Growing(ids, values, rates, times, domain)

    @classmethod
    def _of(
        cls, ids: pa.Array, family: Any, low: Any, high: Any, *normal: Any, **histogram: Any
    ) -> Readings:
        """Return readings with these fields; a `-0` becomes 0."""
        n = len(ids)
        mean, deviation = normal if normal else (np.zeros(n), np.zeros(n))
        histogram = histogram or {"first": np.zeros(n + 1), "edge": [], "below": []}
        low, high = low + 0.0, high + 0.0
        fields = {"family": family, "low": low, "high": high, "mean": mean, "deviation": deviation}
        return cls(ids, freeze_fields(Densities, **fields, **histogram))

    # ------------------------------------------------------------ look

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def low(self) -> np.ndarray:
        """The low ends of the intervals, float64[n]."""
        return self.densities.low

    @property
    def high(self) -> np.ndarray:
        """The high ends of the intervals, float64[n]."""
        return self.densities.high

    def position(self, id: Any) -> int:
        """Return the position of an id; raise if there is none."""
        try:
            at = pc.index(self.ids, pa.scalar(id, self.ids.type)).as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            at = -1
        if at < 0:
            known = self.ids.slice(0, 1000).to_pylist()
            raise UncertainError(f"no reading has the id {id!r}{suggest(id, known)}")
        return int(at)

    def take(self, positions: Any) -> Readings:
        """Return the readings at these positions, in this order."""
        positions = np.asarray(positions, np.int64)
        taken = take_densities(self.densities, positions)
        return Readings(self.ids.take(pa.array(positions)), taken)

    def __add__(self, other: object) -> Readings:
        if not isinstance(other, Readings):
            return NotImplemented
        ids = _join_ids(self.ids, other.ids)
        a, b = self.densities, other.densities
        fields = {
            name: np.concatenate([getattr(a, name), getattr(b, name)])
            for name in Densities._fields
            if name != "first"
        }
        first = np.concatenate([a.first, b.first[1:] + a.first[-1]])
        return Readings(ids, freeze_fields(Densities, **fields, first=first))

    def describe(self, i: int) -> str:
        """Return the reading at a position, in words."""
        d = self.densities
        family = int(d.family[i])
        if family == POINT:
            return f"{d.low[i]:.6g}"
        interval = f"in [{d.low[i]:.6g}, {d.high[i]:.6g}]"
        if family == NORMAL:
            return f"normal with mean {d.mean[i]:.6g}, deviation {d.deviation[i]:.6g} {interval}"
        if family == HISTOGRAM:
            return f"histogram of {d.first[i + 1] - d.first[i] - 1} bins {interval}"
        return f"{FAMILIES[family]} {interval}"

    def __repr__(self) -> str:
        lines = [f"Readings: {len(self):,} value{'s' * (len(self) != 1)}"]
        shown = range(min(len(self), _MOST_SHOWN))
        lines += [f"  {self.ids[i].as_py()}: {self.describe(i)}" for i in shown]
        if len(self) > _MOST_SHOWN:
            lines.append("  ...")
        return "\n".join(lines)


class Growing:
    """Readings whose intervals grow with the time since their report: see `at`."""

    def __init__(
        self, ids: Any, values: Any, rates: Any, times: Any, domain: tuple[float, float] | None
    ):
        self.ids = _read_ids(ids)
        self.values, self.rates, self.times = (
            _read_numbers(x, name, self.ids)
            for x, name in ((values, "values"), (rates, "rates"), (times, "times"))
        )
        _check(self.ids, self.rates < 0, "the rate is {}, but it must not be negative", self.rates)
        self.domain = None if domain is None else _read_domain(domain)
        if self.domain is not None:
            outside = (self.values < self.domain[0]) | (self.values > self.domain[1])
            _check(
                self.ids, outside, f"the value {{}} is not in the domain {self.domain}", self.values
            )

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, t: float) -> Readings:
        """Return the readings at time t, which must not be before any report."""
        t = read_number(t, "t")
        _check(
            self.ids, self.times > t, f"the report is of time {{}}, after t = {t:.17g}", self.times
        )
        with np.errstate(over="ignore", invalid="ignore"):
            change = np.where(self.rates > 0, self.rates * (t - self.times), 0.0)
        return Readings.uniform(self.ids, *_widen(self.ids, self.values, change, self.domain))

    def __repr__(self) -> str:
        return f"Growing: {len(self):,} value{'s' * (len(self) != 1)}; use .at(time)"


# ------------------------------------------------------------ checks


def _read_ids(source: Any) -> pa.Array:
    """Return ids as an Arrow array: different ones, and no nulls."""
    refuse_spark(source, UncertainError, "ids", ON_SPARK)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise UncertainError(f"ids must be a list or an array, got {source!r}")
    try:
        if isinstance(source, pa.Array | pa.ChunkedArray):
            ids = decode(source)
        elif hasattr(source, "__arrow_c_array__") or hasattr(source, "__arrow_c_stream__"):
            ids = decode(pa.chunked_array(source))
        else:
            ids = pa.array(source if isinstance(source, np.ndarray) else list(source))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UncertainError(f"ids cannot be read: {error}") from None
    if ids.null_count:
        raise UncertainError(f"{ids.null_count:,} ids are null; every reading needs an id")
    _check_distinct(ids)
    return ids


def _check_distinct(ids: pa.Array) -> None:
    try:
        if len(ids) < 2 or pc.count_distinct(ids).as_py() == len(ids):
            return
        counts = pc.value_counts(ids)
    except pa.ArrowException:
        raise UncertainError(f"ids must be texts or numbers, got {ids.type}") from None
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    raise UncertainError(
        f"the id {twice[0].as_py()!r} comes twice; a reading needs an id of its own (keep the last "
        "report of each)"
    )


def _join_ids(a: pa.Array, b: pa.Array) -> pa.Array:
    try:
        joined = pa.concat_arrays([a, b if a.type == b.type else b.cast(a.type)])
    except pa.ArrowException:
        raise UncertainError(f"readings have ids of type {a.type} and of type {b.type}") from None
    _check_distinct(joined)
    return joined


def _read_numbers(source: Any, name: str, ids: pa.Array) -> np.ndarray:
    """Return one finite float64 per id; a single number is that of all."""
    refuse_spark(source, UncertainError, name, ON_SPARK)
    try:
        if hasattr(source, "to_numpy") and not isinstance(source, np.ndarray):
            source = _to_numpy(source)
        array = np.asarray(source)
        if array.dtype.kind not in "fiu" and array.size:
            raise TypeError(f"they are of type {array.dtype}")
        array = array.astype(np.float64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UncertainError(f"{name} must be numbers: {error}") from None
    if array.ndim == 0:
        array = np.full(len(ids), float(array))
    if array.shape != (len(ids),):
        raise UncertainError(
            f"{name} must be one number per id: there are {len(ids):,} ids, but {name} has the "
            f"shape {array.shape}"
        )
    _check(ids, ~np.isfinite(array), f"{name} is {{}}, but it must be finite", array)
    return array


def _to_numpy(source: Any) -> np.ndarray:
    if isinstance(source, pa.Array | pa.ChunkedArray):
        array = decode(source)
        if array.null_count:
            raise TypeError(f"{array.null_count:,} are null")
        return array.to_numpy(zero_copy_only=False)
    return source.to_numpy()


def read_number(value: Any, name: str) -> float:
    """Return a finite number; `name` is that of the argument."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UncertainError(f"{name} must be a number, got {value!r}") from None
    if not np.isfinite(number):
        raise UncertainError(f"{name} must be finite, got {number}")
    return number


def _read_domain(domain: Any) -> tuple[float, float]:
    try:
        low, high = domain
    except (TypeError, ValueError):
        raise UncertainError(f"a domain is (low, high), got {domain!r}") from None
    low, high = (
        read_number(low, "the domain's low end"),
        read_number(high, "the domain's high end"),
    )
    if low > high:
        raise UncertainError(f"the domain ({low}, {high}) is reversed")
    return low, high


def _read_lists(source: Any, name: str, ids: pa.Array, n: int) -> list[np.ndarray]:
    """Return one array per id; a single list of numbers is that of all."""
    refuse_spark(source, UncertainError, name, ON_SPARK)
    if isinstance(source, pa.Array | pa.ChunkedArray):
        source = source.to_pylist()
    try:
        rows = list(source)
        if rows and np.ndim(rows[0]) == 0:
            rows = [rows] * n
        lists = [np.asarray(row, np.float64) for row in rows]
    except (TypeError, ValueError) as error:
        raise UncertainError(f"{name} must be a list of numbers per id: {error}") from None
    if len(lists) != n:
        raise UncertainError(f"{name} must be a list per id: {n:,} ids, but {len(lists):,} lists")
    return lists


def _check_histogram(
    ids: pa.Array, i: int, edges: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of a histogram's support, and the probabilities below them."""
    place = f"reading {ids[i].as_py()!r}"
    if weights.ndim != 1 or edges.ndim != 1 or len(edges) != len(weights) + 1 or not len(weights):
        raise UncertainError(
            f"{place}: a histogram has one edge more than weights; it has {edges.size} edges and "
            f"{weights.size} weights"
        )
    if not np.isfinite(edges).all() or not (edges[1:] > edges[:-1]).all():
        raise UncertainError(
            f"{place}: the edges must be finite and ascend; they are {_show(edges)}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise UncertainError(
            f"{place}: weights must be finite and not negative; they are {_show(weights)}"
        )
    total = float(weights.sum())
    if abs(total - 1) > 1e-9:
        raise UncertainError(
            f"{place}: the weights add up to {total:.12g}, not to 1; divide counts by their sum"
        )
    used = np.flatnonzero(weights)
    first, last = int(used[0]), int(used[-1])
    below = np.concatenate([[0.0], np.cumsum(weights[first : last + 1])])
    return edges[first : last + 2], below / below[-1]


def _check_intervals(ids: pa.Array, low: np.ndarray, high: np.ndarray) -> None:
    _check(ids, low > high, "the interval is reversed: low {} is above high {}", low, high)


def _widen(
    ids: pa.Array, values: np.ndarray, d: np.ndarray, domain: tuple[float, float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        low, high = values - d, values + d
    if domain is not None:
        low, high = np.maximum(low, domain[0]), np.minimum(high, domain[1])
    _check(
        ids, ~np.isfinite(low) | ~np.isfinite(high), "the interval {} +- {} is too wide", values, d
    )
    return low, high


def _check(ids: pa.Array, wrong: np.ndarray, message: str, *values: np.ndarray) -> None:
    """Raise for the first reading that is wrong; the message has a place for each of the values."""
    if wrong.any():
        i = int(wrong.argmax())
        shown = (f"{value[i]:.12g}" for value in values)
        raise UncertainError(f"reading {ids[i].as_py()!r}: {message.format(*shown)}")


def _show(numbers: np.ndarray) -> str:
    shown = ", ".join(f"{x:.6g}" for x in numbers[:_MOST_SHOWN])
    return shown + (", ..." if len(numbers) > _MOST_SHOWN else "")
