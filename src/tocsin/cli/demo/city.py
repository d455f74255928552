"""A city that never was: coast, river, streets and places, all from one seed.

Rings and radial streets around an old town, bent by a smooth warp so that nothing is
quite straight, cut by a river that only avenues cross and by the sea in the east.
Coordinates are kilometres; the frame is `WIDTH` x `HEIGHT`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 16.0, 10.0
CENTRE = np.array([5.0, 5.1])
RIVER_WIDTH = 0.34
GASWORKS = np.array([7.55, 3.55])  # where it will burn
_RINGS = 0.28 + 0.2 * np.arange(35)
NAMES = (  # of the hot spots, the busiest first
    "Central Station", "Corn Market", "Gasworks Gate", "Harbour Bridge", "Town Hall",
    "Fish Market", "Opera", "St Brice", "Mint Square", "Old Walls", "University", "Ropewalk",
    "Lindens", "Customs House", "Arsenal", "Brewery", "Tannery", "Observatory", "Barracks",
    "Hospital", "Weavers Row", "Salt Stairs", "Museum", "Bell Foundry", "Mill Lock",
    "Plane Trees", "Glasshouse", "North Gate",
)  # fmt: skip
_BOULEVARDS = (3, 9, 17, 25)  # rings that are avenues


class City(NamedTuple):
    """Streets as a graph, and the places that traffic is drawn to."""

    nodes: np.ndarray  # float64[n, 2], crossings
    edges: np.ndarray  # int64[m, 2], streets between two crossings
    avenue: np.ndarray  # bool[m], whether a street is an avenue
    hubs: np.ndarray  # float64[h, 2], hot spots, in the order of `NAMES`
    parks: np.ndarray  # float64[p, 4], x_low, x_high, y_low, y_high


def coast(y: np.ndarray) -> np.ndarray:
    """Return where the land ends and the sea begins."""
    return 9.75 + 0.35 * np.sin(0.75 * y + 0.6) + 0.12 * np.sin(2.3 * y)


def river(x: np.ndarray) -> np.ndarray:
    """Return the middle of the river."""
    return 4.1 + 0.75 * np.sin(0.62 * x + 2.6) + 0.16 * np.sin(1.7 * x) + 0.07 * x


def in_water(points: np.ndarray) -> np.ndarray:
    """Tell which points lie in the river or the sea."""
    x, y = points[..., 0], points[..., 1]
    return (np.abs(y - river(x)) < RIVER_WIDTH / 2) | (x > coast(y))


def build(seed: int) -> City:
    """Return the city of a seed; the same seed gives the same city."""
    rng = np.random.default_rng([seed, 1])
    nodes, edges, avenue = _streets(rng)
    hubs = _hubs(rng, nodes)
    corners = nodes[rng.choice(len(nodes), 60)]
    corners = corners[~in_water(corners)][:12]
    sizes = rng.uniform(0.25, 0.7, (len(corners), 2))
    low, high = corners, corners + sizes
    parks = np.column_stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]])
    middles = (low + high) / 2
    dry = ~(in_water(middles) | in_water(low) | in_water(high))
    return City(nodes, edges, avenue, hubs, parks[dry])


def _streets(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return crossings, streets and which of these are avenues."""
    # The number of radial streets doubles outwards, so that blocks keep their size.
    radials = [16 * 2 ** int(np.log2(max(r / 0.5, 1.0))) for r in _RINGS]
    first = np.concatenate([[0], np.cumsum(radials)])
    angle = np.concatenate([np.arange(n) * 2 * np.pi / n for n in radials])
    radius = np.repeat(_RINGS, radials)
    ways = []
    for ring, n in enumerate(radials):
        spokes = np.arange(n)
        around = np.column_stack([first[ring] + spokes, first[ring] + (spokes + 1) % n])
        ways.append(np.column_stack([around, np.full(n, ring in _BOULEVARDS)]))
        if ring + 1 < len(radials):
            ratio = radials[ring + 1] // n
            out = np.column_stack([first[ring] + spokes, first[ring + 1] + spokes * ratio])
            ways.append(np.column_stack([out, spokes % (n // 8) == 0]))
    table = np.concatenate(ways)
    edges, avenue = table[:, :2], table[:, 2].astype(bool)

    nodes = CENTRE + np.column_stack([1.12 * radius * np.cos(angle), radius * np.sin(angle)])
    nodes = _warped(nodes) + rng.normal(0, 0.022, nodes.shape)

    ends = nodes[edges]
    x, y = nodes[:, 0], nodes[:, 1]
    inside = (x > 0.05) & (x < coast(y) - 0.06) & (y > 0.05) & (y < HEIGHT - 0.05)
    side = np.sign(ends[..., 1] - river(ends[..., 0]))
    wet = in_water(ends).any(axis=1) | (side[:, 0] != side[:, 1])
    # Far out there are fewer streets; only avenues bridge the river.
    outness = np.hypot(*(ends.mean(axis=1) - CENTRE).T) / 6
    kept = rng.random(len(edges)) > 0.06 + 0.22 * outness**2
    stays = inside[edges].all(axis=1) & (avenue | (kept & ~wet))
    edges, avenue = edges[stays], avenue[stays]
    lively = _lively(edges, len(nodes))
    edges, avenue = edges[lively], avenue[lively]
    used, renumbered = np.unique(edges, return_inverse=True)
    return nodes[used], renumbered.reshape(-1, 2), avenue


def _lively(edges: np.ndarray, n: int) -> np.ndarray:
    """Tell which streets lead somewhere: no dead ends, and not cut off from the rest."""
    alive = np.ones(len(edges), dtype=bool)
    while True:
        degree = np.bincount(edges[alive].ravel(), minlength=n)
        dead = alive & (degree[edges] == 1).any(axis=1)
        if not dead.any():
            break
        alive &= ~dead
    label = np.arange(n)  # the smallest crossing that can be reached
    while True:
        least = np.where(alive, label[edges].min(axis=1), n)
        before = label.copy()
        np.minimum.at(label, edges[alive], least[alive, None])
        if (label == before).all():
            break
    main = np.bincount(label[edges[alive, 0]]).argmax()
    return alive & (label[edges[:, 0]] == main)


def _warped(points: np.ndarray) -> np.ndarray:
    """Bend the plan: real streets follow forgotten brooks and walls."""
    x, y = points[:, 0], points[:, 1]
    dx = 0.22 * np.sin(1.15 * y + 0.4) + 0.10 * np.sin(2.1 * x + 1.3 * y)
    dy = 0.20 * np.sin(1.05 * x + 1.1) + 0.10 * np.cos(1.9 * y - 1.1 * x)
    return points + np.column_stack([dx, dy])


def _hubs(rng: np.random.Generator, nodes: np.ndarray) -> np.ndarray:
    """Return hot spots, the busiest first: more of them near the old town, one by the gasworks."""
    away = np.hypot(*(nodes - CENTRE).T)
    chance = np.exp(-((away / 2.6) ** 2))
    chosen = nodes[rng.choice(len(nodes), len(NAMES) - 1, replace=False, p=chance / chance.sum())]
    gate = nodes[np.hypot(*(nodes - GASWORKS - [0.5, 0.3]).T).argmin()]
    return np.vstack([chosen[:2], gate, chosen[2:]])
