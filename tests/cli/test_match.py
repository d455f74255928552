"""`tocsin match` writes what matching in one process gives, whatever the files."""

import csv
import datetime
import json
import os
import pty
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.test_rules import done, refused, run, write_rules
from tocsin.cli.progress import latest_tasks

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
def test_every_format(spark, files, events, tmp_path, source, given, suffix):
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


def test_how_and_what(spark, files, events, tmp_path):
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


def test_declared_types(spark, tmp_path):
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
    assert '"2.5"' in said
    decimals = tmp_path / "d.parquet"
    price = pa.array([1, 3]).cast(pa.decimal128(21, 2))
    sparse = pa.array([[("z", 1.0)], None], pa.map_(pa.string(), pa.float64()))
    pq.write_table(pa.table({"price": price, "m": sparse}), decimals)
    rule.write_text("id,where\nb,price > 2\nc,z = 1\n")
    options = ("--rules", rule, "--events", decimals, "--out", out, "--overwrite")
    assert "decimal" in refused("match", *options)
    done("match", *options, "--schema", "price=number,z=number", "--keep", "price")
    assert out.read_text() == "price,rule\n1.0,c\n3.0,b\n"


def test_ranges(spark, tmp_path):
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


def test_no_matches_and_no_events(spark, tmp_path):
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


def test_what_is_wrong_before_spark_starts(files, tmp_path, monkeypatch):
    monkeypatch.setattr("tocsin.cli.match._session", None)
    given = {
        "--rules": files / "store",
        "--events": files / "events.parquet",
        "--out": tmp_path / "o.csv",
    }

    def said(*options, code=1, **other):
        changed = given | {f"--{k}": v for k, v in other.items()}
        return refused("match", *(x for pair in changed.items() for x in pair), *options, code=code)

    (tmp_path / "there.csv").touch()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "mixed").mkdir()
    for name in ("a.csv", "b.jsonl", "_SUCCESS"):
        (tmp_path / "mixed" / name).touch()
    assert "must end in .parquet, .csv, .jsonl" in said(out=tmp_path / "o.txt")
    assert "exists already; --overwrite" in said(out=tmp_path / "there.csv")
    assert "is a folder" in said("--overwrite", out=tmp_path / "folder.csv")
    assert "there is no folder" in said(out=tmp_path / "none" / "o.csv")
    assert "there is no file" in said(events=tmp_path / "none.csv")
    assert "has no files" in said(events=tmp_path / "folder.csv")
    assert "several kinds (csv, json)" in said(events=tmp_path / "mixed")
    assert "there is no file" in said(rules=tmp_path / "none")
    assert "there is no rule store" in said(rules=tmp_path)
    assert "--how top and --k go together" in said("--how", "top", code=2)
    assert "--how top and --k go together" in said("--k", "3", code=2)
    assert "--payload goes with" in said("--payload", "a", "--output", "lists", code=2)


def test_what_is_wrong_with_the_data(spark, files, tmp_path):
    rule, events, out = tmp_path / "r.csv", tmp_path / "e.csv", tmp_path / "o.csv"
    rule.write_text("id,where\na,x > 5\n")

    def said(content, *options, suffix="csv"):
        file = events.with_suffix(f".{suffix}")
        file.write_bytes(content)
        message = refused("match", "--rules", rule, "--events", file, "--out", out, *options)
        assert not out.exists()
        assert not list(tmp_path.glob(".o.csv*")), "no parts are left"
        return message

    assert "r.csv: row 0 (rule 'a'): unknown attribute 'x'" in said(b"y\n1\n")
    assert "no column 'z'" in said(b"x\n1\n", "--keep", "z")
    assert "no payload column 'z'" in said(b"x\n1\n", "--payload", "z")
    assert "e.parquet cannot be read" in said(b"nonsense", suffix="parquet")
    message = said(b'{"x": 1}\n{"x":\n', suffix="jsonl")
    assert "e.jsonl cannot be read: Malformed records" in message
    assert len(message.splitlines()) == 1
    message = said(b"x\n1\nabc\n", "--schema", "x=number")
    assert "Malformed records" in message
    assert len(message.splitlines()) == 1
    message = said(b'{"x": 1, "y": [1]}\n', suffix="jsonl")
    assert "CSV cannot hold column 'y', which is of type array<bigint>" in message
    assert "column 'rules'" in said(b"x\n1\n", "--output", "lists")


def test_the_program_is_quiet_and_leaves_one_file(files, tmp_path):
    """On a Spark of its own, as people start it."""
    said = subprocess.run(
        [
            *(sys.executable, "-m", "tocsin", "match", "--rules", files / "store"),
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


def test_the_bar_on_a_terminal(tmp_path):
    code = """
import pathlib, sys, time
from tocsin.cli.progress import shown, stderr_into
log = pathlib.Path(sys.argv[1])
with shown(log) as say:
    say("starting")
    with stderr_into(log):
        import os
        os.write(2, b"chatter")
    say("matching")
    with log.open("ab") as file:
        file.write(b"[Stage 0:==>  (3 + 2) / 8]")
    time.sleep(0.6)
print("done")
"""
    master, slave = pty.openpty()
    said = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "log"], stdout=subprocess.PIPE, stderr=slave
    )
    os.close(slave)
    drawn = os.read(master, 1 << 20).decode()
    os.close(master)
    assert (said.returncode, said.stdout) == (0, b"done\n")
    assert "matching" in drawn
    assert "3 of 8 tasks" in drawn
    assert "chatter" not in drawn


def test_without_spark(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tocsin.spark.files", None)
    monkeypatch.delattr("tocsin.spark.files", raising=False)
    given = ("--rules", files / "store", "--events", files / "events.parquet")
    said = refused("match", *given, "--out", tmp_path / "o.csv")
    assert "pip install 'tocsin[spark]'" in said
    assert run("plan", "--rules", files / "store").exit_code == 0
