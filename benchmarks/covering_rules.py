"""Covering among many rules at once: lint, and matching by what covers what."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.real_workloads import FAMILIES, load_events, make_family
from benchmarks.tables import Section
from benchmarks.timing import Runner, check, clock, log, run_in_turns
from tocsin import Rules

LINT = {"tiny": 300, "full": 1_000_000}
BY_HAND = {"tiny": 200, "full": 30_000}
TARGET_SECONDS = 60.0
# Name, dimensions, and the longest side; None: sides between two random points.
BOXES = (
    ("fences", 2, 0.01), ("price bands", 2, None), ("4 attributes", 4, 0.1),
    ("8 attributes", 8, None),
)  # fmt: skip
NESTED = (("2 attributes", 2, 0.01), ("4 attributes", 4, 0.2), ("8 attributes", 8, 0.5))
ROOTS, BELOW, EVENTS = (
    {"tiny": 10, "full": 1_000}, {"tiny": 9, "full": 99}, {"tiny": 50, "full": 20_000}
)  # fmt: skip


def make_boxes(n: int, d: int, side: float | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if side is None:
        low, high = np.sort(rng.random((2, n, d)), axis=0)
        return low, high
    low = rng.random((n, d))
    return low, low + rng.random((n, d)) * side


def to_table(low: np.ndarray, high: np.ndarray) -> pa.Table:
    columns: dict[str, Any] = {"id": np.arange(len(low))}
    for j in range(low.shape[1]):
        columns |= {f"a{j}_low": low[:, j], f"a{j}_high": high[:, j]}
    return pa.table(columns)


def make_rules(low: np.ndarray, high: np.ndarray, index: str = "auto") -> Rules:
    rules = Rules({f"a{j}": "number" for j in range(low.shape[1])}, index=index)
    rules.add_many(to_table(low, high))
    rules.snapshot()
    return rules


# ------------------------------------------------------------ lint


def measure_lint(size: str) -> Section:
    """Use all cores."""
    section = Section(
        "Lint: seconds for all rules",
        "rules", "Tocsin", "redundant", "DuckDB", "target", "met",
        note="`Rules.lint()` on all cores, once, without loading the rules. Fences are at most\n"
        "0.01 wide; 4 attributes, at most 0.1; the others have two random ends in each dimension.\n"
        "DuckDB, with the query by hand (a semi-join with inequalities), has only\n"
        f"{BY_HAND[size]:,} of the rules. Real rules are those of the\n"
        "[benchmark of real rules](benchmarks-real-rules.md), with the flights or the weather as\n"
        "`events`.",
    )  # fmt: skip
    make_rules(*make_boxes(100, 2, None, 0)).lint()
    for name, d, side in BOXES:
        n = LINT[size] if d < 8 else LINT[size] // 10
        log(f"lint: {n:,} {name}")
        low, high = make_boxes(n, d, side, 1)
        rules = make_rules(low, high, "exhaustive")
        start = clock()
        found = _redundant(rules.lint())
        seconds = clock() - start
        few = BY_HAND[size]
        by_hand, expected = _lint_by_hand(low[:few], high[:few])
        fewer = make_rules(low[:few], high[:few], "exhaustive")
        check(f"{name} covered", _redundant(fewer.lint()), expected)
        has_target = n >= 1_000_000
        section.add_row(
            f"{n:,} {name}", f"{seconds:.2f}", f"{found / n:.1%}", f"{by_hand:.2f}",
            f"at most {TARGET_SECONDS:g}" if has_target else "",
            seconds <= TARGET_SECONDS if has_target else None,
        )  # fmt: skip
    for name in FAMILIES:
        family = make_family(name, 1 if size == "full" else 50)
        real = Rules(family.schema)
        real.add_many(family.texts())
        events = load_events(family.table).slice(0, None if size == "full" else 100)
        start = clock()
        found = _redundant(real.lint(events))
        seconds = clock() - start
        section.add_row(
            f"{len(real):,} real rules: {name}", f"{seconds:.2f}", f"{found / len(real):.1%}", "",
            "", None,
        )  # fmt: skip
    return section


def _redundant(findings: pa.Table) -> int:
    kinds = findings.column("finding").to_pylist()
    return kinds.count("covered") + kinds.count("duplicate")


def _lint_by_hand(low: np.ndarray, high: np.ndarray) -> tuple[float, int]:
    """Return the time that DuckDB takes to find covered boxes, and how many there are."""
    import duckdb

    table = to_table(low, high)
    inside = " AND ".join(
        f"o.a{j}_low <= r.a{j}_low AND o.a{j}_high >= r.a{j}_high" for j in range(low.shape[1])
    )
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE rules AS SELECT * FROM given")
    start = clock()
    (count,) = connection.execute(
        f"SELECT count(*) FROM rules r WHERE EXISTS (FROM rules o WHERE {inside} AND o.id <> r.id)"
    ).fetchone() or (0,)
    return clock() - start, int(count)


# ------------------------------------------------------------ matching


def measure_nested(size: str) -> Section:
    section = Section(
        "Matching what nothing covers first: microseconds per event",
        "rules", "auto", "chosen", "nested", "auto / nested", "matches", "load auto, s",
        "load nested, s",
        note=f"{ROOTS[size]:,} boxes with sides of 0.01, 0.2 and 0.5, and {BELOW[size]:,} in\n"
        "each of them; or as many boxes with random ends, of which few are covered. `count`, one\n"
        'core. `Rules(schema, index="nested")` looks at boxes inside another one only if that\n'
        "one holds; `auto` does not choose it. Loading includes building the index.",
    )  # fmt: skip
    rng = np.random.default_rng(3)
    for name, d, side in NESTED:
        outer = rng.random((ROOTS[size], 1, d)) * (1 - side)
        inner = np.sort(rng.random((2, ROOTS[size], BELOW[size], d)), axis=0) * side
        low, high = (
            np.concatenate([ends.reshape(-1, d), (outer + own).reshape(-1, d)])
            for ends, own in ((outer, inner[0]), (outer + side, inner[1]))
        )
        _compare(section, f"{len(low):,} nested, {name}", low, high, EVENTS[size])
    low, high = make_boxes(ROOTS[size] * (BELOW[size] + 1), 4, 0.1, 4)
    _compare(section, f"{len(low):,} not nested, 4 attributes", low, high, EVENTS[size])
    return section


def _compare(section: Section, name: str, low: np.ndarray, high: np.ndarray, n: int) -> None:
    log(name)
    times = [clock()]
    chosen = make_rules(low, high)
    times.append(clock())
    nested = make_rules(low, high, "nested")
    times.append(clock())
    points = np.random.default_rng(5).random((low.shape[1], n))
    events = pa.table({f"a{j}": column for j, column in enumerate(points)})

    def once(rules: Rules) -> tuple[float, float]:
        start = clock()
        rules.count(events, threads=1)
        return 0.0, clock() - start

    check(name, nested.count(events).tolist(), chosen.count(events).tolist())
    runners = [Runner(str(i), functools.partial(once, r)) for i, r in enumerate((chosen, nested))]
    run_in_turns(runners, most=5)
    micros = [1e6 * runner.seconds / n for runner in runners]
    section.add_row(
        name, f"{micros[0]:.2f}", str(chosen.plan()).split()[1], f"{micros[1]:.2f}",
        f"{micros[0] / micros[1]:.2f}", f"{chosen.count(events).mean():.1f}",
        *(f"{seconds:.2f}" for seconds in np.diff(times)),
    )  # fmt: skip
