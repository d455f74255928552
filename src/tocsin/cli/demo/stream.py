"""The demo's stream: Spark matches files of events, and a rule is replaced halfway.

The change takes effect at the same event in every run: the first half of the files is processed,
then the rule is replaced in the store while the query runs, and then the second half is added. The
version that a micro-batch used is read from the output of Spark's file sink.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tocsin.spark
from tocsin.cli.demo import fences
from tocsin.cli.demo.traffic import COLUMNS, SCHEMA
from tocsin.engine.store import RuleStore
from tocsin.engine.store_folder import StoreFolder

BATCHES = 20
KEPT = ["ping", "vehicle", "hour", "x", "y", "speed", "kind"]


class Batch(NamedTuple):
    """A micro-batch, as reported by Spark and written by its sink."""

    number: int
    events: int
    seconds: float  # from Spark's trigger to its commit
    version: int  # from the store's log
    matches: pa.Table  # the kept columns, rule, family, rules_version


class Change(NamedTuple):
    """The replacement of the rule."""

    version: int  # the published version
    seconds: float  # time to publish it
    after: int  # number of micro-batches before it


class Verdict(NamedTuple):
    """The result of the check."""

    matches: int
    is_equal: bool
    seconds: float


def publish(path: Path, rules: list[fences.Fence]) -> RuleStore:
    """Create a rule store with the rules of the city."""
    store = RuleStore.create(path, SCHEMA)
    store.add_many(fences.to_table(rules))
    return store


def run(
    spark: Any, folder: Path, store: RuleStore, parts: list[pa.Table]
) -> Iterator[Batch | Change]:
    """Run the stream; yield each micro-batch when it is done, and the change.

    `parts` are the events of each micro-batch.
    """
    inbox = folder / "events"
    inbox.mkdir()
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    matches = tocsin.spark.match(
        reader.parquet(str(inbox)), store.path, keep=KEPT, payload=["family"], rules_version=True
    )
    query = (
        matches.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "matches"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        middle = change_batch(parts)
        for number in range(middle):
            _add_file(inbox, number, parts[number])
        yield from _wait_for_batches(query, folder, store, range(middle))
        start = time.perf_counter()
        alarm = fences.alarm_after()
        payload = {"family": alarm.family, "description": alarm.description}
        version = store.replace(alarm.id, alarm.where, payload=payload)
        yield Change(version, time.perf_counter() - start, middle)
        for number in range(middle, len(parts)):
            _add_file(inbox, number, parts[number])
        yield from _wait_for_batches(query, folder, store, range(middle, len(parts)))
    finally:
        query.stop()


def split(events: pa.Table, batches: int) -> list[pa.Table]:
    """Return the events of each micro-batch."""
    ends = [len(events) * n // batches for n in range(batches + 1)]
    return [events.slice(a, b - a) for a, b in itertools.pairwise(ends)]


def change_batch(parts: list[pa.Table]) -> int:
    """Return the number of the first micro-batch after the change."""
    return len(parts) // 2


def check(store: RuleStore, parts: list[pa.Table], batches: list[Batch]) -> Verdict:
    """Match all events again, in this process without Spark, with the recorded versions.

    The results are equal if every micro-batch has the same pairs of ping and rule, none twice, and
    every row has the version that the store's log has for its micro-batch.
    """
    start = time.perf_counter()
    is_equal, matches = len(parts) == len(batches), 0
    rules = {version: store.rules(version) for version in {b.version for b in batches}}
    for part, batch in zip(parts, batches):
        pairs = rules[batch.version].match(part).to_arrow()
        expected = pa.table({"ping": part["ping"].take(pairs["event"]), "rule": pairs["rule"]})
        written = batch.matches
        versions = pc.unique(written["rules_version"]).to_pylist()
        is_equal &= versions in ([batch.version], [])
        is_equal &= _sort(expected).equals(_sort(written.select(["ping", "rule"])))
        matches += len(written)
    return Verdict(matches, is_equal, time.perf_counter() - start)


def _sort(pairs: pa.Table) -> pa.Table:
    pairs = pa.table({"ping": pairs["ping"], "rule": pairs["rule"].cast(pa.string())})
    return pairs.sort_by([("ping", "ascending"), ("rule", "ascending")]).combine_chunks()


def _add_file(inbox: Path, number: int, events: pa.Table) -> None:
    """Add a file for Spark; it is complete when it appears, and newer than the files before."""
    hidden = inbox / f".{number:03d}"
    pq.write_table(events, hidden)
    modified = time.time() - 3600 + number  # Spark reads the oldest file first
    os.utime(hidden, (modified, modified))
    hidden.rename(inbox / f"{number:03d}.parquet")


def _wait_for_batches(
    query: Any, folder: Path, store: RuleStore, numbers: range
) -> Iterator[Batch]:
    """Yield micro-batches when Spark reports that they are done."""
    store_folder = StoreFolder(store.path)
    for number in numbers:
        report = _wait_for_report(query, number)
        written = [pq.read_table(path) for path in _committed_files(folder / "matches", number)]
        yield Batch(
            number,
            report["numInputRows"],
            report["durationMs"]["triggerExecution"] / 1000,
            store_folder.pin(str(query.id), str(number)),
            pa.concat_tables(written),
        )


def _wait_for_report(query: Any, number: int) -> dict[str, Any]:
    """Wait for Spark's report about a micro-batch and return it."""
    while True:
        is_active = query.isActive
        for progress in query.recentProgress:
            report = json.loads(progress.json)
            if report["batchId"] == number and report["numInputRows"]:
                return report
        if not is_active:
            raise query.exception() or RuntimeError("the stream was stopped externally")
        time.sleep(0.05)


def _committed_files(sink: Path, number: int) -> list[Path]:
    """Return the files that Spark's sink committed in a micro-batch, according to its log.

    Other files in the folder may be incomplete. Every tenth entry of the log repeats all earlier
    ones, so files of earlier entries are left out.
    """

    def list_entry(n: int) -> list[str]:
        for name in (f"{n}", f"{n}.compact"):
            entry = sink / "_spark_metadata" / name
            if entry.exists():
                return [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        return []

    earlier = {path for n in range(number) for path in list_entry(n)}
    return [Path(unquote(urlparse(p).path)) for p in list_entry(number) if p not in earlier]
