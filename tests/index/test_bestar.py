"""The BE*-tree: its splits, its shape and its invariants, against plain Python."""

import random

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tests.index.test_in_place import answers, part
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    BUCKET,
    CUT,
    HIGH,
    LEFT,
    LOW,
    NODE,
    PNODE,
    RIGHT,
)
from tocsin.index.finish import EventWeights
from tocsin.jit import frozen
from tocsin.model.conjunctions import conjunctions
from tocsin.model.keys import dense, sparse

NULL, LOWEST, HIGHEST = -(2**63), -(2**63) + 1, 2**63 - 1
INTERVAL, SET, NOT_SET = 0, 1, 2
NO_FLAGS = np.empty(0, np.uint8)


# ------------------------------------------------------------ conjunctions, events and the oracle


def made(rules, first=0, weighted=True):
    """Return conjunctions; a rule is a list of (attribute, kind, low, high, points, weight)."""
    rows, points = [], []
    for rule in rules:
        for attribute, kind, low, high, own, weight in rule:
            if kind != INTERVAL:
                low, high = len(points), len(points) + len(own)
                points += own
            rows.append((attribute, kind, low, high, weight))
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    return conjunctions(
        np.cumsum([0, *map(len, rules)]),
        *(np.array(c, np.int64) for c in columns[:4]),
        np.array(points, np.int64),
        np.array(columns[4] if weighted else [], np.float64),
        first + np.arange(len(rules)),
    )


def between(attribute, low, high, weight=1.0):
    return attribute, INTERVAL, low, high, [], weight


def true(row, event):
    attribute, kind, low, high, points, _ = row
    key = event.get(attribute, NULL)
    return low <= key <= high if kind == INTERVAL else (key in points) == (kind == SET)


def matching(rules, alive, event):
    return [n for n in sorted(alive) if all(true(row, event) for row in rules[n])]


def relevance(rule, weights):
    total, last = 0.0, None
    for attribute, kind, _, high, _, weight in rule:
        if not (kind == INTERVAL and high == NULL) and attribute != last:
            total += weight * weights.get(attribute, 1.0)
        last = attribute
    return total


def keys_of(events):
    pairs = [(a, k) for event in events for a, k in event.items()]
    return sparse(
        np.cumsum([0, *map(len, events)]),
        np.array([a for a, _ in pairs], np.int32),
        np.array([k for _, k in pairs], np.int64),
    )


def columns_of(events, width):
    return dense(np.array([[e.get(a, NULL) for e in events] for a in range(width)]), range(width))


def found(index, events, width, keys=None):
    keys = keys_of(events) if keys is None else keys
    out = np.empty(index.conjunctions.size * (len(events) + 1), np.int32)
    offsets = np.zeros(len(events) + 1, np.int64)
    assert index.candidates(keys, width, 0, len(events), offsets, out) == len(events)
    return [out[offsets[i] : offsets[i + 1]].tolist() for i in range(len(events))]


def weights_of(weights, width):
    pairs = [(a, w) for event in weights for a, w in event.items()]
    return EventWeights(
        frozen(np.ones(width), np.float64),
        frozen(np.cumsum([0, *map(len, weights)]), np.int64),
        frozen(np.array([a for a, _ in pairs]), np.int32),
        frozen(np.array([w for _, w in pairs]), np.float64),
    )


def best_of(index, events, width, k, weights, removed=NO_FLAGS):
    n = len(events)
    sizes, rules, scores = np.zeros(n, np.int64), np.zeros(n * k, np.int32), np.zeros(n * k)
    counted = index.best(
        keys_of(events), width, 0, n, 0, removed, True, weights_of(weights, width), k,
        sizes, rules, scores,
    )  # fmt: skip
    lists = [
        list(zip(rules[i * k :][: sizes[i]].tolist(), scores[i * k :][: sizes[i]], strict=True))
        for i in range(n)
    ]
    return lists, counted


def truly_best(rules, alive, event, k, weights):
    scored = [(n, relevance(rules[n], weights)) for n in matching(rules, alive, event)]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]


ENDS = [LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST, 0, -1]


def random_key(rng):
    return rng.choice(ENDS) if rng.random() < 0.05 else rng.choice((3, 10**6)) * rng.randint(-9, 9)


def random_rule(rng, width):
    rule = []
    for attribute in sorted(rng.sample(range(width), rng.choice((0, 1, 1, 2, 2, 3, 3, 4)))):
        weight = rng.choice((0.0, 0.1, 0.3, 1.0, 1 / 3, 7.7))
        kind = rng.choice((INTERVAL,) * 6 + (SET, NOT_SET))
        if kind != INTERVAL:
            own = sorted({rng.choice((NULL, random_key(rng))) for _ in range(rng.randint(1, 4))})
            rule.append((attribute, kind, 0, 0, own, weight))
            continue
        a, b = sorted((random_key(rng), random_key(rng)))
        low, high = rng.choice(
            [(a, b), (a, b), (a, a), (a, min(a + 5, HIGHEST)), (LOWEST, b), (a, HIGHEST),
             (NULL, NULL), (LOWEST, HIGHEST), (NULL, HIGHEST)]
        )  # fmt: skip
        rule.append((attribute, INTERVAL, low, high, [], weight))
        if low < high and rng.random() < 0.1:
            rule.append((attribute, NOT_SET, 0, 0, [rng.choice((low, high))], weight))
    return rule


def random_event(rng, width):
    some = rng.sample(range(width), rng.randint(0, width))
    return {a: rng.choice((random_key(rng), random_key(rng), NULL)) for a in some}


OPTIONS = [
    {},
    {"leaf_capacity": 1},
    {"leaf_capacity": 20, "alpha": 0.4},
    {"splitting": "approximate"},
    {"leaf_capacity": 3, "beta": 1.0, "splitting": "approximate"},
    {"rigid": True},
    {"leaf_capacity": 2, "rigid": True},
]


# ------------------------------------------------------------ long sequences


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_sequence_of_changes(options, seed):
    rng = random.Random(seed)
    width = 7
    rules = [random_rule(rng, width) for _ in range(rng.choice((0, 5, 200)))]
    index = BEStar.build(made(rules), np.zeros(width, np.uint8), **options)
    index.check()
    alive = set(range(len(rules)))
    for _ in range(60):
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
            index.tune(keys_of([random_event(rng, width) for _ in range(20)]), width)
        else:
            index = BEStar.from_arrays(index.conjunctions, index.arrays())
        index.check()
        events = [random_event(rng, width) for _ in range(12)]
        truth = [matching(rules, alive, event) for event in events]
        lists = found(index, events, width)
        assert list(map(sorted, lists)) == truth
        assert list(map(sorted, found(index, events, width, columns_of(events, width)))) == truth
        counts = np.zeros(len(events), np.int64)
        index.count(keys_of(events), width, counts)
        assert counts.tolist() == list(map(len, truth))
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
    attribute = index.layout.pnode.reshape(-1, PNODE)[home[NODE], 0]
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


@pytest.mark.parametrize("options", [{}, {"rigid": True}], ids=str)
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda s: s.__name__)
def test_thousands_of_boxes_come_and_go(shape, options):
    work = shape(np.random.default_rng(8))
    n = work.low.shape[1]
    batches = np.array_split(np.arange(n), [n // 3, n // 2, n // 2 + 1])
    index = BEStar.build(part(work, batches[0]), work.floats, **options)
    truth, rng = work.truth(), np.random.default_rng(9)
    alive = np.zeros(n, bool)
    alive[batches[0]] = True
    for batch in batches[1:]:
        index.insert(part(work, batch))
        index.check()
        alive[batch] = True
        gone = rng.choice(np.flatnonzero(alive), alive.sum() // 5, replace=False)
        index.remove(gone)
        index.check()
        alive[gone] = False
        size = index.conjunctions.size
        np.testing.assert_array_equal(answers(index, work), (truth & alive)[:, :size])
