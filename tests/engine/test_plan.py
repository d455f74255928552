"""What `auto` chooses, and that it says why."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.conformance import boxes as shapes
from tocsin.engine import draft
from tocsin.engine.planner import build_parts, cheapest
from tocsin.index import costs, unit_costs
from tocsin.index.costs import Cost, EventSample, Sample
from tocsin.index.plane import choose_axes
from tocsin.index.registry import INDEXES


def chosen(shape):
    work = shape(np.random.default_rng(1))
    (part,) = build_parts("auto", {}, work.conjunctions, work.floats)
    assert "nanoseconds" in part.why
    return part.index.name


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (shapes.squares, "grid"),
        (shapes.half_in_a_corner, "grid"),
        (shapes.a_city_in_a_country, "grid"),
        (shapes.large_on_pixels, "grid"),
        (shapes.integers, "rectangles"),
        (shapes.one_attribute, "intervals"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_the_choice(shape, expected):
    assert chosen(shape) == expected


def squares(n, extra=""):
    rng = np.random.default_rng(4)
    rules = tocsin.Rules(
        {"f": "flag", "x": "number", "z": "number", "y": "number", "c": "category"}
    )
    low = rng.random((2, n))
    rules.add_many(
        [
            {
                "id": i,
                "where": f"x BETWEEN {a} AND {a + 0.01} AND y BETWEEN {b} AND {b + 0.01}"
                + extra.format(flag=("true", "false")[i % 2]),
            }
            for i, (a, b) in enumerate(low.T.tolist())
        ]
    )
    return rules


@pytest.mark.parametrize(
    "extra",
    ["", " AND f = true", " AND f = {flag}", " AND z IS NOT NULL", " AND f = true AND c = 'DE'"],
)
def test_what_all_rules_have_alike_is_no_axis(extra):
    rules = squares(400, extra)
    (live,) = rules.snapshot().segments
    (part,) = live.segment.parts
    assert part.index.name == "grid"
    axes, is_float = choose_axes(part.conjunctions, rules.schema.floats())
    assert sorted(axes.tolist()) == [1, 3]
    assert is_float.all()


def test_few_rules_are_looked_at_one_by_one():
    assert squares(20).plan().parts[0].index == "exhaustive"


def test_blocks_that_events_skip_cost_nothing():
    """Exhaustive search skips a block if an event is beyond all of its bounds."""
    floats = np.ones(2, np.uint8)
    low = np.random.default_rng(2).random((2, 2000))
    low[:, :1000] *= 0.001  # of these, an event can only meet those in the corner
    side = np.where(np.arange(2000) < 1000, 1e-5, 0.01)
    work = shapes.floats(low, low + side, np.random.default_rng(3).random((2, 1000)))
    corner = shapes.floats(low[:, :1000], (low + side)[:, :1000], low[:, :1])
    measured = EventSample(work.keys)
    exhaustive = INDEXES["exhaustive"]
    all_met = exhaustive.cost(Sample(work.conjunctions, floats, events=measured))
    skipped = exhaustive.cost(Sample(corner.conjunctions, floats, events=measured))
    assert all_met.nanoseconds > 2000 * unit_costs.LOOK
    assert skipped.nanoseconds < 1000 * unit_costs.LOOK / 10
    assert "fewer than 1 of 1,000" in skipped.reason


def test_what_exhaustive_search_leaves_to_accept_is_priced():
    """Fewer than 64 conjunctions alike are tested on one attribute, and accept does the rest."""
    costs_of = {}
    for n in (60, 70):
        work = shapes.floats(*shapes.uniform(np.random.default_rng(1), n, 0.3), np.zeros((2, 1)))
        costs_of[n] = INDEXES["exhaustive"].cost(Sample(work.conjunctions, work.floats)).nanoseconds
    assert costs_of[60] > 2 * costs_of[70]


@pytest.mark.parametrize("measured", [False, True])
def test_where_axes_are_correlated_an_event_meets_more_boxes(measured):
    """Fences are around places, and so are events: their coordinates are not independent."""
    rng = np.random.default_rng(4)
    places = rng.random((2, 20))
    around = places[:, rng.integers(0, 20, 4000)] + rng.normal(0, 1e-3, (2, 4000))
    points = places[:, rng.integers(0, 20, 1000)] + rng.normal(0, 1e-3, (2, 1000))
    work = shapes.floats(around - 2e-3, around + 2e-3, points)
    events = EventSample(work.keys) if measured else None
    sample = Sample(work.conjunctions, work.floats, events=events)
    met = work.truth().sum() / 1000
    assert met / 4 < sample.met < 1.5 * met
    assert sample.correlation > 3


@pytest.mark.parametrize("measured", [False, True])
def test_values_on_bounds_are_priced(measured):
    """Whole numbers in columns of floats: an event looks at the lists of its cell twice."""
    rng = np.random.default_rng(5)
    low, points = rng.integers(0, 100, (2, 2000)), rng.integers(0, 100, (2, 500))
    estimates = []
    for shift in (0.0, 0.25):  # then neither bounds nor events are whole, and none is on another
        work = shapes.floats(low + shift, low + 5 + shift, points + 2 * shift)
        events = EventSample(work.keys) if measured else None
        sample = Sample(work.conjunctions, work.floats, events=events)
        estimates.append((sample.tied, INDEXES["grid"].cost(sample).nanoseconds))
    (tied, twice), (untied, once) = estimates
    assert tied > 0.95 > 0 == untied
    assert twice > 1.5 * once


def test_a_part_does_not_tell_where_events_are():
    """Shares of a part are of the events that all rules suggest, not of its own domain."""
    work = shapes.squares(np.random.default_rng(1))
    sample = Sample(work.conjunctions, work.floats)
    few = sample.filter(np.arange(sample.conjunctions.size) < 40)
    expected = sample.shares(0).share[:40]
    assert few.shares(0).share.tolist() == expected.tolist()


def test_a_plan_says_why_also_after_it_was_stored(tmp_path):
    rules = squares(400)
    assert "an event meets fewer than 1 of 400 conjunctions" in str(rules.plan())
    rules.save(tmp_path / "store")
    assert str(tocsin.open(tmp_path / "store").plan()) == str(rules.plan())


def test_recent_rules_and_a_delta_say_why_they_lie_apart():
    rules = squares(9000)
    rules.add(-1, "x > 0.5")
    assert [p.role for p in rules.plan().parts] == ["base", "recent"]
    why = "recent rules are searched exhaustively until the next merge"
    assert rules.plan().parts[1].why == why
    assert str(rules.plan()).endswith(f"bytes: {why}")
    rules.add_many([{"id": -2 - i, "where": rules[i].where} for i in range(1100)])
    base, delta = rules.plan().parts
    assert base.why.startswith("an event meets about 1 of 9,000 conjunctions on the two attributes")
    assert (delta.role, delta.index) == ("delta", "grid")
    assert delta.why.startswith("added since the last merge; an event meets about 1 of 1,101 ")


def test_when_added_and_removed_rules_are_merged(monkeypatch):
    """The combined scheme of the thesis, 2.6.5: all that was added moves in a single step."""
    monkeypatch.setattr(draft, "_SMALL", 10)
    rules = squares(800)

    def sizes():
        return {live.role: len(live.segment) for live in rules.snapshot().segments}

    rules.add_many([{"id": -1 - i, "where": "x > 0.5"} for i in range(100)])  # an eighth
    assert sizes() == {"base": 800, "delta": 100}
    rules.add(-101, "x > 0.5")
    assert sizes() == {"base": 901}
    for i in range(450):
        rules.remove(i)
    assert sizes() == {"base": 901}, "removed rules are ignored until then"
    rules.remove(450)
    assert sizes() == {"base": 450}


def test_a_delta_under_an_index_that_was_asked_for():
    rules = tocsin.Rules({"x": "number"}, index="intervals")
    low = np.arange(10_000.0)
    rules.add_many(pa.table({"id": np.arange(10_000), "x_low": low, "x_high": low + 1}))
    rules.add_many(pa.table({"id": -1 - np.arange(1100), "x_low": low[:1100]}))
    assert [(p.role, p.index, p.why) for p in rules.plan().parts] == [
        ("base", "intervals", "it was asked for"),
        ("delta", "intervals", "added since the last merge; it was asked for"),
    ]


@pytest.mark.parametrize("shape", [shapes.squares, shapes.integers, shapes.one_each])
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_that_is_priced_estimates_its_cost(name, shape):
    work, index = shape(np.random.default_rng(1)), INDEXES[name]
    sample = Sample(work.conjunctions, work.floats)
    if not index.priced:
        with pytest.raises(NotImplementedError):
            index.cost(sample)
    elif name == "rectangles" and work.floats.any():
        assert index.cost(sample) is None
    else:
        cost = index.cost(sample)
        assert cost.nanoseconds > 0
        assert cost.reason.startswith("an event ")


def test_an_index_that_is_cheaper_than_all_others_is_chosen(monkeypatch):
    class Cheaper(INDEXES["ntree"]):
        name = "cheaper"
        priced = True

        @classmethod
        def cost(cls, sample):
            return Cost(0.5, "an event knows the way", 1.0)

    monkeypatch.setitem(INDEXES, "cheaper", Cheaper)
    work = shapes.squares(np.random.default_rng(1))
    (part,) = build_parts("auto", {}, work.conjunctions, work.floats)
    assert (part.index.name, part.why) == ("cheaper", "an event knows the way, under a nanosecond")


def test_estimates_share_what_they_derive_from_a_sample(monkeypatch):
    calls = Counter()

    def counted(name):
        original = getattr(costs, name)

        def called(*arguments):
            calls[name] += 1
            return original(*arguments)

        return called

    for name in ("facts_of", "rank_by_selectivity", "build_boxes"):
        monkeypatch.setattr(costs, name, counted(name))
    work = shapes.integers(np.random.default_rng(1))
    cheapest(Sample(work.conjunctions, work.floats))
    assert calls == {"facts_of": 1, "rank_by_selectivity": 1, "build_boxes": 1}


def test_a_grid_over_one_attribute_does_not_speak_of_two():
    for dimensions, words in ((1, "on the attribute of the grid"), (2, "on the two attributes of")):
        low, high = shapes.uniform(np.random.default_rng(1), n=500, dimensions=dimensions)
        work = shapes.floats(low, high, [[0.5]] * dimensions)
        cost = INDEXES["grid"].cost(Sample(work.conjunctions, work.floats))
        assert words in cost.reason


def test_a_sample_stands_for_all():
    work = shapes.floats(*shapes.uniform(np.random.default_rng(1), n=50_000), [[0.5], [0.5]])
    sample, whole = (
        Sample.draw(work.conjunctions, work.floats),
        Sample(work.conjunctions, work.floats),
    )
    assert 8_000 < sample.conjunctions.size < 8_400
    assert sample.represented == whole.represented == 50_000
    assert sample.met == pytest.approx(whole.met, rel=0.05)
    some = sample.filter(np.arange(sample.conjunctions.size) % 2 == 0)
    assert some.represented == pytest.approx(25_000, abs=10)


def test_a_merge_chooses_anew():
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("one", "x > 5")
    rules.merge()
    assert rules.plan().parts[0].index == "exhaustive"
    low = np.random.default_rng(1).random((2, 3000))
    rules.add_many(
        pa.table(
            {"id": [str(i) for i in range(3000)], "x_low": low[0], "x_high": low[0] + 0.01,
             "y_low": low[1], "y_high": low[1] + 0.01}
        )
    )  # fmt: skip
    assert rules.plan().parts[0].index == "grid"


def test_a_bulk_load_builds_one_index(monkeypatch):
    from tocsin.engine import draft

    built = []

    def counting(name, options, conjunctions, floats, events):
        built.append(conjunctions.size)
        return build_parts(name, options, conjunctions, floats, events)

    monkeypatch.setattr(draft, "build_parts", counting)
    squares(3000)
    assert built == [3000]


# ------------------------------------------------------------ rules of several shapes

SHAPES = {"price": "number", "x": "number", "y": "number", "tier": "category", "age": "integer"}


def of_several_shapes(n, index="auto"):
    """Return bands, fences, categories with an age, and some that are like none of these."""
    rng = np.random.default_rng(8)
    wheres = []
    for a, b in rng.random((n, 2)).tolist():
        fence = f"x BETWEEN {a} AND {a + 0.01} AND y BETWEEN {b} AND {b + 0.01}"
        band = f"price BETWEEN {a} AND {a + 0.001}"
        tier = f"tier = 'tier {int(b * 20)}' AND age BETWEEN {int(a * 100)} AND {int(a * 100) + 2}"
        wheres += [fence, band, tier]
    wheres += ["FALSE", "TRUE", "x IS NULL", "price > 0.999 OR x < 0.001", "tier <> 'tier 3'"]
    wheres += ["price < 0.001 OR price > 0.999"] * 50 + ["age NOT IN (5, 50)"]
    rules = tocsin.Rules(SHAPES, index=index)
    rules.add_many([{"id": i, "where": wheres[i]} for i in rng.permutation(len(wheres)).tolist()])
    return rules


def shaped_events(n):
    rng = np.random.default_rng(9)
    columns = dict(zip(["price", "x", "y"], rng.random((3, n))))
    columns["tier"] = [f"tier {i}" for i in rng.integers(0, 20, n)]
    columns["age"] = rng.integers(0, 100, n)
    missing = {a: rng.random(n) < 0.1 for a in columns}
    return pa.table({a: pa.array(v, mask=missing[a]) for a, v in columns.items()})


@pytest.fixture(scope="module")
def mixed():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unit_costs, "CODE", 1e4)  # otherwise `keyed` holds all together
        return of_several_shapes(1000)


@pytest.fixture
def in_parts(monkeypatch):
    monkeypatch.setattr(unit_costs, "CODE", 1e4)


def test_rules_of_several_shapes_lie_apart(mixed):
    parts = mixed.plan().parts
    assert {("price",), ("x", "y"), ("age", "tier")} <= {tuple(sorted(p.attributes)) for p in parts}
    assert len(parts) <= 4
    assert sum(p.rules for p in parts) == len(mixed)
    assert sum(p.nbytes for p in parts) == mixed.nbytes
    assert " rules on price (" in str(mixed.plan())
    assert str(mixed.plan()).count("one index for all rules would take") == len(parts)


def test_events_meet_candidates_in_each_part(mixed):
    events = shaped_events(500)
    parts = mixed.plan(events).parts
    assert len(parts) > 2
    met = [part.met for part in parts]
    assert len(set(met)) > 1
    assert sum(met) == pytest.approx(mixed.match(events).counters.candidates / 500)


def test_a_rule_lies_in_one_part(mixed):
    (live,) = mixed.snapshot().segments
    held = [set(part.conjunctions.rule.tolist()) for part in live.segment.parts]
    assert sum(map(len, held)) == len(set.union(*held)) == len(mixed) - 1  # FALSE lies nowhere


def test_parts_of_a_delta(monkeypatch):
    monkeypatch.setattr(unit_costs, "CODE", 1e4)  # otherwise `keyed` holds this few together
    rules = of_several_shapes(4000)
    rules.add_many(
        [{"id": -1 - i, "where": rules[i].where} for i in range(1200)]
    )  # more than may be recent, less than is merged
    parts = rules.plan().parts
    delta = [p for p in parts if p.role == "delta"]
    assert len(delta) > 1
    assert sum(p.rules for p in delta) == 1200
    for part in delta:
        assert part.why.startswith("added since the last merge; an event ")
        assert "one index for all rules would take about" in part.why
    assert len({p.why for p in delta}) == len(delta)
    assert same_answers(rules, as_exhaustive(rules))


def as_exhaustive(rules):
    """Return the same rules in the same order under the exhaustive index."""
    plain = tocsin.Rules(SHAPES, index="exhaustive")
    plain.add_many([{"id": id_, "where": rules[id_].where} for id_ in rules])
    return plain


def same_answers(rules, plain):
    events = shaped_events(300)
    expected = sorted(plain.match(events))
    assert len(expected) > 1000
    assert sorted(rules.match(events)) == expected
    assert sorted(pair for block in rules.match_blocks(events) for pair in block) == expected
    assert rules.count(events).tolist() == plain.count(events).tolist()
    for weights in (None, {"x": 3.0, "age": 0.5}):
        best, wanted = (r.top(events, 7, weights) for r in (rules, plain))
        assert list(best) == list(wanted)
        assert best.scores.tolist() == wanted.scores.tolist()
    for event in events.slice(0, 10).to_pylist():
        assert sorted(rules.match(event)) == sorted(plain.match(event))
    return True


def test_parts_answer_as_one(mixed, tmp_path, in_parts):
    rules = mixed.copy()
    plain = of_several_shapes(1000, "exhaustive")
    assert same_answers(rules, plain)
    gone = [id_ for id_ in rules if id_ % 3 == 0]
    for each in (rules, plain):
        each.remove(gone[0])
        each.remove_many(gone[1:])
    assert same_answers(rules, plain)
    assert sum(p.removed for p in rules.plan().parts) == len(gone)
    assert len(rules.plan().parts) == len(mixed.plan().parts)
    rules.save(tmp_path / "store")
    opened = tocsin.open(tmp_path / "store")
    assert str(opened.plan()) == str(rules.plan())
    assert list(opened) == list(rules)
    assert same_answers(opened, plain)
    opened.merge()
    assert len(opened.plan().parts) > 1
    assert not any(p.removed for p in opened.plan().parts)
    assert list(opened) == [id_ for id_ in mixed if id_ % 3]
    assert same_answers(opened, plain)
    assert same_answers(mixed, of_several_shapes(1000, "exhaustive"))  # the copy went its own way


def test_rules_in_parts_are_shown_and_explained(mixed):
    event = shaped_events(1).to_pylist()[0]
    matched = {id_ for _, id_ in mixed.match(event)}
    assert matched
    for id_ in [*list(mixed)[::50], *matched]:
        explanation = mixed.explain(event, id_)
        assert explanation.matched == (id_ in matched)
        assert explanation.where == mixed[id_].where


def test_weights_of_rules_in_parts(in_parts):
    rules = of_several_shapes(1000)
    rules.add(-1, "x > 0.5", weights={"x": 0.25})
    rules.merge()
    assert len(rules.plan().parts) > 1
    assert rules[-1].weights == {"x": 0.25}
    best = rules.top({"x": 0.75}, 10_000)
    scores = dict(zip(best.ids().to_pylist(), best.scores.tolist()))
    assert scores[-1] == 0.25


@pytest.mark.parametrize(
    "shape", [shapes.squares, shapes.half_in_a_corner, shapes.integers, shapes.one_attribute]
)
def test_rules_of_one_shape_lie_together(shape):
    work = shape(np.random.default_rng(1))
    assert len(build_parts("auto", {}, work.conjunctions, work.floats)) == 1


@pytest.mark.parametrize("extra", [" AND f = {flag}", " AND z > 0.5", " AND c = 'DE'"])
def test_a_weak_condition_more_is_no_other_shape(extra):
    rules = squares(3000)
    rules.add_many(
        [
            {"id": -1 - i, "where": rules[i].where + extra.format(flag=("true", "false")[i % 2])}
            for i in range(0, 3000, 2)
        ]
    )
    rules.merge()
    assert len(rules.plan().parts) == 1


@pytest.mark.parametrize("wheres", [["TRUE", "FALSE"], ["c <> 'a'", "x <> 4"]])
def test_what_nothing_tells_apart_lies_together(wheres):
    rules = tocsin.Rules({"x": "number", "c": "category"})
    rules.add_many([{"id": i, "where": wheres[i % len(wheres)]} for i in range(3000)])
    assert len(rules.plan().parts) == 1


def test_rules_that_no_attributes_narrow_down_lie_apart(monkeypatch):
    monkeypatch.setattr(unit_costs, "CODE", 1e4)  # otherwise `keyed` holds both together
    rules = squares(3000)
    weak = "f = true AND x > {a} AND y > {b} AND z > {a}"
    low = np.random.default_rng(6).random((3000, 2)) / 2
    rules.add_many(
        [{"id": -1 - i, "where": weak.format(a=a, b=b)} for i, (a, b) in enumerate(low.tolist())]
    )
    parts = rules.plan().parts
    held = Counter()
    for part in parts:
        held[part.index] += part.rules
    assert held == {"exhaustive": 3000, "grid": 3000}
