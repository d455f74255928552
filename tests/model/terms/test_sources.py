"""Event columns of any Arrow type become the types in which terms are computed."""

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import sqlglot

from tocsin.errors import EventError
from tocsin.model import terms
from tocsin.model.terms import arrow_type, as_source, nested_type, source_type

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")


def converted(array: object, kind: str, zone: ZoneInfo = UTC) -> list:
    type_ = source_type(kind)
    result = as_source(array, type_, zone)
    assert result.type == arrow_type(type_)
    result.validate(full=True)
    return result.to_pylist()


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
)
def test_integers(type_: pa.DataType) -> None:
    array = pa.array([9, 1, None, 100], type_)
    assert converted(array[1:], "integer") == [1, None, 100]
    assert converted(array, "number") == [9.0, 1.0, None, 100.0]
    assert converted(array, "decimal(10,2)") == [Decimal(9), Decimal(1), None, Decimal(100)]


def test_integers_beyond_bigint_are_refused() -> None:
    with pytest.raises(EventError, match="cannot be read as bigint"):
        converted(pa.array([2**63], pa.uint64()), "integer")
    assert converted(pa.array([2**63 - 1]), "number") == [2.0**63]


def test_encodings() -> None:
    plain = pa.array(["a", None, "b", "b", "a"])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["a", None]))
    assert converted(plain.dictionary_encode()[1:], "category") == [None, "b", "b", "a"]
    assert converted(runs, "category") == ["a", "a", None, None, None]
    assert converted(plain.cast(pa.string_view()), "category") == plain.to_pylist()
    assert converted(pa.chunked_array([plain, plain[:1]]), "category") == [*plain.to_pylist(), "a"]
    assert converted(pa.nulls(2), "number") == [None, None]
    assert converted(pa.array([1.5, None], pa.float32()), "number") == [1.5, None]
    assert converted(pa.array([True, None]), "flag") == [True, None]


def test_times() -> None:
    noon = datetime.datetime(2024, 7, 1, 12)
    at = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
    for unit in ("s", "ms", "us", "ns"):
        naive = pa.array([None, noon], pa.timestamp(unit))
        assert converted(naive, "time") == [None, at]
        assert converted(naive[1:], "time", BERLIN) == [at - datetime.timedelta(hours=2)]
        aware = pa.array([noon, None], pa.timestamp(unit, "America/New_York"))
        assert converted(aware, "time", BERLIN) == [at, None]
    for type_ in (pa.date32(), pa.date64()):
        days = pa.array([noon.date()], type_)
        assert converted(days, "time", BERLIN) == [
            datetime.datetime(2024, 6, 30, 22, tzinfo=datetime.UTC)
        ]
    nano = pa.array([-1, 1999], pa.timestamp("ns"))
    assert [v.timestamp() for v in converted(nano, "time")] == [-1e-6, 1e-6]
    with pytest.raises(EventError, match="cannot be read as timestamp"):
        converted(pa.array([2**62], pa.timestamp("s")), "time")


def test_decimals() -> None:
    for type_ in (pa.decimal128(10, 2), pa.decimal128(5, 1), pa.decimal256(40, 2)):
        array = pa.array([Decimal("1.5"), None], type_)
        assert converted(array, "decimal(10,2)") == [Decimal("1.50"), None]
    with pytest.raises(EventError, match=r"cannot be read as decimal\(10,2\)"):
        converted(pa.array([Decimal("1.555")], pa.decimal128(10, 3)), "decimal(10,2)")


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1.5]), "integer"),
        (pa.array(["1"]), "number"),
        (pa.array([1]), "category"),
        (pa.array([1]), "flag"),
        (pa.array([1]), "time"),
        (pa.array([1.5]), "decimal(3,1)"),
        (pa.array([[1]]), "integer"),
        (pa.array([b"x"]), "category"),
    ],
)
def test_other_types_are_refused(array: pa.Array, kind: str) -> None:
    with pytest.raises(EventError, match="the events' column is of type"):
        converted(array, kind)


def test_structs() -> None:
    type_ = nested_type(
        pa.struct([("a", pa.int64()), ("T", pa.timestamp("us")), ("b", pa.binary())])
    )
    assert str(type_) == "struct<a: bigint, T: timestamp>"
    found = pa.struct([("t", pa.timestamp("s")), ("A", pa.int8()), ("more", pa.string())])
    array = pa.array([{"A": 1}, None, {"A": 2, "t": 60}, {"A": 3}], found)
    at = datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.UTC)
    result = as_source(array[1:], type_, UTC)
    assert result.type == arrow_type(type_)
    result.validate(full=True)
    assert result.to_pylist() == [None, {"a": 2, "T": at}, {"a": 3, "T": None}]
    with pytest.raises(EventError, match="no field 'T'"):
        as_source(pa.array([{"A": 1}]), type_, UTC)


def test_maps() -> None:
    type_ = nested_type(pa.map_(pa.string(), pa.int16()))
    assert str(type_) == "map<string, bigint>"
    values = [[("a", 1)], None, [], [("b", 2), ("c", None)], [("d", 4)]]
    array = pa.array(values, pa.map_(pa.string(), pa.int16()))
    for start, stop in ((0, 5), (1, 4), (3, 5), (2, 2)):
        result = as_source(array[start:stop], type_, UTC)
        assert result.type == arrow_type(type_)
        result.validate(full=True)
        assert result.to_pylist() == values[start:stop]


def test_nested_types_without_usable_fields() -> None:
    assert nested_type(pa.int64()) is None
    assert nested_type(pa.struct([("b", pa.binary())])) is None
    assert nested_type(pa.map_(pa.int64(), pa.string())) is None
    assert nested_type(pa.list_(pa.int64())) is None
    deep = nested_type(
        pa.struct([("s", pa.struct([("x", pa.float32())])), ("l", pa.list_(pa.int8()))])
    )
    assert str(deep) == "struct<s: struct<x: double>>"


def test_kinds() -> None:
    for kind in ("integer", "number", "category", "flag", "time", "decimal(10,2)", "decimal(18,0)"):
        assert source_type(kind).kind == kind
    assert source_type("decimal(19,0)").kind is None
    with pytest.raises(ValueError, match="not a type"):
        source_type("money")
    assert terms.EVALUATOR_VERSION == 2


def test_spark_types() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    struct = types.StructType(
        [
            types.StructField("a", types.IntegerType()),
            types.StructField("d", types.DecimalType(10, 2)),
            types.StructField("m", types.MapType(types.StringType(), types.FloatType())),
            types.StructField("l", types.ArrayType(types.StringType())),
        ]
    )
    assert str(nested_type(struct)) == "struct<a: bigint, d: decimal(10,2), m: map<string, double>>"
    assert nested_type(types.MapType(types.IntegerType(), types.StringType())) is None
    assert nested_type(types.LongType()) is None


@pytest.mark.parametrize("function", ["lower", "upper", "length", "trim", "left", "concat"])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_functions_of_slices(function: str, type_: pa.DataType) -> None:
    texts = [None, *(f"Text {i}" for i in range(50)), None]
    arguments = {"left": "name, 3", "concat": "name, '!'"}.get(function, "name")
    node = sqlglot.parse_one(f"{function}({arguments})", dialect="spark")
    term = terms.read_term(node, {"name": ("name", source_type("category"))}, UTC)

    def compute(array: pa.Array) -> pa.Array:
        source = as_source(array, source_type("category"), UTC)
        (result,) = terms.evaluate([term], lambda _: source, len(array), UTC)
        result.validate(full=True)
        return result

    array = pa.array(texts, type_)
    whole = compute(array).to_pylist()
    for first, length in ((0, 52), (7, 9), (40, 12), (51, 1), (52, 0)):
        part = compute(array.slice(first, length))
        assert part.to_pylist() == whole[first : first + length]
