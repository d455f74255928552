"""`tocsin rules`, `explain` and `plan`: how they change a store, and what they print."""

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.cli.commands import run, run_failing, run_ok, write_rules

SCHEMA = "x=number,n=integer,tier=category,ok=flag,at=time"


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    run_ok("rules", "create", path, "--schema", SCHEMA)
    run_ok("rules", "add", path, "low", "x < 1", "--payload", '{"team": "red"}')
    run_ok("rules", "add", path, "gold", "tier = 'gold' AND x > 5", "--weights", '{"x": 0.5}')
    return path


def test_all_commands(store):
    assert [line.rstrip() for line in run_ok("rules", "list", store).splitlines()] == [
        "id    condition                payload",
        'low   x < 1                    {"team": "red"}',
        "gold  tier = 'gold' AND x > 5",
    ]
    assert run_ok("rules", "replace", store, "low", "x < 2") == "version 4: 2 rules\n"
    assert run_ok("rules", "remove", store, "gold", "low") == "version 5: 0 rules\n"
    assert run_ok("rules", "list", store) == "no rules yet\n"
    assert "x < 1" in run_ok("rules", "list", store, "--version", 2)
    diff = run_ok("rules", "diff", store, 2, 4)
    assert diff == "1 added: gold\n1 changed: low\n  low: x < 1 -> x < 2\n"
    assert run_ok("rules", "diff", store, 4) == "2 removed: gold, low\n"
    assert run_ok("rules", "merge", store) == "version 6: 0 rules\n"
    assert run_ok("rules", "merge", store) == "version 6: 0 rules, no change\n"
    lines = run_ok("rules", "versions", store).splitlines()
    assert lines[0].split() == ["version", "published", "rules", "segments"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4", "5", "6"]
    assert run_ok("rules", "prune", store, "--keep", 2) == "deleted versions: 1, 2, 3, 4\n"
    assert run_ok("rules", "prune", store, "--keep", 2) == "deleted versions: none\n"


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_export_and_sync(store, tmp_path, suffix):
    file, other = tmp_path / f"rules{suffix}", tmp_path / "other"
    assert run_ok("rules", "export", store, file) == "2 rules of version 3\n"
    run_ok("rules", "create", other, "--schema", SCHEMA)
    output = run_ok("rules", "sync", other, file, "-m", "all")
    assert output == "version 2\nversion 2: all\n2 added: low, gold\n"
    assert run_ok("rules", "list", other, "--json") == run_ok("rules", "list", store, "--json")
    assert run_ok("rules", "sync", other, file) == "version 2\nno difference\n"
    run_ok("rules", "replace", other, "gold", "x > 7")
    dry = run_ok("rules", "sync", other, file, "--dry-run")
    assert dry.startswith("1 changed: gold\n  gold: x > 7 -> tier = 'gold' AND x > 5\n")
    assert run_ok("rules", "sync", other, file).startswith(f"version 4\n{dry}")
    assert run_ok("rules", "rollback", other, 3) == "version 5: the rules of version 3\n"
    assert tocsin.open(other)["gold"].where == "x > 7"
    assert run_ok("rules", "export", other, file, "--version", 1) == "0 rules of version 1\n"


def test_what_export_and_sync_refuse(store, tmp_path):
    run_ok("rules", "replace", store, "low", "x < 1", "--payload", '{"teams": ["a", "b"]}')
    message = run_failing("rules", "export", store, tmp_path / "rules.csv")
    assert "CSV cannot hold the payload column 'teams'" in message
    assert "must end in .csv, .jsonl" in run_failing("rules", "export", store, tmp_path / "rules")
    file = write_rules(tmp_path / "rules.jsonl", [{"id": "a", "where": "x >"}])
    assert "line 1 (rule 'a'): syntax error" in run_failing("rules", "sync", store, file)
    assert tocsin.RuleStore(store).version == 4


def test_tune(store, tmp_path):
    events = tmp_path / "events.csv"
    rows = "".join(f"{i % 9},{i},t{i % 3},true,2024-01-01\n" for i in range(21_000))
    events.write_text("x,n,tier,ok,at\n" + rows)
    output = run_ok("rules", "tune", store, "--events", events)
    assert output.startswith("version 4: tuned to 20,000 events\n")
    assert "holds 2 rules" in output
    assert output.endswith("for 20,000 sample events\n")
    assert len(tocsin.open(store)) == 2
    events.write_text("x,n,tier,ok,at\n1,2,gold,true,2024-01-01\n")
    assert "version 5: tuned to 1 event\n" in run_ok("rules", "tune", store, "--events", events)
    empty = tmp_path / "empty.csv"
    empty.write_text("x,n,tier,ok,at\n")
    assert "has no events" in run_failing("rules", "tune", store, "--events", empty)
    grid = tmp_path / "grid"
    run_ok("rules", "create", grid, "--schema", "x=number", "--index", "grid")
    run_ok("rules", "add", grid, "a", "x > 5")
    message = run_failing("rules", "tune", grid, "--events", events)
    assert "does not learn from events" in message
    assert "there is no file" in run_failing("rules", "tune", grid, "--events", tmp_path / "none")


def test_show_and_limit(store):
    assert run_ok("rules", "show", store, "gold") == (
        "id         gold\ncondition  tier = 'gold' AND x > 5\nweights    {\"x\": 0.5}\n"
    )
    assert run_ok("rules", "show", store, "low").endswith('payload    {"team": "red"}\n')
    assert "has no version 9" in run_failing("rules", "show", store, "low", "--version", 9)
    assert run_ok("rules", "list", store, "--limit", 1).endswith("and 1 more\n")
    assert run_ok("rules", "list", store, "--limit", 0) == "2 rules\n"


def test_list_as_json(store):
    run_ok("rules", "add", store, "likely", "n > 5", "--at-least", 0.5)
    rules = [json.loads(line) for line in run_ok("rules", "list", store, "--json").splitlines()]
    assert rules == [
        {"id": "low", "where": "x < 1", "payload": {"team": "red"}},
        {"id": "gold", "where": "tier = 'gold' AND x > 5", "weights": {"x": 0.5}},
        {"id": "likely", "where": "n > 5", "at_least": 0.5},
    ]
    for i in range(20):
        run_ok("rules", "add", store, f"{i}", "n > 5")
    assert len(run_ok("rules", "list", store, "--json").splitlines()) == 23
    assert len(run_ok("rules", "list", store, "--json", "--limit", 2).splitlines()) == 2
    assert run_ok("rules", "list", store).endswith("and 3 more\n")
    assert run_ok("rules", "list", store, "--json", "--version", 1) == ""


def test_author_and_message(store, tmp_path):
    signed = ("--author", "Ada", "-m", "for spring")
    run_ok("rules", "replace", store, "low", "x < 2", *signed)
    run_ok("rules", "remove", store, "gold", "--message", "sold out")
    lines = run_ok("rules", "versions", store).splitlines()
    assert lines[0].split()[-2:] == ["author", "message"]
    assert [line.rpartition("UTC")[2].split()[2:] for line in lines[1:]] == [
        *([], [], []),
        *(["Ada", "for", "spring"], ["sold", "out"]),
    ]
    assert run_ok("rules", "diff", store, 3) == (
        "version 4 by Ada: for spring\nversion 5: sold out\n"
        "1 removed: gold\n1 changed: low\n  low: x < 1 -> x < 2\n"
    )
    more = tmp_path / "more.csv"
    more.write_text("id,where\na,x > 5\n")
    other = tmp_path / "other"
    run_ok("rules", "create", other, "--schema", "x=number", "--rules", more, *signed)
    run_ok("rules", "add", other, "b", "x > 3", *signed)
    run_ok("rules", "merge", other, "--author", "Ada", "-m", "for spring\nand summer")
    assert "summer" not in run_ok("rules", "versions", other)
    events = tmp_path / "events.csv"
    events.write_text("x\n1\n")
    run_ok("rules", "tune", other, "--events", events, *signed)
    listed = tocsin.RuleStore(other).versions()
    assert [(v.author, v.message) for v in listed] == [
        *[("Ada", "for spring")] * 2,
        *[("Ada", "for spring\nand summer"), ("Ada", "for spring")],
    ]


def test_a_long_condition_in_brackets_is_printed_whole(store):
    condition = " OR ".join(f"tier = '[red]{i}'" for i in range(60))
    run_ok("rules", "add", store, "long", condition)
    assert condition in run_ok("rules", "list", store)


def test_plan(store, tmp_path):
    assert run_ok("plan", "--rules", store) == str(tocsin.open(store).plan()) + "\n"
    file = tmp_path / "rules.csv"
    file.write_text("id,where\n007,x > 5\n")
    rules = tocsin.Rules({"x": "number"})
    rules.add_many([{"id": "007", "where": "x > 5"}])
    printed = run_ok("plan", "--rules", file, "--schema", "x=number")
    assert printed == str(rules.plan()) + "\n"
    assert "rules.csv has no schema" in run_failing("plan", "--rules", file)
    assert "there is no file or folder" in run_failing("plan", "--rules", tmp_path / "none")


def test_explain(store):
    output = run_ok("explain", "--rules", store, "gold", "--event", '{"x": 5, "tier": "tin"}')
    assert output == str(tocsin.open(store).explain({"x": 5, "tier": "tin"}, "gold")) + "\n"
    run_ok("rules", "add", store, "late", "at >= TIMESTAMP '2024-05-01 12:00:00Z'")
    for text in ("2024-05-01T12:00:00Z", "2024-05-01 14:00:00+02:00", "2024-05-01T12:00:00"):
        output = run_ok("explain", "--rules", store, "late", "--event", json.dumps({"at": text}))
        assert output.startswith("rule 'late' matches")
    assert "write it as 2024" in run_failing(
        "explain", "--rules", store, "late", "--event", '{"at":"?"}'
    )
    assert "no rule 'x'" in run_failing("explain", "--rules", store, "x", "--event", "{}")
    ends = {"low": "2020-01-01T00:00:00Z", "high": "2020-01-02T00:00:00Z"}
    event = json.dumps({"at": ends, "x": {"low": 1, "high": 2}})
    assert "at is 2020-01-01 00:00:00+00:00 to 2020-01-02" in run_ok(
        "explain", "--rules", store, "late", "--event", event
    )
    output = run_ok("explain", "--rules", store, "gold", "--version", 3, "--event", "{}")
    assert "unknown" in output
    assert "does not match" in output


def test_explain_names_attributes_that_are_not_in_the_schema(store):
    arguments = ("explain", "--rules", store, "gold", "--event")
    result = run(*arguments, '{"X": 6, "teir": "gold", "colour": "red"}')
    assert result.exit_code == 0
    assert result.stdout.startswith("rule 'gold' does not match")
    assert result.stderr == (
        "attribute 'teir' is not in the schema; did you mean 'tier'?\n"
        "attribute 'colour' is not in the schema\n"
    )
    message = run_failing(*arguments, '{"x": {"low": 5, "high": 3}}')
    assert message.startswith("error: the event: attribute 'x': the range's low end is above")


def test_explain_from_a_file(tmp_path):
    file = tmp_path / "rules.csv"
    file.write_text("id,where\n007,x > 5\n")
    options = ("explain", "--rules", file, "007", "--event", '{"x": 6}')
    assert run_ok(*options, "--schema", "x=number").startswith("rule '007' matches")
    assert "rules.csv has no schema" in run_failing(*options)
    assert "--version is for a rule store" in run_failing(*options, "--version", 1)


# ------------------------------------------------------------ files


TEXTS = [
    {"id": "a", "where": "x > 1", "weights": {"x": 2.5}, "team": "red"},
    {"id": "007", "where": "TRUE", "weights": None, "team": None},
    {"id": "2024-01-01", "where": "tier = 'a, \"b\"'", "weights": None, "team": "NA"},
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_rules_from_a_file(tmp_path, suffix):
    file = write_rules(tmp_path / f"rules.{suffix}", TEXTS)
    store = tmp_path / "store"
    assert run_ok("rules", "create", store, "--schema", SCHEMA, "--rules", file) == (
        "version 1: 3 rules\n"
    )
    for row in TEXTS:
        rule = tocsin.open(store)[row["id"]]
        assert rule.where == row["where"]
        assert rule.weights == (row["weights"] or {})
        assert rule.payload == ({"team": row["team"]} if row["team"] else {})
    assert "rule 'a' exists already" in run_failing("rules", "add", store, "--from", file)
    renamed = [dict(r, id=f"{r['id']}-2") for r in TEXTS]
    write_rules(file, renamed)
    assert run_ok("rules", "add", store, "--from", file) == "version 2: 6 rules\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_boxes_and_long_rows(tmp_path, suffix):
    boxes = [
        {
            "id": f"b{i}",
            "x_low": i,
            "x_high": i + 1.5,
            "tier_low": "007" if i else None,
            "tier_high": "007" if i else None,
            "at_low": "2024-05-01T12:00:00",
            "at_high": None,
        }
        for i in range(3)
    ]
    store = tmp_path / "store"
    file = write_rules(tmp_path / f"boxes.{suffix}", boxes)
    run_ok("rules", "create", store, "--schema", SCHEMA, "--rules", file)
    assert tocsin.open(store)["b1"].where == (
        "x BETWEEN 1 AND 2.5 AND tier = '007' AND at >= TIMESTAMP '2024-05-01 12:00:00Z'"
    )
    long = [{"id": "l", "attribute": a, "low": 1, "high": 2, "weight": 3} for a in ("x", "n")]
    file = write_rules(tmp_path / f"long.{suffix}", long)
    run_ok("rules", "add", store, "--from", file)
    assert tocsin.open(store)["l"].where == "x BETWEEN 1 AND 2 AND n BETWEEN 1 AND 2"
    times = [{"id": "t", "attribute": "at", "low": "2024-05-01T12:00:00", "high": None}]
    run_ok("rules", "add", store, "--from", write_rules(tmp_path / f"times.{suffix}", times))
    assert tocsin.open(store)["t"].where == "at >= TIMESTAMP '2024-05-01 12:00:00Z'"


def test_decimals(tmp_path):
    store = tmp_path / "store"
    file = tmp_path / "boxes.csv"
    file.write_text("id,price_low,price_high,rate_low\na,1.005,9.99,0.123456789012345678\nb,5,,\n")
    schema = "price=decimal(12,2),rate=decimal(18, 18),x=number"
    run_ok("rules", "create", store, "--schema", schema, "--rules", file)
    rules = tocsin.open(store)
    assert list(rules.schema.kinds) == ["decimal(12,2)", "decimal(18,18)", "number"]
    assert rules["a"].where == "price BETWEEN 1.01 AND 9.99 AND rate >= 0.123456789012345678"
    assert rules["b"].where == "price >= 5.00"
    lines = write_rules(
        tmp_path / "boxes.jsonl",
        [{"id": "c", "price_low": 9.99}, {"id": "d", "price_low": 0.1}],
    )
    run_ok("rules", "add", store, "--from", lines)
    rows = [{"id": "e", "attribute": "rate", "low": "0.123456789012345678", "high": None}]
    run_ok("rules", "add", store, "--from", write_rules(tmp_path / "long.jsonl", rows))
    rules = tocsin.open(store)
    assert [rules[i].where for i in "cde"] == [
        "price >= 9.99",
        "price >= 0.10",
        "rate >= 0.123456789012345678",
    ]
    for event in ('{"price": 9.98}', '{"price": "9.98"}'):
        shown = run_ok("explain", "--rules", store, "c", "--event", event)
        assert "price is 9.98, below by 0.01" in shown
    for value in ("9.999", '"9.999"', '"nine"'):
        options = ("--rules", store, "c", "--event", f'{{"price": {value}}}')
        assert "attribute 'price' is a decimal(12,2), but" in run_failing("explain", *options)


def test_integer_ids(tmp_path):
    store, file = tmp_path / "store", tmp_path / "rules.jsonl"
    file.write_text('{"id": 7, "where": "x > 5"}\n\n{"id": 8, "where": "x > 6"}\n')
    run_ok("rules", "create", store, "--schema", "x=number", "--rules", file)
    assert run_ok("rules", "show", store, 7).startswith("id         7\n")
    assert run_ok("rules", "add", store, "9", "x > 7") == "version 2: 3 rules\n"
    assert run_ok("rules", "remove", store, "7", "--", "9") == "version 3: 1 rule\n"
    for id in ("seven", "1_0", 2**63):
        assert f"integers of 64 bits, got '{id}'" in run_failing("rules", "show", store, id)
    csv = tmp_path / "more.csv"
    csv.write_text("id,where\n10,x > 8\n")
    assert run_ok("rules", "add", store, "--from", csv) == "version 4: 2 rules\n"
    assert list(tocsin.open(store)) == [8, 10]
    csv.write_text("id,where\nten,x > 8\n")
    assert "got 'ten'" in run_failing("rules", "add", store, "--from", csv)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_schema_from_a_file_of_events(tmp_path, suffix):
    events, store = tmp_path / f"events.{suffix}", tmp_path / "store"
    table = pa.table({"x": [1.5], "n": [1], "tier": ["a"], "ok": [True]})
    if suffix == "parquet":
        pq.write_table(table, events)
    elif suffix == "csv":
        events.write_text("x,n,tier,ok\n1.5,1,a,true\n")
    else:
        events.write_text(json.dumps(table.to_pylist()[0]))
    run_ok("rules", "create", store, "--schema", events)
    kinds = {"x": "number", "n": "integer", "tier": "category", "ok": "flag"}
    if suffix == "jsonl":  # fields are in the order of their names
        kinds = dict(sorted(kinds.items()))
    assert tocsin.open(store).schema == tocsin.Schema(kinds)


# ------------------------------------------------------------ errors


def test_errors_in_a_store(store, tmp_path):
    none = tmp_path / "none"
    for arguments in (
        ("rules", "list", none), ("rules", "versions", none), ("rules", "merge", none),
        ("rules", "add", none, "a", "TRUE"),
    ):  # fmt: skip
        assert "there is no rule store at" in run_failing(*arguments)
    assert not none.exists()
    assert "already" in run_failing("rules", "create", store, "--schema", SCHEMA)
    assert "has no version 9" in run_failing("rules", "diff", store, 9)
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    current = json.loads((copy / "versions" / "00000003.json").read_text()[:-66])["segments"][-1]
    file = max((copy / "segments" / current["name"]).iterdir(), key=lambda f: f.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1])
    assert file.name in run_failing("rules", "list", copy)
    version = copy / "versions" / "00000003.json"
    version.write_text(version.read_text().replace('"rules"', '"rulez"'))
    assert "damaged" in run_failing("rules", "list", copy)


def test_errors_in_a_rule(store):
    message = run_failing("rules", "add", store, "cold", "temp < 5")
    assert message.startswith("error: rule 'cold': unknown attribute 'temp'")
    assert message.endswith("  temp < 5\n  ^^^^\n")
    assert "'low' exists already" in run_failing("rules", "add", store, "low", "TRUE")
    assert "no rule 'lo'" in run_failing("rules", "remove", store, "low", "lo")
    assert "does not test" in run_failing(
        "rules", "replace", store, "low", "x < 1", "--weights", '{"n": 1}'
    )
    assert tocsin.RuleStore(store).version == 3, "nothing was published"


def test_errors_in_a_file(store, tmp_path):
    def message_of(name, content):
        file = tmp_path / name
        file.write_bytes(content)
        return run_failing("rules", "add", store, "--from", file)

    assert "there is no file or folder" in run_failing(
        "rules", "add", store, "--from", tmp_path / "none.csv"
    )
    assert "must end in .csv, .jsonl (JSON lines) or .parquet" in message_of("rules.txt", b"id\n")
    assert "did you mean '.csv'?" in message_of("rules.cvs", b"id\n")
    assert "rules.csv: cannot be read" in message_of("rules.csv", b"")
    assert "rules.csv: cannot be read" in message_of("rules.csv", b"id,where\n1,2,3\n")
    assert "needs a column 'id'" in message_of("rules.csv", b"name,where\na,TRUE\n")
    assert "row 1 (rule 'a'): the condition is null" in message_of("rules.csv", b"id,where\na,\n")
    assert "row 1: the weights are not JSON" in message_of(
        "rules.csv", b"id,where,weights\na,TRUE,x\n"
    )
    assert "row 1: the weights are not a JSON obj" in message_of(
        "rules.csv", b"id,where,weights\na,TRUE,1\n"
    )
    assert "rules.jsonl: line 2: not JSON" in message_of("rules.jsonl", b'{"id": 1}\n{\n')
    assert "line 1: not a JSON object" in message_of("rules.jsonl", b"[1]\n")
    assert "rules.jsonl: cannot be read" in message_of("rules.jsonl", b"\xff\n")
    assert "rules.parquet: cannot be read" in message_of("rules.parquet", b"nonsense")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "has no files" in run_failing("rules", "add", store, "--from", folder)


def test_errors_in_a_schema(tmp_path):
    store = tmp_path / "store"
    assert "neither a file nor" in run_failing("rules", "create", store, "--schema", "events.csv")
    assert "did you mean 'number'?" in run_failing("rules", "create", store, "--schema", "x=numbr")
    assert "has 20 digits, but decimals can have at most 18" in run_failing(
        "rules", "create", store, "--schema", "x=number,y=decimal(20,2),z=flag"
    )
    file = tmp_path / "events.parquet"
    file.write_bytes(b"nonsense")
    assert "events.parquet: cannot be read" in run_failing(
        "rules", "create", store, "--schema", file
    )
    assert "no index 'tree'" in run_failing(
        "rules", "create", store, "--schema", "x=number", "--index", "tree"
    )
    bad = tmp_path / "rules.csv"
    bad.write_text("id,where\na,y > 5\n")
    assert "unknown attribute 'y'" in run_failing(
        "rules", "create", store, "--schema", "x=number", "--rules", bad
    )
    assert not store.exists(), "a store is created only if everything is valid"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_rows_of_rules_are_numbered_from_one(store, tmp_path, suffix):
    """Rows count from 1; in JSON lines, messages name the line."""
    file = tmp_path / f"rules.{suffix}"
    place = "line" if suffix == "jsonl" else "row"

    def message_of(*rows):
        write_rules(file, [{"id": id, "where": where} for id, where in rows])
        return run_failing("rules", "add", store, "--from", file)

    valid = ("a", "TRUE")
    assert f"{file}: {place} 2 (rule 'b'): unknown attribute" in message_of(valid, ("b", "y > 5"))
    assert f"{place} 1: rule 'low' exists already" in message_of(("low", "TRUE"), valid)
    message = message_of(("b", "TRUE"), valid, valid)
    assert f"{place} 3: duplicate id 'a', already used in {place} 2" in message
    if suffix == "jsonl":
        file.write_text('\n\n{"id": "a", "where": "TRUE"}\n\n{"id": "b", "where": null}\n')
        message = run_failing("rules", "add", store, "--from", file)
        assert "line 5 (rule 'b'): the condition is null" in message


def test_usage(store):
    assert "Give ID and WHERE" in run_failing("rules", "add", store, "a", code=2)
    assert "--from FILE excludes" in run_failing(
        "rules", "add", store, "a", "--from", "f.csv", code=2
    )
    assert "not JSON" in run_failing("explain", "--rules", store, "a", "--event", "{", code=2)
    assert "JSON object" in run_failing(
        "rules", "add", store, "a", "TRUE", "--payload", "1", code=2
    )
    assert "No such command" in run_failing("rulez", code=2)
    message = run_failing("rules", "list", "hdfs://host/store", code=2)
    assert "'hdfs://host/store' is a URL; only local files and folders are supported" in message
    run_failing("rules", "prune", store, "--keep", 0, code=2)


# ------------------------------------------------------------ as a program


def test_the_program_is_quick_to_help(tmp_path):
    code = (
        "import sys; from tocsin.cli.main import tocsin; tocsin(['--help'], standalone_mode=False);"
        "print({'numba', 'pyspark', 'pyarrow', 'numpy', 'rich', 'pandas'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "match" in result.stdout
    assert result.stdout.endswith("set()\n")


def test_the_program(tmp_path):
    def program(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tocsin", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

    result = program("rules", "create", "store", "--schema", "x=number")
    assert (result.returncode, result.stdout, result.stderr) == (0, "version 1: 0 rules\n", "")
    result = program("rules", "show", "store", "a")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: there is no rule 'a'")
    assert program("--version").stdout == f"tocsin {tocsin.__version__}\n"


# ------------------------------------------------------------ streams


def test_streams(store):
    from tocsin.engine.store_folder import StoreFolder

    assert run_ok("rules", "streams", store) == "no streams yet\n"
    folder = StoreFolder(store)
    folder.pin("q-1", "0")
    folder.pin("q-1", "1")
    folder.log.report_missing("q-1", ["temp"])
    folder.log.report_name("q-1", "watch")
    run_ok("rules", "add", store, "more", "x < 3")
    folder.pin("q-1", "2")
    lines = [line.split() for line in run_ok("rules", "streams", store).splitlines()]
    assert lines[0][:4] == ["query", "name", "batch", "used"]
    assert lines[1][:3] == ["q-1", "watch", "2"]
    assert lines[1][6:] == ["4", "3,", "4", "temp"]
    run_ok("rules", "add", store, "last", "x < 4")
    assert run_ok("rules", "prune", store, "--keep", 1) == (
        "deleted versions: 1, 2\nkept for streams: 3, 4\n"
    )
    assert "Give BATCH, or --all." in run_failing("rules", "unpin", store, "q-1", code=2)
    assert "batch 7 of stream q-1 is not pinned" in run_failing("rules", "unpin", store, "q-1", 7)
    assert "stream 'q-2' has no pinned batches" in run_failing(
        "rules", "unpin", store, "q-2", "--all"
    )
    assert run_ok("rules", "unpin", store, "q-1", 2) == "released batch 2 of q-1\n"
    assert run_ok("rules", "prune", store, "--keep", 1) == (
        "deleted versions: 4\nkept for streams: 3\n"
    )
    assert run_ok("rules", "unpin", store, "q-1", "--all") == "released all batches of q-1\n"
    assert run_ok("rules", "prune", store, "--keep", 1) == "deleted versions: 3\n"
    assert run_ok("rules", "streams", store) == "no streams yet\n"


def test_replace_keeps_weights_and_payload(store):
    run_ok("rules", "replace", store, "low", "x < 2")
    assert '{"team": "red"}' in run_ok("rules", "show", store, "low")
    run_ok("rules", "replace", store, "low", "--weights", '{"x": 2}')
    kept = tocsin.open(store)["low"]
    assert (kept.where, kept.weights, kept.payload) == ("x < 2", {"x": 2.0}, {"team": "red"})
    assert "Give WHERE, --weights" in run_failing("rules", "replace", store, "low", code=2)
    run_ok("rules", "replace", store, "low", "x < 2", "--payload", "{}")
    assert "payload" not in run_ok("rules", "show", store, "low")


def test_scores_of_rules(store, tmp_path):
    run_ok("rules", "add", store, "bid", "x < 2", "--score", 4.9)
    assert "score      4.9" in run_ok("rules", "show", store, "bid")
    run_ok("rules", "replace", store, "bid", "--score", 5)
    assert tocsin.open(store)["bid"] == tocsin.Rule("bid", "x < 2", score=5.0)
    version = tocsin.open(store).version
    assert "bid score: 4.9 -> 5.0" in run_ok("rules", "diff", store, version - 1, version)
    run_ok("rules", "replace", store, "bid", "--weights", "{}")
    assert tocsin.open(store)["bid"].score is None
    message = run_failing("rules", "replace", store, "bid", "--score", -1)
    assert "rule 'bid': score must be a finite number, 0 or more; got -1" in message
    file = tmp_path / "more.csv"
    file.write_text("id,where,score\na,x < 2,1.5\nb,x < 2,\n")
    run_ok("rules", "add", store, "--from", file)
    assert [tocsin.open(store)[id].score for id in "ab"] == [1.5, None]


def test_a_schema_with_structs_and_decimals(tmp_path):
    schema = "c=string,loc=struct<lat: double, tags: map<string, int>>,price=decimal(12,2),s=double"
    file = tmp_path / "rules.csv"
    file.write_text(
        "id,where\na,s * 3.6 > 100 AND loc.lat > 40\nb,loc.tags['x'] = 3\nc,price < 9.5\n"
    )
    assert "3 rules: 0 errors" in run("rules", "check", file, "--schema", schema).output
    event = '{"s": 20.0, "loc": {"lat": 40.5, "tags": {"x": 3}}, "price": 9.49}'
    options = ["--rules", file, "--schema", schema, "--event", event]
    assert "rule 'a' does not match" in run("explain", "a", *options).output
    for id_ in ("b", "c"):
        assert f"rule '{id_}' matches" in run("explain", id_, *options).output
