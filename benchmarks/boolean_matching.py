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
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.boolean_report import STEPS, SWEPT, Document
from benchmarks.boolean_workloads import Setting, World, family
from benchmarks.index_search import IndexSearch, build_by_insertion, check_same
from benchmarks.tables import show
from benchmarks.timing import (
    Digest,
    Runner,
    check,
    clock,
    compile_kernels,
    log,
    run_in_turns,
    runs_as_pairs,
    time_call,
    time_each,
    touch_memory,
    use_one_core,
)
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions, take

NAMES = ["keyed", "counting", "bestar", "exhaustive"]
RANKED = [name for name in NAMES if INDEXES[name].prunes]
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
_INSERTED = 1_000  # rules that are inserted one by one
AGAINST_COUNTING = {"A": 2, "B": 5}  # targets: times as fast as counting
LONG = 1.0  # seconds per repetition
MEBI = 1 << 20


def describe(name: str, zipf: bool, rules: int) -> str:
    return f"{name}, {'Zipf' if zipf else 'uniform'}, {rules:,} rules"


def format_microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"


class Measurement:
    """A call that is timed with as many events as `LONG` allows."""

    def __init__(self, name: str, call: Callable[[int], Any], events: int):
        few = min(events, 16)
        call(few)
        seconds = min(time_call(lambda: call(few))[1] for _ in range(2))
        self.events = int(min(events, max(few, LONG / seconds * few)))
        self.runner = Runner(name, lambda: time_call(lambda: call(self.events)))

    @property
    def per_event(self) -> float:
        """The seconds per event."""
        return self.runner.seconds / self.events


def run_measurements(measurements: list[Measurement]) -> None:
    run_in_turns([m.runner for m in measurements])


# ------------------------------------------------------------ batches


def load_rules(world: World, index: str, table: Any) -> tuple[tocsin.Rules, float]:
    start = clock()
    rules = tocsin.Rules(world.schema, index=index)
    rules.add_many(table)
    return rules, clock() - start


def compute_digest(search: IndexSearch, events: int) -> Digest:
    digest = Digest()
    for first, offsets, rules in search.blocks(events):
        digest.add(runs_as_pairs(offsets, rules), first)
    return digest


def match_call(rules: tocsin.Rules, events: Any) -> Callable[[int], Any]:
    return lambda few: rules.match(events.slice(0, few))


def measure_match(document: Document, size: dict[str, Any]) -> None:
    """Measure all matches, with each index alone and with `Rules.match` of an Arrow table."""
    for n, events_count in size["match"]:
        for name, zipf in size["cases"]:
            log(f"match: {describe(name, zipf, n)}")
            setting = family(name, zipf)
            measure_indexes(document, name, describe(name, zipf, n), setting, n, events_count)
            gc.collect()


def measure_indexes(
    document: Document, name: str, workload: str, setting: Setting, n: int, events_count: int
) -> None:
    world = World(setting)
    table, keys = world.rule_table(world.rules(n)), world.events(events_count)
    events = world.event_table(keys)
    rules, searches, builds, direct, whole = {}, {}, {}, {}, {}
    for index in NAMES:
        rules[index], builds[index] = load_rules(world, index, table)
        ((part,),) = (live.segment.parts for live in rules[index].snapshot().segments)
        searches[index] = IndexSearch(part.index, keys, len(world.floats))
        direct[index] = Measurement(index, searches[index].match, events_count)
        whole[index] = Measurement(index, match_call(rules[index], events), events_count)
        few = whole[index].events
        expected = compute_digest(searches[NAMES[0]], few)
        check(f"{index}, {workload}", compute_digest(searches[index], few), expected)
        matches, digest = rules[index].match(events.slice(0, few)), Digest()
        digest.add(runs_as_pairs(matches.offsets, matches.rules))
        check(f"{index} with Rules, {workload}", digest, expected)
        log(f"  {index}: added in {builds[index]:.1f} s; measured with {few:,} events")
    run_measurements([*direct.values(), *whole.values()])
    pairs = compute_digest(searches[NAMES[0]], events_count).pairs / events_count
    for index in NAMES:
        peer = {"keyed": "counting", "bestar": "exhaustive"}.get(index)
        target = {"keyed": AGAINST_COUNTING[name], "bestar": 1}.get(index)
        seconds = direct[index].per_event
        ratios = {other: direct[other].per_event / seconds for other in direct}
        document.match.add_row(
            workload, f"{pairs:,.0f} ({pairs / n:.3%})", index, f"{builds[index]:.2f} s",
            f"{rules[index].nbytes / n:,.0f}", format_microseconds(seconds),
            f"{ratios['counting']:.2f} x", f"{ratios['exhaustive']:.2f} x",
            format_microseconds(whole[index].per_event),
            f"{whole['counting'].per_event / whole[index].per_event:.2f} x",
            f"at least {target} x {peer}" if peer else "",
            bool(ratios[peer] >= target) if peer else None,
        )  # fmt: skip


def measure_top(document: Document, size: dict[str, Any]) -> None:
    """Measure the k best, all matches, and scoring all matches."""
    n, events_count = size["top"]
    for name, zipf in size["cases"]:
        world = World(family(name, zipf))
        c, keys = world.rules(n, weighted=True), world.events(events_count)
        for index in RANKED:
            log(f"top: {describe(name, zipf, n)}, {index}")
            search = IndexSearch(INDEXES[index].build(c, world.floats), keys, len(world.floats))
            measure_ranked(document, describe(name, zipf, n), index, search, zipf)


def measure_ranked(
    document: Document, workload: str, index: str, search: IndexSearch, zipf: bool
) -> None:
    match = Measurement("match", search.match, search.events)
    tops, scans = {}, {}
    for k in (1, 5):
        call = partial(search.find_best, k)
        tops[k] = Measurement(f"top-{k}", call, search.events)
        scans[k] = Measurement(f"scan-{k}", partial(search.scan_best, k), search.events)
        few = min(tops[k].events, scans[k].events)
        found, expected = search.find_best(k, few), search.scan_best(k, few)
        check_same(f"{workload}, {index}, top-{k}", found, expected)
    run_measurements([match, *tops.values(), *scans.values()])
    for k, top in tops.items():
        over_match, over_scan = match.per_event / top.per_event, scans[k].per_event / top.per_event
        target = "at least 1 x match all" + (", 1.5 x scan" if zipf else "")
        is_met = bool(over_match >= 1 and (over_scan >= 1.5 or not zipf))
        times = (match.per_event, scans[k].per_event, top.per_event)
        document.top.add_row(
            workload, f"{index}, top-{k}", *map(format_microseconds, times),
            f"{over_match:.2f} x", f"{over_scan:.2f} x",
            *((target, is_met) if index == "keyed" else ("", None)),
        )  # fmt: skip


# ------------------------------------------------------------ building, changing, single events


def measure_build(document: Document, size: dict[str, Any]) -> None:
    n = size["build"]
    for name, zipf in size["cases"]:
        log(f"build: {describe(name, zipf, n)}")
        world = World(family(name, zipf))
        c = world.rules(n)
        for index in [i for i in NAMES if i != "exhaustive"]:
            build = INDEXES[index].build
            measure_one_build(document, describe(name, zipf, n), index, build, c, world.floats)
        label = "bestar, inserted one by one"
        workload = describe(name, zipf, n)
        measure_one_build(document, workload, label, build_by_insertion, c, world.floats)
        measure_insertions(document, workload, c, world.floats)


def measure_insertions(
    document: Document, workload: str, c: Conjunctions, floats: np.ndarray
) -> None:
    """Insert rules into a BE*-tree of the others, one call from Python for each."""
    last = max(c.size - _INSERTED, 0)
    tree = INDEXES["bestar"].build(take(c, np.arange(last)), floats)
    more = [take(c, np.array([number])) for number in range(last, c.size)]
    tree.insert(more[0])  # copies all conjunctions, once
    seconds = time_each(tree.insert, more[1:])
    document.build.add_row(
        workload, "bestar, one more rule", f"{np.median(seconds) * 1e6:.1f} microseconds (median)",
        "", "", "", "", None,
    )  # fmt: skip


def measure_one_build(
    document: Document, workload: str, index: str, build: Any, c: Conjunctions, floats: np.ndarray
) -> None:
    seconds = float("inf")
    for _ in range(3):
        start = clock()
        built = build(c, floats)
        seconds = min(seconds, clock() - start)
        nbytes = built.nbytes
        del built
        if seconds > 10:
            break
    together = (nbytes + c.nbytes) / MEBI
    target: tuple[str, bool | None] = ("", None)
    if index == "keyed":
        target = "at most 5 s, 250 MiB together", seconds <= 5 and together <= 250
    elif build is build_by_insertion:
        target = "at most 5 s", seconds <= 5
    document.build.add_row(
        workload, index, f"{seconds:.2f} s", f"{nbytes / MEBI:,.1f} MiB",
        f"{c.nbytes / MEBI:,.1f} MiB", f"{together:,.1f} MiB", *target,
    )  # fmt: skip


def measure_churn(document: Document, size: dict[str, Any]) -> None:
    """Exchange half of the rules in steps, and compare with a new build of the same rules."""
    n, events_count = size["churn"]
    index = "keyed"
    for name, zipf in size["cases"]:
        workload = describe(name, zipf, n)
        log(f"churn: {workload}")
        world = World(family(name, zipf))
        old, new = world.rules(n), world.rules(n // 2, draw=1)
        events = world.event_table(world.events(events_count))
        changed, _ = load_rules(world, index, world.rule_table(old))
        added = world.rule_table(new, first=n)
        removed = np.random.default_rng(5).permutation(n)[: n // 2]
        ends = np.linspace(0, n // 2, STEPS + 1).astype(int)
        start = clock()
        for first, stop in pairwise(ends):
            changed.remove_many(removed[first:stop].tolist())
            rows = new.offsets[first], new.offsets[stop]
            changed.add_many(added.slice(rows[0], rows[1] - rows[0]))
        seconds = clock() - start
        fresh, _ = load_rules(world, index, remaining_table(world, old, added, removed))
        few = events.slice(0, min(events_count, 200))
        tables = [rules.match(few).to_arrow() for rules in (changed, fresh)]
        pairs = [set(zip(t["event"].to_pylist(), t["rule"].to_pylist())) for t in tables]
        check(f"churn, {workload}", pairs[0], pairs[1])
        measurements = [
            Measurement("", match_call(rules, events), events_count) for rules in (changed, fresh)
        ]
        run_measurements(measurements)
        after, before = (m.per_event for m in measurements)
        parts = " and ".join(
            f"{p.role} {p.rules:,}" + f" ({p.removed:,} removed)" * bool(p.removed)
            for p in changed.plan().parts
        )
        document.churn.add_row(
            workload, index, f"{seconds:.1f} s", parts, format_microseconds(before),
            format_microseconds(after), f"{after / before:.2f} times", "at most 1.3",
            after / before <= 1.3,
        )  # fmt: skip
        del changed, fresh, measurements
        gc.collect()


def remaining_table(world: World, old: Any, added: Any, removed: np.ndarray) -> Any:
    """Return the table of the rules that were not removed, and of the added ones."""
    is_kept = np.ones(old.size, bool)
    is_kept[removed] = False
    rows = np.repeat(is_kept, np.diff(old.offsets))
    return pa.concat_tables([world.rule_table(old).filter(pa.array(rows)), added])


def measure_one(document: Document, size: dict[str, Any]) -> None:
    n, events_count = size["one"]
    index = "keyed"
    for name, zipf in size["cases"]:
        workload = describe(name, zipf, n)
        log(f"one at a time: {workload}")
        world = World(family(name, zipf))
        rules, _ = load_rules(world, index, world.rule_table(world.rules(n, weighted=True)))
        events = world.event_dicts(world.events(events_count))
        seconds = time_each(lambda event, rules=rules: rules.top(event, 5), events)
        p50, p99 = np.percentile(seconds, (50, 99)) * 1e6
        document.one.add_row(
            workload,
            index,
            f"{p50:,.0f} µs",
            f"{p99:,.0f} µs",
            "p99 at most 300 µs",
            bool(p99 <= 300),
        )
        del rules
        gc.collect()


# ------------------------------------------------------------ scaling


def sweep(
    document: Document,
    parameter: str,
    workload: str,
    settings: dict[str, Setting],
    n: int,
    events_count: int,
) -> list[float]:
    """Time all indexes along settings; return the times of the first index."""
    times: dict[str, list[float]] = {index: [] for index in NAMES}
    for value, setting in settings.items():
        log(f"{parameter}: {value}")
        world = World(setting)
        c, keys = world.rules(n), world.events(events_count)
        indexes = {name: INDEXES[name].build(c, world.floats) for name in NAMES}
        searches = {
            name: IndexSearch(index, keys, len(world.floats)) for name, index in indexes.items()
        }
        measurements = {
            name: Measurement(name, search.match, events_count) for name, search in searches.items()
        }
        for name in NAMES[1:]:
            few = measurements[name].events
            expected = compute_digest(searches[NAMES[0]], few)
            check(f"{name}, {value}", compute_digest(searches[name], few), expected)
        run_measurements(list(measurements.values()))
        for name, measurement in measurements.items():
            times[name].append(measurement.per_event)
        pairs = compute_digest(searches[NAMES[0]], events_count).pairs / events_count
        document.swept.add_row(
            f"{workload}, {value} {parameter}", f"{pairs:,.0f}",
            *[format_microseconds(times[i][-1]) if i in times else "" for i in SWEPT],
        )  # fmt: skip
    return times[NAMES[0]]


def measure_flat(document: Document, size: dict[str, Any]) -> None:
    n, events_count = size["flat"]
    for zipf in (False, True):
        for parameter, field, values in (
            ("values in a dimension", "cardinality", size["cardinalities"]),
            ("dimensions", "dimensions", size["dimensions"]),
        ):
            settings = {f"{v:,}": family("A", zipf, **{field: v}) for v in values}
            workload = describe("A", zipf, n)
            times = sweep(document, parameter, workload, settings, n, events_count)
            if field == "cardinality":
                ratio, label = max(times) / min(times), "slowest over fastest"
            else:
                ratio, label = max(times) / times[0], f"slowest over {values[0]}"
            task = f"{NAMES[0]}: {workload}, {values[0]:,} to {values[-1]:,} {parameter}: {label}"
            document.targets.add_limit(task, ratio, 1.2, "times")


def measure_growth(document: Document, size: dict[str, Any]) -> None:
    """Measure the time per event as the number of rules grows and that of matches does not.

    If the number of clusters stays the same, more rules test the same values, and a value of an
    event satisfies predicates in proportion to the rules. If the number of clusters grows with the
    rules, the number of satisfied predicates stays the same, and only memory grows.
    """
    for name, zipf in size["cases"]:
        measure_growth_of(document, name, zipf, "same number of clusters", size)
        measure_growth_of(document, name, zipf, "clusters in proportion", size)


def measure_growth_of(
    document: Document, name: str, zipf: bool, label: str, size: dict[str, Any]
) -> None:
    index, times, first = NAMES[0], [], size["growth"][0]
    for n in size["growth"]:
        workload = f"{describe(name, zipf, n)}, {label}"
        log(f"growth: {workload}")
        setting = replace(family(name, zipf), match=size["matches"] / n)
        if label == "clusters in proportion":
            setting = replace(setting, clusters=setting.clusters * n // first)
        world = World(setting)
        c, keys = world.rules(n), world.events(size["growth_events"])
        start = clock()
        search = IndexSearch(INDEXES[index].build(c, world.floats), keys, len(world.floats))
        build = clock() - start
        match = Measurement(index, search.match, keys.size)
        run_measurements([match])
        times.append(match.per_event)
        pairs = compute_digest(search, match.events).pairs / match.events
        document.growth.add_row(
            workload, f"{pairs:,.1f}", f"{build:.2f} s", f"{search.nbytes / n:,.0f}",
            f"{c.nbytes / n:,.0f}", format_microseconds(times[-1]), f"{times[-1] / times[0]:.2f}",
        )  # fmt: skip
        del search, c, keys, match
        gc.collect()
    last = size["growth"][-1]
    task = f"{index}: {describe(name, zipf, first)} to {last:,}, the same matches, {label}: growth"
    document.targets.add_limit(task, times[-1] / times[0], 4, "times per event")


MEASURES = {
    "match": measure_match, "top": measure_top, "build": measure_build, "churn": measure_churn,
    "one": measure_one, "flat": measure_flat, "growth": measure_growth,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument(
        "--only", help=f"comma-separated: {', '.join(MEASURES)}; other results are kept"
    )
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(MEASURES)
    if unknown := set(only) - set(MEASURES):
        parser.error(f"there is no {', '.join(sorted(unknown))} ({', '.join(MEASURES)})")
    use_one_core()
    compile_kernels(arguments.size)
    touch_memory((4 << 30) if arguments.size == "full" else 4 << 20)
    document = Document(arguments.size)
    for name in only:
        MEASURES[name](document, SIZES[arguments.size])
        gc.collect()
        if arguments.out:
            document.write(arguments.out)  # after each measurement, in case a later one fails
    show(f"Boolean expressions, size {arguments.size}", document.sections)


if __name__ == "__main__":
    main()
