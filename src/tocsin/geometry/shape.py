"""`Shape`: a polygon or a disc, and how to read one.

shapely reads and validates polygons. A shape that has been read needs it no more: it is a few bytes
of coordinates, so shapes are pickled and stored without it.
"""

from __future__ import annotations

import enum
import itertools
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.errors import ShapeError, shorten

if TYPE_CHECKING:
    import shapely

EARTH_RADIUS = 6_371_008.8  # metres: the mean radius of the ellipsoid WGS 84

# A rounding error of haversine is far below a millionth of a degree, or of the distance.
_DEGREES_SPARE = 1e-9
_HALF_TURN = 0.99 * math.pi * EARTH_RADIUS  # metres: haversine loses digits beyond
_HEADER = struct.Struct("<BBxxI")  # kind, closed, number of rings
_MAX = np.finfo(np.float64).max
_MOST_VERTICES = 2**31 - 1  # what lists of edges can number

Box = tuple[float, float, float, float]


class Kind(enum.IntEnum):
    """What a shape is, and what its coordinates are."""

    POLYGON = 0  # rings: vertices, the last of a ring equal to its first
    DISC = 1  # the centre, then the radius and 0
    GLOBE_DISC = 2  # longitude and latitude of the centre, then metres and 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A polygon of one or several parts, perhaps with holes; or a disc in the plane or on a globe.

    A point is in a polygon if a ray from it crosses the rings an odd number of times. `closed` says
    whether points on the edge belong to the shape. Shapes are equal if their edges are, wherever
    rings begin and whichever way they go.

    >>> square = polygon_from_wkt("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))")
    >>> square.bounds
    (0.0, 4.0, 0.0, 4.0)
    >>> square == polygon_from_wkt("POLYGON ((4 4, 4 0, 0 0, 0 4, 4 4))")
    True
    """

    kind: Kind
    closed: bool
    lengths: tuple[int, ...]  # how many vertices each ring has
    coordinates: bytes  # x and y of all vertices, float64

    @property
    def points(self) -> np.ndarray:
        """The vertices of all rings, one after the other, as rows of x and y."""
        return np.frombuffer(self.coordinates).reshape(-1, 2)

    @property
    def bounds(self) -> Box:
        """x_low, x_high, y_low and y_high: every point of the shape is within.

        A disc over the date line has all longitudes here; see `boxes`.
        """
        boxes = np.array(self.boxes)
        x_low, _, y_low, _ = boxes.min(axis=0).tolist()
        _, x_high, _, y_high = boxes.max(axis=0).tolist()
        return x_low, x_high, y_low, y_high

    @property
    def boxes(self) -> list[Box]:
        """Boxes like `bounds` that hold every point: two for a disc over the date line."""
        points = self.points
        if self.kind == Kind.POLYGON:
            (x_low, y_low), (x_high, y_high) = points.min(axis=0).tolist(), points.max(0).tolist()
            return [(x_low, x_high, y_low, y_high)]
        (x, y), (size, _) = points.tolist()
        if self.kind == Kind.GLOBE_DISC:
            return _globe_boxes(x, y, size)
        return [(_below(x - size), _above(x + size), _below(y - size), _above(y + size))]

    def with_edge(self, closed: bool) -> Shape:
        """Return the same shape, with or without its edge."""
        return replace(self, closed=closed)

    def to_bytes(self) -> bytes:
        """Return the shape as bytes, for `from_bytes`."""
        header = _HEADER.pack(self.kind, self.closed, len(self.lengths))
        return header + np.array(self.lengths, "<u4").tobytes() + self.coordinates

    @staticmethod
    def from_bytes(data: bytes) -> Shape:
        """Return the shape that `to_bytes` wrote; a table of them is checked by `build_table`."""
        try:
            kind, closed, rings = _HEADER.unpack_from(data)
            begin = _HEADER.size + 4 * rings
            lengths = np.frombuffer(data, "<u4", rings, _HEADER.size).tolist()
            shape = Shape(Kind(kind), bool(closed), tuple(lengths), data[begin:])
        except (struct.error, ValueError) as error:
            raise ShapeError(f"these bytes are not a shape: {error}") from error
        if len(shape.coordinates) != 16 * sum(lengths):
            raise ShapeError(
                f"these bytes are not a shape: {sum(lengths):,} vertices take "
                f"{16 * sum(lengths):,} bytes, got {len(shape.coordinates):,}"
            )
        return shape

    def __repr__(self) -> str:
        edge = "closed" if self.closed else "open"
        if self.kind == Kind.POLYGON:
            rings, vertices = len(self.lengths), sum(self.lengths) - len(self.lengths)
            return f"<{edge} polygon with {rings:,} rings and {vertices:,} vertices>"
        (x, y), (size, _) = self.points.tolist()
        unit = " m on the globe" if self.kind == Kind.GLOBE_DISC else ""
        return f"<{edge} disc around ({x!r}, {y!r}), radius {size!r}{unit}>"


# ------------------------------------------------------------ discs


def disc(x: float, y: float, radius: float, closed: bool = True) -> Shape:
    """Return a disc in the plane; the radius is in the unit of the coordinates.

    >>> disc(2.35, 48.86, 0.01)
    <closed disc around (2.35, 48.86), radius 0.01>
    """
    _check_finite(x=x, y=y)
    _check_size("radius", radius)
    return _disc(Kind.DISC, x, y, radius, closed)


def globe_disc(lon: float, lat: float, metres: float, closed: bool = True) -> Shape:
    """Return the points of a globe up to a distance from one, along great circles.

    >>> globe_disc(2.35, 48.86, 500)
    <closed disc around (2.35, 48.86), radius 500.0 m on the globe>
    """
    _check_finite(longitude=lon, latitude=lat)
    for name, value, limit in (("longitude", lon, 180), ("latitude", lat, 90)):
        if abs(value) > limit:
            hint = "; are longitude and latitude swapped?" if name == "latitude" else ""
            raise ShapeError(f"a {name} is from -{limit} to {limit}, got {value!r}{hint}")
    _check_size("distance in metres", metres)
    return _disc(Kind.GLOBE_DISC, lon, lat, metres, closed)


def _disc(kind: Kind, x: float, y: float, size: float, closed: bool) -> Shape:
    coordinates = np.array([x, y, size, 0.0]) + 0.0  # 0 for -0
    return Shape(kind, closed, (2,), coordinates.tobytes())


def _check_finite(**values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise ShapeError(f"the {name} of a shape must be finite, got {value!r}")


def _check_size(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ShapeError(f"the {name} must be finite and not negative, got {value!r}")


def _globe_boxes(lon: float, lat: float, metres: float) -> list[Box]:
    angle = metres / EARTH_RADIUS
    if metres >= _HALF_TURN:
        return [(-180.0, 180.0, -90.0, 90.0)]
    spare = _DEGREES_SPARE * (1 + math.degrees(angle))
    reach = math.degrees(angle) + spare
    south, north = max(lat - reach, -90.0), min(lat + reach, 90.0)
    if south == -90.0 or north == 90.0:  # a pole, with all longitudes, is inside
        return [(-180.0, 180.0, south, north)]
    # The meridians that touch the circle: at least, there is no pole inside.
    ratio = math.sin(math.radians(reach)) / math.cos(math.radians(lat))
    if ratio >= 1.0:
        return [(-180.0, 180.0, south, north)]
    width = math.degrees(math.asin(ratio))
    width += _DEGREES_SPARE * (1 + width)
    west, east = lon - width, lon + width
    if west >= -180.0 and east <= 180.0:
        return [(west, east, south, north)]
    if west < -180.0:
        return [(-180.0, east, south, north), (west + 360.0 - _DEGREES_SPARE, 180.0, south, north)]
    return [(west, 180.0, south, north), (-180.0, east - 360.0 + _DEGREES_SPARE, south, north)]


def _below(value: float) -> float:
    return max(math.nextafter(value, -math.inf), -_MAX)


def _above(value: float) -> float:
    return min(math.nextafter(value, math.inf), _MAX)


# ------------------------------------------------------------ polygons


def polygon_from_wkt(text: str, closed: bool = True) -> Shape:
    """Return the polygon of a well-known text: POLYGON or MULTIPOLYGON."""
    return read_wkt([text], closed)[0]


def from_wkb(data: bytes, closed: bool = True) -> Shape:
    """Return the polygon of well-known bytes; a spatial reference in them is ignored."""
    return read_wkb([data], closed)[0]


def from_geojson(value: str | dict[str, Any], closed: bool = True) -> Shape:
    """Return the polygon of a GeoJSON geometry or feature, as text or as a dict."""
    return read_geojson([value], closed)[0]


def read_wkt(texts: Sequence[str], closed: bool = True) -> list[Shape]:
    """Return the polygons of well-known texts; an error has the `row` of the first bad one."""
    return _read(texts, "from_wkt", "well-known text", closed)


def read_wkb(values: Sequence[bytes], closed: bool = True) -> list[Shape]:
    """Return the polygons of well-known bytes; an error has the `row` of the first bad one."""
    return _read(values, "from_wkb", "well-known bytes", closed)


def read_geojson(values: Sequence[str | dict[str, Any]], closed: bool = True) -> list[Shape]:
    """Return the polygons of GeoJSON; an error has the `row` of the first bad one."""
    texts = [json.dumps(value) if isinstance(value, dict) else value for value in values]
    return _read(texts, "from_geojson", "GeoJSON", closed)


def read_geometries(geometries: Sequence[Any] | np.ndarray, closed: bool = True) -> list[Shape]:
    """Return the polygons of shapely's geometries, such as a column of geopandas."""
    geometry = _shapely()
    array: np.ndarray = np.empty(len(geometries), object)
    array[:] = list(geometries)
    for row, is_one in enumerate(geometry.is_geometry(array).tolist()):
        if not is_one:
            raise ShapeError(f"this is no geometry of shapely: {_show(array[row])}", row)
    return _from_geometries(array, closed)


def _shapely() -> Any:
    try:
        import shapely
    except ImportError as error:
        raise ShapeError(
            "shapely reads polygons, and is not installed: pip install 'tocsin[shapes]'"
        ) from error
    return shapely


def _read(values: Sequence[Any], reader: str, form: str, closed: bool) -> list[Shape]:
    shapely = _shapely()
    read = getattr(shapely, reader)
    array: np.ndarray = np.empty(len(values), object)
    array[:] = [value if isinstance(value, str | bytes) else None for value in values]
    with np.errstate(over="ignore", invalid="ignore"):
        geometries = read(array, on_invalid="ignore")
        missing = np.flatnonzero(shapely.is_missing(geometries))
        if len(missing):
            row = int(missing[0])
            reason = ""
            try:
                read(values[row])
            except (shapely.errors.ShapelyError, TypeError) as error:
                reason = f": {error}"
            raise ShapeError(f"this is not {form}{reason}\n  in: {_show(values[row])}", row)
    return _from_geometries(geometries, closed)


def _show(value: Any) -> str:
    return shorten(value if isinstance(value, str) else repr(value), 200)


def _from_geometries(geometries: np.ndarray[Any, Any], closed: bool) -> list[Shape]:
    """Return shapes of geometries; raise if one is not a valid polygon with finite coordinates."""
    shapely = _shapely()
    if not len(geometries):
        return []
    types = shapely.get_type_id(geometries)
    polygons = (types == shapely.GeometryType.POLYGON) | (
        types == shapely.GeometryType.MULTIPOLYGON
    )
    suitable = polygons & ~shapely.is_empty(geometries) & shapely.is_valid(geometries)
    if not suitable.all():
        row = int(np.flatnonzero(~suitable)[0])
        raise ShapeError(_reason(geometries[row]), row)
    with np.errstate(over="ignore", invalid="ignore"):
        flat = shapely.normalize(shapely.force_2d(geometries))
    _, points, offsets = shapely.to_ragged_array(flat)
    starts = np.asarray(offsets[0], np.int64)  # of rings
    rings = np.asarray(offsets[-1], np.int64)  # of shapes, and of polygons if there are several
    for inner in reversed(offsets[1:-1]):
        rings = np.asarray(inner, np.int64)[rings]
    points = np.ascontiguousarray(points) + 0.0  # 0 for -0
    lengths = np.diff(starts).tolist()
    data, ends = points.tobytes(), (16 * starts[rings]).tolist()
    firsts = rings.tolist()
    return [
        Shape(Kind.POLYGON, closed, tuple(lengths[begin:end]), data[ends[row] : ends[row + 1]])
        for row, (begin, end) in enumerate(itertools.pairwise(firsts))
    ]


def _reason(geometry: shapely.Geometry) -> str:
    """Return why a geometry is not a shape."""
    shapely = _shapely()
    name = geometry.geom_type
    if name not in ("Polygon", "MultiPolygon"):
        article = "an" if name[0] in "AEIOU" else "a"
        hint = "; give each of its polygons a row" if name == "GeometryCollection" else ""
        return f"a shape is a Polygon or MultiPolygon, got {article} {name}{hint}"
    if geometry.is_empty:
        return f"a shape needs vertices, got an empty {name}"
    points = shapely.get_coordinates(geometry)
    infinite = ~np.isfinite(points).all(axis=1)
    if infinite.any():
        x, y = points[infinite][0].tolist()
        return f"the coordinates of a shape must be finite, got ({x!r}, {y!r})"
    return (
        f"the {name} is not valid: {shapely.is_valid_reason(geometry)}; "
        "shapely.make_valid may repair it"
    )
