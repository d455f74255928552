"""`tocsin match` writes what matching gives, whatever the files; see also test_both_ways."""

import csv
import datetime
import errno
import itertools
import json
import os
import pty
import random
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.test_rules import done, refused, write_rules
from tocsin.cli.progress import latest_tasks
from tocsin.engine import threads, version

NOON = datetime.datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)
TIERS = ["gold", "black", 'a "quoted", text', " padded ", "NA", "007x", "", None]
RULES = [
    {"id": "007", "where": "x BETWEEN 3 AND 8", "team": "red"},
    {"id": "8", "where": "tier IN ('gold', ' padded ') AND x > 5", "team": None},
    {"id": "late", "where": "at > TIMESTAMP '2024-05-01 18:00:00Z'", "team": "blue"},
    {"id": "null", "where": "tier IS NULL", "team": "blue"},
    {"id": "empty", "where": "tier = ''", "team": "blue"},
    {"id": "quoted", "where": "tier = 'a \"quoted\", text' OR n = 7", "team": "red"},
    {"id": "ok", "where": "ok AND n > 90", "team": "red"},
    {"id": "never", "where": "x > 100", "team": "red"},
]


@pytest.fixture(scope="module")
def events():
    rng = random.Random(5)
    rows = [
        {
            "row": i,
            "x": rng.choice([None, rng.uniform(0, 10)]),
            "n": rng.randrange(100),
            "tier": rng.choice(TIERS),
            "ok": rng.random() < 0.5,
            "at": NOON + datetime.timedelta(minutes=7 * i),
        }
        for i in range(200)
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def files(events, tmp_path_factory):
    """The same rules in each form, and the same events: one file, or a folder of two."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(events, folder / "events.parquet")
    several = folder / "events.csv"
    several.mkdir()
    for i in range(2):
        pa.csv.write_csv(events.slice(100 * i, 100), several / f"{i}.csv")
    lines = [json.dumps(row, default=datetime.datetime.isoformat) for row in events.to_pylist()]
    (folder / "events.jsonl").write_text("\n".join(lines))
    for suffix in ("csv", "jsonl", "parquet"):
        write_rules(folder / f"rules.{suffix}", RULES)
    rules(events).save(folder / "store")
    return folder


def rules(events):
    made = tocsin.Rules(events.schema)
    made.add_many(RULES)
    return made


def read(path):
    """Return rows as texts read them: everything a text, null an empty one."""
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pq.read_table(path).to_pylist()


PAIRS = [
    ("csv", "events.csv", "csv"),
    ("jsonl", "events.csv", "jsonl"),
    ("store", "events.csv", "parquet"),
    ("parquet", "events.jsonl", "csv"),
    ("store", "events.jsonl", "jsonl"),
    ("csv", "events.jsonl", "parquet"),
    ("store", "events.parquet", "csv"),
    ("csv", "events.parquet", "jsonl"),
    ("jsonl", "events.parquet", "parquet"),
]


@pytest.mark.parametrize(("source", "given", "suffix"), PAIRS)
def test_every_format(files, events, tmp_path, source, given, suffix):
    out = tmp_path / f"out.{suffix}"
    from_ = files / (source if source == "store" else f"rules.{source}")
    said = done("match", "--rules", from_, "--events", files / given, "--out", out)
    found = read(out)
    if "csv" in given:
        # In CSV, as Spark reads it, an empty text is null.
        tiers = pa.array([tier or None for tier in events.column("tier").to_pylist()])
        events = events.set_column(3, "tier", tiers)
    wanted = sorted(rules(events).match(events))
    assert sorted((int(r["row"]), r["rule"]) for r in found) == wanted
    assert len(wanted) > 200
    columns = events.column_names
    # Spark finds the fields of JSON in the order of their names.
    assert list(found[0]) == [*(sorted(columns) if "jsonl" in given else columns), "rule"]
    originals = events.to_pylist()
    for row in found:
        original = originals[int(row["row"])]
        if suffix == "csv":
            assert row["tier"] == (original["tier"] or "")
            assert row["x"] == ("" if original["x"] is None else str(original["x"]))
        else:
            assert (row["tier"], row["x"]) == (original["tier"], original["x"])
        at = row["at"]
        assert (at if suffix == "parquet" else datetime.datetime.fromisoformat(at)) == original[
            "at"
        ]
    assert said.startswith(f"200 events, {len(wanted)} matches in ")
    assert "events a second): " in said
    assert said.splitlines()[2].split()[0] in {"007", "late"}
    assert list(tmp_path.iterdir()) == [out], "nothing is left besides"


def test_how_and_what(files, events, tmp_path):
    def found(name, *options):
        out = tmp_path / name
        common = ("--rules", files / "store", "--events", files / "events.parquet", "--out", out)
        said = done("match", *common, *options, "--overwrite")
        return read(out), said

    own = rules(events)
    rows, said = found("a.csv", "--how", "count", "--keep", "row")
    assert sorted((int(r["row"]), int(r["matches"])) for r in rows) == list(
        enumerate(own.count(events).tolist())
    )
    assert said.startswith(f"200 events, {len(own.match(events))} matches in ")
    assert len(said.splitlines()) == 1
    rows, said = found("a.jsonl", "--output", "lists", "--keep", "row")
    assert sum(len(r["rules"]) for r in rows) == len(own.match(events))
    assert len(rows) == 200
    assert said.startswith(f"200 events, {len(own.match(events))} matches in ")
    assert "busiest rules" in said
    rows, _ = found("a.parquet", "--how", "top", "--k", 1, "--keep", "row,n", "--payload", "team")
    assert {tuple(r) for r in rows} == {("row", "n", "rule", "score", "team")}
    assert len(rows) == len(own.top(events, 1))
    rows, _ = found("a.parquet", "--output", "lists", "--keep", "row")
    assert sum(len(r["rules"]) for r in rows) == len(own.match(events))


def test_declared_types(tmp_path):
    events, out, rule = tmp_path / "e [1].csv", tmp_path / "o.csv", tmp_path / "r.csv"
    events.write_text("code,price,at\n007,1,2024-05-01T00:00:00Z\n8,2.5,\n")
    rule.write_text("id,where\na,code = '007'\nb,price > 2\n")
    options = ("--rules", rule, "--events", events, "--out", out, "--overwrite")
    assert "attribute 'code' is an integer" in refused("match", *options)
    done("match", *options, "--schema", "CODE=category")
    assert out.read_text() == (
        "code,price,at,rule\n007,1.0,2024-05-01T00:00:00.000000Z,a\n8,2.5,,b\n"
    )
    done("match", *options, "--schema", "code=category,price=number,at=category")
    assert out.read_text().splitlines()[1] == "007,1.0,2024-05-01T00:00:00Z,a"
    said = refused("match", *options, "--schema", "prise=number")
    assert "no such column; did you mean 'price'?" in said
    said = refused("match", *options, "--schema", "code=category,price=integer")
    assert (
        "e [1].csv: row 2: column 'price' is declared as integer, but has the value '2.5'" in said
    )
    decimals = tmp_path / "d.parquet"
    price = pa.array([1, 3]).cast(pa.decimal128(21, 2))
    sparse = pa.array([[("z", 1.0)], None], pa.map_(pa.string(), pa.float64()))
    pq.write_table(pa.table({"price": price, "m": sparse}), decimals)
    rule.write_text("id,where\nb,price > 2\nc,z = 1\n")
    options = ("--rules", rule, "--events", decimals, "--out", out, "--overwrite")
    assert "decimal" in refused("match", *options)
    done("match", *options, "--schema", "price=number,z=number", "--keep", "price")
    assert out.read_text() == "price,rule\n1.0,c\n3.0,b\n"


def test_ranges(tmp_path):
    events, out, rule = tmp_path / "e.jsonl", tmp_path / "o.jsonl", tmp_path / "r.csv"
    events.write_text(
        '{"row": 0, "x": {"low": 1, "high": 6}, "at": {"low": "2024-05-01T00:00:00Z", '
        '"high": "2024-05-02T00:00:00Z"}}\n{"row": 1, "x": {"low": 1, "high": 2}}\n'
    )
    rule.write_text("id,where\na,x > 5.5\nb,at = TIMESTAMP '2024-05-01 18:00:00Z'\n")
    options = ("--rules", rule, "--events", events, "--out", out, "--keep", "row", "--overwrite")
    for declared in ((), ("--schema", "x=number")):
        done("match", *options, *declared)
        found = [json.loads(line) for line in out.read_text().splitlines()]
        assert sorted((r["row"], r["rule"]) for r in found) == [(0, "a"), (0, "b")]


def test_no_matches_and_no_events(tmp_path):
    rule, events = tmp_path / "r.csv", tmp_path / "e.jsonl"
    rule.write_text("id,where\na,x > 5\n")
    events.write_text('{"x": 1}\n')
    for suffix, content in (("csv", "x,rule\n"), ("jsonl", ""), ("parquet", None)):
        out = tmp_path / f"o.{suffix}"
        said = done("match", "--rules", rule, "--events", events, "--out", out)
        assert said.startswith("1 event, 0 matches in ")
        assert len(said.splitlines()) == 1
        assert read(out) == []
        assert content is None or out.read_text() == content
    events = tmp_path / "none.csv"
    events.write_text("x\n")
    out = tmp_path / "n.csv"
    said = done("match", "--rules", rule, "--events", events, "--out", out, "--schema", "x=number")
    assert said.startswith("0 events, 0 matches")
    assert out.read_text() == "x,rule\n"


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_what_is_wrong_before_anything_starts(files, tmp_path, monkeypatch, way):
    monkeypatch.setattr("tocsin.cli.on_spark._session", None)
    monkeypatch.setattr("tocsin.cli.in_process.open_events", None)
    given = {
        "--rules": files / "store",
        "--events": files / "events.parquet",
        "--out": tmp_path / "o.csv",
    }

    def said(*options, code=1, **other):
        changed = given | {f"--{k}": v for k, v in other.items()}
        pairs = [x for pair in changed.items() for x in pair]
        return refused("match", *pairs, *way, *options, code=code)

    (tmp_path / "there.csv").touch()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.jsonl", "_SUCCESS"):
        (tmp_path / "mixed" / name).touch()
    assert "must end in .parquet, .csv, .jsonl" in said(out=tmp_path / "o.txt")
    assert "exists already; --overwrite" in said(out=tmp_path / "there.csv")
    assert "is a folder" in said("--overwrite", out=tmp_path / "folder.csv")
    assert "there is no folder" in said(out=tmp_path / "none" / "o.csv")
    assert "there is no file or folder" in said(events=tmp_path / "none.csv")
    assert "has no files" in said(events=tmp_path / "folder.csv")
    assert "several kinds (csv, json)" in said(events=tmp_path / "mixed")
    assert "there is no file or folder" in said(rules=tmp_path / "none")
    assert "there is no rule store" in said(rules=tmp_path)
    assert "--how top and --k go together" in said("--how", "top", code=2)
    assert "--how top and --k go together" in said("--k", "3", code=2)
    assert "--payload goes with" in said("--payload", "a", "--output", "lists", code=2)


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_folders_that_are_refused(files, tmp_path, monkeypatch, way):
    """Spark would leave out files that are not in partitions, and take columns by their places."""
    monkeypatch.setattr("tocsin.cli.on_spark._session", None)
    folder = tmp_path / "events"

    def said(*names, content="x\n1\n"):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        options = ("--rules", files / "store", "--events", folder, "--out", tmp_path / "o.csv")
        message = refused("match", *options, *way)
        for name in names:
            (folder / name).unlink()
        return message

    assert "in folders of its own, such as sub/b.csv" in said("a.csv", "sub/b.csv")
    assert "in folders of its own, such as sub/b.csv" in said("sub/b.csv")
    assert "such as day=1/b.csv" in said("a.csv", "day=1/b.csv")
    if not way:
        assert "only --spark reads these" in said("day=1/b.csv")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    assert "a.csv and " in said("b.csv", content="y,x\n1,2\n")
    assert "have different headers" in said("b.csv", content="X,y\n1,2\n")


def test_partitions_on_spark(spark, tmp_path):
    for day in (1, 2):
        (tmp_path / "events" / f"day={day}").mkdir(parents=True)
        (tmp_path / "events" / f"day={day}" / "a.csv").write_text(f"x\n{day}\n")
    rule, out = tmp_path / "r.csv", tmp_path / "o.csv"
    rule.write_text("id,where\na,day = 2\n")
    done("match", "--rules", rule, "--events", tmp_path / "events", "--out", out, "--spark")
    assert out.read_text() == "x,day,rule\n2,2,a\n"


@pytest.fixture
def said_of(tmp_path):
    """Give a function that returns what is said of events that cannot be matched."""

    def said(content, *options, suffix="csv"):
        rule, out = tmp_path / "r.csv", tmp_path / "o.csv"
        rule.write_text("id,where\na,x > 5\n")
        file = tmp_path / f"e.{suffix}"
        file.write_bytes(content)
        message = refused("match", "--rules", rule, "--events", file, "--out", out, *options)
        assert not out.exists()
        assert not list(tmp_path.glob(".o.csv*")), "no parts are left"
        assert len(message.splitlines()) == 1 or "unknown attribute" in message
        return message

    return said


def test_what_is_wrong_with_the_data(said_of):
    assert "r.csv: row 0 (rule 'a'): unknown attribute 'x'" in said_of(b"y\n1\n")
    assert "no column 'z'; did you mean 'zz'?" in said_of(b"x,zz\n1,2\n", "--keep", "z")
    assert "no payload column 'z'" in said_of(b"x\n1\n", "--payload", "z")
    assert "keep names the column 'x' twice" in said_of(b"x\n1\n", "--keep", "x", "--keep", "X")
    assert "the kept column 'rule' has the name of" in said_of(b"x,rule\n1,2\n")
    assert "column 'rules', which is of type array<string>" in said_of(
        b"x\n1\n", "--output", "lists"
    )


def test_what_is_wrong_with_csv(said_of):
    assert "e.csv is empty" in said_of(b"")
    assert "e.csv: cannot be read: CSV parse error: Expected 2 columns, got 1: 3" in said_of(
        b"x,y\n1,2\n3\n"
    )
    assert "got 3: 3,4,5" in said_of(b"x,y\n1,2\n3,4,5\n")
    assert "invalid UTF8" in said_of(b"x,y\n1,\xff\n")
    assert "contains a line break" in said_of(b'x,y\n1,"a\nb"\n')
    unclosed = said_of(b'x,y\n1,"abc\n2,d\n', "--keep", "x")
    assert "or its closing quote is missing: 'abc\\n2,d" in unclosed
    wrong = {"integer": "2.5", "number": "abc", "flag": "yes", "time": "12:30"}
    for kind, text in wrong.items():
        content = f"x,y\n1,\n2,{text}\n".encode()
        message = said_of(content, "--schema", f"y={kind}")
        assert "e.csv: row 2: column 'y' is declared as " in message
        assert message.endswith(f"declared as {kind}, but has the value {text!r}\n")


def test_what_is_wrong_with_json(said_of):
    def said(content, *options):
        return said_of(content, *options, suffix="jsonl")

    assert "e.jsonl: line 2: not JSON: Expecting value" in said(b'{"x": 1}\n{"x":\n')
    assert "line 3: not a JSON object: 5" in said(b'{"x": 1}\n\n5\n')
    assert "line 1: not a JSON object: null" in said(b"null\n")
    assert "line 1: not JSON: Extra data" in said(b'{"x": 1}{"x": 2}\n')
    assert "line 1: not JSON: Extra data" in said(b'{"x": 1} null\n')
    assert "line 1: not JSON: Expecting property name" in said(b'{\n"x": 1}\n')
    assert "line 1: not JSON: maximum recursion" in said(b'{"x":' + b"[" * 10**5 + b"]" * 10**5)
    assert "e.jsonl: cannot be read: 'utf-8' codec" in said(b'{"x": "\xff"}\n')
    assert "columns 'X' and 'x', and names are case-insensitive" in said(b'{"x": 1, "X": 2}\n')
    assert "have no columns" in said(b"{}\n")
    assert "CSV cannot hold column 'y', which is of type array<bigint>" in said(
        b'{"x": 1, "y": [1]}\n'
    )
    message = said(b'{"x": 1, "y": "2024-05-01"}\n{"y": ""}\n')
    assert "line 2: column 'y': expected timestamp, got \"\"" in message
    wrong = {"integer": "1.0", "number": '"1"', "flag": "1", "time": '"12:30"'}
    for kind, value in wrong.items():
        content = f'{{"x": 1}}\n{{"x": 2, "y": {value}}}\n'.encode()
        assert f", got {value}" in said(content, "--schema", f"y={kind}")


def test_what_is_wrong_with_parquet(said_of, tmp_path):
    def said(table, *options):
        pq.write_table(table, tmp_path / "t.parquet")
        return said_of((tmp_path / "t.parquet").read_bytes(), *options, suffix="parquet")

    assert "e.parquet: cannot be read" in said_of(b"nonsense", suffix="parquet")
    same = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "X"])
    assert "the columns 'x' and 'X', and names are case-insensitive" in said(same)
    flags = pa.table({"x": [1], "y": [[True]]})
    assert "type array<boolean> and cannot be read as bigint" in said(
        flags, "--schema", "y=integer"
    )
    texts = pa.table({"x": [1, 2], "y": ["1", "one"]})
    assert "column 'y' is declared as number, but has the value 'one'" in said(
        texts, "--schema", "y=number"
    )
    far = pa.table({"x": [1], "y": [1e300]})
    assert "column 'y' is declared as integer, but has the value 1e+300" in said(
        far, "--schema", "y=integer"
    )
    clock = pa.table({"x": [1], "y": [datetime.time(12, 30)]})
    assert "CSV cannot hold column 'y', which is of type time64[us]" in said(clock)
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"x": [1.5]}), folder / "b.parquet")
    out = tmp_path / "o.csv"
    message = refused("match", "--rules", tmp_path / "r.csv", "--events", folder, "--out", out)
    assert "b.parquet: column 'x' is of type double, but in" in message


def test_what_is_wrong_on_spark(spark, said_of):
    assert "e.parquet cannot be read" in said_of(b"nonsense", "--spark", suffix="parquet")
    message = said_of(b'{"x": 1}\n{"x":\n', "--spark", suffix="jsonl")
    assert "e.jsonl cannot be read: Malformed records" in message
    message = said_of(b"x\n1\nabc\n", "--spark", "--schema", "x=number")
    assert "Malformed records" in message
    message = said_of(b'{"x": 1, "y": [1]}\n', "--spark", suffix="jsonl")
    assert "CSV cannot hold column 'y', which is of type array<bigint>" in message


# ------------------------------------------------------------ reading and writing


def test_names_add_up(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    out = tmp_path / "o.csv"
    done("match", *options, "--out", out, "--keep", "row,n", "--keep", "x", "--payload", "team")
    assert out.read_text().startswith("row,n,x,rule,team\n")


def test_small_blocks(files, tmp_path, monkeypatch):
    """Blocks end anywhere, and their types differ."""
    options = ("--rules", files / "store", "--output", "lists")

    def found(events, name):
        done("match", *options, "--events", events, "--out", tmp_path / name)
        return (tmp_path / name).read_bytes()

    with open(tmp_path / "mixed.jsonl", "w") as file:
        values = itertools.cycle([1, 2.5, "a", None, [1]])
        for i, line in enumerate((files / "events.jsonl").read_text().splitlines()):
            file.write(json.dumps(json.loads(line) | ({"v": next(values)} if i % 7 else {})) + "\n")
    sources = [files / "events.csv", files / "events.jsonl", tmp_path / "mixed.jsonl"]
    large = [found(source, f"{i}.jsonl") for i, source in enumerate(sources)]
    for module in ("csv_files", "json_files"):
        monkeypatch.setattr(f"tocsin.cli.events.{module}._BLOCK", 300)
    monkeypatch.setattr("tocsin.cli.in_process._EVENTS", 7)
    monkeypatch.setattr("tocsin.cli.output._ROW_GROUP", 3)
    assert [found(source, f"s{i}.jsonl") for i, source in enumerate(sources)] == large
    found(sources[0], "o.parquet")
    assert pq.ParquetFile(tmp_path / "o.parquet").num_row_groups > 20
    assert read(tmp_path / "o.parquet") == [
        row | {"at": datetime.datetime.fromisoformat(row["at"])}
        for row in read(tmp_path / "0.jsonl")
    ]


@pytest.mark.parametrize("how", [("all",), ("count",), ("top", "--k", "2")])
def test_threads(files, tmp_path, monkeypatch, how):
    used = []

    class Recorder(version.ThreadedRun):
        def __init__(self, run, several):
            used.append(several)
            super().__init__(run, several)

    monkeypatch.setattr(version, "ThreadedRun", Recorder)
    monkeypatch.setattr(threads, "LEAST_IF_ASKED", 2)
    monkeypatch.setattr(threads, "_FIRST_RANGE", (10, 10))
    monkeypatch.setenv("TOCSIN_THREADS", "5")
    options = ("--rules", files / "store", "--events", files / "events.csv", "--how", *how)
    written = []
    for number, given in enumerate([("--threads", "1"), ("--threads", "3"), ()]):
        out = tmp_path / f"{number}.csv"
        done("match", *options, "--out", out, *given)
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]
    assert set(used) == {3, 5}


def test_threads_that_are_refused(files, tmp_path, monkeypatch):
    options = ("--rules", files / "store", "--events", files / "events.csv")
    options = ("match", *options, "--out", tmp_path / "o.csv", "--threads")
    assert "0 is not in the range x>=1" in refused(*options, "0", code=2)
    assert "'two' is not a valid integer range" in refused(*options, "two", code=2)
    assert "--threads is for one process" in refused(*options, "2", "--spark", code=2)
    monkeypatch.setenv("TOCSIN_THREADS", "two")
    assert "the environment variable TOCSIN_THREADS must be" in refused(*options[:-1])


def test_nanoseconds(files, tmp_path):
    """Spark refuses them; here they are cut off."""
    events, out = tmp_path / "e.parquet", tmp_path / "o.jsonl"
    times = pa.array([1_714_564_800_123_456_789, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"row": [0, 1], "at": times}), events)
    rule = tmp_path / "r.csv"
    rule.write_text("id,where\na,row >= 0\n")
    done("match", "--rules", rule, "--events", events, "--out", out)
    assert [row["at"] for row in read(out)] == ["2024-05-01T12:00:00.123456", None]


def test_an_output_that_cannot_be_written(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    for suffix in ("csv", "parquet"):
        run_ = subprocess.run(
            [sys.executable, "-m", "tocsin", "match", *options, "--out", f"o.{suffix}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        )
        assert (run_.returncode, run_.stdout) == (1, "")
        assert run_.stderr == f"error: o.{suffix} cannot be written: File too large\n"
        assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(files, tmp_path, monkeypatch):
    def refuse(path, *rest):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("os.mkdir", refuse)
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    said = refused("match", *options, "--out", tmp_path / "o.csv")
    assert said == f"error: {tmp_path / 'o.csv'} cannot be written: Permission denied\n"


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_the_program_is_quiet_and_leaves_one_file(files, tmp_path, way):
    """As people start it; on a Spark of its own."""
    said = subprocess.run(
        [
            *(sys.executable, "-m", "tocsin", "match", "--rules", files / "store", *way),
            *("--events", files / "events.parquet", "--out", "o.csv", "--keep", "row"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert said.stderr == ""
    assert said.returncode == 0
    assert said.stdout.startswith("200 events, ")
    assert [p.name for p in tmp_path.iterdir()] == ["o.csv"]


def test_what_spark_raises_becomes_a_sentence():
    from tocsin.spark.files import reason

    java = """An error occurred while calling o60.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Cannot read e.csv.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.X(Y.scala:920)
Caused by: org.apache.spark.SparkException: [MALFORMED] Malformed records.
Parse Mode: FAILFAST.
\tat org.apache.spark.sql.errors.X(Y.scala:920)
Caused by: java.lang.NumberFormatException: For input string: "abc"
"""
    assert reason(java) == 'Cannot read e.csv; Malformed records; For input string: "abc"'
    worker = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 22, in bad
    raise %s
%s: 'x' is bad
"""
    own = worker % ("...", "tocsin.errors.EventError")
    assert reason(own) == "'x' is bad"
    assert (
        reason(worker % ("...", "KeyError")) == "a Python worker failed with KeyError: 'x' is bad"
    )
    assert reason("[PATH_NOT_FOUND] Path does not exist. SQLSTATE: 42K03") == "Path does not exist"


def test_the_bar_reads_spark_s_own(tmp_path):
    log = tmp_path / "log"
    assert latest_tasks(log, 0) is None
    log.write_bytes(b"WARN something\n\r[Stage 0:====>     (1 + 2) / 8]")
    assert latest_tasks(log, 0) == (1, 8)
    size = log.stat().st_size
    assert latest_tasks(log, size) is None, "what an earlier step left does not count"
    with log.open("ab") as file:
        file.write(b"\r[Stage 1:==>(7 + 1) / 9][Stage 2:>  (0 + 1) / 10]\r" + b" " * 80)
    assert latest_tasks(log, size) == (0, 10)


def on_a_terminal(*command):
    """Return what a command prints, and what it draws on a terminal that is its stderr."""
    master, slave = pty.openpty()
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    drawn = os.read(master, 1 << 20).decode()
    os.close(master)
    assert said.returncode == 0, drawn
    return said.stdout, drawn


def test_the_bar_on_a_terminal(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.csv", "--out")
    program = (sys.executable, "-m", "tocsin", "match", *options, tmp_path / "o.csv")
    said, drawn = on_a_terminal(*program)
    assert said.startswith(b"200 events, ")
    assert "matching" in drawn


def test_the_bar_of_spark_on_a_terminal(tmp_path):
    code = """
import pathlib, sys, time
from tocsin.cli.progress import following_spark, shown, stderr_into
log = pathlib.Path(sys.argv[1])
with shown() as bar, following_spark(log, bar) as step:
    step("starting")
    with stderr_into(log):
        import os
        os.write(2, b"chatter")
    step("matching")
    with log.open("ab") as file:
        file.write(b"[Stage 0:==>  (3 + 2) / 8]")
    time.sleep(0.6)
print("done")
"""
    said, drawn = on_a_terminal(sys.executable, "-c", code, tmp_path / "log")
    assert said == b"done\n"
    assert "matching" in drawn
    assert "3 of 8 tasks" in drawn
    assert "chatter" not in drawn


def test_without_spark(files, tmp_path):
    code = """
import sys
sys.modules |= {"pyspark": None, "py4j": None}
from tocsin.cli.main import tocsin
tocsin(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "match", "--rules", files / "store", "--events"]
    command += [files / "events.csv", "--out", tmp_path / "o.csv"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("200 events, ")
    said = subprocess.run([*command, "--overwrite", "--spark"], capture_output=True, text=True)
    assert said.returncode == 1
    assert "pyspark is not installed; pip install 'tocsin[spark]'" in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_the_output_does_not_replace_the_input(tmp_path):
    rules, events = tmp_path / "rules.csv", tmp_path / "events.csv"
    rules.write_text("id,where\na,x > 1\n")
    events.write_text("x\n1\n2\n")
    for out in (rules, events, tmp_path / "." / "events.csv"):
        arguments = ["--rules", rules, "--events", events, "--out", out, "--overwrite"]
        assert "is read from, so it cannot be the output" in refused("match", *arguments)
    assert events.read_text() == "x\n1\n2\n"


def test_missing_values_that_are_written_out(tmp_path):
    rules, events = tmp_path / "rules.csv", tmp_path / "events.csv"
    rules.write_text("id,where\na,x > 1\n")
    events.write_text("x\n1\nNA\n")
    arguments = ["--rules", rules, "--events", events, "--out", tmp_path / "o.csv"]
    message = refused("match", *arguments, "--schema", "x=number")
    assert "row 2: column 'x' is declared as number, but has the value 'NA'" in message
    assert "leave missing values empty" in message
