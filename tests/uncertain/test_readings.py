"""Readings: how they are made, joined, shown, and what is refused."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.uncertain.cases import Histogram, Normal, Point, Uniform, ends, to_readings
from tocsin import UncertainError
from tocsin.uncertain import Growing, Readings


def shown(readings):
    """Return the readings in words, by id."""
    return {id_: readings.describe(i) for i, id_ in enumerate(readings.ids.to_pylist())}


def refused(message):
    return pytest.raises(UncertainError, match=re.escape(message))


# ------------------------------------------------------------ make


def test_uniform():
    readings = Readings.uniform(["a", "b"], [1, 2.5], [3, 2.5])
    assert len(readings) == 2
    assert readings.low.tolist() == [1, 2.5]
    assert readings.high.tolist() == [3, 2.5]
    assert readings.ids.to_pylist() == ["a", "b"]
    assert shown(readings) == {"a": "uniform in [1, 3]", "b": "2.5"}


def test_one_number_is_that_of_all():
    readings = Readings.uniform([1, 2, 3], 0, [1, 2, 3])
    assert readings.low.tolist() == [0, 0, 0]
    assert Readings.within([1, 2], [5, 7], 2).low.tolist() == [3, 5]
    assert Readings.points([1, 2], 4).high.tolist() == [4, 4]
    assert shown(Readings.normal([1], 0, 1, -2, 2)) == {
        1: "normal with mean 0, deviation 1 in [-2, 2]"
    }


def test_normal():
    """A deviation of 0 is a point at the mean, an interval of zero width a point there."""
    readings = Readings.normal(list("abc"), [0, 1, 9], [1, 0, 2], [-1, 0, 3], [2, 5, 3])
    assert shown(readings) == {
        "a": "normal with mean 0, deviation 1 in [-1, 2]", "b": "1", "c": "3",
    }  # fmt: skip
    assert readings.low.tolist() == [-1, 1, 3]
    assert readings.high.tolist() == [2, 1, 3]


def test_histogram():
    readings = Readings.histogram(["a", "b"], [[0, 1, 3], [5, 6]], [[0.25, 0.75], [1]])
    assert shown(readings) == {
        "a": "histogram of 2 bins in [0, 3]", "b": "histogram of 1 bins in [5, 6]",
    }  # fmt: skip
    assert readings.densities.below.tolist() == [0, 0.25, 1, 0, 1]


def test_bins_of_no_weight_at_the_ends_are_dropped():
    readings = Readings.histogram(["a"], [[0, 1, 2, 3, 4, 5]], [[0, 0.5, 0, 0.5, 0]])
    assert (readings.low[0], readings.high[0]) == (1, 4)
    assert shown(readings) == {"a": "histogram of 3 bins in [1, 4]"}


def test_one_list_of_edges_is_that_of_all():
    readings = Readings.histogram(["a", "b"], [0, 1, 2], [[0.5, 0.5], [0, 1]])
    assert readings.low.tolist() == [0, 1]
    assert readings.high.tolist() == [2, 2]


def test_weights_may_add_up_to_almost_one():
    tenths = Readings.histogram(["a"], [list(range(11))], [[0.1] * 10])
    assert tenths.densities.below[-1] == 1
    almost = Readings.histogram(["a"], [[0, 1, 2]], [[0.5, 0.5 + 9e-10]])
    assert almost.densities.below[-1] == 1


def test_within_and_growing():
    assert shown(Readings.within(["a", "b"], [1, 2], [0.5, 0])) == {
        "a": "uniform in [0.5, 1.5]", "b": "2",
    }  # fmt: skip
    growing = Readings.growing(["a", "b", "c"], [1, 5, 9], [0.5, 1, 0], [0, 3, 1])
    assert isinstance(growing, Growing)
    assert len(growing) == 3
    assert shown(growing.at(4)) == {"a": "uniform in [-1, 3]", "b": "uniform in [4, 6]", "c": "9"}
    assert shown(growing.at(3))["b"] == "5"


def test_values_stay_in_the_domain():
    growing = Readings.growing(["a", "b", "c"], [0, 0.5, 1], 0.25, 0, domain=(0, 1))
    assert growing.at(1).low.tolist() == [0, 0.25, 0.75]
    assert growing.at(1).high.tolist() == [0.25, 0.75, 1]
    assert growing.at(100).low.tolist() == [0, 0, 0]
    assert growing.at(100).high.tolist() == [1, 1, 1]
    fast = Readings.growing(["a", "b"], [0, 0.5], [1e300, 0], 0, domain=(0, 1)).at(1e300)
    assert (fast.low.tolist(), fast.high.tolist()) == ([0, 0.5], [1, 0.5])


def test_no_readings_at_all():
    for empty in (
        Readings.points([], []),
        Readings.uniform([], [], []),
        Readings.normal([], [], [], [], []),
        Readings.histogram([], [], []),
        Readings.within([], [], 1),
        Readings.growing([], [], [], []).at(3),
    ):
        assert len(empty) == 0
        assert repr(empty) == "Readings: 0 values"


def test_minus_zero_is_zero():
    readings = Readings.uniform(["a"], -0.0, 0.0) + Readings.points(["b"], [-0.0])
    assert not np.signbit(readings.low).any()
    assert not np.signbit(readings.high).any()


# ------------------------------------------------------------ join, take, find, show

ALL = [
    Uniform(0, 1), Histogram((0, 1, 2, 3), (0.5, 0, 0.5)), Point(2), Normal(0, 1, -1, 1),
    Histogram((4, 5), (1,)), Uniform(2, 7),
]  # fmt: skip
WORDS = [
    "uniform in [0, 1]", "histogram of 3 bins in [0, 3]", "2",
    "normal with mean 0, deviation 1 in [-1, 1]", "histogram of 1 bins in [4, 5]",
    "uniform in [2, 7]",
]  # fmt: skip


def test_families_are_joined():
    parts = [to_readings([density], [i]) for i, density in enumerate(ALL)]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + part
    assert shown(joined) == dict(enumerate(WORDS))
    assert joined.low.tolist() == [ends(density)[0] for density in ALL]
    assert joined.densities.edge.tolist() == [0, 1, 2, 3, 4, 5]
    assert joined.densities.below.tolist() == [0, 0.5, 0.5, 1, 0, 1]
    assert shown(parts[0]) == {0: WORDS[0]}


@pytest.mark.parametrize("positions", [[5, 4, 3, 2, 1, 0], [1], [4, 1], [], [3, 1, 5]])
def test_taking_positions(positions):
    taken = to_readings(ALL).take(positions)
    assert list(shown(taken).items()) == [(i, WORDS[i]) for i in positions]
    expected = to_readings([ALL[i] for i in positions]).densities
    for name in expected._fields:
        assert getattr(taken.densities, name).tolist() == getattr(expected, name).tolist(), name


def test_ids_of_another_type_are_converted_when_joined():
    joined = Readings.points(pa.array(["a"]), [1]) + Readings.points(
        pa.array(["b"], pa.large_string()), [2]
    )
    assert joined.ids.type == pa.string()
    assert joined.ids.to_pylist() == ["a", "b"]


def test_positions_of_ids():
    readings = Readings.points(["a", "b"], [1, 2])
    assert readings.position("b") == 1
    assert Readings.points([10, 20], [1, 2]).position(20) == 1


def test_printing():
    assert repr(to_readings(ALL[:3], "abc")) == (
        "Readings: 3 values\n  a: uniform in [0, 1]\n  b: histogram of 3 bins in [0, 3]\n  c: 2"
    )
    assert repr(Readings.points(["a"], [0.1])) == "Readings: 1 value\n  a: 0.1"
    lines = repr(Readings.points(range(2000), range(2000))).split("\n")
    assert lines[0] == "Readings: 2,000 values"
    assert lines[1] == "  0: 0"
    assert lines[-2:] == ["  7: 7", "  ..."]
    growing = Readings.growing(range(1500), 0, 1, 0)
    assert repr(growing) == "Growing: 1,500 values; use .at(time)"


def test_readings_cannot_be_changed():
    readings = to_readings(ALL)
    with pytest.raises(ValueError, match="read-only"):
        readings.low[0] = 5


# ------------------------------------------------------------ inputs of all kinds

NUMBERS = {
    "list": lambda x: x,
    "tuple": tuple,
    "floats": lambda x: np.array(x, np.float64),
    "small floats": lambda x: np.array(x, np.float32),
    "integers": lambda x: np.array(x, np.int32),
    "unsigned": lambda x: np.array(x, np.uint8),
    "strided": lambda x: np.repeat(np.array(x, float), 2)[::2],
    "reversed": lambda x: np.array(x[::-1], float)[::-1],
    "arrow": lambda x: pa.array(x),
    "arrow floats": lambda x: pa.array(x, pa.float64()),
    "sliced": lambda x: pa.array([9, *x, 9], pa.float64()).slice(1, len(x)),
    "chunked": lambda x: pa.chunked_array([x[:1], [], x[1:]], pa.int64()),
    "dictionary": lambda x: pa.array(x).dictionary_encode(),
    "chunked dictionaries": lambda x: pa.chunked_array(
        [pa.array(x[:1]).dictionary_encode(), pa.array(x[1:]).dictionary_encode()]
    ),
    "pandas": lambda x: pd.Series(x, index=range(5, 5 + len(x))),
    "pandas of Arrow": lambda x: pd.Series(x, dtype="int64[pyarrow]"),
    "polars": lambda x: pl.Series("x", x),
}  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind):
    low, high = NUMBERS[kind]([1, 2, 3]), NUMBERS[kind]([4, 2, 6])
    readings = Readings.uniform(["a", "b", "c"], low, high)
    assert shown(readings) == {"a": "uniform in [1, 4]", "b": "2", "c": "uniform in [3, 6]"}
    assert readings.low.dtype == np.float64


IDS = {
    "list": lambda x: x,
    "range": lambda x: range(3),
    "generator": lambda x: (i for i in x),
    "numpy": np.array,
    "objects": lambda x: np.array(x, object),
    "arrow": pa.array,
    "sliced": lambda x: pa.array(["q", *x, "r"]).slice(1, 3),
    "chunked": lambda x: pa.chunked_array([x[:2], x[2:]]),
    "dictionary": lambda x: pa.array(x).dictionary_encode(),
    "text view": lambda x: pa.array(x, pa.string_view()),
    "pandas": lambda x: pd.Series(x, index=[3, 1, 2]),
    "pandas categories": lambda x: pd.Series(x, dtype="category"),
    "polars": lambda x: pl.Series(x),
    "polars categories": lambda x: pl.Series(x, dtype=pl.Categorical),
    "integers": lambda x: np.array([5, 6, 7], np.int16),
    "dates": lambda x: np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[us]"),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids(kind):
    names = ["x", "y", "z"]
    readings = Readings.points(IDS[kind](names), [1, 2, 3])
    assert isinstance(readings.ids, pa.Array)
    expected = {"range": [0, 1, 2], "integers": [5, 6, 7]}.get(kind, names)
    if kind == "dates":
        expected = IDS[kind](names).tolist()
    assert readings.ids.to_pylist() == expected
    assert readings.position(expected[2]) == 2


LISTS = {
    "lists": lambda x: x,
    "arrays": lambda x: [np.array(row) for row in x],
    "matrix": np.array,
    "arrow": pa.array,
    "chunked": lambda x: pa.chunked_array([x[:1], x[1:]]),
    "polars": lambda x: pl.Series(x),
    "pandas": lambda x: pd.Series(x),
    "tuples": lambda x: tuple(map(tuple, x)),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_histograms(kind):
    edges, weights = [[0.0, 1.0, 2.0], [1.0, 4.0, 5.0]], [[0.5, 0.5], [0.25, 0.75]]
    readings = Readings.histogram(["a", "b"], LISTS[kind](edges), LISTS[kind](weights))
    assert readings.densities.edge.tolist() == [0, 1, 2, 1, 4, 5]
    assert readings.densities.below.tolist() == [0, 0.5, 1, 0, 0.25, 1]


def test_inputs_are_not_changed():
    arrays = {name: np.array(x, float) for name, x in (
        ("low", [1, -0.0, 3]), ("high", [4, -0.0, 6]), ("mean", [2, 2, 2]), ("deviation", [1, 1, 0])
    )}  # fmt: skip
    before = {name: (x.copy(), np.signbit(x)) for name, x in arrays.items()}
    ids, edges, weights = ["a", "b", "c"], [[0.0, 1.0, 2.0]] * 3, [[0.0, 1.0]] * 3
    Readings.uniform(ids, arrays["low"], arrays["high"])
    with pytest.raises(UncertainError):
        Readings.normal(ids, **{k: arrays[k] for k in ("mean", "deviation", "low", "high")})
    Readings.normal(ids[:2], *(arrays[k][:2] for k in ("mean", "deviation", "low", "high")))
    Readings.histogram(ids, edges, weights)
    Readings.growing(ids, arrays["low"], arrays["deviation"], arrays["mean"]).at(9)
    for name, x in arrays.items():
        assert x.tolist() == before[name][0].tolist()
        assert (np.signbit(x) == before[name][1]).all()
        x[:] = 77  # still writable
    assert (ids, edges, weights) == (["a", "b", "c"], [[0.0, 1.0, 2.0]] * 3, [[0.0, 1.0]] * 3)


def test_readings_are_copies():
    low = np.zeros(2)
    readings = Readings.uniform(["a", "b"], low, [1, 1])
    low[:] = 0.5
    assert readings.low.tolist() == [0, 0]


# ------------------------------------------------------------ errors


WRONG_IDS = [
    ("abc", "ids must be a list or an array, got 'abc'"),
    (b"abc", "ids must be a list or an array, got b'abc'"),
    (5, "ids must be a list or an array, got 5"),
    (None, "ids must be a list or an array, got None"),
    ([1, "a", 2], "ids cannot be read: "),
    ([2**70, 1, 2], "ids cannot be read: "),
    (["a", None, None], "2 ids are null; every reading needs an id"),
    (["a", "b", "a"], "the id 'a' comes twice; a reading needs an id of its own (keep the last "
     "report of each)"),
    ([1, 2, 2], "the id 2 comes twice"),
    ([[1], [2], [3]], "ids must be texts or numbers, got list<item: int64>"),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "message"), WRONG_IDS)
def test_wrong_ids(ids, message):
    with refused(message):
        Readings.points(ids, [1, 2, 3])


def test_ids_that_cannot_be_joined():
    points = Readings.points
    with refused("the id 'a' comes twice"):
        points(["a", "b"], 1) + points(["c", "a"], 1)
    with refused("readings have ids of type int64 and of type string"):
        points([1], 1) + points(["x"], 1)
    with pytest.raises(TypeError, match="unsupported operand"):
        points([1], 1) + 2


def test_unknown_ids():
    readings = Readings.points(["boiler", "fan"], 1)
    with refused("no reading has the id 'boilr'; did you mean 'boiler'?"):
        readings.position("boilr")
    with pytest.raises(UncertainError, match=r"^no reading has the id 7$"):
        readings.position(7)
    with refused("no reading has the id None"):
        readings.position(None)


NAN, INF = float("nan"), float("inf")
WRONG_NUMBERS = [
    ([1, 2, 3], "low must be one number per id: there are 2 ids, but low has the shape (3,)"),
    ([[1, 2]], "low must be one number per id: there are 2 ids, but low has the shape (1, 2)"),
    ([1, NAN], "reading 'b': low is nan, but it must be finite"),
    ([-INF, 1], "reading 'a': low is -inf, but it must be finite"),
    (NAN, "reading 'a': low is nan, but it must be finite"),
    (["1", "2"], "low must be numbers: they are of type <U1"),
    ([True, False], "low must be numbers: they are of type bool"),
    ([1, None], "low must be numbers: they are of type object"),
    ([1, 2j], "low must be numbers: they are of type complex128"),
    ([1, [2]], "low must be numbers: "),
    (None, "low must be numbers: "),
    ("1", "low must be numbers: they are of type <U1"),
    (pa.array([1, None]), "low must be numbers: 1 are null"),
    (pa.chunked_array([[1.0], [None]]), "low must be numbers: 1 are null"),
    (pa.array(["a", "b"]), "low must be numbers: they are of type"),
    (pd.Series([1, None]), "reading 'b': low is nan, but it must be finite"),
    (pl.Series(["a", "b"]), "low must be numbers: they are of type"),
    (np.array(["2026-01-01"] * 2, "M8[D]"), "low must be numbers: they are of type datetime64[D]"),
]


@pytest.mark.parametrize(("low", "message"), WRONG_NUMBERS)
def test_wrong_numbers(low, message):
    with refused(message):
        Readings.uniform(["a", "b"], low, [5, 6])


READINGS = {
    "uniform": Readings.uniform, "normal": Readings.normal, "histogram": Readings.histogram,
    "points": Readings.points, "within": Readings.within, "growing": Readings.growing,
}  # fmt: skip
EDGES = "a histogram has one edge more than weights; it has"
WRONG = [
    ("uniform", ([1, 3], [2, 2]), "reading 'b': the interval is reversed: low 3 is above high 2"),
    ("uniform", (0, [1, INF]), "reading 'b': high is inf, but it must be finite"),
    ("points", ([1, NAN],), "reading 'b': values is nan, but it must be finite"),
    ("normal", (0, 1, [0, 2], 1), "reading 'b': the interval is reversed: low 2 is above high 1"),
    ("normal", (0, [1, -2], 0, 1), "reading 'b': the deviation is -2, but it must not be negative"),
    ("normal", (NAN, 1, 0, 1), "reading 'a': mean is nan, but it must be finite"),
    ("normal", (0, INF, 0, 1), "reading 'a': deviation is inf, but it must be finite"),
    ("normal", ([1, 5], 0, 0, 4), "reading 'b': the deviation is 0, so the mean 5 must be within "
     "the interval"),
    ("normal", (0, [1, 1e-9], -1, 1), "reading 'b': an end of the interval is 1000000000 "
     "deviations from the mean; at most 1e8 can be computed with, so check the deviation, or use "
     "a uniform reading"),
    ("normal", (-1e308, 1, 0, 1e308), "reading 'a': an end of the interval is inf deviations"),
    ("histogram", ([[0, 1], [0, 1]], [[1], [0.5, 0.5]]), f"reading 'b': {EDGES} 2 edges and 2"),
    ("histogram", ([[0], [0, 1]], [[], [1]]), f"reading 'a': {EDGES} 1 edges and 0 weights"),
    ("histogram", ([[0, 2, 1]] * 2, [[0.5, 0.5]] * 2), "reading 'a': the edges must be finite and "
     "ascend; they are 0, 2, 1"),
    ("histogram", ([[0, 1, 1]] * 2, [[0.5, 0.5]] * 2), "reading 'a': the edges must be finite and "
     "ascend; they are 0, 1, 1"),
    ("histogram", ([[0, 1], [0, INF]], [[1]] * 2), "reading 'b': the edges must be finite and "
     "ascend; they are 0, inf"),
    ("histogram", ([list(range(9, -1, -1))] * 2, [[0.1] * 9] * 2), "they are 9, 8, 7, 6, 5, 4, 3, "
     "2, ..."),
    ("histogram", ([[0, 1, 2]] * 2, [[1.5, -0.5]] * 2), "reading 'a': weights must be finite and "
     "not negative; they are 1.5, -0.5"),
    ("histogram", ([[0, 1, 2]] * 2, [[0.5, NAN]] * 2), "weights must be finite and not negative; "
     "they are 0.5, nan"),
    ("histogram", ([[0, 1, 2]] * 2, [[0.5, 0.5], [3, 5]]), "reading 'b': the weights add up to 8, "
     "not to 1; divide counts by their sum"),
    ("histogram", ([[0, 1, 2]] * 2, [[0.5, 0.5 + 1e-8]] * 2), "the weights add up to 1.00000001,"),
    ("histogram", ([[0, 1]] * 2, [[0.0]] * 2), "reading 'a': the weights add up to 0, not to 1"),
    ("histogram", ([[0, 1]], [[1], [1]]), "edges must be a list per id: 2 ids, but 1 lists"),
    ("histogram", ([[0, 1]] * 2, [[1]] * 3), "weights must be a list per id: 2 ids, but 3 lists"),
    ("histogram", ([["x", 1]] * 2, [[1]] * 2), "edges must be a list of numbers per id: "),
    ("histogram", ([[0, 1]] * 2, 1), "weights must be a list of numbers per id: "),
    ("within", (1, [1, -1]), "reading 'b': d is -1, but it must not be negative"),
    ("within", (1e308, [1, 1e308]), "reading 'b': the interval 1e+308 +- 1e+308 is too wide"),
    ("growing", (0, [1, -1], 0), "reading 'b': the rate is -1, but it must not be negative"),
    ("growing", (0, 1, NAN), "reading 'a': times is nan, but it must be finite"),
    ("growing", ([0, 2], 1, 0, (0, 1)), "reading 'b': the value 2 is not in the domain (0.0, 1.0)"),
    ("growing", (0, 1, 0, 5), "a domain is (low, high), got 5"),
    ("growing", (0, 1, 0, (1, 2, 3)), "a domain is (low, high), got (1, 2, 3)"),
    ("growing", (0, 1, 0, (1, 0)), "the domain (1.0, 0.0) is reversed"),
    ("growing", (0, 1, 0, ("x", 0)), "the domain's low end must be a number, got 'x'"),
    ("growing", (0, 1, 0, (0, INF)), "the domain's high end must be finite, got inf"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments", "message"), WRONG)
def test_wrong_readings(kind, arguments, message):
    with refused(message):
        READINGS[kind](["a", "b"], *arguments)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("t", "message"),
    [
        (4, "reading 'b': the report is of time 5, after t = 4"),
        ("x", "t must be a number, got 'x'"),
        (None, "t must be a number, got None"),
        (NAN, "t must be finite, got nan"),
        (1e308, "reading 'a': the interval 1 +- inf is too wide"),
    ],
)
def test_wrong_times(t, message):
    growing = Readings.growing(["a", "b"], [1, 2], [10, 1], [0, 5])
    with refused(message):
        growing.at(t)
