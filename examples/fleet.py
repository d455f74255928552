"""A fleet of vehicles for a morning: who enters, leaves, waits too long, speeds, and falls silent.

    python -m examples.fleet [--vehicles 24] [--out docs/fleet.png]

Vehicles drive from their depots to loading docks and report their position every 20 seconds, with
the errors of GPS. Fences are rules: depots and docks are boxes, a low-emission zone is for diesel
only, and the zone at a school counts only above 30 km/h. One van stands at the very edge of a dock,
and one truck falls silent.
"""

from __future__ import annotations

import argparse
import collections
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tocsin

START, HOURS = datetime(2024, 5, 1, 6), 5
REPORT = 20  # seconds between two reports
GPS = 6.0  # metres, the standard deviation of an error
MARGIN = 25.0  # metres
AT_THE_EDGE, SILENT = "van-3", "truck-8"
COLORS = {"depot": "tab:blue", "dock": "tab:orange", "zone": "tab:green", "school": "tab:red"}


def build_fences(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return fences with their boxes; docks have a limit for how long a vehicle may stay."""
    boxes = [("depot-1", 700, 1_000, 150), ("depot-2", 5_000, 5_200, 150)]
    crossings = rng.permutation(100)[:9]  # of roads that are 500 metres apart
    boxes += [(f"dock-{i}", 700 + 500 * (c % 10), 700 + 500 * (c // 10), 60)
              for i, c in enumerate(crossings.tolist(), 1)]  # fmt: skip
    boxes += [("low-emission zone", 3_300, 2_900, 1_000), ("school", 3_450, 5_200, 300)]
    also = {"low-emission zone": " AND fuel = 'diesel'", "school": " AND speed > 30"}
    fences = []
    for name, x, y, half in boxes:
        kind = "zone" if "zone" in name else name.split("-")[0]
        area = f"x BETWEEN {x - half} AND {x + half} AND y BETWEEN {y - half} AND {y + half}"
        limit = "15 min" if kind == "dock" else None
        fences.append({"id": name, "where": area + also.get(name, ""), "kind": kind, "limit": limit,
                       "x": float(x), "y": float(y), "half": float(half)})  # fmt: skip
    return fences


def drive(name: str, fences: list[dict[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
    """Return the reports of one vehicle: along roads from its depot to docks, and back."""
    depots = [fence for fence in fences if fence["kind"] == "depot"]
    docks = [fence for fence in fences if fence["kind"] == "dock"]
    home = depots[int(rng.integers(2))]
    stops = [docks[i] for _ in range(2) for i in rng.permutation(len(docks))[:6]]
    path = [(0.0, home["x"], home["y"]), (60.0 * rng.integers(1, 40), home["x"], home["y"])]
    if name == AT_THE_EDGE:
        stops = stops[:1]
    for stop in [*stops, home]:
        time, x, y = path[-1]
        wait = 60.0 * min(rng.exponential(9), 50)
        goal_x = stop["x"]
        if name == AT_THE_EDGE and stop is stops[0]:
            goal_x, wait = stop["x"] + stop["half"], 2 * 3600.0
        speed = rng.uniform(24, 52) / 3.6
        corners = [(goal_x, y), (goal_x, stop["y"])]
        if rng.random() < 0.5:
            corners = [(x, stop["y"]), (goal_x, stop["y"])]
        for corner in corners:
            time += (abs(corner[0] - x) + abs(corner[1] - y)) / speed
            x, y = corner
            path.append((time, x, y))
        path.append((time + wait, x, y))
    seconds = np.arange(rng.integers(REPORT), HOURS * 3600, REPORT)
    if name == SILENT:
        seconds = seconds[seconds < 3.1 * 3600]
    points = np.array(path)
    x, y = (np.interp(seconds, points[:, 0], points[:, i]) for i in (1, 2))
    speed = 3.6 * np.hypot(np.diff(x, append=x[-1]), np.diff(y, append=y[-1])) / REPORT
    n = len(seconds)
    return {
        "vehicle": np.full(n, name),
        "time": np.datetime64(START, "us") + seconds.astype("timedelta64[s]"),
        "x": x + rng.normal(0, GPS, n),
        "y": y + rng.normal(0, GPS, n),
        "speed": speed,
        "fuel": np.full(n, "diesel" if name.startswith("truck") else "electric"),
    }


def drive_all(vehicles: int, fences: list[dict[str, Any]], rng: np.random.Generator) -> pa.Table:
    """Return the reports of all vehicles, in order of time."""
    names = [f"{'truck' if i % 2 == 0 else 'van'}-{i}" for i in range(vehicles)]
    reports = pa.concat_tables(pa.table(drive(name, fences, rng)) for name in names)
    return reports.sort_by("time")


def watch(rules: tocsin.Rules, positions: pa.Table, **options: Any) -> list[dict[str, Any]]:
    """Return what happened until the end of the morning."""
    monitor = tocsin.Monitor(rules, "vehicle", "time", keep=["x", "y"], payload=["kind"], **options)
    events = [monitor.update(positions), monitor.advance(START + timedelta(hours=HOURS))]
    return [event for table in events for event in table.to_pylist()]


def find_stays(events: list[dict[str, Any]]) -> list[tuple[str, str, datetime, datetime]]:
    """Return vehicle, rule, enter and leave of all stays."""
    entered: dict[tuple[str, str], datetime] = {}
    stays = []
    for event in events:
        stay = event["object"], event["rule"]
        if event["event"] == "enter":
            entered[stay] = event["time"]
        elif event["event"] == "leave":
            stays.append((*stay, entered.pop(stay), event["time"]))
    end = START + timedelta(hours=HOURS)
    return stays + [(*stay, since, end) for stay, since in entered.items()]


def draw(
    fences: list[dict[str, Any]],
    positions: pa.Table,
    events: list[dict[str, Any]],
    flicker: dict[str, list[dict[str, Any]]],
    path: str,
) -> None:
    """Draw the city with what happened in it, the edge of a dock, and who was where when."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 6.3), layout="constrained")
    panels = figure.subplot_mosaic(
        [["city", "edge"], ["city", "day"]], width_ratios=[1.05, 1], height_ratios=[1, 1.6]
    )
    draw_city(panels["city"], fences, positions, events)
    draw_edge(panels["edge"], fences, positions, flicker)
    draw_day(panels["day"], events)
    figure.savefig(path, dpi=110)


def draw_city(panel: Any, fences: Any, positions: pa.Table, events: Any) -> None:
    """Draw roads, fences and what happened."""
    for name in np.unique(positions["vehicle"]):
        own = positions.filter(pc.field("vehicle") == name)
        panel.plot(own["x"], own["y"], color="0.7", linewidth=0.4, zorder=1)
    for fence in fences:
        half, color = fence["half"], COLORS[fence["kind"]]
        corner = fence["x"] - half, fence["y"] - half
        alpha = 0.15 if half > 200 else 0.8
        panel.add_patch(_rectangle(corner, 2 * half, color, alpha))
        if half > 100:
            panel.annotate(fence["id"], (fence["x"] - half, fence["y"] + half + 60), color=color)
    marks = [
        ("too long at a dock", "dwell", "*", "tab:orange", 130),
        ("too fast at the school", "enter", "o", "tab:red", 22),
        ("silent", "lost", "X", "black", 90),
    ]
    for label, event, marker, color, size in marks:
        shown = [e for e in events if e["event"] == event]
        shown = [e for e in shown if event != "enter" or e["rule"] == "school"]
        x, y = ([e[name] for e in shown] for name in ("x", "y"))
        style = {"marker": marker, "color": color, "edgecolors": "white", "linewidths": 0.6}
        panel.scatter(x, y, size, label=f"{label}: {len(shown)}", zorder=3, **style)
    panel.legend(loc="lower center", ncols=3, frameon=False, columnspacing=1, handletextpad=0)
    panel.set(title="What the monitor reported", ylabel="metres", aspect="equal", ylim=(200, 5_750))


def draw_edge(panel: Any, fences: Any, positions: pa.Table, flicker: Any) -> None:
    """Draw how far a vehicle was from the edge of a dock, and each enter and leave."""
    from matplotlib.ticker import MultipleLocator

    dock = next(f for f in fences if f["id"] == flicker["plain"][0]["rule"])
    own = positions.filter(pc.field("vehicle") == AT_THE_EDGE)
    beyond = np.array(own["x"]) - dock["x"] - dock["half"]
    near = np.abs(beyond) < 60
    hours = _hours(np.array(own["time"]))
    panel.plot(hours[near], beyond[near], ".", markersize=2, color="0.5")
    panel.axhspan(-60, 0, color=COLORS["dock"], alpha=0.2)
    panel.axhline(0, color=COLORS["dock"])
    panel.axhline(MARGIN, color=COLORS["dock"], linestyle="--")
    for level, name, color in ((44, "plain", "tab:red"), (32, "margin", "black")):
        times = _hours([np.datetime64(e["time"]) for e in flicker[name]])
        panel.plot(times, np.full(len(times), level), "|", markersize=9, color=color)
        label = f"{len(times)} events" if name == "plain" else f"{len(times)} with a margin"
        panel.annotate(label, (hours[near][-1] + 0.06, level), color=color, va="center")
    panel.set(title=f"{AT_THE_EDGE} at the edge of {dock['id']}", ylabel="metres beyond",
              xlim=(hours[near][0] - 0.1, hours[near][-1] + 1.1), ylim=(-30, 52))  # fmt: skip
    panel.xaxis.set_major_locator(MultipleLocator(1))
    panel.xaxis.set_major_formatter("{x:.0f}:00")


def draw_day(panel: Any, events: Any) -> None:
    """Draw the stays of each vehicle."""
    names = sorted({e["object"] for e in events}, key=lambda name: int(name.split("-")[1]))
    row = {name: i for i, name in enumerate(names)}
    kinds = {e["rule"]: e["kind"] for e in events if e["rule"] is not None}
    for name, rule, since, until in find_stays(events):
        width = 0.45 if kinds[rule] == "zone" else 0.8
        first, last = _hours([np.datetime64(since), np.datetime64(until)])
        panel.barh(row[name], last - first, width, first, color=COLORS[kinds[rule]],
                   alpha=0.5 if kinds[rule] == "zone" else 1)  # fmt: skip
    for e in events:
        time = _hours([np.datetime64(e["time"])])
        if e["event"] == "dwell":
            panel.plot(time, row[e["object"]], "*", color="tab:orange", markeredgecolor="white",
                       markersize=11)  # fmt: skip
        if e["event"] == "lost":
            panel.plot(time, row[e["object"]], "X", color="black", markersize=8)
    panel.set(title="Who was where", ylim=(len(names) - 0.4, -0.6), xlim=(6, 6 + HOURS))
    panel.set_yticks(range(0, len(names), 2), names[::2], fontsize=7)
    panel.xaxis.set_major_formatter("{x:.0f}:00")


def _hours(times: Any) -> np.ndarray:
    day = np.datetime64(START.replace(hour=0), "us")
    return (np.asarray(times, "datetime64[us]") - day) / np.timedelta64(1, "h")


def _rectangle(corner: tuple[float, float], side: float, color: str, alpha: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, side, side, facecolor=color, edgecolor=color, alpha=alpha, zorder=2)


def main(vehicles: int = 24, out: str | None = None) -> None:
    """Watch a morning, and print what happened."""
    rng = np.random.default_rng(5)
    fences = build_fences(rng)
    positions = drive_all(vehicles, fences, rng)
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number", "fuel": "category"})
    rules.add_many([{name: f[name] for name in ("id", "where", "kind", "limit")} for f in fences])
    events = watch(rules, positions, dwell="limit", margin=MARGIN, lost_after="30 min")
    print(f"{vehicles} vehicles, {len(positions):,} positions, {len(fences)} fences")
    counts = collections.Counter((e["kind"] or "all", e["event"]) for e in events)
    for (kind, event), count in sorted(counts.items()):
        print(f"  {kind:8}{event:8}{count:5}")
    longest = max((e for e in find_stays(events) if e[1].startswith("dock")),
                  key=lambda stay: stay[3] - stay[2])  # fmt: skip
    print(f"Longest at a dock: {longest[0]} at {longest[1]}, {longest[3] - longest[2]}")
    parked = positions.filter(pc.field("vehicle") == AT_THE_EDGE)
    ways = {
        "plain": {},
        "margin": {"margin": MARGIN},
        "waiting": {"min_stay": "2 min", "min_away": "2 min"},
    }
    flicker = {
        name: [e for e in watch(rules, parked, **options) if e["kind"] == "dock"]
        for name, options in ways.items()
    }
    print(f"{AT_THE_EDGE} stands at the very edge of {flicker['plain'][0]['rule']}:")
    for name, options in ways.items():
        text = ", ".join(f"{option}={value!r}" for option, value in options.items())
        print(f"  {len(flicker[name]):4} events with {text or 'no option'}")
    if out:
        draw(fences, positions, events, flicker, out)
        print(f"picture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=24)
    parser.add_argument("--out", default="docs/fleet.png")
    arguments = parser.parse_args()
    main(arguments.vehicles, arguments.out)
