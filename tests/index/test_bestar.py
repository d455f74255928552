"""The BE*-tree: its splits, its shape and its invariants, against plain Python."""

import random

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tests.index.bestar_invariants import check_invariants
from tests.index.test_in_place import part
from tests.index.trees import (
    HIGHEST,
    INTERVAL,
    LOWEST,
    NULL,
    OPTIONS,
    SET,
    best_of,
    between,
    columns_of,
    found,
    keys_of,
    made,
    matching,
    random_event,
    random_rule,
    truly_best,
    weights_of,
)
from tocsin.engine.rules import Rules
from tocsin.errors import RuleError
from tocsin.index.bestar import boxes, splitting, summaries
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    BUCKET,
    BUCKETS,
    COUNT,
    CUT,
    ENTRIES,
    HIGH,
    LEFT,
    LOW,
    NODE,
    NODES,
    OWN,
    PNODE,
    RIGHT,
    ROOT,
    SIZE,
)
from tocsin.index.finish import BestRules
from tocsin.jit import freeze
from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder
from tocsin.model.keys import EventBatch
from tocsin.model.schema import Schema

# ------------------------------------------------------------ long sequences


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_sequence_of_changes(options, seed):
    rng = random.Random(seed)
    width = 7
    rules = [random_rule(rng, width) for _ in range(rng.choice((0, 5, 200)))]
    index = BEStar.build(made(rules), np.zeros(width, np.uint8), **options)
    check_invariants(index)
    alive = set(range(len(rules)))
    for _ in range(40):
        what = rng.choice(("insert", "insert", "one", "remove", "drain", "tune", "load"))
        if what == "insert":
            more = [random_rule(rng, width) for _ in range(rng.randint(1, 40))]
            if rng.random() < 0.3:
                more = more[:1] * len(more)
            alive |= set(range(len(rules), len(rules) + len(more)))
            index.insert(made(more, len(rules)))
            rules += more
        elif what == "one":
            rules.append(random_rule(rng, width))
            alive.add(len(rules) - 1)
            index.insert(made(rules[-1:], len(rules) - 1))
            assert_smallest(index, len(rules) - 1, rules[-1])
        elif what in ("remove", "drain"):
            gone = rng.sample(sorted(alive), len(alive) // (8 if what == "remove" else 1))
            if what == "drain":
                gone = gone[: int(len(gone) * 0.9)]
            index.remove(np.array(gone + gone[:2], np.int32))
            alive -= set(gone)
        elif what == "tune":
            index.tune(
                EventBatch.whole(keys_of([random_event(rng, width) for _ in range(20)]), width)
            )
        else:
            index = BEStar.from_arrays(index.conjunctions, index.arrays())
        check_invariants(index)
        events = [random_event(rng, width) for _ in range(12)]
        truth = [matching(rules, alive, event) for event in events]
        lists = found(index, events, width)
        assert list(map(sorted, lists)) == truth
        assert list(map(sorted, found(index, events, width, columns_of(events, width)))) == truth
        k = rng.choice((1, 3, 1000))
        weights = [
            {a: rng.choice((0.0, 0.2, 1.0, 3.5)) for a in rng.sample(range(width), 3)}
            for _ in events
        ]
        expected = [
            truly_best(rules, alive, event, k, own)
            for event, own in zip(events, weights, strict=True)
        ]
        assert best_of(index, events, width, k, weights)[0] == expected


def assert_smallest(index, number, rule):
    """What was inserted last is in the smallest bucket that encloses it."""
    bucket = index.layout.bucket.reshape(-1, BUCKET)
    home = bucket[index.layout.home[number]]
    if home[NODE] < 0 or home[CUT] == NULL:
        return
    attribute = index.layout.pnode.reshape(-1, PNODE)[home[NODE], ATTRIBUTE]
    low, high = next(span(row) for row in rule if row[0] == attribute and span(row))
    for child in (home[LEFT], home[RIGHT]):
        if child >= 0:
            assert not bucket[child, LOW] <= low <= high <= bucket[child, HIGH]


def span(row):
    _, kind, low, high, points, _ = row
    if kind == INTERVAL:
        return (low, high) if low != NULL else None
    if kind == SET:
        return (points[0], points[-1]) if NULL not in points else None
    return (LOWEST, HIGHEST) if NULL in points else None


# ------------------------------------------------------------ the paper, section by section


def test_table_1():
    schema = Schema({"x": "integer"})
    reader = ConditionReader(schema)
    table = {
        "x < 7": (LOWEST, 6),
        "x <= 7": (LOWEST, 7),
        "x = 7": (7, 7),
        "x <> 7": (LOWEST, HIGHEST),
        "x >= 7": (7, HIGHEST),
        "x > 7": (8, HIGHEST),
        "x IN (3, 9, 7)": (3, 9),
        "x NOT IN (3, 9, 7)": (LOWEST, HIGHEST),
        "x BETWEEN 3 AND 9": (3, 9),
        # Ours: what holds for null is no key.
        "x IS NULL": (NULL, NULL),
        "x IS NULL OR x > 3": (NULL, NULL),
        "x IS NOT NULL": (LOWEST, HIGHEST),
    }
    for condition, expected in table.items():
        builder = ConjunctionBuilder()
        builder.add(0, reader.read(condition, Categories())[0])
        c = builder.build()
        rows = range(c.offsets[1])
        assert tuple(boxes.key_interval(c.kind, c.low, c.high, c.points, rows[0])) == expected, (
            condition
        )


def test_the_example_of_the_introduction():
    """An advertiser's constraints and a visitor's profile, both with weights."""
    credit, visits, age = range(3)
    ad = [
        between(credit, 651, HIGHEST, 0.4),
        between(visits, 11, HIGHEST, 0.2),
        between(age, 22, 36, 0.4),
    ]
    others = [[between(credit, 0, 650, 0.9)], [between(age, 20, 30, 0.5)]]
    index = BEStar.build(made([others[0], ad, others[1]]), np.zeros(3, np.uint8))
    visitor, weights = {credit: 732, visits: 17, age: 27}, {credit: 0.2, visits: 0.2, age: 0.6}
    (best,), _ = best_of(index, [visitor], 3, 2, [weights])
    assert best == [(1, 0.4 * 0.2 + 0.2 * 0.2 + 0.4 * 0.6), (2, 0.5 * 0.6)]


@pytest.mark.parametrize("index", ["bestar", "keyed", "exhaustive"])
def test_the_job_site_of_the_introduction(index):
    """An employer's job and a job seeker's profile; scores are as section III defines them."""
    hours, rate = "`hours/week`", "`hourly-rate`"
    weights = {"category": 0.2, "hours/week": 0.5, "hourly-rate": 0.3}
    schema = {"category": "category", "hours/week": "integer", "hourly-rate": "number"}
    rules = Rules(schema, index=index)
    # Other employers: two less relevant, and two more relevant ones that she does not satisfy.
    rules.add("hours only", f"{hours} > 15", {"hours/week": 1})
    rules.add("her rate is too high", f"{rate} < 30", {"hourly-rate": 9})
    rules.add("the job", f"category = 'green jobs' AND {hours} > 15 AND {rate} < 45", weights)
    rules.add("any green job", "category = 'green jobs'", {"category": 0.6})
    rules.add("more hours", f"category = 'green jobs' AND {hours} > 20", {"category": 9})
    rules.merge()
    assert rules.plan().parts[0].index == index
    seeker = {"category": "green jobs", "hours/week": 20, "hourly-rate": 30}
    importance = {"category": 0.4, "hours/week": 0.1, "hourly-rate": 0.5}
    ranked = [
        ("the job", 0.2 * 0.4 + 0.5 * 0.1 + 0.3 * 0.5),
        ("any green job", 0.6 * 0.4),
        ("hours only", 1 * 0.1),
    ]
    assert ranked[0][1] == pytest.approx(0.28)
    assert {rule for _, rule in rules.match(seeker)} == {rule for rule, _ in ranked}
    for k in (1, 2, 3, 5):
        best = rules.top(seeker, k, weights=importance)
        assert best.ids().to_pylist() == [rule for rule, _ in ranked[:k]]
        assert best.scores.tolist() == pytest.approx([score for _, score in ranked[:k]])
    # Each end of the job's constraints is one that she may not reach.
    for change in ({"category": "other"}, {"hours/week": 15}, {"hourly-rate": 45.0}):
        assert (0, "the job") not in set(rules.match(seeker | change))


def hull(members, low, high):
    return (low[members].min(), high[members].max()) if len(members) else None


def measured(low, high, side):
    """Return the overlap and the coverage of a split, as section V-A3 defines them."""
    hulls = [hull(np.flatnonzero(side == s), low, high) for s in (1, 2, 0)]
    overlap = hulls[2][1] - hulls[2][0] if hulls[2] else 0
    covered = np.zeros(high.max() + 1, bool)
    for each in filter(None, hulls):
        covered[each[0] : each[1]] = True
    return overlap, covered.sum()


def by_the_definition(low, high, least):
    """Return the least overlap and coverage over all I, from the left and from the right."""
    m, found = len(low), []
    for from_left in (True, False):
        order = np.argsort(high if from_left else -low, kind="stable")
        for i in range(least, m - least + 1):
            side = np.zeros(m, int)
            side[order[:i]] = 1 if from_left else 2
            for rest in order[i:]:
                if from_left and low[rest] > high[order[:i]].max():
                    side[rest] = 2
                if not from_left and high[rest] < low[order[:i]].min():
                    side[rest] = 1
            if (side == 1).sum() >= least and (side == 2).sum() >= least:
                found.append(measured(low, high, side))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(10))
def test_exhaustive_splits_are_the_best(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 45))
    low = rng.integers(0, rng.choice([12, 60]), m)
    high = low + rng.integers(0, rng.choice([1, 8, 30]), m)
    least = int(rng.integers(1, max(2, m // 4)))
    side = np.zeros(m, np.uint8)
    cut = splitting.split_exhaustively(low, high, least, side)
    best = by_the_definition(low, high, least)
    if cut == NULL:
        assert best is None
        return
    left, right = np.flatnonzero(side == 1), np.flatnonzero(side == 2)
    assert min(len(left), len(right)) >= least
    assert high[left].max() < low[right].min()
    # Members that end together stay together, which can only be better.
    assert best is None or measured(low, high, side) <= best


@pytest.mark.parametrize("seed", range(10))
def test_approximate_splits_repel(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 45))
    low = rng.integers(0, 60, m)
    high = low + rng.integers(0, rng.choice([1, 8, 30]), m)
    side = np.full(m, 9, np.uint8)
    if splitting.split_approximately(low, high, 1, side) == NULL:
        return
    left, right = np.flatnonzero(side == 1), np.flatnonzero(side == 2)
    assert len(left)
    assert len(right)
    assert high[left].max() < low[right].min()
    for i in np.flatnonzero(side == 0):
        assert low[i] <= high[left].max()
        assert high[i] >= low[right].min()


def test_space_clustering_puts_left_to_the_left():
    side = np.zeros(4, np.uint8)
    low, high = np.array([0, 4, 6, 5]), np.array([4, 6, 10, 5])
    middle = splitting.midpoint(0, 10)
    assert splitting.split_at(low, high, middle, side) == middle == 5
    assert side.tolist() == [1, 0, 2, 0]
    assert splitting.midpoint(LOWEST, HIGHEST) == 0
    assert splitting.midpoint(HIGHEST - 1, HIGHEST) == HIGHEST - 1


def directory_of(index, p=0):
    """Return the buckets, and the number of the top bucket of a p-node."""
    return index.layout.bucket.reshape(-1, BUCKET), int(index.layout.pnode[p * PNODE + ROOT])


def test_data_clustering_fails_and_space_clustering_does_not():
    """One far away of a hundred is less than alpha."""
    rules = [[between(0, 5, 5)] for _ in range(99)] + [[between(0, 9, 9)]]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    buckets, top = directory_of(index)
    assert buckets[top, CUT] == 7
    left, right = buckets[buckets[top, LEFT]], buckets[buckets[top, RIGHT]]
    assert (left[LOW], left[HIGH], left[SIZE]) == (5, 5, 99)
    assert (right[LOW], right[HIGH], right[SIZE]) == (9, 9, 1)


def test_an_event_goes_down_one_side_at_most():
    work = shapes.one_attribute(np.random.default_rng(3))
    buckets, _ = directory_of(BEStar.build(work.conjunctions, work.floats))
    both = buckets[(buckets[:, LEFT] >= 0) & (buckets[:, RIGHT] >= 0)]
    assert len(both) > 20
    assert (buckets[both[:, LEFT], HIGH] < buckets[both[:, RIGHT], LOW]).all()


@pytest.mark.parametrize(("low", "high", "side"), [(5000, 5001, LEFT), (-5001, -5000, RIGHT)])
def test_bottom_up_expansion(low, high, side):
    rules = [[between(0, x, x + 2)] for x in range(0, 100, 3)]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    _, old = directory_of(index)
    index.insert(made([[between(0, 40, 90)]], 34))  # not beyond beta
    assert directory_of(index)[1] == old
    index.insert(made([[between(0, low, high)]], 35))
    check_invariants(index)
    buckets, top = directory_of(index)
    assert top != old
    assert buckets[top, side] == old
    assert index.layout.home[35] == top
    assert buckets[top, SIZE] == 1
    assert buckets[old, HIGH] == 101
    assert (buckets[top, LOW], buckets[top, HIGH]) == (min(low, 0), max(high, 101))
    # What comes near the newcomer goes to the other side.
    index.insert(made([[between(0, low, high)]], 36))
    buckets, top = directory_of(index)
    other = buckets[top, LEFT + RIGHT - side]
    assert index.layout.home[36] == other
    assert buckets[other, LOW] == low
    check_invariants(index)


def test_a_removal_shrinks_boundaries_up_to_the_root():
    rng = random.Random(5)
    rules = [[between(a, x := rng.randint(0, 50), x + 3) for a in range(3)] for _ in range(300)]
    index = BEStar.build(made(rules), np.zeros(3, np.uint8))
    before = index.layout.bucket.reshape(-1, BUCKET)[:, [LOW, HIGH]].copy()
    wide = [[between(a, -(10**6), 10**6) for a in range(3)]]
    for _ in range(3):
        index.insert(made(wide, index.conjunctions.size))
        check_invariants(index)
        index.remove(np.array([index.conjunctions.size - 1]))
        check_invariants(index)
    after = index.layout.bucket.reshape(-1, BUCKET)[: len(before), [LOW, HIGH]]
    np.testing.assert_array_equal(before[1:], after[1:])


def test_the_forced_split_rule():
    """A bucket that cannot be split for its data is split in the middle, then partitioned."""
    rules = [[between(0, 0, 10), between(1 + n % 2, n, n)] for n in range(40)]
    index = BEStar.build(made(rules), np.zeros(3, np.uint8))
    buckets, top = directory_of(index)
    assert index.layout.pnode[0] == 0
    assert buckets[top, CUT] == 5
    assert buckets[top, NODES] == 2
    assert buckets[top, LEFT] == buckets[top, RIGHT] == -1


@pytest.mark.parametrize("options", [{}, {"rigid": True}], ids=str)
def test_one_value_that_is_partitioned_and_becomes_more(options):
    rules = [[between(0, 7, 7), between(1, n, n)] for n in range(40)]
    rules += [[between(0, n, n)] for n in (0, 3, 50)]
    index = BEStar.build(made(rules), np.zeros(2, np.uint8), **options)
    more = [[between(0, low, high)] for low, high in [(7, 9), (6, 7), (5, 8), (8, 8)] * 4]
    for number, rule in enumerate(more, len(rules)):
        index.insert(made([rule], number))
        check_invariants(index)
    rules += more
    events = [{0: x, 1: 5} for x in range(4, 11)]
    truth = [matching(rules, range(len(rules)), event) for event in events]
    assert list(map(sorted, found(index, events, 2))) == truth


def test_an_underflowing_bucket_is_merged_with_its_parent():
    rules = [[between(0, x, x)] for x in (1, 2, 3, 101, 102, 103)]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    buckets, top = directory_of(index)
    assert buckets[top, CUT] != NULL
    index.remove(np.array([0, 1, 3]))
    assert index.layout.bucket.reshape(-1, BUCKET)[top, CUT] != NULL
    index.remove(np.array([4]))
    assert index.layout.bucket.reshape(-1, BUCKET)[top, CUT] == NULL
    check_invariants(index)


# ------------------------------------------------------------ the k best


SUMMARIES = pytest.mark.parametrize("summary", ["sums", "attributes"])


@SUMMARIES
def test_what_promises_too_little_is_not_looked_at(summary):
    rng = random.Random(4)
    rules = [
        [between(n % 5, 0, 9, (n % 5) / 4), between(5, 0, 9, rng.random())] for n in range(3000)
    ]
    index = BEStar.build(made(rules), np.zeros(6, np.uint8), summary=summary)
    events = [dict.fromkeys(range(6), 3)] * 4
    all_of_them, (looked, evaluated) = best_of(index, events, 6, 3000, [{}] * 4)
    assert looked >= evaluated >= 3000 * 4
    few, (looked, evaluated) = best_of(index, events, 6, 3, [{}] * 4)
    assert few == [each[:3] for each in all_of_them]
    assert looked < 3000 * 4 / 4


@SUMMARIES
def test_ties_go_to_the_rule_added_first(summary):
    rules = [[between(n % 3, 0, 9, 0.1), between(3 + n % 2, 0, 9, 0.2)] for n in range(500)]
    index = BEStar.build(made(rules), np.zeros(5, np.uint8), summary=summary)
    (best,), _ = best_of(index, [dict.fromkeys(range(5), 3)], 5, 7, [{}])
    assert [rule for rule, _ in best] == list(range(7))


def test_a_summary_for_each_attribute_tells_more_than_two_sums():
    """The event finds one attribute important: two sums promise the same wherever it is tested."""
    rules = [
        [between(0, 0, 9, 0.1), between(1 + n % 20, 0, 9, 0.1), between(21 + n % 7, 0, 9, 1.0)]
        for n in range(2000)
    ]
    event, important = dict.fromkeys(range(28), 3), {23: 9.0}
    looked = {}
    for summary in ("sums", "attributes"):
        index = BEStar.build(made(rules), np.zeros(28, np.uint8), summary=summary)
        (best,), (looked[summary], _) = best_of(index, [event], 28, 1, [important])
        assert best == truly_best(rules, range(2000), event, 1, important)
    assert looked["sums"] == 2000
    assert looked["attributes"] <= 300


def test_the_bound_of_section_iii():
    """uscore adds the event's weight times the greatest weight, for each attribute of the event."""
    rules = [[between(0, 0, 9, 0.3), between(1, 0, 9, 0.5)], [between(0, 0, 9, 0.4)]]
    t = BEStar.build(made(rules), np.zeros(3, np.uint8), summary="attributes").layout
    own_weights = np.array([2.0, 3.0, 5.0])
    arguments = t.summary, t.summary_attribute, t.summary_weight, OWN, own_weights
    for scoring in ([0, 1, 2], [0, 1]):
        bound = summaries.upper_score(*arguments, np.array(scoring), len(scoring))
        assert bound == 0.4 * 2 + 0.5 * 3
    many = [[between(a, 0, 9, 1 + a / 8)] for a in range(100)]
    t = BEStar.build(made(many), np.zeros(100, np.uint8), summary="attributes").layout
    own_weights = np.zeros(100)
    own_weights[[7, 90]] = 2.0, 3.0
    arguments = t.summary, t.summary_attribute, t.summary_weight, OWN, own_weights
    bound = summaries.upper_score(*arguments, np.array([90, 7]), 2)
    assert bound == 2 * (1 + 7 / 8) + 3 * (1 + 90 / 8)


@SUMMARIES
def test_weights_of_all_sizes(summary):
    sizes = [0.0, 5e-324, 1e-310, 1e-300, 1e-16, 1.0, 1e16, 1e300, 1.7e308]
    rng = random.Random(6)
    rules = [
        [
            between(a, 0, rng.randint(3, 9), rng.choice(sizes))
            for a in sorted(rng.sample(range(6), 3))
        ]
        for _ in range(400)
    ]
    index = BEStar.build(made(rules), np.zeros(6, np.uint8), summary=summary)
    check_invariants(index)
    for weights in ({}, dict.fromkeys(range(6), 0.0), dict(zip(range(6), sizes[1:], strict=False))):
        event = dict.fromkeys(range(6), 3)
        (best,), _ = best_of(index, [event], 6, 5, [weights])
        assert best == truly_best(rules, range(400), event, 5, weights)


def test_flags_earlier_lists_and_rules_of_several_conjunctions():
    rules = [[between(0, n, n + 50, 1 + n % 7)] for n in range(100)]
    c = made(rules)._replace(rule=freeze(np.arange(100) // 2, np.int32))
    index = BEStar.build(c, np.zeros(1, np.uint8))
    removed = np.packbits(np.arange(100) % 7 == 6, bitorder="little")
    sizes, best, scores = np.array([0, 2]), np.zeros(8, np.int32), np.zeros(8)
    best[4:6], scores[4:6] = [900, 20], [6.5, 1.0]
    none = weights_of([{}, {}, {}], 1)
    batch = EventBatch(keys_of([{0: 0}, {0: 40}, {0: 60}]), 1, 1, 3)
    index.best(batch, none.of_events(1, 3), removed, BestRules(4, False, sizes, best, scores))
    assert sizes.tolist() == [4, 4]
    # The event at 40 has the rules 0 to 20, that at 60 the rules 5 to 50; weight 7 is removed.
    assert best[:4].tolist() == [2, 6, 9, 13]
    assert (scores[:4] == 6).all()
    assert best[4:].tolist() == [900, 6, 9, 13]
    assert scores[4:].tolist() == [6.5, 6, 6, 6]


# ------------------------------------------------------------ ranks


def test_a_key_that_tells_nothing_apart_is_given_up():
    """Every rule asks the same of x; beside it each has an attribute that hardly another has."""
    width = 201
    rules = [[between(0, 0, 100), between(1 + n % 200, n, n + 300)] for n in range(600)]
    index = BEStar.build(made(rules), np.zeros(width, np.uint8))
    assert index.layout.bucket[NODES] == 1
    assert index.layout.pnode[ATTRIBUTE] == 0
    rng = random.Random(1)
    events = [{0: 7, **{a: rng.randint(0, 900) for a in range(1, width)}} for _ in range(20)]
    truth = [matching(rules, range(600), event) for event in events]
    assert sum(map(len, truth)) > 100
    assert list(map(sorted, found(index, events, width))) == truth
    assert not index.layout.loss_rate.any(), "nothing is learnt while matching"

    without = [{a: key for a, key in event.items() if a > 0} for event in events]
    index.tune(EventBatch.whole(keys_of(without), width))
    check_invariants(index)
    assert index.layout.bucket[NODES] == 1, "it costs nothing where events lack the attribute"

    # Now every member costs two predicates, and most fail.
    index.tune(EventBatch.whole(keys_of(events), width))
    check_invariants(index)
    assert index.layout.loss_rate[0] > 1
    assert index.layout.bucket[NODES] == 0, "the p-node is recycled"
    assert list(map(sorted, found(index, events, width))) == truth

    index.insert(made([[between(0, 0, 100)] for _ in range(50)], 600))
    check_invariants(index)
    assert index.layout.bucket[NODES] == 0, "it is remembered"


def test_events_that_none_are_teach_nothing():
    index = BEStar.build(made([[between(0, 1, 2)]]), np.zeros(1, np.uint8))
    index.tune(EventBatch.whole(keys_of([]), 1))
    assert index.layout.loss_rate.tolist() == [0]


# ------------------------------------------------------------ memory


@pytest.mark.parametrize("options", [{}, {"rigid": True}, {"summary": "attributes"}], ids=str)
@pytest.mark.parametrize(
    "shape",
    [shapes.clusters, shapes.identical, shapes.with_nulls, shapes.times, shapes.huge_integers],
    ids=lambda s: s.__name__,
)
def test_memory_returns(shape, options):
    work = shape(np.random.default_rng(8))
    n = work.low.shape[1]
    index = BEStar.build(part(work, slice(0, n // 2)), work.floats, **options)
    index.insert(part(work, slice(n // 2, n)))
    check_invariants(index)
    full = index.nbytes
    gone = np.random.default_rng(9).permutation(n)
    index.remove(gone[: n * 9 // 10])
    check_invariants(index)
    own = 9 * n  # where each number is, and whether it is plain
    assert index.nbytes - own < (full - own) / 3
    index.remove(gone)
    check_invariants(index)
    assert index.nbytes - own < 2000


def test_nodes_are_recycled():
    rng = random.Random(2)
    rules = [random_rule(rng, 7) for _ in range(400)]
    index = BEStar.build(made([]), np.zeros(7, np.uint8))
    sizes = []
    for turn in range(12):
        index.insert(made(rules, turn * 400))
        check_invariants(index)
        sizes.append(index.layout.state[[BUCKETS, ENTRIES]].max())
        mine = np.arange(turn * 400, turn * 400 + 400)
        index.remove(mine[turn % 3 :: 3])  # not so many that the tree is packed
        check_invariants(index)
        index.insert(made([], 0))
        index.remove(mine[: -(turn % 4) - 90])
        check_invariants(index)
        index.remove(mine)
    assert max(sizes[1:]) <= 2 * sizes[0]


def test_many_alike_make_no_more_nodes():
    rule = [between(0, 3, 9), between(1, 5, 5)]
    n = 20_000
    index = BEStar.build(made([rule] * n), np.zeros(2, np.uint8))
    index.insert(made([rule] * n, n))
    assert index.layout.state[BUCKETS] < 20
    assert index.nbytes < 60 * 2 * n
    lists = found(index, [{0: 4, 1: 5}, {0: 4, 1: 6}], 2)
    assert sorted(lists[0]) == list(range(2 * n))
    assert lists[1] == []
    index.remove(np.arange(2 * n - 1))
    check_invariants(index)
    assert found(index, [{0: 4, 1: 5}], 2) == [[2 * n - 1]]


# ------------------------------------------------------------ for whoever asks


def test_schemas_grow():
    index = BEStar.build(made([[between(0, 1, 2)]]), np.zeros(1, np.uint8))
    rules = [[between(5, n, n + 1), between(9, 0, 3)] for n in range(30)]
    index.insert(made(rules, 1))
    check_invariants(index)
    events = [{0: 1, 5: 7, 9: 1, 11: 4}, {5: 7}]
    assert list(map(sorted, found(index, events, 12))) == [[0, 7, 8], []]


def test_rules_in_a_tree(tmp_path):
    rules = Rules({"x": "number", "name": "category"}, index="bestar")
    rules.add("a", "x BETWEEN 1 AND 2.5 AND name IN ('p', 'q')", weights={"x": 2})
    rules.add("b", "x > 2 OR name = 'r'")
    rules.add("c", "x IS NULL")
    rules.merge()
    rules.remove("c")
    assert "bestar" in str(rules.plan())
    events = [{"x": 2.25, "name": "q"}, {"name": "r"}, {"x": float("nan")}]
    rules.save(tmp_path / "store")
    for each in (rules, Rules.open(tmp_path / "store")):
        assert sorted(each.match(events)) == [(0, "a"), (0, "b"), (1, "b"), (2, "b")]
        assert each.count(events).tolist() == [2, 1, 1]
        assert each.top(events, 1).to_arrow()["rule"].to_pylist() == ["a", "b", "b"]


@pytest.mark.parametrize(
    "options",
    [
        *({"leaf_capacity": capacity} for capacity in (0, np.nan, 2**31, np.inf)),
        *({"alpha": 0.6}, {"beta": 0.5}, {"splitting": "quick"}),
    ],
    ids=str,
)
def test_options_that_make_no_sense(options):
    with pytest.raises(RuleError, match=str(next(iter(options.values())))):
        BEStar.build(made([]), np.zeros(1, np.uint8), **options)


def test_broken_invariants_are_found():
    rng = random.Random(3)
    rules = [random_rule(rng, 5) for _ in range(300)]

    def widen(t):
        t.bucket.reshape(-1, BUCKET)[2, HIGH] -= 1

    def forget(t):
        t.home[np.flatnonzero(t.home >= 0)[0]] = -1

    def promise(t):
        t.max_sums[3] += 1

    def promise_less(t):
        starts = t.summary[::2]
        t.summary_weight[starts[starts >= 0][0]] -= 0.05

    def miscount(t):
        t.pnode.reshape(-1, PNODE)[0, COUNT] += 1

    def lose(t):
        t.state[ENTRIES] += 4

    for harm, words in [
        (widen, "box"), (forget, "elsewhere"), (promise, "weight summary"), (miscount, "count"),
        (lose, "lost"), (promise_less, "summary of weights"),
    ]:  # fmt: skip
        index = BEStar.build(made(rules), np.zeros(5, np.uint8), summary="attributes")
        check_invariants(index)
        harm(index.layout)
        with pytest.raises(AssertionError, match=words):
            check_invariants(index)
