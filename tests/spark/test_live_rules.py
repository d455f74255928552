"""Rules that change while a stream runs: a micro-batch sees one version, and always the same."""

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

import tocsin
import tocsin.spark

SCHEMA = {"n": "integer", "tier": "category"}
FIELDS = "row BIGINT, n BIGINT, tier STRING"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "events").mkdir()
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add("all", "n >= 0")
    return tmp_path, store


def write_events(place, number, rows=20):
    """Write one file, which is one micro-batch; its rows are numbered on from the last one's."""
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
    found = tocsin.spark.match(events, place / "store", keep=["row"], rules_version=True)
    return (
        found.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .option("path", str(place / "out"))
    )


def run(spark, place):
    query = stream(spark, place).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def files_of_batches(place):
    """Return which files each micro-batch had, as Spark's own checkpoint tells."""
    listed: dict[int, set[str]] = {}
    for log in (place / "checkpoint" / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            listed.setdefault(entry["batchId"], set()).add(entry["path"].rpartition("/")[2])
    batches, done = {}, -1
    offsets = {int(f.name): f for f in (place / "checkpoint" / "offsets").glob("[0-9]*")}
    for number, log in sorted(offsets.items()):
        upto = json.loads(log.read_text().splitlines()[-1])["logOffset"]
        batches[number] = sorted(f for n in range(done + 1, upto + 1) for f in listed.get(n, ()))
        done = upto
    return batches


def recomputed(place):
    """Return what every row should be: the version that the log says, and what that matches."""
    store = tocsin.RuleStore(place / "store")
    (log,) = (place / "store" / "log").iterdir()
    batches = files_of_batches(place)
    seen = sorted(f for files in batches.values() for f in files)
    assert seen == sorted(f.name for f in (place / "events").glob("*.parquet"))
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


def written(spark, place):
    rows = spark.read.parquet(str(place / "out")).toArrow()
    found = list(zip(*(rows[n].to_pylist() for n in ("row", "rule", "rules_version")), strict=True))
    assert len(found) == len(set(found)), "doubled"
    return set(found)


def test_a_new_version_is_in_force_in_the_next_batch(spark, place):
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
    found = written(spark, folder)
    assert found == recomputed(folder)
    versions = {number: {v for r, _, v in found if r // 20 == number} for number in range(5)}
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
    assert written(spark, folder) == recomputed(folder)


def test_a_repeated_batch_uses_the_version_it_had(spark, place):
    """The last batch is repeated after its commit was lost, when the rules have moved on."""
    folder, store = place
    for number in range(2):
        write_events(folder, number)
    run(spark, folder)
    before = written(spark, folder)
    for entry in (folder / "checkpoint" / "commits").iterdir():
        if "1" in entry.name:
            entry.unlink()
    store.replace("all", "n = 1")
    run(spark, folder)
    assert written(spark, folder) == before == recomputed(folder)


def test_a_stream_that_is_killed_and_resumed(spark, place):
    """Killed at several moments while rules change; nothing is lost, doubled or mixed."""
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
            env=os.environ | {"PYTHONPATH": os.getcwd()},
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
    # A last file: Spark takes up one that it had listed, but not begun, only with a later one.
    write_events(folder, batches)
    assert begun_batches(folder) <= batches
    query = stream(spark, folder).trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert written(spark, folder) == recomputed(folder)
    assert len({v for _, _, v in written(spark, folder)}) > 3


def test_frozen_rules_in_a_stream(spark, place):
    folder, _ = place
    write_events(folder, 0)
    rules = tocsin.Rules(SCHEMA)
    rules.add(1, "n = 3")
    events = spark.readStream.schema(FIELDS).parquet(str(folder / "events"))
    found = tocsin.spark.match(events, rules, how="count", keep=["row"])
    assert found.isStreaming
    query = (
        found.writeStream.format("memory").queryName("frozen").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    counts = dict(map(tuple, spark.table("frozen").collect()))
    assert counts == {row: int(row % 7 == 3) for row in range(20)}
