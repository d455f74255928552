"""A fleet whose vehicles are silent in their safe regions: how many reports that saves.

    python -m examples.safe_regions [--vehicles 24] [--out docs/safe-regions.png]

The fleet and the fences are those of examples/fleet.py. Each vehicle looks at its position every 20
seconds, and sends it only if it is not in the safe region that it got after its last report. The
events must be those of a fleet that sends everything.
"""

from __future__ import annotations

import argparse
import math
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from examples.fleet import COLORS, HOURS, REPORT, START, build_fences, drive_all

SHOWN_AT = START + timedelta(hours=2, minutes=20)
KINDS = {"dist": "tab:gray", "sphere": "tab:purple", "rect": "tab:cyan"}


class Vehicle:
    """A client: it knows its last report, how far it has gone since, and its region."""

    def __init__(self, row: dict[str, Any]):
        self.last, self.place = row, (row["x"], row["y"])
        self.travelled, self.region = 0.0, None

    def must_report(self, row: dict[str, Any], kind: str) -> bool:
        """Return whether a position is not in the region."""
        place = row["x"], row["y"]
        self.travelled += math.dist(self.place, place)
        self.place = place
        if self.region is None or any(row[c] != self.last[c] for c in self.region.fixed):
            return True
        if kind == "dist":
            return self.travelled >= self.region.distance
        return not self.region.contains(*place)

    def reported(self, row: dict[str, Any], region: Any) -> None:
        """Begin to be silent in a region."""
        self.last, self.region, self.travelled = row, region, 0.0


def steps_of(positions: pa.Table) -> list[list[dict[str, Any]]]:
    """Return the positions of every 20 seconds."""
    rows = positions.to_pylist()
    steps: list[list[dict[str, Any]]] = [[] for _ in range(HOURS * 3600 // REPORT)]
    for row in rows:
        steps[int((row["time"] - START).total_seconds()) // REPORT].append(row)
    return steps


def run(rules: tocsin.Rules, steps: list[list[dict[str, Any]]], kind: str) -> dict[str, Any]:
    """Let vehicles be silent; return the events, how many reports came when, and regions."""
    monitor = tocsin.Monitor(rules, "vehicle", "time", safe_regions=kind)
    vehicles: dict[str, Vehicle] = {}
    events, sent, shown = [], [], {}
    for rows in steps:
        reports = []
        for row in rows:
            vehicle = vehicles.setdefault(row["vehicle"], Vehicle(row))
            if vehicle.must_report(row, kind):
                reports.append(row)
        events += monitor.update(reports).to_pylist() if reports else []
        for row in reports:
            vehicles[row["vehicle"]].reported(row, monitor.region(row["vehicle"]))
        sent.append(len(reports))
        if rows and rows[0]["time"] <= SHOWN_AT:
            shown = {name: (v.place, v.last, v.region) for name, v in vehicles.items()}
    return {"events": events, "sent": np.array(sent), "shown": shown}


def key_of(event: dict[str, Any]) -> tuple[Any, ...]:
    """Return what happened to whom, where and when."""
    return event["time"], event["object"], event["rule"], event["event"]


def draw(fences: Any, looked: np.ndarray, runs: dict[str, Any], path: str) -> None:
    """Draw fences, vehicles and regions at one moment, and how many reports were saved."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, (city, saved) = plt.subplots(1, 2, figsize=(12, 5.6), layout="constrained")
    limits = (0, 5_750)
    for fence in fences:
        half, color = fence["half"], COLORS[fence["kind"]]
        corner = fence["x"] - half, fence["y"] - half
        box = Rectangle(corner, 2 * half, 2 * half, facecolor=color, edgecolor=color, alpha=0.35)
        city.add_patch(box)
    for place, last, region in runs["rect"]["shown"].values():
        city.plot(*place, "o", color="black", markersize=4, zorder=4)
        if region is None:
            continue
        x_low, y_low, x_high, y_high = np.clip(region.bounds, *limits)
        style = {"facecolor": KINDS["rect"], "edgecolor": KINDS["rect"], "zorder": 2}
        box = (x_low, y_low), x_high - x_low, y_high - y_low
        city.add_patch(Rectangle(*box, alpha=0.05, **style))
        city.add_patch(Rectangle(*box, fill=False, edgecolor=KINDS["rect"], linewidth=0.8))
        city.plot(last["x"], last["y"], "x", color="black", markersize=4, zorder=3)
    city.set(title=f"Fences, vehicles and their rectangles at {SHOWN_AT:%H:%M}", xlim=limits,
             ylim=limits, aspect="equal", ylabel="metres")  # fmt: skip
    hours = 6 + np.arange(1, len(looked) + 1) * REPORT / 3600
    for kind, color in KINDS.items():
        share = 1 - np.cumsum(runs[kind]["sent"]) / np.maximum(np.cumsum(looked), 1)
        saved.plot(hours, 100 * share, color=color, label=f"{kind}: {100 * share[-1]:.0f}%")
    saved.set(title="Reports that need not be sent, since 6:00", ylabel="%", ylim=(0, 100))
    saved.xaxis.set_major_formatter("{x:.0f}:00")
    saved.legend(loc="lower right", frameon=False)
    saved.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main(vehicles: int = 24, out: str | None = None) -> None:
    """Run a morning with each kind of region, and print what that saves."""
    rng = np.random.default_rng(5)
    fences = build_fences(rng)
    positions = drive_all(vehicles, fences, rng)
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number", "fuel": "category"})
    rules.add_many([{"id": f["id"], "where": f["where"]} for f in fences])
    steps = steps_of(positions)
    everything = tocsin.Monitor(rules, "vehicle", "time").update(positions).to_pylist()
    expected = sorted(map(key_of, everything))
    looked = np.array([len(rows) for rows in steps])
    print(f"{vehicles} vehicles, {len(fences)} fences, {len(expected):,} events")
    print(f"  all      {looked.sum():7,} reports")
    runs = {kind: run(rules, steps, kind) for kind in KINDS}
    for kind, found in runs.items():
        if sorted(map(key_of, found["events"])) != expected:
            raise AssertionError(f"{kind}: silent vehicles have other events")
        sent = int(found["sent"].sum())
        print(f"  {kind:8} {sent:7,} reports, {100 - 100 * sent / looked.sum():.1f}% saved")
    print("The events are the same.")
    if out:
        draw(fences, looked, runs, out)
        print(f"picture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=24)
    parser.add_argument("--out", default="docs/safe-regions.png")
    arguments = parser.parse_args()
    main(arguments.vehicles, arguments.out)
