"""Conditions with shapes: what they mean, under every index and however they are kept."""

import math
import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
import shapely

import tocsin
from tests.shapes import oracle
from tocsin.covering import ConditionCover
from tocsin.index.registry import INDEXES
from tocsin.model.condition import ConditionReader

SQUARE = "ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))'), ST_Point(x, y))"
OPEN = "ST_Contains(ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))'), ST_Point(x, y))"


def xy(*conditions, **options):
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number"}, **options)
    for number, where in enumerate(conditions):
        rules.add(number, where)
    return rules


def matched(rules, event):
    return sorted(rules.match(event).to_arrow()["rule"].to_pylist())


def pairs(matches):
    table = matches.to_arrow()
    return sorted(zip(table["event"].to_pylist(), table["rule"].to_pylist(), strict=True))


def test_a_fence_and_a_speed():
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number"})
    rules.add("zone", f"{SQUARE} AND speed > 30")
    events = [{"x": 1, "y": 1, "speed": 40}, {"x": 1, "y": 1, "speed": 20}, {"x": 5, "y": 1}]
    assert pairs(rules.match(events)) == [(0, "zone")]


@pytest.mark.parametrize(
    ("where", "edge", "inside", "outside"),
    [
        (SQUARE, True, True, False),
        (OPEN, False, True, False),
        (SQUARE.replace("ST_Covers", "st_covers"), True, True, False),
        ("ST_Within(ST_Point(x, y), ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))'))",
         False, True, False),
        ("ST_CoveredBy(ST_Point(x, y), ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))'))",
         True, True, False),
        (f"NOT {SQUARE}", False, False, True),
        (f"NOT {OPEN}", True, False, True),
        (f"NOT (NOT ({OPEN}))", False, True, False),
        ("ST_DWithin(ST_Point(x, y), ST_Point(2, 2), 2)", True, True, False),
        ("ST_DWithin(ST_Point(2, 2), ST_Point(x, y), 2e0)", True, True, False),
        ("NOT ST_DWithin(ST_Point(x, y), ST_Point(2, 2), 2)", False, False, True),
    ],
)  # fmt: skip
def test_the_edge(where, edge, inside, outside):
    rules = xy(where)
    cases = [((0, 2), edge), ((2, 2.5), inside), ((5, 5), outside), ((0, 4.5), outside)]
    for (x, y), expected in cases:
        event = {"x": x, "y": y}
        assert matched(rules, event) == [0] * expected
        assert rules.explain(event, 0).matched == expected


@pytest.mark.parametrize("missing", [{"x": 1}, {"y": 1}, {}, {"x": None, "y": 2}])
def test_a_point_that_is_not_known(missing):
    rules = xy(SQUARE, f"NOT {SQUARE}", f"{SQUARE} OR x IS NULL OR y IS NULL")
    assert matched(rules, missing) == [2]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_point_that_is_nowhere(bad):
    rules = xy(SQUARE, f"NOT {SQUARE}")
    for event in ({"x": bad, "y": 1}, {"x": 1, "y": bad}, {"x": bad, "y": bad}):
        assert matched(rules, event) == [1]


@pytest.mark.parametrize("index", ["auto", *INDEXES])
def test_random_conditions(index):
    """All of them are what fractions say: added, merged, stored, pickled, and by themselves."""
    rng = np.random.default_rng(sorted(["auto", *INDEXES]).index(index))
    conditions = [oracle.condition(rng) for _ in range(60)]
    events = [oracle.event(rng) for _ in range(120)]
    rules = tocsin.Rules(oracle.SCHEMA, index=index)
    for number, each in enumerate(conditions):
        rules.add(number, each.sql)
    expected = [
        (e, r) for e, event in enumerate(events) for r, c in enumerate(conditions) if c.holds(event)
    ]
    assert pairs(rules.match(events)) == expected
    rules.merge()
    for version in (rules, pickle.loads(pickle.dumps(rules))):
        assert pairs(version.match(events)) == expected
        assert (
            version.count(events).tolist()
            == np.bincount([e for e, _ in expected], minlength=len(events)).tolist()
        )
        assert pairs(version.top(events, k=60)) == expected
        assert sum(map(len, version.match_blocks(events))) == len(expected)
    assert [len(rules.match(event)) for event in events] == rules.count(events).tolist()


def test_many_rules_under_every_index(tmp_path):
    """Enough that `auto` chooses an index for planes; over columns, and over maps."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(0, 100, (3000, 2))
    angles = np.sort(rng.random((3000, 7)), axis=1) * 2 * np.pi
    reach = rng.uniform(0.5, 2, (3000, 7, 1))
    rings = centres[:, None] + reach * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    shapes = shapely.polygons(rings)
    shapes = np.where(shapely.is_valid(shapes), shapes, shapely.convex_hull(shapes))
    points = rng.uniform(-2, 102, (5000, 2))
    tree = shapely.STRtree(shapes)
    found = tree.query(shapely.points(points), predicate="intersects")
    expected = sorted(zip(*found.tolist(), strict=True))
    table = pa.table({"id": np.arange(3000), "shape": shapely.to_wkb(shapes)})
    events = pa.table({"x": points[:, 0], "y": points[:, 1]})
    sparse = [dict(zip("xy", point, strict=True)) for point in points.tolist()]
    for index in ["auto", "grid", "rectangles", "ntree", "keyed", "nested", "exhaustive"]:
        rules = tocsin.Rules({"x": "number", "y": "number"}, index=index)
        rules.add_many(table)
        assert pairs(rules.match(events)) == expected
        assert pairs(rules.match(events, threads=2)) == expected
        assert pairs(rules.match(sparse[:300])) == [p for p in expected if p[0] < 300]
        rules.remove_many(range(0, 3000, 2))
        left = [pair for pair in expected if pair[1] % 2]
        assert pairs(rules.match(events)) == left
        rules.merge()
        assert pairs(rules.match(events)) == left
    rules.save(tmp_path / "store")
    assert pairs(tocsin.open(tmp_path / "store").match(events)) == left


def test_on_the_globe():
    rng = np.random.default_rng(5)
    rules = tocsin.Rules({"lon": "number", "lat": "number"})
    circles = []
    for number in range(60):
        lon = [rng.uniform(-180, 180), 179.999, -180, 180][rng.integers(4)]
        lat = [rng.uniform(-90, 90), 90, -89.99, 0][rng.integers(4)]
        radius = 10 ** rng.uniform(0, 7.3)
        operator = ["<", "<=", ">", ">="][rng.integers(4)]
        circles.append((lon, lat, radius, operator))
        point, center = "ST_Point(lon, lat)", f"ST_Point({lon!r}, {lat!r})"
        rules.add(number, f"ST_DistanceSphere({point}, {center}) {operator} {radius!r}")
    events = [
        {"lon": float(lon), "lat": float(lat)}
        for lon, lat in zip(rng.uniform(-180, 180, 300), rng.uniform(-90, 90, 300), strict=True)
    ]
    events += [{"lon": -180.0, "lat": 0.0}, {"lon": 180.0, "lat": 0.0}, {"lon": 7.0, "lat": 90.0}]
    expected = []
    for e, event in enumerate(events):
        for r, (lon, lat, radius, operator) in enumerate(circles):
            distance = haversine(event["lon"], event["lat"], lon, lat)
            if (distance < radius) == (operator in ("<", "<=")):
                expected.append((e, r))
    for _ in range(2):
        assert pairs(rules.match(events)) == expected
        rules.merge()


def test_a_distance_of_exactly_the_limit():
    distance = "ST_DistanceSphere(ST_Point(x, y), ST_Point(7, 8))"
    rules = xy(f"{distance} <= 0", f"{distance} < 0", f"{distance} > 0", f"{distance} >= 0",
               f"NOT {distance} <= 0", f"0 >= {distance}")  # fmt: skip
    assert matched(rules, {"x": 7, "y": 8}) == [0, 3, 5]
    assert matched(rules, {"x": 7, "y": 8.1}) == [2, 3, 4]


def haversine(lon, lat, to_lon, to_lat):
    lon, lat, to_lon, to_lat = map(math.radians, (lon, lat, to_lon, to_lat))
    across, up = math.sin((to_lon - lon) / 2) ** 2, math.sin((to_lat - lat) / 2) ** 2
    return (
        2
        * 6_371_008.8
        * math.asin(min(1, math.sqrt(up + math.cos(lat) * math.cos(to_lat) * across)))
    )


def test_the_date_line_is_two_conjunctions_of_one_rule():
    rules = tocsin.Rules({"lon": "number", "lat": "number"})
    rules.add("c", "500 > ST_DistanceSphere(ST_Point(lon, lat), ST_Point(179.999, 10))")
    events = [{"lon": -179.998, "lat": 10}, {"lon": 179.998, "lat": 10}, {"lon": 179.99, "lat": 10}]
    assert pairs(rules.match(events)) == [(0, "c"), (1, "c")]
    assert len(rules.explain(events[0], "c").predicates) == 1
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error"
        )  # most circles have no second box, which is no impossible part
        rules.add("d", "ST_DistanceSphere(ST_Point(lon, lat), ST_Point(0, 10)) < 500")


def test_terms_as_coordinates():
    rules = tocsin.Rules({"x": "number", "y": "integer", "loc": "struct<lon: double, lat: double>"})
    square = "ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))')"
    rules.add("gone", "x * 3 > 5")  # its term has the first number
    rules.add("term", f"ST_Covers({square}, ST_Point(x * 2, y - 1))")
    rules.add("struct", f"ST_Covers({square}, ST_Point(loc.lon, loc.lat))")
    events = pa.table(
        {"x": [2.0, 2.5], "y": [5, 5], "loc": [{"lon": 5.0, "lat": 1.0}, {"lon": 4.0, "lat": 1.0}]}
    )
    expected = [(0, "term"), (1, "struct")]
    assert [p for p in pairs(rules.match(events)) if p[1] != "gone"] == expected
    rules.remove("gone")
    rules.add("another", "y * 3 > 500")
    rules.merge()  # numbers terms anew
    assert pairs(rules.match(events)) == expected
    assert "ST_Point((x * 2" in str(rules.explain(events.slice(0, 1), "term"))


def test_large_integers_are_what_they_are_as_doubles():
    rules = tocsin.Rules({"n": "integer", "m": "integer"})
    low, high = 2**60, 2**60 + 2**12
    ring = f"{low} 0, {high} 0, {high} 4, {low} 4, {low} 0"
    rules.add("big", f"ST_Covers(ST_GeomFromText('POLYGON(({ring}))'), ST_Point(n, m))")
    small = "POLYGON((0.2 0.2, 0.8 0.2, 0.2 0.8, 0.2 0.2))"
    rules.add("small", f"ST_Covers(ST_GeomFromText('{small}'), ST_Point(n, m))")
    numbers = (low - 200, low - 10, low, high, high + 100, high + 1000, 0)
    events = [{"n": n, "m": 1} for n in numbers]
    expected = [(e, "big") for e, event in enumerate(events) if low <= float(event["n"]) <= high]
    assert pairs(rules.match(events)) == expected


def test_decimals():
    rules = tocsin.Rules({"lon": "decimal(9,6)", "lat": "decimal(18,15)"})
    ring = "0.1 0.1, 0.3 0.1, 0.3 0.3, 0.1 0.3, 0.1 0.1"
    rules.add("r", f"ST_Covers(ST_GeomFromText('POLYGON(({ring}))'), ST_Point(lon, lat))")
    lons = pa.array(["0.1", "0.3", "0.099999", "0.300001", "0.2"]).cast(pa.decimal128(9, 6))
    lats = pa.array(["0.1", "0.3", "0.2", "0.2", "0.300000000000001"]).cast(pa.decimal128(18, 15))
    assert rules.count(pa.table({"lon": lons, "lat": lats})).tolist() == [1, 1, 0, 0, 0]


# ------------------------------------------------------------ ranges


def test_ranges_are_unknown_and_reported_once():
    rules = xy(SQUARE, f"NOT {SQUARE}", f"{SQUARE} OR speed > 3", "x > 0")
    rules.merge()
    events = [
        {"x": {"low": 1.0, "high": 2.0}, "y": 1.0, "speed": 5.0},
        {"x": 1.0, "y": {"low": 1.0, "high": 2.0}},
        {"x": {"low": 1.0, "high": 1.0}, "y": 1.0},
        {"x": 1.0, "y": 1.0, "speed": {"low": 1.0, "high": 5.0}},
    ]
    for method in (rules.match, rules.count, rules.top):
        with pytest.warns(tocsin.EventWarning, match="2 events have a range in place") as caught:
            found = method(events)
        assert len(caught) == 1
        counts = (
            found.tolist() if isinstance(found, np.ndarray) else np.diff(found.offsets).tolist()
        )
        assert counts == [2, 1, 3, 3]
    with pytest.warns(tocsin.EventWarning, match="1 event has a range"):
        assert matched(rules, events[0]) == [2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert matched(rules, events[3]) == [0, 2, 3]
    assert rules.explain(events[1], 0).predicates[0].holds is None


def test_at_least_is_refused():
    rules = xy()
    with pytest.raises(tocsin.RuleError, match="a rule with at_least cannot test shapes"):
        rules.add("r", SQUARE, at_least=0.5)
    with pytest.raises(tocsin.RuleError, match=r"row 1 \(rule 'b'\): a rule with at_least"):
        rules.add_many(
            [
                {"id": "a", "where": "x > 3", "at_least": 0.5},
                {"id": "b", "where": SQUARE, "at_least": 1.0},
            ]
        )
    assert len(rules) == 0


# ------------------------------------------------------------ reading


def test_texts_that_differ_in_polygons_are_parsed_once(monkeypatch):
    compiled = []
    compile_text = ConditionReader._compile
    monkeypatch.setattr(
        ConditionReader, "_compile", lambda *a: compiled.append(a) or compile_text(*a)
    )
    rules = xy()
    for n in range(50):
        ring = ", ".join(f"{n + x} {y}.5" for x, y in [(0, 0), (1, 0), (n + 2, 3), (0, 0)])
        rules.add(
            f"p{n}",
            f"ST_Covers(ST_GeomFromText('POLYGON(({ring}))'), ST_Point(x, y)) AND speed > {n}",
        )
        rules.add(f"d{n}", f"ST_DWithin(ST_Point(x, y), ST_Point({n - 7}, {n}), 3)")
        rules.add(f"g{n}", f"ST_DistanceSphere(ST_Point(x, y), ST_Point(-{n}.5, {n}.25)) < {n}5")
    assert len(compiled) == 3
    assert matched(rules, {"x": -3.0, "y": 4.0}) == ["d2", "d3", "d4", "d5", "d6"]
    alone = xy()
    for id_ in rules:
        alone.add(id_, rules[id_].where + " AND TRUE")
    events = [{"x": x / 3, "y": y / 3, "speed": 30} for x in range(-9, 30) for y in range(-9, 30)]
    assert pairs(rules.match(events)) == pairs(alone.match(events))


def test_shapes_are_stored_once(tmp_path):
    rules = xy(*[f"{SQUARE} AND speed > {n}" for n in range(20)])
    rules.merge()
    residuals = rules.snapshot().segments[0].segment.residuals
    assert residuals.size == 20
    assert residuals.shapes.size == 1


def test_conjunctions_are_counted():
    disc = "ST_DistanceSphere(ST_Point(x, y), ST_Point({}, 10)) < 5"
    xy(" OR ".join(disc.format(n / 4) for n in range(512)))
    with pytest.raises(tocsin.ConditionError, match="1,026 conjunctions"):
        xy(" OR ".join(disc.format(n / 4) for n in range(513)))
    polygon = "ST_Covers(ST_GeomFromText('POLYGON(({0} 0, {0} 1, 700 1, {0} 0))'), ST_Point(x, y))"
    xy(" OR ".join(polygon.format(n / 2) for n in range(1024)))


ERRORS = [
    ("ST_Covers(ST_Point(x, y), ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'))",
     "arguments of ST_Covers are swapped: the shape comes first; or write ST_CoveredBy"),
    ("ST_Within(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, y))",
     "arguments of ST_Within are swapped: the point comes first; or write ST_Contains"),
    ("ST_Intersects(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, y))",
     "ST_Intersects is not supported; .* for a point, ST_Covers means the same"),
    ("ST_Distance(ST_Point(x, y), ST_Point(1, 2)) < 3", "not supported; .*write ST_DWithin"),
    ("ST_Area(x) > 3", "not supported; of the functions about shapes"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(1, 2))",
     "about constants only"),
    ("ST_DWithin(ST_Point(1, 2), ST_Point(1, 2), 3)", "about constants only"),
    ("ST_DWithin(ST_Point(x, y), ST_Point(y, x), 3)", "about two points of the event"),
    ("ST_DWithin(ST_Point(x, y), ST_Point(1, 2), speed)", "the distance .* must be a constant"),
    ("ST_DWithin(ST_Point(x, y), ST_Point(1, 2), -3)", "radius must be finite and not negative"),
    ("ST_DWithin(ST_Point(x, y), ST_Point(1, '2'), 3)", "a coordinate must be a number, got '2'"),
    ("ST_DWithin(ST_Point(x, y), ST_Point(1, 2))", "takes two points and a distance"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, 2))",
     "both coordinates must be attributes"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, tier))",
     "coordinates of ST_Point are numbers, but 'tier' is a category"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, z))", "'z'"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 4, 0 4, 4 0, 0 0))'), ST_Point(x, y))",
     r"not valid: Self-intersection\[2 2\]"),
    ("ST_Covers(ST_GeomFromText('POLY'), ST_Point(x, y))", "this is not well-known text"),
    ("ST_Covers(ST_GeomFromText('POINT(1 2)'), ST_Point(x, y))", "got a Point"),
    ("ST_Covers(ST_GeomFromText(tier), ST_Point(x, y))", "takes a text in quotes"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))', 4326), ST_Point(x, y))",
     "leave out the SRID"),
    ("ST_Covers('POLYGON((0 0, 4 0, 0 4, 0 0))', ST_Point(x, y))", "write ST_GeomFromText"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), x)", "x is no point"),
    ("ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 0 4, 0 0))'), ST_Point(x, y)) = TRUE",
     "a condition by itself"),
    ("CASE WHEN ST_DWithin(ST_Point(x, y), ST_Point(1, 2), 3) THEN 1 ELSE 2 END = 1",
     "a condition by itself"),
    ("ST_Point(x, y)", "no condition by itself"),
    ("ST_DistanceSphere(ST_Point(x, y), ST_Point(1, 2))", "is a distance, not a condition"),
    ("ST_DistanceSphere(ST_Point(x, y), ST_Point(1, 2)) = 3", "compared by <, <=, > or >="),
    ("ST_DistanceSphere(ST_Point(x, y), ST_Point(1, 2)) BETWEEN 3 AND 4", "two comparisons"),
    ("ST_DistanceSphere(ST_Point(x, y), ST_Point(1, 200)) < 3", "latitude is from -90 to 90"),
    ("ST_DistanceSphere(ST_Point(x, y), ST_Point(1, 20)) < speed", "must be a constant"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "message"), ERRORS)
def test_errors(where, message):
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number", "tier": "category"})
    with pytest.raises(tocsin.ConditionError, match=message):
        rules.add("r", where)


def test_an_error_in_a_text_of_a_known_form_has_its_own_position():
    rules = xy(SQUARE)
    with pytest.raises(tocsin.ConditionError, match=r"Self-intersection\[2 2\]") as caught:
        rules.add(1, SQUARE.replace("4 0, 4 4, 0 4", "4 4, 0 4, 4 0"))
    assert "line 1, column 27" in str(caught.value)


def test_what_never_holds_is_a_warning():
    with pytest.warns(tocsin.ConditionWarning, match="AND x > 9 never holds"):
        xy(f"{SQUARE} AND x > 9")
    with pytest.warns(tocsin.ConditionWarning, match="no event can satisfy"):
        tocsin.Rules({"n": "integer", "m": "integer"}).add(
            "r", "ST_DWithin(ST_Point(n, m), ST_Point(0.5, 0.5), 0.1)"
        )


# ------------------------------------------------------------ weights, explain, lint


def test_boxes_carry_the_weights():
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number"})
    rules.add("a", f"{SQUARE} AND speed > 3", weights={"x": 5, "speed": 2})
    rules.add("b", f"NOT {SQUARE}", weights={"y": 3})
    for _ in range(2):
        scores = rules.top([{"x": 1, "y": 1, "speed": 9}, {"x": 9, "y": 1}], k=3).scores
        assert scores.tolist() == [8.0, 4.0]
        rules.merge()


def test_explain_says_where_the_point_is():
    rules = tocsin.Rules({"lon": "number", "lat": "number", "speed": "number"})
    circle = "ST_DistanceSphere(ST_Point(lon, lat), ST_Point(2.35, 48.86)) < 500"
    rules.add("globe", f"{circle} AND speed > 3")
    rules.add("not", f"NOT ({circle})")
    rules.add("plane", SQUARE.replace("x, y", "lon, lat"))
    event = {"lon": 2.35, "lat": 48.86 + 512 / 111_195.08, "speed": 5}
    report = rules.explain(event, "globe")
    assert [(t.holds, t.unit) for t in report.predicates] == [(True, None), (False, "m")]
    shape = report.predicates[1]
    assert shape.value == (event["lon"], event["lat"])
    assert abs(shape.off - 12) < 0.01
    assert "m outside" in str(report)
    near = {"lon": 2.35, "lat": 48.861}
    report = rules.explain(near, "not")
    assert not report.matched
    assert report.predicates[0].off < -380
    assert "m inside" in str(report)
    plane = rules.explain({"lon": 5.0, "lat": 1.0}, "plane")
    assert (plane.predicates[0].off, plane.predicates[0].unit) == (1.0, "")
    assert str(plane).endswith("the point is (5, 1), 1 outside")
    assert rules.explain({"lon": 5.0}, "plane").predicates[0].holds is None
    assert "(5, missing)" in str(rules.explain({"lon": 5.0}, "plane"))


def test_lint():
    rules = xy()
    rules.add("box", "x BETWEEN 0 AND 4 AND y BETWEEN 0 AND 4")
    rules.add("square", SQUARE)
    rules.add("again", SQUARE)
    rules.add("turned", SQUARE.replace("0 0, 4 0, 4 4, 0 4, 0 0", "4 4, 4 0, 0 0, 0 4, 4 4"))
    rules.add(
        "other", "ST_Covers(ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 0))'), ST_Point(x, y))"
    )
    rules.add("open", OPEN)
    rules.add("fast", f"{SQUARE} AND speed > 3")
    rules.add("not", f"NOT {SQUARE}")
    rules.add("either", f"{SQUARE} OR NOT {SQUARE}")
    rules.add("small", "x BETWEEN 1 AND 2 AND y BETWEEN 1 AND 2")
    expected = {
        "square": ("covered", "box"), "again": ("covered", "box"), "turned": ("covered", "box"),
        "other": ("covered", "box"), "open": ("covered", "box"), "fast": ("covered", "box"),
        "not": ("covered", "either"), "small": ("covered", "box"),
    }  # fmt: skip
    for _ in range(2):
        found = {f["rule"]: (f["finding"], f["by"]) for f in rules.lint().to_pylist()}
        assert found == expected
        rules.merge()
    rules.remove("box")
    found = {f["rule"]: (f["finding"], f["by"]) for f in rules.lint().to_pylist()}
    assert found == {
        "square": ("covered", "either"), "again": ("covered", "either"),
        "turned": ("covered", "either"), "fast": ("covered", "either"),
        "not": ("covered", "either"),
    }  # fmt: skip
    rules.remove("either")
    found = {f["rule"]: (f["finding"], f["by"]) for f in rules.lint().to_pylist()}
    assert found == {
        "again": ("duplicate", "square"), "turned": ("duplicate", "square"),
        "fast": ("covered", "square"),
    }  # fmt: skip
    line = rules.lint([{"x": 9, "y": 9, "speed": 9}]).to_pylist()[0]
    assert (line["rule"], line["finding"]) == ("square", "out of range")


def test_covering_conditions():
    cover = ConditionCover({"x": "number", "y": "number", "speed": "number"})
    cover.add("square", SQUARE)
    assert cover.covering(f"{SQUARE} AND speed > 3") == ["square"]
    assert cover.covering("x BETWEEN 1 AND 2 AND y BETWEEN 1 AND 2") == []
    assert cover.covering(OPEN) == []
    assert cover.covered("x >= 0") == ["square"]


def test_texts_can_be_read_again():
    """What is derived from a table's shapes is a condition that means the same."""
    wkts = [shapely.from_wkt(wkt) for wkt in oracle.POLYGONS]
    wkts.append(shapely.affinity.rotate(wkts[4], 33, (0, 0)))
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add_many(pa.table({"id": range(len(wkts)), "shape": shapely.to_wkb(wkts)}))
    again = tocsin.Rules({"x": "number", "y": "number"})
    for id_ in rules:
        again.add(id_, rules[id_].where)
    assert {f["finding"] for f in both(rules, again).lint().to_pylist()} == {"duplicate"}
    rules.replace(0, payload={"a": 1})
    assert rules[0].where == again[0].where


def both(a, b):
    rules = a.copy()
    for id_ in b:
        rules.add(id_ + 1000, b[id_].where)
    return rules
