"""Range matching against the peers a user would pick instead, on six workloads.

    python -m benchmarks.range_matching [--size tiny|full] [--only W1,W5] [--out FILE]

The rules are indexed in advance. The times include everything that a new batch of points needs,
such as a peer's objects for the points and its index over them. One thread, one core. Every result
is checked: the number of pairs and the sum of their hashes. If a peer would take longer than a
minute, its time is estimated from fewer points and marked as an estimate. Times are the best of
several repetitions, with all libraries taking turns; results are released outside the measured
time. Also measured: the automatic choice of an index against the best single one, for rules of
one shape and of several; building; growth from 10 thousand to 10 million rules; one event at a
time. `tiny` only shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tocsin
from benchmarks.range_peers import PEERS
from benchmarks.range_peers.peer import Peer
from benchmarks.range_report import Document
from benchmarks.range_workloads import (
    SIZES,
    WORKLOADS,
    Workload,
    mixed,
    point_table,
    uniform_boxes,
)
from benchmarks.tables import format_time
from benchmarks.timing import (
    Digest,
    Runner,
    check,
    clock,
    compile_kernels,
    estimate_seconds,
    log,
    never_run,
    package_versions,
    run_in_turns,
    runs_as_pairs,
    time_blocks,
    time_call,
    time_each,
    touch_memory,
    use_one_core,
)
from tocsin.model.categories import Categories
from tocsin.model.conjunctions import take
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch

LIMIT = 60.0  # seconds; longer times are estimated
ROOM = 4 << 30  # bytes for the pairs of a peer; larger results are split into batches
PAIRS_ROOM = 8 << 30  # bytes up to which event numbers are measured, too
_ALONE = 200  # rules that are changed one by one
REGRET = 1.3  # target: time of the chosen index over the best one
INDEXES = ("grid", "ntree", "rectangles", "intervals", "exhaustive")
GROWTH = {  # numbers of boxes, of events; numbers of boxes and events for single events
    "tiny": ((100, 1_000), 1_000, 1_000, 200),
    "full": ((10_000, 100_000, 1_000_000, 10_000_000), 1_000_000, 1_000_000, 50_000),
}
PACKAGES = "geoindex-rs shapely scipy duckdb polars sedonadb ncls superintervals numpy numba"


# ------------------------------------------------------------ a peer on a workload


@dataclass
class Contender(Runner):
    """A peer that is timed, or a remark why it is not."""

    remarks: list[str] = field(default_factory=list)
    peer: Peer | None = None
    build: float = 0.0
    is_estimated: bool = False
    counts: bool = False

    @property
    def by_hand(self) -> bool:
        return self.peer is not None and self.peer.by_hand


@dataclass
class Batches:
    """The points for a peer, in as many batches as its results need."""

    peer: Peer
    points: list[tuple[int, Any]]  # the number of the first point, and the points of each batch
    is_large: bool
    room: int = 0  # bytes for a batch

    @classmethod
    def split(cls, peer: Peer, points: list[np.ndarray], pairs: int) -> Batches:
        n = len(points[0])
        needed = peer.bytes_needed(points, pairs)
        batches = max(1, -(-needed // ROOM))
        is_large = batches > 1
        step = n if peer.streams else -(-n // batches)
        native = [
            (first, peer.to_native([axis[first : first + step] for axis in points]))
            for first in range(0, n, step)
        ]
        return cls(peer, native, is_large, needed // batches)

    def run(self, digest: Digest | None = None) -> tuple[float, float]:
        """Return the seconds for loading and joining; releasing results is not timed."""
        loading = joining = 0.0
        for first, points in self.points:
            touch_memory(self.room)
            start = clock()
            loaded = self.peer.load(points)
            loading += clock() - start
            results = self.peer.join(loaded, self.is_large)
            while True:
                start = clock()
                result = next(results, None)
                joining += clock() - start
                if result is None:
                    break
                if digest is not None:
                    digest.add(self.peer.pairs(result), first)
                del result
        return loading, joining

    def count(self) -> int:
        return sum(int(np.sum(self.peer.count(points))) for _, points in self.points)


class Ours:
    """Tocsin's rules for a workload, and digests of their matches."""

    def __init__(self, workload: Workload):
        self.workload = workload
        self.digests: dict[int, Digest] = {}
        self.build = float("inf")
        for _ in range(3):
            self.rules = None
            start = clock()
            self.rules = tocsin.Rules(workload.schema)
            self.rules.add_many(workload.rule_table())
            seconds = clock() - start
            self.build = min(self.build, seconds)
            if seconds > 5:
                break

    def digest(self, n: int) -> Digest:
        """Return the digest of the matches of the first n points."""
        if n not in self.digests:
            matches = self.rules.match(point_table(self.workload.first(n)))
            self.digests[n] = Digest()
            self.digests[n].add(runs_as_pairs(matches.offsets, matches.rules))
        return self.digests[n]

    def check(self) -> None:
        """Compare blocks and counts with the result of `match`."""
        events, expected = point_table(self.workload.points), self.digest(self.workload.events)
        digest = Digest()
        for block in self.rules.match_blocks(events):
            digest.add(runs_as_pairs(block.offsets, block.rules), block.first)
        check("blocks", digest, expected)
        check("counts", int(self.rules.count(events).sum()), expected.pairs)


def peer_runners(kind: type[Peer], ours: Ours) -> list[Contender]:
    """Return runners of a peer after checking its result, or a remark why it cannot run."""
    refusal = kind.refusal(ours.workload)
    if refusal.endswith("only"):
        return []
    log(f"  {kind.name}")
    try:
        if not refusal:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about optional dependencies
                importlib.import_module(kind.package)
            return checked_runners(kind, ours)
    except AssertionError:
        raise
    except Exception as error:
        refusal = f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
        log(f"    {refusal}")
    return [Contender(kind.name, never_run, remarks=[refusal], is_estimated=True)]


def checked_runners(kind: type[Peer], ours: Ours) -> list[Contender]:
    workload, n = ours.workload, ours.workload.events
    start = clock()
    peer = kind(workload)
    build = clock() - start

    def run_few(few: int) -> float:
        digest = Digest()
        seconds = Batches.split(peer, workload.first(few), ours.digest(few).pairs).run(digest)
        check(f"{kind.name}, {workload.name}, {few} points", digest, ours.digest(few))
        return sum(seconds)

    remarks = [peer.remark] if peer.remark else []
    runners = []
    expected, few = estimate_seconds(run_few, n, LIMIT)
    if expected > LIMIT:
        remarks.append(f"estimated from {few:,} points")
        log(f"    {expected:,.0f} s, estimated from {few:,} points")
        runner = Contender(kind.name, never_run, (0.0, expected), remarks, peer, build, True)
    else:
        batches = Batches.split(peer, workload.points, ours.digest(n).pairs)
        digest = Digest()
        seconds = batches.run(digest)
        check(f"{kind.name}, {workload.name}", digest, ours.digest(n))
        log(f"    {sum(seconds):,.3f} s")
        if len(batches.points) > 1:
            remarks.append(f"in {len(batches.points)} batches of points, each released immediately")
        elif batches.is_large and peer.streams:
            remarks.append("read in pieces, each released immediately")
        runner = Contender(kind.name, batches.run, seconds, remarks, peer, build)
    runners.append(runner)
    if kind.counts:
        runners += count_runners(peer, ours)
    return runners


def count_runners(peer: Peer, ours: Ours) -> list[Contender]:
    workload, n = ours.workload, ours.workload.events

    def run_few(few: int) -> float:
        batches = Batches(peer, [(0, peer.to_native(workload.first(few)))], False)
        start = clock()
        count = batches.count()
        seconds = clock() - start
        check(f"{peer.name}, {workload.name}, counts", count, ours.digest(few).pairs)
        return seconds

    name = f"{peer.name}: counts"
    expected, few = estimate_seconds(run_few, n, LIMIT)
    if expected > LIMIT:
        remarks = [f"estimated from {few:,} points"]
        return [Contender(name, never_run, (0.0, expected), remarks, peer, 0.0, True, True)]
    batches = Batches(peer, [(0, peer.to_native(workload.points))], False)
    check(f"{peer.name}, {workload.name}, counts", batches.count(), ours.digest(n).pairs)
    return [Contender(name, lambda: time_call(batches.count), peer=peer, counts=True)]


# ------------------------------------------------------------ measurements


def match_runner(rules: tocsin.Rules, events: Any) -> Callable[[], tuple[float, float]]:
    return lambda: time_call(lambda: rules.match(events))


def measure_workload(document: Document, workload: Workload) -> None:
    log(f"{workload.name}: {workload.description}")
    ours = Ours(workload)
    rules, events = ours.rules, point_table(workload.points)
    pairs = ours.digest(workload.events).pairs
    ours.check()
    log(f"  {pairs:,} pairs; built in {ours.build:.3f} s; {rules.plan()}")
    match = Runner("match", match_runner(rules, events), room=4 * pairs)
    blocks = Runner("blocks", lambda: time_blocks(lambda: rules.match_blocks(events)))
    counts = Runner("counts", lambda: time_call(lambda: rules.count(events)))
    own_runners = [match, blocks, counts]
    if pairs * 12 <= PAIRS_ROOM:
        own_runners.append(
            Runner(
                "match, with event numbers",
                lambda: time_call(lambda: rules.match(events).pairs()),
                room=12 * pairs,
            )
        )
    peers = [runner for kind in PEERS for runner in peer_runners(kind, ours)]
    log("  all in turns")
    run_in_turns(own_runners + [p for p in peers if not p.is_estimated])
    document.add_workload(workload, ours.build, rules, pairs, own_runners, peers)
    log(f"  match {match.seconds:.4f} s, blocks {blocks.seconds:.4f}, counts {counts.seconds:.4f}")
    del peers
    gc.collect()
    measure_regret(document, workload, rules)


def measure_regret(document: Document, workload: Workload, auto: tocsin.Rules) -> None:
    """Time each of Tocsin's indexes on a workload, and the automatic choice."""
    log("  each index")
    runners, times = [], {}
    events = point_table(workload.points)
    room = 4 * int(auto.count(events).sum())
    for name in INDEXES:
        rules = tocsin.Rules(workload.schema, index=name)
        rules.add_many(workload.rule_table())

        def run_few(few: int, rules=rules) -> float:
            points = point_table(workload.first(few))
            return sum(time_call(lambda: rules.match(points)))

        limit = LIMIT / 3
        expected, few = estimate_seconds(run_few, workload.events, limit)
        if expected > limit:
            times[name] = f"{format_time(expected)}, estimated from {few:,} points"
        else:
            runners.append(Runner(name, match_runner(rules, events), room=room))
    chosen = Runner("auto", match_runner(auto, events), room=room)
    run_in_turns([chosen, *runners], 5)
    times |= {runner.name: format_time(runner.seconds) for runner in runners}
    best = min(runners, key=lambda runner: runner.seconds, default=chosen)
    index = " and ".join(part.index for part in auto.plan().parts)
    regret = chosen.seconds / best.seconds
    document.regret.add_row(
        workload.name, *[times[name] for name in INDEXES], index, format_time(chosen.seconds),
        f"{regret:.3g}", f"at most {REGRET}", regret <= REGRET,
    )  # fmt: skip


def measure_memory(document: Document, nbytes: int, rest: float) -> None:
    """Time the first write to memory that was released some seconds ago, and just now."""
    touch_memory(nbytes)
    time.sleep(rest)
    for after in (f"{rest:g} seconds ago", "just now"):
        seconds = touch_memory(nbytes)
        rate = f"{nbytes / seconds / 1e9:.1f} GB per second"
        document.memory.add_row(
            f"{nbytes >> 20:,} MiB released {after}", format_time(seconds), rate
        )


def measure_growth(document: Document, size: str) -> None:
    """Measure build and time per event as the rules grow, and one event at a time."""
    numbers, events, single_rules, single_events = GROWTH[size]
    each = {}
    for n in numbers:
        log(f"growth: {n:,} boxes")
        workload = uniform_boxes(n, 4, events)
        ours = Ours(workload)
        points = point_table(workload.points)
        match = Runner("match", match_runner(ours.rules, points))
        run_in_turns([match])
        each[n] = match.seconds / events
        matches = len(ours.rules.match(points)) / events
        bytes_each = ours.rules.nbytes / n
        document.growth.add_row(
            f"{n:,}", f"{matches:.2f}", f"{ours.build:.3f} s", f"{bytes_each:.0f}",
            f"{each[n] * 1e9:,.0f} ns", f"{each[n] / each[numbers[0]]:.2f}",
        )  # fmt: skip
        if n == single_rules:
            add_limit = document.targets.add_limit
            add_limit(f"build of {n:,} uniform boxes", ours.build, 2, "s")
            add_limit("  memory without ids", bytes_each, 150, "bytes per box")
            measure_one_at_a_time(document, ours.rules, workload, single_events)
            in_place = {"grid": workload, "ntree": workload}
            for name, index in (("W6", "intervals"), ("W5", "rectangles")):
                in_place[index] = WORKLOADS[name](*SIZES[size][name])
            for index, boxes in in_place.items():
                measure_in_place(document, index, boxes, n // 100)
    task = f"growth of the time per event, {numbers[0]:,} to {numbers[-1]:,} boxes"
    document.targets.add_limit(task, each[numbers[-1]] / each[numbers[0]], 3, "times")


def measure_one_at_a_time(
    document: Document, rules: tocsin.Rules, workload: Workload, events_count: int
) -> None:
    log("  one event at a time")
    axes = (axis[:events_count].tolist() for axis in workload.points)
    events = [{"x": x, "y": y} for x, y in zip(*axes)]
    p50, p99 = np.percentile(time_each(rules.match, events), (50, 99)) * 1e6
    task = f"one event at a time against {workload.rules:,} boxes, from Python"
    document.targets.add_limit(f"{task}, p99", p99, 100, "microseconds")
    document.targets.add_value("  p50", f"{p50:.1f} microseconds")


def measure_in_place(document: Document, name: str, workload: Workload, batch: int) -> None:
    """Time removing batches from an index and inserting them again; matches must not change."""
    log(f"  in place: {name}")
    rules = tocsin.Rules(workload.schema, index=name)
    rules.add_many(workload.rule_table())
    points = point_table(workload.first(1_000))
    ((part,),) = (live.segment.parts for live in rules.snapshot().segments)
    index, expected = part.index, rules.count(points)
    events = Events.read(points, rules.schema, range(len(rules.schema)), Categories())
    order = np.random.default_rng(0).permutation(workload.rules)
    inserting, removing = [], []
    for removed in order[: 5 * batch].reshape(5, batch):
        conjunctions = take(index.conjunctions, removed)
        start = clock()
        index.remove(removed)
        removing.append(clock() - start)
        start = clock()
        index.insert(conjunctions)
        inserting.append(clock() - start)
    alone = {"insert": [], "remove": []}  # one by one, from Python
    for number in order[5 * batch :][:_ALONE]:
        conjunctions = take(index.conjunctions, np.array([number]))
        for verb, change in (("remove", [number]), ("insert", conjunctions)):
            start = clock()
            getattr(index, verb)(change)
            alone[verb].append(clock() - start)
    counts = np.zeros(len(events), np.int64)
    index.count(EventBatch.whole(events.keys(0, len(events)), len(rules.schema)), counts)
    check(f"{name}, removed and inserted", counts.tolist(), expected.tolist())
    task = f"{name} in place, {workload.rules:,} rules, batches of {batch:,}"
    for verb, seconds in (("insert", inserting), ("remove", removing)):
        microseconds = min(seconds) / batch * 1e6
        document.targets.add_limit(f"{task}: {verb}", microseconds, 20, "microseconds")
        median = float(np.median(alone[verb])) * 1e6
        document.targets.add_value("  one rule at a time, median", f"{median:,.1f} microseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument(
        "--only", help="comma-separated: W1 to W6, mixed, growth; other results are kept"
    )
    arguments = parser.parse_args()
    known = [*WORKLOADS, "mixed", "growth"]
    only = arguments.only.split(",") if arguments.only else known
    if unknown := set(only) - set(known):
        parser.error(f"there is no workload {', '.join(sorted(unknown))} ({', '.join(known)})")
    use_one_core()
    compile_kernels(arguments.size)
    full = arguments.size == "full"
    document = Document(arguments.size, package_versions(PACKAGES))
    measure_memory(document, 4 << 30 if full else 4 << 20, 10 if full else 0)
    for name, make in WORKLOADS.items():
        if name in only:
            measure_workload(document, make(*SIZES[arguments.size][name]))
            gc.collect()
            if arguments.out:
                document.write(arguments.out)  # after each workload, in case a later one fails
    if "mixed" in only:
        log("mixed")
        ours = Ours(mixed(*SIZES[arguments.size]["mixed"]))
        ours.check()
        measure_regret(document, ours.workload, ours.rules)
        del ours
    if "growth" in only:
        measure_growth(document, arguments.size)
    document.show()
    if arguments.out:
        document.write(arguments.out)


if __name__ == "__main__":
    main()
