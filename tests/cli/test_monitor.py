"""`tocsin monitor` reports what the class reports, for all formats, and counts what it ignores."""

import csv
import datetime
import json
import os
import random
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.commands import run, run_failing, run_ok
from tocsin.cli import monitor as command

NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
FENCES = [
    {"id": "left", "where": "x < 4", "team": "red", "limit": "10 min"},
    {"id": "fast", "where": "speed > 50 AND vehicle = 'truck'", "team": "blue", "limit": None},
    {"id": "box", "where": "x BETWEEN 3 AND 8 AND y < 5", "team": None, "limit": "30 min"},
]


@pytest.fixture(scope="module")
def positions():
    """Positions in order of time."""
    rng = random.Random(3)
    return pa.Table.from_pylist(
        [
            {
                "id": f"o{rng.randrange(12)}",
                "at": NOON + datetime.timedelta(seconds=20 * i + rng.randrange(20)),
                "x": rng.choice([None, rng.uniform(0, 10), 4.5]),
                "y": rng.uniform(0, 10),
                "speed": rng.randrange(100),
                "vehicle": rng.choice(["truck", "van"]),
                "note": rng.choice(["a", "b"]),
            }
            for i in range(600)
        ]
    )


@pytest.fixture(scope="module")
def files(positions, tmp_path_factory):
    """The positions in every format, and the rules in a file and a store."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(positions, folder / "positions.parquet")
    rows = positions.to_pylist()
    with open(folder / "positions.jsonl", "w") as file:
        for row in rows:
            file.write(json.dumps(row, default=datetime.datetime.isoformat) + "\n")
    (folder / "positions.csv").mkdir()
    for part in range(2):
        with open(folder / "positions.csv" / f"{part}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(
                row | {"at": row["at"].isoformat()} for row in rows[300 * part : 300 * part + 300]
            )
    with open(folder / "fences.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(FENCES[0]))
        writer.writeheader()
        writer.writerows(FENCES)
    rules(positions).save(folder / "store")
    return folder


def rules(positions):
    rules = tocsin.Rules(positions.select(["x", "y", "speed", "vehicle"]).schema)
    rules.add_many(FENCES)
    return rules


OPTIONS = {
    "dwell": "limit",
    "margin": 1.5,
    "min_stay": "5 min",
    "min_away": "2 min",
    "lost_after": "1 h",
    "delay": "1 min",
    "keep": ["note"],
    "payload": ["team"],
}
NAMES = {"key": "id", "time": "at"}


def arguments(options):
    """Return options of a command for those of the class."""
    for name, value in options.items():
        yield f"--{name.replace('_', '-')}"
        yield ",".join(value) if isinstance(value, list) else value


def plain(rows):
    """Return rows with times and versions as a CSV file has them."""
    return [
        {
            name: ""
            if value is None
            else f"{value.isoformat(timespec='microseconds')[:-6]}Z"
            if isinstance(value, datetime.datetime)
            else str(value)
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.parametrize("source", ["store", "fences.csv"])
@pytest.mark.parametrize("name", ["positions.csv", "positions.jsonl", "positions.parquet"])
def test_every_format(positions, files, tmp_path, source, name, monkeypatch):
    monkeypatch.setattr(command, "_ROWS", 100)
    monitor = tocsin.Monitor(rules(positions), **NAMES, **OPTIONS)
    updates = [monitor.update(positions.slice(i, 100)) for i in range(0, len(positions), 100)]
    expected = pa.concat_tables(updates).to_pylist()
    assert len({row["event"] for row in expected}) == 3
    for row in expected:
        row["rules_version"] = 1 if source == "store" else None
    out = tmp_path / f"events{os.path.splitext(name)[1]}"
    printed = run_ok(
        *("monitor", "--rules", files / source, "--positions", files / name, "--out", out),
        *arguments(NAMES | OPTIONS),
    )
    assert printed.startswith(f"600 positions, {len(expected)} events in ")
    if out.suffix == ".parquet":
        assert pq.read_table(out).to_pylist() == expected
    elif out.suffix == ".csv":
        with open(out, newline="") as file:
            assert list(csv.DictReader(file)) == plain(expected)
    else:
        found = [json.loads(line) for line in out.read_text().splitlines()]
        assert plain(found) == plain(expected)


def test_numbers_as_times_and_the_first_events(tmp_path):
    (tmp_path / "fences.jsonl").write_text('{"id": 7, "where": "x < 5"}\n')
    lines = [f"{1000 + i % 3},{i},{i % 9}" for i in range(90)]
    (tmp_path / "positions.csv").write_text("object,t,x\n" + "\n".join(lines))
    command = ["monitor", "--rules", tmp_path / "fences.jsonl", "--positions"]
    command += [tmp_path / "positions.csv", "--dwell", "2", "--position", "x"]
    first, *rest = run_ok(*command).splitlines()
    assert first.split() == ["object", "rule", "event", "time", "since"]
    assert rest[0].split() == ["1000", "7", "enter", "0", "0"]  # ids are not counts: no comma
    assert rest[2].split() == ["1000", "7", "dwell", "2", "0"]
    assert rest[20].startswith("... and ")
    assert rest[20].endswith(" more events; --out writes all")
    assert rest[21].startswith("90 positions, ")
    assert rest[21].endswith(" positions per second), 3 objects")
    table = {line.split()[0]: int(line.split()[1]) for line in rest[23:]}
    assert table["enter"] == table["dwell"] == 30
    kinds = [row["event"] for row in first_events(command, tmp_path)]
    assert len(kinds) == sum(table.values())


def first_events(arguments, folder):
    run_ok(*arguments, "--output", folder / "events.jsonl")
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_rows_without_effect_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_ROWS", 3)
    (tmp_path / "fences.csv").write_text("id,where\nlow,x < 5\n")
    rows = ["a,1,1", "a,1,2", ",2,1", "a,0,9", "b,3,1", "b,,2", "b,4,9"]
    (tmp_path / "positions.csv").write_text("object,t,x\n" + "\n".join(rows))
    files = ("--rules", tmp_path / "fences.csv", "--positions", tmp_path / "positions.csv")
    lines = [line.split() for line in run_ok("monitor", *files).splitlines()]
    assert lines[1:4] == [
        ["a", "low", "enter", "1", "1"],
        ["b", "low", "enter", "3", "3"],
        ["b", "low", "leave", "4", "4"],
    ]
    counted = {line[0] + line[-2]: line[-1] for line in lines[-4:]}
    assert counted == {
        "late:time": "1",
        "doubled:time": "1",
        "rejected:missing": "1",
        "rejected:finite": "1",
    }


def test_columns_that_are_not_there(files, tmp_path):
    (tmp_path / "positions.csv").write_text("id,at,x,y,vehicle\na,2024-05-01,1,1,van\n")
    result = run(
        *("monitor", "--rules", files / "store", "--positions", tmp_path / "positions.csv"),
        *("--schema", "at=time", *arguments(NAMES)),
    )
    assert result.exit_code == 0
    assert result.stderr == ("warning: the positions lack speed, which rules test: null there\n")
    assert "1 position, 1 event in" in result.stdout


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--key": "object"}, "no column 'object'; they have id, at, x"),
        ({"--time": "t"}, "time names the column of times"),
        ({"--time": "note"}, "read as string; give --schema note=time to read them as times"),
        ({"--dwell": "5"}, "give a unit, as in '5 s'"),
        ({"--dwell": "limits"}, "nor a payload column of the rules; did you mean 'limit'?"),
        ({"--min-stay": "5 fortnights"}, "must be a duration such as '90 s'"),
        ({"--margin": "-1"}, "margin must be a number, 0 or more"),
        ({"--margin": "1", "--position": "lon,lat"}, "'lon' is no attribute of the rules"),
        ({"--keep": "notes"}, "no column 'notes'; did you mean 'note'?"),
        ({"--payload": "teams"}, "no payload column 'teams'; did you mean 'team'?"),
        ({"--removed": "note"}, "column 'note' must be flags, got string"),
        ({"--removed": "notes"}, "no column 'notes'; did you mean 'note'?"),
        ({"--keep": "time"}, "events have a column 'time' already"),
        ({"--version": "9"}, "has no version 9"),
        ({"--out": "events.txt"}, "must end in .parquet, .csv, .jsonl"),
        ({"--positions": "none.csv"}, "there is no file or folder none.csv"),
        ({"--rules": "none"}, "there is no file or folder none"),
    ],
)
def test_errors(files, tmp_path, monkeypatch, changed, message):
    monkeypatch.chdir(tmp_path)
    valid = {
        "--rules": files / "store",
        "--positions": files / "positions.parquet",
        "--key": "id",
        "--time": "at",
        "--out": "events.csv",
    }
    options = [part for pair in (valid | changed).items() for part in pair]
    assert message in run_failing("monitor", *options)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept(files, tmp_path):
    out = tmp_path / "events.csv"
    out.write_text("old")
    command = ["monitor", "--rules", files / "fences.csv", "--positions"]
    command += [files / "positions.csv", "--out", out, *arguments(NAMES)]
    assert "exists already; --overwrite replaces it" in run_failing(*command)
    assert out.read_text() == "old"
    run_ok(*command, "--overwrite")
    assert out.read_text().startswith("object,rule,event,")
    message = run_failing(*command, "--version", "1", "--overwrite", code=2)
    assert "--version is for a rule store" in message


def test_nothing_is_left_if_it_is_ended(files, tmp_path):
    code = """
import os, signal, sys, time
from tocsin.cli import monitor
from tocsin.cli.main import tocsin

def end(run, events):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

monitor.Run.numbered = end
tocsin(sys.argv[1:])
"""
    command = [sys.executable, "-c", code, "monitor", "--rules", files / "store", "--positions"]
    command += [files / "positions.parquet", "--out", tmp_path / "o.csv", *arguments(NAMES)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file(files, tmp_path):
    (tmp_path / "positions.csv").write_text("id,at,x,y,speed,vehicle\n")
    printed = run_ok(
        *("monitor", "--rules", files / "store", "--positions", tmp_path / "positions.csv"),
        *("--schema", "at=time", *arguments(NAMES)),
    )
    assert printed.startswith("0 positions, 0 events in ")
    assert len(printed.splitlines()) == 1


def test_a_state_between_two_files(positions, files, tmp_path):
    """Two runs with a state give what one run gives; rules may change between them."""
    pq.write_table(positions.slice(0, 250), tmp_path / "0.parquet")
    pq.write_table(positions.slice(250), tmp_path / "1.parquet")
    own = rules(positions)
    own.save(tmp_path / "store")
    monitor = tocsin.Monitor(own, **NAMES, **OPTIONS)
    expected = monitor.update(positions.slice(0, 250)).to_pylist()
    own.replace("box", "x BETWEEN 2 AND 8 AND speed > 5")
    changed = monitor.update([])
    assert len(changed)
    expected += [*changed.to_pylist(), *monitor.update(positions.slice(250)).to_pylist()]
    found, rows = [], []
    (tmp_path / "state").mkdir()  # an empty folder is no state
    for part in range(2):
        out = tmp_path / f"events-{part}.parquet"
        printed = run_ok(
            *("monitor", "--rules", tmp_path / "store", "--positions"),
            *(tmp_path / f"{part}.parquet", "--out", out, "--state", tmp_path / "state"),
            *(arguments(NAMES | OPTIONS) if part == 0 else []),  # they are saved
        )
        rows.append(int(printed.split(" ")[0]))
        found += pq.read_table(out).to_pylist()
        own.save(tmp_path / "store")
    for row in expected + found:
        row.pop("rules_version")
    assert found == expected
    assert rows == [250, 350]
    message = run_failing(
        *("monitor", "--rules", tmp_path / "store", "--positions", tmp_path / "1.parquet"),
        *("--state", tmp_path / "state", "--min-stay", "6 min"),
    )
    assert (
        "was saved with min_stay = '5 min', but now it is '6 min'; give what was saved" in message
    )
    message = run_failing(
        *("monitor", "--rules", tmp_path / "store", "--positions", tmp_path / "1.parquet"),
        *("--state", tmp_path / "store"),
    )
    assert f"no monitor was saved to {tmp_path / 'store'}" in message
