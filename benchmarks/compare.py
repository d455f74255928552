"""Two commits on the rows of `compare_rows.py`, in turns: how much slower the new one is.

    python -m benchmarks.compare OLD [NEW] [--rows range spine/add-many] [--rounds 7] [--size tiny]

OLD and NEW are commits; NEW is the working tree if it is not given, uncommitted changes included.
In each round every row runs in a fresh process of each commit, in the order old, new in one round
and new, old in the next. A first round, which compiles kernels, does not count. A ratio is the
new time divided by the old one of the same round, so that what slows down both for a while
cancels out. All rows take about twelve minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.compare_rows import ROWS
from benchmarks.tables import Section, format_time, show

ROOT = Path(__file__).parents[1]
SCRIPT = (ROOT / "benchmarks" / "compare_rows.py").read_text()  # as it is now, in all rounds
SCALES = {"tiny": 0.01, "full": 1.0}
NAMES = "OLD", "NEW"
TARGET = 1.1  # the median ratio


class RowError(Exception):
    """A row failed; the message is the last line that it printed."""


@dataclass
class Comparison:
    """The seconds of a row in each round: [0] are those of the old commit, [1] of the new one."""

    row: str
    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    failures: dict[int, str] = field(default_factory=dict)

    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(*self.seconds, strict=True)]

    def cells(self) -> tuple[str, ...]:
        if self.failures:
            messages = [f"fails in {NAMES[i]}: {m}" for i, m in sorted(self.failures.items())]
            return self.row, "", "", "", "; ".join(messages)
        ratios = self.ratios()
        times = (format_time(median(seconds)) for seconds in self.seconds)
        return self.row, *times, f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"


def compare(
    rows: Sequence[str], rounds: int, measure: Callable[[int, str], float]
) -> list[Comparison]:
    """Measure all rows in turns; `measure` takes 0 for the old commit or 1, and a row."""
    comparisons = [Comparison(row) for row in rows]
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for each in comparisons:
            if number and each.failures:
                continue
            for which in (0, 1) if number % 2 else (1, 0):
                try:
                    seconds = measure(which, each.row)
                except RowError as error:
                    each.failures[which] = str(error)
                else:
                    each.seconds[which].extend([seconds] if number else [])
    return comparisons


def summarise(comparisons: Sequence[Comparison]) -> str:
    """Return the median ratio of all rows, and the worst row."""
    ratios = {each.row: median(each.ratios()) for each in comparisons if not each.failures}
    if not ratios:
        return "no row runs in both OLD and NEW"
    middle, worst = median(ratios.values()), max(ratios, key=ratios.__getitem__)
    is_met = "" if middle <= TARGET else "not "
    return (
        f"median ratio of all rows: {middle:.2f} (at most {TARGET:.2f}: {is_met}met); "
        f"worst row: {worst}, {ratios[worst]:.2f}"
    )


# ------------------------------------------------------------ commits


def check_out(commit: str | None, folder: Path) -> str:
    """Write the sources of a commit, or of the working tree, to a folder; return a name."""
    if commit is None:
        shutil.copytree(ROOT / "src", folder / "src")
        return "the working tree"
    known = git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if known.returncode:
        raise SystemExit(
            f"{commit!r} is not a commit of the repository in {ROOT}; it takes what git log takes: "
            "a branch, a tag, a hash, HEAD~3"
        )
    archive = git("archive", commit, "src")
    if archive.returncode:
        raise SystemExit(f"commit {commit} cannot be read: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return f"{commit} ({known.stdout.decode()[:9]})"


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)


def run_row(folder: Path, row: str, scale: float) -> float:
    """Return the seconds of a row in a fresh process that imports the sources in a folder."""
    process = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, row, str(scale)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RowError((process.stderr.strip().splitlines() or ["no message"])[-1])
    source, _, seconds = process.stdout.strip().splitlines()[-1].rpartition(" ")
    if Path(source) != folder / "src" / "tocsin":
        raise SystemExit(f"{row} ran the Tocsin in {source} instead of the one in {folder}")
    return float(seconds)


def choose_rows(names: Sequence[str]) -> list[str]:
    """Return the rows with these names, or on pages with these names; all if there are none."""
    pages = {row.partition("/")[0] for row in ROWS}
    for name in names:
        if name not in ROWS and name not in pages:
            raise SystemExit(f"there is no row or page {name!r}; rows: {', '.join(ROWS)}")
    return [row for row in ROWS if not names or {row, row.partition("/")[0]} & set(names)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", metavar="OLD", help="a commit")
    parser.add_argument("new", metavar="NEW", nargs="?", help="a commit; else the working tree")
    parser.add_argument("--rows", nargs="+", default=[], help="names of rows or of pages")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", choices=SCALES, default="full")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be 1 or more; got {arguments.rounds}")
    rows = choose_rows(arguments.rows)
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary).resolve() / name for name in ("old", "new")]
        commits = zip((arguments.old, arguments.new), folders)
        old, new = (check_out(commit, folder) for commit, folder in commits)
        comparisons = compare(
            rows,
            arguments.rounds,
            lambda which, row: run_row(folders[which], row, SCALES[arguments.size]),
        )
    section = Section(f"{new}, compared with {old}", "row", *NAMES, "ratio", "its range")
    for each in comparisons:
        section.add_row(*each.cells())
    show(f"{arguments.rounds} rounds, size {arguments.size}", [section])
    print(summarise(comparisons))
    if any(1 in each.failures for each in comparisons):
        raise SystemExit("a row fails in NEW")


if __name__ == "__main__":
    main()
