"""Files that are written hold the values of all types, as Python's readers see them."""

import base64
import csv
import datetime
import decimal
import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.files.formatting import to_csv, to_json_lines
from tocsin.files.writer import FileWriter, can_be_written

NOON = datetime.datetime(2024, 5, 1, 12, 0, 0, 120000)
UTC = pa.timestamp("us", "UTC")

# Values, and their texts in JSON; in CSV, strings have no quotes of their own.
ATOMS = [
    (
        pa.array([1.0, -2.5, 1e20, 1e-7, -0.0, None]),
        ["1.0", "-2.5", "1e+20", "1e-7", "-0.0", "null"],
    ),
    (pa.array([math.nan, math.inf, -math.inf]), ['"NaN"', '"Infinity"', '"-Infinity"']),
    (pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216.0"]),
    (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", "null"]),
    (pa.array([True, False, None]), ["true", "false", "null"]),
    (pa.array([NOON.date()]), ['"2024-05-01"']),
    (pa.array([NOON]), ['"2024-05-01T12:00:00.120000"']),
    (pa.array([NOON], UTC), ['"2024-05-01T12:00:00.120000Z"']),
    (pa.array([NOON], pa.timestamp("ms", "Europe/Berlin")), ['"2024-05-01T12:00:00.120000Z"']),
    (pa.array([1], pa.timestamp("ns")), ['"1970-01-01T00:00:00.000000"']),
    (pa.array([NOON.time()]), ['"12:00:00.120000"']),
    (pa.array([decimal.Decimal("1.50"), decimal.Decimal("-0.01")]), ["1.50", "-0.01"]),
    (pa.array(["a", None, "", 'q"', "\n\x01"]), ['"a"', "null", '""', '"q\\""', '"\\n\\u0001"']),
    (pa.array(["a", None], pa.large_string()), ['"a"', "null"]),
    (pa.nulls(1), ["null"]),
]


@pytest.mark.parametrize(
    ("values", "texts"), ATOMS, ids=lambda case: str(getattr(case, "type", ""))
)
def test_texts_of_atoms(values, texts):
    lines = to_json_lines(["v"], [values]).to_pybytes().decode()
    assert lines == "".join(f'{{"v":{text}}}\n' for text in texts)
    written = csv.reader(io.StringIO(to_csv([values, values]).to_pybytes().decode(), newline=""))
    expected = ["" if text == "null" else json.loads(text) for text in texts]
    for row, text, value in zip(written, texts, expected, strict=True):
        assert row == [value if isinstance(value, str) else text] * 2


def test_empty_texts_and_nulls_of_csv():
    assert to_csv([pa.array(["", None, "x"])]).to_pybytes() == b'""\n\nx\n'


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_text(texts):
    array = pa.array(texts, pa.string())
    lines = to_json_lines(["a", 'b"\n'], [array, array]).to_pybytes().decode().split("\n")[:-1]
    assert list(map(json.loads, lines)) == [{"a": text, 'b"\n': text} for text in texts]
    written = to_csv([array, array]).to_pybytes().decode()
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows == [[text or ""] * 2 for text in texts]


@given(st.lists(st.floats(), min_size=1), st.sampled_from([np.float64, np.float32]))
def test_any_float_is_read_back(values, type_):
    with np.errstate(over="ignore"):
        array = pa.array(np.array(values).astype(type_))
    for text, value in zip(to_csv([array]).to_pybytes().split(), array.to_pylist(), strict=True):
        read = type_(text)
        assert read == value or math.isnan(value)
        assert math.copysign(1, read) == math.copysign(1, value) or math.isnan(value)
        assert b"." in text or b"e" in text or not math.isfinite(value)


NESTED = {
    "list": pa.array([[1, None], None, []]),
    "large": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "map": pa.array([[("a", 1.5), ('"', None)], None, []], pa.map_(pa.string(), pa.float64())),
    "record": pa.array([{"b": 1, "a": [{"c": 2.5}]}, None, {"b": None, "a": []}]),
    "bytes": pa.array([b"a\xff", None, b""]),
}


@pytest.mark.parametrize("first", [0, 1])
def test_nested_columns_of_json(first):
    columns = [column.slice(first) for column in NESTED.values()]
    lines = to_json_lines(list(NESTED), columns).to_pybytes().decode().split("\n")[:-1]
    rows = pa.Table.from_arrays(columns, list(NESTED)).to_pylist(maps_as_pydicts="strict")
    for line, row in zip(lines, rows, strict=True):
        code = row["bytes"] if row["bytes"] is None else base64.b64encode(row["bytes"]).decode()
        assert json.loads(line) == row | {"bytes": code}
    for column in columns:
        assert not can_be_written(column.type, "csv")
        assert can_be_written(column.type, "json")


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_several_batches(tmp_path, monkeypatch, format):
    monkeypatch.setattr("tocsin.files.writer._ROW_GROUP", 3)
    table = pa.table({"a": range(10), "b, c": [f"text {i}" for i in range(10)]})
    path = tmp_path / "out"
    with FileWriter(path, format, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=2):
            writer.write(batch)
    if format == "parquet":
        assert pq.ParquetFile(path).num_row_groups == 3
        assert pq.read_table(path).equals(table)
    elif format == "csv":
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows == [{k: str(v) for k, v in row.items()} for row in table.to_pylist()]
    else:
        assert [json.loads(line) for line in path.read_text().splitlines()] == table.to_pylist()
