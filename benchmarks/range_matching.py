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
from benchmarks.tables import milli
from benchmarks.timing import (
    Digest,
    Runner,
    alone,
    check,
    clock,
    in_turn,
    never,
    one_at_a_time,
    runs_as_pairs,
    say,
    seconds_expected,
    timed,
    timed_blocks,
    touch,
    versions,
)
from tocsin import jit
from tocsin.model.categories import Categories
from tocsin.model.conjunctions import select
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch

LIMIT = 60.0  # seconds: what would take longer is estimated
ROOM = 4 << 30  # bytes that a peer may take for its pairs; more comes in batches
PAIRS_ROOM = 8 << 30  # bytes up to which we make event numbers besides ids
REGRET = 1.3
INDEXES = ("grid", "ntree", "rectangles", "intervals", "exhaustive")
GROWTH = {  # numbers of boxes, of events; boxes and events asked one at a time
    "tiny": ((100, 1_000), 1_000, 1_000, 200),
    "full": ((10_000, 100_000, 1_000_000, 10_000_000), 1_000_000, 1_000_000, 50_000),
}
PACKAGES = "geoindex-rs shapely scipy duckdb polars sedonadb ncls superintervals numpy numba"


# ------------------------------------------------------------ a peer on a workload


@dataclass
class Contender(Runner):
    """A peer to be timed, or what is to be said instead."""

    remarks: list[str] = field(default_factory=list)
    peer: Peer | None = None
    build: float = 0.0
    estimated: bool = False
    counts: bool = False

    @property
    def by_hand(self) -> bool:
        return self.peer is not None and self.peer.by_hand


@dataclass
class Batches:
    """A peer's points, in as many batches as its pairs need."""

    peer: Peer
    given: list[tuple[int, Any]]  # the number of the first point, and the points as it wants them
    large: bool
    room: int = 0  # bytes that a batch takes

    @classmethod
    def of(cls, peer: Peer, points: list[np.ndarray], pairs: int) -> Batches:
        n = len(points[0])
        needed = peer.bytes_needed(points, pairs)
        batches = max(1, -(-needed // ROOM))
        large = batches > 1
        step = n if peer.streams else -(-n // batches)
        given = [
            (first, peer.native([axis[first : first + step] for axis in points]))
            for first in range(0, n, step)
        ]
        return cls(peer, given, large, needed // batches)

    def run(self, digest: Digest | None = None) -> tuple[float, float]:
        """Return seconds of taking and of joining; results are released outside the time."""
        taking = joining = 0.0
        for first, points in self.given:
            touch(self.room)
            start = clock()
            taken = self.peer.take(points)
            taking += clock() - start
            results = self.peer.join(taken, self.large)
            while True:
                start = clock()
                result = next(results, None)
                joining += clock() - start
                if result is None:
                    break
                if digest is not None:
                    digest.add(self.peer.pairs(result), first)
                del result
        return taking, joining

    def count(self) -> int:
        return sum(int(np.sum(self.peer.count(points))) for _, points in self.given)


class Ours:
    """Our rules on a workload, and what they find among the first so many points."""

    def __init__(self, workload: Workload):
        self.workload = workload
        self.known: dict[int, Digest] = {}
        self.build = float("inf")
        for _ in range(3):
            self.rules = None
            start = clock()
            self.rules = tocsin.Rules(workload.schema)
            self.rules.add_many(workload.rule_table())
            took = clock() - start
            self.build = min(self.build, took)
            if took > 5:
                break

    def digest(self, n: int) -> Digest:
        if n not in self.known:
            found = self.rules.match(point_table(self.workload.first(n)))
            self.known[n] = Digest()
            self.known[n].add(runs_as_pairs(found.offsets, found.rules))
        return self.known[n]

    def check(self) -> None:
        """Compare blocks and counts with what `match` found."""
        events, expected = point_table(self.workload.points), self.digest(self.workload.events)
        digest = Digest()
        for block in self.rules.match_blocks(events):
            digest.add(runs_as_pairs(block.offsets, block.rules), block.first)
        check("blocks", digest, expected)
        check("counts", int(self.rules.count(events).sum()), expected.pairs)


def peer_runners(kind: type[Peer], ours: Ours) -> list[Contender]:
    """Return the peer checked and ready to be timed, or what is to be said instead."""
    refusal = kind.refusal(ours.workload)
    if refusal.endswith("only"):
        return []
    say(f"  {kind.name}")
    try:
        if not refusal:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what it could use besides
                importlib.import_module(kind.package)
            return checked_runners(kind, ours)
    except AssertionError:
        raise
    except Exception as error:
        refusal = f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
        say(f"    {refusal}")
    return [Contender(kind.name, never, remarks=[refusal], estimated=True)]


def checked_runners(kind: type[Peer], ours: Ours) -> list[Contender]:
    workload, n = ours.workload, ours.workload.events
    start = clock()
    peer = kind(workload)
    build = clock() - start

    def run_few(few: int) -> float:
        digest = Digest()
        seconds = Batches.of(peer, workload.first(few), ours.digest(few).pairs).run(digest)
        check(f"{kind.name}, {workload.name}, {few} points", digest, ours.digest(few))
        return sum(seconds)

    remarks = [peer.remark] if peer.remark else []
    runners = []
    expected, few = seconds_expected(run_few, n, LIMIT)
    if expected > LIMIT:
        remarks.append(f"estimated from {few:,} points")
        say(f"    {expected:,.0f} s, estimated from {few:,} points")
        runner = Contender(kind.name, never, (0.0, expected), remarks, peer, build, True)
    else:
        batches = Batches.of(peer, workload.points, ours.digest(n).pairs)
        digest = Digest()
        seconds = batches.run(digest)
        check(f"{kind.name}, {workload.name}", digest, ours.digest(n))
        say(f"    {sum(seconds):,.3f} s")
        if len(batches.given) > 1:
            remarks.append(f"in {len(batches.given)} batches of points, each released immediately")
        elif batches.large and peer.streams:
            remarks.append("read in pieces, each released immediately")
        runner = Contender(kind.name, batches.run, seconds, remarks, peer, build)
    runners.append(runner)
    if kind.counts:
        runners += count_runners(peer, ours)
    return runners


def count_runners(peer: Peer, ours: Ours) -> list[Contender]:
    workload, n = ours.workload, ours.workload.events

    def run_few(few: int) -> float:
        some = Batches(peer, [(0, peer.native(workload.first(few)))], False)
        start = clock()
        counted = some.count()
        seconds = clock() - start
        check(f"{peer.name}, {workload.name}, counts", counted, ours.digest(few).pairs)
        return seconds

    name = f"{peer.name}: counts"
    expected, few = seconds_expected(run_few, n, LIMIT)
    if expected > LIMIT:
        said = [f"estimated from {few:,} points"]
        return [Contender(name, never, (0.0, expected), said, peer, 0.0, True, True)]
    whole = Batches(peer, [(0, peer.native(workload.points))], False)
    check(f"{peer.name}, {workload.name}, counts", whole.count(), ours.digest(n).pairs)
    return [Contender(name, lambda: timed(whole.count), peer=peer, counts=True)]


# ------------------------------------------------------------ measurements


def matching(rules: tocsin.Rules, events: Any) -> Callable[[], tuple[float, float]]:
    return lambda: timed(lambda: rules.match(events))


def measure_workload(document: Document, workload: Workload) -> None:
    say(f"{workload.name}: {workload.words}")
    ours = Ours(workload)
    rules, events = ours.rules, point_table(workload.points)
    pairs = ours.digest(workload.events).pairs
    ours.check()
    say(f"  {pairs:,} pairs; built in {ours.build:.3f} s; {rules.plan()}")
    match = Runner("match", matching(rules, events), room=4 * pairs)
    blocks = Runner("blocks", lambda: timed_blocks(lambda: rules.match_blocks(events)))
    counts = Runner("counts", lambda: timed(lambda: rules.count(events)))
    mine = [match, blocks, counts]
    if pairs * 12 <= PAIRS_ROOM:
        mine.append(
            Runner(
                "match, with event numbers",
                lambda: timed(lambda: rules.match(events).pairs()),
                room=12 * pairs,
            )
        )
    peers = [runner for kind in PEERS for runner in peer_runners(kind, ours)]
    say("  in turn")
    in_turn(mine + [p for p in peers if not p.estimated])
    document.workload(workload, ours.build, rules, pairs, mine, peers)
    say(f"  match {match.seconds:.4f} s, blocks {blocks.seconds:.4f}, counts {counts.seconds:.4f}")
    del peers
    gc.collect()
    measure_regret(document, workload, rules)


def measure_regret(document: Document, workload: Workload, auto: tocsin.Rules) -> None:
    """Time each of our indexes on a workload, and the one that is chosen."""
    say("  each index")
    runners, said = [], {}
    events = point_table(workload.points)
    room = 4 * int(auto.count(events).sum())
    for name in INDEXES:
        rules = tocsin.Rules(workload.schema, index=name)
        rules.add_many(workload.rule_table())

        def run_few(few: int, rules=rules) -> float:
            some = point_table(workload.first(few))
            return sum(timed(lambda: rules.match(some)))

        limit = LIMIT / 3
        expected, few = seconds_expected(run_few, workload.events, limit)
        if expected > limit:
            said[name] = f"{milli(expected)}, estimated from {few:,} points"
        else:
            runners.append(Runner(name, matching(rules, events), room=room))
    chosen = Runner("auto", matching(auto, events), room=room)
    in_turn([chosen, *runners], 5)
    said |= {runner.name: milli(runner.seconds) for runner in runners}
    best = min(runners, key=lambda runner: runner.seconds, default=chosen)
    index = " and ".join(part.index for part in auto.plan().parts)
    regret = chosen.seconds / best.seconds
    document.regret.row(
        workload.name, *[said[name] for name in INDEXES], index, milli(chosen.seconds),
        f"{regret:.3g}", f"at most {REGRET}", regret <= REGRET,
    )  # fmt: skip


def measure_memory(document: Document, nbytes: int, rest: float) -> None:
    """Time the first write to memory that was released some seconds ago, and just now."""
    touch(nbytes)
    time.sleep(rest)
    for after in (f"{rest:g} seconds ago", "just now"):
        seconds = touch(nbytes)
        rate = f"{nbytes / seconds / 1e9:.1f} GB per second"
        document.memory.row(f"{nbytes >> 20:,} MiB released {after}", milli(seconds), rate)


def measure_growth(document: Document, size: str) -> None:
    """Build, time per event as the rules grow, and one event at a time."""
    numbers, events, asked_of, asked = GROWTH[size]
    each = {}
    for n in numbers:
        say(f"growth: {n:,} boxes")
        workload = uniform_boxes(n, 4, events)
        ours = Ours(workload)
        given = point_table(workload.points)
        match = Runner("match", matching(ours.rules, given))
        in_turn([match])
        each[n] = match.seconds / events
        found = len(ours.rules.match(given)) / events
        bytes_each = ours.rules.nbytes / n
        document.growth.row(
            f"{n:,}", f"{found:.2f}", f"{ours.build:.3f} s", f"{bytes_each:.0f}",
            f"{each[n] * 1e9:,.0f} ns", f"{each[n] / each[numbers[0]]:.2f}",
        )  # fmt: skip
        if n == asked_of:
            target = document.targets.at_most
            target(f"build of {n:,} uniform boxes", ours.build, 2, "s")
            target("  memory without ids", bytes_each, 150, "bytes per box")
            measure_one_at_a_time(document, ours.rules, workload, asked)
            in_place = {"grid": workload, "ntree": workload}
            for name, index in (("W6", "intervals"), ("W5", "rectangles")):
                in_place[index] = WORKLOADS[name](*SIZES[size][name])
            for index, boxes in in_place.items():
                measure_in_place(document, index, boxes, n // 100)
    target = document.targets.at_most
    what = f"growth of the time per event, {numbers[0]:,} to {numbers[-1]:,} boxes"
    target(what, each[numbers[-1]] / each[numbers[0]], 3, "times")


def measure_one_at_a_time(
    document: Document, rules: tocsin.Rules, workload: Workload, asked: int
) -> None:
    say("  one event at a time")
    events = [{"x": x, "y": y} for x, y in zip(*(a[:asked].tolist() for a in workload.points))]
    took = one_at_a_time(rules.match, events)
    what = f"one event at a time against {workload.rules:,} boxes, from Python"
    document.targets.at_most(f"{what}, p99", np.percentile(took, 99) * 1e6, 100, "microseconds")
    document.targets.plain("  p50", f"{np.percentile(took, 50) * 1e6:.1f} microseconds")


def measure_in_place(document: Document, name: str, workload: Workload, batch: int) -> None:
    """Time a batch taken out of an index and put in again; what points find must be as before."""
    say(f"  in place: {name}")
    rules = tocsin.Rules(workload.schema, index=name)
    rules.add_many(workload.rule_table())
    points = point_table(workload.first(1_000))
    ((part,),) = (live.segment.parts for live in rules.snapshot().segments)
    index, expected = part.index, rules.count(points)
    events = Events.read(points, rules.schema, range(len(rules.schema)), Categories())
    drawn = np.random.default_rng(0).permutation(workload.rules)
    inserting, removing = [], []
    for gone in drawn[: 5 * batch].reshape(5, batch):
        batch_of = select(index.conjunctions, np.isin(np.arange(index.conjunctions.size), gone))
        start = clock()
        index.remove(gone)
        removing.append(clock() - start)
        start = clock()
        index.insert(batch_of)
        inserting.append(clock() - start)
    found = np.zeros(len(events), np.int64)
    index.count(EventBatch.whole(events.keys(0, len(events)), len(rules.schema)), found)
    check(f"{name}, removed and inserted", found.tolist(), expected.tolist())
    what = f"{name} in place, {workload.rules:,} rules, batches of {batch:,}"
    for verb, took in (("insert", inserting), ("remove", removing)):
        document.targets.at_most(f"{what}: {verb}", min(took) / batch * 1e6, 20, "microseconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument(
        "--only", help="some of W1 to W6, mixed and growth, with commas between; the rest stays"
    )
    arguments = parser.parse_args()
    known = [*WORKLOADS, "mixed", "growth"]
    only = arguments.only.split(",") if arguments.only else known
    if unknown := set(only) - set(known):
        parser.error(f"there is no workload {', '.join(sorted(unknown))} ({', '.join(known)})")
    alone()
    tocsin.Rules({"x": "number"})  # imports all kernels
    jit.compile_all()
    full = arguments.size == "full"
    document = Document(arguments.size, versions(PACKAGES))
    measure_memory(document, 4 << 30 if full else 4 << 20, 10 if full else 0)
    for name, make in WORKLOADS.items():
        if name in only:
            measure_workload(document, make(*SIZES[arguments.size][name]))
            gc.collect()
            if arguments.out:
                document.write(arguments.out)  # what is measured is measured
    if "mixed" in only:
        say("mixed")
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
