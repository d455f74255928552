"""Points in polygons: Tocsin against what a user would take instead.

    python -m benchmarks.shapes [--size tiny|full] [--only NAMES] [--peers PYTHON] [--out FILE]

All find the pairs of points and polygons, and the pairs must be the same. Each runs on one core;
Tocsin also with its default number of threads. Reading well-known text and building what is
searched is measured on its own. Peers run in processes of another Python that has them, one after
the other (`shape_peers.py`), and Tocsin between them. `tiny` only shows that the benchmark runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.shape_peers import PEERS, digest
from benchmarks.shape_workloads import Workload, countries, small_polygons, stars
from benchmarks.tables import Section, format_time, show, write
from benchmarks.timing import check, clock, compile_kernels, log, package_versions, use_one_core
from tocsin import jit

SIZES = {"tiny": 1e-3, "full": 1.0}
WORKLOADS: dict[str, Callable[[float, np.random.Generator], Workload]] = {
    "countries": lambda scale, rng: countries(int(500_000 * scale), rng),
    "stars": lambda scale, rng: stars(int(5_000 * scale), int(300_000 * scale), rng),
    "polygons": lambda scale, rng: small_polygons(
        int(100_000 * scale), int(1_000_000 * scale), rng
    ),
}
TITLES = {
    "countries": "Countries: {shapes} of the package geopip, {points} uniform points",
    "stars": "Stars: {shapes} polygons of 5 to 200 vertices, {points} points",
    "polygons": "Polygons: {shapes} of 4 to 24 vertices, {points} points",
}
TARGET = 10  # times as fast as the best peer
SHAPELY_TARGET = 30  # times as fast as the query of shapely's documents
SHAPELY = "TreeQuery"


class Tocsin:
    """Rules of a workload, and the best times so far."""

    def __init__(self, workload: Workload):
        self.texts = pa.table({"id": np.arange(len(workload.texts)), "shape": workload.texts})
        x, y = workload.points.T.copy()
        self.events = pa.table({"x": x, "y": y})
        self.building = self.one = self.default = float("inf")
        self.build()
        self.pairs = digest(self.rules.match(self.events, threads=1).pairs())

    def build(self) -> None:
        start = clock()
        self.rules = tocsin.Rules({"x": "number", "y": "number"}, point=("x", "y"))
        self.rules.add_many(self.texts)
        self.rules.merge()
        self.rules.count({"x": 0.5, "y": 0.5})
        self.building = min(self.building, clock() - start)

    def measure(self) -> None:
        """Match on one thread, which is all that this process has."""
        for _ in range(3):
            start = clock()
            matches = self.rules.match(self.events, threads=1)
            self.one = min(self.one, clock() - start)
            del matches


def measure_threads(workload: Workload, cores: set[int]) -> float:
    """Return the best time with the default number of threads, on all cores."""
    one = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        ours = Tocsin(workload)
        times = []
        for _ in range(5):
            start = clock()
            matches = ours.rules.match(ours.events)
            times.append(clock() - start)
            del matches
        return min(times)
    finally:
        os.sched_setaffinity(0, one)


def run_peer(python: str, folder: Path, name: str) -> dict[str, Any]:
    command = [python, "-m", "benchmarks.shape_peers", str(folder), name]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def measure(name: str, scale: float, python: str, folder: Path, cores: set[int]) -> Section | None:
    if name == "countries" and importlib.util.find_spec("geopip") is None:
        log("countries need the package geopip")
        return None
    workload = WORKLOADS[name](scale, np.random.default_rng(2026))
    (folder / "texts.json").write_text(json.dumps(workload.texts))
    np.save(folder / "points.npy", workload.points)
    ours = Tocsin(workload)
    results = {}
    for peer in PEERS:
        ours.measure()
        log(f"{name}: {peer}")
        result = results[peer] = run_peer(python, folder, peer)
        if "missing" not in result:
            check(f"pairs of {peer}", result["pairs"], list(ours.pairs))
        if len(results) % 4 == 0:
            ours.build()
    ours.measure()
    return report(name, workload, ours, results, measure_threads(workload, cores))


def report(
    name: str, workload: Workload, ours: Tocsin, results: dict[str, Any], threaded: float
) -> Section:
    title = TITLES[name].format(
        shapes=f"{len(workload.texts):,}", points=f"{len(workload.points):,}"
    )
    vertices = sum(text.count(",") for text in workload.texts)
    table = Section(
        title, "", "read and build", "find pairs", "times Tocsin", "remark",
        note=f"{ours.pairs[0]:,} pairs; about {vertices:,} vertices.",
    )  # fmt: skip
    table.add_row("Tocsin", format_time(ours.building), format_time(ours.one), "1.0", "")
    table.add_row(
        "Tocsin, default threads", "", format_time(threaded), "", f"{os.cpu_count()} cores"
    )
    best = None
    for peer, result in results.items():
        kind = PEERS[peer]
        if "missing" in result:
            table.add_row(kind.name, "", "", "", f"not measured: {result['missing']} is missing")
            continue
        ratio = result["query"] / ours.one
        times = format_time(result["build"]), format_time(result["query"])
        table.add_row(kind.name, *times, f"{ratio:.1f}", kind.remark)
        best = min(best or ratio, ratio)
    raw = 16 * vertices
    table.add_row(
        "memory of the rules", f"{ours.rules.nbytes / 1e6:,.1f} MB", "", "",
        f"{ours.rules.nbytes / raw:.1f} times the coordinates",
    )  # fmt: skip
    if best is not None:
        verdict = "yes" if best >= TARGET else "**no**"
        table.add_row(f"target: {TARGET} times the best", "", "", f"{best:.1f}", verdict)
    if "query" in results[SHAPELY]:
        ratio = results[SHAPELY]["query"] / ours.one
        verdict = "yes" if ratio >= SHAPELY_TARGET else "**no**"
        task = f"target: {SHAPELY_TARGET} times {PEERS[SHAPELY].name}"
        table.add_row(task, "", "", f"{ratio:.1f}", verdict)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    if unknown := set(only) - set(WORKLOADS):
        parser.error(f"--only knows {', '.join(WORKLOADS)}; got {', '.join(sorted(unknown))}")
    cores = os.sched_getaffinity(0)
    use_one_core()
    compile_kernels(arguments.size)
    if arguments.size != "tiny":
        jit.compile_all(("tocsin.geometry",))
    sections = []
    with tempfile.TemporaryDirectory() as folder:
        for name in only:
            scale = SIZES[arguments.size]
            table = measure(name, scale, arguments.peers, Path(folder), cores)
            sections += [table] if table else []
    show(f"Points in polygons, size {arguments.size}", sections)
    if arguments.out:
        head = [
            "# Benchmark: points in polygons",
            "",
            "Generated by `make bench` (benchmarks/shapes.py). All find the same pairs of points",
            "and polygons, each on one core; Tocsin also with its default number of threads.",
            "Points are there in the form that each likes best; Tocsin's are two columns. What is",
            "built over polygons is in a column of its own, from well-known text. Times are the",
            "best of several. The first of shapely's ways is faster than those of its documents.",
            "",
            f"Size {arguments.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{package_versions('numpy numba pyarrow')}. Peers: {peer_versions(arguments.peers)}.",
        ]
        write(arguments.out, head, sections)


def peer_versions(python: str) -> str:
    names = "shapely geopandas sedonadb duckdb duckdb-extension-spatial togo"
    code = f"from benchmarks.shape_peers import versions; print(versions({names!r}))"
    root = Path(__file__).parents[1]
    command = [python, "-c", code]
    run = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip()


if __name__ == "__main__":
    main()
