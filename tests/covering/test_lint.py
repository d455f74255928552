"""Lint: against all events, on both ways to find candidates, and as users see it."""

import os
import random

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.covering.generate import EVENTS, SCHEMA, random_condition
from tests.covering.test_conditions import satisfied
from tocsin.covering import redundant

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"


def rows(rules, **arguments):
    return [tuple(row.values())[:3] for row in rules.lint(**arguments).to_pylist()]


def redundant_rules(holds, numbers):
    """The rules that another one covers; of equal ones all but the first."""
    found = set()
    for r in numbers:
        for s in numbers:
            if s != r and not (holds[:, r] & ~holds[:, s]).any():
                is_equal = not (holds[:, s] & ~holds[:, r]).any()
                if s < r or not is_equal:
                    found.add(r)
    return found


def check_findings(found, holds, conditions):
    by = {rule: other for rule, finding, other in found if finding in ("duplicate", "covered")}
    never = {rule for rule, finding, _ in found if finding == "never"}
    always = {rule for rule, finding, _ in found if finding == "always"}
    assert never == set(np.flatnonzero(~holds.any(axis=0)).tolist())
    assert always <= set(np.flatnonzero(holds.all(axis=0)).tolist())
    for rule, finding, other in found:
        if finding in ("duplicate", "covered"):
            assert other not in by
            assert other not in never
            assert not (holds[:, rule] & ~holds[:, other]).any()
            is_equal = bool((holds[:, rule] == holds[:, other]).all())
            assert is_equal or finding == "covered"
    stays = [n for n in range(len(conditions)) if n not in by and n not in never]
    assert (holds[:, stays].any(axis=1) == holds.any(axis=1)).all()
    plain = [n for n in range(len(conditions)) if " OR " not in conditions[n] and n not in never]
    assert redundant_rules(holds, plain) <= set(by)


@pytest.mark.parametrize("most", [12, 2], ids=["one tree", "a tree for each attribute"])
@pytest.mark.parametrize("seed", range(200 if IS_LONG else 5))
def test_all_events_decide(seed, most, monkeypatch):
    monkeypatch.setattr(redundant, "_MOST", most)
    rng = random.Random(seed)
    conditions = [random_condition(rng) for _ in range(60)]
    holds = satisfied(conditions)
    rules = tocsin.Rules(SCHEMA)
    for number, where in enumerate(conditions):
        rules.add(number, where)
        if number == 30:
            rules.snapshot()  # several segments
    found = rows(rules)
    check_findings(found, holds, conditions)
    removed = [rule for rule, finding, _ in found if finding in ("duplicate", "covered", "never")]
    rules.remove_many(dict.fromkeys(removed))
    assert all(finding == "always" for _, finding, _ in rows(rules))


def test_slices_find_the_same():
    rng = random.Random(7)
    rules = tocsin.Rules(SCHEMA)
    for number in range(80):
        rules.add(number, random_condition(rng))
    from tocsin.engine.lint import Linter

    linter = Linter(rules.snapshot())
    parts = [linter.lint(first, first + 20) for first in range(0, 80, 20)]
    assert pa.concat_tables(parts) == rules.lint()


def test_boxes_against_all_pairs():
    rng = np.random.default_rng(3)
    boxes = np.sort(rng.integers(0, 12, (600, 2, 2)), axis=1)
    table = {"id": [f"r{n}" for n in range(600)]}
    for j, name in enumerate("xy"):
        table |= {f"{name}_low": boxes[:, 0, j], f"{name}_high": boxes[:, 1, j]}
    rules = tocsin.Rules({"x": "integer", "y": "integer"})
    rules.add_many(pa.table(table))
    low, high = boxes[:, 0], boxes[:, 1]
    inside = (low[:, None] >= low).all(axis=2) & (high[:, None] <= high).all(axis=2)
    older = np.arange(600)[:, None] > np.arange(600)
    covered = (inside & (older | ~inside.T) & ~np.eye(600, dtype=bool)).any(axis=1)
    found = rows(rules, threads=2)
    assert {rule for rule, _, _ in found} == {f"r{n}" for n in np.flatnonzero(covered)}
    assert {by for _, _, by in found} <= {f"r{n}" for n in np.flatnonzero(~covered)}


@pytest.fixture
def rules():
    rules = tocsin.Rules({"x": "number", "tier": "category"})
    rules.add("high", "x > 5", payload={"team": "a"})
    rules.add("gold", "x > 7 AND tier = 'gold'", payload={"team": "b"})
    rules.add("again", "x > 5.0", payload={"team": "a"})
    rules.add("never", "x > 5 AND x < 3")
    return rules


def test_a_table_of_findings(rules):
    assert rules.lint().to_pylist() == [
        {"rule": "gold", "finding": "covered", "by": "high", "detail": "x > 5"},
        {"rule": "again", "finding": "duplicate", "by": "high", "detail": "x > 5"},
        {"rule": "never", "finding": "never", "by": None, "detail": "no event can satisfy it"},
    ]
    assert rules.snapshot().lint() == rules.lint()


def test_another_payload_is_not_redundant(rules):
    found = rows(rules, same=["team"])
    assert found == [("again", "duplicate", "high"), ("never", "never", None)]


def test_always(rules):
    rules.add("all", "x IS NULL OR x < 3 OR x >= 3")
    rules.add("all again", "tier IS NULL OR tier IS NOT NULL")
    found = rows(rules)
    assert ("all", "always", None) in found
    assert ("all again", "always", None) in found
    staying = {by for _, finding, by in found if finding in ("covered", "duplicate")}
    assert len(staying) == 1
    assert staying <= {"all", "all again"}


def test_out_of_range(rules):
    rules.add("far", "x > 1000 OR tier = 'gold'")
    rules.add("platinum", "tier = 'platinum'")
    events = [{"x": 3.0, "tier": "gold"}, {"x": 50.0}]
    found = [row for row in rules.lint(events).to_pylist() if row["finding"] == "out of range"]
    assert [row["rule"] for row in found] == ["far", "platinum"]
    assert found[0]["detail"] == "one alternative: x > 1000, but x ranges from 3.0 to 50.0"
    assert found[1]["detail"] == "tier = 'platinum', but no event has a matching value"
    rules.add("missing", "x IS NULL")
    found = [row for row in rules.lint(events).to_pylist() if row["finding"] == "out of range"]
    assert found[-1]["rule"] == "missing"
    assert rows(rules, events=[*events, {}])[-1][0] != "missing"


@pytest.mark.parametrize("seed", range(40 if IS_LONG else 4))
def test_out_of_range_is_never_wrong(seed):
    """A rule that some event satisfies can have a part that none can, but not as a whole."""
    rng = random.Random(seed)
    events = EVENTS.take(pa.array(rng.sample(range(EVENTS.num_rows), 2)))
    rules = tocsin.Rules(SCHEMA)
    for number in range(60):
        rules.add(number, random_condition(rng))
    matched = set(rules.match(events).ids().to_pylist())
    found = [row for row in rules.lint(events).to_pylist() if row["finding"] == "out of range"]
    whole = {row["rule"] for row in found if not row["detail"].startswith("one alternative")}
    assert len(whole) > 3
    assert whole.isdisjoint(matched)


def test_thresholds():
    rules = tocsin.Rules({"x": "number"})
    rules.add("likely", "x > 5", at_least=0.5)
    rules.add("certain", "x > 6", at_least=0.9)
    rules.add("wide but certain", "x > 4", at_least=0.95)
    assert rows(rules) == [("certain", "covered", "likely")]


def test_no_rules():
    found = tocsin.Rules({"x": "number"}).lint([{"x": 1.0}])
    assert found.num_rows == 0
    assert found.column_names == ["rule", "finding", "by", "detail"]


@pytest.mark.parametrize(
    ("same", "message"),
    [
        ("team", "in a list"),
        (5, "in a list"),
        (["tam"], "no payload column 'tam'; did you mean 'team'"),
    ],
)
def test_errors(rules, same, message):
    with pytest.raises(tocsin.RuleError, match=message):
        rules.lint(same=same)
