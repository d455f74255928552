"""Similarity joins against the libraries that a user would take instead.

    python -m benchmarks.similarity [--size tiny|full] [--only 2-D,9-D,memory] [--out FILE]

All on one core, in turns. A time covers sorting, building and writing all pairs, as two arrays of
row numbers. The pairs are compared by their number and the sum of their hashes. `tiny` only shows
that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.tables import Section, show, write
from benchmarks.timing import (
    Digest,
    Runner,
    check,
    log,
    package_versions,
    run_in_turns,
    time_call,
    use_one_core,
)

TARGET = 10  # times as fast as the best peer
SHRINK = {"tiny": 100, "full": 1}
Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    name: str
    description: str
    a: np.ndarray
    b: np.ndarray | None  # None: a self-join
    epsilon: float

    @property
    def d(self) -> int:
        return self.a.shape[1]


def clustered(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Return points around 50 centres."""
    centres = rng.random((50, d))
    return centres[rng.integers(0, 50, n)] + rng.normal(0, 0.05, (n, d))


def make_cases(shrink: int) -> list[Case]:
    rng = np.random.default_rng(0)

    def two(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.random((n // shrink, d)), rng.random((n // shrink, d))

    n = 68_040 // shrink
    wider = shrink ** (1 / 2), shrink ** (1 / 4), shrink ** (1 / 9)
    return [
        Case("2-D", "200,000 x 200,000, uniform", *two(200_000, 2), 0.00282 * wider[0]),
        Case("4-D", "100,000 x 100,000, uniform", *two(100_000, 4), 0.06 * wider[1]),
        Case("9-D", "100,000 x 100,000, uniform", *two(100_000, 9), 0.2974 * wider[2]),
        Case("16-D", "68,040 with itself, clustered", clustered(rng, n, 16), None, 0.137),
        Case("32-D", "68,040 with itself, clustered", clustered(rng, n, 32), None, 0.2487),
    ]


# ------------------------------------------------------------ ways to join


def join_with(method: str) -> Callable[[Case], Pairs]:
    from tocsin import similarity

    def run(case: Case) -> Pairs:
        if case.b is None:
            return similarity.self_join(case.a, case.epsilon, method).pairs()
        return similarity.join(case.a, case.b, case.epsilon, method).pairs()

    return run


def join_with_scipy(case: Case) -> Pairs:
    from scipy.spatial import cKDTree

    tree = cKDTree(case.a)
    if case.b is None:
        pairs = tree.query_pairs(case.epsilon, output_type="ndarray")
        return pairs[:, 0], pairs[:, 1]
    found = tree.sparse_distance_matrix(cKDTree(case.b), case.epsilon, output_type="ndarray")
    return found["i"], found["j"]


def _flatten(lists: np.ndarray, case: Case) -> Pairs:
    """Return the pairs of lists of neighbours; of a set with itself, those with i < j."""
    left = np.repeat(np.arange(len(lists)), [len(each) for each in lists])
    right = np.concatenate(lists) if len(lists) else np.empty(0, np.int64)
    if case.b is None:
        keep = left < right
        left, right = left[keep], right[keep]
    return left, right


def join_with_sklearn(case: Case) -> Pairs:
    from sklearn.neighbors import KDTree

    tree = KDTree(case.a if case.b is None else case.b, leaf_size=40)
    return _flatten(tree.query_radius(case.a, case.epsilon), case)


def join_with_faiss(case: Case) -> Pairs:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(case.d)
    index.add(np.ascontiguousarray(case.a if case.b is None else case.b, np.float32))
    squared = case.epsilon * case.epsilon
    offsets, _, numbers = index.range_search(np.ascontiguousarray(case.a, np.float32), squared)
    left = np.repeat(np.arange(len(case.a)), np.diff(offsets.astype(np.int64)))
    if case.b is None:
        keep = left < numbers
        return left[keep], numbers[keep]
    return left, numbers


def join_with_sedonadb(case: Case) -> Pairs:
    import pyarrow as pa
    import sedonadb

    context = sedonadb.connect()
    for setting in (
        "datafusion.execution.target_partitions = 1",
        "sedona.spatial_join.repartition_probe_side = false",
        "sedona.spatial_join.concurrent_build_side_collection = false",
    ):
        context.sql(f"SET {setting}").execute()
    for name, points in (("a", case.a), ("b", case.b)):
        table = pa.table({name: np.arange(len(points)), "x": points[:, 0], "y": points[:, 1]})
        context.create_data_frame(table).to_view(f"{name}_rows", overwrite=True)
    sides = (f"(SELECT {n}, ST_Point(x, y) AS {n}_point FROM {n}_rows)" for n in "ab")
    pairs = context.sql(
        f"SELECT a, b FROM {next(sides)} JOIN {next(sides)} "
        f"ON ST_DWithin(a_point, b_point, CAST({case.epsilon!r} AS DOUBLE))"
    )
    found = pa.RecordBatchReader.from_stream(pairs).read_all()
    return found.column("a").to_numpy(), found.column("b").to_numpy()


PEERS: dict[str, tuple[Callable[[Case], Pairs], range, bool]] = {
    # How, for which dimensions, and whether it computes in float64.
    "scipy": (join_with_scipy, range(1, 99), True),
    "sklearn": (join_with_sklearn, range(1, 99), True),
    "faiss": (join_with_faiss, range(9, 99), False),
    "SedonaDB": (join_with_sedonadb, range(2, 3), True),
}
PUBLISHED = ("grid", "ego", "ego_star")


# ------------------------------------------------------------ measuring


class Document:
    def __init__(self, size: str):
        self.size = size
        self.peers = Section(
            "Tocsin and peers", "points", "epsilon", "pairs", "method", "Tocsin", *PEERS,
            "best peer / Tocsin", "target", "met",
            note="Seconds. faiss computes in float32: in parentheses, how many pairs it has too"
            " many\nor too few. It compares all points, so it is left out in few dimensions;"
            " SedonaDB has\ntwo.",
        )  # fmt: skip
        self.methods = Section(
            "Methods",
            "points",
            "cells",
            "blocks",
            *PUBLISHED,
            "chosen by auto",
            "auto / best",
            note="Seconds. The last three are the algorithms as published.",
        )
        self.memory = Section(
            "Memory", "what", "Tocsin", "target", "met",
            note="Peak memory of a process beyond that of its points.",
        )  # fmt: skip

    @property
    def sections(self) -> list[Section]:
        return [s for s in (self.peers, self.methods, self.memory) if s.rows]

    def show(self) -> None:
        show("Similarity joins", self.sections)

    def write(self, path: Path) -> None:
        versions = package_versions("numpy numba scipy scikit-learn faiss-cpu sedonadb")
        head = [
            "# Benchmark: similarity joins",
            "",
            "Generated by `python -m benchmarks.similarity --out docs/benchmarks-similarity.md`.",
            "One core, the best of several repetitions in turns. Times cover sorting, building and",
            "writing all pairs; the pairs of all are the same, unless a note says otherwise.",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, {versions}.",
        ]
        write(path, head, self.sections)


def digest(pairs: Pairs) -> tuple[int, int]:
    found = Digest()
    found.add([pairs])
    return found.pairs, found.total


def measure(document: Document, case: Case) -> None:
    from tocsin.similarity import costs
    from tocsin.similarity.closeness import read_closeness

    log(case.name)
    b = case.a if case.b is None else case.b
    closeness = read_closeness(case.epsilon, "l2", False)
    chosen = costs.choose_method(case.a, b, closeness, case.b is None)
    expected = digest(join_with("auto")(case))
    own = {
        method: join_with(method)
        for method in ("auto", "cells", "blocks", *PUBLISHED)
        # Minutes, in many dimensions.
        if case.d <= 9 or method not in ("grid", "ego")
    }
    runners, notes = {}, {}
    for name, run in own.items():
        check(f"{case.name}, {name}", digest(run(case)), expected)
        runners[name] = Runner(name, lambda run=run: time_call(lambda: run(case)))
    for name, (run, dimensions, is_exact) in PEERS.items():
        if case.d not in dimensions:
            continue
        log(f"  {name}")
        found = digest(run(case))
        if is_exact:
            check(f"{case.name}, {name}", found, expected)
        else:
            notes[name] = f" ({found[0] - expected[0]:+,})"
        runners[name] = Runner(name, lambda run=run: time_call(lambda: run(case)))
    run_in_turns(list(runners.values()))
    seconds = {name: runner.seconds for name, runner in runners.items()}
    peers = {name: seconds[name] for name in PEERS if name in seconds}
    ratio = min(peers.values()) / seconds["auto"]

    def cell(name: str) -> str:
        return f"{seconds[name]:.3g}{notes.get(name, '')}" if name in seconds else ""

    document.peers.add_row(
        f"{case.name}, {case.description}", f"{case.epsilon:.4g}", f"{expected[0]:,}", chosen,
        cell("auto"), *map(cell, PEERS), f"{ratio:.1f} x", f"at least {TARGET} x", ratio >= TARGET,
    )  # fmt: skip
    shipped = min(seconds["cells"], seconds["blocks"])
    document.methods.add_row(
        case.name, cell("cells"), cell("blocks"), *map(cell, PUBLISHED), chosen,
        f"{seconds['auto'] / shipped:.2f}",
    )  # fmt: skip


def measure_memory(document: Document) -> None:
    """Join in blocks with many pairs, in a process of its own."""
    log("memory")
    n = 20_000 // SHRINK[document.size]
    command = [sys.executable, "-m", "benchmarks.similarity", "--peak", str(n)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs, extra = map(int, run.stdout.split())
    document.memory.add_value("pairs", f"{pairs:,}")
    document.memory.add_value("as two arrays they would take", f"{16 * pairs / 1e6:,.0f} MB")
    document.memory.add_limit("join_blocks takes", extra / 1e6, 100, "MB")


def print_peak(n: int) -> None:
    """Print the pairs of a join in blocks, and the bytes that it took at most."""
    from tocsin import similarity

    points = np.random.default_rng(0).random((n, 4))
    for _ in similarity.join_blocks(points[:100], points[:100], 0.8):
        pass  # loads the kernels
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pairs = sum(len(block) for block in similarity.join_blocks(points, points, 0.8))
    print(pairs, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description="Similarity joins against their peers.")
    parser.add_argument("--size", choices=["tiny", "full"], default="full")
    parser.add_argument("--only", help="comma-separated: 2-D, 4-D, 9-D, 16-D, 32-D, memory")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    use_one_core()
    if arguments.peak:
        print_peak(arguments.peak)
        return
    document = Document(arguments.size)
    cases = make_cases(SHRINK[arguments.size])
    only = (arguments.only or ",".join([*(case.name for case in cases), "memory"])).split(",")
    for case in cases:
        if case.name in only:
            measure(document, case)
    if "memory" in only:
        measure_memory(document)
    document.show()
    if arguments.out:
        document.write(arguments.out)


if __name__ == "__main__":
    main()
