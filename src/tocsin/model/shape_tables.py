"""Reads tables of shapes: each row is a rule, that a point is in a polygon or on its edge.

The column `shape` has well-known text, well-known bytes or GeoJSON, or comes from a geopandas
frame. All shapes are read at once, and their bounding boxes are intervals as those of tables of
boxes are. Equal shapes are stored once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t
import sqlglot

from tocsin.errors import ConditionError, RuleError, ShapeError
from tocsin.geometry.shape import Shape, read_geojson, read_wkb, read_wkt
from tocsin.geometry.table import ShapeTable, build_table
from tocsin.jit import freeze, freeze_fields
from tocsin.model import encoding
from tocsin.model.arrow import decode, is_text
from tocsin.model.attributes import Attributes
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.nodes import PARSER_ERRORS
from tocsin.model.operands import Operands
from tocsin.model.predicates import INTERVAL
from tocsin.model.residuals import Coordinate, Residuals, ShapeTests, coordinate_of
from tocsin.model.schema import ARTICLE
from tocsin.model.shape_boxes import box_interval

COLUMN = "shape"
_USUAL_POINTS = (("lon", "lat"), ("longitude", "latitude"), ("x", "y"))


def check_point(point: Any, attributes: Attributes) -> tuple[str, str]:
    """Return two names of attributes, or terms, that shapes are about; raise if they are not."""
    is_pair = isinstance(point, tuple | list) and [*map(type, point)] == [str, str]
    if not is_pair:
        raise RuleError(
            f"point is the names of two attributes, as in point=('lon', 'lat'); got {point!r}"
        )
    find_point(point, attributes.copy(len(attributes)))
    return point[0], point[1]


def usual_point(attributes: Attributes) -> tuple[str, str] | None:
    """Return the usual names of a point, if attributes have just one pair of them."""
    found = [
        (x, y)
        for x, y in _USUAL_POINTS
        if all((a := attributes.find(n)) is not None and _is_number(attributes, a) for n in (x, y))
    ]
    return found[0] if len(found) == 1 else None


def _is_number(attributes: Attributes, attribute: int) -> bool:
    return coordinate_of(attribute, attributes.kind(attribute)) is not None


def find_point(point: Sequence[str], attributes: Attributes) -> tuple[Coordinate, Coordinate]:
    """Return the coordinates that shapes are about; terms are added to the attributes."""
    x, y = (_find_coordinate(text, attributes) for text in point)
    if x.attribute == y.attribute:
        raise RuleError(f"the two attributes of a point must differ, got {point!r}")
    return x, y


def _find_coordinate(text: str, attributes: Attributes) -> Coordinate:
    attribute = attributes.find(text)
    if attribute is None:
        try:
            attribute = Operands(attributes).operand(sqlglot.parse_one(text, dialect="spark"))
        except ConditionError as error:
            raise RuleError(f"point: {error}") from None
        except PARSER_ERRORS:
            raise RuleError(f"point: {text!r} is no attribute, and no term") from None
    kind = attributes.kind(attribute)
    coordinate = coordinate_of(attribute, kind)
    if coordinate is None:
        raise RuleError(
            f"point: the coordinates of a point are numbers, but {text!r} is {ARTICLE[kind]}"
        )
    return coordinate


def from_geopandas(source: Any) -> Any:
    """Return a geopandas frame with its geometry as a column `shape` of well-known bytes."""
    if not type(source).__module__.startswith("geopandas") or not hasattr(source, "to_wkb"):
        return source
    name = source.geometry.name
    return source.to_wkb().rename(columns={name: COLUMN})


def to_shape_column(values: Sequence[Any]) -> pa.Array:
    """Return shapes that are Python values as a column: GeoJSON may be a dict."""
    if any(hasattr(value, "__geo_interface__") for value in values):
        values = [getattr(value, "__geo_interface__", value) for value in values]
    return pa.array([json.dumps(v) if isinstance(v, dict) else v for v in values])


def read_shapes(
    column: pa.ChunkedArray,
    ids: pa.Array,
    point: tuple[str, str],
    attributes: Attributes,
    first: int,
) -> tuple[Conjunctions, Residuals | None]:
    """Return a conjunction for each shape of a column, and its residual.

    Positions count from `first`; there is none for a box that has no value.
    """
    coordinates = find_point(point, attributes)
    shapes = _parse(column, ids)
    numbers: dict[Shape, int] = {}
    number = np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes], np.int32)
    table = build_table(list(numbers))
    low, high, satisfiable = _boxes(table, coordinates, attributes)
    rules = np.flatnonzero(satisfiable[number])
    number, n = number[rules], len(rules)
    order = np.argsort([each.attribute for each in coordinates])
    conjunctions = freeze_fields(
        Conjunctions,
        offsets=2 * np.arange(n + 1),
        attribute=np.tile([coordinates[axis].attribute for axis in order], n),
        kind=np.full(2 * n, INTERVAL, np.uint8),
        low=low[number][:, order].reshape(-1),
        high=high[number][:, order].reshape(-1),
        points=[],
        weight=[],
        rule=first + rules,
    )
    if not n:
        return conjunctions, None
    (x, x_scale), (y, y_scale) = coordinates
    tests = {"x": x, "y": y, "x_scale": x_scale, "y_scale": y_scale, "negated": 0}
    residuals = Residuals(
        conjunctions.rule,
        freeze(np.zeros(n), np.int32),
        freeze_fields(ShapeTests, shape=number, **{k: np.full(n, v) for k, v in tests.items()}),
        table,
    )
    return conjunctions, residuals


def _parse(column: pa.ChunkedArray, ids: pa.Array) -> list[Shape]:
    array = decode(column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise RuleError(f"row {row} (rule {ids[row].as_py()!r}): the shape is null")
    values = array.to_pylist()
    read: Callable[[Sequence[Any]], list[Shape]]
    if is_text(array.type):
        read = _read_texts
    elif t.is_binary(array.type) or t.is_large_binary(array.type) or t.is_binary_view(array.type):
        read = read_wkb
    elif not len(array):
        return []
    else:
        raise RuleError(
            "the column 'shape' must be well-known text, well-known bytes or GeoJSON (texts), got "
            f"type {array.type}"
        )
    try:
        return read(values)
    except ShapeError as error:
        raise error.with_place(f"row {error.row} (rule {ids[error.row].as_py()!r})") from None


def _read_texts(texts: Sequence[str]) -> list[Shape]:
    """Return shapes of texts, each well-known text or GeoJSON."""
    is_json = np.array([text.lstrip().startswith("{") for text in texts], bool)
    shapes: list[Any] = [None] * len(texts)
    for read, mask in ((read_geojson, is_json), (read_wkt, ~is_json)):
        rows = np.flatnonzero(mask).tolist()
        try:
            found = read([texts[row] for row in rows])
        except ShapeError as error:
            error.row = rows[error.row]
            raise
        for row, shape in zip(rows, found, strict=True):
            shapes[row] = shape
    return shapes


def _boxes(
    table: ShapeTable, coordinates: Sequence[Coordinate], attributes: Attributes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the keys of the bounding boxes of polygons, [n, 2], and whether they have any."""
    begins = table.starts[table.rings[:-1]]
    low, high = np.empty((table.size, 2), np.int64), np.empty((table.size, 2), np.int64)
    satisfiable = np.ones(table.size, bool)
    for axis, (attribute, _) in enumerate(coordinates):
        values = np.ascontiguousarray(table.points[axis::2])
        kind = attributes.kind(attribute)
        if not table.size:
            continue
        ends = np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins)
        if kind == "number":
            low[:, axis], high[:, axis] = map(_number_keys, ends)
            continue
        for shape, bounds in enumerate(zip(*(each.tolist() for each in ends))):
            predicate = box_interval(kind, *bounds)
            satisfiable[shape] &= predicate is not None
            if predicate is not None:
                low[shape, axis], high[shape, axis] = predicate.low, predicate.high
    return low, high, satisfiable


def _number_keys(values: np.ndarray) -> np.ndarray:
    """Return the keys of finite numbers; see `encoding.number_key`."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, encoding.NULL - bits)
