"""`keyed` with key sets: points under combinations of codes, against plain loops."""

import numpy as np
import pytest

import tocsin
from tests.index.test_keyed import NULL, ask, best_of, entries_of, numbers
from tocsin.index.keyed import buckets, key_sets
from tocsin.index.keyed.index import Keyed
from tocsin.model.conjunctions import ConjunctionBuilder
from tocsin.model.keys import dense_keys, sparse_keys
from tocsin.model.predicates import INTERVAL, NOT_SET, SET, Predicate, one_of

WIDTH = 6
VALUES = 8


@pytest.fixture
def eager(monkeypatch):
    """Choose key sets wherever they save anything."""
    monkeypatch.setattr(key_sets, "PROBE_COST", 0.0)


@pytest.fixture(params=["direct", "hashed"])
def tables(request, monkeypatch):
    if request.param == "hashed":
        monkeypatch.setattr(buckets, "_MIN_DIRECT", 0)
        monkeypatch.setattr(buckets, "_DIRECT", 0)
    return request.param


def predicate(rng):
    """Return a point, a list, IS NULL or not, a range, or what is never a key."""
    what = rng.integers(0, 10)
    if what < 4:
        return Predicate(INTERVAL, *[int(rng.integers(0, VALUES))] * 2)
    if what < 7:
        points = rng.choice(VALUES, rng.integers(2, 5), replace=False).tolist()
        return one_of([NULL, *points] if rng.random() < 0.2 else points)
    if what == 7:
        return Predicate(INTERVAL, NULL, NULL)
    if what == 8:
        return Predicate(NOT_SET, points=(int(rng.integers(1, VALUES)),))
    low = int(rng.integers(0, VALUES))
    return Predicate(INTERVAL, low, low + int(rng.integers(0, VALUES)))


def random_rules(rng, n, weighted=False):
    rules, builder = [], ConjunctionBuilder()
    for i in range(n):
        attributes = np.sort(rng.choice(WIDTH, rng.integers(0, 5), replace=False)).tolist()
        rules.append([(a, predicate(rng)) for a in attributes])
        weights = {a: float(rng.integers(1, 9)) for a in attributes} if weighted else None
        builder.add(i, [rules[-1]], weights)
    return rules, builder.build()


def holds(predicate, low, high):
    """Return whether some key from `low` to `high` satisfies a predicate."""
    kind, begin, end, points = predicate
    if kind == INTERVAL:
        return begin <= high and low <= end
    if kind == SET:
        return any(low <= point <= high for point in points)
    return any(key not in points for key in range(low, high + 1)) if high > NULL else True


def true_of(rules, lines, lines_high=None):
    lines_high = lines if lines_high is None else lines_high
    return [
        [i for i, rule in enumerate(rules) if all(holds(p, low[a], high[a]) for a, p in rule)]
        for low, high in zip(lines.tolist(), lines_high.tolist(), strict=True)
    ]


def random_lines(rng, n):
    lines = rng.integers(-1, VALUES + 1, (n, WIDTH))
    lines[rng.random((n, WIDTH)) < 0.2] = NULL
    return lines


def as_dense(lines, high=None):
    return dense_keys(lines.T.copy(), np.arange(WIDTH), None if high is None else high.T.copy())


def as_sparse(lines, high=None):
    event, attribute = np.nonzero(lines > NULL)
    offsets = np.searchsorted(event, np.arange(len(lines) + 1))
    return sparse_keys(
        offsets, attribute, lines[event, attribute],
        None if high is None else high[event, attribute],
    )  # fmt: skip


def check_found(found, truth):
    assert sum(map(len, truth)) > 0
    for own, expected in zip(found, truth, strict=True):
        proven = [each for each in own if each >= 0]
        assert set(proven) <= set(expected) <= set(numbers(own))
        assert len(numbers(own)) == len(set(numbers(own)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [as_dense, as_sparse])
def test_points_are_found_as_by_plain_loops(eager, tables, seed, shape):
    rng = np.random.default_rng(seed)
    rules, c = random_rules(rng, 400)
    lines = random_lines(rng, 300)
    index = Keyed.build(c, np.zeros(WIDTH, np.uint8))
    assert len(index.layout.slot_start) > 1
    assert ((index.layout.slot_start >= 0) == (tables == "hashed")).all()
    index.validate(WIDTH)
    check_found(ask(index, shape(lines), WIDTH), true_of(rules, lines))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [as_dense, as_sparse])
@pytest.mark.parametrize("width", [1, 3, 2**40])
def test_ranges_find_all_combinations_in_them(eager, tables, seed, shape, width):
    rng = np.random.default_rng(seed)
    rules, c = random_rules(rng, 300)
    lines = random_lines(rng, 100)
    is_range = (lines > NULL) & (rng.random(lines.shape) < 0.5)
    high = np.where(is_range, lines + rng.integers(1, width + 1, lines.shape), lines)
    index = Keyed.build(c, np.zeros(WIDTH, np.uint8))
    assert len(index.layout.slot_start) > 1
    # A plain loop over a trillion keys would take long; all beyond are alike.
    truth = true_of(rules, lines, np.minimum(high, 3 * VALUES))
    check_found(ask(index, shape(lines, high), WIDTH), truth)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.5, 2.0, 1.0, 0.0]])
def test_the_best_are_found_as_by_plain_loops(eager, tables, seed, weights):
    rng = np.random.default_rng(seed)
    rules, c = random_rules(rng, 400, weighted=True)
    lines = random_lines(rng, 100)
    index = Keyed.build(c, np.zeros(WIDTH, np.uint8))
    event_weights = weights or [1.0] * WIDTH

    def score(i):
        rows = range(c.offsets[i], c.offsets[i + 1])
        return sum(
            c.weight[r] * event_weights[c.attribute[r]]
            for r in rows
            if not (c.kind[r] == INTERVAL and c.high[r] == NULL)
        )

    scores = [score(i) for i in range(len(rules))]
    for k in (1, 5):
        best, _ = best_of(index, as_dense(lines), WIDTH, k, weights)
        expected = [sorted(own, key=lambda i: (-scores[i], i))[:k] for own in true_of(rules, lines)]
        assert best == expected


def test_bounds_of_blocks_save_work():
    rng = np.random.default_rng(3)
    builder = ConjunctionBuilder()
    weights = rng.random(4_000).tolist()
    for i in range(4_000):
        tests = [(a, Predicate(INTERVAL, *[int(rng.integers(0, 2))] * 2)) for a in range(2)]
        builder.add(i, [[*tests, (2, Predicate(INTERVAL, i % 50, 99))]], {0: weights[i]})
    index = Keyed.build(builder.build(), np.zeros(3, np.uint8))
    assert not len(index.layout.key_attribute), "all under combinations"
    keys = dense_keys(np.array([[0, 1], [1, 1], [60, 40]]), np.arange(3))
    found = ask(index, keys, 3)
    best, (seen, _) = best_of(index, keys, 3, 1)
    assert 0 < seen < sum(map(len, found)) / 4
    assert best == [[min(own, key=lambda i: (-weights[i], i))] for own in found]


def test_a_wide_range_is_not_multiplied_out(eager):
    builder = ConjunctionBuilder()
    for i in range(400):
        point = Predicate(INTERVAL, i % 9, i % 9)
        builder.add(i, [[(0, point), (1, Predicate(INTERVAL, i % 10, 40 + i % 30))]])
    for i in range(12, 40):
        builder.add(388 + i, [[(1, Predicate(INTERVAL, i, i))]])  # so that ranges have many codes
    index = Keyed.build(builder.build(), np.zeros(2, np.uint8))
    assert entries_of(index) == 428


def test_a_list_is_multiplied_out_within_a_bound(monkeypatch):
    rng = np.random.default_rng(1)
    builder = ConjunctionBuilder()
    for i in range(300):
        tests = [
            (a, one_of([*rng.choice(20, size, replace=False).tolist(), 50 + i % 3]))
            for a, size in enumerate((2, 3, 5, 20))
        ]
        builder.add(i, [tests])
    c = builder.build()
    index = Keyed.build(c, np.zeros(4, np.uint8))
    layout = index.layout
    assert len(layout.slot_start) > 0
    filled = layout.heads.reshape(-1, 5, 8)[:, 0] <= layout.heads.reshape(-1, 5, 8)[:, 1]
    copies = np.bincount(np.maximum(layout.candidate, ~layout.candidate)[filled.reshape(-1)])
    assert 1 < copies.max() <= 96
    monkeypatch.setattr(key_sets, "_ALL", 300 * 6)
    few = Keyed.build(c, np.zeros(4, np.uint8))
    assert entries_of(few) <= 300 * 6


def test_what_excludes_points_is_no_key(eager):
    builder = ConjunctionBuilder()
    for i in range(200):
        builder.add(i, [[(0, Predicate(NOT_SET, points=(i % 7,))),
                         (1, Predicate(INTERVAL, i % 5, i % 5))]])  # fmt: skip
    index = Keyed.build(builder.build(), np.zeros(2, np.uint8))
    assert set(index.layout.set_attribute.tolist()) <= {int(index.layout.local[1]), 2}
    keys = dense_keys(np.array([[3], [4]]), np.arange(2))
    check_found(ask(index, keys, 2), [[i for i in range(200) if i % 7 != 3 and i % 5 == 4]])


def test_more_buckets_than_16_bits_can_number():
    """Keys of lanes are 16 bits of the numbers of buckets, which go around."""
    n = 150_000
    x, y = np.arange(n) % 400, np.arange(n) // 400
    builder = ConjunctionBuilder()
    for i in range(n):
        builder.add(i, [[(0, Predicate(INTERVAL, int(x[i]), int(x[i]))),
                         (1, Predicate(INTERVAL, int(y[i]), int(y[i])))]])  # fmt: skip
    index = Keyed.build(builder.build(), np.zeros(2, np.uint8))
    assert len(index.layout.bucket_lane) == n + 1
    index.validate(2)
    keys = dense_keys(np.stack([x, y]), np.arange(2))
    assert ask(index, keys, 2) == [[i] for i in range(n)]


def test_thousands_of_signatures_share_a_few_sets():
    rng = np.random.default_rng(5)
    builder = ConjunctionBuilder()
    for i in range(20_000):
        attributes = np.sort(rng.choice(14, 4, replace=False)).tolist()
        values = rng.integers(0, 30, 4).tolist()
        builder.add(i, [[(a, Predicate(INTERVAL, v, v)) for a, v in zip(attributes, values)]])
    c = builder.build()
    index = Keyed.build(c, np.zeros(14, np.uint8))
    assert 4 <= len(index.layout.slot_start) <= 16
    lines = rng.integers(0, 30, (200, 14))
    keys = dense_keys(lines.T.copy(), np.arange(14))
    true = (c.low.reshape(-1, 4) == lines[:, c.attribute.reshape(-1, 4)]).all(axis=2)
    assert list(map(sorted, ask(index, keys, 14))) == [np.flatnonzero(t).tolist() for t in true]


def test_a_value_in_a_column_and_in_a_map(eager):
    """The map's counts, also if the codes of columns were there before."""
    rng = np.random.default_rng(6)
    rules, c = random_rules(rng, 200)
    lines, other = random_lines(rng, 50), random_lines(rng, 50)
    index = Keyed.build(c, np.zeros(WIDTH, np.uint8))
    sparse = as_sparse(other)
    dense = as_dense(lines)
    both = dense._replace(offsets=sparse.offsets, attribute=sparse.attribute, key=sparse.key)
    merged = np.where(other > NULL, other, lines)
    check_found(ask(index, both, WIDTH), true_of(rules, merged))


def test_rules_of_people():
    """Through `Rules`: texts, categories, null, and a delay, with `keyed` and exhaustive search."""
    rng = np.random.default_rng(7)
    carriers, origins = [f"c{i}" for i in range(9)], ["JFK", "LGA", "EWR"]
    schema = {"carrier": "category", "origin": "category", "month": "integer", "delay": "number",
              "late": "flag"}  # fmt: skip
    table = []
    for i in range(2_000):
        some = "', '".join(rng.choice(carriers, rng.integers(1, 4), replace=False))
        where = f"carrier IN ('{some}') AND origin = '{origins[i % 3]}'"
        where += f" AND month BETWEEN {i % 9 + 1} AND {i % 9 + 3} AND delay > {i % 100}"
        if i % 4 == 0:
            where += f" AND late = {'true' if i % 8 else 'false'}"
        if i % 50 == 0:
            where = "origin IS NULL AND month = 5 OR " + where
        table.append({"id": i, "where": where})
    events = [
        {
            "carrier": rng.choice([*carriers, "new", None]), "origin": rng.choice([*origins, None]),
            "month": int(rng.integers(1, 13)), "delay": float(rng.integers(0, 120)),
            "late": bool(rng.random() < 0.5),
        }
        for _ in range(400)
    ]  # fmt: skip
    ranges = [event | {"month": {"low": 2, "high": 4}} for event in events]
    answers = []
    for name in ("keyed", "exhaustive"):
        rules = tocsin.Rules(schema, index=name)
        rules.add_many(table)
        rules.merge()
        part = rules.snapshot().segments[0].segment.parts[0]
        if name == "keyed":
            assert len(part.index.layout.slot_start) > 0
            assert part.index.proven
        answers.append([
            (list(rules.match(given).sorted()), rules.count(given).tolist(),
             list(rules.top(given, 3)))
            for given in (events, ranges)
        ])  # fmt: skip
    assert len(answers[0][0][0]) > 1_000
    assert answers[0] == answers[1]
