"""`tocsin lint`, as CI calls it."""

import json

import pytest

from tests.cli.commands import run

RULES = "id,where,team\na,x > 5,red\nb,x > 7 AND tier = 'gold',blue\nc,x > 5.0,red\nd,x > 900,red\n"


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.csv"
    path.write_text(RULES)
    return path


def test_findings_and_exit_code(rules):
    result = run("lint", rules, "--schema", "x=number,tier=category")
    assert result.exit_code == 1
    assert [line.split()[:3] for line in result.stdout.splitlines()[1:4]] == [
        ["b", "covered", "a"], ["c", "duplicate", "a"], ["d", "covered", "a"],
    ]  # fmt: skip
    assert result.stdout.splitlines()[-1] == "4 rules: 2 covered, 1 duplicate"


def test_no_findings(tmp_path):
    path = tmp_path / "rules.csv"
    path.write_text("id,where\na,x > 5\nb,x < 5\n")
    result = run("lint", path, "--schema", "x=number")
    assert (result.exit_code, result.stdout) == (0, "2 rules: no findings\n")


def test_json_and_events(rules, tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    (events / "1.csv").write_text("x,tier\n6,gold\n")
    (events / "2.csv").write_text("x,tier\n8,\n")
    result = run("lint", rules, "--events", events, "--same", "team", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["rule"], row["finding"], row["by"]) for row in found] == [
        ("c", "duplicate", "a"), ("d", "covered", "a"), ("d", "out of range", None),
    ]  # fmt: skip
    assert found[-1]["detail"] == "x >= 901, but x ranges from 6 to 8"
    assert result.exit_code == 1


def test_a_store(rules, tmp_path):
    store = tmp_path / "store"
    assert run("rules", "create", store, "--schema", "x=number,tier=category").exit_code == 0
    assert run("rules", "add", store, "--from", rules).exit_code == 0
    assert run("lint", store).stdout.splitlines()[-1] == "4 rules: 2 covered, 1 duplicate"
    assert run("lint", store, "--version", "1").stdout == "0 rules: no findings\n"


def test_impossible_rules_are_findings_not_warnings(tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_text('{"id": 12345, "where": "x > 5 AND x < 3"}\n')
    result = run("lint", path, "--schema", "x=number")
    assert result.stderr == ""
    assert result.stdout.splitlines()[1].split()[:2] == ["12345", "never"]


def test_errors(rules, tmp_path):
    result = run("lint", rules)
    assert result.exit_code == 1
    assert "has no schema; give one" in result.stderr
    result = run("lint", rules, "--schema", "x=number,tier=category", "--same", "tem")
    assert "no payload column 'tem'; did you mean 'team'" in result.stderr
    result = run("lint", tmp_path / "missing.csv", "--schema", "x=number")
    assert "there is no file or folder" in result.stderr
