"""The BE*-tree and the k best: summaries, bounds and scores, against plain Python."""

import math
import random

import numpy as np
import pytest

from tests.index.bestar_invariants import check_invariants
from tests.index.trees import (
    SCORES,
    best_of,
    between,
    keys_of,
    made,
    matching,
    random_key,
    random_rule,
    relevance,
    truly_best,
    weights_of,
)
from tocsin.errors import RuleError
from tocsin.index.bestar import summaries
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import OWN
from tocsin.index.bestar.topk import compile_score
from tocsin.index.finish import BestRules
from tocsin.jit import freeze
from tocsin.model.conjunctions import take
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch
from tocsin.model.predicates import SET

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


@pytest.mark.parametrize(
    ("weight", "summary", "looked"),
    [(3.0, "attributes", 8), (3.0, "sums", 11), (1.0, "attributes", 5), (1.0, "sums", 5)],
)
def test_what_is_pruned(weight, summary, looked):
    """Five rules at the root; below a p-node, three in the middle, and three on either side.

    Below the p-node no weight is as great as one at the root that matches, or only those on the
    sides are. Then the leaf in the middle is pruned, if it has a summary of its own.
    """
    rules = [[between(1, n, n, 2.0)] for n in range(5)]
    rules += [[between(0, x, x, weight)] for x in (0, 1, 2, 100, 101, 102)]
    rules += [[between(0, 1, 101, 0.1)]] * 3
    index = BEStar.build(made(rules), np.zeros(2, np.uint8), alpha=0.3, summary=summary)
    (best,), counts = best_of(index, [{0: 1, 1: 3}], 2, 1, [{}])
    assert best == [(6, 3.0) if weight == 3 else (3, 2.0)]
    assert counts[0] == looked


def test_the_p_node_of_the_greatest_bound_is_visited_first():
    """Each has six rules of one weight; the first visited makes the others superfluous."""
    weights = [0.3, 0.5, 0.9, 0.7]
    rules = [[between(a, 0, 9, weight)] for a, weight in enumerate(weights) for _ in range(6)]
    index = BEStar.build(made(rules), np.zeros(4, np.uint8), summary="attributes")
    for own, first in (({}, 2), ({0: 4.0}, 0), ({1: 2.0}, 1), ({3: 1.5}, 3)):
        (best,), counts = best_of(index, [dict.fromkeys(range(4), 3)], 4, 1, [own])
        assert best == [(6 * first, weights[first] * own.get(first, 1.0))]
        assert counts[0] == 6


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
        bound = summaries.upper_score(*arguments, np.array(scoring), len(scoring), 0)
        assert bound == 0.4 * 2 + 0.5 * 3
    many = [[between(a, 0, 9, 1 + a / 8)] for a in range(100)]
    t = BEStar.build(made(many), np.zeros(100, np.uint8), summary="attributes").layout
    own_weights = np.zeros(100)
    own_weights[[7, 90]] = 2.0, 3.0
    arguments = t.summary, t.summary_attribute, t.summary_weight, OWN, own_weights
    bound = summaries.upper_score(*arguments, np.array([90, 7]), 2, 0)
    assert bound == 2 * (1 + 7 / 8) + 3 * (1 + 90 / 8)
    greatest = compile_score(SCORES["greatest"], 1.0)
    bound = summaries.upper_score(*arguments, np.array([90, 7]), 2, greatest)
    assert bound == 3 * (1 + 90 / 8)


@pytest.mark.parametrize("name", SCORES)
@SUMMARIES
def test_another_monotonic_score(summary, name):
    """The order differs from that by the sum; the paper's summaries prune, too."""
    rng = random.Random(8)
    rules = [
        [
            between(a, 0, 9, rng.randint(0, 50) / 100)
            for a in sorted(rng.sample(range(6), rng.randint(1, 6)))
        ]
        for _ in range(2000)
    ]
    index = BEStar.build(made(rules), np.zeros(6, np.uint8), summary=summary)
    event, weights = dict.fromkeys(range(6), 3), {5: 2.0, 2: 0.5}
    by_sum = best_of(index, [event], 6, 2000, [weights])[0][0]
    for k in (1, 30, 2000):
        (best,), (looked, _) = best_of(index, [event], 6, k, [weights], combine=SCORES[name])
        assert best == truly_best(rules, range(2000), event, k, weights, SCORES[name])
        assert (looked < 1500) == (summary == "attributes" and k == 1) or k == 30
    assert [rule for rule, _ in best] != [rule for rule, _ in by_sum]


def falls_above_one(total, product):
    return total + product - total * product


def raises_above_one(total, product):
    if product > 1:
        raise ValueError("too great")
    return total + product


NOT_MONOTONIC = r"combine\(total, product\) must be monotonic"


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda total, product: total * product, NOT_MONOTONIC),
        (lambda total, product: min(total, product), NOT_MONOTONIC),
        (lambda total, product: total - product, NOT_MONOTONIC),
        (lambda total, product: total + 1e-3 * (1 - product), NOT_MONOTONIC),
        (lambda total, product: float("nan"), NOT_MONOTONIC),
        (falls_above_one, NOT_MONOTONIC),
        (max, "combine must be a Python function of two floats that Numba can compile"),
        (np.maximum, "combine must be a Python function"),
        (3, "combine must be a Python function"),
        (lambda total: total, "combine must be a Python function"),
        (raises_above_one, r"must return a number .* raised ValueError: too great"),
    ],
)
def test_a_score_that_cannot_be_used(combine, message):
    index = BEStar.build(made([[between(0, 0, 9, 0.5)]]), np.zeros(1, np.uint8))
    with pytest.raises(RuleError, match=message):
        best_of(index, [{0: 3}], 1, 1, [{0: 4.0}], combine=combine)


def test_a_score_that_fails():
    def combine(total, product):
        if 2.04 < product < 2.06:
            raise ValueError
        return total + product

    rules = [[between(0, 0, 9, n / 100)] for n in range(500)]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    with pytest.raises(RuleError, match="raised an exception or returned NaN"):
        best_of(index, [{0: 3}], 1, 1, [{}], combine=combine)


@SUMMARIES
def test_a_set_of_null_alone_counts(summary):
    """Where the event is null, the weight of the set is in the bound."""
    null = (2, SET, 0, 0, [NULL], 5.0)
    rules = [[between(0, 3, 3, 8.0)]] * 30 + [[between(1, 3, 3, 0.1), null]] * 30
    index = BEStar.build(made(rules), np.zeros(3, np.uint8), summary=summary)
    event, weights = {0: 3, 1: 3}, {2: 10.0}
    (best,), _ = best_of(index, [event], 3, 1, [weights])
    assert best == truly_best(rules, range(60), event, 1, weights)
    assert best[0][0] == 30


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


@SUMMARIES
def test_scores_of_their_own(summary):
    """Beside weights, before and after insertion and removal; the event's weights do not count."""
    rng = random.Random(9)
    rules = [random_rule(rng, 8) for _ in range(600)]
    own = np.array([rng.choice((math.nan, math.nan, 0.0, 0.3, 2.0, 40.0)) for _ in rules])
    c = made(rules, score=own)
    first, later = np.arange(400), np.arange(400, 600)
    index = BEStar.build(take(c, first), np.zeros(8, np.uint8), summary=summary)
    index.insert(take(c, later))
    index.remove(np.arange(0, 600, 3))
    check_invariants(index)
    alive = {n for n in range(600) if n % 3}

    def expected(event, weights, combine=None):
        scored = [
            (n, relevance(rules[n], weights, combine) if math.isnan(own[n]) else own[n])
            for n in matching(rules, alive, event)
        ]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))

    for weights in ({}, dict.fromkeys(range(8), 0.01), {2: 50.0, 5: 0.0}):
        event = {a: random_key(rng) for a in range(8)}
        assert len(expected(event, weights)) > 10
        for combine in (None, SCORES["greatest"]):
            for k in (1, 2, 5, 20, 600):
                (best,), _ = best_of(index, [event], 8, k, [weights], combine=combine)
                assert best == expected(event, weights, combine)[:k]
