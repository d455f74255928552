"""Rules change while a stream runs: a micro-batch uses one version, also if it is repeated."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import tocsin
import tocsin.spark
from tocsin.engine.result import MisfitError, cast_column
from tocsin.spark import matching, worker
from tocsin.spark.types import SPARK_TYPES

SCHEMA = {"n": "integer", "tier": "category"}
FIELDS = "row BIGINT, n BIGINT, tier STRING"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "events").mkdir()
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add("all", "n >= 0")
    return tmp_path, store


def write_events(place, number, rows=20):
    """Write the file of one micro-batch; rows are numbered across all files."""
    first = number * rows
    table = pa.table(
        {
            "row": pa.array(range(first, first + rows)),
            "n": pa.array([r % 7 for r in range(rows)]),
            "tier": ["gold" if r % 3 else None for r in range(rows)],
        }
    )
    path = place / "events" / f".{number}"
    pq.write_table(table, path)
    path.rename(place / "events" / f"{number:04d}.parquet")


def stream(spark, place):
    reader = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
    events = reader.parquet(str(place / "events"))
    matches = tocsin.spark.match(events, place / "store", keep=["row"], rules_version=True)
    return (
        matches.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .option("path", str(place / "out"))
    )


def run(spark, place):
    query = stream(spark, place).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def files_of_batches(place):
    """Return the files of each micro-batch, from Spark's checkpoint."""
    listed: dict[int, set[str]] = {}
    for log in (place / "checkpoint" / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            listed.setdefault(entry["batchId"], set()).add(entry["path"].rpartition("/")[2])
    batches, done = {}, -1
    offsets = {int(f.name): f for f in (place / "checkpoint" / "offsets").glob("[0-9]*")}
    for number, log in sorted(offsets.items()):
        last = json.loads(log.read_text().splitlines()[-1])["logOffset"]
        batches[number] = sorted(f for n in range(done + 1, last + 1) for f in listed.get(n, ()))
        done = last
    return batches


def expected_output(place):
    """Return the expected rows: the matches of the version that the log has for each batch."""
    store = tocsin.RuleStore(place / "store")
    (log,) = (place / "store" / "log").iterdir()
    batches = files_of_batches(place)
    listed = sorted(f for files in batches.values() for f in files)
    assert listed == sorted(f.name for f in (place / "events").glob("*.parquet"))
    expected = set()
    for number, files in batches.items():
        if not files:
            continue
        version = int((log / str(number)).read_text())
        part = pq.read_table([place / "events" / f for f in files])
        for event, rule in store.rules(version).match(part):
            expected.add((part["row"][event].as_py(), rule, version))
    return expected


def begun_batches(place):
    return len(list((place / "store" / "log").glob("*/[0-9]*")))


def read_output(spark, place):
    rows = spark.read.parquet(str(place / "out")).toArrow()
    columns = [rows[name].to_pylist() for name in ("row", "rule", "rules_version")]
    output = list(zip(*columns, strict=True))
    assert len(output) == len(set(output)), "duplicates"
    return set(output)


def test_the_next_batch_uses_a_new_version(spark, place):
    folder, store = place
    for number in range(2):
        write_events(folder, number)
    run(spark, folder)
    store.replace("all", "n = 6")
    store.add("gold", "tier = 'gold'")
    for number in range(2, 4):
        write_events(folder, number)
    run(spark, folder)
    store.remove("all")
    write_events(folder, 4)
    run(spark, folder)
    output = read_output(spark, folder)
    assert output == expected_output(folder)
    versions = {number: {v for r, _, v in output if r // 20 == number} for number in range(5)}
    assert versions == {0: {2}, 1: {2}, 2: {4}, 3: {4}, 4: {5}}


def test_rules_change_while_the_stream_runs(spark, place):
    folder, store = place
    query = stream(spark, folder).trigger(processingTime="0 seconds").start()
    try:
        for number in range(5):
            write_events(folder, number)
            store.replace("all", f"n >= {number}")
        query.processAllAvailable()
    finally:
        query.stop()
    assert read_output(spark, folder) == expected_output(folder)


def test_a_repeated_batch_uses_the_same_version(spark, place):
    """The commit of the last batch is lost; it is repeated after the rules have changed."""
    folder, store = place
    for number in range(2):
        write_events(folder, number)
    run(spark, folder)
    before = read_output(spark, folder)
    for entry in (folder / "checkpoint" / "commits").iterdir():
        if "1" in entry.name:
            entry.unlink()
    store.replace("all", "n = 1")
    run(spark, folder)
    assert read_output(spark, folder) == before == expected_output(folder)


def test_a_stream_that_is_killed_and_resumed(spark, place):
    """It is killed several times while rules change; no match is lost, duplicated or mixed up."""
    folder, store = place
    code = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        import tocsin.spark
        from tests.spark.test_live_rules import stream
        spark = tocsin.spark.session(cores=2)
        query = stream(spark, Path(sys.argv[1])).trigger(processingTime="0 seconds").start()
        print("running", flush=True)
        query.awaitTermination()
        """
    )
    batches = 0
    for delay in (0.0, 0.15):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        )
        assert process.stdout.readline() == "running\n"
        begun = begun_batches(folder)
        for _ in range(300):
            write_events(folder, batches)
            store.replace("all", f"n >= {batches % 7}")
            batches += 1
            time.sleep(0.5)
            if begun_batches(folder) > begun + 2:
                break
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)  # Spark's own processes as well
        process.wait()
        process.stdout.close()
    # Spark processes a file that it has listed but not begun only if there is a later one.
    write_events(folder, batches)
    assert begun_batches(folder) <= batches
    query = stream(spark, folder).trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert read_output(spark, folder) == expected_output(folder)
    assert len({v for _, _, v in read_output(spark, folder)}) > 3


def test_a_batch_that_is_pinned_by_the_caller(spark, place):
    """Inside of `foreachBatch`, a call for a batch knows nothing of the stream."""
    _, store = place
    frame = spark.sql("SELECT 3L AS n, 'gold' AS tier")

    def version(*batch_id):
        found = tocsin.spark.match(frame, store.path, rules_version=True, batch_id=batch_id or None)
        return found.first().rules_version

    assert version() == version("alerts", 0) == 2
    store.replace("all", "n > 0")
    assert version() == version("alerts", 1) == version("counts", 0) == 3
    assert version("alerts", 0) == 2
    store.replace("all", "n > 1")
    assert store.prune(keep=1) == [1], "pinned versions stay"
    assert (version("alerts", 0), version("alerts", 1)) == (2, 3)
    store.unpin("alerts", 0)
    assert version("alerts", 0) == 4
    assert {s.query: s.pinned for s in store.streams()} == {"alerts": (3, 4), "counts": (3,)}


def test_what_a_pinned_batch_needs(spark, place):
    folder, store = place
    frame = spark.sql("SELECT 3L AS n, 'gold' AS tier")
    for wrong in [7, "alerts", ("alerts", "7"), ("alerts", -1), ("alerts", True), ("alerts",)]:
        with pytest.raises(tocsin.RuleError, match="a name for the stream and the number"):
            tocsin.spark.match(frame, store.path, batch_id=wrong)
    with pytest.raises(tocsin.StoreError, match="is not the name of a stream"):
        tocsin.spark.match(frame, store.path, batch_id=("../alerts", 7))
    with pytest.raises(tocsin.RuleError, match="batch_id needs the path of a rule store"):
        tocsin.spark.match(frame, store.rules(), batch_id=("alerts", 7))
    events = spark.readStream.schema(FIELDS).parquet(str(folder / "events"))
    with pytest.raises(tocsin.EventError, match="inside of foreachBatch"):
        tocsin.spark.match(events, store.path, batch_id=("alerts", 7))


def test_frozen_rules_in_a_stream(spark, place):
    folder, _ = place
    write_events(folder, 0)
    rules = tocsin.Rules(SCHEMA)
    rules.add(1, "n = 3")
    events = spark.readStream.schema(FIELDS).parquet(str(folder / "events"))
    counts = tocsin.spark.match(events, rules, how="count", keep=["row"])
    assert counts.isStreaming
    query = (
        counts.writeStream.format("memory").queryName("frozen").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    by_row = dict(map(tuple, spark.table("frozen").collect()))
    assert by_row == {row: int(row % 7 == 3) for row in range(20)}


# ------------------------------------------------------------ versions that do not fit the plan


def planned(events, store, **options):
    """Return the columns and the arguments that `match` sends to workers, without a query."""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "map_batches", lambda *arguments: calls.append(arguments))
        tocsin.spark.match(events, store, **options)
    _, columns, job, *_ = calls[0]
    return list(columns), job.args


@pytest.fixture
def in_version(spark, tmp_path, monkeypatch):
    """A function that plans a stream, and returns a function for the result of a later version."""
    monkeypatch.setattr(worker, "micro_batch", lambda: ("query-1", "3"))
    events = spark.readStream.schema(FIELDS).parquet(str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"n": pa.array([1])})

    def plan(store, live=False, **options):
        _, (source, planned_result, hidden) = planned(events, store.path, keep=["n"], **options)
        assert source.version is None

        def result():
            current = source if live else source._replace(version=store.version)
            (matches,) = worker.match_batches(current, planned_result, hidden, [batch])
            return matches

        return result

    return plan


def error_of(result):
    with pytest.raises(tocsin.StoreError) as caught:
        result()
    return str(caught.value)


def test_integer_ids_become_strings_if_strings_were_planned(in_version, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    rows, lists = in_version(store), in_version(store, output="lists")
    assert rows().schema.types == [pa.int64(), pa.string()]
    store.add(7, "n > 0")
    assert rows().to_pydict() == {"n": [1], "rule": ["7"]}
    assert rows().schema.types == [pa.int64(), pa.string()]
    assert lists().to_pydict() == {"n": [1], "rules": [["7"]]}


def test_string_ids_are_an_error_if_integers_were_planned(in_version, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add(7, "n > 0")
    result, counted = in_version(store), in_version(store, how="count")
    with store.change() as rules:
        rules.remove(7)
        rules.merge()
    assert result().to_pydict() == {"n": [], "rule": []}
    assert result().schema.types == [pa.int64(), pa.int64()]
    store.add("seven", "n > 1")
    message = error_of(result)
    assert f"{tmp_path / 'store'}, version {store.version}: the rules' ids are strings" in message
    assert "planned for integers; restart the query" in message
    assert message.endswith(f"`tocsin rules unpin {tmp_path / 'store'} query-1 3`")
    assert counted().to_pydict() == {"n": [1], "matches": [0]}, "counts need no ids"


def test_a_payload_that_changes_its_type(in_version, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add(1, "n > 0", payload={"rank": 1, "team": "red"})
    result = in_version(store, payload=["team", "rank"])
    store.add(2, "n > 0", payload={"rank": 2.0})
    assert store.rules().payload_schema.field("rank").type == pa.float64()
    matches = result()
    expected = {"n": [1, 1], "rule": [1, 2], "team": ["red", None], "rank": [1, 2]}
    assert matches.to_pydict() == expected
    assert matches.schema.types[2:] == [pa.string(), pa.int64()]
    store.add(3, "n > 5", payload={"rank": 2.5})
    assert result().num_rows == 2, "only values of matching rules are cast"
    store.replace(3, "n > 0", payload={"rank": 2.5})
    message = error_of(result)
    assert (
        f"version {store.version}: payload column 'rank' is double, but the query was " in message
    )
    assert "planned for bigint, and Float value 2.500000 was truncated" in message
    assert "restart the query" in message
    with store.change() as rules:
        rules.remove_many([1, 2, 3])
        rules.merge()
        rules.add(4, "n > 0")
    assert result().to_pydict() == {"n": [1], "rule": [4], "team": [None], "rank": [None]}
    store.replace(4, "n > 0", payload={"team": 5})
    assert "'team' is bigint, but the query was planned for string; restart" in error_of(result)


@pytest.mark.parametrize(
    ("planned_type", "type_", "value", "fits"),
    [
        (pa.float64(), pa.int64(), 2**53, True),
        (pa.float64(), pa.int64(), 2**53 + 1, False),
        (pa.int64(), pa.float64(), -3.0, True),
        (pa.int64(), pa.float64(), float("nan"), False),
        (pa.int64(), pa.float64(), 2.0**63, False),
        (pa.int32(), pa.int64(), 2**31, False),
        (pa.float32(), pa.float64(), 0.5, True),
        (pa.float32(), pa.float64(), float("nan"), True),
        (pa.float32(), pa.float64(), 0.1, False),
        (pa.string(), pa.large_string(), "a", True),
        (pa.int64(), pa.string(), "5", False),
        (pa.string(), pa.int64(), 5, False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), 5, False),
        (pa.int64(), pa.uint8(), 5, True),
        (pa.string(), pa.uint8(), 5, False),
        (pa.int64(), pa.bool_(), True, False),
        (pa.int64(), pa.null(), None, True),
    ],
)
def test_which_values_fit_another_type(planned_type, type_, value, fits):
    column = pa.array([None, value], type_)
    if fits:
        cast = cast_column(column, pa.field("p", planned_type), SPARK_TYPES)
        assert cast.type == planned_type
        assert repr(cast.to_pylist()) == repr(pa.array([None, value], planned_type).to_pylist())
    else:
        with pytest.raises(MisfitError, match=r"payload column 'p' is .* was planned for"):
            cast_column(column, pa.field("p", planned_type), SPARK_TYPES)


def test_a_stream_whose_versions_change_types(spark, tmp_path):
    """Planned with an empty store; a version that cannot be cast stops the query with its name."""
    (tmp_path / "events").mkdir()
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add("x", "n < 0", payload={"rank": 1})
    with store.change() as rules:
        rules.remove("x")
    events = spark.readStream.schema(FIELDS).option("maxFilesPerTrigger", 1)
    events = events.parquet(str(tmp_path / "events"))
    matches = tocsin.spark.match(events, store.path, keep=["row"], payload=["rank"])
    with store.change() as rules:
        rules.merge()  # drops the types of ids and payload
        rules.add(7, "n = 3", payload={"rank": 2.0})
    writer = matches.writeStream.format("memory").queryName("types")
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        write_events(tmp_path, 0)
        query.processAllAvailable()
        assert sorted(map(tuple, spark.table("types").collect())) == [
            (3, "7", 2),
            (10, "7", 2),
            (17, "7", 2),
        ]
        store.replace(7, "n = 3", payload={"rank": 2.5})
        write_events(tmp_path, 1)
        with pytest.raises(StreamingQueryException) as caught:
            query.processAllAvailable()
    finally:
        query.stop()
    message = str(caught.value)
    assert f"StoreError: {store.path}, version {store.version}: payload column 'rank'" in message
    assert f"tocsin rules unpin {store.path} {query.id} 1" in message


# ------------------------------------------------------------ attributes that a stream lacks


def test_a_rule_over_a_column_that_the_stream_lacks_does_not_stop_it(spark, place):
    """The attribute is null while the stream runs, and after a restart."""
    folder, store = place
    write_events(folder, 0)
    run(spark, folder)
    with store.change() as rules:
        rules.schema.add("temp", "number")
        rules.add("hot", "temp > 30")
        rules.add("unmeasured", "temp IS NULL AND n = 3")
        rules.add("either", "temp > 30 OR n = 4")
    write_events(folder, 1)
    with pytest.warns(
        UserWarning, match=r"no column 'temp', which a rule tests.* is always null"
    ) as w:
        run(spark, folder)
    assert not any("?." in str(warning.message) for warning in w)
    store.remove("hot")
    write_events(folder, 2)
    with pytest.warns(UserWarning, match="no column 'temp'"):
        run(spark, folder)
    by_batch = {}
    for row, rule, version in read_output(spark, folder):
        by_batch.setdefault((row // 20, version), set()).add((row % 20, rule))
    all_rows = {(row, "all") for row in range(20)}
    more = {(row, "unmeasured") for row in (3, 10, 17)} | {(row, "either") for row in (4, 11, 18)}
    assert by_batch == {(0, 2): all_rows, (1, 3): all_rows | more, (2, 4): all_rows | more}
    (stream_,) = store.streams()
    assert (stream_.batch, stream_.version, stream_.missing) == (2, 4, ("temp",))


def test_a_missing_attribute_is_reported_once(in_version, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(
        worker, "resolve_version", lambda source: source._replace(version=store.version)
    )
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA | {"temp": "number"})
    store.add("cold", "temp IS NULL")
    with pytest.warns(UserWarning, match="no column 'temp'"):
        result = in_version(store, live=True)
    for _ in range(2):
        assert result().to_pydict() == {"n": [1], "rule": ["cold"]}
        worker._report_missing.cache_clear()  # as in another worker
    assert [record.message for record in caplog.records if "temp" in record.message] == [
        f"stream query-1 has no column 'temp', which a rule of {store.path} tests: it is always "
        "null. If the events have such a column, restart the query, so that it is planned with it"
    ]


def test_a_batch_query_is_strict(spark, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"n": "integer", "temp": "number"})
    store.add("cold", "temp IS NULL")
    events = spark.range(3).withColumnRenamed("id", "n")
    with pytest.raises(tocsin.EventError, match="no column 'temp', which a rule tests"):
        tocsin.spark.match(events, store.path)


def test_a_failed_batch_can_be_released(spark, place):
    """A batch is pinned to a version that cannot be opened, until it is unpinned."""
    folder, store = place
    write_events(folder, 0)
    query = stream(spark, folder).queryName("watch <b>").trigger(availableNow=True)
    store.add("bad", "tier = 'gold'")
    version = store.path / "versions" / f"{store.version:08d}.json"
    whole = version.read_bytes()
    version.write_bytes(whole[:-1])
    started = query.start()
    with pytest.raises(StreamingQueryException, match="it is damaged"):
        started.awaitTermination()
    version.write_bytes(whole)
    good = store.remove("bad")
    version.unlink()
    started = query.start()
    with pytest.raises(StreamingQueryException, match=r"has no version 3.*tocsin rules unpin"):
        started.awaitTermination()
    (listed,) = store.streams()
    assert (listed.batch, listed.version, listed.name) == (0, 3, "watch <b>")
    store.unpin(listed.query, 0)
    run(spark, folder)
    assert read_output(spark, folder) == {(row, "all", good) for row in range(20)}
