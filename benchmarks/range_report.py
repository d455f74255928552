"""The tables of the range benchmark: on the console, and as Markdown."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from benchmarks.range_workloads import Workload
from benchmarks.tables import Section, milli, show, write


class Document:
    def __init__(self, size: str, versions: str):
        self.size, self.versions = size, versions
        self.summary = Section(
            "Against the best peer", "workload", "pairs", "build", "bytes a rule", "index",
            "match, fresh", "best peer, fresh", "ratio", "target", "met",
            note="Fresh: ids and offsets in fresh memory on our side, pairs or ids on theirs. The\n"
            "results of W5 and W6 are 2.4 and 4 GB: writing them into new pages is most of our\n"
            "time, and no index can save that.",
        )  # fmt: skip
        self.reuse = Section(
            "Blocks and counts", "workload", "match, fresh", "match and event numbers", "blocks",
            "fresh / blocks", "counts", "fresh / counts", "target", "met", "best peer's counts",
            "ratio",
            note="Blocks save the first touch of pages, counts the writing too: the slower fresh\n"
            "memory is on a machine (see First touch of memory), the more they save.",
        )  # fmt: skip
        self.memory = Section(
            "First touch of memory on this machine", "memory", "seconds", "rate",
            note="Before each run in fresh memory, ours and a peer's, as much was touched and let\n"
            "go of, off the clock: the second line holds for all, and not the first.",
        )  # fmt: skip
        self.peers: list[Section] = []
        self.regret = Section(
            "The planner's regret", "workload", "grid", "ntree", "rectangles", "intervals",
            "exhaustive", "auto chose", "auto", "auto / best single", "target", "met",
        )  # fmt: skip
        self.targets = Section("Build and single events", "what", "ours", "target", "met")
        self.growth = Section(
            "Growth: uniform squares, about 4 matches an event", "boxes", "matches an event",
            "build", "bytes a box", "time an event", "times the first",
        )  # fmt: skip

    def workload(self, workload: Workload, build: float, rules, pairs, mine, peers) -> None:
        """Add a workload: our runners (match, blocks, counts and perhaps pairs), and the peers'."""
        name = workload.name
        match, blocks, counts = mine[:3]
        whole = milli(mine[3].seconds) if len(mine) > 3 else "not made, for memory"
        best = nearest([p for p in peers if not p.counts])
        ratio = best.seconds / match.seconds if best else 0.0
        index = " and ".join(part.index for part in rules.plan().parts)
        self.summary.row(
            name, f"{pairs:,}", f"{build:.3f} s", f"{rules.nbytes / workload.rules:.0f}", index,
            milli(match.seconds), described(best), f"{ratio:.1f} x",
            f"at least {workload.target:g} x", ratio >= workload.target,
        )  # fmt: skip
        faster = [match.seconds / each.seconds for each in (blocks, counts)]
        counting = nearest([p for p in peers if p.counts])
        self.reuse.row(
            name, milli(match.seconds), whole, milli(blocks.seconds), f"{faster[0]:.1f} x",
            milli(counts.seconds), f"{faster[1]:.1f} x",
            f"at least {workload.reused:g} x" if workload.reused else "",
            min(faster) >= workload.reused if workload.reused else None,
            described(counting), f"{counting.seconds / counts.seconds:.1f} x" if counting else "",
        )  # fmt: skip
        section = Section(
            f"{name}: {workload.words}", "who", "index over the rules", "the points", "join",
            "total", "times ours", "remark",
        )  # fmt: skip
        for runner in mine:
            section.row(f"tocsin {runner.name}", f"{build:.3f} s" if runner is match else "", "",
                        "", milli(runner.seconds), "", "")  # fmt: skip
        for p in peers:
            ours = counts if p.counts else match
            known = p.seconds < float("inf")
            steps = [milli(t) if known and not p.estimated else "" for t in p.taken]
            if p.counts or not (p.peer and p.peer.first_step):
                steps[0] = ""
            remarks = [*p.remarks, "no peer: nobody ships it"] if p.by_hand else list(p.remarks)
            if steps[0]:
                remarks.insert(0, f"{milli(p.taken[1])} without {p.peer.first_step}")
            section.row(
                p.name, f"{p.build:.3f} s" if p.build else "", *steps,
                milli(p.seconds) if known else "", f"{p.seconds / ours.seconds:.1f} x"
                if known else "", "; ".join(remarks),
            )  # fmt: skip
        self.peers.append(section)

    @property
    def sections(self) -> list[Section]:
        all_of_them = [
            self.summary, self.reuse, self.regret, self.targets, self.growth, self.memory,
            *self.peers,
        ]  # fmt: skip
        return [section for section in all_of_them if section.rows]

    def show(self) -> None:
        show(f"Range matching, size {self.size}", self.sections)

    def write(self, path: Path) -> None:
        head = [
            "# Benchmark: range matching",
            "",
            "Written by `make bench` (benchmarks/range_matching.py; the workloads are in",
            "range_workloads.py, the peers and their settings in range_peers). Rules are indexed",
            "beforehand; all that a new batch of points needs is counted, also a peer's own",
            "objects and its index over the points. Mixed has bands of a price, fences, boxes of",
            "speed and heading, and ages in a tier: 20,000 points x 255,000 rules. One",
            "thread on one core; the best of several repetitions, all in turn. The pairs of",
            "every peer were checked against ours by number and hash, those of an estimate on",
            "the points that it was estimated from. A ratio above 1 is in our favour.",
            "",
            f"Size {self.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{self.versions}.",
            "DuckDB's spatial extension is not in its package, and is not used.",
        ]
        write(path, head, self.sections)


def nearest(peers: list[Any]) -> Any:
    """Return the fastest that was measured; or that was estimated, if none was."""
    real = [p for p in peers if not p.by_hand and p.seconds < float("inf")]
    return min(real, key=lambda p: (p.estimated, p.seconds), default=None)


def described(runner: Any) -> str:
    if runner is None:
        return "none"
    name = runner.name.removesuffix(": counts")
    return f"{name} {milli(runner.seconds)}" + (", estimated" if runner.estimated else "")
