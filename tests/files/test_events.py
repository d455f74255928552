"""Files of events: what types columns have, how files are streamed, and what errors tell."""

import csv
import datetime
import decimal
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import EventError
from tocsin.files.events import open_events
from tocsin.files.rules import read_schema
from tocsin.model.schema import Schema

TIME = pa.timestamp("us", "UTC")
UTC = datetime.UTC
NOTHING = Schema({})


def read(path, declared=(), known=(), columns=None, block=None, files=None):
    """Return the rows of files of events as one table, and the number of batches."""
    format = {".csv": "csv", ".jsonl": "json", ".parquet": "parquet"}[path.suffix]
    with pytest.MonkeyPatch.context() as patch:
        if block is not None:
            patch.setattr(f"tocsin.files.{format}_files._BLOCK", block)
        files = files or [path]
        events = open_events(
            files, format, Schema(dict(declared)), Schema(dict(known)), lambda count: None
        )
        names = events.schema.names if columns is None else columns
        batches = [batch for file in files for batch in events.batches(file, names)]
    schema = pa.schema([f for f in events.schema if f.name in names])
    return pa.Table.from_batches(batches, schema), len(batches)


def error_of(*args, **kwargs):
    with pytest.raises(EventError) as caught:
        read(*args, **kwargs)
    return str(caught.value)


def write(folder, content, suffix="csv"):
    path = folder / f"events.{suffix}"
    path.write_text(content)
    return path


def write_lines(folder, rows):
    return write(folder, "".join(json.dumps(row) + "\n" for row in rows), "jsonl")


# ------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("texts", "type_", "values"),
    [
        (["5", "-7", ""], pa.int64(), [5, -7, None]),
        (["5", "2.5", "1e3"], pa.float64(), [5.0, 2.5, 1000.0]),
        (["true", "False"], pa.bool_(), [True, False]),
        (["2024-05-01"], pa.date32(), [datetime.date(2024, 5, 1)]),
        (
            ["2024-05-01T12:00", "2024-05-01 13:00:00.25"],
            TIME,
            [
                datetime.datetime(2024, 5, 1, 12, tzinfo=UTC),
                datetime.datetime(2024, 5, 1, 13, 0, 0, 250_000, UTC),
            ],
        ),
        (["2024-05-01T12:00:00+02:00"], TIME, [datetime.datetime(2024, 5, 1, 10, tzinfo=UTC)]),
        (["5", "NA"], pa.string(), ["5", "NA"]),
        (["12:30", "13:00"], pa.string(), ["12:30", "13:00"]),
        (["", '""'], pa.string(), [None, None]),
    ],
)
def test_types_that_arrow_infers_from_csv(tmp_path, texts, type_, values):
    path = write(tmp_path, "row,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(texts)))
    table, _ = read(path)
    assert table.schema.field("v").type == type_
    assert table["v"].to_pylist() == values


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([1, None, 2.5], pa.float64(), [1.0, None, 2.5]),
        (
            ["2024-05-01T12:00:00.5Z", None],
            TIME,
            [datetime.datetime(2024, 5, 1, 12, 0, 0, 500000, UTC)],
        ),
        (["2024-05-01", "12:30"], pa.string(), ["2024-05-01", "12:30"]),
        (["2024-05-01T12:00:00.123456789"], pa.string(), ["2024-05-01T12:00:00.123456789"]),
        ([None, None], pa.string(), [None, None]),
        ([[None], []], pa.list_(pa.string()), [[None], []]),
        (
            [{"b": "2024-05-01", "a": [1]}, {"b": None}],
            pa.struct([("a", pa.list_(pa.int64())), ("b", TIME)]),
            [{"a": [1], "b": datetime.datetime(2024, 5, 1, tzinfo=UTC)}, {"a": None, "b": None}],
        ),
    ],
)
def test_types_that_arrow_infers_from_json(tmp_path, values, type_, expected):
    table, _ = read(write_lines(tmp_path, [{"v": value} for value in values]))
    assert table.schema.field("v").type == type_
    assert table["v"].to_pylist()[: len(expected)] == expected


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_rules_schema_decides_and_a_declaration_before_it(tmp_path, suffix):
    rows = [{"Code": 7, "x": 1, "y": 2}, {"Code": 8, "x": None, "y": 3}]
    if suffix == "csv":
        path = write(tmp_path, "Code,x,y\n7,1,2\n8,,3\n")
    else:
        path = write_lines(tmp_path, rows)
    known = {"code": "category", "x": "number", "other": "flag"}
    table, _ = read(path, known=known)
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "Code": pa.string(),
        "x": pa.float64(),
        "y": pa.int64(),
    }
    assert table["Code"].to_pylist() == ["7", "8"]
    table, _ = read(path, declared={"code": "integer", "y": "number"}, known=known)
    assert table["Code"].to_pylist() == [7, 8]
    assert table["y"].to_pylist() == [2.0, 3.0]
    assert "declares 'z', but the events have no such column" in error_of(path, {"z": "number"})


def test_parquet_has_its_own_types(tmp_path):
    columns = {
        "i8": pa.array([1, None], pa.int8()),
        "texts": pa.array(["a", None]).dictionary_encode(),
        "at": pa.array([1, None], pa.timestamp("ns")),
        "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(21, 2)),
    }
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table(columns), path)
    table, _ = read(path, known={"i8": "number", "price": "number"})
    assert table.schema.types == [pa.int8(), pa.string(), pa.timestamp("ns"), pa.decimal128(21, 2)]
    table, _ = read(path, {"i8": "category", "price": "number", "texts": "category"})
    assert table.to_pylist()[0]["i8"] == "1"
    assert table.to_pylist()[0]["price"] == 1.5


def test_declared_kinds_of_parquet(tmp_path):
    exact = decimal.Decimal
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=UTC)
    cases = [
        ([exact("99.99"), None], "number", [99.99, None]),
        ([exact("2.00"), None], "integer", [2, None]),
        ([2.0, None], "integer", [2, None]),
        ([2**60 + 1, None], "number", [float(2**60), None]),
        ([0.1, 1.005, None], "decimal(9,2)", [exact("0.10"), exact("1.01"), None]),
        ([" 1.5 ", "NaN"][:1], "number", [1.5]),
        (["9.995"], "decimal(9,2)", [exact("10.00")]),
        ([True, None], "category", ["true", None]),
        ([1714564800, None], "time", [noon, None]),
        ([noon.date(), None], "time", [noon.replace(hour=0), None]),
        (["2024-05-01T12:00", "2024-05-01 14:00:00+02:00"], "time", [noon, noon]),
        ([{"low": exact(1), "high": None}], "number", [{"low": 1.0, "high": None}]),
    ]
    columns = {f"c{i}": values for i, (values, _, _) in enumerate(cases)}
    for i, (name, values) in enumerate(columns.items()):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({name: values}), path)
        table, _ = read(path, {name: cases[i][1]})
        assert table[name].to_pylist() == cases[i][2], cases[i]


def test_declared_decimals_are_exact(tmp_path):
    texts = ["9.99", "-0.01", "", "1e3", ".5", "9.995", "-9.995", "9999999999.99"]
    exact = ["9.99", "-0.01", None, "1000.00", "0.50", "10.00", "-10.00", "9999999999.99"]
    expected = [text and decimal.Decimal(text) for text in exact]
    csv_file = write(tmp_path, "row,p\n" + "".join(f"1,{text}\n" for text in texts))
    json_file = tmp_path / "e.jsonl"
    numbers = [text.replace(".5", "0.5") if text == ".5" else text or "null" for text in texts]
    json_file.write_text("".join(f'{{"p": {number}}}\n' for number in numbers))
    for path in (csv_file, json_file):
        table, _ = read(path, {"p": "decimal(12,2)"})
        assert table["p"].to_pylist() == expected
    for large in ("9999999999.995", "340282366920938463463374607431768211456", "1" * 50):
        csv_file.write_text(f"row,p\n1,1\n2,{large}\n")
        json_file.write_text(f'{{"p": 1}}\n{{"p": {large}}}\n')
        place = "declared as decimal(12,2), but has the value"
        assert f"row 2: column 'p' is {place}" in error_of(csv_file, {"p": "decimal(12,2)"})
        assert f"line 2: column 'p' is {place}" in error_of(json_file, {"p": "decimal(12,2)"})


# ------------------------------------------------------------ streams

LARGE = [{"n": n, "x": n / 2, "text": f"text {n}"} for n in range(1000)]


def write_csv_rows(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files_are_read_in_several_batches(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"e.{suffix}"
    if suffix == "csv":
        write_csv_rows(path, LARGE)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in LARGE))
    else:
        pq.write_table(pa.Table.from_pylist(LARGE), path, row_group_size=100)
        monkeypatch.setattr("tocsin.files.parquet_files._BATCH", 100)
    table, batches = read(path, block=None if suffix == "parquet" else 1000)
    assert batches >= 10
    assert table.select(list(LARGE[0])).to_pylist() == LARGE


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_bytes_are_reported_as_they_are_read(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"e.{suffix}"
    if suffix == "csv":
        write_csv_rows(path, LARGE * 10)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in LARGE * 10))
    format = {"csv": "csv", "jsonl": "json"}[suffix]
    monkeypatch.setattr(f"tocsin.files.{format}_files._BLOCK", 1000)
    counts = []
    events = open_events([path], format, NOTHING, NOTHING, counts.append)
    assert not counts, "types are inferred from the first block only"
    batches = events.batches(path, ["n"])
    next(batches)
    next(batches)
    size = path.stat().st_size
    assert 0 < sum(counts) < size / 2, "the rest is not in memory yet"
    list(batches)
    assert sum(counts) == size - (len("n,x,text\r\n") if suffix == "csv" else 0)


LATE = [  # first values, a later one, and the kind to give
    ("1", "2.5", "number"),
    ("1", "x", "category"),
    ("2.5", "x", "category"),
    ("2024-05-01", "2024-05-01T12:00", "time"),
    ("2024-05-01T12:00", "noon", "category"),
    ("true", "5", "category"),
]


@pytest.mark.parametrize(("first", "late", "kind"), LATE)
def test_a_late_misfit_in_csv_names_the_row_and_the_schema_to_give(tmp_path, first, late, kind):
    path = write(tmp_path, "n,v\n" + f"1,{first}\n" * 500 + f"2,{late}\n" + f"1,{first}\n" * 500)
    message = error_of(path, block=256)
    assert message.startswith(f"{path}: row 501: column 'v' is read as ")
    assert f"but has the value '{late}'" in message
    assert message.endswith(f"give --schema v={kind}")
    table, _ = read(path, {"v": kind}, block=256)
    assert table["v"].null_count == 0
    assert len(table) == 1001
    # In another file, rows count anew.
    other = tmp_path / "other.csv"
    other.write_text(f"n,v\n1,{first}\n2,{late}\n")
    path.write_text(f"n,v\n1,{first}\n")
    message = error_of(path, files=[path, other])
    assert message.startswith(f"{other}: row 2: column 'v' is read as ")


LATE_VALUES = [
    (1, 2.5, "number"),
    (1, "x", "category"),
    (2.5, [1], "category"),
    ("2024-05-01", "noon", "category"),
    ("a", 5, "category"),
    (True, "true", "category"),
    ({"a": 1}, {"a": "x"}, "category"),
    ({"a": 1}, {"b": 1}, "category"),
    ([1], [{}], "category"),
]


@pytest.mark.parametrize(("first", "late", "kind"), LATE_VALUES)
def test_a_late_misfit_in_json_names_the_line_and_the_schema_to_give(tmp_path, first, late, kind):
    rows = [{"n": 1, "v": first}] * 300 + [{"n": 2, "v": late}] + [{"n": 1, "v": first}] * 300
    path = write_lines(tmp_path, rows)
    message = error_of(path, block=256)
    assert message.startswith(f"{path}: line 301: column 'v' is read as ")
    assert f"but has the value {json.dumps(late)}" in message
    assert message.endswith(f"give --schema v={kind}")
    table, _ = read(path, {"v": kind}, block=256)
    text = late if kind == "number" or isinstance(late, str) else json.dumps(late)
    assert table["v"][300].as_py() == text
    assert table["n"].to_pylist() == [row["n"] for row in rows]


def test_a_late_misfit_in_parquet(tmp_path):
    one, other = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(pa.table({"v": [1, 2]}), one)
    pq.write_table(pa.table({"V": [3.0, 2.5], "w": [1, 2]}), other)
    message = error_of(one, files=[one, other])
    assert message.startswith(f"{other}: row 2: column 'v' is read as integer, like its first")
    assert message.endswith("but has the value 2.5; give --schema v=number")
    table, _ = read(one, {"v": "number"}, files=[one, other])
    assert table.to_pylist() == [{"v": v} for v in (1.0, 2.0, 3.0, 2.5)]
    pq.write_table(pa.table({"v": [{"low": 1, "high": 2}]}), one)
    pq.write_table(pa.table({"v": [{"high": 2, "low": 1}]}), other)
    assert read(one, files=[one, other])[0]["v"].to_pylist() == [{"low": 1, "high": 2}] * 2
    pq.write_table(pa.table({"v": [1, 2]}), one)
    pq.write_table(pa.table({"w": [1, 2]}), other)
    assert read(one, files=[one, other])[0]["v"].to_pylist() == [1, 2, None, None]


def test_a_field_that_comes_later(tmp_path):
    rows = [{"n": 1, "m": 0}] * 100 + [{"n": 2, "v": 5}, {"n": 1}]
    path = write_lines(tmp_path, rows)
    message = error_of(path, block=256)
    assert (
        message == f"{path}: line 101: the first lines have no field 'v'; give --schema v=integer"
    )
    table, _ = read(path, {"v": "integer"}, block=256)
    assert table["v"].to_pylist() == [row.get("v") for row in rows]
    assert read(path, columns=["n"], block=256)[0].column_names == ["n"]
    # A new field of an object is not lost either.
    path = write_lines(tmp_path, [{"n": 1, "o": {"a": 1}}] * 100 + [{"o": {"a": 1, "b": 2}}])
    assert "line 101: column 'o' is read as" in error_of(path, columns=["o"], block=256)
    assert len(read(path, columns=["n"], block=256)[0]) == 101


def test_fields_of_mixed_types_are_texts_where_a_schema_says_so(tmp_path):
    values = ["7", "1.50", '"a"', "true", "null", '{"a": [1, "b"]}', "12345678901234567890"]
    lines = [f'{{"row": {i}, "v": {value}}}\n' for i, value in enumerate(values)]
    path = write(tmp_path, "\n" + "".join(lines), "jsonl")
    message = error_of(path)
    assert "line 4: column 'v' has the value \"a\" after values of another type" in message
    assert "give --schema v=category to read all as text" in message
    for block in (1, 50, 1 << 20):
        table, _ = read(path, {"v": "category"}, block=block)
        texts = [None if v == "null" else v.strip('"') for v in values]
        assert table["v"].to_pylist() == texts
        assert table["row"].to_pylist() == list(range(len(values)))


# ------------------------------------------------------------ what blocks do not change

NAMES = {"i": "integer", "x": "number", "s": "category", "f": "flag"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "s": st.none() | TEXTS,
            "f": st.none() | st.booleans(),
        },
    ),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, block=st.sampled_from([1, 60, 1 << 20]))
def test_json_is_what_python_reads(rows, block, tmp_path_factory):
    path = write_lines(tmp_path_factory.mktemp("json"), [{"row": 1, **row} for row in rows])
    table, _ = read(path, NAMES, block=block)
    assert table.select(list(NAMES)).to_pylist() == rows


@given(rows=ROWS, block=st.sampled_from([300, 1 << 20]))
def test_csv_is_what_python_reads(rows, block, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "e.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, ["row", *NAMES])
        writer.writeheader()
        writer.writerows([{"row": 1, **row} for row in rows])
    table, _ = read(path, NAMES, block=block)
    assert table.select(list(NAMES)).to_pylist() == [row | {"s": row["s"] or None} for row in rows]


# ------------------------------------------------------------ headers


def test_names_in_a_header(tmp_path):
    path = tmp_path / "e.csv"
    path.write_bytes(b'\xef\xbb\xbf\r\n"row",,X,x,"a ""b""",a.b\r\n0,"","",1,"x,""y""", z\r\n\r\n')
    table, _ = read(path)
    assert table.column_names == ["row", "_c1", "X2", "x3", 'a "b"', "a.b"]
    assert [column[0].as_py() for column in table.columns] == [0, None, None, 1, 'x,"y"', " z"]
    path.write_text("row,x\n\n0,1\n  \n1,2\n")
    assert read(path)[0].to_pylist() == [{"row": 0, "x": 1}, {"row": 1, "x": 2}]
    path.write_text("row,x\r0,1\r1,2\r")
    assert read(path)[0].to_pylist() == [{"row": 0, "x": 1}, {"row": 1, "x": 2}]


def test_a_header_of_very_many_columns(tmp_path):
    """In steps that grow with the square of the columns, it would take minutes."""
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(50_000)]
    path.write_text(",".join(names) + "\n")
    events = open_events([path], "csv", NOTHING, NOTHING, lambda count: None)
    assert events.schema.names == names


def test_a_schema_that_is_too_long_for_a_path():
    names = [f"column_{i}" for i in range(100)]
    assert list(read_schema(",".join(f"{name}=number" for name in names))) == names


def test_files_without_rows(tmp_path):
    empty, header, full = (tmp_path / f"{name}.csv" for name in "abc")
    empty.touch()
    header.write_text("x,y\n")
    full.write_text("x,y\n1,2.5\n")
    table, _ = read(empty, files=[empty, header, full])
    assert table.to_pylist() == [{"x": 1, "y": 2.5}]
    table, _ = read(header, known={"x": "number"})
    assert table.schema.types == [pa.float64(), pa.string()]
    assert "is empty; the first line of a CSV file names its columns" in error_of(empty)
    blank = write(tmp_path, "\n\n", "jsonl")
    assert "have no columns" in error_of(blank)


def test_times_with_and_without_zones(tmp_path):
    texts = {
        "2024-05-01": "2024-05-01T00:00:00",
        "2024-05-01 12:30": "2024-05-01T12:30:00",
        "2024-05-01T12:30:15.5": "2024-05-01T12:30:15.5",
        "2024-05-01 12:30:15.123456+02:00": "2024-05-01T10:30:15.123456",
        "2024-05-01T12:30:15-0130": "2024-05-01T14:00:15",
        "2024-05-01T12:30Z": "2024-05-01T12:30",
        "0001-01-01": "0001-01-01",
    }
    expected = [
        datetime.datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts.values()
    ]
    csv_file = write(tmp_path, "row,t\n" + "".join(f"1,{text}\n" for text in texts))
    json_file = write_lines(tmp_path, [{"t": text} for text in texts])
    for path in (csv_file, json_file):
        assert read(path, {"t": "time"})[0]["t"].to_pylist() == expected
    csv_file.write_text("row,t\n1,2024-05-01T12:30:15.123456789Z\n2,2024-05-01 12:30:15.1234567\n")
    cut = [datetime.datetime(2024, 5, 1, 12, 30, 15, 123456, UTC)] * 2
    assert read(csv_file, {"t": "time"})[0]["t"].to_pylist() == cut
    for wrong in ("2024-02-30", "12:30", "2024-05-01T25:00", "noon"):
        csv_file.write_text(f"row,t\n1,2024-05-01\n2,{wrong}\n")
        assert f"row 2: column 't' is declared as time, but has the value '{wrong}'" in error_of(
            csv_file, {"t": "time"}
        )


def test_values_of_different_types_where_a_kind_is_given(tmp_path):
    lines = ['{"p": 1.5, "r": {"low": 1, "high": 2}}\n', '{"p": "0.25", "r": null}\n']
    path = write(tmp_path, "".join(lines), "jsonl")
    table, _ = read(path, {"p": "decimal(9,2)", "r": "number"})
    assert table["p"].to_pylist() == [decimal.Decimal("1.50"), decimal.Decimal("0.25")]
    assert table["r"].to_pylist() == [{"high": 2.0, "low": 1.0}, None]


def test_a_misfit_names_its_column_when_only_some_are_read(tmp_path):
    path = write(tmp_path, "a,b,c\n1,x,2\n1,x,y\n")
    for columns in (["c"], ["a", "c"]):
        message = error_of(path, {"c": "integer"}, columns=columns)
        assert "row 2: column 'c' is declared as integer, but has the value 'y'" in message
    assert len(read(path, {"c": "integer"}, columns=["a", "b"])[0]) == 2
