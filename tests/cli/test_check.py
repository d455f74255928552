"""`tocsin rules check` lists all that is wrong with rules."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import run, run_failing, run_ok, write_rules

SCHEMA = "x=number,n=integer,tier=category"


def check(file, *arguments):
    result = run("rules", "check", file, "--schema", SCHEMA, *arguments)
    assert not result.stderr
    return result.exit_code, result.stdout


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_all_errors_and_warnings(tmp_path, suffix):
    rows = [
        {"id": "fine", "where": "x > 5"},
        {"id": "typo", "where": "n > 1 AND y > 5"},
        {"id": "never", "where": "x > 5 AND x < 3"},
        {"id": "fine", "where": "x > 6"},
        {"id": "text", "where": "tier > 'a'"},
        {"id": "partly", "where": "x > 1 OR x = NULL OR n = 2.5"},
    ]
    file = write_rules(tmp_path / f"rules.{suffix}", rows)
    code, output = check(file)
    row = "line" if suffix == "jsonl" else "row"
    assert code == 1
    findings = [line for line in output.splitlines() if not line.startswith(" ")]
    assert [line.partition(";")[0].partition(", and")[0] for line in findings] == [
        f"{row} 2 (rule 'typo'): error: unknown attribute 'y'",
        f"{row} 3 (rule 'never'): warning: no event can satisfy this condition: x > 5 AND x < 3 "
        "never holds (line 1, column 1)",
        f"{row} 4 (rule 'fine'): error: duplicate id 'fine', already used in {row} 1",
        f"{row} 5 (rule 'text'): error: attribute 'tier' is a category",
        f"{row} 6 (rule 'partly'): warning: x = NULL never holds",
        f"{row} 6 (rule 'partly'): warning: n = 2.5 never holds (line 1, column 22)",
        "6 rules: 3 errors, 3 warnings",
    ]
    assert "  n > 1 AND y > 5\n            ^\n" in output


def test_nothing_wrong(tmp_path):
    file = write_rules(tmp_path / "rules.csv", [{"id": "a", "where": "x > 5"}])
    assert check(file) == (0, "1 rule: 0 errors, 0 warnings\n")
    file.write_text("id,where\n")
    assert check(file) == (0, "0 rules: 0 errors, 0 warnings\n")


def test_warnings_alone_are_no_failure(tmp_path):
    file = write_rules(tmp_path / "rules.csv", [{"id": "a", "where": "x = NULL"}])
    code, output = check(file)
    assert code == 0
    assert output.endswith("1 rule: 0 errors, 1 warning\n")


def test_many_errors(tmp_path):
    rows = [{"id": i, "where": "y > 5" if i % 3 == 0 else f"x > {i}"} for i in range(100)]
    code, output = check(write_rules(tmp_path / "rules.jsonl", rows))
    assert code == 1
    found = [line for line in output.splitlines() if "unknown attribute 'y'" in line]
    assert [line.partition(":")[0] for line in found] == [
        f"line {i + 1} (rule {i})" for i in range(0, 100, 3)
    ]
    assert output.endswith("100 rules: 34 errors, 0 warnings\n")


def test_weights_and_nulls(tmp_path):
    rows = [
        {"id": 1, "where": "x > 5", "weights": {"n": 1}},
        {"id": 2, "where": None},
        {"id": None, "where": "x > 5"},
    ]
    code, output = check(write_rules(tmp_path / "rules.jsonl", rows))
    assert code == 1
    assert "line 1 (rule 1): error: " in output
    assert "line 2 (rule 2): error: the condition is null" in output
    assert "line 3 (rule None): error: the id is null" in output


def test_boxes_and_long_rows(tmp_path):
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("id,x_low,x_high,n_low,n_high\na,1,2,,\nb,3,2,,\nc,,,2.3,2.7\nd,9,8,,\n")
    code, output = check(boxes)
    assert code == 1
    places = [line.partition(": the")[0].partition(": its")[0] for line in output.splitlines()]
    assert [place.partition(": x")[0] for place in places] == [
        "row 2 (rule 'b'): error",
        "row 3 (rule 'c'): warning",
        "row 4 (rule 'd'): error",
        "4 rules: 2 errors, 1 warning",
    ]
    long = tmp_path / "long.parquet"
    columns = {
        "id": ["a", "b", "a", "c", "b"],
        "attribute": ["x", "x", "x", "y", "n"],
        "low": [1.0, 1.0, 5.0, 1.0, 9.0],
        "high": [3.0, 3.0, 6.0, 3.0, 8.0],
    }
    pq.write_table(pa.table(columns), long)
    code, output = check(long)
    lines = output.splitlines()
    assert code == 1
    assert lines[0].startswith("row 1 (rule 'a'): warning: its bounds enclose no value")
    assert lines[1].startswith("row 4 (rule 'c'): error: unknown attribute 'y'")
    assert lines[2].startswith("row 5 (rule 'b'): error: ")
    assert lines[3] == "3 rules: 2 errors, 1 warning"


def test_what_is_wrong_with_the_file_as_a_whole(tmp_path):
    file = tmp_path / "rules.csv"
    file.write_text("name,where\na,TRUE\n")
    assert "needs a column 'id'" in run_failing("rules", "check", file, "--schema", SCHEMA)
    assert "has no schema" in run_failing("rules", "check", file)
    assert "no file or folder" in run_failing("rules", "check", tmp_path / "none.csv")


def test_a_store(tmp_path):
    store, file = tmp_path / "store", tmp_path / "rules.jsonl"
    rows = [{"id": "a", "where": "x > 5"}, {"id": "b", "where": "x = NULL"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("rules", "create", store, "--schema", SCHEMA, "--rules", file)
    assert result.exit_code == 0
    assert result.stdout == "version 1: 2 rules\n"
    assert result.stderr.startswith("warning: rule 'b': no event can satisfy this condition")
    output = run_ok("rules", "check", store)
    assert output.startswith("rule 'b': warning: no event can satisfy this condition: x = NULL")
    assert output.endswith("2 rules: 0 errors, 1 warning\n")
    assert "--schema is for a file" in run_failing("rules", "check", store, "--schema", SCHEMA)


def test_a_rule_that_never_holds_is_added_with_a_warning(tmp_path):
    store = tmp_path / "store"
    run_ok("rules", "create", store, "--schema", SCHEMA)
    result = run("rules", "add", store, "never", "x > 5 AND x < 3")
    assert (result.exit_code, result.stdout) == (0, "version 2: 1 rule\n")
    assert result.stderr == (
        "warning: rule 'never': no event can satisfy this condition: x > 5 AND x < 3 never holds "
        "(line 1, column 1)\n  x > 5 AND x < 3\n  ^^^^^^^^^^^^^^^\n"
    )
