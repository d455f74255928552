"""`tocsin rules`, `explain` and `plan`: what they do to a store and what they print."""

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tocsin
from tocsin.cli.main import tocsin as command

SCHEMA = "x=number,n=integer,tier=category,ok=flag,at=time"


def run(*arguments):
    return CliRunner().invoke(command, [str(a) for a in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return result.stdout


def refused(*arguments, code=1):
    """Return the message, which is all that is said."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert not result.stdout
    if code == 1:
        assert isinstance(result.exception, SystemExit)
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store"
    done("rules", "create", path, "--schema", SCHEMA)
    done("rules", "add", path, "low", "x < 1", "--payload", '{"team": "red"}')
    done("rules", "add", path, "gold", "tier = 'gold' AND x > 5", "--weights", '{"x": 0.5}')
    return path


def test_a_life(store):
    assert [line.rstrip() for line in done("rules", "list", store).splitlines()] == [
        "id    condition                payload",
        'low   x < 1                    {"team": "red"}',
        "gold  tier = 'gold' AND x > 5",
    ]
    assert done("rules", "replace", store, "low", "x < 2") == "version 4: 2 rules\n"
    assert done("rules", "remove", store, "gold", "low") == "version 5: 0 rules\n"
    assert done("rules", "list", store) == "no rules yet\n"
    assert "x < 1" in done("rules", "list", store, "--version", 2)
    assert done("rules", "diff", store, 2, 4) == "1 added: gold\n1 changed: low\n"
    assert done("rules", "diff", store, 4) == "2 removed: gold, low\n"
    assert done("rules", "merge", store) == "version 6: 0 rules\n"
    lines = done("rules", "versions", store).splitlines()
    assert lines[0].split() == ["version", "published", "rules", "segments"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4", "5", "6"]
    assert done("rules", "prune", store, "--keep", 2) == "deleted versions: 1, 2, 3, 4\n"
    assert done("rules", "prune", store, "--keep", 2) == "deleted versions: none\n"


def test_show_and_limit(store):
    assert done("rules", "show", store, "gold") == (
        "id         gold\ncondition  tier = 'gold' AND x > 5\nweights    {\"x\": 0.5}\n"
    )
    assert done("rules", "show", store, "low").endswith('payload    {"team": "red"}\n')
    assert "has no version 9" in refused("rules", "show", store, "low", "--version", 9)
    assert done("rules", "list", store, "--limit", 1).endswith("and 1 more\n")
    assert done("rules", "list", store, "--limit", 0) == "2 rules\n"


def test_a_long_condition_in_brackets_is_printed_whole(store):
    condition = " OR ".join(f"tier = '[red]{i}'" for i in range(60))
    done("rules", "add", store, "long", condition)
    assert condition in done("rules", "list", store)


def test_plan(store):
    assert done("plan", "--rules", store) == str(tocsin.open(store).plan()) + "\n"


def test_explain(store):
    said = done("explain", "--rules", store, "gold", "--event", '{"x": 5, "tier": "tin"}')
    assert said == str(tocsin.open(store).explain({"x": 5, "tier": "tin"}, "gold")) + "\n"
    done("rules", "add", store, "late", "at >= TIMESTAMP '2024-05-01 12:00:00Z'")
    for text in ("2024-05-01T12:00:00Z", "2024-05-01 14:00:00+02:00", "2024-05-01T12:00:00"):
        said = done("explain", "--rules", store, "late", "--event", json.dumps({"at": text}))
        assert said.startswith("rule 'late' matches")
    assert "write it as 2024" in refused(
        "explain", "--rules", store, "late", "--event", '{"at":"?"}'
    )
    assert "no rule 'x'" in refused("explain", "--rules", store, "x", "--event", "{}")
    ends = {"low": "2020-01-01T00:00:00Z", "high": "2020-01-02T00:00:00Z"}
    event = json.dumps({"at": ends, "x": {"low": 1, "high": 2}})
    assert "at is 2020-01-01 00:00:00+00:00 to 2020-01-02" in done(
        "explain", "--rules", store, "late", "--event", event
    )
    said = done("explain", "--rules", store, "gold", "--version", 3, "--event", "{}")
    assert "unknown" in said
    assert "does not match" in said


def test_explain_from_a_file(tmp_path):
    file = tmp_path / "rules.csv"
    file.write_text("id,where\n007,x > 5\n")
    options = ("explain", "--rules", file, "007", "--event", '{"x": 6}')
    assert done(*options, "--schema", "x=number").startswith("rule '007' matches")
    assert "rules.csv has no schema" in refused(*options)
    assert "--version is for a rule store" in refused(*options, "--version", 1)


# ------------------------------------------------------------ files


TEXTS = [
    {"id": "a", "where": "x > 1", "weights": {"x": 2.5}, "team": "red"},
    {"id": "007", "where": "TRUE", "weights": None, "team": None},
    {"id": "2024-01-01", "where": "tier = 'a, \"b\"'", "weights": None, "team": "NA"},
]


def write_rules(path, rows):
    """Write rows of rules as a file, plainly."""
    if path.suffix == ".parquet":
        rows = [dict(r, weights=list((r.get("weights") or {}).items()) or None) for r in rows]
        names = dict.fromkeys(n for r in rows for n in r)
        map_ = {"weights": pa.map_(pa.string(), pa.float64())}
        columns = {n: pa.array([r.get(n) for r in rows], map_.get(n)) for n in names}
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    else:
        import csv

        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            for r in rows:
                weights = {"weights": json.dumps(r["weights"])} if r.get("weights") else {}
                writer.writerow(r | weights)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_rules_from_a_file(tmp_path, suffix):
    file = write_rules(tmp_path / f"rules.{suffix}", TEXTS)
    store = tmp_path / "store"
    assert done("rules", "create", store, "--schema", SCHEMA, "--rules", file) == (
        "version 1: 3 rules\n"
    )
    for row in TEXTS:
        rule = tocsin.open(store)[row["id"]]
        assert rule.where == row["where"]
        assert rule.weights == (row["weights"] or {})
        assert rule.payload == ({"team": row["team"]} if row["team"] else {})
    assert "rule 'a' exists already" in refused("rules", "add", store, "--from", file)
    rest = [dict(r, id=f"{r['id']}-2") for r in TEXTS]
    write_rules(file, rest)
    assert done("rules", "add", store, "--from", file) == "version 2: 6 rules\n"


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
    done("rules", "create", store, "--schema", SCHEMA, "--rules", file)
    assert tocsin.open(store)["b1"].where == (
        "x BETWEEN 1 AND 2.5 AND tier = '007' AND at >= TIMESTAMP '2024-05-01 12:00:00Z'"
    )
    long = [{"id": "l", "attribute": a, "low": 1, "high": 2, "weight": 3} for a in ("x", "n")]
    file = write_rules(tmp_path / f"long.{suffix}", long)
    done("rules", "add", store, "--from", file)
    assert tocsin.open(store)["l"].where == "x BETWEEN 1 AND 2 AND n BETWEEN 1 AND 2"
    times = [{"id": "t", "attribute": "at", "low": "2024-05-01T12:00:00", "high": None}]
    done("rules", "add", store, "--from", write_rules(tmp_path / f"times.{suffix}", times))
    assert tocsin.open(store)["t"].where == "at >= TIMESTAMP '2024-05-01 12:00:00Z'"


def test_integer_ids(tmp_path):
    store, file = tmp_path / "store", tmp_path / "rules.jsonl"
    file.write_text('{"id": 7, "where": "x > 5"}\n\n{"id": 8, "where": "x > 6"}\n')
    done("rules", "create", store, "--schema", "x=number", "--rules", file)
    assert done("rules", "show", store, 7).startswith("id         7\n")
    assert done("rules", "add", store, "9", "x > 7") == "version 2: 3 rules\n"
    assert done("rules", "remove", store, "7", "--", "9") == "version 3: 1 rule\n"
    for id in ("seven", "1_0", 2**63):
        assert f"integers of 64 bits, got '{id}'" in refused("rules", "show", store, id)
    csv = tmp_path / "more.csv"
    csv.write_text("id,where\n10,x > 8\n")
    assert done("rules", "add", store, "--from", csv) == "version 4: 2 rules\n"
    assert list(tocsin.open(store)) == [8, 10]
    csv.write_text("id,where\nten,x > 8\n")
    assert "got 'ten'" in refused("rules", "add", store, "--from", csv)


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
    done("rules", "create", store, "--schema", events)
    wanted = {"x": "number", "n": "integer", "tier": "category", "ok": "flag"}
    if suffix == "jsonl":  # whose fields come in the order of their names
        wanted = dict(sorted(wanted.items()))
    assert tocsin.open(store).schema == tocsin.Schema(wanted)


# ------------------------------------------------------------ errors


def test_what_is_wrong_with_a_store(store, tmp_path):
    none = tmp_path / "none"
    for arguments in (
        ("rules", "list", none), ("rules", "versions", none), ("rules", "merge", none),
        ("plan", "--rules", none), ("rules", "add", none, "a", "TRUE"),
    ):  # fmt: skip
        assert "there is no rule store at" in refused(*arguments)
    assert not none.exists()
    assert "already" in refused("rules", "create", store, "--schema", SCHEMA)
    assert "has no version 9" in refused("rules", "diff", store, 9)
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    current = json.loads((copy / "versions" / "00000003.json").read_text()[:-66])["segments"][-1]
    file = max((copy / "segments" / current["name"]).iterdir(), key=lambda f: f.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1])
    assert file.name in refused("rules", "list", copy)
    version = copy / "versions" / "00000003.json"
    version.write_text(version.read_text().replace('"rules"', '"rulez"'))
    assert "damaged" in refused("rules", "list", copy)


def test_what_is_wrong_with_a_rule(store):
    said = refused("rules", "add", store, "cold", "temp < 5")
    assert said.startswith("error: rule 'cold': unknown attribute 'temp'")
    assert said.endswith("  temp < 5\n  ^^^^\n")
    assert "'low' exists already" in refused("rules", "add", store, "low", "TRUE")
    assert "no rule 'lo'" in refused("rules", "remove", store, "low", "lo")
    assert "does not test" in refused(
        "rules", "replace", store, "low", "x < 1", "--weights", '{"n": 1}'
    )
    assert tocsin.RuleStore(store).version == 3, "nothing was published"


def test_what_is_wrong_with_a_file(store, tmp_path):
    def said(name, content):
        file = tmp_path / name
        file.write_bytes(content)
        return refused("rules", "add", store, "--from", file)

    assert "there is no file or folder" in refused(
        "rules", "add", store, "--from", tmp_path / "none.csv"
    )
    assert "ends in .csv, .jsonl (JSON lines) or .parquet" in said("rules.txt", b"id\n")
    assert "did you mean '.csv'?" in said("rules.cvs", b"id\n")
    assert "rules.csv: cannot be read" in said("rules.csv", b"")
    assert "rules.csv: cannot be read" in said("rules.csv", b"id,where\n1,2,3\n")
    assert "needs a column 'id'" in said("rules.csv", b"name,where\na,TRUE\n")
    assert "row 0 (rule 'a'): the condition is null" in said("rules.csv", b"id,where\na,\n")
    assert "row 0: the weights are not JSON" in said("rules.csv", b"id,where,weights\na,TRUE,x\n")
    assert "row 0: the weights are not a JSON obj" in said(
        "rules.csv", b"id,where,weights\na,TRUE,1\n"
    )
    assert "rules.jsonl: line 2: not JSON" in said("rules.jsonl", b'{"id": 1}\n{\n')
    assert "line 1: not a JSON object" in said("rules.jsonl", b"[1]\n")
    assert "rules.jsonl: cannot be read" in said("rules.jsonl", b"\xff\n")
    assert "rules.parquet: cannot be read" in said("rules.parquet", b"nonsense")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "has no files" in refused("rules", "add", store, "--from", folder)


def test_what_is_wrong_with_a_schema(tmp_path):
    store = tmp_path / "store"
    assert "neither a file nor" in refused("rules", "create", store, "--schema", "events.csv")
    assert "did you mean 'number'?" in refused("rules", "create", store, "--schema", "x=numbr")
    file = tmp_path / "events.parquet"
    file.write_bytes(b"nonsense")
    assert "events.parquet: cannot be read" in refused("rules", "create", store, "--schema", file)
    assert "no index 'tree'" in refused(
        "rules", "create", store, "--schema", "x=number", "--index", "tree"
    )
    bad = tmp_path / "rules.csv"
    bad.write_text("id,where\na,y > 5\n")
    assert "unknown attribute 'y'" in refused(
        "rules", "create", store, "--schema", "x=number", "--rules", bad
    )
    assert not store.exists(), "a store is made when all is well"


def test_usage(store):
    assert "Give ID and WHERE" in refused("rules", "add", store, "a", code=2)
    assert "goes without" in refused("rules", "add", store, "a", "--from", "f.csv", code=2)
    assert "not JSON" in refused("explain", "--rules", store, "a", "--event", "{", code=2)
    assert "JSON object" in refused("rules", "add", store, "a", "TRUE", "--payload", "1", code=2)
    assert "No such command" in refused("rulez", code=2)
    refused("rules", "prune", store, "--keep", 0, code=2)


# ------------------------------------------------------------ as a program


def test_the_program_is_quick_to_help(tmp_path):
    code = (
        "import sys; from tocsin.cli.main import tocsin; tocsin(['--help'], standalone_mode=False);"
        "print({'numba', 'pyspark', 'pyarrow', 'numpy', 'rich', 'pandas'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "match" in said.stdout
    assert said.stdout.endswith("set()\n")


def test_the_program(tmp_path):
    def program(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "tocsin", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

    said = program("rules", "create", "store", "--schema", "x=number")
    assert (said.returncode, said.stdout, said.stderr) == (0, "version 1: 0 rules\n", "")
    said = program("rules", "show", "store", "a")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("error: there is no rule 'a'")
    assert program("--version").stdout == f"tocsin {tocsin.__version__}\n"


# ------------------------------------------------------------ streams


def test_streams(store):
    from tocsin.engine.store_folder import StoreFolder

    assert done("rules", "streams", store) == "no streams yet\n"
    folder = StoreFolder(store)
    folder.pin("q-1", "0")
    folder.pin("q-1", "1")
    folder.log.report_missing("q-1", ["temp"])
    done("rules", "add", store, "more", "x < 3")
    folder.pin("q-1", "2")
    lines = [line.split() for line in done("rules", "streams", store).splitlines()]
    assert lines[0][:3] == ["query", "batch", "used"]
    assert lines[1][:2] == ["q-1", "2"]
    assert lines[1][5:] == ["4", "3,", "4", "temp"]
    done("rules", "add", store, "last", "x < 4")
    assert done("rules", "prune", store, "--keep", 1) == (
        "deleted versions: 1, 2\nkept for streams: 3, 4\n"
    )
    assert "Give BATCH, or --all." in refused("rules", "unpin", store, "q-1", code=2)
    assert "batch 7 of stream q-1 is not pinned" in refused("rules", "unpin", store, "q-1", 7)
    assert "stream 'q-2' has no pinned batches" in refused("rules", "unpin", store, "q-2", "--all")
    assert done("rules", "unpin", store, "q-1", 2) == "released batch 2 of q-1\n"
    assert done("rules", "prune", store, "--keep", 1) == (
        "deleted versions: 4\nkept for streams: 3\n"
    )
    assert done("rules", "unpin", store, "q-1", "--all") == "released all batches of q-1\n"
    assert done("rules", "prune", store, "--keep", 1) == "deleted versions: 3\n"
    assert done("rules", "streams", store) == "no streams yet\n"


def test_replace_keeps_what_it_is_not_given(store):
    done("rules", "replace", store, "low", "x < 2")
    assert '{"team": "red"}' in done("rules", "show", store, "low")
    done("rules", "replace", store, "low", "x < 2", "--payload", "{}")
    assert "payload" not in done("rules", "show", store, "low")
