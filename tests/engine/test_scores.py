"""Scores of rules' own, in place of weights: how they rank, are given, kept, changed and stored."""

import json
import math
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.engine.untrusted import Changed
from tocsin.index.registry import INDEXES

EVENT = {"x": 7.0, "y": 7.0, "tier": "gold"}


def bids(**options):
    rules = tocsin.Rules({"x": "number", "y": "number", "tier": "category"}, **options)
    rules.add("three tests", "x > 5 AND y > 5 AND tier = 'gold'", score=3.0)
    rules.add("one test", "x > 5", score=4.9)
    rules.add("weights", "x > 5 AND y > 5", weights={"x": 3.5, "y": 0.5})
    rules.add("always", "TRUE", score=0.25)
    rules.add("either", "tier IS NULL OR x > 100 OR y = 7", score=2)
    return rules


def ranked(rules, event=EVENT, k=9, **options):
    return [(rule, score) for _, rule, score in rules.top(event, k, **options)]


RANKED = [
    ("one test", 4.9), ("weights", 4.0), ("three tests", 3.0), ("either", 2.0), ("always", 0.25),
]  # fmt: skip


@pytest.mark.parametrize("index", ["auto", *INDEXES])
def test_a_bid_is_the_score_whatever_the_rule_tests(index):
    rules = bids(index=index)
    for _ in range(2):
        for k in range(1, 7):
            assert ranked(rules, k=k) == RANKED[:k]
            assert ranked(rules, [EVENT, {}], k=k)[: min(k, 5)] == RANKED[:k]
        rules.merge()


@pytest.mark.parametrize("index", ["auto", *INDEXES])
@pytest.mark.parametrize("weight", [0.0, 1e-9, 0.125, 4.0, 1e300])
def test_weights_of_events_multiply_weights_only(index, weight):
    weights = {"x": weight, "y": weight, "tier": weight}
    rules = bids(index=index)
    rules.merge()
    expected = [(id_, 4.0 * weight if id_ == "weights" else score) for id_, score in RANKED]
    expected.sort(key=lambda pair: -pair[1])
    for k in range(1, 7):
        assert ranked(rules, k=k, weights=weights) == expected[:k]


@pytest.mark.parametrize("index", ["auto", *INDEXES])
@pytest.mark.parametrize("merged", [False, True])
def test_bids_on_events_with_ranges(index, merged):
    """The highest bid does not count unless its rule is likely enough."""
    rules = bids(index=index)
    rules.add("unlikely", "x > 6.5", score=100, at_least=0.9)
    rules.add("likely", "x > 4.5", score=3.5, at_least=0.5)
    if merged:
        rules.merge()
    event = EVENT | {"x": {"low": 4.0, "high": 7.0}}
    expected = sorted([*RANKED, ("likely", 3.5)], key=lambda pair: -pair[1])
    for k in range(1, 8):
        assert ranked(rules, event, k) == expected[:k]
        assert ranked(rules, [event, EVENT], k)[: min(k, 6)] == expected[:k]
    weights = {"x": 2.0}
    assert ranked(rules, event, 2, weights=weights) == [("weights", 7.5), ("one test", 4.9)]


@pytest.mark.parametrize("index", ["keyed", "bestar", "auto"])
def test_many_bids_beside_many_weights(index):
    """Enough rules that top-k prunes, in base and delta."""
    rng = np.random.default_rng(3)
    n = 6000
    rules = tocsin.Rules({"x": "integer", "tier": "category"}, index=index)
    x, tier, score = rng.integers(0, 40, n), rng.integers(0, 5, n), rng.random(n) * 3
    rows = []
    for i in range(n):
        weights = None if i % 3 else {"x": float(score[i])}
        own = float(score[i]) if i % 3 else None
        where = f"x = {x[i]} AND tier = '{tier[i]}'"
        rows.append({"id": i, "where": where, "score": own, "weights": weights})
    rules.add_many(rows[:5000])
    rules.add_many(rows[5000:])
    for weights in ({}, {"x": 0.25, "tier": 0.5}, {"x": 8.0}):
        for event in ({"x": 3, "tier": "1"}, {"x": 39, "tier": "4"}):
            holds = [i for i in range(n) if x[i] == event["x"] and str(tier[i]) == event["tier"]]
            by_weight = {
                i: float(score[i]) * weights.get("x", 1.0) + weights.get("tier", 1.0) for i in holds
            }
            scores = {i: float(score[i]) if i % 3 else by_weight[i] for i in holds}
            expected = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
            for k in (1, 3, n):
                assert ranked(rules, event, k, weights=weights) == expected[:k]


def test_scores_are_told():
    rules = bids()
    assert rules["one test"] == tocsin.Rule("one test", "x > 5", score=4.9)
    explanation = rules.explain(EVENT, "one test")
    assert (explanation.score, explanation.own_score) == (4.9, 4.9)
    assert str(explanation).startswith("rule 'one test' matches with score 4.9: x > 5")
    assert "adds" not in str(rules.explain(EVENT, "one test", weights={"x": 2.0}))
    missed = rules.explain({"x": 1}, "one test")
    assert (missed.score, missed.own_score) == (0.0, 4.9)


@pytest.mark.parametrize("merged", [False, True])
def test_replace_keeps_the_score_unless_it_or_weights_are_given(merged):
    rules = bids()
    if merged:
        rules.merge()
    rules.replace("one test", "x > 6")
    assert rules["one test"] == tocsin.Rule("one test", "x > 6", score=4.9)
    rules.replace("one test", score=0)
    assert rules["one test"].score == 0.0
    rules.replace("one test", weights={"x": 2.0})
    assert rules["one test"] == tocsin.Rule("one test", "x > 6", {"x": 2.0})
    rules.replace("one test", score=1.5)
    assert rules["one test"] == tocsin.Rule("one test", "x > 6", score=1.5)
    rules.replace("one test", payload={"team": "red"})
    assert rules["one test"].score == 1.5
    rules.replace("one test", weights={})
    assert rules["one test"].score is None
    assert dict(ranked(rules))["one test"] == 1.0


def test_a_rule_that_never_holds_keeps_its_score():
    rules = bids()
    rules.replace("one test", "FALSE")  # paused
    rules.merge()
    assert "one test" not in dict(ranked(rules))
    rules.replace("one test", "x > 5")
    assert dict(ranked(rules))["one test"] == 4.9


def test_the_same_score_is_no_change():
    rules = bids()
    rules.merge()
    before = rules.snapshot()
    rules.replace("one test", score=4.9)
    assert rules.snapshot().positions().tolist() == before.positions().tolist()
    rules.replace("one test", score=5)
    assert rules.snapshot().positions().tolist() != before.positions().tolist()


@pytest.mark.parametrize("score", [-1, -1e-300, math.nan, math.inf, "4", True, [1], 10**400])
def test_what_is_no_score(score):
    rules = bids()
    with pytest.raises(
        tocsin.RuleError, match=r"^rule 'r': score must be a finite number, 0 or more"
    ):
        rules.add("r", "x > 5", score=score)
    assert len(rules) == 5


def test_weights_and_score():
    rules = bids()
    words = "weights or a score of its own, not both"
    with pytest.raises(tocsin.RuleError, match=f"^rule 'r': a rule has {words}"):
        rules.add("r", "x > 5", weights={"x": 2.0}, score=1.0)
    with pytest.raises(tocsin.RuleError, match=f"^rule 'always': a rule has {words}"):
        rules.replace("always", weights={}, score=1.0)
    both = {"a": (1.0, None), "b": (None, {"x": 2.0}), "c": (1.0, {"x": 2.0})}
    table = [{"id": i, "where": "x > 5", "score": s, "weights": w} for i, (s, w) in both.items()]
    with pytest.raises(tocsin.RuleError, match=rf"^row 2 \(rule 'c'\): a rule has {words}"):
        rules.add_many(table)
    rules.add_many(table[:2])
    assert [rules[i].score for i in "ab"] == [1.0, None]


def test_tables_of_rules():
    texts = pa.table({"id": ["a", "b"], "where": ["x BETWEEN 5 AND 9"] * 2, "score": [2, None]})
    boxes = pa.table({"id": ["a", "b"], "x_low": [5, 5], "x_high": [9, 9],
                      "score": pa.array([Decimal("2.0"), None])})  # fmt: skip
    long = [
        {"id": "a", "attribute": "x", "low": 5.0, "high": None, "score": None},
        {"id": "b", "attribute": "x", "low": 5.0, "high": 9.0, "score": None},
        {"id": "a", "attribute": "x", "low": None, "high": 9.0, "score": 2.0},
    ]
    for table in (texts, boxes, long):
        rules = tocsin.Rules({"x": "number"})
        rules.add_many(table)
        assert ranked(rules) == [("a", 2.0), ("b", 1.0)]
        assert (rules["a"].score, rules["b"].score) == (2.0, None)
        assert rules.payload_schema.names == []


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([0.5, -1.5], r"row 1 \(rule 2\): score must be a finite number, 0 or more; got -1.5"),
        ([math.inf, 0.5], r"row 0 \(rule 1\): score must be a finite number, 0 or more; got inf"),
        (["high", "low"], "the column 'score' must be numbers, got type string; rename it"),
    ],
)
def test_wrong_tables_of_rules(column, words):
    rules = tocsin.Rules({"x": "number"})
    with pytest.raises(tocsin.RuleError, match=f"^{words}"):
        rules.add_many(pa.table({"id": [1, 2], "where": ["x > 5"] * 2, "score": column}))


def test_stored_and_pickled(tmp_path):
    rules = bids()
    assert rules.save(tmp_path / "store") == 1
    store = tocsin.RuleStore(tmp_path / "store")
    store.replace("always", score=9)
    store.add("more", "x > 0", score=0)
    opened = tocsin.open(tmp_path / "store")
    expected = [("always", 9.0), *RANKED[:-1], ("more", 0.0)]
    for each in (opened, pickle.loads(pickle.dumps(opened)), opened.copy()):
        assert ranked(each) == expected
        each.merge()
        assert ranked(each) == expected
        assert each["more"].score == 0.0
    assert "always score: 0.25 -> 9.0" in str(store.diff(1, 2))
    assert [ranked(store.rules(n), k=1)[0] for n in (1, 2, 3)] == [
        RANKED[0],
        ("always", 9.0),
        ("always", 9.0),
    ]


def test_older_versions_refuse_segments_with_scores_alone(tmp_path):
    """They would rank by weights of 1."""
    bids().save(tmp_path)
    rules = tocsin.Rules.open(tmp_path)
    rules.remove_many(list(rules))
    rules.add("plain", "x > 5")
    rules.save(tmp_path)
    formats = [
        json.loads(p.read_text())["format"] for p in tmp_path.glob("segments/*/manifest.json")
    ]
    assert sorted(formats) == [7, 9]


@pytest.mark.parametrize("wrong", [-2.0, math.inf])
def test_a_store_with_wrong_scores_is_refused(tmp_path, wrong):
    bids().save(tmp_path / "store")
    changed = Changed(tmp_path / "store", tmp_path / "changed")
    with changed.arrays() as arrays:
        arrays("score")[4] = wrong
    changed.describe_files()
    changed.seal()
    with pytest.raises(
        tocsin.StoreError, match="'score' must be 5 finite numbers, 0 or more, or NaN"
    ):
        tocsin.open(changed.path)


def test_a_store_with_too_few_scores_is_refused(tmp_path):
    bids().save(tmp_path / "store")
    changed = Changed(tmp_path / "store", tmp_path / "changed")
    changed.manifest["arrays"]["score"]["shape"] = [4]
    changed.seal()
    with pytest.raises(tocsin.StoreError, match="'score' must be 5 finite numbers"):
        tocsin.open(changed.path)
