"""Uncertain readings on Spark: the answers of one process, whatever the partitions."""

import datetime
import json
import shutil
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as st

import tocsin
from tests.spark import uncertain_answers as answers
from tocsin.spark.uncertain import (
    average,
    highest,
    in_range,
    lowest,
    maximum,
    minimum,
    nearest,
    total,
    value,
    watch,
    watching,
)

ALL_QUERIES = ["in_range", "value", *answers.ENTITY, *answers.VALUES]


@pytest.fixture
def partitions(request, spark):
    """As many partitions of shuffles as of readings."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(request.param))
    yield request.param
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="module")
def expected():
    return answers.ask_one_process(answers.ALL, ALL_QUERIES)


@pytest.mark.parametrize(
    ("partitions", "queries"),
    [
        (1, ["in_range", "nearest", "total"]),
        (3, ALL_QUERIES),
        (8, ["in_range", "minimum", "lowest"]),
    ],
    indirect=["partitions"],
)
def test_the_same_as_one_process(spark, partitions, queries, expected):
    found = answers.ask_spark(spark, answers.ALL, partitions, queries)
    for query in queries:
        answers.assert_same(found[query], expected[query])
        assert len(expected[query]) >= 4, query


def test_the_same_on_connect(connect_folder, expected):
    found = json.loads((connect_folder / "uncertain.json").read_text())
    assert set(found) == set(ALL_QUERIES)
    for query, pairs in found.items():
        answers.assert_same(pairs, expected[query])


def test_a_range_query_without_python_is_exact(spark, capsys):
    found = answers.ask_spark(spark, answers.FAMILIES, 2, ["in_range"])
    expected = answers.ask_one_process(answers.FAMILIES, ["in_range"])
    assert found == expected
    probabilities = [p for _, (p,) in found["in_range"]]
    assert sum(0 < p < 1 for p in probabilities) > 100
    frame = answers.make_frame(spark, answers.FAMILIES).drop("mean", "deviation")
    in_range(frame, *answers.RANGE, at=answers.AT).explain()
    plan = capsys.readouterr().out
    assert "Project" in plan
    assert "InArrow" not in plan


def test_spark_prunes_before_workers(spark, capsys):
    frame = answers.make_frame(spark, ["uniform"]).select("id", "floor", "low", "high")
    minimum(frame, by=["floor"]).explain()
    plan = capsys.readouterr().out
    assert plan.index("FlatMapGroupsInArrow") < plan.index("Join") < plan.index("HashAggregate")


def rows_of(frame):
    return sorted(map(tuple, frame.collect()), key=str)


# ------------------------------------------------------------ columns and results


@pytest.fixture(scope="module")
def rooms(spark):
    rows = [("hall", 1, 18.0, 22.0, "x"), ("lab", 1, 21.0, 26.0, "y"), ("roof", 2, 5.0, 5.0, "z")]
    return spark.createDataFrame(rows, "id STRING, floor INT, low DOUBLE, high DOUBLE, Note STRING")


def test_the_columns_of_results(rooms):
    found = in_range(rooms, 21, 30)
    assert found.columns == ["id", "floor", "low", "high", "Note", "probability"]
    assert rows_of(found) == [("hall", 1, 18, 22, "x", 0.25), ("lab", 1, 21, 26, "y", 1)]
    assert rows_of(in_range(rooms, 21, 30, at_least=0.5).select("id")) == [("lab",)]
    found = minimum(rooms, by=["FLOOR"], keep=["note"])
    assert found.columns == ["floor", "id", "Note", "probability", "quality"]
    hall, lab, roof = rows_of(found)
    assert hall[:4] == (1, "hall", "x", pytest.approx(0.975))
    assert hall[4] == lab[4] < 0
    assert roof == (2, "roof", "z", 1.0, 0.0)
    assert minimum(rooms, 0.5, by=["floor"]).select("quality").collect() == [(None,)] * 2
    found = highest(rooms, [0.5], by=["floor"])
    assert found.columns == ["floor", "low", "high", "mean", "quality", "quantiles", "atoms"]
    assert rows_of(found.where("floor = 2")) == [
        (2, 5.0, 5.0, 5.0, float("inf"), [5.0], [(5.0, 1.0)])
    ]
    assert average(rooms, by=["floor"]).columns == [
        "floor", "low", "high", "mean", "quality", "atoms",
    ]  # fmt: skip


def test_all_rows_are_one_group_without_by(rooms):
    assert rows_of(minimum(rooms).select("id", "probability")) == [("roof", 1.0)]
    assert rows_of(nearest(rooms, 30).select("id"))[-1] == ("lab",)
    assert rows_of(total(rooms).select("low", "high")) == [(44.0, 53.0)]


def test_other_names_and_types(spark):
    frame = spark.createDataFrame(
        [(1, 3, Decimal("1.5"), 0), (2, 2, Decimal("4.5"), 0)],
        "`the sensor` INT, `low.er` SMALLINT, `UP` DECIMAL(5, 2), rate INT",
    )
    options = {
        "id": "the sensor",
        "columns": {"low": "up", "high": "low.er", "rate": None},
    }
    with pytest.raises(PySparkException, match=r"reading '2': the interval is reversed: low 4.5"):
        in_range(frame, 0, 9, **options).collect()
    found = in_range(frame.where("`the sensor` = 1"), 2, 9, **options)
    assert rows_of(found.select("the sensor", "probability")) == [(1, pytest.approx(2 / 3))]
    found = maximum(frame.where("`the sensor` = 1"), by=["low.er"], **options)
    assert rows_of(found) == [(3, 1, 1.0, 0.0)]


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_timestamps(spark, type_):
    """Rates are per second; a time without a zone is in the session's."""
    frame = spark.sql(
        f"SELECT 'a' AS id, 20D AS value, 0.1D AS rate, {type_} '2026-05-01 12:00:00.5' AS time"
    )
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = [
        "2026-05-01 12:00:10.5",
        datetime.datetime(2026, 5, 1, 12, 0, 10, 500_000),
        datetime.datetime(2026, 5, 1, 14, 0, 10, 500_000, zone),
        datetime.datetime(2026, 5, 1, 12, 0, 10, 500_000, datetime.UTC),
    ]
    for at in moments:
        found = in_range(frame, 20.5, 99, at=at).select("id", "time", "probability")
        (row,) = found.collect()
        assert row.probability == pytest.approx(0.25)
    assert rows_of(total(frame, at=moments[0]).select("low", "high")) == [(19.0, 21.0)]
    with pytest.raises(PySparkException, match=r"the report is of time 2026-05-01 12:00:00.5, aft"):
        in_range(frame, 0, 99, at="2026-05-01 11:00:00").collect()


def test_a_domain(spark):
    frame = spark.createDataFrame([("a", 1.0, 1, 0)], "id STRING, value DOUBLE, rate INT, time INT")
    (row,) = total(frame, at=4, domain=(0, 3)).collect()
    assert (row.low, row.high) == (0.0, 3.0)
    with pytest.raises(PySparkException, match=r"the value 1.0 is not in the domain \(2.0, 3.0\)"):
        total(frame, at=4, domain=(2, 3)).collect()
    with pytest.raises(tocsin.UncertainError, match="is reversed"):
        total(frame, at=4, domain=(3, 2))


def test_empty_frames(rooms):
    none = rooms.where("floor > 5")
    for query in (minimum, maximum, lowest, total):
        assert query(none).collect() == []
        assert query(none, by=["floor"]).collect() == []
    assert in_range(none, 0, 1).collect() == value(none).collect() == []


def test_streams(spark, rooms):
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("value AS id", "1 AS low", "2 AS high", "timestamp AS time")
    )
    assert in_range(stream, 0, 1).isStreaming
    with pytest.raises(tocsin.UncertainError, match=r"minimum needs all .*watch keeps the last"):
        minimum(stream)


# ------------------------------------------------------------ errors

WRONG_ROWS = {
    "low NULL": "reading 'a': it has high; a reading has value; value, rate, time; low, high;",
    "value 1D, low 1D": "reading 'a': it has value, low, high; a reading has",
    "low DOUBLE('NaN')": "reading 'a': low is NaN, but it must be finite",
    "high DOUBLE('Infinity')": "reading 'a': high is Infinity, but it must be finite",
    "high 1D": "reading 'a': the interval is reversed: low 3.0 is above high 1.0",
    "id NULL": "the id of a reading is null; every reading needs an id",
    "low NULL, high NULL": "reading 'a': it has no values; a reading has",
    "low NULL, high NULL, value 1D, rate 1D": "reading 'a': it has a value and a rate, but no time",
    "low NULL, high NULL, value 1D, time 1D": "it has a value and a time, but no rate; a value",
    "low NULL, high NULL, value 1D, rate -1D, time 1D": "the rate is -1.0, but it must not be neg",
    "low NULL, high NULL, value 1D, rate 1D, time 11D": "the report is of time 11.0, after at = 10",
    "low NULL, high NULL, value 1e308D, rate 1e308D, time 0D": "is too wide",
    "mean 3D": "reading 'a': it has low, high, mean; a reading has",
    "mean 3D, deviation -1D": "the deviation is -1.0, but it must not be negative",
    "mean 1D, deviation 0D": "the deviation is 0, so the mean 1.0 must be within the interval",
    "mean 3D, deviation 1e-9D": "at most 1e8 deviations can be computed with",
    "low NULL, high NULL, edges array(1D, 2D), weights array(0.5D, 0.5D)": "it has 2 edges and 2",
    "low NULL, high NULL, edges array(2D, 1D), weights array(1D)": "finite and ascend; they are [2",
    "low NULL, high NULL, edges array(2D, NULL), weights array(1D)": "finite and ascend; they are",
    "low NULL, high NULL, edges array(1D, 2D), weights array(-1D)": "not negative; they are [-1.0]",
    "low NULL, high NULL, edges array(1D, 2D), weights array(3D)": "add up to 3.0, not to 1; div",
}


def make_wrong(spark, change):
    names = ("value", "rate", "time", "low", "high", "mean", "deviation", "edges", "weights")
    given = dict.fromkeys(names, "NULL") | {"id": "'a'", "low": "3D", "high": "4D"}
    parts = []
    for part in change.split(", "):  # commas within arrays are put back
        if parts and parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += f", {part}"
        else:
            parts.append(part)
    given |= dict(part.split(" ", 1) for part in parts)
    types = dict.fromkeys(names, "DOUBLE") | dict.fromkeys(("edges", "weights"), "ARRAY<DOUBLE>")
    columns = ", ".join(
        f"CAST({sql} AS {types.get(name, 'STRING')}) AS {name}" for name, sql in given.items()
    )
    return spark.sql(f"SELECT {columns}")


@pytest.fixture
def interpreted(spark):
    """Queries are not compiled, which takes longer than to run them."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, setting in settings.items():
        spark.conf.set(name, setting)
    yield
    for name, setting in before.items():
        spark.conf.set(name, setting)


@pytest.mark.parametrize("change", WRONG_ROWS)
def test_wrong_rows(spark, interpreted, change):
    frame = make_wrong(spark, change)
    with pytest.raises(PySparkException) as error:
        in_range(frame, 100, 200, at=10).collect()
    assert "UncertainError: " in str(error.value)
    assert WRONG_ROWS[change] in str(error.value)


def test_wrong_rows_that_pruning_drops(spark):
    rows = [("a", 1.0, 2.0), ("b", 9.0, 8.0)]
    frame = spark.createDataFrame(rows, "id STRING, low DOUBLE, high DOUBLE")
    for query in (minimum, maximum, lowest, total):
        with pytest.raises(PySparkException, match="reading 'b': the interval is reversed"):
            query(frame).collect()


def test_ids_that_come_twice(spark):
    rows = [("a", 1.0, 2.0), ("a", 1.5, 2.5)]
    frame = spark.createDataFrame(rows, "id STRING, low DOUBLE, high DOUBLE")
    with pytest.raises(PySparkException, match="UncertainError: the id 'a' comes twice"):
        minimum(frame).collect()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda f: minimum(f, by="floor"), "by takes names of columns in a list, as in ['floor']"),
        (lambda f: minimum(f, by=["flor"]), "by: the readings have no column 'flor'; did you mean"),
        (lambda f: minimum(f, by=["floor", "FLOOR"]), "by names the column 'floor' twice"),
        (lambda f: minimum(f, by=["id"]), "the result would have two columns 'id'"),
        (lambda f: minimum(f, id="i"), "id: the readings have no column 'i'"),
        (lambda f: minimum(f, keep=["hihg"]), "did you mean 'high'?"),
        (lambda f: minimum(f, at_least=2), "at_least is a probability above 0 and up to 1, got 2"),
        (lambda f: minimum(f, at=3), "at is for values with rates, but the readings have no"),
        (lambda f: minimum(f, columns={"lo": "low"}), "columns has 'lo', but it names the columns"),
        (lambda f: minimum(f, columns={"low": "hih"}), "columns['low']: the readings have no"),
        (lambda f: minimum(f, columns={"high": None}), "have a column 'low' for low, but not all"),
        (lambda f: minimum(f, columns={"low": "Note"}), "'Note' is of type string, but low is a"),
        (lambda f: minimum(f.select("id", "floor")), "none of the columns value, rate, low, high"),
        (lambda f: nearest(f, float("nan")), "q must be finite, got nan"),
        (lambda f: in_range(f, 3, 2), "the range is reversed: low 3 is above high 2"),
        (lambda f: in_range(f.withColumnRenamed("floor", "probability"), 2, 3), "two columns"),
        (lambda f: total(f, quantiles=[2]), "a quantile is of a probability from 0 to 1, got 2"),
        (lambda f: total(f, quantiles=0.5), "quantiles takes probabilities in a list, got 0.5"),
        (lambda f: total(f.withColumnRenamed("floor", "mean"), by=["mean"]), "'mean' for mean"),
        (lambda f: minimum(f.toPandas()), "readings must be a Spark DataFrame, got a pandas"),
        (lambda f: watch(f, print, "x"), "watch needs a stream; ask a DataFrame directly"),
    ],
)  # fmt: skip
def test_wrong_arguments(rooms, query, message):
    with pytest.raises(tocsin.UncertainError) as error:
        query(rooms)
    assert message in str(error.value)


def test_wrong_times(spark):
    schema = "id STRING, value DOUBLE, rate DOUBLE, time {}"
    numbers = spark.createDataFrame([], schema.format("DOUBLE"))
    times = spark.createDataFrame([], schema.format("TIMESTAMP"))
    for frame, at, message in (
        (numbers, None, "say for which time to answer, as in at=..."),
        (numbers, "2026-05-01", "at is the time 2026-05-01, but column 'time' is of type double"),
        (times, 3, "at is 3, but column 'time' has times"),
        (times, "noon", "at is 'noon', which is not a time as in '2026-05-01 12:00:00'"),
    ):
        with pytest.raises(tocsin.UncertainError) as error:
            minimum(frame, at=at)
        assert message in str(error.value)


# ------------------------------------------------------------ streams


@pytest.mark.parametrize("source", ["classic", "connect"])
def test_watch(source, spark, request, tmp_path):
    if source == "classic":
        folder = tmp_path
        answers.run_stream(spark, folder)
    else:
        folder = request.getfixturevalue("connect_folder") / "watch"
    assert answers.read_answers(folder) == answers.expected_answers()
    assert len(list((folder / "state").iterdir())) <= 4


def test_a_batch_is_repeated_after_a_crash(spark, tmp_path):
    answers.write_reports(spark, tmp_path, 0)
    answers.watch_reports(spark, tmp_path).start().awaitTermination()
    answers.write_reports(spark, tmp_path, 1)
    (tmp_path / "crash").touch()
    with pytest.raises(PySparkException, match="crash"):
        answers.watch_reports(spark, tmp_path).start().awaitTermination()
    assert (tmp_path / "state" / "state-1").exists()  # it was written before
    (tmp_path / "crash").unlink()
    answers.watch_reports(spark, tmp_path).start().awaitTermination()
    answers.write_reports(spark, tmp_path, 2)
    answers.watch_reports(spark, tmp_path).start().awaitTermination()
    assert answers.read_answers(tmp_path) == answers.expected_answers()


def test_a_state_of_another_stream(spark, tmp_path):
    answers.write_reports(spark, tmp_path, 0)
    answers.watch_reports(spark, tmp_path).start().awaitTermination()
    shutil.move(tmp_path / "state" / "state-0", tmp_path / "state" / "state-1")
    answers.write_reports(spark, tmp_path, 1)
    with pytest.raises(PySparkException, match="the state after batch 0 is missing: the folder"):
        answers.watch_reports(spark, tmp_path).start().awaitTermination()


@pytest.fixture
def kept(tmp_path):
    schema = st.StructType.fromDDL("id STRING, time DOUBLE, low INT, m MAP<STRING, INT>")
    return watching.LastReadings(str(tmp_path / "state"), ["id"], schema["time"], schema)


def update(spark, kept, batch, *rows):
    readings = spark.createDataFrame(rows, kept.schema)
    watching._update(spark, kept, readings, batch)
    state = watching._read_state(spark, kept, batch).selectExpr("reading.*")
    return sorted(tuple(row)[:3] for row in state.collect())


def test_the_latest_time_counts(spark, kept):
    assert update(spark, kept, 0) == []
    first = [("a", 1.0, 5, None), ("b", 1.0, 6, {"x": 1}), ("a", 3.0, 7, {"y": 2})]
    assert update(spark, kept, 1, *first) == [("a", 3.0, 7), ("b", 1.0, 6)]
    late = [("a", 2.0, 9, None), ("b", 1.0, 8, None), ("c", 0.0, None, None)]
    expected = [("a", 3.0, 7), ("b", 1.0, 8), ("c", 0.0, None)]
    assert update(spark, kept, 2, *late) == expected
    assert update(spark, kept, 2, *reversed(late)) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", None, 1, None), "reading 'a': the time is null, but it must be known"),
        (("a", float("nan"), 1, None), "reading 'a': the time is NaN, but it must be known"),
        ((None, 1.0, 1, None), "the id of a reading is null"),
    ],
)
def test_reports_without_a_time(spark, kept, row, message):
    with pytest.raises(PySparkException, match=f"UncertainError: {message}"):
        update(spark, kept, 0, row)


def test_a_state_of_another_batch(spark, kept):
    update(spark, kept, 0)
    message = "a state is of batch 0 in place of 4: the folder .* and the checkpoint do not belong"
    with pytest.raises(PySparkException, match=message):
        update(spark, kept, 5)
