"""Errors of `tocsin match` about arguments and files."""

import errno
import json
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.commands import run_failing


@pytest.fixture
def files(tmp_path_factory):
    """A folder with a store of rules, and a file of events."""
    folder = tmp_path_factory.mktemp("files")
    events = pa.table({"row": range(1000), "x": [float(n) for n in range(1000)]})
    pq.write_table(events, folder / "events.parquet")
    rules = tocsin.Rules(events.schema)
    rules.add("all", "x >= 0")
    rules.save(folder / "store")
    return folder


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_arguments_are_checked_before_anything_starts(files, tmp_path, monkeypatch, way):
    monkeypatch.setattr("tocsin.cli.on_spark._session", None)
    monkeypatch.setattr("tocsin.cli.in_process.open_events", None)
    valid = {
        "--rules": files / "store",
        "--events": files / "events.parquet",
        "--out": tmp_path / "o.csv",
    }

    def message_of(*options, code=1, **other):
        changed = valid | {f"--{k}": v for k, v in other.items()}
        pairs = [x for pair in changed.items() for x in pair]
        return run_failing("match", *pairs, *way, *options, code=code)

    (tmp_path / "there.csv").touch()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.jsonl", "_SUCCESS"):
        (tmp_path / "mixed" / name).touch()
    assert "must end in .parquet, .csv, .jsonl" in message_of(out=tmp_path / "o.txt")
    assert "exists already; --overwrite" in message_of(out=tmp_path / "there.csv")
    assert "is a folder" in message_of("--overwrite", out=tmp_path / "folder.csv")
    assert "there is no folder" in message_of(out=tmp_path / "none" / "o.csv")
    assert "there is no file or folder" in message_of(events=tmp_path / "none.csv")
    assert "has no files" in message_of(events=tmp_path / "folder.csv")
    assert "several kinds (csv, json)" in message_of(events=tmp_path / "mixed")
    assert "there is no file or folder" in message_of(rules=tmp_path / "none")
    assert "there is no rule store" in message_of(rules=tmp_path)
    assert "how='top' needs k" in message_of("--how", "top", code=2)
    assert "k and weights go with how='top'" in message_of("--k", "3", code=2)
    assert "payload goes with output='rows', a row per match" in message_of(
        "--payload", "a", "--output", "lists", code=2
    )


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_folders_that_are_refused(files, tmp_path, monkeypatch, way):
    """Spark would ignore files outside partitions, and read columns by position."""
    monkeypatch.setattr("tocsin.cli.on_spark._session", None)
    folder = tmp_path / "events"

    def message_of(*names, content="x\n1\n"):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content)
        options = ("--rules", files / "store", "--events", folder, "--out", tmp_path / "o.csv")
        message = run_failing("match", *options, *way)
        for name in names:
            (folder / name).unlink()
        return message

    assert "in subfolders, such as sub/b.csv" in message_of("a.csv", "sub/b.csv")
    assert "in subfolders, such as sub/b.csv" in message_of("sub/b.csv")
    assert "such as day=1/b.csv" in message_of("a.csv", "day=1/b.csv")
    if not way:
        assert "only --spark reads them" in message_of("day=1/b.csv")
    (folder / "a.csv").write_text("x,y\n1,2\n")
    assert "a.csv and " in message_of("b.csv", content="y,x\n1,2\n")
    assert "have different headers" in message_of("b.csv", content="X,y\n1,2\n")


@pytest.fixture
def match_error(tmp_path):
    """A function that returns the message about events that cannot be matched."""

    def message_of(content, *options, suffix="csv"):
        rule, out = tmp_path / "r.csv", tmp_path / "o.csv"
        rule.write_text("id,where\na,x > 5\n")
        file = tmp_path / f"e.{suffix}"
        file.write_bytes(content)
        message = run_failing("match", "--rules", rule, "--events", file, "--out", out, *options)
        assert not out.exists()
        assert not list(tmp_path.glob(".o.csv*")), "no parts are left"
        assert len(message.splitlines()) == 1 or "unknown attribute" in message
        return message

    return message_of


def test_errors_in_rules_and_options(match_error):
    assert "r.csv: row 1 (rule 'a'): unknown attribute 'x'" in match_error(b"y\n1\n")
    assert "no column 'z'; did you mean 'zz'?" in match_error(b"x,zz\n1,2\n", "--keep", "z")
    assert "no payload column 'z'" in match_error(b"x\n1\n", "--payload", "z")
    assert "keep names the column 'x' twice" in match_error(b"x\n1\n", "--keep", "x", "--keep", "X")
    assert "two columns 'rule' (names are case-insensitive): one is added by matching" in (
        match_error(b"x,rule\n1,2\n")
    )
    assert "column 'rules', which is of type list<element: string" in match_error(
        b"x\n1\n", "--output", "lists"
    )


def test_errors_in_csv(match_error):
    assert "e.csv is empty" in match_error(b"")
    message = match_error(b"x,y\n1,2\n3\n")
    assert "e.csv: row 2: Expected 2 columns, got 1: 3" in message
    assert "got 3: 3,4,5" in match_error(b"x,y\n1,2\n3,4,5\n")
    assert "e.csv: row 1: column 'y': invalid UTF8 data" in match_error(b"x,y\n1,\xff\n")
    assert "contains a line break" in match_error(b'x,y\n1,"a\nb"\n')
    unclosed = match_error(b'x,y\n1,"abc\n2,d\n', "--keep", "x")
    assert "or its closing quote is missing: 'abc\\n2,d" in unclosed
    wrong = {"integer": "2.5", "number": "abc", "flag": "yes", "time": "12:30"}
    wrong |= {"decimal(4,2)": "99.995", "decimal(5,2)": "1e", "decimal(6,2)": "NaN"}
    for kind, text in wrong.items():
        content = f"x,y\n1,\n2,{text}\n".encode()
        message = match_error(content, "--schema", f"y={kind}")
        assert "e.csv: row 2: column 'y' is declared as " in message
        hint = "; a time is written as 2024-05-01 12:30:00" if kind == "time" else ""
        assert message.endswith(f"declared as {kind}, but has the value {text!r}{hint}\n")


def test_errors_in_json(match_error):
    def message_of(content, *options):
        return match_error(content, *options, suffix="jsonl")

    assert "e.jsonl: line 2: not JSON: Expecting value" in message_of(b'{"x": 1}\n{"x":\n')
    assert "line 3: not a JSON object: 5" in message_of(b'{"x": 1}\n\n5\n')
    assert "line 1: not a JSON object: null" in message_of(b"null\n")
    assert "line 1: not JSON: Extra data" in message_of(b'{"x": 1}{"x": 2}\n')
    assert "line 1: not JSON: Extra data" in message_of(b'{"x": 1} null\n')
    assert "line 1: not JSON: Expecting property name" in message_of(b'{\n"x": 1}\n')
    assert "line 1: not JSON: maximum recursion" in message_of(
        b'{"x":' + b"[" * 10**5 + b"]" * 10**5
    )
    assert "e.jsonl: cannot be read: 'utf-8' codec" in message_of(b'{"x": "\xff"}\n')
    assert "columns 'x' and 'X', and names are case-insensitive" in message_of(
        b'{"x": 1, "X": 2}\n'
    )
    assert "have no columns" in message_of(b"{}\n")
    for value in (b"100", b"true", b"[1]", b'"one"', b"1e400"):
        assert "line 2: column 'y' is declared as decimal(4,2), but has the value " in message_of(
            b'{"x": 1}\n{"x": 1, "y": ' + value + b"}\n", "--schema", "y=decimal(4,2)"
        )
    assert "line 2: not JSON: an object has a field twice" in message_of(
        b'{"x": 1}\n{"x": 1, "x": 2}\n'
    )
    assert "CSV cannot hold column 'y', which is of type list<item: int64>" in message_of(
        b'{"x": 1, "y": [1]}\n'
    )
    assert "column 'y' has objects without fields" in message_of(b'{"x": 1, "y": [{}]}\n')
    deep = b'{"x": 1, "y": ' + b"[" * 60 + b"]" * 60 + b"}\n"
    assert "column 'y' is nested more than 50 levels deep" in message_of(deep)
    wrong = {"integer": "1.0", "number": '"1"', "flag": "1", "time": '"12:30"'}
    for kind, value in wrong.items():
        content = f'{{"x": 1}}\n{{"x": 2, "y": {value}}}\n'.encode()
        expected = f"line 2: column 'y' is declared as {kind}, but has the value {value}"
        assert expected in message_of(content, "--schema", f"y={kind}")


def test_errors_in_parquet(match_error, tmp_path):
    def message_of(table, *options):
        pq.write_table(table, tmp_path / "t.parquet")
        return match_error((tmp_path / "t.parquet").read_bytes(), *options, suffix="parquet")

    assert "e.parquet: cannot be read" in match_error(b"nonsense", suffix="parquet")
    same = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "X"])
    assert "the columns 'x' and 'X', and names are case-insensitive" in message_of(same)
    flags = pa.table({"x": [1], "y": [[True]]})
    assert "type list<element: bool> and cannot be read as integer" in message_of(
        flags, "--schema", "y=integer"
    )
    texts = pa.table({"x": [1, 2], "y": ["1", "one"]})
    assert "row 2: column 'y' is declared as number, but has the value 'one'" in message_of(
        texts, "--schema", "y=number"
    )
    far = pa.table({"x": [1], "y": [1e300]})
    assert "column 'y' is declared as integer, but has the value 1e+300" in message_of(
        far, "--schema", "y=integer"
    )
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"x": [1.5]}), folder / "b.parquet")
    out = tmp_path / "o.csv"
    message = run_failing("match", "--rules", tmp_path / "r.csv", "--events", folder, "--out", out)
    assert "b.parquet: row 1: column 'x' is read as integer, like its first values" in message


def test_errors_on_spark(spark, match_error):
    assert "e.parquet cannot be read" in match_error(b"nonsense", "--spark", suffix="parquet")
    message = match_error(b'{"x": 1}\n{"x":\n', "--spark", suffix="jsonl")
    assert "e.jsonl cannot be read: Malformed records" in message
    message = match_error(b"x\n1\nabc\n", "--spark", "--schema", "x=number")
    assert "Malformed records" in message
    message = match_error(b'{"x": 1, "y": [1]}\n', "--spark", suffix="jsonl")
    assert "CSV cannot hold column 'y', which is of type array<bigint>" in message


def test_an_output_that_cannot_be_written(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    for suffix in ("csv", "parquet"):
        result = subprocess.run(
            [sys.executable, "-m", "tocsin", "match", *options, "--out", f"o.{suffix}"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        )
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"error: o.{suffix} cannot be written: File too large\n"
        assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(files, tmp_path, monkeypatch):
    def refuse(path, *rest):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("os.mkdir", refuse)
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    message = run_failing("match", *options, "--out", tmp_path / "o.csv")
    assert message == f"error: {tmp_path / 'o.csv'} cannot be written: Permission denied\n"


def test_reasons_of_spark_errors():
    from tocsin.spark.files import extract_reason

    java = """An error occurred while calling o60.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Cannot read e.csv.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.X(Y.scala:920)
Caused by: org.apache.spark.SparkException: [MALFORMED] Malformed records.
Parse Mode: FAILFAST.
\tat org.apache.spark.sql.errors.X(Y.scala:920)
Caused by: java.lang.NumberFormatException: For input string: "abc"
"""
    assert extract_reason(java) == 'Cannot read e.csv; Malformed records; For input string: "abc"'
    worker = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 22, in bad
    raise %s
%s: 'x' is bad
"""
    own = worker % ("...", "tocsin.errors.EventError")
    assert extract_reason(own) == "'x' is bad"
    assert (
        extract_reason(worker % ("...", "KeyError"))
        == "a Python worker failed with KeyError: 'x' is bad"
    )
    assert (
        extract_reason("[PATH_NOT_FOUND] Path does not exist. SQLSTATE: 42K03")
        == "Path does not exist"
    )


def test_the_output_does_not_replace_the_input(tmp_path):
    rules, events = tmp_path / "rules.csv", tmp_path / "events.csv"
    rules.write_text("id,where\na,x > 1\n")
    events.write_text("x\n1\n2\n")
    for out in (rules, events, tmp_path / "." / "events.csv"):
        arguments = ["--rules", rules, "--events", events, "--out", out, "--overwrite"]
        assert "is an input, so it cannot be the output" in run_failing("match", *arguments)
    assert events.read_text() == "x\n1\n2\n"


def test_missing_values_that_are_written_out(tmp_path):
    rules, events = tmp_path / "rules.csv", tmp_path / "events.csv"
    rules.write_text("id,where\na,x > 1\n")
    events.write_text("x\n1\nNA\n")
    arguments = ["--rules", rules, "--events", events, "--out", tmp_path / "o.csv"]
    message = run_failing("match", *arguments, "--schema", "x=number")
    assert "row 2: column 'x' is declared as number, but has the value 'NA'" in message
    assert "leave missing values empty" in message


def test_rows_of_events_are_numbered_from_one(match_error, tmp_path, monkeypatch):
    """Rows count from 1 in each file, whatever the format and the size of blocks."""
    good, bad = {"low": 1.0, "high": 2.0}, {"low": 5.0, "high": 3.0}
    expected = "row 8: attribute 'x': the range's low end is above"
    rows = [{"row": n, "x": good} for n in range(7)] + [{"row": 7, "x": bad}]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    table = (tmp_path / "t.parquet").read_bytes()
    for events in (1 << 14, 3):
        monkeypatch.setattr("tocsin.cli.in_process._EVENTS", events)
        for content, suffix in ((lines, "jsonl"), (table, "parquet")):
            assert f"e.{suffix}: {expected}" in match_error(content, "--keep", "row", suffix=suffix)
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(lines.splitlines()[0])
    (folder / "2.jsonl").write_bytes(lines)
    options = ("--rules", tmp_path / "r.csv", "--events", folder, "--out", tmp_path / "o.csv")
    assert f"2.jsonl: {expected}" in run_failing("match", *options, "--keep", "row")


def test_urls_are_refused(files):
    """pathlib would drop a slash of s3://bucket."""
    paths = {
        "--rules": files / "store",
        "--events": files / "events.parquet",
        "--out": files / "o.csv",
    }
    for option in paths:
        # Rules can be in a bucket.
        url = "hdfs://host/x.csv" if option == "--rules" else "s3://bucket/x.csv"
        arguments = [argument for pair in (paths | {option: url}).items() for argument in pair]
        message = run_failing("match", *arguments, code=2)
        assert (
            f"'{option}': '{url}' is a URL; only local files and folders are supported" in message
        )
    arguments = [argument for pair in paths.items() for argument in pair]
    message = run_failing("match", *arguments, "--schema", url)
    assert message == f"error: the schema '{url}' is a URL; only local files are supported\n"
