"""Each line of docs/safe-regions.md."""

import math
import pickle
import re
from pathlib import Path

import pytest

import tocsin

PAGE = Path(__file__).parents[3] / "docs" / "safe-regions.md"
SCHEMA = {"x": "number", "y": "number", "speed": "number", "load": "number", "t": "number"}
KINDS = ("dist", "sphere", "rect")


def moving(*conditions, kind="rect", **options):
    rules = tocsin.Rules(SCHEMA)
    for number, condition in enumerate(conditions):
        rules.add(f"r{number}", condition)
    return rules, tocsin.Monitor(rules, safe_regions=kind, **options)


def report(monitor, t, x, y=0.0, key="a", **others):
    row = {"object": key, "t": float(t), "x": x, "y": y} | others
    events = monitor.update([row]).to_pylist()
    return [(e["event"], e["rule"], e["time"], e["reason"]) for e in events]


def happens(table):
    return [(e["event"], e["rule"], e["time"], e["reason"]) for e in table.to_pylist()]


def saved(monitor):
    return monitor.counters["reports_saved"]


def test_every_line_has_a_test():
    lines = re.findall(r"^\| (G\d) \|", PAGE.read_text(), re.MULTILINE)
    tests = [name for name in globals() if re.match(r"test_g\d_", name)]
    assert lines == list(dict.fromkeys(name[5:7].upper() for name in tests))


def test_g1_corners_alone_would_be_unsafe():
    """Thesis, 2.4.2 as printed: no corner of this fence lies on either axis of the object."""
    for kind in KINDS:
        _, monitor = moving("x BETWEEN -10 AND 10 AND y BETWEEN 1 AND 2", kind=kind)
        report(monitor, 0, 0.0, 0.0)
        region = monitor.region("a")
        if kind != "rect":
            assert region.distance == 1.0
        if kind != "dist":
            assert not region.contains(0, 1.5)
            assert not region.contains(0, 1)
            assert region.contains(0, math.nextafter(1, 0))


def test_g1_or_not_sets_and_open_ends():
    _, monitor = moving("x > 10 OR NOT (y < 5)", "x IN (-1, -3)", "NOT (x <> 7)")
    report(monitor, 0, 0.0)
    assert monitor.region("a").bounds == pytest.approx((-1, -math.inf, 7, 5))
    report(monitor, 1, -2.0)
    low, _, high, _ = monitor.region("a").bounds
    assert (low, high) == (math.nextafter(-3, 0), math.nextafter(-1, -2))
    report(monitor, 2, 11.0)
    assert monitor.region("a").bounds[0] == math.nextafter(10, 11)
    assert monitor.where("a") == ["r0"]


def test_g2_inside_others_are_fixed_and_outside_they_do_not_matter():
    _, monitor = moving("x > 0 AND speed > 30", "x < -5 AND speed > 30")
    report(monitor, 0, 1.0, speed=10)
    assert monitor.region("a") == (
        (math.nextafter(0, 1), -math.inf, math.inf, math.inf),
        ("speed",),
    )
    report(monitor, 1, -1.0, speed=10)
    assert monitor.region("a") == ((-5.0, -math.inf, 0.0, math.inf), ())
    report(monitor, 2, -2.0, speed=99)
    assert saved(monitor) == 1
    report(monitor, 3, 5.0, speed=10)
    assert report(monitor, 4, 6.0, speed=31) == [("enter", "r0", 4, None)]
    assert saved(monitor) == 1


def test_g2_a_rule_without_a_position_fixes_its_columns_everywhere():
    for kind in KINDS:
        _, monitor = moving("speed * 2 > 30", kind=kind)
        report(monitor, 0, 1.0, speed=10)
        assert monitor.region("a").fixed == ("speed",)
        assert report(monitor, 1, 1.0, speed=16) == [("enter", "r0", 1, None)]


@pytest.mark.parametrize("kind", KINDS)
def test_g3_no_region(kind):
    _, monitor = moving("x BETWEEN 0 AND 10 AND y < 5", kind=kind)
    for t, x in enumerate((None, math.nan, math.inf, {"low": 1.0, "high": 2.0})):
        report(monitor, t, x)
        assert monitor.region("a") is None
    report(monitor, 9, 10.0)
    assert (monitor.region("a") is None) == (kind != "rect")
    assert monitor.region("nobody") is None
    for condition in ("x > 0 AND x + y > 3", "x > 0 AND t > 50", "x > 0 AND t * 2 > 50"):
        _, monitor = moving(condition, kind=kind)
        report(monitor, 0, 1.0)
        assert monitor.region("a") is None
        report(monitor, 1, -2.0)
        region = monitor.region("a")
        assert region.bounds[2] == 0.0 if kind == "rect" else region.distance >= 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_g3_shapes(kind):
    disc = "ST_DWithin(ST_Point(x, y), ST_Point(5, 5), 2)"
    for condition in (disc, f"NOT {disc}"):
        _, monitor = moving(condition, kind=kind)
        report(monitor, 0, 3.1, 3.1)  # in the bounding box
        assert monitor.region("a") is None
        report(monitor, 1, 0.0, 5.0)
        region = monitor.region("a")
        if kind == "rect":
            assert region.bounds[2] < 3
            assert region.bounds[2] == pytest.approx(3)
        else:
            assert region.distance == pytest.approx(3)
        assert report(monitor, 2, 5.0, 5.0) == [
            ("enter" if condition == disc else "leave", "r0", 2, None)
        ]
    _, monitor = moving(f"speed > 1 AND x > 3 AND {disc.replace('x, y', 'speed, load')}", kind=kind)
    report(monitor, 0, 9.0, speed=5)
    assert set(monitor.region("a").fixed) == {"speed", "load"}


def test_g4_widened_for_members_only():
    _, monitor = moving("x BETWEEN 0 AND 10", margin=2.0)
    report(monitor, 0, 5.0)
    report(monitor, 0, 11.0, key="b")
    assert monitor.region("a").bounds[::2] == (-2.0, 12.0)
    assert monitor.region("b").bounds[0] == math.nextafter(10, 11)
    assert report(monitor, 1, 11.5) == []
    assert report(monitor, 2, 12.5) == [("leave", "r0", 2, None)]
    assert saved(monitor) == 1


def test_g4_who_stays_in_by_another_alternative_has_other_edges():
    condition = "(x < 10 AND speed > 30) OR (x BETWEEN 20 AND 30 AND load > 5)"
    _, monitor = moving(condition, margin=15.0)
    assert report(monitor, 0, 5.0, speed=10, load=9) == []
    assert report(monitor, 1, 5.0, speed=40, load=9) == [("enter", "r0", 1, None)]
    assert report(monitor, 2, 5.0, speed=10, load=9) == []  # 15 from the other box
    assert report(monitor, 3, 4.0, speed=10, load=9) == [("leave", "r0", 3, None)]


@pytest.mark.parametrize("kind", KINDS)
def test_g5_a_first_report_is_looked_up(kind):
    _, monitor = moving("x < 10", kind=kind, removed="gone")
    report(monitor, 0, 5.0)
    row = {"object": "a", "x": 5.0, "y": 0.0}
    rows = [row | {"t": 1.0, "gone": True}, row | {"t": 2.0, "gone": False}]
    reasons = [("leave", "r0", 1, "object removed"), ("enter", "r0", 2, None)]
    assert happens(monitor.update(rows)) == reasons
    assert saved(monitor) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_g5_rows_inside(kind):
    _, monitor = moving("x > 10", kind=kind)
    report(monitor, 0, 0.0)
    for t in range(1, 5):
        report(monitor, t, float(t))
    assert saved(monitor) == 4
    region = monitor.region("a")
    if kind == "dist":
        assert region.distance == pytest.approx(6)
    else:
        assert region.contains(-9, 0)
    assert monitor.counters["regions_computed"] == 1
    rows = [
        {"object": "a", "t": float(t), "x": x, "y": 0.0} for t, x in ((6, 5.0), (7, 11), (8, 4))
    ]
    assert happens(monitor.update(rows)) == [("enter", "r0", 7, None), ("leave", "r0", 8, None)]
    assert saved(monitor) == 5
    assert monitor.counters["index_visits_saved"] == 5
    report(monitor, 8, 11.0)  # late
    assert (saved(monitor), monitor.counters["index_visits_saved"]) == (5, 6)


def test_g6_timers_go_on_and_nobody_is_lost():
    _, monitor = moving("x > 10", dwell=5, min_stay=2, lost_after=3)
    report(monitor, 0, 20.0)
    report(monitor, 0, 10.0, key="b")
    report(monitor, 0, None, key="c")
    events = [(e["object"], e["event"], e["time"]) for e in monitor.advance(99.0).to_pylist()]
    assert events == [("a", "enter", 2), ("c", "lost", 3), ("a", "dwell", 5)]
    report(monitor, 100, None)
    assert happens(monitor.advance(200.0))[-1][0] == "lost"


@pytest.mark.parametrize("kind", KINDS)
def test_g7_a_fence_that_cuts_a_region_and_fences_that_do_not(kind):
    rules, monitor = moving("x > 10", kind=kind, min_stay=1)
    report(monitor, 0, 0.0)
    rules.add("around", "x < 12")
    rules.add("beside", "x > 500")
    assert happens(monitor.advance(1.0)) == [("enter", "around", 0, "rule added")]
    assert monitor.to_ask() == []
    rules.add("cuts", "x BETWEEN 1 AND 5")
    rules.add("tests more", "x < 10 AND speed > 5")
    assert happens(monitor.advance(2.0)) == []
    assert monitor.to_ask() == ["a"]
    assert monitor.region("a").fixed == ("speed",)
    assert report(monitor, 5, 2.0, speed=9) == []
    assert happens(monitor.advance(6.0)) == [
        ("enter", "cuts", 6, None),
        ("enter", "tests more", 6, None),
    ]
    assert monitor.to_ask() == []


def test_g7_a_restless_fence_leaves_no_region():
    rules, monitor = moving("x > 10")
    report(monitor, 0, 0.0)
    rules.add("sum", "x + y > 3")
    monitor.advance(1.0)
    assert (monitor.to_ask(), monitor.region("a")) == (["a"], None)


def test_g8_a_changed_rule_keeps_whom_it_has():
    rules, monitor = moving("x > 10", min_stay=2)
    report(monitor, 0, 20.0)
    monitor.advance(2.0)
    report(monitor, 2, 20.0, key="b")  # its enter is pending
    rules.replace("r0", "x > 15")
    assert happens(monitor.advance(3.0)) == []
    assert (monitor.to_ask(), monitor.where("a"), monitor.where("b")) == (["a", "b"], ["r0"], [])
    rules.add("far", "x < -900")
    rules.add("near", "x > -900")
    assert happens(monitor.advance(9.0)) == []
    assert report(monitor, 10, 12.0) == [("leave", "r0", 10, None)]
    assert happens(monitor.advance(12.0)) == [("enter", "near", 12, None)]


def test_g9_a_rule_that_leaves():
    rules, monitor = moving("x > 10", "x > 5")
    report(monitor, 0, 7.0)
    rules.remove("r0")
    rules.remove("r1")
    assert happens(monitor.advance(1.0)) == [("leave", "r1", 0, "rule removed")]
    assert monitor.region("a").bounds[::2] == (math.nextafter(5, 6), 10.0)
    report(monitor, 2, 20.0)
    assert monitor.region("a").bounds == (-math.inf, -math.inf, math.inf, math.inf)


@pytest.mark.parametrize("kind", KINDS)
def test_regions_are_saved(kind):
    rules, monitor = moving("x > 10 AND speed > 3", "x < -3 AND lower('A') = 'a'", kind=kind)
    report(monitor, 0, 2.0)
    report(monitor, 0, 20.0, key="b")
    rules.add("cuts", "x BETWEEN 4 AND 25")
    monitor.advance(1.0)
    opened = pickle.loads(pickle.dumps(monitor))
    assert [opened.region(key) for key in "ab"] == [monitor.region(key) for key in "ab"]
    assert opened.to_ask() == monitor.to_ask() != []
    assert opened.counters == monitor.counters
    assert opened.nbytes > 0


def test_options_are_checked():
    rules = tocsin.Rules(SCHEMA | {"name": "category"})
    for options, message in (
        ({"safe_regions": "circle"}, r"one of None, 'dist', 'sphere', 'rect'; got 'circle'"),
        ({"safe_regions": "rect", "rect_by": "size"}, "rect_by is one of 'area', 'perimeter'"),
        ({"rect_reach": 3}, 'for safe_regions="rect"'),
        ({"safe_regions": "dist", "rect_by": "perimeter"}, 'for safe_regions="rect"'),
        ({"safe_regions": "rect", "rect_reach": 0.5}, "1 or more; got 0.5"),
        ({"safe_regions": "rect", "position": ["x"]}, "two position columns"),
    ):
        with pytest.raises(tocsin.MonitorError, match=message):
            tocsin.Monitor(rules, **options)
    monitor = tocsin.Monitor(rules, safe_regions="rect", position=["x", "name"])
    with pytest.raises(tocsin.MonitorError, match="position column 'name' is of kind category"):
        monitor.update([{"object": "a", "t": 1, "x": 1.0, "name": "b"}])
    for look in (tocsin.Monitor(rules).to_ask, lambda: tocsin.Monitor(rules).region("a")):
        with pytest.raises(tocsin.MonitorError, match="has no safe regions; make it with"):
            look()
