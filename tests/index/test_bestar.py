"""The BE*-tree: its shape and its invariants, against plain Python."""

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
    SCORES,
    SET,
    best_of,
    between,
    columns_of,
    directory_of,
    found,
    keys_of,
    made,
    matching,
    random_event,
    random_rule,
    range_keys_of,
    truly_best,
)
from tocsin.engine.rules import Rules
from tocsin.errors import RuleError
from tocsin.index.bestar import boxes
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    BOX,
    BUCKET,
    BUCKETS,
    CAPACITY,
    COUNT,
    CUT,
    ENTRIES,
    HIGH,
    LEFT,
    LOW,
    NODE,
    NODES,
    PNODE,
    RIGHT,
    SIZE,
)
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
            some = [random_event(rng, width) for _ in range(20)]
            keys = keys_of(some)
            if rng.random() < 0.5:
                keys = range_keys_of([{a: wide(rng, key) for a, key in e.items()} for e in some])
            index.tune(EventBatch.whole(keys, width))
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
        combine = SCORES[rng.choice(sorted(SCORES.keys() - {"any of independent causes"}))]
        expected = [
            truly_best(rules, alive, event, k, own, combine)
            for event, own in zip(events, weights, strict=True)
        ]
        assert best_of(index, events, width, k, weights, combine=combine)[0] == expected


def wide(rng, key):
    """Return a range that starts at a key; null stays null."""
    return (key, key if key == NULL else min(key + rng.choice((0, 2, 9, 10**6)), HIGHEST))


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


def test_an_insertion_goes_to_the_p_node_of_the_highest_rank():
    """Algorithm 1; and Algorithm 4 makes p-nodes in the order of ranks."""
    rules = [[between(0, n, n)] for n in range(10)] + [[between(1, n, n)] for n in range(30)]
    index = BEStar.build(made(rules), np.zeros(2, np.uint8))
    assert index.layout.pnode.reshape(-1, PNODE)[:2, ATTRIBUTE].tolist() == [1, 0]

    def inserted():
        number = index.conjunctions.size
        index.insert(made([[between(0, 3, 3), between(1, 3, 3)]], number))
        check_invariants(index)
        home = index.layout.bucket.reshape(-1, BUCKET)[index.layout.home[number]]
        return index.layout.pnode.reshape(-1, PNODE)[home[NODE], ATTRIBUTE]

    assert inserted() == 1, "30 conjunctions against 10"
    index.layout.loss[0] = 22.0
    assert inserted() == 0, "31 less 22 against 10"


def test_an_insertion_goes_where_it_expands_a_bucket_least():
    """Algorithm 2, lines 12 to 27."""
    rules = [[between(0, x, x)] for x in (0, 1, 2, 100, 101, 102)]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    buckets, top = directory_of(index)
    left, right = buckets[top, [LEFT, RIGHT]]
    assert left >= 0
    assert right >= 0
    for low, high, expected in [
        (2, 30, left),  # meets the left one alone
        (50, 51, left),  # 51 values against 52
        (52, 52, right),  # 52 against 50
        (40, 60, top),  # meets both
        (103, 120, right),  # meets neither, and is nearer to the right
        (1, 110, top),
    ]:
        index.insert(made([[between(0, low, high)]], index.conjunctions.size))
        check_invariants(index)
        assert index.layout.home[index.conjunctions.size - 1] == expected, (low, high)


def test_a_p_node_needs_five_members():
    for n, nodes, capacity in ((4, 0, 8), (5, 1, 2)):
        rules = [[between(0, 10 * x, 10 * x)] for x in range(n)]
        index = BEStar.build(made(rules), np.zeros(1, np.uint8), leaf_capacity=2)
        assert (index.layout.bucket[NODES], index.layout.bucket[CAPACITY]) == (nodes, capacity)


def test_the_defaults_are_the_parameters_of_section_vii():
    options = BEStar.options
    names = ("leaf_capacity", "alpha", "beta", "splitting", "rigid")
    assert [options[name].default for name in names] == [5, 0.1, 4.0, "exhaustive", False]


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


def test_a_removal_shrinks_inactive_dimensions():
    """Below the second p-node, the first attribute is inactive: only its extent is kept."""
    rules = [[between(0, 0, 10), between(1, n, n)] for n in range(40)]
    index = BEStar.build(made(rules), np.zeros(2, np.uint8))

    def extents():
        t = index.layout
        buckets, top = directory_of(index)
        home = buckets[t.home[7]]
        assert t.pnode.reshape(-1, PNODE)[home[NODE], ATTRIBUTE] == 1
        return (*buckets[top, [LOW, HIGH]], *t.box[home[BOX] : home[BOX] + 2])

    assert extents() == (0, 10, 0, 10)
    index.insert(made([[between(0, -5, 20), between(1, 7, 7)]], 40))
    assert index.layout.home[40] == index.layout.home[7]
    assert extents() == (-5, 20, -5, 20)
    index.remove(np.array([40]))
    assert extents() == (0, 10, 0, 10)
    check_invariants(index)


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
