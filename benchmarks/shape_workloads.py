"""Shapes and points for `benchmarks.shapes`: countries, stars, and many random polygons."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import shapely


class Workload(NamedTuple):
    name: str
    texts: list[str]  # well-known text of each polygon
    points: np.ndarray  # [n, 2]


def countries(points: int, rng: np.random.Generator) -> Workload:
    """Return the countries of the package geopip and uniform points."""
    package = importlib.util.find_spec("geopip")
    assert package
    assert package.origin
    data = json.loads((Path(package.origin).parent / "globe.geo.json").read_text())
    polygons = [shapely.from_geojson(json.dumps(f["geometry"])) for f in data["features"]]
    texts = [shapely.to_wkt(shapely.make_valid(p), rounding_precision=-1) for p in polygons]
    where = rng.uniform((-180, -90), (180, 90), (points, 2))
    return Workload("countries", texts, where)


def stars(shapes: int, points: int, rng: np.random.Generator) -> Workload:
    """Return polygons of 5 to 200 vertices at different distances from their centres."""
    size = rng.integers(5, 201, shapes)
    centre = rng.random((shapes, 2))
    width = rng.uniform(0.005, 0.05, shapes)
    return Workload("stars", _rings(size, centre, width, rng), rng.random((points, 2)))


def small_polygons(shapes: int, points: int, rng: np.random.Generator) -> Workload:
    """Return many polygons of 4 to 24 vertices; a point is in about two."""
    size = rng.integers(4, 25, shapes)
    centre = rng.random((shapes, 2))
    width = rng.uniform(0.25, 2.0, shapes) / np.sqrt(shapes)
    return Workload("polygons", _rings(size, centre, width, rng), rng.random((points, 2)))


def _rings(
    size: np.ndarray, centre: np.ndarray, width: np.ndarray, rng: np.random.Generator
) -> list[str]:
    """Return rings whose vertices go around a centre."""
    total, shape = int(size.sum()), np.repeat(np.arange(len(size)), size)
    begin = np.cumsum(size) - size
    step = rng.uniform(0.5, 1.5, total)  # angles that ascend, and no gap of half a turn
    turn = np.cumsum(step)
    turn -= (turn - step)[begin][shape]
    angle = 2 * np.pi * turn / np.add.reduceat(step, begin)[shape]
    radius = width[shape] * rng.uniform(0.4, 1.0, total)
    vertices = centre[shape] + radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    rings = [vertices[b : b + n] for b, n in zip(begin, size)]
    closed = [np.concatenate([ring, ring[:1]]) for ring in rings]
    return shapely.to_wkt(
        [shapely.Polygon(ring) for ring in closed], rounding_precision=-1
    ).tolist()
