"""The description of a match, and the result as batches of Arrow."""

import json
import pickle

import pyarrow as pa
import pytest

import tocsin
from tocsin.engine import result
from tocsin.engine.request import MatchRequest
from tocsin.engine.result import MisfitError, ResultBuilder, TypeSystem, check_names

EVENTS = pa.RecordBatch.from_pydict(
    {
        "Event": ["a", "b", "c"],
        "x": [6.0, 1.0, 8.0],
        "W": pa.array([[("x", 2.0)], None, []], pa.map_(pa.string(), pa.float64())),
    }
)


def same(type_):
    return type_


TYPES = TypeSystem(same, str)


@pytest.fixture
def rules():
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 5", weights={"x": 3.0}, payload={"team": "red", "rank": 7})
    rules.add(2, "x > 7", payload={"team": "blue"})
    return rules


def rows(rules, **options):
    builder = ResultBuilder.plan(MatchRequest(**options), rules.snapshot(), EVENTS.schema, TYPES)
    # As in another process.
    builder = pickle.loads(pickle.dumps(builder))
    batches = list(builder.build(rules.snapshot(), EVENTS, version=4))
    assert all(batch.schema.equals(builder.schema) for batch in batches)
    return pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "some"}, "how must be one of all, top, count; got 'some'"),
        ({"output": "columns"}, "output must be one of rows, lists; got 'columns'"),
        ({"how": "top"}, "how='top' needs k, an integer, 1 or more; got None"),
        ({"how": "top", "k": 0}, "an integer, 1 or more; got 0"),
        ({"how": "top", "k": True}, "an integer, 1 or more; got True"),
        ({"how": "top", "k": "3"}, "an integer, 1 or more; got '3'"),
        ({"k": 3}, "k and weights go with how='top'; got how='all'"),
        ({"how": "count", "weights": {"x": 1}}, "k and weights go with how='top'"),
        ({"how": "top", "k": 1, "weights": 5}, "weights must be a dict from attribute to weight"),
        ({"keep": "x"}, "keep takes names of columns in a list, as in ['x']"),
        ({"keep": 5}, "keep takes names of columns in a list"),
        ({"keep": [5]}, "keep takes names of columns, got int 5"),
        ({"payload": "x"}, "payload takes names of columns in a list"),
        ({"payload": ["x"], "how": "count"}, "payload goes with output='rows', a row per match"),
        ({"payload": ["x"], "output": "lists"}, "payload goes with output='rows'"),
    ],
)
def test_what_a_request_refuses(options, message):
    with pytest.raises(tocsin.RuleError) as error:
        MatchRequest(**options)
    assert message in str(error.value)


def test_a_request_is_made_of_plain_values(rules):
    text = '{"how": "top", "k": 1, "keep": ["event"], "weights": {"x": 2}, "payload": ["team"]}'
    request = json.loads(text)
    assert rows(rules, **request) == [
        {"Event": "a", "rule": 1, "score": 6.0, "team": "red"},
        {"Event": "c", "rule": 1, "score": 6.0, "team": "red"},
    ]
    assert MatchRequest(**request) == MatchRequest(**request | {"keep": ("event",)})


def test_every_form(rules):
    keep = {"keep": ["EVENT"]}
    assert rows(rules, **keep, payload=["rank"], rules_version=True) == [
        {"Event": "a", "rule": 1, "rank": 7, "rules_version": 4},
        {"Event": "c", "rule": 1, "rank": 7, "rules_version": 4},
        {"Event": "c", "rule": 2, "rank": None, "rules_version": 4},
    ]
    assert rows(rules, **keep, how="count", rules_version=True)[1:] == [
        {"Event": "b", "matches": 0, "rules_version": 4},
        {"Event": "c", "matches": 2, "rules_version": 4},
    ]
    lists = rows(rules, **keep, how="top", k=2, output="lists")
    assert lists[2] == {"Event": "c", "rules": [1, 2], "scores": [3.0, 1.0]}
    assert lists[1] == {"Event": "b", "rules": [], "scores": []}
    assert [row["rule"] for row in rows(rules)] == [1, 1, 2]
    assert list(rows(rules)[0]) == ["Event", "x", "W", "rule"], "all columns are kept"


def test_weights_in_a_column_are_no_attributes(rules):
    options = {"keep": [], "how": "top", "k": 1}
    assert rows(rules, **options, weights="w") == [
        {"rule": 1, "score": 6.0},
        {"rule": 1, "score": 3.0},
    ]
    with pytest.raises(tocsin.EventError, match="weights: the events have no column 'v'"):
        rows(rules, **options, weights="v")
    events = EVENTS.select(["W"])
    request = MatchRequest(**options, weights="W")
    builder = ResultBuilder.plan(request, rules.snapshot(), events.schema, TYPES)
    with pytest.raises(tocsin.EventError, match="no column 'x', which a rule tests"):
        list(builder.build(rules.snapshot(), events))


def test_large_results_come_in_pieces(rules, monkeypatch):
    whole = rows(rules, payload=["team"])
    monkeypatch.setattr(result, "_ROWS", 2)
    assert rows(rules, payload=["team"]) == whole
    builder = ResultBuilder.plan(MatchRequest(), rules.snapshot(), EVENTS.schema, TYPES)
    sizes = [batch.num_rows for batch in builder.build(rules.snapshot(), EVENTS)]
    assert sizes == [2, 1]
    empty = list(builder.build(rules.snapshot(), EVENTS.slice(1, 1)))
    assert [batch.num_rows for batch in empty] == [0]


def test_rules_that_do_not_fit_the_plan(rules):
    request = MatchRequest(payload=["rank", "team"])
    builder = ResultBuilder.plan(request, rules.snapshot(), EVENTS.schema, TYPES)
    others = tocsin.Rules({"x": "number"})
    others.add(1, "x > 5", payload={"rank": 7.0})
    (batch,) = builder.build(others.snapshot(), EVENTS)
    assert batch.schema.equals(builder.schema)
    assert batch.column("rank").to_pylist() == [7, 7]
    assert batch.column("team").to_pylist() == [None, None]
    others.replace(1, payload={"rank": 7.5})
    with pytest.raises(MisfitError, match="'rank' is double, but the query was planned for int64"):
        list(builder.build(others.snapshot(), EVENTS))
    texts = tocsin.Rules({"x": "number"})
    texts.add("one", "x > 5")
    with pytest.raises(MisfitError, match="ids are strings, but the query was planned for int"):
        list(builder.build(texts.snapshot(), EVENTS))


def test_very_many_columns(rules):
    """In steps that grow with the square of the columns, it would take minutes."""
    names = [f"c{i}" for i in range(50_000)]
    events = pa.schema([(name, pa.string()) for name in names])
    for keep in (None, names):
        result = ResultBuilder.plan(MatchRequest(keep=keep), rules.snapshot(), events, TYPES)
        assert result.schema.names == [*names, "rule"]


def test_columns_of_equal_names(rules):
    for options, message in (
        ({"keep": ["x", "X"]}, "keep names the column 'x' twice"),
        ({"keep": ["y"]}, "keep: the events have no column 'y'"),
        ({"payload": ["team", "team"]}, "payload names the column 'team' twice; names are"),
        ({"payload": ["tem"]}, "no payload column 'tem'; did you mean 'team'?"),
    ):
        with pytest.raises(tocsin.TocsinError) as error:
            rows(rules, **options)
        assert message in str(error.value)
    rules.add(3, "x > 9", payload={"X": 1, "Rule": 2})
    with pytest.raises(tocsin.EventError, match=r"'X' .*: one is kept, one is payload; .* payload"):
        rows(rules, payload=["X"])
    with pytest.raises(tocsin.EventError, match="one is added by matching, one is payload"):
        rows(rules, payload=["Rule"])
    with pytest.raises(tocsin.UncertainError) as error:
        check_names([("of the readings", ["id", "ID"])], tocsin.UncertainError)
    assert str(error.value) == (
        "the result would have two columns 'ID' (names are case-insensitive): both are of the "
        "readings; rename it"
    )
