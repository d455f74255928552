"""Rules with a threshold on the command line: in files, in a store, and events with densities."""

import json

import pytest

import tocsin
from tests.cli.commands import run_failing, run_ok, write_rules

COOL = "temp BETWEEN 20 AND 25"
EVENTS = [
    {"row": 0, "temp": {"low": 18, "high": 26}},
    {"row": 1, "temp": {"low": 15, "high": 30, "mean": 22, "deviation": 1.5}},
    {"row": 2, "temp": {"edges": [15, 20, 25], "weights": [0.25, 0.75]}},
    {"row": 3, "temp": None},
]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    run_ok("rules", "create", path, "--schema", "temp=number")
    run_ok("rules", "add", path, "cool", COOL, "--at-least", 0.8)
    return path


def test_options(store):
    assert run_ok("rules", "show", store, "cool").endswith("\nat least   0.8\n")
    run_ok("rules", "replace", store, "cool", "temp < 3")
    assert tocsin.open(store)["cool"].at_least == 0.8
    run_ok("rules", "replace", store, "cool", COOL, "--at-least", 0.5)
    assert tocsin.open(store)["cool"].at_least == 0.5
    run_ok("rules", "replace", store, "cool", COOL, "--at-least", 0)
    assert tocsin.open(store)["cool"].at_least is None
    assert "at least" not in run_ok("rules", "show", store, "cool")
    message = run_failing("rules", "add", store, "r", COOL, "--at-least", 80)
    assert "rule 'r': at_least must be a probability" in message
    message = run_failing("rules", "add", store, "--from", "f.csv", "--at-least", 1, code=2)
    assert "--from FILE excludes" in message


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_files(tmp_path, suffix):
    rows = [{"id": "cool", "where": COOL, "at_least": 0.8}, {"id": "perhaps", "where": COOL}]
    rows[1]["at_least"] = None
    rules = write_rules(tmp_path / f"rules{suffix}", rows)
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps(e) + "\n" for e in EVENTS))
    output = tmp_path / "output.csv"
    run_ok(
        *("match", "--rules", rules, "--events", events, "--schema", "temp=number"),
        *("--keep", "row", "--out", output),
    )
    lines = output.read_text().splitlines()
    assert sorted(lines) == ["0,perhaps", "1,cool", "1,perhaps", "2,perhaps", "row,rule"]


def test_explain(store):
    event = json.dumps({"temp": {"low": 18, "high": 26}})
    assert run_ok("explain", "--rules", store, "cool", "--event", event) == (
        "rule 'cool' does not match: temp BETWEEN 20 AND 25\n"
        "  its probability is 0.625, and it requires at least 0.8\n"
        "    perhaps `temp` BETWEEN 20 AND 25    temp is 18 to 26; probability 0.625\n"
    )
