"""Loading rules, converting events and exhaustive search, compared with NumPy.

    python -m benchmarks.spine [--size tiny|full] [--out docs/benchmarks.md]

Everything runs on one core in one process. Each figure is the best of several repetitions, with
Tocsin and its peers taking turns. Results are checked to be equal. `tiny` only shows that the
benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import tocsin
from benchmarks.timing import compile_kernels

SIZES = {
    "tiny": {
        "boxes": 2_000,
        "texts": 400,
        "sparse": 500,
        "cross": 200,
        "keys": 10_000,
        "changes": 300,
        "stored": 2_000,
    },
    "full": {
        "boxes": 1_000_000,
        "texts": 100_000,
        "sparse": 1_000_000,
        "cross": 10_000,
        "keys": 10_000_000,
        "changes": 100_000,
        "stored": 200_000,
    },
}
NAMES = [f"a{i}" for i in range(400)]
HEADINGS = ("task", "Tocsin", "peer or target", "ratio")
REPETITIONS = 5


def best(*calls: Callable[[], Any], repetitions: int = REPETITIONS) -> list[float]:
    """Return the least seconds of each call; the calls take turns."""
    seconds = [float("inf")] * len(calls)
    for _ in range(repetitions):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[i] = min(seconds[i], time.perf_counter() - start)
    return seconds


# ------------------------------------------------------------ data


def box_rules(n: int, rng: np.random.Generator) -> pa.Table:
    low = rng.random((2, n))
    high = low + 0.02 * rng.random((2, n))
    return pa.table(
        {"id": np.arange(n), "x_low": low[0], "x_high": high[0], "y_low": low[1], "y_high": high[1]}
    )


def text_rules(n: int, rng: np.random.Generator) -> pa.Table:
    tests = [
        "x > {a}",
        "x BETWEEN {a} AND {b}",
        "NOT (x > {a} AND y < {b})",
        "x IN ({a}, {b}, 5)",
    ]
    ends = [
        "",
        " AND tier = '{t}'",
        " OR tier IN ('{t}', 'gold')",
        " AND y <> {b}",
        " AND seen IS NULL",
    ]
    shapes = [test + end for test in tests for end in ends]
    assert len(shapes) == 20
    a, b = rng.random(n).round(6), rng.random(n).round(6)
    where = [shapes[i % 20].format(a=a[i], b=b[i], t=f"tier{i % 1000}") for i in range(n)]
    return pa.table({"id": np.arange(n), "where": where})


def sparse_rules(n: int, rng: np.random.Generator) -> pa.Table:
    """Return rules of 8 predicates over 400 attributes; ranges are a tenth of the domain."""
    start = rng.integers(0, 400, n)
    attribute = ((start[:, None] + np.arange(8) * 37) % 400).astype(np.int32).ravel()
    low = rng.random(8 * n)
    names = pa.DictionaryArray.from_arrays(pa.array(attribute), pa.array(NAMES))
    return pa.table(
        {"id": np.repeat(np.arange(n), 8), "attribute": names, "low": low, "high": low + 0.1}
    )


# ------------------------------------------------------------ peers


def numpy_blocks(low, high, events, rows, fold) -> list[Any]:
    """Apply `fold` to blocks of matches; the fastest NumPy we know: no temporaries, small tiles."""
    n = low[0].shape[0]
    mask, other = np.empty((rows, n), bool), np.empty((rows, n), bool)
    out = []
    for start in range(0, events[0].shape[0], rows):
        keys = [e[start : start + rows, None] for e in events]
        m, o = mask[: len(keys[0])], other[: len(keys[0])]
        np.less_equal(low[0], keys[0], out=m)
        np.less_equal(keys[0], high[0], out=o)
        np.bitwise_and(m, o, out=m)
        for i in range(1, len(events)):
            np.less_equal(low[i], keys[i], out=o)
            np.bitwise_and(m, o, out=m)
            np.less_equal(keys[i], high[i], out=o)
            np.bitwise_and(m, o, out=m)
        out.append(fold(m, start))
    return out


def numpy_count(low, high, events, rows=16) -> np.ndarray:
    counts = numpy_blocks(low, high, events, rows, lambda m, _: np.count_nonzero(m, axis=1))
    return np.concatenate(counts)


def numpy_match(low, high, events, rows=16) -> tuple[np.ndarray, np.ndarray]:
    n = low[0].shape[0]

    def pairs(mask, start):
        return divmod(np.flatnonzero(mask) + start * n, n)

    blocks = numpy_blocks(low, high, events, rows, pairs)
    return np.concatenate([e for e, _ in blocks]), np.concatenate([r for _, r in blocks])


# ------------------------------------------------------------ measurements


class Report:
    def __init__(self, title: str, source: str, size: str):
        self.title, self.source, self.size = title, source, size
        self.rows: list[tuple[str, str, str, str]] = []

    def add_comparison(self, task: str, ours: float, peer: float, name: str) -> None:
        ratio = f"{peer / ours:.1f} x"
        self.rows.append((task, f"{ours * 1e3:,.1f} ms", f"{name} {peer * 1e3:,.1f} ms", ratio))

    def add_target(self, task: str, ours: float, target: float, unit: str) -> None:
        row = f"{ours:,.3g} {unit}", f"target {target:g} {unit}", f"{target / ours:.1f} x"
        self.rows.append((task, *row))

    def add_share(self, task: str, ours: float, target: float) -> None:
        row = f"{ours:.0%}", f"target at least {target:.0%}", f"{ours / target:.1f} x"
        self.rows.append((task, *row))

    def show(self) -> None:
        table = Table(title=f"{self.title}, size {self.size}")
        for name in HEADINGS:
            table.add_column(name, justify="left" if name == "task" else "right")
        for row in self.rows:
            table.add_row(*row)
        Console(width=110).print(table)

    def write(self, path: Path) -> None:
        lines = [
            f"# Benchmark: {self.title}",
            "",
            f"Generated by `make bench` ({self.source}). Times are the best of several",
            "repetitions, with Tocsin and its peers taking turns. A ratio above 1 is in Tocsin's",
            "favour.",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
            f"Numba {numba.__version__}.",
            "",
            "| " + " | ".join(HEADINGS) + " |",
            "|---|---:|---:|---:|",
        ]
        lines += ["| " + " | ".join(cell.strip() for cell in row) + " |" for row in self.rows]
        path.write_text("\n".join(lines) + "\n")


def measure_import(report: Report) -> None:
    code = "import time; s = time.perf_counter(); import tocsin; print(time.perf_counter() - s)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(REPETITIONS)
    ]
    report.add_target("import tocsin", min(seconds), 0.3, "s")


def measure_loading(report: Report, size: dict[str, int], rng: np.random.Generator) -> None:
    schema = {"x": "number", "y": "number", "tier": "category", "seen": "time"}
    kinds = dict.fromkeys(NAMES, "number")
    cases = [
        ("boxes", "rules over two attributes, as boxes", box_rules, schema, 5.0),
        ("texts", "conditions of 20 shapes, as text", text_rules, schema, 10.0),
        ("sparse", "sparse rules with 8 predicates, in long form", sparse_rules, kinds, 10.0),
    ]
    for name, task, make, attributes, target in cases:
        table = make(size[name], rng)
        last = []

        def load(attributes=attributes, table=table, last=last):
            last[:] = [tocsin.Rules(attributes)]
            last[0].add_many(table)

        (seconds,) = best(load, repetitions=3)
        report.add_target(f"{size[name]:,} {task}", seconds, target, "s")
        if name == "boxes":
            bytes_each = last[0].nbytes / size[name]
            task = "  memory without ids and texts, index chosen automatically"
            report.add_target(task, bytes_each, 150, "bytes/rule")
            plain = tocsin.Rules(attributes, index="exhaustive")
            plain.add_many(table)
            bytes_each = plain.nbytes / size[name]
            report.add_target('  the same, index="exhaustive"', bytes_each, 100, "bytes/rule")


def measure_keys(report: Report, n: int, rng: np.random.Generator) -> None:
    from tocsin.model.columns import write_number_keys

    values, out = rng.normal(size=n), np.empty(n, np.int64)
    (reused,) = best(lambda: write_number_keys(values, out))
    (fresh,) = best(lambda: write_number_keys(values, np.empty(n, np.int64)))
    report.add_target(f"convert {n:,} numbers to keys, new memory", fresh, 0.1, "s")
    report.add_target("  the same, reused memory", reused, 0.1, "s")


def measure_exhaustive(report: Report, n: int, rng: np.random.Generator) -> None:
    table = box_rules(n, rng)
    rules = tocsin.Rules({"x": "number", "y": "number"}, index="exhaustive")
    rules.add_many(table)
    low = [table["x_low"].to_numpy(), table["y_low"].to_numpy()]
    high = [table["x_high"].to_numpy(), table["y_high"].to_numpy()]
    events = list(rng.random((2, n)))
    arrow = pa.table({"x": events[0], "y": events[1]})
    matches, (peer_events, peer_rules) = (
        rules.match(arrow, threads=1),
        numpy_match(low, high, events),
    )
    ours = matches.sorted().pairs()
    assert np.array_equal(ours[0], peer_events)
    assert np.array_equal(ours[1], peer_rules)
    assert np.array_equal(rules.count(arrow, threads=1), numpy_count(low, high, events))
    # NumPy uses its best tile size.
    tiles = (4, 8, 16, 32, 64)
    task = f"{n:,} rules x {n:,} events, two attributes"
    counts = best(
        lambda: rules.count(arrow, threads=1),
        *[lambda r=r: numpy_count(low, high, events, r) for r in tiles],
    )
    report.add_comparison(f"count, {task}", counts[0], min(counts[1:]), "blocked NumPy")
    pairs = best(
        lambda: rules.match(arrow, threads=1),
        *[lambda r=r: numpy_match(low, high, events, r) for r in tiles],
    )
    report.add_comparison(f"match, {task}", pairs[0], min(pairs[1:]), "blocked NumPy")


def measure_sparse(report: Report, n: int, rng: np.random.Generator) -> None:
    """Measure rules of 8 and events of 15 out of 400 attributes; NumPy compares all 400."""
    events_count = max(50, n // 20)  # fewer events, because the dense peer is slow
    table = sparse_rules(n, rng)
    rules = tocsin.Rules(dict.fromkeys(NAMES, "number"), index="exhaustive")
    rules.add_many(table)
    low, high = np.full((400, n), -np.inf), np.full((400, n), np.inf)
    attribute = np.asarray(table["attribute"].combine_chunks().indices)
    rule = table["id"].to_numpy()
    low[attribute, rule] = table["low"].to_numpy()
    high[attribute, rule] = table["high"].to_numpy()
    # An event has the attributes of a rule, so that some match, and 7 more.
    dense = np.full((400, events_count), np.nan)
    maps = []
    for e in range(events_count):
        source = e % n
        tested = attribute[source * 8 : source * 8 + 8]
        dense[tested, e] = low[tested, source] + 0.05
        dense[rng.choice(400, 7, replace=False), e] = rng.random(7)
        present = np.flatnonzero(~np.isnan(dense[:, e]))
        maps.append([(NAMES[i], dense[i, e]) for i in present])
    arrow = pa.table({"attributes": pa.array(maps, pa.map_(pa.string(), pa.float64()))})

    # Missing values are -infinity: inside the bounds (-infinity, infinity) of attributes that a
    # rule does not test, and outside the bounds of those that it tests.
    values = list(np.where(np.isnan(dense), -np.inf, dense))
    lows, highs = list(low), list(high)

    assert np.array_equal(rules.count(arrow, threads=1), numpy_count(lows, highs, values))
    ours, *peer = best(
        lambda: rules.count(arrow, threads=1),
        *[lambda r=r: numpy_count(lows, highs, values, r) for r in (4, 16, 64)],
        repetitions=3,
    )
    task = f"count, {n:,} sparse rules x {events_count:,} events, 8 of 400 attributes"
    report.add_comparison(task, ours, min(peer), "dense NumPy")


def measure_single_events(report: Report, n: int, rng: np.random.Generator) -> None:
    """Measure whole calls with one event, among boxes: the median, since each is a user's call."""
    rules = tocsin.Rules(
        {"x": "number", "y": "number", "tier": "category", "n": "integer", "z": "number",
         "t": "time", "price": "decimal(12,2)", "ok": "flag"}
    )  # fmt: skip
    rules.add_many(box_rules(n, rng))
    rules.merge()
    plain = {"x": 0.5, "y": 0.5}
    table = pa.table({"x": [0.5], "y": [0.5]})
    matches = rules.match(plain)
    for task, call, target in (
        ("match of a dict", lambda: rules.match(plain), 10),
        ("count of a dict", lambda: rules.count(plain), 10),
        ("top of a dict", lambda: rules.top(plain), 15),
        ("to_arrow of its matches", matches.to_arrow, 15),
        ("match of a table with one row", lambda: rules.match(table), 40),
    ):
        report.add_target(f"{task}, {n:,} boxes, p50", median_microseconds(call), target, "us")
    others = ("tier = 'gold'", "n > 5", "z < 0.5", "t > '2024-01-01'", "price < 10.5", "ok")
    rules.add_many(
        pa.table({"id": range(n, n + 6), "where": [f"x > 0.9 AND {other}" for other in others]})
    )
    rules.merge()
    wide = plain | {
        "tier": "gold", "n": 4, "z": {"low": 0.1, "high": 0.2}, "ok": True,
        "t": datetime(2024, 5, 1, tzinfo=UTC), "price": Decimal("9.99"),
    }  # fmt: skip
    for task, event in (
        ("8 attributes", wide | {"z": 0.1}),
        ("8 attributes, a range", wide),
    ):
        microseconds = median_microseconds(lambda event=event: rules.match(event))
        report.add_target(f"match of a dict of {task}, p50", microseconds, 15, "us")


def median_microseconds(call: Callable[[], Any], calls: int = 2_000) -> float:
    """Return the median time of a call, in microseconds."""
    nanoseconds = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        call()
        nanoseconds.append(time.perf_counter_ns() - start)
    return float(np.median(nanoseconds)) / 1e3


def measure_changes(report: Report, n: int, changes: int, rng: np.random.Generator) -> None:
    """Measure each change of one rule and the match of one event after it."""
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add_many(box_rules(n, rng))
    live, event = list(range(n)), {"x": 0.5, "y": 0.5}
    rules.match(event)
    gc.collect()  # a tenth of a second for what was measured before, which is not part of a call
    seconds = np.empty((2, changes))
    for number, (x, y) in enumerate(rng.random((changes, 2)).round(6).tolist()):
        where = f"x BETWEEN {x} AND {x + 0.01} AND y BETWEEN {y} AND {y + 0.01}"
        place = int(rng.integers(len(live)))
        kind, id_ = ("add", "replace", "remove")[number % 3], live[place]
        start = time.perf_counter()
        if kind == "add":
            rules.add(n + number, where)
        elif kind == "replace":
            rules.replace(id_, where)
        else:
            rules.remove(id_)
        changed = time.perf_counter()
        rules.match(event)
        seconds[:, number] = changed - start, time.perf_counter() - changed
        if kind == "add":
            live.append(n + number)
        elif kind == "remove":
            live[place] = live[-1]
            live.pop()
    assert len(rules) == len(live)
    task = f"{changes:,} changes (add, replace, remove) of {n:,} rules, each with a match"
    report.add_target(f"{task}: median", float(np.median(seconds.sum(0))) * 1e6, 150, "us")
    report.add_target("  the longest call", float(seconds.max()) * 1e3, 20, "ms")


def measure_new_scores(report: Report, n: int) -> None:
    """Measure how long it takes to publish new scores of a thousand rules of a store."""
    where = [f"x > {i / n} AND tier = 'tier{i % 500}'" for i in range(n)]
    rules = tocsin.Rules({"x": "number", "tier": "category"})
    rules.add_many(pa.table({"id": np.arange(n), "where": where}))
    with tempfile.TemporaryDirectory() as folder:
        rules.save(folder)
        store = tocsin.RuleStore(folder)
        turns = iter(range(REPETITIONS))

        def publish() -> None:
            turn = next(turns)

            def change(rules: tocsin.Rules) -> None:
                for id_ in range(turn * 200, turn * 200 + 1000):
                    rules.replace(id_, score=turn + 2.0)

            store.publish(change)

        (seconds,) = best(publish)
    report.add_target(f"publish new scores of 1,000 of {n:,} rules", seconds, 0.2, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the table as Markdown")
    arguments = parser.parse_args()
    size = SIZES[arguments.size]
    rng = np.random.default_rng(2026)
    report = Report("rules, events and exhaustive search", "benchmarks/spine.py", arguments.size)
    compile_kernels(arguments.size)
    measure_import(report)
    measure_loading(report, size, rng)
    measure_keys(report, size["keys"], rng)
    measure_exhaustive(report, size["cross"], rng)
    measure_sparse(report, size["cross"], rng)
    measure_changes(report, size["boxes"], size["changes"], rng)
    measure_new_scores(report, size["stored"])
    measure_single_events(report, size["cross"], rng)
    report.show()
    if arguments.out:
        report.write(arguments.out)


if __name__ == "__main__":
    main()
