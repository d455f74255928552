"""`keyed` where its codes run out, and where its bounds decide; conformance has the rest."""

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.index import posting_lists
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.keyed import coding, shelves
from tocsin.index.keyed.index import Keyed
from tocsin.index.keyed.lanes import HEAD, LANES
from tocsin.jit import freeze, freeze_fields
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions
from tocsin.model.keys import EventBatch, sparse_keys
from tocsin.model.predicates import INTERVAL, NOT_SET, SET, Predicate

NULL = -(2**63)


def ask(index, keys, width):
    out = np.empty(index.conjunctions.size + (1 << 20), np.int32)
    offsets = np.zeros(keys.size + 1, np.int64)
    assert index.candidates(EventBatch(keys, width, 0, keys.size), offsets, out) == keys.size
    return [out[offsets[i] : offsets[i + 1]].tolist() for i in range(keys.size)]


def entries_of(index):
    """Return how many lanes are not empty."""
    lows, highs = index.layout.heads.reshape(-1, HEAD // LANES, LANES)[:, :2].swapaxes(0, 1)
    return int((lows <= highs).sum())


def numbers(candidates):
    return sorted(c if c >= 0 else ~c for c in candidates)


def intervals(rng, n, width, size, top, span):
    """n conjunctions of `size` intervals over `width` attributes."""
    attribute = np.sort(np.argsort(rng.random((n, width)), axis=1)[:, :size], axis=1)
    low = rng.integers(0, top, (n, size))
    high = low + rng.integers(0, span, (n, size))
    return freeze_fields(
        Conjunctions, offsets=np.arange(n + 1) * size, attribute=attribute.reshape(-1),
        kind=np.zeros(n * size), low=low.reshape(-1), high=high.reshape(-1), points=[], weight=[],
        rule=np.arange(n),
    )  # fmt: skip


def events(rng, n, width, size, top):
    attribute = np.argsort(rng.random((n, width)), axis=1)[:, :size]
    return sparse_keys(
        np.arange(n + 1) * size, attribute.reshape(-1), rng.integers(0, top, n * size)
    )  # fmt: skip


def true_of(c, keys, width):
    """Return the conjunctions, all of intervals, that hold for each event."""
    found = []
    for event in range(keys.size):
        line = np.full(width, NULL)
        mine = slice(keys.offsets[event], keys.offsets[event + 1])
        line[keys.attribute[mine]] = keys.key[mine]
        holds = (c.low <= line[c.attribute]) & (line[c.attribute] <= c.high)
        found.append(np.flatnonzero(np.logical_and.reduceat(holds, c.offsets[:-1])).tolist())
    assert sum(map(len, found)) > 0
    return found


def test_more_cuts_than_codes(monkeypatch):
    """Of an attribute with too many bounds some codes are shared, and accept decides."""
    monkeypatch.setattr(coding, "CODES", 50)
    rng = np.random.default_rng(0)
    c = intervals(rng, 400, 4, 2, 10_000, 4_000)
    keys = events(rng, 200, 4, 3, 14_000)
    index = Keyed.build(c, np.zeros(4, np.uint8))
    assert not index.proven
    assert int(np.diff(index.layout.cut_offsets).max()) == 50
    truth = true_of(c, keys, 4)
    for found, holds in zip(ask(index, keys, 4), truth, strict=True):
        proven = [each for each in found if each >= 0]
        assert set(proven) <= set(holds) <= set(numbers(found))
        assert len(numbers(found)) == len(set(numbers(found)))
    # What is left to accept is little: codes are as near as they can be.
    assert sum(map(len, ask(index, keys, 4))) < 2 * sum(map(len, truth))


def test_cuts_at_the_limit(monkeypatch):
    """Exactly as many cuts as there are codes are exact still."""
    rng = np.random.default_rng(1)
    c = intervals(rng, 300, 3, 2, 1_000, 100)
    cuts = int(np.diff(Keyed.build(c, np.zeros(3, np.uint8)).layout.cut_offsets).max())
    monkeypatch.setattr(coding, "CODES", cuts)
    index, keys = Keyed.build(c, np.zeros(3, np.uint8)), events(rng, 100, 3, 3, 1_100)
    assert index.proven
    assert list(map(sorted, ask(index, keys, 3))) == true_of(c, keys, 3)


def test_the_real_limit_of_codes():
    """A hundred thousand different bounds on one attribute."""
    rng = np.random.default_rng(2)
    c = intervals(rng, 100_000, 1, 1, 10**9, 100_000)
    keys = events(rng, 300, 1, 1, 10**9)
    index = Keyed.build(c, np.zeros(1, np.uint8))
    assert not index.proven
    truth = true_of(c, keys, 1)
    for found, holds in zip(ask(index, keys, 1), truth, strict=True):
        assert set(holds) <= set(numbers(found))
    assert sum(map(len, ask(index, keys, 1))) < 1.5 * sum(map(len, truth))


def test_more_attributes_than_codes(monkeypatch):
    """Predicates on rare attributes may be keys, and are else left to accept."""
    monkeypatch.setattr(coding, "CODES", 20)
    rng = np.random.default_rng(3)
    c = intervals(rng, 500, 60, 3, 4, 6)
    keys = events(rng, 200, 60, 40, 6)
    index = Keyed.build(c, np.zeros(60, np.uint8))
    truth = true_of(c, keys, 60)
    for found, holds in zip(ask(index, keys, 60), truth, strict=True):
        proven = [each for each in found if each >= 0]
        assert set(proven) <= set(holds) <= set(numbers(found))


def test_each_point_of_a_small_set_is_a_key():
    builder = ConjunctionBuilder()
    builder.add(0, [[(0, Predicate(SET, points=(3, 40, 500)))]])
    builder.add(1, [[(0, Predicate(SET, points=tuple(range(0, 90, 9))))]])
    builder.add(2, [[(0, Predicate(INTERVAL, 0, 600)), (1, Predicate(SET, points=(1, 2)))]])
    index = Keyed.build(builder.build(), np.zeros(2, np.uint8))
    values = [3, 4, 40, 45, 500]
    keys = sparse_keys(
        np.arange(6) * 2, np.tile([0, 1], 5), np.stack([values, [2, 2, 2, 3, 1]], 1).reshape(-1)
    )
    # Three points, one large set, two points.
    assert entries_of(index) == 3 + 1 + 2
    assert [sorted(found) for found in ask(index, keys, 2)] == [
        [~1, 0, 2], [~1, 2], [~1, 0, 2], [~1], [0, 2],
    ]  # fmt: skip


def test_what_may_be_null_is_no_key():
    builder = ConjunctionBuilder()
    builder.add(0, [[(0, Predicate(INTERVAL, NULL, 5))]])
    builder.add(1, [[(0, Predicate(NOT_SET, points=(7,)))]])
    builder.add(2, [[]])
    builder.add(3, [[(0, Predicate(INTERVAL, NULL, NULL)), (1, Predicate(INTERVAL, 1, 2))]])
    index = Keyed.build(builder.build(), np.zeros(2, np.uint8))
    keys = sparse_keys(np.array([0, 0, 1, 2, 4]), np.array([0, 1, 0, 1]), np.array([6, 1, 5, 2]))
    assert [sorted(found) for found in ask(index, keys, 2)] == [
        [~1, 0, 2], [~1, 2], [~1, 0, 2, 3], [~1, 0, 2],
    ]  # fmt: skip


def best_of(index, keys, width, k, weights=None):
    """Return the k best of each event, and how many entries were seen and evaluated."""
    none = freeze(np.empty(0), np.int64)
    common = np.ones(width) if weights is None else np.array(weights)
    weights = EventWeights(
        freeze(common, np.float64), none, freeze(none, np.int32), freeze(none, np.float64)
    )
    sizes = np.zeros(keys.size, np.int64)
    rules, scores = np.empty(keys.size * k, np.int32), np.empty(keys.size * k)
    best = BestRules(k, True, sizes, rules, scores)
    seen = index.best(EventBatch.whole(keys, width), weights, np.empty(0, np.uint8), best)
    return [rules[i * k : i * k + sizes[i]].tolist() for i in range(keys.size)], seen


def weighted(rng, c):
    """Return conjunctions with random weights, and the sums of these."""
    weight = rng.random(len(c.attribute))
    return c._replace(weight=freeze(weight, np.float64)), np.add.reduceat(weight, c.offsets[:-1])


@pytest.mark.parametrize("k", [1, 5])
def test_bounds_save_work(k):
    """Of many rules that match only those that can be among the best are looked at."""
    rng = np.random.default_rng(4)
    c, totals = weighted(rng, intervals(rng, 20_000, 30, 3, 50, 50))
    keys = events(rng, 20, 30, 20, 60)
    index = Keyed.build(c, np.zeros(30, np.uint8))
    best, (seen, evaluated) = best_of(index, keys, 30, k)
    found = ask(index, keys, 30)
    assert evaluated == 0
    assert 0 < seen < sum(map(len, found)) / 4
    for mine, matches in zip(best, found, strict=True):
        assert mine == sorted(matches, key=lambda m: (-totals[m], m))[:k]


def test_the_bound_of_a_set_with_null():
    """It scores also for an event that has no value, whatever that attribute weighs."""
    c = freeze_fields(
        Conjunctions, offsets=[0, 2, 3], attribute=[0, 1, 0], kind=[INTERVAL, SET, INTERVAL],
        low=[1, 0, 0], high=[9, 2, 9], points=[NULL, 5], weight=[1.0, 1.0, 5.0], rule=[0, 1],
    )  # fmt: skip
    index = Keyed.build(c, np.zeros(2, np.uint8))
    keys = sparse_keys(np.arange(2), np.array([0]), np.array([5]))
    assert best_of(index, keys, 2, 1, weights=[1.0, 100.0])[0] == [[0]]


def test_shelves_of_two_attributes(monkeypatch):
    """Where it pays, and here wherever it can, entries lie by their second attribute too."""
    rng = np.random.default_rng(7)
    c, totals = weighted(rng, intervals(rng, 3_000, 12, 3, 50, 30))
    keys = events(rng, 300, 12, 6, 70)
    truth = true_of(c, keys, 12)
    alone = Keyed.build(c, np.zeros(12, np.uint8))
    assert not (alone.layout.pair_shelf >= 0).any()
    monkeypatch.setattr(shelves, "_SHELF_COST", 0.0)
    monkeypatch.setattr(shelves, "_MIN_PAIR_ENTRIES", 1)
    index = Keyed.build(c, np.zeros(12, np.uint8))
    assert (index.layout.pair_shelf >= 0).sum() > 50
    assert list(map(sorted, ask(index, keys, 12))) == truth
    best, (seen, _) = best_of(index, keys, 12, 3)
    assert 0 < seen < sum(map(len, truth))
    for mine, matches in zip(best, truth, strict=True):
        assert mine == sorted(matches, key=lambda m: (-totals[m], m))[:3]


def test_a_second_predicate_that_may_be_null_makes_no_shelf(monkeypatch):
    """An event without the attribute must come by still."""
    monkeypatch.setattr(shelves, "_SHELF_COST", 0.0)
    monkeypatch.setattr(shelves, "_MIN_PAIR_ENTRIES", 1)
    builder = ConjunctionBuilder()
    others = [
        Predicate(INTERVAL, NULL, NULL), Predicate(INTERVAL, NULL, 4), Predicate(INTERVAL, 2, 4),
        Predicate(NOT_SET, points=(3,)), Predicate(SET, points=(NULL, 2)),
    ]  # fmt: skip
    for i in range(2_000):
        key = Predicate(INTERVAL, i % 7, 9)
        builder.add(i, [[(i % 8, key), (8 + i % 5, others[i % 5])]])
    index = Keyed.build(builder.build(), np.zeros(13, np.uint8))
    assert (index.layout.pair_shelf >= 0).any()
    given = [[], [3] * 5, [2] * 5]  # values of the other attributes
    asked = [[9] * 8 + more for more in given]
    keys = sparse_keys(
        np.cumsum([0, *map(len, asked)]), np.concatenate([np.arange(len(a)) for a in asked]),
        np.concatenate(asked),
    )  # fmt: skip
    rest = [{0, 1, 3, 4}, {1, 2}, {1, 2, 3, 4}]  # of the others that hold
    for found, holds in zip(ask(index, keys, 13), rest, strict=True):
        assert {i for i in range(2_000) if i % 5 in holds} <= set(numbers(found))
        assert {c % 5 for c in found if c >= 0} <= holds


def test_crowds_make_shelves_of_two_attributes():
    """Rules over few of many attributes, in wide ranges: most of a shelf would be in vain."""
    rng = np.random.default_rng(8)
    c = intervals(rng, 80_000, 40, 2, 50, 50)
    keys = events(rng, 50, 40, 3, 60)
    index = Keyed.build(c, np.zeros(40, np.uint8))
    assert (index.layout.pair_shelf >= 0).sum() > 500
    assert list(map(sorted, ask(index, keys, 40))) == true_of(c, keys, 40)


def test_more_blocks_than_are_compared_together():
    """One event that all rules hold for, one that none does, one in the middle."""
    rng = np.random.default_rng(9)
    n = 20_000
    low, high = rng.integers(0, 500, (n, 2)), rng.integers(500, 1_000, (n, 2))
    c, totals = weighted(
        rng,
        freeze_fields(
            Conjunctions, offsets=np.arange(n + 1) * 2, attribute=np.tile([0, 1], n),
            kind=np.zeros(2 * n), low=low.reshape(-1), high=high.reshape(-1), points=[], weight=[],
            rule=np.arange(n),
        ),
    )  # fmt: skip
    keys = sparse_keys(
        np.arange(4) * 2, np.tile([0, 1], 3), np.array([500, 500, -1, 500, 300, 700])
    )
    index = Keyed.build(c, np.zeros(2, np.uint8))
    truth = true_of(c, keys, 2)
    assert [len(each) for each in truth][:2] == [n, 0]
    assert list(map(sorted, ask(index, keys, 2))) == truth
    for mine, matches in zip(best_of(index, keys, 2, 7)[0], truth, strict=True):
        assert mine == sorted(matches, key=lambda m: (-totals[m], m))[:7]


def test_room_for_no_more_than_there_are():
    """Empty lanes beside those that pass are not written, not even where there is no room."""
    rng = np.random.default_rng(10)
    c = intervals(rng, 13, 1, 1, 10, 100)
    index = Keyed.build(c, np.zeros(1, np.uint8))
    keys = sparse_keys(np.arange(2), np.array([0]), np.array([10]))
    out, offsets = np.full(14, 99, np.int32), np.zeros(2, np.int64)
    truth = true_of(c, keys, 1)[0]
    assert index.candidates(EventBatch(keys, 1, 0, 1), offsets, out[:13]) == 1
    assert sorted(out[: offsets[1]]) == truth
    assert (out[offsets[1] :] == 99).all()


@pytest.mark.parametrize("shelf", [0.0, 100.0])
def test_ranges_on_shelves_of_two_attributes(monkeypatch, shelf):
    monkeypatch.setattr(shelves, "_SHELF_COST", shelf)
    monkeypatch.setattr(shelves, "_MIN_PAIR_ENTRIES", 1)
    rng = np.random.default_rng(11)
    names = "abcdef"
    table = []
    for i in range(600):
        of = rng.choice(6, 3, replace=False)
        low = rng.integers(0, 40, 3)
        parts = [
            f"{names[a]} BETWEEN {low[j]} AND {low[j] + rng.integers(0, 20)}"
            for j, a in enumerate(of)
        ]
        table.append({"id": i, "where": " AND ".join(parts), "weights": {names[of[0]]: 0.5}})
    asked = []
    for _ in range(60):
        event = {}
        for a in rng.choice(6, 4, replace=False):
            low, width = rng.integers(0, 40), rng.integers(0, 15)
            event[names[a]] = {"low": int(low), "high": int(low + width)}
        asked.append(event)
    answers = []
    for index in ("keyed", "exhaustive"):
        rules = tocsin.Rules(dict.fromkeys(names, "integer"), index=index)
        rules.add_many(table)
        rules.merge()
        answers.append((rules.match(asked).sorted().to_arrow(), rules.top(asked, 3).to_arrow()))
    assert len(answers[0][0]) > 300
    assert answers[0] == answers[1]


def test_a_range_that_finds_several_points_of_a_set():
    rng = np.random.default_rng(5)
    table = []
    for i in range(300):
        points = rng.choice(40, rng.integers(1, 9), replace=False).tolist()
        text = f"a IN ({', '.join(map(str, points))})"
        if i % 2:
            text += f" AND b BETWEEN {rng.integers(0, 20)} AND {rng.integers(20, 40)}"
        table.append({"id": i, "where": text, "weights": {"a": round(rng.random(), 1)}})
    ranges = []
    for _ in range(40):
        low, width = (rng.integers(0, 30, 2)).tolist()
        ranges.append({"a": {"low": low, "high": low + width}, "b": int(rng.integers(0, 40))})
    answers = []
    for name in ("keyed", "bestar", "exhaustive"):
        rules = tocsin.Rules({"a": "integer", "b": "integer"}, index=name)
        rules.add_many(table)
        rules.merge()
        assert rules.plan().parts[0].index == name
        matches = rules.match(ranges).sorted()
        assert rules.count(ranges).tolist() == np.diff(matches.offsets).tolist()
        best = rules.top(ranges, 4, weights={"b": 0.3})
        answers.append((matches.to_arrow(), best.to_arrow()))
    assert len(answers[0][0]) > 1000
    assert answers[0] == answers[1] == answers[2]


def test_more_than_offsets_can_count(monkeypatch):
    monkeypatch.setattr(posting_lists, "MAX_ENTRIES", 1000)
    c = intervals(np.random.default_rng(6), 400, 4, 3, 100, 10)
    with pytest.raises(tocsin.TocsinError, match="split them over several Rules"):
        Keyed.build(c, np.zeros(4, np.uint8))


@pytest.mark.parametrize("index", ["exhaustive", "keyed", "bestar"])
def test_ties_of_scores_beyond_floats(index):
    rules = tocsin.Rules({"x": "number"}, index=index)
    for i, weight in enumerate((1e200, 2e200, 1e-300)):
        rules.add(i, f"x > {2 - i}", weights={"x": weight})  # the last is looked at first
    rules.merge()
    for k in (1, 2):
        found = rules.top({"x": 5}, k, weights={"x": 1e200})
        assert found.ids().to_pylist() == [0, 1][:k]
        assert np.isinf(found.scores).all()


LARGE = (NULL, -(2**62) - 1, 2**60 - 7, 2**62 - 300, 2**63 - 403)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", LARGE)
def test_tables_of_codes_for_large_integers(first, tmp_path):
    """Floats round such integers, and one more than the last of them overflows."""
    rules = tocsin.Rules({"n": "integer", "tier": "category"}, index="keyed")
    wheres = [f"n = {first + 2 * i + 1} AND tier = 'a'" for i in range(200)]
    wheres += [f"n <= {first + 401} AND tier = 'a'", f"n > {first + 399} AND tier = 'a'"]
    rules.add_many(pa.table({"id": range(len(wheres)), "where": wheres}))
    rules.merge()
    rules.save(tmp_path)
    values = [first + i for i in range(403)]
    events = pa.table({"n": pa.array(values, pa.int64()), "tier": ["a"] * len(values)})
    for asked in (rules, tocsin.open(tmp_path)):
        counts = asked.count(events)
        assert counts.tolist() == [i % 2 * (i < 400) + (i < 402) + (i > 399) for i in range(403)]


@pytest.mark.parametrize("first", LARGE[:-1])
def test_a_table_that_ends_before_the_last_large_cut(first):
    """As floats the first cut and the last are one number, and the table seems long enough."""
    c = intervals(np.random.default_rng(8), 40, 1, 1, 60, 1)
    c = c._replace(
        low=freeze(c.low + (first + 3), np.int64), high=freeze(c.low + (first + 3), np.int64)
    )
    index = Keyed.build(c, np.zeros(1, np.uint8))
    assert (index.layout.code_start >= 0).all()
    index.validate(1)
    arrays = {name: array.copy() for name, array in index.arrays().items()}
    arrays["cuts"][-1] += 100
    with pytest.raises(tocsin.StoreError, match="a code for each key"):
        Keyed.from_arrays(index.conjunctions, arrays).validate(1)
