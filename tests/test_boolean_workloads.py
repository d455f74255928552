"""What the Boolean workloads promise: sizes, distinct attributes, seeds, and matches."""

import numpy as np
import pytest

import tocsin
from benchmarks.boolean_workloads import FAMILIES, Setting, World, count_matches, family

SETTINGS = {
    "A": family("A", False),
    "B": family("B", True),
    "few dimensions": Setting(dimensions=20, zipf=1.0, match=0.02),
    "no clusters": Setting(clusters=0, match=0.01),
    "a small domain": Setting(cardinality=2_500, cluster_size=25, match=0.09),
    "texts": Setting(
        dimensions=60,
        cardinality=26**3,
        clusters=26,
        cluster_size=3,
        zipf=1.0,
        width=(2, 3),
        rule_size=(5, 11),
        event_size=(5, 11),
        match=0.01,
        partial_events=True,
    ),
    "large rules": Setting(rule_size=(20, 30), event_size=(40, 50), zipf=1.0, match=0.01),
}


@pytest.fixture(params=SETTINGS, scope="module")
def world(request):
    return World(SETTINGS[request.param])


def test_rules_are_as_they_should_be(world):
    s, c = world.setting, world.rules(2_000, weighted=True)
    sizes = np.diff(c.offsets)
    assert (sizes.min(), sizes.max()) == s.rule_size
    assert c.attribute.max() < s.dimensions
    within = np.ones(len(c.attribute), bool)
    within[c.offsets[:-1]] = False
    assert (np.diff(c.attribute, prepend=0)[within] > 0).all()
    widths = c.high - c.low + 1
    assert (widths.min(), widths.max()) == s.width
    assert c.low.min() >= 0
    assert c.high.max() < s.cardinality
    assert len(c.weight) == len(c.attribute)
    assert c.weight.min() > 0


def test_events_are_as_they_should_be(world):
    s, keys = world.setting, world.events(500)
    sizes = np.diff(keys.offsets)
    assert (sizes.min(), sizes.max()) == s.event_size
    for begin, end in zip(keys.offsets, keys.offsets[1:]):
        assert len(set(keys.attribute[begin:end])) == end - begin
    assert keys.key.min() >= 0
    assert keys.key.max() < s.cardinality


def test_fresh_events_meet_as_many_rules_as_was_asked_for(world):
    s, n = world.setting, 20_000
    counts = count_matches(world.rules(n), world.floats, world.events(1_500))
    assert counts.mean() / n == pytest.approx(s.match, rel=0.2)


def test_partial_events_have_no_attributes_but_those_of_their_profile():
    world = World(SETTINGS["texts"])
    keys = world.events(300)
    profiles = [set(column) for column in world.core.T]
    for begin, end in zip(keys.offsets, keys.offsets[1:]):
        assert any(set(keys.attribute[begin:end]) <= profile for profile in profiles)
    with pytest.raises(ValueError, match="at most the attributes of the largest rule"):
        Setting(partial_events=True)


def test_the_seed_decides():
    one, other = World(FAMILIES["A"]), World(FAMILIES["A"])
    made = [w.rules(100, weighted=True) + w.events(50) for w in (one, other)]
    for a, b in zip(*made, strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(one.rules(100).low[:400], one.rules(100, draw=1).low[:400])
    assert not np.array_equal(one.events(50).key[:600], one.events(50, draw=1).key[:600])


def test_worlds_that_differ_in_the_domain_test_the_same_attributes():
    small, large = (World(family("A", True, cardinality=n)) for n in (2_500, 250_000_000))
    assert np.array_equal(small.rules(500).attribute, large.rules(500).attribute)
    assert np.array_equal(small.events(50).attribute, large.events(50).attribute)


def test_rare_attributes_weigh_more_and_no_weight_is_above_the_inverse_frequency():
    world = World(family("A", True))
    c = world.rules(20_000, weighted=True)
    count = np.bincount(c.attribute, minlength=400)
    inverse = count.min() / count
    ratio = c.weight / inverse[c.attribute]
    assert ratio.max() <= 1
    assert ratio.mean() == pytest.approx(0.8, abs=0.001)
    assert ratio.std() == pytest.approx(0.05, abs=0.001)


def test_tables_say_the_same_as_arrays():
    world = World(Setting(dimensions=30, match=0.02))
    c, keys = world.rules(3_000, weighted=True), world.events(40)
    rules = tocsin.Rules(world.schema, index="exhaustive")
    rules.add_many(world.rule_table(c))
    counts = count_matches(c, world.floats, keys)
    assert counts.sum() > 0
    assert np.array_equal(rules.count(world.event_table(keys)), counts)
    assert np.array_equal(rules.count(world.event_dicts(keys)), counts)
    assert rules[7].weights == pytest.approx(
        {
            f"a{c.attribute[row]}": c.weight[row]
            for row in range(c.offsets[7], c.offsets[8])
            if c.weight[row] != 1
        }
    )
