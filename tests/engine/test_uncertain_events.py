"""Events with densities: in dicts, columns and maps, and what is wrong with them."""

import math

import pyarrow as pa
import pytest

import tocsin
from tests.engine.rooms import DENSITY, rooms


def as_inputs(value):
    """An event with a value of `temp`, as a dict, in a column and in a map; it is event 1."""
    yield [{}, {"temp": value}]
    column = pa.array([None, value])
    yield pa.table({"temp": column})
    yield pa.table({"also": pa.array([[], [("temp", value)]], pa.map_(pa.string(), column.type))})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"low": 2.0, "high": 1.0, "mean": 1.5, "deviation": 1.0}, "low end is above its high end"),
        ({"low": 1.0, "high": 2.0, "mean": 1.5, "deviation": -1.0}, "must not be negative"),
        ({"low": 1.0, "high": 2.0, "mean": math.nan, "deviation": 1.0}, "must be finite"),
        ({"low": 1.0, "high": 2.0, "mean": 1.5, "deviation": math.inf}, "must be finite"),
        ({"low": -math.inf, "high": 2.0, "mean": 1.5, "deviation": 1.0}, "must be finite"),
        ({"low": 1.0, "high": math.nan, "mean": 1.5, "deviation": 1.0}, "the range ends in NaN"),
        ({"low": 1.0, "high": None, "mean": 1.5, "deviation": 1.0}, "the range has only one end"),
        ({"low": None, "high": None, "mean": 1.5, "deviation": 1.0}, "truncated to low and high"),
        ({"low": 1.0, "high": 2.0, "mean": 1.5, "deviation": None}, "has mean and deviation"),
        ({"low": 1.0, "high": 2.0, "mean": 3.0, "deviation": 0.0}, "mean must be within the range"),
        ({"low": 1.0, "high": 2.0, "mean": 0.0, "deviation": 1e-9}, "1e8 deviations"),
        ({"edges": [1.0, 2.0], "weights": [0.5, 0.5]}, "one edge more than weights"),
        ({"edges": [1.0], "weights": []}, "one edge more than weights"),
        ({"edges": [1.0, 2.0], "weights": None}, "a histogram has edges and weights"),
        ({"edges": [1.0, 3.0, 2.0], "weights": [0.5, 0.5]}, "must be finite and ascend"),
        ({"edges": [1.0, 1.0], "weights": [1.0]}, "must be finite and ascend"),
        ({"edges": [1.0, math.nan], "weights": [1.0]}, "must be finite and ascend"),
        ({"edges": [1.0, None], "weights": [1.0]}, "must be finite and ascend"),
        ({"edges": [1.0, 2.0, 3.0], "weights": [1.5, -0.5]}, "must be finite and not negative"),
        ({"edges": [1.0, 2.0, 3.0], "weights": [3.0, 5.0]}, "must add up to 1"),
        ({"edges": [1.0, 2.0], "weights": [0.0]}, "must add up to 1"),
        ({"low": 1.0, "high": 3.0, "edges": [1.0, 2.0], "weights": [1.0]}, "first and last edge"),
        (
            {"low": 1.0, "high": 2.0, "mean": 1.5, "deviation": 1.0, "edges": [1.0, 2.0],
             "weights": [1.0]},
            "mean and deviation, or edges and weights, not all",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rules", [rooms(), tocsin.Rules({"temp": "number"})])
def test_wrong_densities(rules, value, words):
    """Whether or not a rule has a threshold."""
    if not len(rules):
        rules.add("r", "temp > 1")
    for events in as_inputs(value):
        with pytest.raises(tocsin.EventError, match=f"^event 1: attribute 'temp': .*{words}"):
            rules.match(events)


def test_infinite_ranges():
    """They have no probabilities, which matters only to rules with a threshold."""
    endless = {"low": 1.0, "high": math.inf}
    rules = tocsin.Rules({"temp": "number", "other": "number"})
    rules.add("plain", "temp > 3")
    rules.add("likely", "other > 3", at_least=0.5)
    for events in as_inputs(endless):
        if isinstance(events, pa.Table) and "also" not in events.column_names:
            events = events.append_column("other", pa.nulls(2, pa.float64()))
        assert list(rules.match(events)) == [(1, "plain")]
    rules.add("temp too", "temp > 3", at_least=0.5)
    for events in as_inputs(endless):
        if isinstance(events, pa.Table) and "also" not in events.column_names:
            events = events.append_column("other", pa.nulls(2, pa.float64()))
        with pytest.raises(tocsin.EventError, match=r"event 1: attribute 'temp': .* infinite"):
            rules.match(events)
    rules.remove("temp too")
    assert list(rules.match([{"temp": endless}])) == [(0, "plain")]


@pytest.mark.parametrize("kind", ["integer", "time", "decimal(9,2)", "category"])
def test_only_numbers_have_densities(kind):
    rules = tocsin.Rules({"temp": kind})
    rules.add("r", "temp IS NOT NULL")
    density = {"low": 1, "high": 2, "mean": 1.5, "deviation": 1.0}
    for events in as_inputs(density):
        with pytest.raises(tocsin.EventError, match=r"'temp'.*only (numbers|integers, decimals)"):
            rules.match(events)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"low": "a", "high": "b", "mean": 1, "deviation": 1}, "number"),
        ({"edges": 1.0, "weights": [1.0]}, "list"),
        ({"edges": ["a"], "weights": [1.0]}, "number"),
        ({"low": 1, "high": 2, "mean": 1}, "range is a"),
        ({"mean": 1, "deviation": 2}, "range is a"),
    ],
)
def test_wrong_fields(value, words):
    for events in as_inputs(value):
        with pytest.raises(tocsin.EventError, match=f"'temp'.*{words}"):
            rooms().match(events)


def test_terms_are_not_defined_for_densities():
    rules = tocsin.Rules({"temp": "number"})
    rules.add("hot", "temp * 1.8 > 70", at_least=0.8)
    assert len(rules.match({"temp": 60})) == 1
    for events in as_inputs({"low": 1.0, "high": 2.0, "mean": 1.0, "deviation": 1.0}):
        with pytest.raises(tocsin.EventError, match="which is not defined for ranges"):
            rules.match(events)


def test_a_density_without_width_is_a_point():
    rules = tocsin.Rules({"temp": "number"})
    rules.add("is", "temp = 2", at_least=1)
    points = [
        {"low": 2, "high": 2, "mean": 5, "deviation": 1},
        {"low": 1, "high": 3, "mean": 2, "deviation": 0},
        {"low": 2, "high": 2},
    ]
    assert len(rules.match([{"temp": point} for point in points])) == 3
    assert len(rules.match(pa.table({"temp": pa.array(points, DENSITY)}))) == 3


def test_the_last_of_several_values_counts():
    """Names are case-insensitive, and several maps may have an attribute."""
    rules = tocsin.Rules({"temp": "number"})
    rules.add("low", "temp < 2", at_least=0.5)
    density = {"edges": [0.0, 2.0, 10.0], "weights": [0.9, 0.1]}
    uniform = {"low": 0.0, "high": 10.0}
    assert len(rules.match({"TEMP": uniform, "temp": density})) == 1
    assert len(rules.match({"TEMP": density, "temp": uniform})) == 0
    assert len(rules.match({"TEMP": density, "temp": 9.0})) == 0
    a = pa.array([[("temp", density)]], pa.map_(pa.string(), pa.array([density]).type))
    b = pa.array([[("temp", uniform)]], pa.map_(pa.string(), pa.array([uniform]).type))
    assert len(rules.match(pa.table({"a": a, "b": b}))) == 0
    assert len(rules.match(pa.table({"a": b, "b": a}))) == 1


def test_integers_and_float32_in_densities():
    type_ = pa.struct([("low", pa.int32()), ("high", pa.float32()), ("mean", pa.int8()),
                       ("deviation", pa.uint16())])  # fmt: skip
    column = pa.array([{"low": 18, "high": 26, "mean": 22, "deviation": 1}], type_)
    assert list(rooms().match(pa.table({"temp": column})).sorted()) == [(0, "cool"), (0, "perhaps")]
    lists = pa.struct(
        [("edges", pa.large_list(pa.int64())), ("weights", pa.list_(pa.float32(), 2))]
    )
    column = pa.array([{"edges": [18, 20, 25], "weights": [0.0, 1.0]}], lists)
    assert list(rooms().match(pa.table({"temp": column})).sorted()) == [(0, "cool"), (0, "perhaps")]


def test_columns_in_chunks_and_slices():
    values = [
        {"edges": [20.0, 25.0], "weights": [1.0]},
        None,
        {"low": 18.0, "high": 26.0, "mean": 22.0, "deviation": 0.5},
        {"low": 18.0, "high": 26.0},
    ] * 3
    whole = pa.table({"temp": pa.array(values, DENSITY)})
    chunks = pa.concat_tables([whole.slice(0, 5), whole.slice(5)])
    expected = list(rooms().match(whole).sorted())
    assert expected[:5] == [
        (0, "cool"),
        (0, "perhaps"),
        (2, "cool"),
        (2, "perhaps"),
        (3, "perhaps"),
    ]
    assert list(rooms().match(chunks).sorted()) == expected
    later = [(e - 2, r) for e, r in expected if e >= 2]
    assert list(rooms().match(whole.slice(2)).sorted()) == later


def test_a_schema_of_columns_with_densities():
    numbers = pa.list_(pa.float64())
    normal = [(n, pa.float64()) for n in ("low", "high", "mean", "deviation")]
    schema = tocsin.Schema(
        pa.schema(
            [
                ("normal", pa.struct(normal)),
                ("histogram", pa.struct([("edges", numbers), ("weights", numbers)])),
                ("any", DENSITY),
                ("integers", pa.struct([(n, pa.int64()) for n, _ in normal])),
                ("texts", pa.struct([(n, pa.string()) for n, _ in normal])),
                ("scalars", pa.struct([("edges", pa.float64()), ("weights", pa.float64())])),
                ("partly", pa.struct(normal[:3])),
            ]
        )
    )
    assert {name: schema.kind(name) for name in schema} == dict.fromkeys(
        ["normal", "histogram", "any", "integers"], "number"
    )
    assert set(schema.nested) == {"texts", "scalars", "partly"}


@pytest.mark.parametrize("bins", [8, 16])
def test_ranges_of_subnormal_width(bins):
    """Half of the least float is 0: the share of a part must not be computed from halves."""
    least = 5e-324
    for low in (0.0, -least, 4 * least):
        high, part = low + bins * least, 3 * least
        for more in (0.0, 0.01):
            rules = tocsin.Rules({"x": "number"})
            rules.add(0, f"x < {low + part!r}", at_least=3 / bins + more)
            rules.add(1, f"x < {low + part!r} OR x > {high - part!r}", at_least=6 / bins + more)
            expected = [] if more else [0, 1]
            plain = {"x": {"low": low, "high": high}}
            binned = {"x": {"edges": [low, high], "weights": [1.0]}}
            for event in (plain, binned):
                assert rules.match(event).rules.tolist() == expected, (low, event)
