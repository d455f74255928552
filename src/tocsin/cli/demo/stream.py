"""The demo's stream: files of events through Spark into Parquet, with a rule changed half-way.

The change must be seen, and seen at the same place in every run. So the first half of the
files is fed and waited for; then, with the query running, the rule is replaced in the store;
then the second half is fed. Nothing else is arranged: which version a micro-batch used is
read from what Spark's file sink wrote.
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
    """One micro-batch, as Spark reports it and as its sink wrote it."""

    number: int
    events: int
    seconds: float  # from Spark's trigger to its commit
    version: int  # that the store's log has for it
    matches: pa.Table  # the kept columns, rule, family, rules_version


class Change(NamedTuple):
    """The moment at which the rule was replaced."""

    version: int  # the one that this published
    seconds: float  # that it took
    after: int  # micro-batches that were done by then


class Verdict(NamedTuple):
    """What a second, independent computation found."""

    matches: int
    equal: bool
    seconds: float


def publish(path: Path, rules: list[fences.Fence]) -> RuleStore:
    """Make the rule store of the city."""
    store = RuleStore.create(path, SCHEMA)
    store.add_many(fences.table(rules))
    return store


def play(
    spark: Any, folder: Path, store: RuleStore, parts: list[pa.Table]
) -> Iterator[Batch | Change]:
    """Run the stream and yield what happens, as it happens: micro-batches, and the change.

    `parts` are the events of each micro-batch.
    """
    inbox = folder / "events"
    inbox.mkdir()
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    found = tocsin.spark.match(
        reader.parquet(str(inbox)), store.path, keep=KEPT, payload=["family"], rules_version=True
    )
    query = (
        found.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "matches"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        middle = half(parts)
        for number in range(middle):
            _feed(inbox, number, parts[number])
        yield from _batches(query, folder, store, range(middle))
        began = time.perf_counter()
        alarm = fences.after()
        payload = {"family": alarm.family, "says": alarm.says}
        version = store.replace(alarm.id, alarm.where, payload=payload)
        yield Change(version, time.perf_counter() - began, middle)
        for number in range(middle, len(parts)):
            _feed(inbox, number, parts[number])
        yield from _batches(query, folder, store, range(middle, len(parts)))
    finally:
        query.stop()


def split(events: pa.Table, batches: int) -> list[pa.Table]:
    """Return the events of each micro-batch."""
    ends = [len(events) * n // batches for n in range(batches + 1)]
    return [events.slice(a, b - a) for a, b in itertools.pairwise(ends)]


def half(parts: list[pa.Table]) -> int:
    """Return the number of the first micro-batch after the change."""
    return len(parts) // 2


def check(store: RuleStore, parts: list[pa.Table], batches: list[Batch]) -> Verdict:
    """Match all events again, in this process and without Spark, at the versions recorded.

    Equal means: every micro-batch has exactly these pairs of ping and rule, none twice, and
    every row bears the version that the store's log has for its micro-batch.
    """
    began = time.perf_counter()
    equal, matches = len(parts) == len(batches), 0
    rules = {version: store.rules(version) for version in {b.version for b in batches}}
    for part, batch in zip(parts, batches):
        pairs = rules[batch.version].match(part).to_arrow()
        expected = pa.table({"ping": part["ping"].take(pairs["event"]), "rule": pairs["rule"]})
        written = batch.matches
        versions = pc.unique(written["rules_version"]).to_pylist()
        equal &= versions in ([batch.version], [])
        equal &= _in_order(expected).equals(_in_order(written.select(["ping", "rule"])))
        matches += len(written)
    return Verdict(matches, equal, time.perf_counter() - began)


def _in_order(pairs: pa.Table) -> pa.Table:
    pairs = pa.table({"ping": pairs["ping"], "rule": pairs["rule"].cast(pa.string())})
    return pairs.sort_by([("ping", "ascending"), ("rule", "ascending")]).combine_chunks()


def _feed(inbox: Path, number: int, events: pa.Table) -> None:
    """Put a file where Spark looks for them, complete when it appears, and later than the last."""
    hidden = inbox / f".{number:03d}"
    pq.write_table(events, hidden)
    moment = time.time() - 3600 + number  # Spark takes the oldest first, to the millisecond
    os.utime(hidden, (moment, moment))
    hidden.rename(inbox / f"{number:03d}.parquet")


def _batches(query: Any, folder: Path, store: RuleStore, numbers: range) -> Iterator[Batch]:
    """Yield these micro-batches as Spark reports them done."""
    folder_of_rules = StoreFolder(store.path)
    for number in numbers:
        report = _report(query, number)
        written = [pq.read_table(path) for path in _committed(folder / "matches", number)]
        yield Batch(
            number,
            report["numInputRows"],
            report["durationMs"]["triggerExecution"] / 1000,
            folder_of_rules.pin(str(query.id), str(number)),
            pa.concat_tables(written),
        )


def _report(query: Any, number: int) -> dict[str, Any]:
    """Wait for Spark's report of a micro-batch."""
    while True:
        active = query.isActive
        for progress in query.recentProgress:
            report = json.loads(progress.json)
            if report["batchId"] == number and report["numInputRows"]:
                return report
        if not active:
            raise query.exception() or RuntimeError("the stream was stopped from outside")
        time.sleep(0.05)


def _committed(sink: Path, number: int) -> list[Path]:
    """Return the files that Spark's sink committed in a micro-batch, as its own log lists them.

    What merely lies in the folder may be half written. Every tenth entry of the log repeats
    all earlier ones, so only what no earlier entry lists is this micro-batch's.
    """

    def listed(n: int) -> list[str]:
        for name in (f"{n}", f"{n}.compact"):
            entry = sink / "_spark_metadata" / name
            if entry.exists():
                return [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        return []

    earlier = {path for n in range(number) for path in listed(n)}
    return [Path(unquote(urlparse(p).path)) for p in listed(number) if p not in earlier]
