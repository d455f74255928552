"""Monitors over streams: exactly once, whatever is repeated, killed or changed in between."""

import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import tocsin
import tocsin.spark
from tests.spark.monitor_answers import Story, StoryStream, in_order, rows_of
from tests.spark.test_live_rules import begun_batches
from tocsin.engine.storage.folder import Folder
from tocsin.moving.bucket_states import BucketStates, put_token
from tocsin.moving.options import MonitorOptions
from tocsin.moving.tracker import Tracker
from tocsin.spark.moving import stream as worker
from tocsin.spark.moving.result import EventLayout
from tocsin.spark.moving.rows import BUCKET, DIGEST
from tocsin.spark.worker import RuleSource


@pytest.fixture
def adaptive(spark):
    """A function that turns adaptive execution on, with other partitions than before."""
    changed = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g",
        "spark.sql.shuffle.partitions": "5",
    }
    before = {name: spark.conf.get(name) for name in changed}
    yield lambda: [spark.conf.set(name, value) for name, value in changed.items()]
    for name, value in before.items():
        spark.conf.set(name, value)


def forget_last_batch(folder):
    """Make the last batch one that was killed before its output was listed; return its number."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for log in (commits, folder / "out" / "_spark_metadata"):
        (log / str(last)).unlink()
        (log / f".{last}.crc").unlink(missing_ok=True)
    return last


# ------------------------------------------------------------ against the oracle


def test_a_stream_that_is_stopped_changed_and_repeated(spark, tmp_path, adaptive):
    """It goes on with adaptive execution; then its last batch is repeated after rules changed."""
    stream = StoryStream(Story(20, "hysteresis and rule changes", steps=18), tmp_path)
    steps = [*stream.story.steps, ("update", stream.story.ticks())]
    stream.run(spark, steps[:9])
    adaptive()
    query = stream.run(spark, steps[9:], lambda events: stream.start(events.coalesce(1)))
    output = stream.output(spark)
    assert output == stream.expected(spark)
    assert len(output) > 20
    last = forget_last_batch(tmp_path)
    states = sorted((tmp_path / "state" / "queries" / query.id / "buckets").glob("*/*"))
    states = [path for path in states if int(path.name) == last]
    assert len(states) == 3
    before = [state.read_bytes() for state in states]
    states[0].unlink()  # as if its task had been killed before it wrote
    stream.run(spark, [("rules", [("add", "late", ("const", True), {})])])
    assert stream.output(spark) == output == stream.expected(spark)
    assert [state.read_bytes() for state in states[1:]] == before[1:]
    assert states[0].exists()


def test_removals_and_losses(spark, tmp_path):
    stream = StoryStream(Story(16, "large batches"), tmp_path)
    stream.run(spark, [*stream.story.steps, ("update", stream.story.ticks())])
    output = stream.output(spark)
    assert output == stream.expected(spark)
    assert {reason for *_, reason, _ in output} >= {None, "lost", "object removed", "rule added"}


def test_a_stream_that_is_killed_and_resumed(spark, tmp_path):
    """It is killed while rules change; no event is lost or doubled."""
    stream = StoryStream(Story(24, "options of rules", steps=12), tmp_path)
    steps = iter([*stream.story.steps, ("update", stream.story.ticks())])
    code = textwrap.dedent(
        """
        import pickle, sys
        import tocsin.spark
        with open(sys.argv[1], "rb") as file:
            stream = pickle.load(file)
        spark = tocsin.spark.session(cores=2)
        query = stream.start(stream.monitor(spark))
        print("running", flush=True)
        query.awaitTermination()
        """
    )
    while not stream.take(next(steps)):
        pass
    with open(tmp_path / "stream", "wb") as file:
        pickle.dump(stream, file)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "stream")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert process.stdout.readline() == "running\n"
    while begun_batches(tmp_path) < 4:
        if stream.files == begun_batches(tmp_path):
            stream.take(next(steps))
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)  # Spark's own processes as well
    process.wait()
    process.stdout.close()
    stream.run(spark, list(steps))
    output = stream.output(spark)
    assert output == stream.expected(spark)
    assert len(output) > 40


def test_safe_regions(spark, tmp_path):
    """A column of regions, and rows for objects that have others, or are to be asked."""
    store = tocsin.RuleStore.create(tmp_path / "fences", {"x": "number", "y": "number"})
    store.add("dock", "x > 10")
    seen = []

    def run(t, x, key="a"):
        row = {"object": [key], "t": [t], "x": [x], "y": [0.0]}
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table(row), tmp_path / "in" / f"{t}.parquet")
        frame = spark.readStream.schema("object string, t long, x double, y double")
        events = tocsin.spark.monitor(
            frame.parquet(str(tmp_path / "in")), str(tmp_path / "fences"), buckets=1,
            state=tmp_path / "state", safe_regions="rect", region="region",
        )  # fmt: skip
        writer = events.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        new = [row for row in rows if row not in seen]
        seen.extend(new)
        return sorted(
            (r.object, r.event, r.rule, r.time, r.region and r.region.bounds) for r in new
        )

    inf = float("inf")
    assert run(1, 5.0) == [("a", "region", None, 1, [-inf, -inf, 10.0, inf])]
    assert run(2, 6.0) == []
    store.add("pier", "x < 3")
    assert run(3, 20.0, "b") == [
        ("a", "ask", None, 2, None),
        ("b", "enter", "dock", 3, None),
        ("b", "region", None, 3, [np.nextafter(10, 11), -inf, inf, inf]),
    ]
    assert run(4, 2.0) == [
        ("a", "enter", "pier", 4, None),
        ("a", "region", None, 4, [-inf, -inf, np.nextafter(3, 0), inf]),
    ]


# ------------------------------------------------------------ what is refused


def write_position(folder, number, **row):
    pq.write_table(pa.Table.from_pylist([row]), folder / f"{number:04d}.parquet")


def test_what_a_stream_refuses(spark, tmp_path):
    """Another number of buckets, another folder, a batch with other rows, foreachBatch."""
    rules = tocsin.Rules({"x": "number"})
    rules.add("r", "x > 5")
    (tmp_path / "events").mkdir()

    def monitored(folder="state", **options):
        reader = spark.readStream.schema("object STRING, t BIGINT, x DOUBLE")
        positions = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
        options = {"position": ("x",), "state": tmp_path / folder, "buckets": 2} | options
        return tocsin.spark.monitor(positions, rules, **options)

    def run(events, name="first"):
        writer = events.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / name / "checkpoint"))
        query = writer.option("path", str(tmp_path / name / "out")).start()
        query.awaitTermination()
        return query

    def refused(events, match):
        with pytest.raises(StreamingQueryException, match=match):
            run(events)

    def output(name="first"):
        table = spark.read.parquet(str(tmp_path / name / "out")).toArrow()
        return [(event, time) for _, _, event, time, *_ in rows_of(table)]

    write_position(tmp_path / "events", 0, object="a", t=1, x=7.0)
    first = run(monitored())
    write_position(tmp_path / "events", 1, object="a", t=2, x=3.0)
    refused(monitored(buckets=3), r"buckets is 3, but the states of query .* were made with 2")
    refused(monitored(min_stay=5), r"min_stay is .*, but the states of query .* were made with")
    other = monitored("another")
    (tmp_path / "another" / "token").write_text("of another disk")
    refused(other, r"does not see the driver's folder of states .* another one is there")
    run(monitored())
    assert output() == [("enter", 1), ("leave", 2)]
    # The batch with the leave is repeated, and its file has changed.
    assert forget_last_batch(tmp_path / "first") == 1
    write_position(tmp_path / "events", 1, object="a", t=2, x=9.0)
    (tmp_path / "events" / ".0001.parquet.crc").unlink(missing_ok=True)
    refused(monitored(), f"tocsin state drop {tmp_path / 'state'} {first.id} 1")
    assert BucketStates(Folder(tmp_path / "state"), first.id).drop(1) == 1
    run(monitored())
    # Another query begins with the state of this one, in the same folder: "a" is inside.
    write_position(tmp_path / "events", 0, object="a", t=3, x=8.0)
    write_position(tmp_path / "events", 1, object="a", t=4, x=2.0)
    run(monitored(start_from=first.id), "second")
    assert output("second") == [("leave", 4)]
    errors = []

    def save(batch, _):
        try:
            tocsin.spark.monitor(batch, rules, position=("x",)).collect()
        except Exception as error:
            errors.append(str(error))

    stream = spark.readStream.schema("object STRING, t BIGINT, x DOUBLE")
    stream = stream.parquet(str(tmp_path / "events")).writeStream.foreachBatch(save)
    stream = stream.option("checkpointLocation", str(tmp_path / "third"))
    stream.trigger(availableNow=True).start().awaitTermination()
    (error,) = errors
    assert "inside of foreachBatch would begin without a state in each micro-batch" in error


# ------------------------------------------------------------ workers, without Spark


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A function for the events of a task, given its rows in Arrow batches and its micro-batch."""
    rules = tocsin.Rules({"x": "number"})
    rules.add("r", "x > 5")
    store = tmp_path / "store"
    source = RuleSource(str(store), rules.save(store), False)
    options = MonitorOptions(position=("x",), dwell=2)
    schema = pa.schema([("object", pa.string()), ("t", pa.int64()), ("x", pa.float64())])
    version = rules.snapshot()
    layout = EventLayout(Tracker(options).update(schema.empty_table(), version, 1).schema, ())
    token = put_token(Folder(tmp_path / "state"))
    state = worker.StateSource(str(tmp_path / "state"), token, (("buckets", "2"),), None)
    worker._open_states.cache_clear()

    def run(rows, batch):
        monkeypatch.setattr(worker, "micro_batch", lambda: ("query-1", str(batch)))
        return worker.follow(source, options, layout, state, rows.to_batches(3))

    return run


def positions(seed, first, count=20):
    """Return rows of two buckets, of which some are equal, late or without a key."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, count)
    table = pa.table(
        {
            "object": pa.array([f"o{k}" for k in keys], mask=rng.random(count) < 0.1),
            "t": first + rng.integers(0, 5, count),
            "x": rng.integers(0, 10, count).astype(float),
            BUCKET: (keys % 2).astype(np.int32),
        }
    )
    digests = [hash((row["object"], row["t"], row["x"])) for row in table.to_pylist()]
    return table.append_column(DIGEST, pa.array(digests, pa.int64()))


def shuffled(table, seed):
    order = list(range(len(table)))
    random.Random(seed).shuffle(order)
    return table.take(order)


def collect(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_task_with_several_buckets_is_repeated(task, tmp_path):
    """Two buckets in one iterator, or each in its own task; any order of rows gives the same."""
    first, second = positions(1, 0), positions(2, 10)
    events = collect(task(first, 0))
    assert events
    assert collect(task(shuffled(first, 1), 0)) == events
    halves = [first.filter(pc.equal(first[BUCKET], bucket)) for bucket in (0, 1)]
    assert [row for half in halves for row in collect(task(half, 0))] == events
    later = [collect(task(shuffled(second, n), 1)) for n in range(3)]
    assert later[0] == later[1] == later[2]
    assert any(row["event"] == "leave" for row in later[0])
    # The same as one monitor for each bucket.
    rules = tocsin.RuleStore(tmp_path / "store").rules()
    for bucket in (0, 1):
        monitor = tocsin.Monitor(rules, position=("x",), dwell=2)
        for table, found in ((first, events), (second, later[0])):
            own = table.filter(pc.equal(table[BUCKET], bucket))
            keys = set(own["object"].to_pylist())
            expected = monitor.update(own.drop_columns([BUCKET, DIGEST])).to_pylist()
            keep = [row for row in found if row["object"] in keys]
            assert in_order(row.values() for row in map(_unversioned, keep)) == in_order(
                row.values() for row in map(_unversioned, expected)
            )


def _unversioned(row):
    return {name: value for name, value in row.items() if name != "rules_version"}


def test_the_state_is_written_before_the_first_event(task, tmp_path):
    running = task(positions(1, 0), 0)
    written = lambda: sorted((tmp_path / "state").glob("queries/*/buckets/*/*"))  # noqa: E731
    assert not written()
    assert next(running).num_rows
    assert [int(path.parent.name) for path in written()] == [0]
    running.close()  # the task is cancelled; the next one takes both
    assert len(collect(task(positions(1, 0), 0))) == len(collect(task(positions(1, 0), 0)))
    assert [int(path.parent.name) for path in written()] == [0, 1]


def test_a_bucket_without_valid_rows_has_no_state(task, tmp_path, caplog):
    worker._report_rejected.cache_clear()
    rows = positions(1, 0)
    nobody = rows.set_column(0, "object", pa.nulls(len(rows), pa.string()))
    assert collect(task(nobody, 0)) == []
    assert not list((tmp_path / "state").glob("queries/*/buckets/*/*"))
    collect(task(nobody, 1))
    assert len([r for r in caplog.records if "they are left out" in r.message]) == 1


def test_a_task_outside_of_a_stream(task, monkeypatch):
    running = task(positions(1, 0), 0)
    monkeypatch.setattr(worker, "micro_batch", lambda: (None, None))
    with pytest.raises(tocsin.MonitorError, match="belongs to none"):
        next(running)
