"""What the BE*-tree learns from events: ranks (section V-B), and how far apart siblings are."""

import random

import numpy as np
import pytest

from tests.index.bestar_invariants import check_invariants
from tests.index.trees import (
    between,
    found,
    keys_of,
    made,
    matching,
    range_keys_of,
)
from tocsin.index.bestar import ranks
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BUCKET,
    BUCKETS,
    HIGH,
    LEAF,
    LEFT,
    LOW,
    NODE,
    NODES,
    PARENT,
    PNODE,
    RIGHT,
)
from tocsin.model.keys import EventBatch


def test_an_attribute_that_separates_nothing_is_given_up():
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


def test_a_tree_that_was_tuned_can_be_stored_and_a_stored_one_is_not_trusted():
    """`validate` does not check what changes rely on, so `tuned` must not rely on it either."""
    width = 201
    rules = [[between(0, 0, 100), between(1 + n % 200, n, n + 300)] for n in range(600)]
    index = BEStar.build(made(rules), np.zeros(width, np.uint8))
    rng = random.Random(1)
    events = [{0: 7, **{a: rng.randint(0, 900) for a in range(1, width)}} for _ in range(20)]
    arrays = index.arrays()
    arrays["bucket"].reshape(-1, BUCKET)[:, [NODE, PARENT]] = 10**9
    arrays["pnode"].reshape(-1, PNODE)[:, ABOVE] = 10**9
    arrays["home"][:] = arrays["place"][:] = 10**9
    opened = BEStar.from_arrays(index.conjunctions, arrays)
    opened.validate(width)
    tuned = opened.tuned(EventBatch.whole(keys_of(events), width))
    check_invariants(tuned)
    assert tuned.layout.bucket[NODES] == 0, "members were moved"
    again = BEStar.from_arrays(tuned.conjunctions, tuned.arrays())
    again.validate(width)
    check_invariants(again)
    truth = [matching(rules, range(600), event) for event in events]
    assert sum(map(len, truth)) > 100
    assert list(map(sorted, found(again, events, width))) == truth
    twice = again.tuned(EventBatch.whole(keys_of(events[:1]), width))
    assert twice.layout.bucket[NODES] == 0, "what was learnt is kept"


@pytest.mark.parametrize(("gain", "missed"), [("conjunctions", 0), ("predicates", 1)])
def test_the_loss_is_an_average_over_the_window(gain, missed):
    """Five rules are below the p-node of attribute 0, and the others stay at the root."""
    rules = [[between(0, 0, 100), between(2, n, n)] for n in range(5)]
    rules += [[between(1, n, n)] for n in range(5)]
    index = BEStar.build(made(rules), np.zeros(3, np.uint8), gain=gain)
    t = index.layout
    assert (t.bucket[NODES], t.pnode[ATTRIBUTE]) == (1, 0)
    events = [
        {0: 50, 2: 3},  # four fail at their second predicate
        {0: 50, 1: 9},  # five lack an attribute
        {0: 200},  # the bucket is not met: a discarded path
        {1: 3},
    ]
    loss = (4 * 2 + 5 + missed) / 4
    index.tune(EventBatch.whole(keys_of(events), 3))
    assert index.layout.loss[0] == loss
    assert index.layout.loss_rate[0] == loss / 5
    common = 5 if gain == "conjunctions" else 5 * 2
    assert ranks.rank_of(index.layout, 0) == common - loss
    index.tune(EventBatch.whole(keys_of(events[3:]), 3))
    assert index.layout.loss[0] == 0, "another window"


def test_the_gain_of_a_leaf_is_what_its_members_have_in_common():
    options = {"gain": "predicates", "leaf_capacity": 10}
    alike = [[between(0, n, n), between(1, 0, 9), between(2 + n % 2, 0, 9)] for n in range(8)]
    others = [[between(4, n, n)] for n in range(7)]
    t = BEStar.build(made(alike + others), np.zeros(5, np.uint8), **options).layout
    by_attribute = {int(a): i for i, a in enumerate(t.pnode.reshape(-1, PNODE)[:, ATTRIBUTE])}
    # All eight test attributes 0 and 1, half of them 2 and half of them 3.
    assert t.gain[by_attribute[0]] == 8 * 2
    assert len(by_attribute) == 1


def test_an_attribute_that_separates_is_better_than_one_that_does_not():
    """Every rule tests attributes 0 and 1; on 0 all have the same interval, on 1 they differ."""
    rules = [[between(0, 0, 100), between(1, 10 * n, 10 * n + 2)] for n in range(200)]
    first = {}
    for loss in ("popularity", "histogram"):
        index = BEStar.build(made(rules), np.zeros(2, np.uint8), loss=loss)
        check_invariants(index)
        first[loss] = int(index.layout.pnode[ATTRIBUTE])
    assert first == {"popularity": 0, "histogram": 1}


@pytest.mark.parametrize(
    ("intervals", "average"),
    [
        ([(5, 5)] * 6, 6),
        ([(16 * n, 16 * n) for n in range(17)], 17 / 16),  # the last bucket has two
        ([(0, 0), (1, 1), (160, 160)], 3 / 2),  # two buckets of 16 have members
        ([(0, 160), (0, 0)], 17 / 16),
    ],
)
def test_the_average_bucket_of_a_histogram(intervals, average):
    rules = [[between(0, low, high)] for low, high in intervals]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8), leaf_capacity=100)
    members = np.arange(len(rules))
    start = int(index.layout.bucket[LEAF])
    loss = ranks.histogram_loss(index.layout, index.conjunctions, start, members, 0)
    assert loss == average


@pytest.mark.parametrize("splitting_by", ["exhaustive", "approximate"])
def test_siblings_are_as_far_apart_as_ranges_are_long(splitting_by):
    """Footnote 4: an event of average length meets one of two siblings at most."""
    rng = random.Random(7)
    rules = [[between(0, x := rng.randint(0, 5000), x + rng.randint(0, 9))] for _ in range(600)]
    options = {"separation": 1.0, "splitting": splitting_by}
    index = BEStar.build(made(rules), np.zeros(1, np.uint8), **options)
    assert closest_siblings(index) <= 30
    events = [{0: (x := rng.randint(0, 5000), x + rng.choice((20, 40)))} for _ in range(200)]
    index.tune(EventBatch.whole(range_keys_of(events), 1))
    assert 25 < index.layout.extension[0] < 35
    check_invariants(index)
    assert closest_siblings(index) > index.layout.extension[0]
    more = [[between(0, x := rng.randint(0, 5000), x + rng.randint(0, 9))] for _ in range(300)]
    index.insert(made(more, 600))
    check_invariants(index)
    assert closest_siblings(index) > index.layout.extension[0]
    rules += more
    lists = found(index, events, 1, range_keys_of(events))
    for event, numbers in zip(events, lists, strict=True):
        ((first, last),) = event.values()
        truth = [
            n for n, [(_, _, low, high, *_)] in enumerate(rules) if low <= last and first <= high
        ]
        assert sorted(numbers) == truth


def closest_siblings(index):
    buckets = index.layout.bucket.reshape(-1, BUCKET)[: index.layout.state[BUCKETS]]
    both = buckets[(buckets[:, LEFT] >= 0) & (buckets[:, RIGHT] >= 0)]
    assert len(both) > 5
    return (buckets[both[:, RIGHT], LOW] - buckets[both[:, LEFT], HIGH]).min()


def test_no_events_teach_nothing():
    index = BEStar.build(made([[between(0, 1, 2)]]), np.zeros(1, np.uint8))
    index.tune(EventBatch.whole(keys_of([]), 1))
    assert index.layout.loss_rate.tolist() == [0]
