"""Zones of a city: taxis in polygons with holes, in circles of metres, and outside of both.

    python -m examples.city_zones [--taxis 4000] [--out docs/city-zones.png]

A low-emission zone follows a ring road and has a hole, a port that is exempt. Around the station
taxis may not wait, within 400 metres. Fast taxis are reported outside of the zone only.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

import tocsin

SCHEMA = {"lon": "number", "lat": "number", "speed": "number"}
CENTRE, STATION = (2.35, 48.86), (2.372, 48.874)
HALF_AXES = 0.085, 0.045  # degrees of longitude and latitude
BOX = (2.22, 2.48, 48.79, 48.93)


def ring_road() -> list[tuple[float, float]]:
    """Return the vertices of the ring road, the first one again at the end."""
    angle = np.linspace(0, 2 * np.pi, 73)
    reach = 1 + 0.13 * np.sin(3 * angle) + 0.06 * np.cos(7 * angle)
    x = CENTRE[0] + HALF_AXES[0] * reach * np.cos(angle)
    y = CENTRE[1] + HALF_AXES[1] * reach * np.sin(angle)
    ring = np.round(np.column_stack([x, y]), 5)
    ring[-1] = ring[0]
    return [(float(lon), float(lat)) for lon, lat in ring]


def port() -> list[tuple[float, float]]:
    """Return the vertices of the port."""
    return [(2.29, 48.84), (2.33, 48.836), (2.335, 48.848), (2.31, 48.858), (2.29, 48.84)]


def write_rules() -> tocsin.Rules:
    """Return the rules about the zones."""
    rings = ", ".join(
        "(" + ", ".join(f"{lon} {lat}" for lon, lat in ring) + ")" for ring in (ring_road(), port())
    )
    zone = f"ST_Covers(ST_GeomFromText('POLYGON ({rings})'), ST_Point(lon, lat))"
    station = f"ST_DistanceSphere(ST_Point(lon, lat), ST_Point({STATION[0]}, {STATION[1]}))"
    rules = tocsin.Rules(SCHEMA)
    rules.add("low emission", zone)
    rules.add("station", f"{station} < 400 AND speed < 5")
    rules.add("fast", f"NOT {zone} AND speed > 70")
    return rules


def drive(taxis: int, seed: int = 0) -> pa.Table:
    """Return where taxis are, and how fast."""
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(BOX[0], BOX[1], taxis), rng.uniform(BOX[2], BOX[3], taxis)
    near = rng.random(taxis) < 0.1  # around the station
    lon = np.where(near, rng.normal(STATION[0], 0.005, taxis), lon)
    lat = np.where(near, rng.normal(STATION[1], 0.004, taxis), lat)
    speed = np.where(rng.random(taxis) < 0.3, 0.0, rng.uniform(10, 90, taxis))
    return pa.table({"lon": lon.round(6), "lat": lat.round(6), "speed": speed.round()})


def draw(events: pa.Table, found: dict[str, np.ndarray], path: str) -> None:
    """Draw the zones and the taxis, in the colours of the rules that they satisfy."""
    import matplotlib.pyplot as plt

    lon, lat = np.asarray(events["lon"]), np.asarray(events["lat"])
    figure, axes = plt.subplots(figsize=(9, 6.4), layout="constrained")
    axes.plot(lon, lat, ".", markersize=3, color="0.8", label="other taxis")
    colors = {"low emission": "tab:green", "station": "tab:red", "fast": "tab:orange"}
    for rule, color in colors.items():
        rows = found[rule]
        axes.plot(lon[rows], lat[rows], ".", markersize=4, color=color, label=rule)
    for ring in (ring_road(), port()):
        axes.plot(*np.array(ring).T, color="tab:green", linewidth=1.5)
    low, high = np.array(ring_road()).min(axis=0), np.array(ring_road()).max(axis=0)
    axes.plot(*zip(low, (high[0], low[1]), high, (low[0], high[1]), low), color="0.5", ls=":",
              label="bounding box")  # fmt: skip
    turn = np.linspace(0, 2 * np.pi, 60)
    degree = 111_195.08
    across = 400 / degree / np.cos(np.radians(STATION[1]))
    axes.plot(STATION[0] + across * np.cos(turn), STATION[1] + 400 / degree * np.sin(turn),
              color="tab:red", linewidth=1.5)  # fmt: skip
    axes.set(xlabel="longitude", ylabel="latitude", title="Taxis, and the rules they satisfy")
    axes.set_aspect(1 / np.cos(np.radians(CENTRE[1])))
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=110)


def main(taxis: int = 4_000, out: str | None = None) -> None:
    """Find and draw the taxis in the zones."""
    rules, events = write_rules(), drive(taxis)
    table = rules.match(events).to_arrow()
    rows = np.asarray(table["event"])
    found = {rule: rows[np.asarray(table["rule"]) == rule] for rule in rules}
    low, high = np.array(ring_road()).min(axis=0), np.array(ring_road()).max(axis=0)
    points = np.column_stack([events["lon"], events["lat"]])
    in_box = int(((points >= low) & (points <= high)).all(axis=1).sum())
    print(f"{taxis:,} taxis")
    for rule, own in found.items():
        print(f"{rule}: {len(own):,}")
    print(f"in the bounding box of the zone: {in_box:,}")
    print(rules.explain({"lon": 2.3775, "lat": 48.8742, "speed": 0.0}, "station"))
    if out:
        draw(events, found, out)
        print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taxis", type=int, default=4_000)
    parser.add_argument("--out")
    main(**vars(parser.parse_args()))
