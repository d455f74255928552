"""The rules of the city: several thousand, in nine families.

Conditions are written as a person would write them. The payload of a rule is its family and a
description in words.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.cli.demo.city import GASWORKS, NAMES, City
from tocsin.cli.demo.traffic import FLEETS

FAMILIES = {  # colour on the map
    "deliveries": "#ffb454",
    "bus lanes": "#59c2ff",
    "schools": "#ff6b81",
    "parking": "#b98cff",
    "taxi ranks": "#ffe66d",
    "charging": "#5ef0c0",
    "clean air": "#8bd450",
    "no fly": "#ff8ad8",
    "fleets": "#9aa5b8",
}
ALARM = "site/gasworks"  # the rule that is replaced


Box = tuple[float, float, float, float]  # x_low, x_high, y_low, y_high


class Fence(NamedTuple):
    """A rule; its box is None if it applies everywhere."""

    id: str
    family: str
    description: str
    where: str
    box: Box | None


def build(city: City, seed: int) -> list[Fence]:
    """Return the rules of a city; the same city and seed give the same rules."""
    rng = np.random.default_rng([seed, 3])
    fences = [*_deliveries(city, rng), *_bus_lanes(city), *_schools(city, rng)]
    fences += _stands(city, rng)
    fences += _areas(city, rng)
    fences += _fleets()
    return [*fences, alarm_before()]


def alarm_before() -> Fence:
    """Return the rule of the gasworks before the fire: a speed limit at the gates."""
    box = _box(GASWORKS, 0.42, 0.36)
    return _fence(ALARM, "alarm", "over 45 km/h at the gasworks", box, "speed > 45")


def alarm_after() -> Fence:
    """Return the same rule during the fire: a large zone that everyone but firefighters leaves."""
    box = _box(GASWORKS, 0.95, 0.8)
    return _fence(ALARM, "alarm", "anyone in the fire zone", box, "kind <> 'fire engine'")


def to_table(fences: list[Fence]) -> pa.Table:
    """Return rules as a table for `add_many`, with their payload."""
    names = ("id", "where", "family", "description")
    return pa.table({name: [getattr(f, name) for f in fences] for name in names})


def _deliveries(city: City, rng: np.random.Generator) -> list[Fence]:
    """Return addresses that expect a van of one firm; they are many, small, and match rarely."""
    fences = []
    for number, at in enumerate(_draw_places(city, rng, 2200)):
        firm = str(rng.choice(FLEETS["van"]))
        test = f"kind IN ('van', 'truck') AND fleet = '{firm}'"
        description = f"{firm} is around the corner"
        box = _box(at, *rng.uniform(0.05, 0.12, 2))
        fences.append(_fence(f"drop/{number:04d}", "deliveries", description, box, test))
    return fences


def _bus_lanes(city: City) -> list[Fence]:
    """Return bus lanes: every avenue has one from 7:30, except at crossings."""
    fences = []
    test = "kind NOT IN ('bus', 'taxi', 'bike', 'fire engine', 'drone') AND speed < 12"
    for number, (a, b) in enumerate(city.nodes[city.edges[city.is_avenue]]):
        box = _box((a + b) / 2, *np.maximum(abs(a - b) / 4, 0.02))
        description = "crawling in the bus lane"
        test_with_hour = f"{test} AND hour >= 7.5"
        fences.append(_fence(f"lane/{number:03d}", "bus lanes", description, box, test_with_hour))
    return fences


def _schools(city: City, rng: np.random.Generator) -> list[Fence]:
    fences = []
    for number, at in enumerate(_draw_places(city, rng, 260)):
        limit = int(rng.choice([30, 30, 30, 40]))
        until = float(rng.choice([8.25, 8.5, 8.75]))
        test = f"speed > {limit} AND hour BETWEEN 7.5 AND {until} AND kind NOT IN ('drone')"
        description = f"over {limit} by a school, 7:30 to {_format_clock(until)}"
        box = _box(at, *rng.uniform(0.08, 0.15, 2))
        fences.append(_fence(f"school/{number:03d}", "schools", description, box, test))
    return fences


def _stands(city: City, rng: np.random.Generator) -> list[Fence]:
    """Return parking lots, taxi ranks and charging points."""
    fences = []
    for number, at in enumerate(_draw_places(city, rng, 700)):
        test = "kind IN ('scooter', 'bike') AND speed = 0"
        box = _box(at, 0.07, 0.07)
        fences.append(_fence(f"rack/{number:03d}", "parking", "parked off the racks", box, test))
    for name, hub in zip(NAMES, city.hubs):
        for corner, at in enumerate(hub + rng.normal(0, 0.22, (8, 2))):
            test = "kind = 'taxi' AND speed < 5"
            box = _box(at, 0.12, 0.12)
            id_ = f"rank/{_slug(name)}-{corner}"
            fences.append(_fence(id_, "taxi ranks", f"a free taxi at {name}", box, test))
    for number, at in enumerate(_draw_places(city, rng, 600)):
        level = int(rng.choice([15, 20, 25, 30]))
        test = f"battery < {level} AND kind <> 'drone'"
        description = f"under {level} % near a charger"
        box = _box(at, *rng.uniform(0.1, 0.2, 2))
        fences.append(_fence(f"charge/{number:03d}", "charging", description, box, test))
    return fences


def _areas(city: City, rng: np.random.Generator) -> list[Fence]:
    """Return large fences: clean air around hubs, no drones over parks and hubs."""
    fences = []
    for name, at in list(zip(NAMES, city.hubs))[:14]:
        test = "kind = 'truck' OR (kind = 'van' AND battery IS NULL AND hour >= 8)"
        box = _box(at, *rng.uniform(0.2, 0.45, 2))
        description = f"truck or fuel van, clean air at {name}"
        fences.append(_fence(f"air/{_slug(name)}", "clean air", description, box, f"({test})"))
    parks = city.parks.reshape(-1, 2, 2).mean(axis=2)
    named = [*zip(NAMES[:16], city.hubs), *((f"Park {n + 1}", at) for n, at in enumerate(parks))]
    for name, at in named:
        box = _box(at, *rng.uniform(0.15, 0.3, 2))
        test = "kind = 'drone'"
        description = f"a drone over {name}"
        fences.append(_fence(f"sky/{_slug(name)}", "no fly", description, box, test))
    return fences


def _fleets() -> list[Fence]:
    """Return rules of the owners of fleets, which apply everywhere."""
    fences = []
    for fleet in sorted({f for names in FLEETS.values() for f in names}):
        slug = _slug(fleet)
        for level in (5, 8):
            description = f"{fleet}: under {level} % and moving"
            test = f"fleet = '{fleet}' AND battery < {level} AND speed > 0"
            fences.append(Fence(f"fleet/{slug}-{level}", "fleets", description, test, None))
        description = f"{fleet}: over 70 km/h"
        test = f"fleet = '{fleet}' AND speed > 70 AND kind <> 'fire engine'"
        fences.append(Fence(f"fleet/{slug}-fast", "fleets", description, test, None))
    return fences


def _draw_places(city: City, rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw n places on streets, float64[n, 2]."""
    ends = city.nodes[city.edges[rng.integers(len(city.edges), size=n)]]
    share = rng.random((n, 1))
    return ends[:, 0] * share + ends[:, 1] * (1 - share)


def _box(middle: np.ndarray, half_width: float, half_height: float) -> Box:
    """Return the box around a point, rounded to metres."""
    half = np.array([half_width, half_height])
    low_x, low_y = (middle - half).round(3).tolist()
    high_x, high_y = (middle + half).round(3).tolist()
    return low_x, high_x, low_y, high_y


def _fence(id: str, family: str, description: str, box: Box, test: str) -> Fence:
    where = f"x BETWEEN {box[0]} AND {box[1]} AND y BETWEEN {box[2]} AND {box[3]} AND {test}"
    return Fence(id, family, description, where, box)


def _slug(name: str) -> str:
    return name.lower().replace(" & ", "-").replace(" ", "-")


def _format_clock(hour: float) -> str:
    return f"{int(hour)}:{int(hour % 1 * 60):02d}"
