"""Small conjunctions and events for trees, and what holds and scores, in plain Python."""

import numpy as np

from tocsin.index.bestar.layout import BUCKET, PNODE, ROOT
from tocsin.index.finish import BestRules, EventWeights
from tocsin.jit import freeze, freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, dense_keys, sparse_keys

NULL, LOWEST, HIGHEST = -(2**63), -(2**63) + 1, 2**63 - 1
INTERVAL, SET, NOT_SET = 0, 1, 2
NO_BITS = np.empty(0, np.uint8)


def made(rules, first=0, weighted=True, score=()):
    """Return conjunctions; a rule is a list of (attribute, kind, low, high, points, weight).

    `score` is each rule's own, NaN without; empty if no rule has one.
    """
    rows, points = [], []
    for rule in rules:
        for attribute, kind, low, high, own, weight in rule:
            if kind != INTERVAL:
                low, high = len(points), len(points) + len(own)
                points += own
            rows.append((attribute, kind, low, high, weight))
    attribute, kind, low, high, weight = list(zip(*rows, strict=True)) or [[]] * 5
    return freeze_fields(
        Conjunctions,
        offsets=np.cumsum([0, *map(len, rules)]),
        attribute=attribute,
        kind=kind,
        low=np.array(low, np.int64),
        high=np.array(high, np.int64),
        points=np.array(points, np.int64),
        weight=weight if weighted else [],
        rule=first + np.arange(len(rules)),
        score=score,
    )


def between(attribute, low, high, weight=1.0):
    return attribute, INTERVAL, low, high, [], weight


def true(row, event):
    attribute, kind, low, high, points, _ = row
    key = event.get(attribute, NULL)
    return low <= key <= high if kind == INTERVAL else (key in points) == (kind == SET)


def matching(rules, alive, event):
    return [n for n in sorted(alive) if all(true(row, event) for row in rules[n])]


def relevance(rule, weights, combine=None):
    total, last = 0.0, None
    for attribute, kind, _, high, _, weight in rule:
        if not (kind == INTERVAL and high == NULL) and attribute != last:
            each = weight * weights.get(attribute, 1.0)
            if combine is None:
                total += each
            elif each > 0:
                total = combine(total, each)
        last = attribute
    return total


def keys_of(events):
    pairs = [(a, k) for event in events for a, k in event.items()]
    return sparse_keys(
        np.cumsum([0, *map(len, events)]),
        np.array([a for a, _ in pairs], np.int32),
        np.array([k for _, k in pairs], np.int64),
    )


def range_keys_of(events):
    """Return the keys of events whose values are pairs: the ends of ranges."""
    low, high = ([{a: ends[i] for a, ends in e.items()} for e in events] for i in (0, 1))
    keys = keys_of(low)
    return sparse_keys(keys.offsets, keys.attribute, keys.key, keys_of(high).key)


def columns_of(events, width):
    return dense_keys(
        np.array([[e.get(a, NULL) for e in events] for a in range(width)]), range(width)
    )


def found(index, events, width, keys=None):
    keys = keys_of(events) if keys is None else keys
    out = np.empty(index.conjunctions.size * (len(events) + 1), np.int32)
    offsets = np.zeros(len(events) + 1, np.int64)
    assert index.candidates(EventBatch(keys, width, 0, len(events)), offsets, out) == len(events)
    return [out[offsets[i] : offsets[i + 1]].tolist() for i in range(len(events))]


def weights_of(weights, width):
    pairs = [(a, w) for event in weights for a, w in event.items()]
    return EventWeights(
        freeze(np.ones(width), np.float64),
        freeze(np.cumsum([0, *map(len, weights)]), np.int64),
        freeze(np.array([a for a, _ in pairs]), np.int32),
        freeze(np.array([w for _, w in pairs]), np.float64),
    )


def best_of(index, events, width, k, weights, removed=NO_BITS, **options):
    n = len(events)
    sizes, rules, scores = np.zeros(n, np.int64), np.zeros(n * k, np.int32), np.zeros(n * k)
    batch = EventBatch.whole(keys_of(events), width)
    best = BestRules(k, True, sizes, rules, scores)
    counted = index.best(batch, weights_of(weights, width), removed, best, **options)
    lists = [
        list(zip(rules[i * k :][: sizes[i]].tolist(), scores[i * k :][: sizes[i]], strict=True))
        for i in range(n)
    ]
    return lists, counted


def directory_of(index, p=0):
    """Return the buckets, and the number of the top bucket of a p-node."""
    return index.layout.bucket.reshape(-1, BUCKET), int(index.layout.pnode[p * PNODE + ROOT])


# Monotonic scores other than the sum, each by the function that adds a product.
SCORES = {
    "greatest": lambda total, product: max(total, product),
    "squares": lambda total, product: total + product * product,
    "any of independent causes": lambda total, product: total + product - total * product,
    "number of attributes": lambda total, product: total + 1.0,
    "of the last attribute": lambda total, product: total / 2 + max(total / 2, product),
}


def truly_best(rules, alive, event, k, weights, combine=None):
    scored = [(n, relevance(rules[n], weights, combine)) for n in matching(rules, alive, event)]
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
    {"leaf_capacity": 100},
    {"splitting": "approximate"},
    {"leaf_capacity": 3, "beta": 1.0, "splitting": "approximate"},
    {"rigid": True},
    {"leaf_capacity": 2, "rigid": True},
    {"summary": "attributes"},
    {"summary": "attributes", "leaf_capacity": 1},
    {"summary": "attributes", "leaf_capacity": 20, "rigid": True},
    {"gain": "predicates"},
    {"gain": "predicates", "loss": "histogram", "summary": "attributes"},
    {"separation": 1.0},
    {"separation": 0.5, "splitting": "approximate", "loss": "histogram"},
]
