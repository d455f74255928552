"""`tocsin match` writes the result of matching, for all formats; see also test_both_ways."""

import contextlib
import csv
import datetime
import json
import os
import pty
import random
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.commands import run_failing, run_ok, write_rules
from tocsin.cli.progress import read_latest_tasks
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
    """The same rules in every format, and the same events in files and in a folder."""
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
    rules = tocsin.Rules(events.schema)
    rules.add_many(RULES)
    return rules


def read(path):
    """Return rows; in CSV, all values are text, and null is empty."""
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pq.read_table(path).to_pylist()


FORMATS = [  # of rules, events and output
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


@pytest.mark.parametrize(("source", "event_file", "suffix"), FORMATS)
def test_every_format(files, events, tmp_path, source, event_file, suffix):
    out = tmp_path / f"out.{suffix}"
    rule_path = files / (source if source == "store" else f"rules.{source}")
    output = run_ok("match", "--rules", rule_path, "--events", files / event_file, "--out", out)
    rows = read(out)
    if "csv" in event_file:
        # In CSV, an empty string is null, as on Spark.
        tiers = pa.array([tier or None for tier in events.column("tier").to_pylist()])
        events = events.set_column(3, "tier", tiers)
    expected = sorted(rules(events).match(events))
    assert sorted((int(r["row"]), r["rule"]) for r in rows) == expected
    assert len(expected) > 200
    columns = events.column_names
    # As on Spark, the fields of JSON are in the order of their names.
    assert list(rows[0]) == [*(sorted(columns) if "jsonl" in event_file else columns), "rule"]
    originals = events.to_pylist()
    for row in rows:
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
    assert output.startswith(f"200 events, {len(expected)} matches in ")
    assert "events per second): " in output
    assert output.splitlines()[2].split()[0] in {"007", "late"}
    assert list(tmp_path.iterdir()) == [out], "no other files are left"


def test_options(files, events, tmp_path):
    def match(name, *options):
        out = tmp_path / name
        common = ("--rules", files / "store", "--events", files / "events.parquet", "--out", out)
        output = run_ok("match", *common, *options, "--overwrite")
        return read(out), output

    own = rules(events)
    rows, output = match("a.csv", "--how", "count", "--keep", "row")
    assert sorted((int(r["row"]), int(r["matches"])) for r in rows) == list(
        enumerate(own.count(events).tolist())
    )
    assert output.startswith(f"200 events, {len(own.match(events))} matches in ")
    assert len(output.splitlines()) == 1
    rows, output = match("a.jsonl", "--output", "lists", "--keep", "row")
    assert sum(len(r["rules"]) for r in rows) == len(own.match(events))
    assert len(rows) == 200
    assert output.startswith(f"200 events, {len(own.match(events))} matches in ")
    assert "busiest rules" in output
    rows, _ = match("a.parquet", "--how", "top", "--k", 1, "--keep", "row,n", "--payload", "team")
    assert {tuple(r) for r in rows} == {("row", "n", "rule", "score", "team")}
    assert len(rows) == len(own.top(events, 1))
    rows, _ = match("a.parquet", "--output", "lists", "--keep", "row")
    assert sum(len(r["rules"]) for r in rows) == len(own.match(events))


def test_declared_types(tmp_path):
    events, out, rule = tmp_path / "e [1].csv", tmp_path / "o.csv", tmp_path / "r.csv"
    events.write_text("code,price,at\n007,1,2024-05-01T00:00:00Z\n8,2.5,\n")
    rule.write_text("id,where\na,code = '007'\nb,price > 2\n")
    options = ("--rules", rule, "--events", events, "--out", out, "--overwrite")
    assert "attribute 'code' is an integer" in run_failing("match", *options)
    run_ok("match", *options, "--schema", "CODE=category")
    assert out.read_text() == (
        "code,price,at,rule\n007,1.0,2024-05-01T00:00:00.000000Z,a\n8,2.5,,b\n"
    )
    run_ok("match", *options, "--schema", "code=category,price=number,at=category")
    assert out.read_text().splitlines()[1] == "007,1.0,2024-05-01T00:00:00Z,a"
    message = run_failing("match", *options, "--schema", "prise=number")
    assert "no such column; did you mean 'price'?" in message
    message = run_failing("match", *options, "--schema", "code=category,price=integer")
    assert (
        "e [1].csv: row 2: column 'price' is declared as integer, but has the value '2.5'"
        in message
    )
    decimals = tmp_path / "d.parquet"
    price = pa.array([1, 3]).cast(pa.decimal128(21, 2))
    sparse = pa.array([[("z", 1.0)], None], pa.map_(pa.string(), pa.float64()))
    pq.write_table(pa.table({"price": price, "m": sparse}), decimals)
    rule.write_text("id,where\nb,price > 2\nc,z = 1\n")
    options = ("--rules", rule, "--events", decimals, "--out", out, "--overwrite")
    assert "decimal" in run_failing("match", *options)
    run_ok("match", *options, "--schema", "price=number,z=number", "--keep", "price")
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
        run_ok("match", *options, *declared)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert sorted((r["row"], r["rule"]) for r in rows) == [(0, "a"), (0, "b")]


def test_no_matches_and_no_events(tmp_path):
    rule, events = tmp_path / "r.csv", tmp_path / "e.jsonl"
    rule.write_text("id,where\na,x > 5\n")
    events.write_text('{"x": 1}\n')
    for suffix, content in (("csv", "x,rule\n"), ("jsonl", ""), ("parquet", None)):
        out = tmp_path / f"o.{suffix}"
        output = run_ok("match", "--rules", rule, "--events", events, "--out", out)
        assert output.startswith("1 event, 0 matches in ")
        assert len(output.splitlines()) == 1
        assert read(out) == []
        assert content is None or out.read_text() == content
    events = tmp_path / "none.csv"
    events.write_text("x\n")
    out = tmp_path / "n.csv"
    output = run_ok(
        "match", "--rules", rule, "--events", events, "--out", out, "--schema", "x=number"
    )
    assert output.startswith("0 events, 0 matches")
    assert out.read_text() == "x,rule\n"


def test_partitions_on_spark(spark, tmp_path):
    for day in (1, 2):
        (tmp_path / "events" / f"day={day}").mkdir(parents=True)
        (tmp_path / "events" / f"day={day}" / "a.csv").write_text(f"x\n{day}\n")
    rule, out = tmp_path / "r.csv", tmp_path / "o.csv"
    rule.write_text("id,where\na,day = 2\n")
    run_ok("match", "--rules", rule, "--events", tmp_path / "events", "--out", out, "--spark")
    assert out.read_text() == "x,day,rule\n2,2,a\n"


def test_an_older_version_of_a_store(spark, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    store.add("a", "x > 1")
    store.remove("a")
    events, out = tmp_path / "events.csv", tmp_path / "out.csv"
    events.write_text("x\n2\n")
    files = ("--rules", store.path, "--events", events, "--out", out, "--overwrite")
    for way in ((), ("--spark",)):
        run_ok("match", *files, "--version", 2, *way)
        assert out.read_text() == "x,rule\n2.0,a\n", "a number, as the store says"
        run_ok("match", *files, *way)
        assert out.read_text() == "x,rule\n"
    assert "has no version 9" in run_failing("match", *files, "--version", 9)
    rules = tmp_path / "rules.csv"
    rules.write_text("id,where\na,x > 1\n")
    message = run_failing("match", "--rules", rules, *files[2:], "--version", 1, code=2)
    assert "--version is for a rule store" in message


def test_a_file_of_rules_may_have_any_index_with_options(tmp_path):
    rules, events, out = (tmp_path / name for name in ("r.csv", "e.csv", "o.csv"))
    rules.write_text("id,where\na,x < 5\nb,x > 3 AND x < 7\n")
    events.write_text("x\n1\n4\n9\n")
    files = ("--rules", rules, "--events", events, "--out", out, "--overwrite")
    for index in (("--index", "exhaustive"), ("--index", "ntree", "--index-option", "fan_out=8")):
        run_ok("match", *files, *index)
        assert sorted(out.read_text().splitlines()) == ["1,a", "4,a", "4,b", "x,rule"]
    message = run_failing("match", *files, "--index", "ntree", "--index-option", "fanout=8")
    assert "did you mean 'fan_out'" in message
    run_ok("rules", "create", tmp_path / "store", "--schema", "x=number")
    files = ("--rules", tmp_path / "store", "--events", events, "--out", out)
    message = run_failing("match", *files, "--index", "grid", code=2)
    assert "a store has its own index" in message


# ------------------------------------------------------------ reading and writing


def test_repeated_options_add_up(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.parquet")
    out = tmp_path / "o.csv"
    run_ok("match", *options, "--out", out, "--keep", "row,n", "--keep", "x", "--payload", "team")
    assert out.read_text().startswith("row,n,x,rule,team\n")


def test_small_blocks(files, tmp_path, monkeypatch):
    """Blocks end anywhere."""
    options = ("--rules", files / "store", "--output", "lists")

    def match(events, name):
        run_ok("match", *options, "--events", events, "--out", tmp_path / name)
        return (tmp_path / name).read_bytes()

    sources = [files / "events.csv", files / "events.jsonl"]
    large = [match(source, f"{i}.jsonl") for i, source in enumerate(sources)]
    for module in ("csv_files", "json_files"):
        monkeypatch.setattr(f"tocsin.files.{module}._BLOCK", 300)
    monkeypatch.setattr("tocsin.cli.in_process._EVENTS", 7)
    monkeypatch.setattr("tocsin.files.writer._ROW_GROUP", 3)
    assert [match(source, f"s{i}.jsonl") for i, source in enumerate(sources)] == large
    match(sources[0], "o.parquet")
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
    monkeypatch.setattr(threads, "_FIRST_RANGE", 10)
    monkeypatch.setenv("TOCSIN_THREADS", "5")
    options = ("--rules", files / "store", "--events", files / "events.csv", "--how", *how)
    outputs = []
    for number, arguments in enumerate([("--threads", "1"), ("--threads", "3"), ()]):
        out = tmp_path / f"{number}.csv"
        run_ok("match", *options, "--out", out, *arguments)
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]
    assert set(used) == {3, 5}


def test_threads_that_are_refused(files, tmp_path, monkeypatch):
    options = ("--rules", files / "store", "--events", files / "events.csv")
    options = ("match", *options, "--out", tmp_path / "o.csv", "--threads")
    assert "0 is not in the range x>=1" in run_failing(*options, "0", code=2)
    assert "'two' is not a valid integer range" in run_failing(*options, "two", code=2)
    assert "--threads is for one process" in run_failing(*options, "2", "--spark", code=2)
    monkeypatch.setenv("TOCSIN_THREADS", "two")
    assert "the environment variable TOCSIN_THREADS must be" in run_failing(*options[:-1])


def test_nanoseconds(files, tmp_path):
    """Spark refuses them; in this process their texts have microseconds."""
    events, out = tmp_path / "e.parquet", tmp_path / "o.jsonl"
    times = pa.array([1_714_564_800_123_456_789, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"row": [0, 1], "at": times}), events)
    rule = tmp_path / "r.csv"
    rule.write_text("id,where\na,row >= 0\n")
    run_ok("match", "--rules", rule, "--events", events, "--out", out)
    assert [row["at"] for row in read(out)] == ["2024-05-01T12:00:00.123456", None]


@pytest.mark.parametrize("way", [[], ["--spark"]])
def test_the_program_is_quiet_and_leaves_one_file(files, tmp_path, way):
    """In a process of its own, with its own Spark session."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", "tocsin", "match", "--rules", files / "store", *way),
            *("--events", files / "events.parquet", "--out", "o.csv", "--keep", "row"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.stderr == ""
    assert result.returncode == 0
    assert result.stdout.startswith("200 events, ")
    assert [p.name for p in tmp_path.iterdir()] == ["o.csv"]


def test_reading_the_bar_of_spark(tmp_path):
    log = tmp_path / "log"
    assert read_latest_tasks(log, 0) is None
    log.write_bytes(b"WARN something\n\r[Stage 0:====>     (1 + 2) / 8]")
    assert read_latest_tasks(log, 0) == (1, 8)
    size = log.stat().st_size
    assert read_latest_tasks(log, size) is None, "the bar of an earlier step is ignored"
    with log.open("ab") as file:
        file.write(b"\r[Stage 1:==>(7 + 1) / 9][Stage 2:>  (0 + 1) / 10]\r" + b" " * 80)
    assert read_latest_tasks(log, size) == (0, 10)


def on_a_terminal(*command):
    """Return the stdout of a command, and its stderr, which is a terminal."""
    master, slave = pty.openpty()
    drawn = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave) as process:
        os.close(slave)
        with contextlib.suppress(OSError):  # raised when the command has ended
            while part := os.read(master, 1 << 16):  # a terminal gives 4 KB at most
                drawn += part
        output = process.stdout.read()
    os.close(master)
    assert process.returncode == 0, drawn
    return output, drawn.decode()


def test_the_bar_on_a_terminal(files, tmp_path):
    options = ("--rules", files / "store", "--events", files / "events.csv", "--out")
    program = (sys.executable, "-m", "tocsin", "match", *options, tmp_path / "o.csv")
    output, drawn = on_a_terminal(*program)
    assert output.startswith(b"200 events, ")
    assert "matching" in drawn


def test_the_bar_of_spark_on_a_terminal(tmp_path):
    code = """
import pathlib, sys, time
from tocsin.cli.progress import follow_spark, redirect_stderr, show_progress
log = pathlib.Path(sys.argv[1])
with show_progress() as bar, follow_spark(log, bar) as step:
    step("starting")
    with redirect_stderr(log):
        import os
        os.write(2, b"chatter")
    step("matching")
    with log.open("ab") as file:
        file.write(b"[Stage 0:==>  (3 + 2) / 8]")
    time.sleep(0.6)
print("done")
"""
    output, drawn = on_a_terminal(sys.executable, "-c", code, tmp_path / "log")
    assert output == b"done\n"
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
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("200 events, ")
    result = subprocess.run([*command, "--overwrite", "--spark"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "pyspark is not installed; pip install 'tocsin[spark]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_nothing_is_left_if_it_is_ended(files, tmp_path):
    code = """
import os, signal, sys, time
from tocsin.cli import in_process
from tocsin.cli.main import tocsin

def end(job, folder, bar):
    (folder / "part").write_text("part")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

in_process.match_files = end
tocsin(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "match", "--rules", files / "store", "--events"]
    command += [files / "events.csv", "--out", tmp_path / "o.csv"]
    before = sorted(tmp_path.iterdir())
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 128 + signal.SIGTERM
    assert sorted(tmp_path.iterdir()) == before
