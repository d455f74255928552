"""One data set, one result: in process, on Spark (batch, stream, Classic, Connect), from files."""

import pytest
from click.testing import CliRunner
from pyarrow import feather, parquet

from tests.spark import answers
from tocsin.cli.main import tocsin


@pytest.fixture(scope="module")
def expected():
    rules, events = answers.rules(), answers.events()
    return {
        query: answers.to_canonical(answers.run_in_process(rules, events, query), query)
        for query in answers.QUERIES
    }


@pytest.fixture(scope="module")
def classic(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("classic") / "data"
    return {(way, query): table for way, query, table in answers.run_on_spark(spark, path)}


@pytest.fixture(scope="module")
def connect(connect_folder):
    files = (connect_folder / "answers").iterdir()
    return {tuple(f.name.split(".")): feather.read_table(f) for f in files}


@pytest.fixture(scope="module")
def command_line(spark, tmp_path_factory):
    """The results of `tocsin match`, which has no option for weights of events."""
    path = tmp_path_factory.mktemp("files")
    answers.rules().save(path / "store")
    parquet.write_table(answers.events(), path / "events.parquet")
    results = {}
    for query in ("all", "count", "lists", "best"):
        out = path / f"{query}.parquet"
        options = [f"--{name}={_to_text(value)}" for name, value in answers.QUERIES[query].items()]
        files = ["--rules", path / "store", "--events", path / "events.parquet", "--out", out]
        run = CliRunner().invoke(tocsin, ["match", *map(str, files), *options])
        assert run.exit_code == 0, run.output
        results["files", query] = parquet.read_table(out)
    return results


def _to_text(value):
    return ",".join(value) if isinstance(value, list) else value


SOURCES = ["classic", "connect", "command_line"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("query", answers.QUERIES)
def test_every_way_gives_the_same_result(source, query, expected, request):
    results = request.getfixturevalue(source)
    ways = [way for way, name in results if name == query]
    assert ways or (source, query) == ("command_line", "top")
    for way in ways:
        assert answers.to_canonical(results[way, query], query).equals(expected[query]), way


@pytest.mark.parametrize("source", ["classic", "connect"])
def test_all_queries_ran_on_spark(source, request):
    queries = [*answers.QUERIES, *answers.PASS_THROUGH]
    everything = {
        (way, query)
        for way in answers.WAYS
        for query in queries
        if "batch" in way or query in answers.STREAMED
    }
    assert set(request.getfixturevalue(source)) == everything


def test_the_data_set_is_varied(expected):
    everything = expected["all"]
    matched = {rule.split()[0] for rule in everything["rule"].unique().to_pylist()}
    assert matched == {"text", "term", "box", "long"}
    terms = {rule for rule in everything["rule"].unique().to_pylist() if rule.startswith("term")}
    assert len(terms) > 0.9 * len(answers.TERMS)
    assert len(everything) > 50_000
    assert len(everything["rule"].unique()) > 200
    assert everything["team"].null_count > 0
    assert len(expected["top"]["score"].unique()) > 20


@pytest.mark.parametrize("source", ["classic", "connect"])
@pytest.mark.parametrize("way", answers.WAYS)
def test_kept_columns_are_unchanged(source, way, request, classic):
    result = request.getfixturevalue(source)[way, "kept"].sort_by([("row", "ascending")])
    first = classic["batch-1", "kept"].schema
    assert (result.schema.names, result.schema.types) == (first.names, first.types)
    events = answers.awkward().to_pylist()
    rows = result.to_pylist()
    rules = {}
    for row in rows:
        rules.setdefault(row["row"], set()).add(row.pop("rule"))
        # As text, in which NaN equals NaN.
        assert repr(row) == repr(events[row["row"]])
    assert rules == {n: {"any", "high"} if n % 10 > 5 else {"any"} for n in range(len(events))}
    assert len(rows) == sum(map(len, rules.values()))
