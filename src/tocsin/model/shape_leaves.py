"""Compiles tests of points: each becomes intervals of its bounding box, and a residual.

    ST_Covers(ST_GeomFromText('POLYGON(...)'), ST_Point(x, y))      also ST_CoveredBy, swapped
    ST_Contains(ST_GeomFromText('POLYGON(...)'), ST_Point(x, y))    without the edge; also ST_Within
    ST_DWithin(ST_Point(x, y), ST_Point(2.35, 48.86), 0.01)
    ST_DistanceSphere(ST_Point(lon, lat), ST_Point(2.35, 48.86)) < 500

The names and the meaning are those of PostGIS. `x` and `y` are columns or terms; a shape is a
constant, whose literals are bound as others are. A test with NOT needs no box: it holds for a point
whose coordinates are both known and which is not in the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from tocsin.errors import TocsinError
from tocsin.geometry.shape import Shape, disc, globe_disc, polygon_from_wkt
from tocsin.model.attributes import Attributes, is_wide
from tocsin.model.comparisons import Binder
from tocsin.model.constants import Constants, Literals
from tocsin.model.nodes import error_at, to_sql
from tocsin.model.normal_form import Branch, Source
from tocsin.model.operands import (
    SHAPE_FUNCTIONS,
    Operands,
    has_columns,
    name_of_shape_function,
    shape_function_error,
    title,
    unwrap,
)
from tocsin.model.predicates import ALWAYS, NOT_NULL
from tocsin.model.residuals import Coordinate, Residual, coordinate_of
from tocsin.model.schema import ARTICLE
from tocsin.model.shape_boxes import box_interval

_CONTAINING = {"st_covers": True, "st_contains": False}  # shape, point: whether the edge belongs
_CONTAINED = {"st_coveredby": True, "st_within": False}  # point, shape
_COMPARISONS: dict[type, tuple[bool, bool]] = {  # whether less, and whether or equal
    exp.LT: (True, False),
    exp.LTE: (True, True),
    exp.GT: (False, False),
    exp.GTE: (False, True),
}
_PLANE, _GLOBE = 1, 2  # boxes that a shape can have; on the globe, two over the date line


class ResidualLeaf(NamedTuple):
    """The residual that belongs to a leaf; `bind` turns literals into its shape."""

    x: Coordinate
    y: Coordinate
    bind: Callable[[Literals], Shape]
    negated: bool

    def residual(self, literals: Literals) -> Residual:
        """Return the residual for the text with these literals."""
        return Residual(self.x, self.y, self.bind(literals), self.negated)


class _LatestShape:
    """Reads the shape of a text once for all leaves that need it."""

    def __init__(self, read: Callable[[Literals], Shape], node: exp.Expr):
        self._read, self._node = read, node
        self._latest: tuple[Literals, Shape] | None = None

    def __call__(self, literals: Literals) -> Shape:
        latest = self._latest
        if latest is None or latest[0] is not literals:
            try:
                latest = literals, self._read(literals)
            except TocsinError as error:
                raise error_at(str(error), self._node) from None
            self._latest = latest
        return latest[1]


class ShapeLeaves:
    """Compiles the tests of points of one text.

    `add` appends a leaf: an attribute, and a function from literals to a predicate. `polygons` are
    those that were read ahead, by their texts, with the edge.
    """

    def __init__(
        self,
        schema: Attributes,
        constants: Constants,
        add: Callable[[int, Binder], int],
        polygons: Mapping[str, Shape],
    ):
        self._schema = schema
        self._constants = constants
        self._operands = Operands(schema)
        self._add = add
        self._polygons = polygons
        self.residuals: dict[int, ResidualLeaf] = {}  # by number of the leaf

    def compile(self, node: exp.Expr, negated: bool) -> Branch | None:
        """Return the tree of a test of a point; None if a node is something else."""
        name = name_of_shape_function(node)
        if name is not None:
            return self._function(name, node, negated)
        if isinstance(node, exp.Between) and name_of_shape_function(unwrap(node.this)):
            raise error_at(
                f"{to_sql(node)}: write two comparisons of the distance, joined by AND", node
            )
        if isinstance(node, exp.Binary):
            left, right = unwrap(node.this), unwrap(node.expression)
            names = name_of_shape_function(left), name_of_shape_function(right)
            if "st_distancesphere" in names:
                if type(node) not in _COMPARISONS:
                    raise error_at("ST_DistanceSphere is compared by <, <=, > or >=", node)
                is_less, is_equal = _COMPARISONS[type(node)]
                if names[0] is None:
                    is_less, left, right = not is_less, right, left
                return self._on_globe(left, right, is_less, is_equal, negated, node)
        return None

    def _function(self, name: str, node: exp.Expr, negated: bool) -> Branch:
        arguments = list(_arguments(node))
        if name in _CONTAINING or name in _CONTAINED:
            if len(arguments) != 2:
                raise error_at(f"{title(node)} takes a shape and a point", node)
            geometry, point = arguments if name in _CONTAINING else reversed(arguments)
            names = name_of_shape_function(geometry), name_of_shape_function(point)
            if names == ("st_point", "st_geomfromtext"):
                other = "ST_CoveredBy" if name == "st_covers" else "ST_Within"
                if name in _CONTAINED:
                    other = "ST_Covers" if name == "st_coveredby" else "ST_Contains"
                raise error_at(
                    f"the arguments of {title(node)} are swapped: {_order(name)}; or write "
                    f"{other}, which takes them in this order",
                    node,
                )
            x, y = self._point(point, node)
            closed = {**_CONTAINING, **_CONTAINED}[name]
            return self._test(x, y, self._geometry(geometry, closed), _PLANE, negated, node)
        if name == "st_dwithin":
            if len(arguments) != 3:
                raise error_at("ST_DWithin takes two points and a distance", node)
            x, y, center = self._points(arguments[0], arguments[1], node)
            radius = self._numbers([arguments[2]], "the distance of ST_DWithin")

            def read_disc(s: Literals) -> Shape:
                return disc(*_pair(center(s)), radius(s)[0])

            return self._test(x, y, _LatestShape(read_disc, node), _PLANE, negated, node)
        if name == "st_distancesphere":
            raise error_at(
                f"{title(node)} is a distance, not a condition; compare it: {to_sql(node)} < 500",
                node,
            )
        if name in ("st_point", "st_geomfromtext"):
            raise error_at(f"{title(node)} is no condition by itself; {SHAPE_FUNCTIONS}", node)
        raise shape_function_error(node, name)

    def _on_globe(
        self,
        distance: exp.Expr,
        limit: exp.Expr,
        is_less: bool,
        is_equal: bool,
        negated: bool,
        node: exp.Expr,
    ) -> Branch:
        arguments = list(_arguments(distance))
        if len(arguments) != 2:
            raise error_at("ST_DistanceSphere takes two points", distance)
        x, y, center = self._points(arguments[0], arguments[1], distance)
        radius = self._numbers([limit], "the limit of ST_DistanceSphere")
        closed = is_equal == is_less  # more than a distance is not at most this distance

        def read_disc(s: Literals) -> Shape:
            return globe_disc(*_pair(center(s)), radius(s)[0], closed)

        shape = _LatestShape(read_disc, node)
        return self._test(x, y, shape, _GLOBE, negated == is_less, node)

    def _test(
        self,
        x: Coordinate,
        y: Coordinate,
        shape: Callable[[Literals], Shape],
        most_boxes: int,
        negated: bool,
        node: exp.Expr,
    ) -> Branch:
        """Return the tree of a test: the alternatives of its boxes, each with the residual."""
        source = Source(node, negated)
        residual = self._add(-1, lambda s, c: ALWAYS)
        self.residuals[residual] = ResidualLeaf(x, y, shape, negated)
        if negated:
            known = [self._add(each.attribute, lambda s, c: NOT_NULL) for each in (x, y)]
            return Branch("and", [*known, residual], source, True)
        boxes = []
        for number in range(most_boxes):
            sides = []
            for axis, each in enumerate((x, y)):
                bind = _box_binder(shape, number, axis, each, self._schema.kind(each.attribute))
                sides.append(self._add(each.attribute, bind))
            boxes.append(Branch("and", [*sides, residual], source, True))
        return boxes[0] if most_boxes == 1 else Branch("or", boxes, source, True)

    # ------------------------------------------------------------ arguments

    def _geometry(self, node: exp.Expr, closed: bool) -> Callable[[Literals], Shape]:
        """Return how to read a shape from the literals."""
        node = unwrap(node)
        if name_of_shape_function(node) != "st_geomfromtext":
            if has_columns(node):
                raise error_at(f"{to_sql(node)} is no constant shape; {SHAPE_FUNCTIONS}", node)
            raise error_at(
                f"{to_sql(node)} is no shape; write ST_GeomFromText('POLYGON((...))')", node
            )
        arguments = list(_arguments(node))
        if len(arguments) == 2:
            raise error_at(
                "ST_GeomFromText takes a text; leave out the SRID: coordinates are compared as "
                "they are",
                node,
            )
        text = unwrap(arguments[0]) if arguments else None
        if len(arguments) != 1 or not isinstance(text, exp.Literal) or not text.is_string:
            raise error_at("ST_GeomFromText takes a text in quotes", node)
        read = self._constants.read_text(text)
        polygons = self._polygons

        def read_polygon(s: Literals) -> Shape:
            own = read(s)
            known = polygons.get(own)
            return polygon_from_wkt(own, closed) if known is None else known.with_edge(closed)

        return _LatestShape(read_polygon, text)

    def _points(
        self, first: exp.Expr, second: exp.Expr, node: exp.Expr
    ) -> tuple[Coordinate, Coordinate, Callable[[Literals], list[float]]]:
        """Return the coordinates of the point of an event, and how to read a constant point."""
        if not has_columns(unwrap(first)):
            first, second = second, first
        x, y = self._point(first, node)
        if has_columns(unwrap(second)):
            raise error_at(
                f"{to_sql(node)} is about two points of the event; one must be a constant, such as "
                "ST_Point(2.35, 48.86)",
                node,
            )
        return x, y, self._numbers(_point_arguments(second), "a coordinate")

    def _point(self, node: exp.Expr, test: exp.Expr) -> tuple[Coordinate, Coordinate]:
        node = unwrap(node)
        arguments = _point_arguments(node)
        if not has_columns(node):
            raise error_at(
                f"{to_sql(test)} is about constants only; a point of the event is "
                "ST_Point(x, y), of two attributes",
                test,
            )
        for each in arguments:
            if not has_columns(each):
                raise error_at(
                    f"{to_sql(node)}: both coordinates must be attributes, or terms over them; "
                    f"{to_sql(each)} is a constant",
                    node,
                )
        x, y = map(self._coordinate, arguments)
        return x, y

    def _coordinate(self, node: exp.Expr) -> Coordinate:
        attribute = self._operands.operand(node)
        term = self._schema.terms.get(attribute)
        if term is not None and is_wide(term):
            raise error_at(
                f"{term.sql} is a {term.type}, of which only 18 digits are compared; cast it to "
                "double",
                node,
            )
        kind = self._schema.kind(attribute)
        coordinate = coordinate_of(attribute, kind)
        if coordinate is None:
            raise error_at(
                f"the coordinates of ST_Point are numbers, but {self._schema.name(attribute)!r} is "
                f"{ARTICLE[kind]}",
                node,
            )
        return coordinate

    def _numbers(self, nodes: Sequence[exp.Expr], what: str) -> Callable[[Literals], list[float]]:
        """Return how to read numbers from the literals."""
        for node in nodes:
            if has_columns(node):
                raise error_at(f"{what} must be a constant, got {to_sql(node)}", node)
        slot = self._constants.find_list(nodes)
        if slot is not None:
            return lambda s: [float(each) for each in s[slot].split(",")]
        constants = [self._constants.compile(node) for node in nodes]
        for constant in constants:
            if constant.type not in ("integer", "decimal", "double"):
                raise error_at(
                    f"{what} must be a number, got {to_sql(constant.node)}", constant.node
                )
        return lambda s: [float(constant.read(s)) for constant in constants]


def _box_binder(
    shape: Callable[[Literals], Shape], number: int, axis: int, each: Coordinate, kind: str
) -> Binder:
    def bind(s, c):
        boxes = shape(s).boxes
        if number >= len(boxes):
            return None
        low, high = boxes[number][2 * axis : 2 * axis + 2]
        return box_interval(kind, low, high)

    return bind


def _arguments(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the arguments of a function, in their order."""
    for value in node.args.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Expr):
                yield unwrap(each)


def _point_arguments(node: exp.Expr) -> list[exp.Expr]:
    node = unwrap(node)
    if name_of_shape_function(node) != "st_point":
        raise error_at(f"{to_sql(node)} is no point; write ST_Point(x, y)", node)
    arguments = list(_arguments(node))
    if len(arguments) != 2:
        raise error_at(
            f"ST_Point takes two coordinates, got {len(arguments)}; leave out the SRID, if that is "
            "the third",
            node,
        )
    return arguments


def _pair(numbers: list[float]) -> tuple[float, float]:
    return numbers[0], numbers[1]


def _order(name: str) -> str:
    return "the shape comes first" if name in _CONTAINING else "the point comes first"
