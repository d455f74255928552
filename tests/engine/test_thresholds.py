"""Thresholds of rules: how they are given, kept, changed, explained and stored."""

import json
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.engine.rooms import COOL, DENSITY, MAYBE, SURELY, found, rooms
from tests.engine.untrusted import Changed
from tocsin.engine import segment_files
from tocsin.index.registry import INDEXES


def test_a_rule_without_a_threshold_is_as_before():
    assert found(rooms(), MAYBE, SURELY) == [(0, "perhaps"), (1, "cool"), (1, "perhaps")]
    assert rooms()["cool"] == tocsin.Rule("cool", COOL, at_least=0.8)
    assert rooms()["perhaps"] == tocsin.Rule("perhaps", COOL)


@pytest.mark.parametrize("at_least", [0, 0.0, -0.1, 1.5, 80, math.nan, math.inf, "0.8", True, [1]])
def test_what_is_no_threshold(at_least):
    rules = rooms()
    with pytest.raises(tocsin.RuleError, match=r"^rule 'r': at_least must be a probability"):
        rules.add("r", COOL, at_least=at_least)
    assert len(rules) == 2


def test_percent():
    with pytest.raises(tocsin.RuleError, match=r"got 80; for 80%, write 0.8"):
        rooms().add("r", COOL, at_least=80)


@pytest.mark.parametrize("merged", [False, True])
def test_replace_keeps_the_threshold_unless_it_is_given(merged):
    rules = rooms()
    if merged:
        rules.merge()
    rules.replace("cool", "temp < 20")
    assert rules["cool"].at_least == 0.8
    assert found(rules, {"temp": {"low": 10, "high": 21}}) == [(0, "cool"), (0, "perhaps")]
    rules.replace("cool", "temp < 20", at_least=0.95)
    assert rules["cool"].at_least == 0.95
    assert found(rules, {"temp": {"low": 10, "high": 21}}) == [(0, "perhaps")]
    rules.replace("cool", "temp < 20", at_least=0)
    assert rules["cool"].at_least is None
    assert len(rules.match({"temp": {"low": 10, "high": 21}})) == 2
    with pytest.raises(tocsin.RuleError, match="more than 0 and at most 1"):
        rules.replace("cool", "temp < 20", at_least=2)


def test_a_rule_that_never_holds_keeps_its_threshold():
    rules = rooms()
    rules.replace("cool", "temp < 20 AND temp > 25")
    rules.merge()
    assert rules["cool"].at_least == 0.8
    assert rules.explain(MAYBE, "cool").probability == 0
    rules.replace("cool", COOL)
    assert found(rules, MAYBE) == [(0, "perhaps")]


def test_tables_of_rules():
    texts = pa.table({"id": ["a", "b"], "where": [COOL, COOL], "at_least": [0.8, None]})
    boxes = pa.table({"id": ["a", "b"], "temp_low": [20, 20], "temp_high": [25, 25],
                      "at_least": pa.array([Decimal("0.8"), None])})  # fmt: skip
    long = [
        {"id": "a", "attribute": "temp", "low": 20.0, "high": None, "at_least": None},
        {"id": "b", "attribute": "temp", "low": 20.0, "high": 25.0, "at_least": None},
        {"id": "a", "attribute": "temp", "low": None, "high": 25.0, "at_least": 0.8},
    ]
    for table in (texts, boxes, long):
        rules = tocsin.Rules({"temp": "number"})
        rules.add_many(table)
        assert found(rules, MAYBE, SURELY) == [(0, "b"), (1, "a"), (1, "b")]
        assert (rules["a"].at_least, rules["b"].at_least) == (0.8, None)
        assert rules.payload_schema.names == []


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([0.5, 1.5], r"row 1 \(rule 2\): at_least must be a probability, .* got 1.5"),
        ([0.0, 0.5], r"row 0 \(rule 1\): at_least must be a probability, .* got 0"),
        ([math.nan, 0.5], r"row 0 \(rule 1\): at_least must be a probability, .* got nan"),
        (["0.5", "1"], "the column 'at_least' must be numbers, got type string"),
    ],
)
def test_wrong_tables_of_rules(column, words):
    with pytest.raises(tocsin.RuleError, match=f"^{words}"):
        rooms().add_many(pa.table({"id": [1, 2], "where": [COOL] * 2, "at_least": column}))


def test_rows_of_a_rule_with_different_thresholds():
    long = [
        {"id": 1, "attribute": "temp", "low": 20, "high": None, "at_least": 0.5},
        {"id": 1, "attribute": "temp", "low": None, "high": 25, "at_least": 0.8},
    ]
    words = r"^row 0 \(rule 1\): the rows of this rule have different at_least, 0.5 and 0.8"
    with pytest.raises(tocsin.RuleError, match=words):
        tocsin.Rules({"temp": "number"}).add_many(long)


def test_changes():
    rules = rooms()
    before = rules.snapshot()
    copy = rules.copy()
    rules.remove("cool")
    assert found(rules, SURELY) == [(0, "perhaps")]
    for other in (before, copy):
        assert found(other, MAYBE, SURELY) == [(0, "perhaps"), (1, "cool"), (1, "perhaps")]
    copy.merge()
    copy.tune([SURELY] * 10)
    assert found(copy, MAYBE, SURELY) == [(0, "perhaps"), (1, "cool"), (1, "perhaps")]
    assert copy["cool"].at_least == 0.8
    with pytest.raises(tocsin.RuleError):
        rules.add("cool", COOL, at_least=7)
    rules.add("cool", COOL, at_least=1)
    assert found(rules, SURELY) == [(0, "perhaps")]


def test_base_delta_and_recent_rules():
    rules = tocsin.Rules({"temp": "number"})
    rows = [{"id": i, "where": COOL, "at_least": (i % 4) / 4 or None} for i in range(4000)]
    rules.add_many(rows[:3000])
    rules.add_many(rows[3000:3990])
    for row in rows[3990:]:
        rules.add(row["id"], COOL, at_least=row["at_least"])
    rules.remove_many(range(0, 4000, 5))
    half = {"temp": {"low": 22.5, "high": 27.5}}
    expected = [i for i in range(4000) if i % 5 and i % 4 <= 2]
    assert [rule for _, rule in found(rules, half)] == expected
    rules.merge()
    assert [rule for _, rule in found(rules, half)] == expected


def test_threads():
    rng = np.random.default_rng(3)
    rules = tocsin.Rules({"temp": "number", "n": "integer"})
    rows = [
        {"id": i, "where": f"temp BETWEEN {a} AND {a + 3} OR n = {i % 7}", "at_least": 0.5}
        for i, a in enumerate(rng.uniform(0, 20, 200).tolist())
    ]
    rules.add_many(rows)
    low = rng.uniform(0, 20, 5000)
    densities = [
        {"low": a, "high": a + 2, "mean": a + 1, "deviation": 0.4} if i % 3 else
        {"edges": [a, a + 1, a + 3], "weights": [0.75, 0.25]}
        for i, a in enumerate(low.tolist())
    ]  # fmt: skip
    table = pa.table({"temp": pa.array(densities, DENSITY), "n": [1, 2, None, 9] * 1250})
    one, two = rules.match(table, threads=1), rules.match(table, threads=2)
    assert one.to_arrow() == two.to_arrow()
    assert (rules.count(table, threads=2) == np.diff(one.offsets)).all()
    tops = [rules.top(table, 3, threads=n).to_arrow() for n in (1, 2)]
    assert tops[0] == tops[1]
    dicts = [{"temp": d, "n": n} for d, n in zip(densities, table["n"].to_pylist(), strict=True)]
    assert rules.match(dicts).to_arrow() == one.to_arrow()


def test_top_ranks_only_rules_that_are_likely_enough():
    for index in INDEXES:
        rules = tocsin.Rules({"temp": "number", "n": "integer"}, index=index)
        rules.add("heavy", "temp > 24 AND n = 1", weights={"temp": 9.0}, at_least=0.5)
        rules.add("light", "temp > 20 AND n = 1", weights={"temp": 2.0}, at_least=0.5)
        rules.add("plain", "n = 1")
        rules.merge()
        event = {"temp": {"low": 18, "high": 26}, "n": 1}
        assert list(rules.top(event, 2)) == [(0, "light", 3.0), (0, "plain", 1.0)]


def test_what_explain_prints():
    rules = rooms()
    assert str(rules.explain(MAYBE, "cool")) == (
        "rule 'cool' does not match: temp BETWEEN 20 AND 25\n"
        "  its probability is 0.625, and it requires at least 0.8\n"
        "    perhaps `temp` BETWEEN 20 AND 25    temp is 18 to 26; probability 0.625"
    )
    assert str(rules.explain(MAYBE, "perhaps")) == (
        "rule 'perhaps' matches: temp BETWEEN 20 AND 25\n"
        "    yes     `temp` BETWEEN 20 AND 25    temp is 18 to 26"
    )
    normal = {"temp": {"low": 18, "high": 26, "mean": 22, "deviation": 1}}
    assert "temp is 18 to 26, normal with mean 22 and deviation 1; probability 0.975962" in str(
        rules.explain(normal, "cool")
    )
    histogram = {"temp": {"edges": [18, 20, 26], "weights": [0.25, 0.75]}}
    assert "temp is 18 to 26 by a histogram; probability 0.625" in str(
        rules.explain(histogram, "cool")
    )
    assert "unknown `temp` BETWEEN 20 AND 25    temp is missing" in str(
        rules.explain({"temp": None}, "cool")
    )
    rules.add("close", COOL, at_least=math.nextafter(0.625, 1) + 1e-15)
    assert "its probability is 0.62500000000000" in str(rules.explain(MAYBE, "close"))


# ------------------------------------------------------------ stores


def manifests(path):
    return [json.loads(f.read_bytes()) for f in sorted(path.glob("segments/*/manifest.json"))]


@pytest.mark.parametrize("index", ["auto", *INDEXES])
def test_a_store_keeps_thresholds(tmp_path, index):
    rules = rooms(index=index)
    rules.merge()
    rules.add("later", "temp > 24", at_least=0.125)
    rules.save(tmp_path / "store")
    for verify in (True, False):
        opened = tocsin.Rules.open(tmp_path / "store", verify=verify)
        assert opened["cool"].at_least == 0.8
        assert opened["perhaps"].at_least is None
        assert found(opened, MAYBE, SURELY) == found(rules, MAYBE, SURELY)
        opened.merge()
        assert found(opened, MAYBE, SURELY) == found(rules, MAYBE, SURELY)


def test_the_format_rises_only_with_thresholds(tmp_path):
    plain = tocsin.Rules({"temp": "number"})
    plain.add("r", COOL)
    plain.save(tmp_path / "plain")
    assert [m["format"] for m in manifests(tmp_path / "plain")] == [segment_files.FORMAT]
    assert "at_least" not in manifests(tmp_path / "plain")[0]["arrays"]
    rooms().save(tmp_path / "rooms")
    assert [m["format"] for m in manifests(tmp_path / "rooms")] == [segment_files.FORMAT + 1]


def test_an_older_tocsin_refuses_thresholds(tmp_path, monkeypatch):
    rooms().save(tmp_path / "store")
    monkeypatch.setattr(segment_files, "FORMAT_WITH_SHAPES", segment_files.FORMAT)
    with pytest.raises(tocsin.StoreError, match=r"is of format 8, .* upgrade"):
        tocsin.open(tmp_path / "store")


def test_changes_of_a_store(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"temp": "number"})
    store.add("cool", COOL, at_least=0.8)
    store.replace("cool", COOL, at_least=0.9)
    assert store.rules()["cool"].at_least == 0.9
    store.replace("cool", "temp < 3")
    assert store.rules()["cool"].at_least == 0.9
    assert store.rules(2)["cool"].at_least == 0.8
    assert str(store.diff(2)).splitlines()[-1] == "  cool at_least: 0.8 -> 0.9"
    store.replace("cool", "temp < 3", at_least=0)
    store.merge()
    assert manifests(store.path)[0]["format"] in (7, 8)
    assert store.rules()["cool"].at_least is None


@pytest.mark.parametrize("value", [math.nan, -0.5, 1.5, math.inf])
def test_a_threshold_in_a_store_that_is_no_probability(tmp_path, value):
    rooms().save(tmp_path / "store")
    changed = Changed(tmp_path / "store", tmp_path / "changed")
    with changed.arrays() as arrays:
        arrays("at_least")[0] = value
    changed.describe_files()
    changed.seal()
    with pytest.raises(tocsin.StoreError, match="'at_least' must be 2 numbers from 0 to 1"):
        tocsin.open(tmp_path / "changed")


@pytest.mark.parametrize("merged", [False, True])
def test_rules_with_a_threshold_form_parts_of_their_own(merged):
    """So the others keep the shortcuts of `top`, which would otherwise list all that matches."""
    rules = tocsin.Rules({"x": "number", "n": "integer"}, index="keyed")
    plain = [{"id": i, "where": f"n = 1 AND x < {50 + i}", "score": 3e3 - i} for i in range(3000)]
    likely = [{"id": -1 - i, "where": "x < 20", "at_least": 0.5} for i in range(5)]
    rules.add_many(plain)
    rules.add_many(likely)
    if merged:
        rules.merge()
    (base, *_) = rules.snapshot().segments
    assert len(base.parts) == (2 if merged else 1)
    event = {"n": 1, "x": {"low": 10.0, "high": 18.0}}
    best = rules.top(event, 2)
    assert list(best) == [(0, 0, 3000.0), (0, 1, 2999.0)]
    assert best.counters.candidates < 1000
    assert rules.count(event) == [3005]
    assert rules.count({"n": 1, "x": {"low": 10.0, "high": 90.0}}) == [3000]
