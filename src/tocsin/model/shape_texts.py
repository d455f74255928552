"""Writes residuals as SQL; reading it again gives the same shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tocsin.geometry.shape import Kind, Shape
from tocsin.model.attributes import Attributes
from tocsin.model.residuals import Residual


def residual_text(residual: Residual, attributes: Attributes) -> str:
    """Return a residual as SQL.

    >>> from tocsin.geometry.shape import disc
    >>> from tocsin.model.residuals import coordinate_of
    >>> from tocsin.model.schema import Schema
    >>> x, y = (coordinate_of(attribute, "number") for attribute in (0, 1))
    >>> attributes = Attributes(Schema({"x": "number", "y": "number"}))
    >>> residual_text(Residual(x, y, disc(2.35, 48.86, 0.01), True), attributes)
    'NOT ST_DWithin(ST_Point(x, y), ST_Point(2.35, 48.86), 0.01)'
    """
    shape, prefix = residual.shape, "NOT " * residual.negated
    columns = [attributes.sql(each.attribute) for each in (residual.x, residual.y)]
    point = f"ST_Point({', '.join(columns)})"
    if shape.kind == Kind.POLYGON:
        name = "ST_Covers" if shape.closed else "ST_Contains"
        return f"{prefix}{name}(ST_GeomFromText('{to_wkt(shape)}'), {point})"
    x, y, size = map(_number, shape.points.ravel()[:3].tolist())
    center = f"ST_Point({x}, {y})"
    if shape.kind == Kind.DISC:
        return f"{prefix}ST_DWithin({point}, {center}, {size})"
    operator = {True: "<=", False: "<"}[shape.closed]
    if residual.negated:
        operator = {"<=": ">", "<": ">="}[operator]
    return f"ST_DistanceSphere({point}, {center}) {operator} {size}"


def to_wkt(shape: Shape) -> str:
    """Return a polygon as well-known text.

    Its rings are those of shapely's normal form, in which the rings of a part follow each other:
    first the outer one, then holes, which go the other way round.
    """
    parts: list[list[str]] = []
    outer = False
    for ring in _rings(shape):
        text = "(" + ", ".join(f"{_number(x)} {_number(y)}" for x, y in ring.tolist()) + ")"
        is_left = _is_left(ring)
        if not parts or is_left == outer:
            outer = is_left
            parts.append([])
        parts[-1].append(text)
    polygons = ["(" + ", ".join(rings) + ")" for rings in parts]
    if len(polygons) == 1:
        return f"POLYGON {polygons[0]}"
    return f"MULTIPOLYGON ({', '.join(polygons)})"


def _rings(shape: Shape) -> Iterator[np.ndarray]:
    points, begin = shape.points, 0
    for length in shape.lengths:
        yield points[begin : begin + length]
        begin += length


def _is_left(ring: np.ndarray) -> bool:
    """Return whether a ring has its inside on its left."""
    scale = max(float(np.abs(ring).max()), 1e-300)
    x, y = ((ring - ring[0]) / scale).T
    return math.fsum(x[:-1] * y[1:] - x[1:] * y[:-1]) > 0


def _number(value: float) -> str:
    text = repr(float(value))
    return text.removesuffix(".0") if abs(value) < 1e15 else text
