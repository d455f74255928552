"""Regenerate the papers' figures, and the page that shows them.

python -m experiments [--size tiny|full] [--only NAME] [--out FOLDER]

`tiny` only shows that it runs, and writes to build/ unless told otherwise; its verdicts mean
nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from experiments import bestar, drawing, grid, grid_cycles, vci, vcr

FIGURES = {**vci.FIGURES, **vcr.FIGURES, **grid.FIGURES, **grid_cycles.FIGURES, **bestar.FIGURES}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--only", choices=FIGURES, action="append")
    parser.add_argument("--out", type=Path, help="docs, or build for a tiny size")
    asked = parser.parse_args(arguments)
    out = asked.out or Path("docs" if asked.size == "full" else "build")
    folder = out / "experiments"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "findings.json"
    records = json.loads(kept.read_text()) if kept.exists() else {}
    for name in asked.only or FIGURES:
        start = time.perf_counter()
        finding = FIGURES[name](asked.size)
        finding.picture.savefig(folder / f"{name}.png")
        drawing.plt.close(finding.picture)
        records[name] = {**finding.record(), "size": asked.size}
        print(f"{time.perf_counter() - start:6.1f} s  {name}: {finding.line}", flush=True)
    records = {name: records[name] for name in FIGURES if name in records}
    kept.write_text(json.dumps(records, indent=1) + "\n")
    (out / "experiments.md").write_text(page(records))


def page(records: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    lines = [
        "# The papers' figures, measured again",
        "",
        "Written by `make experiments` (experiments/): each figure of the papers on indexes "
        "that is about speed or size, its claim, what we measured, and whether the claim holds on "
        "today's hardware. Verdicts are computed: each claim is a few numbers with limits, and it "
        "holds if all keep theirs, partly if some do. Indexes are built beforehand and searched "
        "on one core; times are the best of several rounds, in which the structures take turns; "
        "all answers were compared. "
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Numba {numba.__version__}.",
        "",
        "| figure | what | verdict |",
        "|---|---|---|",
    ]
    for name, r in records.items():
        lines.append(f"| {r['source']} | [{r['title']}](#{name}) | {r['verdict']} |")
    for name, r in records.items():
        size = "" if r["size"] == "full" else " (measured at a tiny size: means nothing)"
        lines += [
            "",
            f'<a id="{name}"></a>',
            "",
            f"## {r['title']} ({r['source']})",
            "",
            f"![{r['title']}](experiments/{name}.png)",
            "",
            f"**Claim.** {r['claim']}",
            "",
            f"**How.** {r['setting']}",
            "",
            "| the paper says | we measured | |",
            "|---|---|---|",
        ]
        lines += [
            f"| {c['says']} | {c['measured']} | {'yes' if c['true'] else 'no'} |"
            for c in r["checks"]
        ]
        lines += ["", f"**Verdict{size}:** {r['line']}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
