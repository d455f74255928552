"""Who enters and leaves: a monitor against a match of the same rows, and what people write today.

    python -m benchmarks.moving [--size tiny|full] [--only updates,velocity] [--out FILE]

A million objects move among 25,000 squares, which cover the area once; 100,000 of them move in each
step, by a third of a square's side (standard deviation). Integer keys and texts. One thread, one
core. A monitor, a match of the same rows and all peers take turns in each step, and the events of
every peer are compared with the monitor's. Also: how long it takes until a rule that is added has
its events, with and without a velocity constrained index; and what safe regions save. `tiny` only
shows that the benchmark runs; its figures mean nothing. On Spark: `benchmarks.moving_spark`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tocsin
from benchmarks.moving_fences import measure_index
from benchmarks.moving_fleet import Fleet, Turns
from benchmarks.moving_peers import PEERS
from benchmarks.moving_regions import measure_regions
from benchmarks.tables import Section, format_time, show, write
from benchmarks.timing import (
    check,
    compile_kernels,
    log,
    package_versions,
    use_one_core,
)
from tocsin import jit

SIZES = {  # objects, moving in a step, fences, steps, rules that are added
    "tiny": (2_000, 200, 100, 3, 3),
    "full": (1_000_000, 100_000, 25_000, 30, 50),
}
TARGETS = {"integer keys": 8, "text keys": 12}  # times a match of the same rows, at most
ADD_TARGET = 5.0  # milliseconds from the call of `add` until the events are there
PACKAGES = "shapely pandas duckdb numpy numba pyarrow"


# ------------------------------------------------------------ a step


def measure_updates(size: str) -> list[Section]:
    objects, moving, fences, steps, _ = SIZES[size]
    summary = Section(
        f"{moving:,} of {objects:,} objects move among {fences:,} squares",
        "keys", "match", "update", "update, mean", "mean / match", "target", "met",
        "updates per second", "events per update", "bytes of state per object",
        note="Times are medians, but for the mean, by which the target is judged: now and then,\n"
        "an update also removes outdated reports. Updates per second are by the mean.",
    )  # fmt: skip
    sections = [summary]
    for keys, target in TARGETS.items():
        log(keys)
        fleet = Fleet(objects, fences, keys)
        rules = fleet.rules()
        monitor = tocsin.Monitor(rules)  # matches in one thread, as there is one core
        monitor.update(fleet.everyone())
        peers = [peer(fleet.boxes, fleet.keys, *fleet.position) for peer in PEERS]
        turns, events = Turns(), 0
        for _ in range(steps):
            batch = fleet.move(moving)
            report = turns.run("update", functools.partial(monitor.update, batch))
            turns.run("match", functools.partial(rules.match, batch, threads=1))
            events += len(report)
            columns = [batch[name].to_numpy() for name in ("object", "x", "y")]
            expected = read_report(report, fleet)
            for peer in peers:
                found = turns.run(peer.name, functools.partial(peer.step, *columns))
                check(peer.name, to_codes(*found).tolist(), expected.tolist())
        mean, match = turns.mean("update"), turns.median("match")
        summary.add_row(
            keys, format_time(match), format_time(turns.median("update")), format_time(mean),
            f"{mean / match:.1f} x", f"at most {target} x", mean / match <= target,
            f"{moving / mean:,.0f}", f"{events / steps / moving:.2f}",
            f"{monitor.nbytes / objects:.0f}",
        )  # fmt: skip
        section = Section(f"A step, {keys}", "by", "median", "mean", "mean, relative to Tocsin's")
        for name in ("update", *(peer.name for peer in PEERS)):
            section.add_row(
                "`Monitor.update`" if name == "update" else name, format_time(turns.median(name)),
                format_time(turns.mean(name)), f"{turns.mean(name) / mean:.1f} x",
            )  # fmt: skip
        sections.append(section)
        del peers, monitor
        gc.collect()
    return sections


def read_report(report: pa.Table, fleet: Fleet) -> np.ndarray:
    """Return the events of a monitor as codes."""
    objects = pc.index_in(report["object"].cast(fleet.keys.type), fleet.keys)
    is_enter = pc.equal(report["event"].cast(pa.string()), "enter")
    return to_codes(objects.to_numpy(), report["rule"].to_numpy(), is_enter.to_numpy())


def to_codes(objects: np.ndarray, fences: np.ndarray, is_enter: np.ndarray) -> np.ndarray:
    """Return sorted codes of events."""
    return np.sort((objects.astype(np.int64) << 33) + (fences.astype(np.int64) << 1) + is_enter)


# ------------------------------------------------------------ a rule


def measure_rules(size: str) -> list[Section]:
    """Measure the time from the call that changes a rule until its events are there."""
    objects, _, fences, _, repetitions = SIZES[size]
    section = Section(
        f"A rule changes over {objects:,} objects and {fences:,} squares",
        "what, by", "events", "median", "95th percentile", "target", "met",
        note="From the call that changes a rule until its events are there. The rule is a square,\n"
        "each time somewhere else. Peers scan the last positions for the objects inside.",
    )  # fmt: skip
    fleet = Fleet(objects, fences, "integer keys")
    rules, (x, y) = fleet.rules(), fleet.position
    monitor = tocsin.Monitor(rules)
    monitor.update(fleet.everyone())
    duck = duckdb.connect()
    duck.execute("SET threads = 1")
    duck.register("everyone", fleet.everyone())
    duck.execute("CREATE TABLE positions AS SELECT object, x, y FROM everyone")
    inside = "x BETWEEN {0} AND {2} AND y BETWEEN {1} AND {3}"

    def change(verb: str, *arguments: Any) -> Any:
        getattr(rules, verb)(fences, *arguments)
        return monitor.advance(fleet.time)["object"]

    for area, side in (("a square", fleet.side), ("1% of the area", 0.1)):
        turns, found = Turns(), 0
        for _ in range(repetitions):
            box = fleet.draw_box(side)
            where = inside.format(*box)
            sql = f"SELECT object FROM positions WHERE {where}"
            ways: dict[str, Callable[[], Any]] = {
                "`add`": lambda where=where: change("add", where),
                "`remove`": lambda: change("remove"),
                "NumPy": lambda b=box: np.flatnonzero(
                    (x >= b[0]) & (x <= b[2]) & (y >= b[1]) & (y <= b[3])
                ),
                "DuckDB": lambda sql=sql: duck.execute(sql).fetchnumpy()["object"],
            }
            sets = [np.sort(np.asarray(turns.run(name, call))) for name, call in ways.items()]
            for name, own in zip(ways, sets, strict=True):
                check(name, own.tolist(), sets[0].tolist())
            found += len(sets[0])
        for name in turns.seconds:
            milliseconds = turns.median(name) * 1e3
            is_target = name == "`add`" and area == "a square"
            target = (f"at most {ADD_TARGET:g} ms", milliseconds <= ADD_TARGET)
            section.add_row(
                f"{area}, {name}", f"{found / repetitions:,.0f}", f"{milliseconds:.2f} ms",
                f"{np.percentile(turns.seconds[name], 95) * 1e3:.2f} ms",
                *(target if is_target else ("", None)),
            )  # fmt: skip
    return [section]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    if unknown := set(only) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    use_one_core()
    compile_kernels(arguments.size)
    if arguments.size != "tiny":
        jit.compile_all(("tocsin.moving",))
    sections = []
    for part in only:
        log(part)
        sections += PARTS[part](arguments.size)
    show(f"Moving objects, size {arguments.size}", sections)
    if arguments.out:
        head = [
            "# Benchmark: moving objects",
            "",
            "Generated by `make bench` (benchmarks/moving.py). Objects walk at random among",
            "squares that cover the area once; each has one position in a step. One thread on one",
            "core. All take turns in each step, and the events of every peer are compared with",
            "Tocsin's. What peers do is in moving_peers.py: they know no times, late rows or",
            "timers, and no rules that change.",
            "",
            f"Size {arguments.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{package_versions(PACKAGES)}.",
        ]
        write(arguments.out, head, sections)


PARTS = {
    "updates": measure_updates,
    "rules": measure_rules,
    "velocity": lambda size: measure_index(*SIZES[size]),
    "regions": measure_regions,
}

if __name__ == "__main__":
    main()
