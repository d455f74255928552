"""Rules in a store on an object store: batches, and streams while they change."""

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
import tocsin.spark


@pytest.fixture
def store(bucket):
    store = tocsin.RuleStore.create(f"{bucket}/{uuid.uuid4().hex}", {"n": "integer"})
    store.add("large", "n >= 5")
    return store


def test_a_batch(spark, store):
    matches = tocsin.spark.match(spark.range(8).withColumnRenamed("id", "n"), store.path)
    plan = matches._jdf.queryExecution().toString()
    assert "AKIAKEY" not in plan
    assert "a secret" not in plan
    found = [(row.n, row.rule) for row in matches.collect()]
    assert sorted(found) == [(5, "large"), (6, "large"), (7, "large")]


def test_a_stream_sees_changes_between_its_batches(spark, store, tmp_path):
    (tmp_path / "events").mkdir()

    def run(number):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"events/{number}.parquet")
        events = spark.readStream.schema("n BIGINT").parquet(str(tmp_path / "events"))
        matches = tocsin.spark.match(events, store.path, rules_version=True)
        writer = matches.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return str(query.id)

    run(7)
    store.replace("large", "n >= 8")
    run(7)
    query = run(8)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.n, row.rules_version) for row in rows) == [(7, 2), (8, 3)]
    (stream,) = store.streams()
    assert (stream.query, stream.pinned) == (query, (2, 3))


def test_a_monitor_keeps_its_state_there(spark, bucket, store, tmp_path):
    (tmp_path / "positions").mkdir()
    state = f"{bucket}/{uuid.uuid4().hex}"

    def run(time, n):
        row = {"object": ["van"], "t": [time], "n": [n]}
        pq.write_table(pa.table(row), tmp_path / f"positions/{time}.parquet")
        positions = spark.readStream.schema("object STRING, t BIGINT, n BIGINT")
        positions = positions.parquet(str(tmp_path / "positions"))
        events = tocsin.spark.monitor(
            positions, store.path, position=["n"], state=state, buckets=2, dwell=5
        )
        writer = events.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run(1, 7)
    run(9, 3)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    events = sorted((row.time, row.event) for row in rows)
    assert events == [(1, "enter"), (6, "dwell"), (9, "leave")]
