"""Monitors on Spark against the oracle and against the monitor in this process."""

import itertools
import logging

import pyarrow as pa
import pytest

import tocsin
import tocsin.spark
from tests.spark.monitor_answers import COLUMNS, Story, in_order, rows_of
from tocsin.spark.moving.replay import cut_between_times

WALKS = [  # profiles and seeds
    *(("any options", 8), ("removed", 11), ("options of rules", 9), ("timestamps", 3)),
    *(("floats", 7), ("large batches", 7)),
]


@pytest.fixture
def small_batches(spark):
    """Arrow batches of few rows, so that many rows of one time are in two."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "7")
    yield
    spark.conf.set(name, before)


# ------------------------------------------------------------ history


@pytest.mark.parametrize(("profile", "seed"), WALKS)
def test_a_batch_is_replayed_as_history(spark, small_batches, profile, seed):
    story = Story(seed, profile)
    rows = [*story.rows(), *story.ticks()]
    positions = story.table(rows)
    kept = {"keep": ("note",)}
    events = tocsin.spark.monitor(
        spark.createDataFrame(positions), story.rules, **story.options | kept, buckets=3
    ).toArrow()
    assert rows_of(events) == in_order(story.oracle().update(rows))
    expected = tocsin.Monitor(story.rules, **story.options | kept).update(positions)
    assert events.column_names == expected.column_names
    names = [*COLUMNS, "rules_version", "note"]
    assert rows_of(events, names) == rows_of(expected, names)
    assert len(events)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("least", [1, 4, 1000])
def test_history_is_cut_between_times(rows, least):
    times = [1, 1, 2, 2, 2, 2, 2, 2, 3, 4, 5, 5, 5, 5]
    table = pa.table({"t": times, "n": range(len(times))})
    parts = list(cut_between_times(table.to_batches(rows), "t", least))
    assert pa.concat_tables(parts).equals(table)
    for before, after in itertools.pairwise(parts):
        assert before["t"][-1].as_py() < after["t"][0].as_py()
    assert len(parts) > 1 or rows == 100 or least == 1000


def test_history_with_a_store(spark, tmp_path):
    """The version at the call; ids and payload have their types, and names any case."""
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    store.add(7, "x > 5", payload={"team": "red"})
    positions = spark.sql(
        "SELECT * FROM VALUES (1S, 1D, 7D), (1S, 2D, 3D), (2S, 1D, 9D) AS t(Truck, Seen, X)"
    )
    events = tocsin.spark.monitor(
        positions, store.path, "truck", "seen", ("x",), keep=("SEEN",), payload=("team",)
    )
    assert events.schema.simpleString() == (
        "struct<object:smallint,rule:bigint,event:string,time:double,since:double,reason:string,"
        "rules_version:bigint,Seen:double,team:string>"
    )
    store.remove(7)
    rows = sorted(map(tuple, events.collect()))
    assert rows == [
        (1, 7, "enter", 1.0, 1.0, None, 2, 1.0, "red"),
        (1, 7, "leave", 2.0, 2.0, None, 2, 2.0, "red"),
        (2, 7, "enter", 1.0, 1.0, None, 2, 1.0, "red"),
    ]


def test_no_positions_and_no_rules(spark):
    rules = tocsin.Rules({"x": "number"})
    positions = spark.sql("SELECT 'a' AS object, 1L AS t, 1D AS x")
    assert tocsin.spark.monitor(positions, rules).collect() == []
    rules.add("all", "x = x")
    assert tocsin.spark.monitor(positions.where("x > 1"), rules).collect() == []
    assert tocsin.spark.monitor(positions, rules).count() == 1


@pytest.mark.parametrize("type_", ["STRING", "BIGINT", "TINYINT"])
def test_a_bucket_is_a_partition_of_spark(spark, type_):
    """Spark repartitions by the hash that is in the rows, also for null."""
    keys = spark.range(-50, 50).selectExpr(f"CAST(if(id = 0, NULL, id) AS {type_}) AS key")
    parts = keys.repartition(7, "key").selectExpr("pmod(hash(key), 7)", "spark_partition_id()")
    assert all(bucket == part for bucket, part in parts.collect())


# ------------------------------------------------------------ what is refused


def test_what_a_monitor_needs(spark):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("r", "x > 5")
    frame = spark.sql("SELECT 'a' AS object, 1L AS t, 1D AS x, 1D AS y, DATE'2024-01-01' AS day")

    def refused(message, positions=frame, rules=rules, **options):
        with pytest.raises(tocsin.MonitorError, match=message):
            tocsin.spark.monitor(positions, rules, **options)

    refused("positions must be a Spark DataFrame, got list; .* use tocsin.Monitor", [{}])
    refused(
        "key: the positions have no column 'truck'; they have object, t, x, y, day", key="truck"
    )
    refused("keep: the positions have no column 'z'", keep=["z"])
    refused("removed: the positions have no column 'gone'", removed="gone")
    refused("column 'x' must be of type boolean, got double", removed="x")
    refused("keys in 'x' must be strings or integers, got double", key="x")
    refused("times in 'day' must be timestamps or numbers, got date; cast", time="day")
    refused("keys in 'object' are of type string collate UTF8_LCASE, and objects are told apart "
            "byte by byte; cast them to string",
            frame.selectExpr("object COLLATE UTF8_LCASE AS object", "t", "x", "y"))  # fmt: skip
    refused("min_stay is '90 s', but times are of type int64; give a number", min_stay="90 s")
    refused("the rules have no payload column 'team'", payload=["team"])
    refused("position column 'day' is no attribute of the rules", margin=1.0, position=["day"])
    refused("keep: events have a column 'object' already; leave it out, or rename it",
            keep=["object"])  # fmt: skip
    for wrong in (0, -1, True, 2.0, "3"):
        refused("buckets must be a whole number, 1 or more; got", buckets=wrong)
    refused("region is for a stream; history", safe_regions="rect", region="region")
    refused('set safe_regions="rect", too', region="region")
    refused("position: the positions have no column 'z'", safe_regions="rect", position=["x", "z"])
    refused("start_from is for a stream; a batch begins without a state", start_from="q")
    stream = spark.readStream.format("rate").load().selectExpr("value AS object", "value AS t")
    with pytest.warns(UserWarning, match="no column 'x', which a rule tests"):
        refused("a stream keeps a state: state takes the path of a folder .*; got None", stream)
    with pytest.raises(tocsin.RuleError, match=r"rules must be a tocsin\.Rules, the path"):
        tocsin.spark.monitor(frame, 7)


def test_rows_without_key_or_time_are_counted_in_the_log(caplog):
    from tocsin.spark.moving.rows import log_rejected, select_valid

    rows = pa.RecordBatch.from_pydict(
        {"k": ["a", None, "b", "c", "d"], "t": [1.0, 1.0, None, float("nan"), float("inf")]}
    )
    assert select_valid(rows, "k", "t").to_pydict() == {"k": ["a"], "t": [1.0]}
    with caplog.at_level(logging.WARNING):
        log_rejected("stream 7", "k", "t")
        log_rejected("a partition", "k", "t", 4000)
    assert [record.message for record in caplog.records] == [
        f"{what}positions whose key 'k' or time 't' is missing or not finite: they are left out"
        for what in ("stream 7 has ", "a partition has 4,000 ")
    ]
