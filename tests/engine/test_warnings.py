"""Conditions that never hold are added, with a warning at the caller's line."""

import warnings

import pyarrow as pa
import pytest

import tocsin

SCHEMA = {"x": "number", "n": "integer", "tier": "category", "active": "flag", "seen": "time"}


@pytest.fixture
def rules():
    return tocsin.Rules(SCHEMA)


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(each.category is tocsin.ConditionWarning for each in caught)
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


NEVER = {
    "x = NULL": "x = NULL",
    "x <> NULL AND n > 3": "x <> NULL",
    "NOT x = NULL": "NOT x = NULL",
    "x NOT IN (1, NULL)": "NOT x IN (1, NULL)",
    "x > 5 AND x < 3": "x > 5 AND x < 3",
    "n > 1 AND x BETWEEN 8 AND 3": "x BETWEEN 8 AND 3",
    "n = 2.5": "n = 2.5",
    "n IN (2.5, 3.5)": "n IN (2.5, 3.5)",
    "n > 2 AND n < 3": "n > 2 AND n < 3",
    "tier = 'a' AND tier = 'b'": "tier = 'a' AND tier = 'b'",
    "tier IN ('a', 'b') AND n = 1 AND tier NOT IN ('a', 'b', 'c')": "tier IN",
    "active AND NOT active": "active AND NOT active",
    "active > TRUE": "active > TRUE",
    "x IS NULL AND x > 5": "x IS NULL AND x > 5",
    "n > 9223372036854775807": "n > 9223372036854775807",
    "x > 5 AND FALSE": "FALSE",
    "1 = 2": "1 = 2",
    "n = 1.5 OR n = 2.5": "n = 1.5 OR n = 2.5",
    "x = NULL OR n > 2 AND n < 3": "x = NULL OR n > 2 AND n < 3",
}


@pytest.mark.parametrize("where", NEVER)
@pytest.mark.parametrize("known", [False, True], ids=["new", "of a known shape"])
def test_what_never_holds(rules, where, known):
    if known:
        rules._conditions.read(where, rules._draft.categories)
    (message,) = warnings_of(lambda: rules.add("never", where))
    assert message.startswith("rule 'never': no event can satisfy this condition: " + NEVER[where])
    assert "never holds" in message
    assert message.splitlines()[1].strip().removeprefix("in: ") in where
    is_compared_with_null = "NULL" in NEVER[where] and " OR " not in where and " IS " not in where
    assert ("use IS NULL" in message) == is_compared_with_null
    assert "never" in rules
    assert rules.count([{"x": 4.0, "n": 2, "tier": "a", "active": True}, {}]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("x > 5 OR x = NULL", "x = NULL"),
        ("n = 1 OR n = 2.5 OR n = 3", "n = 2.5"),
        ("x > 7 OR (x > 5 AND n = 1 AND x < 3) OR n = 2", "x > 5 AND n = 1 AND x < 3"),
        ("tier = 'a' AND (x BETWEEN 3 AND 1 OR n = 5)", "x BETWEEN 3 AND 1"),
        ("NOT (n <> 2.5 AND x > 1)", "NOT n <> 2.5"),
        ("x NOT BETWEEN 3 AND NULL", "x > NULL"),
    ],
)
def test_a_part_that_never_holds(rules, where, part):
    (message,) = warnings_of(lambda: rules.add("partly", where))
    assert message.startswith(f"rule 'partly': {part} never holds")
    start = max(where.find(part.removeprefix("NOT ")), 0)
    assert f"(line 1, column {start + 1})" in message


@pytest.mark.parametrize(
    "where",
    [
        "(x > 5 OR n > 5) AND (x < 3 OR n < 3)",
        "x > 5 AND x < 6",
        "n <> 2.5",
        "n IN (1, 2.5)",
        "tier IN ('a', NULL)",
        "x IS NULL OR x > 5",
        "x IS NOT NULL",
        "active OR NOT active",
        "TRUE",
        "n = 1 OR n = 2 OR x > 3",
        "NOT (x > 5 AND x < 3)",
        "n < 9223372036854775808",
    ],
)
def test_what_can_hold(rules, where):
    assert warnings_of(lambda: rules.add("fine", where)) == []


def test_replace(rules):
    rules.add("a", "x > 5")
    (message,) = warnings_of(lambda: rules.replace("a", "x = NULL"))
    assert message.startswith("rule 'a': no event can satisfy this condition: x = NULL")


def test_a_table_gives_one_warning(rules):
    wheres = ["x > 5", "x = NULL", "n = 2.5", "x > 1 OR x = NULL", *["n > 2 AND n < 3"] * 7]
    table = [{"id": f"r{i}", "where": where} for i, where in enumerate(wheres)]
    (message,) = warnings_of(lambda: rules.add_many(table))
    assert message.startswith(
        "10 of 11 rules never hold, or have a part that never holds: 'r1', 'r2', 'r3', 'r4', "
        "'r5', ...\nrule 'r1': no event can satisfy this condition: x = NULL"
    )
    assert len(rules) == 11
    (message,) = warnings_of(lambda: rules.add_many([{"id": "one", "where": "x = NULL"}]))
    assert message.startswith("rule 'one': no event can")
    assert warnings_of(lambda: rules.add_many([{"id": "fine", "where": "x = 1"}])) == []


def test_boxes_and_long_rows(rules):
    boxes = pa.table({"id": [1, 2], "n_low": [2.3, 1.0], "n_high": [2.7, 5.0]})
    (message,) = warnings_of(lambda: rules.add_many(boxes))
    assert message == "rule 1: its bounds enclose no value, so no event can satisfy it"
    long = pa.table(
        {
            "id": [3, 4, 3],
            "attribute": ["x", "x", "x"],
            "low": [1.0, 1.0, 5.0],
            "high": [3.0, 3.0, 6.0],
        }
    )
    (message,) = warnings_of(lambda: rules.add_many(long))
    assert message.startswith("rule 3: its bounds enclose no value")


def test_a_warning_as_an_error_adds_nothing(rules):
    with warnings.catch_warnings():
        warnings.simplefilter("error", tocsin.ConditionWarning)
        for call in (
            lambda: rules.add("a", "tier = 'x' AND x = NULL"),
            lambda: rules.add_many([{"id": "b", "where": "x > 5"}, {"id": "a", "where": "1 = 2"}]),
        ):
            with pytest.raises(tocsin.ConditionWarning, match="rule 'a': no event can satisfy"):
                call()
    assert len(rules) == 0
    assert len(rules._draft.categories) == 0
    rules.add("a", "x > 5")
    assert rules.count({"x": 6}).tolist() == [1]


def test_a_store_points_at_its_caller(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    (message,) = warnings_of(lambda: store.add("a", "x = NULL"))
    assert message.startswith("rule 'a'")
