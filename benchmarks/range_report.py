"""The tables of the range benchmark, on the console and as Markdown."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from benchmarks.range_workloads import Workload
from benchmarks.tables import Section, format_time, show, write


class Document:
    def __init__(self, size: str, versions: str):
        self.size, self.versions = size, versions
        self.summary = Section(
            "Tocsin and the fastest peer", "workload", "pairs", "build", "bytes per rule", "index",
            "match", "fastest peer", "ratio", "target", "met",
            note="Results are written to new memory: ids and offsets by Tocsin, pairs or ids by\n"
            "the peers. The results of W5 and W6 are 2.4 and 4 GB. Most of Tocsin's time there is\n"
            "the first write to new pages, which no index can avoid.",
        )  # fmt: skip
        self.reuse = Section(
            "Blocks and counts", "workload", "match", "match, with event numbers", "match_blocks",
            "match / match_blocks", "count", "match / count", "target", "met",
            "fastest peer's count", "ratio",
            note="`match_blocks` reuses its memory, and `count` writes no pairs. The slower new\n"
            "memory is on a machine (see First write to new memory), the more they save.",
        )  # fmt: skip
        self.memory = Section(
            "First write to new memory on this machine", "memory", "seconds", "rate",
            note="Before each run, Tocsin's or a peer's, the memory that it needs is written and\n"
            "released, outside the measured time. So the second row applies to all runs.",
        )  # fmt: skip
        self.peers: list[Section] = []
        self.regret = Section(
            "The planner's regret", "workload", "grid", "ntree", "rectangles", "intervals",
            "exhaustive", "chosen by auto", "auto", "auto / best single", "target", "met",
        )  # fmt: skip
        self.targets = Section("Build and single events", "task", "Tocsin", "target", "met")
        self.growth = Section(
            "Growth: uniform squares, about 4 matches per event", "boxes", "matches per event",
            "build", "bytes per box", "time per event", "relative to the first",
        )  # fmt: skip

    def add_workload(
        self, workload: Workload, build: float, rules, pairs, own_runners, peers
    ) -> None:
        """Add a workload; Tocsin's runners are match, blocks, counts and perhaps pairs."""
        name = workload.name
        match, blocks, counts, *with_events = own_runners
        pairs_time = (
            format_time(with_events[0].seconds) if with_events else "not measured: too large"
        )
        best = find_fastest([p for p in peers if not p.counts])
        ratio = best.seconds / match.seconds if best else 0.0
        index = " and ".join(part.index for part in rules.plan().parts)
        self.summary.add_row(
            name, f"{pairs:,}", f"{build:.3f} s", f"{rules.nbytes / workload.rules:.0f}", index,
            format_time(match.seconds), describe(best), f"{ratio:.1f} x",
            f"at least {workload.target:g} x", ratio >= workload.target,
        )  # fmt: skip
        faster = [match.seconds / each.seconds for each in (blocks, counts)]
        counting = find_fastest([p for p in peers if p.counts])
        self.reuse.add_row(
            name, format_time(match.seconds), pairs_time, format_time(blocks.seconds),
            f"{faster[0]:.1f} x",
            format_time(counts.seconds), f"{faster[1]:.1f} x",
            f"at least {workload.reuse_target:g} x" if workload.reuse_target else "",
            min(faster) >= workload.reuse_target if workload.reuse_target else None,
            describe(counting), f"{counting.seconds / counts.seconds:.1f} x" if counting else "",
        )  # fmt: skip
        section = Section(
            f"{name}: {workload.description}", "library", "index over the rules",
            "preparing the points", "join", "total", "relative to Tocsin", "remark",
        )  # fmt: skip
        for runner in own_runners:
            section.add_row(
                f"tocsin {runner.name}", f"{build:.3f} s" if runner is match else "", "", "",
                format_time(runner.seconds), "", "",
            )  # fmt: skip
        for p in peers:
            ours = counts if p.counts else match
            is_known = p.seconds < float("inf")
            steps = [format_time(t) if is_known and not p.is_estimated else "" for t in p.best]
            if p.counts or not (p.peer and p.peer.first_step):
                steps[0] = ""
            remarks = (
                [*p.remarks, "written by hand, not a library"] if p.by_hand else list(p.remarks)
            )
            if steps[0]:
                remarks.insert(0, f"{format_time(p.best[1])} without {p.peer.first_step}")
            section.add_row(
                p.name, f"{p.build:.3f} s" if p.build else "", *steps,
                format_time(p.seconds) if is_known else "", f"{p.seconds / ours.seconds:.1f} x"
                if is_known else "", "; ".join(remarks),
            )  # fmt: skip
        self.peers.append(section)

    @property
    def sections(self) -> list[Section]:
        sections = [
            self.summary, self.reuse, self.regret, self.targets, self.growth, self.memory,
            *self.peers,
        ]  # fmt: skip
        return [section for section in sections if section.rows]

    def show(self) -> None:
        show(f"Range matching, size {self.size}", self.sections)

    def write(self, path: Path) -> None:
        head = [
            "# Benchmark: range matching",
            "",
            "Generated by `make bench` (benchmarks/range_matching.py). The workloads are in",
            "range_workloads.py, the peers and their settings in range_peers.",
            "",
            "The rules are indexed in advance. The times include everything that a new batch of",
            "points needs, such as a peer's own objects and its index over the points. One thread",
            "on one core; times are the best of several repetitions, with all libraries taking",
            "turns. The pairs of every peer are compared with Tocsin's by number and hash; for an",
            "estimate, on the points that it is estimated from. A ratio above 1 is in Tocsin's",
            "favour. The workload `mixed` has price bands, geofences, boxes over speed and",
            "heading, and age ranges per tier: 20,000 points x 255,000 rules.",
            "",
            f"Size {self.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{self.versions}.",
            "DuckDB's spatial extension is not part of its package and is not used.",
        ]
        write(path, head, self.sections)


def find_fastest(peers: list[Any]) -> Any:
    """Return the fastest measured peer, or the fastest estimated one if none was measured."""
    libraries = [p for p in peers if not p.by_hand and p.seconds < float("inf")]
    return min(libraries, key=lambda p: (p.is_estimated, p.seconds), default=None)


def describe(runner: Any) -> str:
    if runner is None:
        return "none"
    name = runner.name.removesuffix(": counts")
    return f"{name} {format_time(runner.seconds)}" + (", estimated" if runner.is_estimated else "")
