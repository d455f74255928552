"""Densities in events: how an uncertain number is distributed within its range.

A range of `low` and `high` alone is uniform. With `mean` and `deviation` it is a normal
distribution truncated to the range; `edges` and `weights`, two lists, are a histogram, whose range
is that of its bins with weight. In a column some values may have one density and some another: the
fields of the others are null. Only numbers have densities other than the uniform one.

Rules without a threshold (`at_least`) use the range alone, as that of any other range. So values
are always checked, but their densities are kept only if some rule has a threshold
(`DensityCollector`), beside the keys of a block and by event. Columns of plain ranges need nothing:
their keys say all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.jit import Float64Out, Float64s, Int32s, Int64s, freeze_fields, kernel
from tocsin.model.arrow import decode, to_python, values_of
from tocsin.model.columns import write_number_keys
from tocsin.model.encoding import NULL, number_key
from tocsin.model.keys import Keys, slice_keys
from tocsin.model.schema import HISTOGRAM, NORMAL, RANGE, Schema

_MOST_DEVIATIONS = 1e8  # from the mean to an end, as in `uncertain.Readings.normal`
_TOLERANCE = 1e-9  # of the sum of a histogram's weights, as there

# What is wrong with a histogram.
_SIZES, _EDGES, _WEIGHTS, _SUM = range(4)
_MESSAGES = {
    _SIZES: "a histogram has one edge more than weights, and at least one weight",
    _EDGES: "the edges of a histogram must be finite and ascend",
    _WEIGHTS: "the weights of a histogram must be finite and not negative",
    _SUM: "the weights of a histogram must add up to 1; divide counts by their sum",
}

Describe = Callable[[int], str]  # the name of the value at an index, for messages


class EventDensities(NamedTuple):
    """The densities of uncertain values in a block of n events; v in all.

    Of several densities of one attribute of an event, the last counts. A density with neither a
    deviation nor edges is uniform.
    """

    offsets: Int64s  # [n + 1] the densities of event e are offsets[e] to offsets[e + 1]
    attribute: Int32s  # [v]
    low: Float64s  # [v] the values are within [low, high]
    high: Float64s  # [v]
    mean: Float64s  # [v] of a normal, before it is truncated; else 0
    deviation: Float64s  # [v]
    first: Int64s  # [v + 1] where the edges of a histogram begin
    edge: Float64s  # [edges]
    below: Float64s  # [edges] the probability of a value below that edge, from 0 to 1

    def of_events(self, first: int, stop: int) -> EventDensities:
        """Return the densities of the events from `first` up to `stop`."""
        return self._replace(offsets=self.offsets[first : stop + 1])


class EventBlock(NamedTuple):
    """A block of events."""

    keys: Keys
    densities: EventDensities | None  # None if all ranges are uniform, or no rule has a threshold

    def of_events(self, first: int, stop: int) -> EventBlock:
        """Return the events from `first` up to `stop`."""
        densities = self.densities and self.densities.of_events(first, stop)
        return EventBlock(slice_keys(self.keys, first, stop), densities)


class ValueDensities(NamedTuple):
    """The densities of v ranges in an array."""

    indices: np.ndarray  # [v] into the array, ascending
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    sizes: np.ndarray  # [v] edges of each histogram
    edge: np.ndarray
    below: np.ndarray


class Density(NamedTuple):
    """The density of one value, which is not uniform."""

    low: float
    high: float
    mean: float  # 0 for a histogram
    deviation: float
    edges: list[float]  # empty for a normal
    below: list[float]


def join_densities(densities: Sequence[Density]) -> ValueDensities:
    """Return the densities of an array of values."""
    low, high, mean, deviation, edges, below = zip(*densities, strict=True)
    return ValueDensities(
        np.arange(len(densities)),
        np.array(low, np.float64),
        np.array(high, np.float64),
        np.array(mean, np.float64),
        np.array(deviation, np.float64),
        np.array([len(each) for each in edges], np.int64),
        np.array([x for each in edges for x in each], np.float64),
        np.array([x for each in below for x in each], np.float64),
    )


class DensityCollector:
    """Collects the densities of a block's events, attribute by attribute."""

    def __init__(self) -> None:
        self._events: list[np.ndarray] = []
        self._attributes: list[np.ndarray] = []
        self._densities: list[ValueDensities] = []

    def add(self, events: np.ndarray, attributes: np.ndarray, densities: ValueDensities) -> None:
        """Add the densities of an array; `events` and `attributes` are those of its values."""
        if len(densities.indices):
            self._events.append(events[densities.indices])
            self._attributes.append(attributes[densities.indices])
            self._densities.append(densities)

    def build(self, size: int) -> EventDensities | None:
        """Return the densities of all events of a block, or None if there are none."""
        if not self._events:
            return None
        joined = self._densities[0]._asdict()
        if len(self._densities) > 1:
            joined = {
                name: np.concatenate([getattr(each, name) for each in self._densities])
                for name in ValueDensities._fields
            }
        events = np.concatenate(self._events)
        order = np.argsort(events, kind="stable")
        starts = np.cumsum(joined["sizes"]) - joined["sizes"]
        sizes = joined["sizes"][order]
        first = np.concatenate([[0], np.cumsum(sizes)])
        edges = np.repeat(starts[order] - first[:-1], sizes) + np.arange(first[-1])
        return freeze_fields(
            EventDensities,
            offsets=np.searchsorted(events[order], np.arange(size + 1)),
            attribute=np.concatenate(self._attributes)[order],
            first=first,
            edge=joined["edge"][edges],
            below=joined["below"][edges],
            **{name: joined[name][order] for name in ("low", "high", *NORMAL)},
        )


# ------------------------------------------------------------ reading

_NUMBERS = pa.list_(pa.float64())
_TYPE = pa.struct(
    [(name, pa.float64()) for name in (*RANGE, *NORMAL)] + [(name, _NUMBERS) for name in HISTOGRAM]
)


def density_of_dict(value: Mapping[str, Any]) -> pa.Array:
    """Return the only value of a dict as an array; raise a ValueError if its types are wrong."""
    try:
        return pa.array([value], _TYPE)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        what = "its fields must be numbers, and edges and weights lists of numbers"
        raise ValueError(f"{what} ({error})") from None


def read_usual_density(value: Mapping[str, Any]) -> tuple[int, int, Density | None] | None:
    """Return the keys of the ends and the density of a value, if it has one with usual numbers.

    Otherwise, also if something is wrong with it, return None: `write_density_keys` reads it, and
    has the messages. Arrays for a single value would take a hundred times longer.
    """
    if len(value) == 4 and "mean" in value:
        numbers: list[Any] = [value.get(name) for name in (*RANGE, *NORMAL)]
        if not all(map(_is_usual, numbers)):
            return None
        low, high, mean, deviation = map(float, numbers)
        if deviation <= 0 or low > high:
            return None
        if low < high and max(abs(low - mean), abs(high - mean)) / deviation > _MOST_DEVIATIONS:
            return None
        keys = number_key(low), number_key(high)
        return *keys, Density(low, high, mean, deviation, [], []) if low < high else None
    edges, weights = value.get("edges"), value.get("weights")
    if len(value) != 2 or type(edges) is not list or type(weights) is not list:
        return None
    if len(edges) != len(weights) + 1 or not all(map(_is_usual, edges + weights)):
        return None
    edges = [float(edge) for edge in edges]
    bottom, top, total, below = math.nan, math.nan, 0.0, []
    for weight, edge, next_edge in zip(weights, edges, edges[1:], strict=False):
        if weight < 0 or edge >= next_edge:
            return None
        below.append(total)
        total += weight
        if weight > 0:
            bottom, top = edge if bottom != bottom else bottom, next_edge
    if not abs(total - 1) <= _TOLERANCE:
        return None
    below = [share / total for share in below] + [1.0]
    density = Density(edges[0], edges[-1], 0.0, 0.0, edges, below)
    return number_key(bottom), number_key(top), density


def _is_usual(number: Any) -> bool:
    """Return whether a number is finite, and of a type that becomes a float without an error."""
    if type(number) is int:
        return abs(number) <= 2**53  # Arrow refuses greater ones
    return type(number) is float and math.isfinite(number)


class _Numbers(NamedTuple):
    """A field of n values."""

    values: np.ndarray  # [n] float64, NaN where it is null
    is_given: np.ndarray  # [n]


class _Lists(NamedTuple):
    """A field of n lists."""

    offsets: np.ndarray  # [n + 1] int64; a null has no items
    items: np.ndarray  # float64, NaN where it is null
    is_given: np.ndarray  # [n]

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last item of each list, NaN where it has none."""
        items = np.concatenate([self.items, [np.nan]])
        begin, end = self.offsets[:-1], self.offsets[1:]
        none, last = begin == end, len(self.items)
        return items[np.where(none, last, begin)], items[np.where(none, last, end - 1)]


def write_density_keys(
    array: pa.StructArray, out: np.ndarray, describe: Describe
) -> tuple[np.ndarray, ValueDensities]:
    """Write the keys of the low ends; return those of the high ends, and the densities.

    A normal without deviation is its mean.
    """
    n = len(array)
    fields = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    low, high, mean, deviation = (_read_numbers(fields.get(x), n) for x in (*RANGE, *NORMAL))
    edges, weights = (_read_lists(fields.get(x), n) for x in HISTOGRAM)
    is_histogram, is_normal = edges.is_given | weights.is_given, mean.is_given | deviation.is_given
    has_range = low.is_given & high.is_given

    def check(bad: np.ndarray, reason: str) -> None:
        if bad.any():
            i = int(np.argmax(bad))
            raise EventError(f"{describe(i)}: {reason}; got {_show(to_python(array[i]))}")

    check(is_histogram & is_normal, "a value has mean and deviation, or edges and weights, not all")
    check(edges.is_given != weights.is_given, "a histogram has edges and weights")
    check(mean.is_given != deviation.is_given, "a normal distribution has mean and deviation")
    check(low.is_given != high.is_given, "the range has only one end")
    check(is_normal & ~has_range, "a normal distribution is truncated to low and high: give both")
    is_nan = np.isnan(low.values) | np.isnan(high.values)
    check(has_range & is_nan, "the range ends in NaN")
    check(low.values > high.values, "the range's low end is above its high end")
    is_exact = _check_normals(
        is_normal, low.values, high.values, mean.values, deviation.values, check
    )

    below, used_low, used_high = np.empty(len(edges.items)), np.empty(n), np.empty(n)
    wrong = measure_histograms(
        edges.offsets, edges.items, weights.offsets, weights.items, below, used_low, used_high
    )
    if wrong >= 0:
        check(np.arange(n) == wrong >> 2, _MESSAGES[wrong & 3])
    first, last = edges.ends()
    check(
        is_histogram & has_range & ((low.values != first) | (high.values != last)),
        "low and high of a histogram are its first and last edge, or left out",
    )

    high_keys = np.empty(n, np.int64)
    for given, used, keys in ((low, used_low, out), (high, used_high, high_keys)):
        ends = np.where(is_histogram, used, np.where(is_exact, mean.values, given.values))
        write_number_keys(ends, keys)
        keys[~(is_histogram | has_range)] = NULL
    rows = np.flatnonzero(out < high_keys)
    return high_keys, ValueDensities(
        rows,
        np.where(is_histogram, first, low.values)[rows],
        np.where(is_histogram, last, high.values)[rows],
        np.where(is_normal, mean.values, 0.0)[rows],
        np.where(is_normal, deviation.values, 0.0)[rows],
        np.diff(edges.offsets)[rows],
        edges.items,  # all are of these rows: a histogram is no point
        below,
    )


def _check_normals(
    is_normal: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    check: Callable[[np.ndarray, str], None],
) -> np.ndarray:
    """Check normal distributions; return which of them are their mean."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        is_finite = np.isfinite([low, high, mean, deviation]).all(axis=0)
        check(is_normal & ~is_finite, "all numbers of a normal distribution must be finite")
        check(deviation < 0, "the deviation must not be negative")
        is_exact = is_normal & (deviation == 0)
        check(
            is_exact & ((mean < low) | (mean > high)),
            "the deviation is 0, so the mean must be within the range",
        )
        farthest = np.maximum(np.abs(low - mean), np.abs(high - mean)) / deviation
        check(
            is_normal & ~is_exact & (low < high) & ~(farthest <= _MOST_DEVIATIONS),
            "an end of the range is more than 1e8 deviations from the mean, too far to compute "
            "with; check the deviation",
        )
    return is_exact


@kernel
def measure_histograms(
    edge_offsets: Int64s,
    edges: Float64s,
    weight_offsets: Int64s,
    weights: Float64s,
    below: Float64Out,
    low: Float64Out,
    high: Float64Out,
) -> int:
    """Write the probability below each edge, and the ends of the bins that have weight.

    Return -1, or four times the index of the first wrong histogram plus what is wrong. A value
    without edges and weights is no histogram: its ends are NaN.
    """
    for i in range(low.shape[0]):
        begin, end = edge_offsets[i], edge_offsets[i + 1]
        first, bins = weight_offsets[i], weight_offsets[i + 1] - weight_offsets[i]
        low[i] = high[i] = np.nan
        if begin == end and bins == 0:
            continue
        if bins == 0 or end - begin != bins + 1:
            return 4 * i + _SIZES
        total = 0.0
        for j in range(bins):
            edge, next_edge, weight = edges[begin + j], edges[begin + j + 1], weights[first + j]
            if not (np.isfinite(edge) and np.isfinite(next_edge) and edge < next_edge):
                return 4 * i + _EDGES
            if not (np.isfinite(weight) and weight >= 0):
                return 4 * i + _WEIGHTS
            below[begin + j] = total
            total += weight
            if weight > 0:
                low[i] = edge if low[i] != low[i] else low[i]
                high[i] = next_edge
        if not abs(total - 1) <= _TOLERANCE:
            return 4 * i + _SUM
        for j in range(bins):
            below[begin + j] /= total
        below[end - 1] = 1.0
    return -1


def _read_numbers(array: pa.Array | None, n: int) -> _Numbers:
    if array is None or t.is_null(array.type):
        return _Numbers(np.full(n, np.nan), np.zeros(n, bool))
    is_given = np.asarray(array.is_valid())
    values = values_of(decode(array)).astype(np.float64)
    return _Numbers(np.where(is_given, values, np.nan), is_given)


def _read_lists(array: pa.Array | None, n: int) -> _Lists:
    if array is None or t.is_null(array.type):
        return _Lists(np.zeros(n + 1, np.int64), np.empty(0), np.zeros(n, bool))
    lengths = np.asarray(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    items = array.flatten()  # without those of nulls
    numbers = _read_numbers(items, len(items)).values
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return _Lists(offsets, numbers, np.asarray(array.is_valid()))


def _show(value: Any) -> str:
    """Return a value as it was given, without fields that are null."""
    return repr({name: each for name, each in (value or {}).items() if each is not None})


# ------------------------------------------------------------ plain ranges


def uniform_densities(low: np.ndarray, high: np.ndarray) -> ValueDensities:
    """Return the densities of plain ranges, given by keys: all are uniform."""
    indices = np.flatnonzero(low < high)
    zeros = np.zeros(len(indices))
    none = zeros[:0]
    return ValueDensities(indices, zeros, zeros, zeros, zeros, zeros.astype(np.int64), none, none)


INFINITE = number_key(-np.inf), number_key(np.inf)


def check_ends(
    schema: Schema,
    attributes: Any,
    low: np.ndarray,
    high: np.ndarray,
    uncertain: Callable[[], set[int]],
    describe: Describe,
) -> None:
    """Raise if a rule with a threshold tests a range that is infinite.

    Ranges are given by keys. Their attributes are all of one kind. `uncertain` returns the
    attributes that rules with a threshold test.
    """
    if not len(low) or schema.kind(int(attributes[0])) != "number":
        return
    infinite = ((low == INFINITE[0]) | (high == INFINITE[1])) & (low < high)
    if infinite.any():
        infinite &= np.isin(attributes, list(uncertain()))
        if infinite.any():
            raise EventError(
                f"{describe(int(np.argmax(infinite)))}: the range is infinite, so its values have "
                "no probabilities, but a rule with at_least tests them; give finite ends"
            )
