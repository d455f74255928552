"""Matching Boolean expressions over many attributes, and finding the k best of them.

    python -m benchmarks.boolean_matching [--size tiny|full] [--only match,top] [--out FILE]

The workloads are those of `benchmarks.boolean_workloads`. One thread, one core; times are the best
of several repetitions, with all indexes taking turns. Matches are compared by the number of pairs
and the sum of their hashes, the k best by rule, score and order. Slow indexes are timed with fewer
events. `tiny` only shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import platform
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.asking import Asked, check_same, grown
from benchmarks.boolean_workloads import Setting, World, family
from benchmarks.tables import Section, show, write
from benchmarks.timing import (
    Digest,
    Runner,
    alone,
    check,
    clock,
    in_turn,
    one_at_a_time,
    runs_as_pairs,
    say,
    timed,
    touch,
    versions,
)
from tocsin import jit
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions

NAMES = [name for name in ("keyed", "counting", "bestar", "exhaustive") if name in INDEXES]
RANKED = [name for name in NAMES if hasattr(INDEXES[name], "best")]
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "cases": (("A", False), ("B", True)),
        "match": ((1_000, 100),), "top": (1_000, 50), "build": 1_000, "churn": (2_000, 50),
        "one": (1_000, 50), "flat": (500, 100), "cardinalities": (2_500, 250_000_000),
        "dimensions": (50, 200), "growth": (500, 2_000), "matches": 20, "growth_events": 100,
    },
    "full": {
        "cases": (("A", False), ("A", True), ("B", False), ("B", True)),
        "match": ((100_000, 10_000), (1_000_000, 2_000)), "top": (1_000_000, 2_000),
        "build": 1_000_000, "churn": (1_000_000, 2_000), "one": (1_000_000, 5_000),
        "flat": (100_000, 10_000),
        "cardinalities": (2_500, 25_000, 250_000, 2_500_000, 25_000_000, 250_000_000),
        "dimensions": (50, 100, 200, 400, 700, 1_400), "growth": (100_000, 1_000_000, 10_000_000),
        "matches": 100, "growth_events": 20_000,
    },
}  # fmt: skip
AGAINST_COUNTING = {"A": 2, "B": 5}
LONG = 1.0  # seconds that one repetition may take
STEPS = 10  # in which rules are exchanged
MEBI = 1 << 20


def words(name: str, zipf: bool, rules: int) -> str:
    return f"{name}, {'Zipf' if zipf else 'uniform'}, {rules:,} rules"


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"


class Timed:
    """Something timed with as many events as `LONG` allows; seconds are for one event."""

    def __init__(self, name: str, call: Callable[[int], Any], events: int):
        few = min(events, 16)
        call(few)
        took = min(timed(lambda: call(few))[1] for _ in range(2))
        self.events = int(min(events, max(few, LONG / took * few)))
        self.runner = Runner(name, lambda: timed(lambda: call(self.events)))

    @property
    def each(self) -> float:
        return self.runner.seconds / self.events


def best_of(timeds: list[Timed]) -> None:
    in_turn([t.runner for t in timeds])


# ------------------------------------------------------------ batches


def loaded(world: World, index: str, table: Any) -> tuple[tocsin.Rules, float]:
    start = clock()
    rules = tocsin.Rules(world.schema, index=index)
    rules.add_many(table)
    return rules, clock() - start


def digest(ask: Asked, events: int) -> Digest:
    found = Digest()
    for first, offsets, rules in ask.blocks(events):
        found.add(runs_as_pairs(offsets, rules), first)
    return found


def through_rules(rules: tocsin.Rules, events: Any) -> Callable[[int], Any]:
    return lambda few: rules.match(events.slice(0, few))


def measure_match(document: Document, size: dict[str, Any]) -> None:
    """All rules that hold: each index alone, and through `Rules.match` with an Arrow table."""
    for n, asked in size["match"]:
        for name, zipf in size["cases"]:
            say(f"match: {words(name, zipf, n)}")
            measure_indexes(document, name, words(name, zipf, n), family(name, zipf), n, asked)
            gc.collect()


def measure_indexes(
    document: Document, name: str, what: str, setting: Setting, n: int, asked: int
) -> None:
    world = World(setting)
    table, keys = world.rule_table(world.rules(n)), world.events(asked)
    events = world.event_table(keys)
    held, asks, builds, direct, whole = {}, {}, {}, {}, {}
    for index in NAMES:
        held[index], builds[index] = loaded(world, index, table)
        ((part,),) = (live.segment.parts for live in held[index].snapshot().segments)
        asks[index] = Asked(part.index, keys, len(world.floats))
        direct[index] = Timed(index, asks[index].match, asked)
        whole[index] = Timed(index, through_rules(held[index], events), asked)
        few = whole[index].events
        expected = digest(asks[NAMES[0]], few)
        check(f"{index}, {what}", digest(asks[index], few), expected)
        found, matched = held[index].match(events.slice(0, few)), Digest()
        matched.add(runs_as_pairs(found.offsets, found.rules))
        check(f"{index} through Rules, {what}", matched, expected)
        say(f"  {index}: added in {builds[index]:.1f} s; asked with {few:,} events")
    best_of([*direct.values(), *whole.values()])
    met = digest(asks[NAMES[0]], asked).pairs / asked
    for index in NAMES:
        peer = {"keyed": "counting", "bestar": "exhaustive"}.get(index)
        least = {"keyed": AGAINST_COUNTING[name], "bestar": 1}.get(index)
        each = direct[index].each
        document.match.row(
            what, f"{met:,.0f} ({met / n:.3%})", index, f"{builds[index]:.2f} s",
            f"{held[index].nbytes / n:,.0f}", micro(each),
            f"{direct['counting'].each / each:.2f} x", f"{direct['exhaustive'].each / each:.2f} x",
            micro(whole[index].each), f"{whole['counting'].each / whole[index].each:.2f} x",
            f"at least {least} x {peer}" if peer else "",
            bool(direct[peer].each / each >= least) if peer else None,
        )  # fmt: skip


def measure_top(document: Document, size: dict[str, Any]) -> None:
    """The k best against all that hold, and against scoring all that hold."""
    n, asked = size["top"]
    for name, zipf in size["cases"]:
        world = World(family(name, zipf))
        c, keys = world.rules(n, weighted=True), world.events(asked)
        for index in RANKED:
            say(f"top: {words(name, zipf, n)}, {index}")
            ask = Asked(INDEXES[index].build(c, world.floats), keys, len(world.floats))
            measure_ranked(document, words(name, zipf, n), index, ask, zipf)


def measure_ranked(document: Document, what: str, index: str, ask: Asked, zipf: bool) -> None:
    asked = ask.events
    match = Timed("match", ask.match, asked)
    tops = {k: Timed(f"top-{k}", lambda few, k=k: ask.best(k, few), asked) for k in (1, 5)}
    scans = {k: Timed(f"scan-{k}", lambda few, k=k: ask.scan(k, few), asked) for k in (1, 5)}
    for k, top in tops.items():
        few = min(top.events, scans[k].events)
        check_same(f"{what}, {index}, top-{k}", ask.best(k, few), ask.scan(k, few))
    best_of([match, *tops.values(), *scans.values()])
    for k, top in tops.items():
        over, gain = match.each / top.each, scans[k].each / top.each
        wanted = "at least 1 x match all" + (", 1.5 x scan" if zipf else "")
        met = bool(over >= 1 and (gain >= 1.5 or not zipf))
        judged = (wanted, met) if index == "keyed" else ("", None)
        document.top.row(
            what, f"{index}, top-{k}", micro(match.each), micro(scans[k].each), micro(top.each),
            f"{over:.2f} x", f"{gain:.2f} x", *judged,
        )  # fmt: skip


# ------------------------------------------------------------ building, changing, single events


def measure_build(document: Document, size: dict[str, Any]) -> None:
    n = size["build"]
    for name, zipf in size["cases"]:
        say(f"build: {words(name, zipf, n)}")
        world = World(family(name, zipf))
        c = world.rules(n)
        for index in [i for i in NAMES if i != "exhaustive"]:
            build_row(document, words(name, zipf, n), index, INDEXES[index].build, c, world.floats)
        if "bestar" in INDEXES:
            said = "bestar, inserted one by one"
            build_row(document, words(name, zipf, n), said, grown, c, world.floats)


def build_row(
    document: Document, what: str, index: str, build: Any, c: Conjunctions, floats: np.ndarray
) -> None:
    seconds = float("inf")
    for _ in range(3):
        start = clock()
        made = build(c, floats)
        seconds = min(seconds, clock() - start)
        own = made.nbytes
        del made
        if seconds > 10:
            break
    together = (own + c.nbytes) / MEBI
    judged: tuple[str, bool | None] = ("", None)
    if index == "keyed":
        judged = "at most 5 s, 250 MiB together", seconds <= 5 and together <= 250
    elif build is grown:
        judged = "at most 5 s", seconds <= 5
    document.build.row(
        what, index, f"{seconds:.2f} s", f"{own / MEBI:,.1f} MiB", f"{c.nbytes / MEBI:,.1f} MiB",
        f"{together:,.1f} MiB", *judged,
    )  # fmt: skip


def measure_churn(document: Document, size: dict[str, Any]) -> None:
    """Half of the rules are exchanged, a part at a time; then the same rules from nothing."""
    n, asked = size["churn"]
    index = "keyed" if "keyed" in INDEXES else "counting"
    for name, zipf in size["cases"]:
        what = words(name, zipf, n)
        say(f"churn: {what}")
        world = World(family(name, zipf))
        old, new = world.rules(n), world.rules(n // 2, draw=1)
        events = world.event_table(world.events(asked))
        changed, _ = loaded(world, index, world.rule_table(old))
        added = world.rule_table(new, first=n)
        gone = np.random.default_rng(5).permutation(n)[: n // 2]
        ends = np.linspace(0, n // 2, STEPS + 1).astype(int)
        start = clock()
        for first, stop in pairwise(ends):
            changed.remove_many(gone[first:stop].tolist())
            rows = new.offsets[first], new.offsets[stop]
            changed.add_many(added.slice(rows[0], rows[1] - rows[0]))
        took = clock() - start
        fresh, _ = loaded(world, index, survivors(world, old, added, gone))
        few = events.slice(0, min(asked, 200))
        ids = [rules.match(few).to_arrow().sort_by("rule") for rules in (changed, fresh)]
        pairs = [set(zip(i["event"].to_pylist(), i["rule"].to_pylist())) for i in ids]
        check(f"churn, {what}", pairs[0], pairs[1])
        runners = [Timed("", through_rules(rules, events), asked) for rules in (changed, fresh)]
        best_of(runners)
        ratio = runners[0].each / runners[1].each
        parts = " and ".join(
            f"{p.role} {p.rules:,}" + f" ({p.removed:,} removed)" * bool(p.removed)
            for p in changed.plan().parts
        )
        document.churn.row(
            what, index, f"{took:.1f} s", parts, micro(runners[1].each), micro(runners[0].each),
            f"{ratio:.2f} times", "at most 1.3", ratio <= 1.3,
        )  # fmt: skip
        del changed, fresh, runners
        gc.collect()


def survivors(world: World, old: Any, added: Any, gone: np.ndarray) -> Any:
    """Return the table of what is left, and what was added."""
    stays = np.ones(old.size, bool)
    stays[gone] = False
    rows = np.repeat(stays, np.diff(old.offsets))
    return pa.concat_tables([world.rule_table(old).filter(pa.array(rows)), added])


def measure_one(document: Document, size: dict[str, Any]) -> None:
    n, asked = size["one"]
    index = "keyed" if "keyed" in INDEXES else "counting"
    for name, zipf in size["cases"]:
        what = words(name, zipf, n)
        say(f"one at a time: {what}")
        world = World(family(name, zipf))
        rules, _ = loaded(world, index, world.rule_table(world.rules(n, weighted=True)))
        events = world.event_dicts(world.events(asked))
        took = one_at_a_time(lambda event, rules=rules: rules.top(event, 5), events) * 1e6
        p50, p99 = np.percentile(took, (50, 99))
        document.one.row(
            what, index, f"{p50:,.0f} µs", f"{p99:,.0f} µs", "p99 at most 300 µs", bool(p99 <= 300)
        )
        del rules
        gc.collect()


# ------------------------------------------------------------ what it depends on


def swept(
    document: Document, what: str, label: str, settings: dict[str, Setting], n: int, asked: int
) -> list[float]:
    """Time every index over settings; return the times of the first."""
    times: dict[str, list[float]] = {index: [] for index in NAMES}
    for value, setting in settings.items():
        say(f"{what}: {value}")
        world = World(setting)
        c, keys = world.rules(n), world.events(asked)
        asks = {i: Asked(INDEXES[i].build(c, world.floats), keys, len(world.floats)) for i in NAMES}
        timeds = {i: Timed(i, ask.match, asked) for i, ask in asks.items()}
        for index in NAMES[1:]:
            few = timeds[index].events
            check(f"{index}, {value}", digest(asks[index], few), digest(asks[NAMES[0]], few))
        best_of(list(timeds.values()))
        for index, each in timeds.items():
            times[index].append(each.each)
        met = digest(asks[NAMES[0]], asked).pairs / asked
        document.swept.row(
            f"{label}, {value} {what}", f"{met:,.0f}",
            *[micro(times[i][-1]) if i in times else "" for i in SWEPT],
        )  # fmt: skip
    return times[NAMES[0]]


def measure_flat(document: Document, size: dict[str, Any]) -> None:
    n, asked = size["flat"]
    target = document.targets.at_most
    for zipf in (False, True):
        for what, field, values in (
            ("values in a dimension", "cardinality", size["cardinalities"]),
            ("dimensions", "dimensions", size["dimensions"]),
        ):
            settings = {f"{v:,}": family("A", zipf, **{field: v}) for v in values}
            label = words("A", zipf, n)
            times = swept(document, what, label, settings, n, asked)
            if field == "cardinality":
                ratio, said = max(times) / min(times), "slowest over fastest"
            else:
                ratio, said = max(times) / times[0], f"slowest over {values[0]}"
            target(f"{NAMES[0]}: {label}, {values[0]:,} to {values[-1]:,} {what}: {said}",
                   ratio, 1.2, "times")  # fmt: skip


def measure_growth(document: Document, size: dict[str, Any]) -> None:
    """Time per event as rules grow and what an event meets does not.

    Either nothing else changes: then rules crowd more and more on the same values, and every value
    of an event satisfies predicates in proportion to the rules. Or there are more clusters in
    proportion: then it satisfies as many as before, and what grows is the memory.
    """
    for name, zipf in size["cases"]:
        for said, spread in (("same number of clusters", False), ("clusters in proportion", True)):
            grow(document, name, zipf, said, spread, size)


def grow(
    document: Document, name: str, zipf: bool, said: str, spread: bool, size: dict[str, Any]
) -> None:
    index, each, first = NAMES[0], [], size["growth"][0]
    for n in size["growth"]:
        what = f"{words(name, zipf, n)}, {said}"
        say(f"growth: {what}")
        setting = replace(family(name, zipf), match=size["matches"] / n)
        if spread:
            setting = replace(setting, clusters=setting.clusters * n // first)
        world = World(setting)
        c, keys = world.rules(n), world.events(size["growth_events"])
        start = clock()
        ask = Asked(INDEXES[index].build(c, world.floats), keys, len(world.floats))
        build = clock() - start
        match = Timed(index, ask.match, keys.size)
        best_of([match])
        each.append(match.each)
        met = digest(ask, match.events).pairs / match.events
        document.growth.row(
            what, f"{met:,.1f}", f"{build:.2f} s", f"{ask.nbytes / n:,.0f}", f"{c.nbytes / n:,.0f}",
            micro(match.each), f"{match.each / each[0]:.2f}",
        )  # fmt: skip
        del ask, c, keys, match
        gc.collect()
    what = (
        f"{index}: {words(name, zipf, first)} to {size['growth'][-1]:,}, the same matches, {said}"
    )
    document.targets.at_most(f"{what}: growth", each[-1] / each[0], 4, "times per event")


MEASURES = {
    "match": measure_match, "top": measure_top, "build": measure_build, "churn": measure_churn,
    "one": measure_one, "flat": measure_flat, "growth": measure_growth,
}  # fmt: skip
SWEPT = ("keyed", "counting", "bestar", "exhaustive")


class Document:
    def __init__(self, size: str):
        self.size = size
        self.match = Section(
            "All matches", "workload", "matches per event", "index", "add_many",
            "bytes per rule", "time per event", "over counting", "over exhaustive",
            "Rules.match, per event", "over counting", "target", "met",
            note="Time per event: index and accept only, with events as keys and reused memory; "
            "targets are for this column. Rules.match: reads an Arrow table of maps and returns "
            "new ids and offsets. Bytes are those of the index and the conjunctions.",
        )  # fmt: skip
        self.top = Section(
            "The k best", "workload", "index and k", "match all", "scan: score all matches",
            "top", "match all / top", "scan / top", "target", "met",
            note="Weights by inverse frequency, events as keys, reused memory. Scan finds and "
            "scores all matches and keeps the k best, without pruning.",
        )  # fmt: skip
        self.build = Section(
            "Building an index over conjunctions", "workload", "index", "seconds", "index alone",
            "conjunctions", "together", "target", "met", note="Conjunctions without weights.",
        )  # fmt: skip
        self.churn = Section(
            "Half of the rules exchanged", "workload", "index", "exchange", "segments",
            "match, new build", "match, afterwards", "ratio", "target", "met",
            note=f"With `Rules`, in {STEPS} steps; each removes some rules and adds as many. The "
            "new build has the same rules.",
        )  # fmt: skip
        self.one = Section(
            "One event at a time from Python: rules.top(event, 5)", "workload", "index", "p50",
            "p99", "target", "met",
        )  # fmt: skip
        self.targets = Section("Scaling", "task", "Tocsin", "target", "met")
        self.swept = Section(
            "Cardinality and dimensions", "workload", "matches per event", *SWEPT,
            note="Time per event, with events as keys and reused memory.",
        )  # fmt: skip
        self.growth = Section(
            "Growth at the same number of matches", "workload", "matches per event", "build",
            "index, bytes per rule", "conjunctions, bytes per rule", "time per event",
            "relative to the first",
        )  # fmt: skip

    @property
    def sections(self) -> list[Section]:
        all_of_them = (
            self.match, self.top, self.build, self.churn, self.one, self.targets, self.swept,
            self.growth,
        )  # fmt: skip
        return [section for section in all_of_them if section.rows]

    def write(self, path: Path) -> None:
        head = [
            "# Benchmark: Boolean expressions",
            "",
            "Generated by `make bench` (benchmarks/boolean_matching.py). The workloads are in",
            "benchmarks/boolean_workloads.py, which explains how matches are planted: 400",
            "dimensions, rules of 5 to 11 ranges, events of 13 to 17 values, 4 clusters of 100",
            "values in a domain of 250 million. A: ranges of 1 to 9 values. B: ranges of 70 to 80",
            "values. Every event is drawn independently.",
            "",
            "One thread on one core; times are the best of several repetitions, with all indexes",
            "taking turns. Matches are compared by number and hash of the pairs, the k best by",
            "rule, score and order.",
            "",
            f"Size {self.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{versions('numpy numba pyarrow')}.",
        ]
        write(path, head, self.sections)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument(
        "--only", help=f"some of {', '.join(MEASURES)}, with commas between; the rest stays"
    )
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(MEASURES)
    if unknown := set(only) - set(MEASURES):
        parser.error(f"there is no {', '.join(sorted(unknown))} ({', '.join(MEASURES)})")
    alone()
    tocsin.Rules({"x": "number"})  # imports all kernels
    jit.compile_all()
    touch((4 << 30) if arguments.size == "full" else 4 << 20)
    document = Document(arguments.size)
    for name in only:
        MEASURES[name](document, SIZES[arguments.size])
        gc.collect()
        if arguments.out:
            document.write(arguments.out)  # what is measured is measured
    show(f"Boolean expressions, size {arguments.size}", document.sections)


if __name__ == "__main__":
    main()
