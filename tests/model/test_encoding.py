import datetime
import itertools
import math
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import ConditionError
from tocsin.model import encoding
from tocsin.model.categories import Categories
from tocsin.model.columns import CategoryEncoder, write_keys
from tocsin.model.schema import Schema

INT64 = st.integers(-(2**63), 2**63 - 1)
UTC = zoneinfo.ZoneInfo("UTC")


def spark_order(value):
    """Return a sort key for Spark's order: NaN is above everything."""
    return (1, 0.0) if math.isnan(value) else (0, value)


@given(st.lists(st.floats(), min_size=2))
def test_number_keys_have_sparks_order(values):
    for a, b in itertools.pairwise(sorted(values, key=spark_order)):
        assert encoding.number_key(a) <= encoding.number_key(b)
        assert (encoding.number_key(a) == encoding.number_key(b)) == (
            spark_order(a) == spark_order(b)
        )


@given(st.floats())
def test_numbers_round_trip(value):
    key = encoding.number_key(value)
    back = encoding.number_value(key)
    assert back == value or (math.isnan(back) and math.isnan(value))
    assert encoding.LOWEST < key < encoding.HIGHEST


def test_adjacent_numbers_have_adjacent_keys():
    for value in (0.0, 1.0, -1.0, 5e-324, 1e308, -5e-324):
        above = math.nextafter(value, math.inf)
        assert encoding.number_key(above) == encoding.number_key(value) + 1


@given(INT64, INT64)
def test_integer_keys_have_the_order_of_integers(a, b):
    if {a, b} != {encoding.SEAM, encoding.SEAM + 1}:
        assert (encoding.integer_key(a) < encoding.integer_key(b)) == (a < b)
    assert encoding.integer_key(a) > encoding.NULL


@given(INT64)
def test_integers_round_trip(value):
    if value != encoding.SEAM + 1:
        assert encoding.integer_value(encoding.integer_key(value)) == value


@given(INT64 | st.sampled_from([encoding.SEAM + d for d in range(-2, 4)]), INT64)
def test_a_bound_separates_integers_exactly_or_raises(bound, value):
    try:
        key = encoding.least_integer_key(bound)
    except ConditionError:
        assert bound == encoding.SEAM + 1
        return
    for v in (value, bound, bound - 1, encoding.SEAM, encoding.SEAM + 1, -(2**63), 2**63 - 1):
        if -(2**63) <= v < 2**63:
            assert (encoding.integer_key(v) >= key) == (v >= bound)


@given(
    st.floats() | INT64.map(float) | st.sampled_from([2.0**63, -(2.0**63), 2.0**53 + 2]),
    INT64,
)
def test_integers_are_compared_with_doubles_as_doubles(bound, value):
    least, above = encoding.double_cuts(bound)
    near = int(bound) if math.isfinite(bound) else 0
    for v in (value, near - 1, near, near + 1, near + 512, near - 512, -(2**63), 2**63 - 1):
        if -(2**63) <= v < 2**63:
            assert (v >= least) == (spark_order(float(v)) >= spark_order(bound))
            assert (v >= above) == (spark_order(float(v)) > spark_order(bound))


def keys(array, kind, categories=None, timezone="UTC"):
    out = np.empty(len(array), np.int64)
    schema = Schema({"a": kind}, timezone=timezone)
    write_keys(array, kind, schema, CategoryEncoder(categories or Categories()), out, "a")
    return out.tolist()


@given(st.lists(st.floats() | st.none()))
def test_columns_of_numbers(values):
    expected = [encoding.NULL if v is None else encoding.number_key(v) for v in values]
    array = pa.array([0.5, None, *values], pa.float64(), from_pandas=False)
    assert keys(array.slice(2), "number") == expected


@given(st.lists(INT64 | st.none()))
def test_columns_of_integers(values):
    expected = [encoding.NULL if v is None else encoding.integer_key(v) for v in values]
    assert keys(pa.array([None, *values], pa.int64()).slice(1), "integer") == expected


def test_columns_of_other_widths():
    expected = [encoding.integer_key(v) for v in (0, 1, 100)] + [encoding.NULL]
    for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64()):
        assert keys(pa.array([0, 1, 100, None], type_), "integer") == expected
    expected = [encoding.number_key(v) for v in (0.0, 1.0, 100.0)] + [encoding.NULL]
    for type_ in (pa.float16(), pa.float32(), pa.int32(), pa.uint64()):
        assert keys(pa.array([0, 1, 100, None]).cast(type_), "number") == expected
    assert keys(pa.nulls(2), "number") == [encoding.NULL] * 2


def test_columns_of_flags_and_times():
    assert keys(pa.array([True, None, False, True]).slice(1), "flag") == [encoding.NULL, 0, 1]
    moment = datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC)
    key = encoding.to_microseconds(moment, UTC)
    for unit in ("s", "ms", "us", "ns"):
        array = pa.array([moment, None], pa.timestamp(unit, "Europe/Berlin"))
        assert keys(array, "time") == [key, encoding.NULL]
    assert keys(pa.array([1999], pa.timestamp("ns", "UTC")), "time") == [1]
    assert keys(pa.array([-1], pa.timestamp("ns", "UTC")), "time") == [-1]
    assert keys(pa.array([datetime.date(1970, 1, 2)]), "time") == [86_400_000_000]
    local = pa.array([datetime.datetime(2024, 5, 1, 14, 30)], pa.timestamp("us"))
    assert keys(local, "time", timezone="Europe/Berlin") == [key]


@pytest.mark.parametrize("many", [3, 5000])
def test_columns_of_categories(many):
    categories = Categories(f"v{i}" for i in range(10))
    codes = {f"v{i}": i + 1 for i in range(10)}
    values = [f"v{i}" for i in range(many)] + [None, "", "v3"]
    expected = [encoding.NULL if v is None else codes.get(v, encoding.OTHER) for v in values]
    plain = pa.array(values)
    for array in (
        plain,
        plain.cast(pa.large_string()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
        pa.concat_arrays([pa.array(["x", None]), plain]).slice(2),
    ):
        assert keys(array, "category", categories) == expected
    nulls_inside = pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["v1", None]))
    assert keys(nulls_inside, "category", categories) == [2, encoding.NULL, encoding.NULL]
    assert keys(pa.array([], pa.string()), "category", categories) == []
    assert keys(pa.array([None], pa.string()), "category", categories) == [encoding.NULL]
