"""One data set, one answer: in process, on Spark (batch, stream; Classic, Connect), by files."""

import pytest
from click.testing import CliRunner
from pyarrow import feather, parquet

from tests.spark import answers
from tocsin.cli.main import tocsin


@pytest.fixture(scope="module")
def wanted():
    rules, events = answers.rules(), answers.events()
    return {
        question: answers.canonical(answers.in_process(rules, events, question), question)
        for question in answers.QUESTIONS
    }


@pytest.fixture(scope="module")
def classic(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("classic") / "data"
    return {(way, question): table for way, question, table in answers.on_spark(spark, place)}


@pytest.fixture(scope="module")
def connect(connect_folder):
    files = (connect_folder / "answers").iterdir()
    return {tuple(f.name.split(".")): feather.read_table(f) for f in files}


@pytest.fixture(scope="module")
def command_line(spark, tmp_path_factory):
    """The questions that `tocsin match` can be asked: it has no weights of events."""
    place = tmp_path_factory.mktemp("files")
    answers.rules().save(place / "store")
    parquet.write_table(answers.events(), place / "events.parquet")
    found = {}
    for question in ("all", "count", "lists", "best"):
        asked, out = answers.QUESTIONS[question], place / f"{question}.parquet"
        options = [f"--{name}={_words(value)}" for name, value in asked.items()]
        files = ["--rules", place / "store", "--events", place / "events.parquet", "--out", out]
        run = CliRunner().invoke(tocsin, ["match", *map(str, files), *options])
        assert run.exit_code == 0, run.output
        found["files", question] = parquet.read_table(out)
    return found


def _words(value):
    return ",".join(value) if isinstance(value, list) else value


SOURCES = ["classic", "connect", "command_line"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("question", answers.QUESTIONS)
def test_every_way_gives_one_answer(source, question, wanted, request):
    found = request.getfixturevalue(source)
    ways = [way for way, asked in found if asked == question]
    assert ways or (source, question) == ("command_line", "top")
    for way in ways:
        assert answers.canonical(found[way, question], question).equals(wanted[question]), way


@pytest.mark.parametrize("source", ["classic", "connect"])
def test_spark_was_asked_everything(source, request):
    questions = [*answers.QUESTIONS, *answers.KEPT]
    everything = {
        (way, question)
        for way in answers.WAYS
        for question in questions
        if "batch" in way or question in answers.STREAMED
    }
    assert set(request.getfixturevalue(source)) == everything


def test_the_data_set_is_worth_it(wanted):
    everything = wanted["all"]
    matched = {rule.split()[0] for rule in everything["rule"].unique().to_pylist()}
    assert matched == {"text", "box", "long"}
    assert len(everything) > 50_000
    assert len(everything["rule"].unique()) > 200
    assert everything["team"].null_count > 0
    assert len(wanted["top"]["score"].unique()) > 20


@pytest.mark.parametrize("source", ["classic", "connect"])
@pytest.mark.parametrize("way", answers.WAYS)
def test_columns_pass_through_as_they_are(source, way, request, classic):
    found = request.getfixturevalue(source)[way, "kept"].sort_by([("row", "ascending")])
    first = classic["batch-1", "kept"].schema
    assert (found.schema.names, found.schema.types) == (first.names, first.types)
    given = answers.awkward().to_pylist()
    rows = found.to_pylist()
    rules = {}
    for row in rows:
        rules.setdefault(row["row"], set()).add(row.pop("rule"))
        # As texts, in which NaN is itself.
        assert repr(row) == repr(given[row["row"]])
    assert rules == {n: {"any", "high"} if n % 10 > 5 else {"any"} for n in range(len(given))}
    assert len(rows) == sum(map(len, rules.values()))
