"""Generate a city from a seed: coast, river, streets and places.

Rings and radial streets surround an old town. A smooth warp bends them. A river, which only avenues
cross, and the sea in the east cut them. Coordinates are kilometres; the frame is `WIDTH` x
`HEIGHT`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 16.0, 10.0
CENTRE = np.array([5.0, 5.1])
RIVER_WIDTH = 0.34
GASWORKS = np.array([7.55, 3.55])  # where the fire breaks out
_RINGS = 0.28 + 0.2 * np.arange(35)
NAMES = (  # of the hubs, the busiest first
    "Central Station", "Corn Market", "Gasworks Gate", "Harbour Bridge", "Town Hall",
    "Fish Market", "Opera", "St Brice", "Mint Square", "Old Walls", "University", "Ropewalk",
    "Lindens", "Customs House", "Arsenal", "Brewery", "Tannery", "Observatory", "Barracks",
    "Hospital", "Weavers Row", "Salt Stairs", "Museum", "Bell Foundry", "Mill Lock",
    "Plane Trees", "Glasshouse", "North Gate",
)  # fmt: skip
_BOULEVARDS = (3, 9, 17, 25)  # rings that are avenues


class City(NamedTuple):
    """Streets as a graph, and the places that attract traffic."""

    nodes: np.ndarray  # float64[n, 2], crossings
    edges: np.ndarray  # int64[m, 2], streets between two crossings
    is_avenue: np.ndarray  # bool[m]
    hubs: np.ndarray  # float64[h, 2], in the order of `NAMES`
    parks: np.ndarray  # float64[p, 4], x_low, x_high, y_low, y_high


def coast(y: np.ndarray) -> np.ndarray:
    """Return the x coordinate of the coast."""
    return 9.75 + 0.35 * np.sin(0.75 * y + 0.6) + 0.12 * np.sin(2.3 * y)


def river(x: np.ndarray) -> np.ndarray:
    """Return the y coordinate of the middle of the river."""
    return 4.1 + 0.75 * np.sin(0.62 * x + 2.6) + 0.16 * np.sin(1.7 * x) + 0.07 * x


def in_water(points: np.ndarray) -> np.ndarray:
    """Return which points are in the river or the sea."""
    x, y = points[..., 0], points[..., 1]
    return (np.abs(y - river(x)) < RIVER_WIDTH / 2) | (x > coast(y))


def build(seed: int) -> City:
    """Return a city; the same seed gives the same city."""
    rng = np.random.default_rng([seed, 1])
    nodes, edges, is_avenue = _build_streets(rng)
    hubs = _choose_hubs(rng, nodes)
    corners = nodes[rng.choice(len(nodes), 60)]
    corners = corners[~in_water(corners)][:12]
    sizes = rng.uniform(0.25, 0.7, (len(corners), 2))
    low, high = corners, corners + sizes
    parks = np.column_stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]])
    middles = (low + high) / 2
    is_dry = ~(in_water(middles) | in_water(low) | in_water(high))
    return City(nodes, edges, is_avenue, hubs, parks[is_dry])


def _build_streets(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return crossings, streets, and which streets are avenues."""
    # The number of radial streets doubles outwards, so that all blocks have about the same size.
    radials = [16 * 2 ** int(np.log2(max(r / 0.5, 1.0))) for r in _RINGS]
    first = np.concatenate([[0], np.cumsum(radials)])
    angle = np.concatenate([np.arange(n) * 2 * np.pi / n for n in radials])
    radius = np.repeat(_RINGS, radials)
    tables = []
    for ring, n in enumerate(radials):
        spokes = np.arange(n)
        around = np.column_stack([first[ring] + spokes, first[ring] + (spokes + 1) % n])
        tables.append(np.column_stack([around, np.full(n, ring in _BOULEVARDS)]))
        if ring + 1 < len(radials):
            ratio = radials[ring + 1] // n
            outwards = np.column_stack([first[ring] + spokes, first[ring + 1] + spokes * ratio])
            tables.append(np.column_stack([outwards, spokes % (n // 8) == 0]))
    table = np.concatenate(tables)
    edges, is_avenue = table[:, :2], table[:, 2].astype(bool)

    nodes = CENTRE + np.column_stack([1.12 * radius * np.cos(angle), radius * np.sin(angle)])
    nodes = _warp(nodes) + rng.normal(0, 0.022, nodes.shape)

    ends = nodes[edges]
    x, y = nodes[:, 0], nodes[:, 1]
    inside = (x > 0.05) & (x < coast(y) - 0.06) & (y > 0.05) & (y < HEIGHT - 0.05)
    side = np.sign(ends[..., 1] - river(ends[..., 0]))
    is_wet = in_water(ends).any(axis=1) | (side[:, 0] != side[:, 1])
    # There are fewer streets far from the centre, and only avenues cross the river.
    remoteness = np.hypot(*(ends.mean(axis=1) - CENTRE).T) / 6
    is_drawn = rng.random(len(edges)) > 0.06 + 0.22 * remoteness**2
    is_kept = inside[edges].all(axis=1) & (is_avenue | (is_drawn & ~is_wet))
    edges, is_avenue = edges[is_kept], is_avenue[is_kept]
    is_connected = _find_connected(edges, len(nodes))
    edges, is_avenue = edges[is_connected], is_avenue[is_connected]
    used, renumbered = np.unique(edges, return_inverse=True)
    return nodes[used], renumbered.reshape(-1, 2), is_avenue


def _find_connected(edges: np.ndarray, n: int) -> np.ndarray:
    """Return which streets are connected to most others and are not dead ends."""
    remaining = np.ones(len(edges), dtype=bool)
    while True:
        degree = np.bincount(edges[remaining].ravel(), minlength=n)
        dead_end = remaining & (degree[edges] == 1).any(axis=1)
        if not dead_end.any():
            break
        remaining &= ~dead_end
    label = np.arange(n)  # the smallest crossing that can be reached
    while True:
        least = np.where(remaining, label[edges].min(axis=1), n)
        before = label.copy()
        np.minimum.at(label, edges[remaining], least[remaining, None])
        if (label == before).all():
            break
    largest = np.bincount(label[edges[remaining, 0]]).argmax()
    return remaining & (label[edges[:, 0]] == largest)


def _warp(points: np.ndarray) -> np.ndarray:
    """Bend the plan, as real streets follow old brooks and walls."""
    x, y = points[:, 0], points[:, 1]
    dx = 0.22 * np.sin(1.15 * y + 0.4) + 0.10 * np.sin(2.1 * x + 1.3 * y)
    dy = 0.20 * np.sin(1.05 * x + 1.1) + 0.10 * np.cos(1.9 * y - 1.1 * x)
    return points + np.column_stack([dx, dy])


def _choose_hubs(rng: np.random.Generator, nodes: np.ndarray) -> np.ndarray:
    """Return hubs, the busiest first: most are near the old town, one is at the gasworks."""
    distance = np.hypot(*(nodes - CENTRE).T)
    chance = np.exp(-((distance / 2.6) ** 2))
    chosen = nodes[rng.choice(len(nodes), len(NAMES) - 1, replace=False, p=chance / chance.sum())]
    gate = nodes[np.hypot(*(nodes - GASWORKS - [0.5, 0.3]).T).argmin()]
    return np.vstack([chosen[:2], gate, chosen[2:]])
