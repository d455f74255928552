"""`tocsin match` and `tocsin match --spark` write the same rows of events with declared kinds.

Many awkward values are matched in one run of Spark: each is a column of its own.
"""

import csv
import datetime
import decimal
import itertools
import json
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.commands import run_ok
from tocsin.files.formatting import to_json_lines

RULES = 'id,where,team\nall,row >= 0,red\nodd,"row IN (1, 3, 5)",\nfew,row < 2,"a, b"\n'


@pytest.fixture
def both(spark, tmp_path):
    """A function that matches events both ways, and returns the output as bytes."""

    def match(events, *options, suffix="jsonl", rules=RULES):
        rule_file = rules
        if isinstance(rules, str):
            rule_file = tmp_path / "rules.csv"
            rule_file.write_text(rules)
        outs = [tmp_path / f"{way}.{suffix}" for way in ("here", "spark")]
        outputs = [
            run_ok("match", "--rules", rule_file, "--events", events, "--out", out, *way, *options)
            for out, way in zip(outs, [["--overwrite"], ["--overwrite", "--spark"]], strict=True)
        ]
        summaries = [text.split(" in ")[0] + text[text.index("\n") :] for text in outputs]
        assert summaries[0] == summaries[1]
        here, there = map(rows_of, outs)
        assert here == there
        if suffix == "parquet":
            here, there = (tocsin.Schema(pq.read_schema(out)) for out in outs)
            assert here == there
        return outs[0].read_bytes()

    match.folder = tmp_path
    return match


def rows_of(path):
    """Return the rows of an output; numbers may be written in different ways."""
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return [[number_or_text(cell) for cell in row] for row in csv.reader(file)]
    lines = path.read_text() if path.suffix == ".jsonl" else None
    if lines is None:
        table = pq.read_table(path).combine_chunks()
        batches = [to_json_lines(table.column_names, b.columns) for b in table.to_batches()]
        lines = b"".join(map(bytes, batches)).decode()
    return [json.loads(line) for line in lines.split("\n")[:-1]]


def number_or_text(cell):
    try:
        number = float(cell)
    except ValueError:
        return cell
    return str(number) if set(cell) & set(".eENI") else cell


# ------------------------------------------------------------ CSV

# Each line is a column of a kind.
COLUMNS = {
    "integer": ["5|-5|007|-0", "-9223372036854775808|9223372036854775807"],
    "number": [
        "5|1.5|12345678.9|0.0001",
        "1e5|1E5|.5|-.5|1e-7",
        "5| 6|7 ",
        "1e400|-1e400|1e-400",
        "NaN|Infinity|-Infinity",
        "9223372036854775808|5e-324",
    ],
    "flag": ["true|false", "TRUE|FALSE|True|False"],
    "time": [
        "2024-05-01|0001-01-01|9999-12-31",
        "2024-05-01T12:30|2024-05-01 12:30:15|2024-05-01T12:30:15.1Z",
        "2024-05-01 00:00:00.123456789+02|2024-02-29",
        "2024-05-01T12:30:15+0230|2024-05-01T12:30:15-02|2024-05-01",
    ],
    "category": [
        "5|5.50|1e5|true|2024-05-01|12:30",
        "2024|90210|007|0x10|1_000",
        "NULL|null|NA|\\N|None|nan",
        "#x|a#b",
        'a"b|"|""',
        ',|a,b|";"',
        " padded | x|y ",
        "it's",
        "\xe4\u20ac\U0001f600|\u2028|\t|\x01\x7f",
        "=1+1",
        "",
    ],
}


def declare(columns):
    """Return the option that declares columns c0, c1, ... and their values."""
    cells = [(kind, values) for kind, group in columns.items() for values in group]
    kinds = [f"c{i}={kind}" for i, (kind, _) in enumerate(cells)]
    return ["--schema", ",".join(["row=integer", *kinds])], [values for _, values in cells]


def write_csv(path, rows, **how):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **how).writerows(rows)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_declared_kinds_of_csv(both, suffix):
    options, columns = declare(COLUMNS)
    cells = [column.split("|") for column in columns]
    rows = list(itertools.zip_longest(*cells, fillvalue=""))
    lines = [["row", *(f"c{i}" for i in range(len(cells)))], *([i, *r] for i, r in enumerate(rows))]
    events = write_csv(both.folder / "events.csv", lines)
    assert both(events, *options, suffix=suffix)


def test_types_of_csv_on_which_spark_and_arrow_agree(both):
    columns = {"row": "012", "n": "5,-5,", "x": "0.5,1e3,", "ok": "true,false,", "text": "a,5,"}
    cells = [values.split(",") if "," in values else list(values) for values in columns.values()]
    lines = [list(columns), *map(list, zip(*cells, strict=True))]
    both(write_csv(both.folder / "events.csv", lines), suffix="parquet")


def test_quotes_and_lines_of_csv(both):
    events = both.folder / "events.csv"
    events.write_bytes(
        b'\xef\xbb\xbf\r\n"row",,X,x,"a ""b""",a.b\r\n0,"","",1,"x,""y""", z\r\n\r\n1,,a,2,"",\n'
    )
    options = ["--schema", "row=integer,a.b=category"]
    assert b"_c1" in both(events, *options, suffix="csv")
    events.write_text("row\n0\n\n1")
    assert both(events, suffix="csv") == b"row,rule\n0,all\n0,few\n1,all\n1,odd\n1,few\n"
    events.write_text("row,x\r0,1\r1,2\r")
    both(events, suffix="csv")
    events.write_text("row,x\n")
    assert both(events, "--schema", "row=integer", suffix="csv") == b"row,x,rule\n"


# ------------------------------------------------------------ JSON lines

# Each line is a field of a kind, or of objects and lists whose types both infer.
FIELDS = {
    "integer": [["1", "-0", "9223372036854775807"], ["null", "-9223372036854775808"]],
    "number": [
        ["1", "1.5", "1e5", "-0.0"],
        ["0.1", "1e7", "12345678.9", "0.001", "1.0E-5", "123456789012345680.0", "5e-324"],
        ["9223372036854775808", "null"],
    ],
    "flag": [["true", "false", "null"]],
    "time": [
        ['"2024-05-01"', '"2024-05-01T12:30:15.123456Z"', "null"],
        ['"2024-05-01T12:00:00+02:00"', '"2024-05-01 12:00"'],
    ],
    "category": [
        ['"a"', '""', '"2024-05-01"', '"12:30"', '"007"', '"NaN"', "null"],
        ["1.50", '"a"', "1e5", "12345678901234567890", "null", "true"],
        ['"\\u0000\\u001f\\"\\\\/\\b\\f\\n\\r\\t\\u007f\\u2028ä😀\\ud83d\\ude00"'],
    ],
}
NESTED = [
    ["[1, 2]", "[]", "null", "[null, 5]"],
    ['["a", null]', "[]"],
    ['{"b": 1}', '{"a": "q", "c": {"z": 1, "y": [true]}}', "null", '{"b": 2, "c": null}'],
    ['[{"b": 1.5}, {"a": [1]}, null]', "[]"],
    ['{"at": "2024-05-01T12:00:00+02:00"}', '{"at": null}'],
    ['{"low": 1.0, "high": 2.5}'],
]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_declared_kinds_of_json(both, suffix):
    events = both.folder / "events.jsonl"
    options, fields = declare(FIELDS)
    fields += NESTED
    rows = []
    for row in range(max(map(len, fields))):
        pairs = [f'"c{i}": {v[row]}' for i, v in enumerate(fields) if row < len(v)]
        rows.append(f'{{"row": {row}, {", ".join(pairs)}, "a.b": "x", "_": {row}, "Z": 0}}')
    rows[1:1] = ["", "  \t", "{}"]
    events.write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
    assert b"c0" in both(events, *options, suffix=suffix)


def test_declared_ranges_of_json(both):
    events = both.folder / "events.jsonl"
    ranges = ['{"low": 1, "high": 2}', "null", '{"high": 3, "low": 3}']
    lines = [f'{{"row": {i}, "r": {r}}}\n' for i, r in enumerate(ranges)]
    events.write_text("".join(lines))
    both(events, "--schema", "r=number", rules="id,where\na,r < 1.5\n")


def test_declared_decimals(both):
    texts = ["9.99", "-0.01", "", "1e3", "+5", ".5", "5.", "9.995", "-9.995", "9999999999.99", "0"]
    kinds = "price=decimal(12,2),whole=decimal(5)"
    rows = [[i, text, "7.5"] for i, text in enumerate(texts)]
    events = write_csv(both.folder / "events.csv", [["row", "price", "whole"], *rows])
    rules = 'id,where\na,price < 9.999 AND whole = 8\nb,price = 10\nc,"price IN (-10, 1000)"\n'
    for suffix in ("csv", "parquet"):
        written = both(events, "--schema", kinds, suffix=suffix, rules=rules)
    assert b"9999999999.99" not in written
    numbers = ["9.99", "-0.01", "null", "1e3", "5", '"0.5"', '"5."', "9.995", "123456789.125"]
    lines = [f'{{"row": {i}, "price": {n}, "whole": 8}}' for i, n in enumerate(numbers)]
    events = both.folder / "events.jsonl"
    events.write_text("\n".join(lines))
    assert b'"price":-0.01' in both(events, "--schema", kinds, rules=rules)
    exact = decimal.Decimal
    columns = {
        "row": pa.array(range(4)),
        "price": pa.array([exact("1.505"), exact(10), None, exact("-1.004")], pa.decimal128(21, 3)),
        "whole": pa.array([8, None, 7, 8]),
        "spelled": pa.array(["1.5", " 2 ", None, "9.995"]),
        "x": pa.array([0.1, 2.5, None, 1.005]),
    }
    events = both.folder / "events.parquet"
    pq.write_table(pa.table(columns), events)
    both(events, "--schema", f"{kinds},spelled=decimal(9,2),x=decimal(9,2)", rules=rules)


# ------------------------------------------------------------ Parquet


def parquet_columns():
    def column(values, type_=None):
        return pa.array(list(itertools.islice(itertools.cycle(values), 6)), type_)

    rng = random.Random(3)
    day, noon = datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 12, 0, 0, 120000)
    exact = decimal.Decimal
    floats = [0.1, 1e7, -0.0, math.nan, math.inf, None]
    bits = np.random.default_rng(3).integers(0, 2**63 - 2**52, 6).view(np.float64)
    return {
        "row": pa.array(range(6)),
        "i8": column([1, None, -128], pa.int8()),
        "i16": column([1, None], pa.int16()),
        "i32": column([1, None], pa.int32()),
        "u8": column([255, None], pa.uint8()),
        "u32": column([2**32 - 1, None], pa.uint32()),
        "u64": column([2**64 - 1, None], pa.uint64()),
        "f32": column([*floats[:-1], 3.4028235e38], pa.float32()),
        "f64": column(floats),
        "bits": pa.array(bits),
        "uniform": column([rng.uniform(-1e4, 1e4) for _ in range(6)]),
        "text": column(["a", None, "", 'q"', " a,b ", "#\n\r\t\x01"]),
        "large": column(["a", None], pa.large_string()),
        "encoded": column(["a", None]).dictionary_encode(),
        "flag": column([True, None, False]),
        "date": column([day, None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        "local_us": column([noon, None], pa.timestamp("us")),
        "local_ms": column([noon, None], pa.timestamp("ms")),
        "utc": column([noon, None, datetime.datetime(1, 1, 1)], pa.timestamp("us", "UTC")),
        "berlin": column([noon, None], pa.timestamp("ms", "Europe/Berlin")),
        "cents": column([exact("1.50"), None, exact("-0.01")], pa.decimal128(10, 2)),
        "tiny": column([exact("1e-8"), exact(0), exact(123)], pa.decimal128(38, 18)),
        "huge": column([exact(15), None], pa.decimal256(30, 0)),
        "null": pa.nulls(6),
    }


def nested_columns():
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    text_map = pa.map_(pa.string(), pa.float64())
    times = pa.list_(pa.struct([("t", pa.timestamp("us"))]))
    records = pa.struct([("b", pa.uint8()), ("a", times)])
    return {
        "list": pa.array([[1, None], None, [], [2], None, [3]]),
        "fixed": pa.array([[1, 2], None, [3, 4], None, [5, 6], [7, 8]], pa.list_(pa.int32(), 2)),
        "texts": pa.array([['a"', None], [], None, ["\n"], [""], ["b"]]),
        "map": pa.array([[("a", 1.5), ("b", None)], None, [], [('"', math.nan)], [], []], text_map),
        "record": pa.array([{"b": 1, "a": [{"t": noon}]}, None, {"b": None, "a": []}] * 2, records),
        "bytes": pa.array([b"a\xff", None, b"", b"abc", None, b"\0"]),
        "range": pa.array([{"low": 1, "high": 2}, None] * 3),
    }


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_types_of_parquet(both, suffix):
    columns = parquet_columns() | (nested_columns() if suffix != "csv" else {})
    if suffix == "parquet":  # Spark has other types for these
        del columns["u64"], columns["null"]
    events = both.folder / "events.parquet"
    pq.write_table(pa.table(columns), events, row_group_size=4)
    both(events, suffix=suffix)


def test_times_as_spark_writes_them(both, spark):
    from pyspark.sql import functions

    events = both.folder / "events.parquet"
    moment = functions.timestamp_micros(functions.lit(1_234_567_890_123_456))
    frame = spark.range(3).select(
        functions.col("id").alias("row"),
        moment.alias("at"),
        functions.lit("2024-05-01").cast("timestamp_ntz").alias("local"),
    )
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    frame.coalesce(1).write.parquet(str(events))
    assert pq.ParquetFile(next(events.glob("*.parquet"))).schema.column(1).physical_type == "INT96"
    both(events, "--schema", "at=time")


def test_declared_kinds_of_parquet(both):
    exact = decimal.Decimal
    columns = {
        "row": pa.array(range(4)),
        "price": pa.array([exact("99.99"), exact(2), None, exact(-1)], pa.decimal128(21, 2)),
        "whole": pa.array([exact("1.00"), exact(2), None, exact(-9)], pa.decimal128(21, 2)),
        "n": pa.array([1.0, -1e15, None, 2.0]),
        "code": pa.array([7, None, 8, 9]),
        "spelled": pa.array(["1.5", " 2 ", None, "NaN"]),
        "at": pa.array([datetime.date(2024, 5, 1), None] * 2),
        "stamp": pa.array([1714521600, None, 0, -1]),
        "written": pa.array(["2024-05-01T12:30", None, "2024-05-01", "2024-05-01 12:30:15+02:00"]),
        "r": pa.array([{"low": exact(1), "high": exact(2)}, None] * 2),
        "m": pa.array([[("z", 1.0)], None, [], []], pa.map_(pa.string(), pa.float64())),
    }
    events = both.folder / "events.parquet"
    pq.write_table(pa.table(columns), events)
    kinds = "price=number,whole=integer,n=integer,code=category,spelled=number,at=time,stamp=time"
    rules = "id,where\na,row < 2\nb,z = 1\nc,price > 1 AND r < 3\n"
    both(events, "--schema", f"{kinds},written=time,r=number,z=number", rules=rules)


def test_folders(both):
    folder = both.folder / "events"
    folder.mkdir()
    # Spark begins with the largest file, whatever its name.
    for i, rows in enumerate((5, 3, 2)):
        table = pa.table({"row": range(rows), "x": [i] * rows, f"only {i}": [i] * rows})
        pq.write_table(table, folder / f"{i}.parquet")
    for name in ("_SUCCESS", ".3.parquet.crc"):
        (folder / name).write_bytes(b"nothing")
    both(folder)
    for file in folder.iterdir():
        file.unlink()
    for i, rows in enumerate((5, 3, 0)):
        write_csv(folder / f"{i}.csv", [["row", "x"], *([r, i + 0.5 * i] for r in range(rows))])
    (folder / "3.csv").touch()
    both(folder, suffix="csv")


# ------------------------------------------------------------ options


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    """Rules of several shapes with weights and payload, and events that match many of them."""
    folder = tmp_path_factory.mktemp("traffic")
    rng = random.Random(11)
    rows = []
    for i in range(400):
        x, y = rng.uniform(0, 90), rng.uniform(0, 90)
        where = rng.choice(
            [
                f"x BETWEEN {x} AND {x + 20} AND y BETWEEN {y} AND {y + 20}",
                f"tier = 'tier {i % 7}' AND x > {x}",
                f"n BETWEEN {i} AND {i + 40}",
                f"x < {x} OR y > {y} AND ok",
                f"at > TIMESTAMP '2024-05-01 {i % 24:02}:00:00' AND NOT tier = 'tier 1'",
            ]
        )
        weights = {w: rng.choice([0.25, 0.5, 1.0, 3]) for w in ("x", "n") if w + " " in where}
        team = rng.choice([None, "red", 'b"l,ue'])
        rows.append({"id": f"r{i}", "where": where, "weights": weights or None, "team": team})
    with open(folder / "rules.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    start = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    events = [
        {
            "row": i,
            "x": rng.choice([None, rng.uniform(0, 100)]),
            "y": rng.uniform(0, 100),
            "n": rng.randrange(500),
            "tier": f"tier {rng.randrange(9)}",
            "ok": rng.random() < 0.5,
            "at": start + datetime.timedelta(minutes=rng.randrange(1440)),
        }
        for i in range(3_000)
    ]
    pq.write_table(pa.Table.from_pylist(events), folder / "events.parquet", row_group_size=700)
    pa.csv.write_csv(pa.Table.from_pylist(events), folder / "events.csv")
    return folder


OPTIONS = [
    ("events.csv", "csv", ["--payload", "team"]),
    ("events.parquet", "jsonl", ["--how", "top", "--k", "3", "--payload", "team", "--keep", "row"]),
    ("events.parquet", "csv", ["--how", "count", "--keep", "n", "--keep", "ROW,at"]),
    ("events.csv", "jsonl", ["--output", "lists", "--keep", "row"]),
    ("events.parquet", "parquet", ["--output", "lists", "--how", "top", "--k", "2"]),
    ("events.csv", "parquet", ["--payload", "team", "--keep", "x"]),
]


@pytest.mark.parametrize(("events", "suffix", "options"), OPTIONS)
def test_options(both, traffic, events, suffix, options):
    both(traffic / events, *options, suffix=suffix, rules=traffic / "rules.jsonl")


def test_ids_payload_ranges_and_maps(both):
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    rules = {
        "id": pa.array([7, 2**63 - 1, -5, 8]),
        "where": ["x > 5.5", "z = 1", "at = TIMESTAMP '2024-05-01 12:00:00Z'", "row >= 0"],
        "whole": pa.array([1, None, -3, 4], pa.int32()),
        "part": [0.5, None, math.inf, 1e-9],
        "ok": [True, None, False, True],
        "day": [noon.date(), None, None, noon.date()],
        "moment": pa.array([noon, None, None, noon]),
        "cents": pa.array([decimal.Decimal("1.50"), None] * 2),
        "long": pa.array(["a", None, "b", "c"], pa.large_string()),
        "list": [[1, None], None, [], [2]],
        "record": [{"a": 1, "b": "x"}, None] * 2,
    }
    path = both.folder / "rules.parquet"
    pq.write_table(pa.table(rules), path)
    hour = datetime.timedelta(hours=1)
    events = {
        "row": range(4),
        "x": [
            {"low": 1.0, "high": 6.0},
            {"low": 1.0, "high": 2.0},
            None,
            {"low": 9.0, "high": 9.0},
        ],
        "at": [{"low": noon - hour, "high": noon + hour}, None, {"low": noon, "high": noon}, None],
        "m": pa.array(
            [[("z", 1.0)], [("y", 1.0)], None, [("z", 1.0)]], pa.map_("string", "double")
        ),
    }
    pq.write_table(pa.table(events), both.folder / "events.parquet")
    payload = ["--payload", ",".join(list(rules)[2:6]), "--payload", ",".join(list(rules)[6:])]
    options = ["--schema", "z=number", "--how", "top", "--k", "3", *payload]
    for suffix in ("jsonl", "parquet"):
        both(both.folder / "events.parquet", *options, suffix=suffix, rules=path)


def test_columns_without_values_have_the_kinds_of_the_store(both):
    rules = tocsin.Rules({"x": "number", "t": "time", "d": "decimal(9,2)", "n": "integer"})
    rules.add("high", "x > 3 OR t > '2024-01-01' OR d > 1.5")
    rules.add("missing", "x IS NULL AND n = 1")
    rules.save(both.folder / "store")
    for name, rows in [("header", ""), ("rows", "1,a,,,,1\n2,,,,,2\n")]:
        events = both.folder / f"{name}.csv"
        events.write_text("row,text,X,t,d,n\n" + rows)
        output = both(events, rules=both.folder / "store", suffix="parquet")
        table = pq.read_table(pa.BufferReader(output))
        assert table["rule"].to_pylist() == (["missing"] if rows else [])
        assert table.schema.field("X").type == pa.float64()
        assert table.schema.field("d").type == pa.decimal128(9, 2)
        assert table.schema.field("text").type == pa.string()


def test_columns_have_the_kinds_of_the_store(both):
    rules = tocsin.Rules({"x": "number", "T": "time", "code": "category", "d": "decimal(9,2)"})
    rules.add("seven", "code = '007' OR code = '7'")
    rules.add("late", "t >= '2024-05-01' AND x < 6 AND d = 1.25")
    rules.save(both.folder / "store")
    texts = both.folder / "events.csv"
    texts.write_text("row,code,x,t,d\n0,007,5,2024-05-01,1.245\n1,8,6,2024-05-01T12:00,7\n")
    objects = both.folder / "events.jsonl"
    objects.write_text(
        '{"row": 0, "code": 7, "x": 5, "t": "2024-05-01", "d": 1.245}\n'
        '{"row": 1, "code": "8", "x": 6, "t": null, "d": null}\n'
    )
    for events in (texts, objects):
        output = both(
            events, "--schema", "row=integer", rules=both.folder / "store", suffix="parquet"
        )
        table = pq.read_table(pa.BufferReader(output))
        assert sorted(table["rule"].to_pylist()) == ["late", "seven"]
        assert tocsin.Schema(table.schema).kind("x") == "number"
