"""Bad input gets a clear error, and nothing is lost. One case for each line of the list.

Each case checks the message as a person sees it, and that the rules are as they were.
"""

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

import tocsin

SCHEMA = {
    "x": "number",
    "n": "integer",
    "temp": "number",
    "temp_label": "category",
    "tier": "category",
    "active": "flag",
    "seen": "time",
}


@pytest.fixture
def rules():
    rules = tocsin.Rules(SCHEMA)
    rules.add("first", "x > 5 AND tier = 'gold'", weights={"tier": 0.5})
    return rules


def refused(rules, call, *fragments, error=tocsin.TocsinError):
    """Check that a call fails with all of these in its message, and changes nothing."""
    before = list(rules), rules.match({"x": 6, "tier": "gold"}).to_arrow().to_pylist()
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    after = list(rules), rules.match({"x": 6, "tier": "gold"}).to_arrow().to_pylist()
    assert after == before
    return message


CONDITIONS = {
    "unknown attribute": ("x > 5 AND prize > 3", ["unknown attribute 'prize'", "column 11"]),
    "a near name": ("tmp > 5", ["unknown attribute 'tmp'; did you mean 'temp'?"]),
    "number against text": (
        "temp > 'hot'",
        ["attribute 'temp' is a number, but it is compared with the text 'hot'",
         "did you mean 'temp_label'?", "(line 1, column 8)"],
    ),
    "integer against text": ("n = '5'", ["attribute 'n' is an integer", "the text '5'", "quotes"]),
    "category against number": ("tier = 5", ["attribute 'tier' is a category", "the integer 5"]),
    "flag against number": ("active = 1", ["attribute 'active' is a flag", "the integer 1"]),
    "time against number": ("seen > 5", ["attribute 'seen' is a time", "the integer 5"]),
    "number against flag": ("x = TRUE", ["attribute 'x' is a number", "the flag TRUE"]),
    "text among numbers": ("n IN (1, 'a')", ["attribute 'n' is an integer", "the text 'a'"]),
    "text among doubles": ("n IN (1e0, 'a')", ["attribute 'n' is an integer", "the text 'a'"]),
    "not a time": ("seen > 'yesterday'", ["attribute 'seen' is a time", "'yesterday'", "ISO 8601"]),
    "syntax error": ("x > 5 AND", ["syntax error", "(line 1, column 7)"]),
    "syntax error in the middle": ("x > AND n < 5", ["syntax error", "line 1, column"]),
    "syntax error on a second line": ("x > 5\nAND y <", ["syntax error", "line 2"]),
    "two conditions": ("x > 5 n < 3", ["syntax error", "column 9"]),
    "a name too much": ("x > 5 n", ["syntax error", "AND or OR is missing", "column 7"]),
    "quote not closed": ("tier = 'gold", ["syntax error", "not closed", "column 8"]),
    "empty": ("  ", ["the condition is empty", "TRUE"]),
    "function": ("howl(x) > 5", ["the function howl is not supported", "column 1"]),
    "function as value": ("seen > now()", ["now() is not the same at all times", "column 8"]),
    "column against column": ("x > 5 OR x > tier", ["needs values of one type", "column 10"]),
    "column in between": ("x BETWEEN tier AND 5", ["needs values of one type"]),
    "column in a list": ("x IN (1, tier)", ["one type"]),
    "a second statement": (
        "x > 5; drop table", ["syntax error: a condition ends at a semicolon", "column 6"]
    ),
    "a statement": ("drop table x", ["DROP TABLE x is a statement"]),
    "no token of the parser": ("drop table", ["syntax error: it cannot be parsed"]),
    "a name of another dialect": ("bit_count(n) = 1", ["the function bit_count is not supported"]),
    "an alias of a function": ("log(x) > 5", ["the function log is not supported", "column 1"]),
    "a bracket is not closed": ("x > 1 AND substr(tier, 1, 2 = 'a'", ["not closed", "column 17"]),
    "nothing between commas": ("tier IN ('a', , 'b')", ["something is missing here", "column 15"]),
    "a comma too much": ("x > 5 AND n IN (1, 2,)", ["something is missing here", "column 22"]),
    "a comma at first": ("coalesce(, x) > 5", ["something is missing here", "column 10"]),
    "BETWEEN without AND": ("x BETWEEN 3 8 AND n > 5", ["syntax error: a BETWEEN has no AND"]),
    "WHEN without THEN": ("CASE WHEN x > 1 2 END = 2", ["syntax error: a WHEN has no THEN"]),
    "brackets in texts": ("tier = '((' AND (x > 1", ["this bracket is not closed", "column 17"]),
    "a function by its alias": ("charindex('a', tier) ", [": charindex('a', tier) is of type int"]),
    "a shift": ("((n >> 1))", ["n >> 1 is of type bigint"]),
    "a part of a text": ("( substr(tier, 1 ) )", [": substr(tier, 1 ) is of type string"]),
    "an operator": ("tier ->> tier = 2", ["tier ->> tier is not supported in an expression"]),
    "three signs": ("n >>> 2 = 1", ["syntax error", "write shiftrightunsigned(a, n)"]),
    "three signs in a text": ("tier = '>>>' AND", ["something is missing here (line 1, col"]),
    "no argument": ("month() = 3", ["an argument of month is missing", "column 1"]),
    "one argument of two": ("datediff(seen) = 3", ["an argument of datediff is missing"]),
    "no unit": ("date_trunc() = seen", ["syntax error: a function has arguments it cannot have"]),
    "no number": ("x = 'a' -> 5BD", ["syntax error: a function has arguments it cannot have"]),
    "arithmetic on a text": ("x + tier > 5", ["+ needs numbers, but tier is a text"]),
    "cast of a column": ("CAST(x AS BINARY) > 5", ["a cast to BINARY is not supported"]),
    "aggregate": ("sum(x) > 5", ["needs several events"]),
    "not a condition": ("x + 1", ["is of type double, so it is not a condition by itself"]),
    "order of texts": ("upper(tier) > 'A'", ["categories have no order"]),
    "column among ANY": ("n = ANY(ARRAY[1, x])", ["not supported", "ARRAY"]),
    "overflow": ("x > 2147483647 + 1", ["overflows Spark's int"]),
    "overflow of a minus sign": ("x > -(-2147483648)", ["2147483648 overflows Spark's int"]),
    "overflow of a bigint": ("x > -(-9223372036854775808)", ["overflows Spark's bigint"]),
    "order of categories": ("tier > 'gold'", ["categories have no order here (>)"]),
    "between categories": ("tier BETWEEN 'a' AND 'b'", ["categories have no order"]),
    "pattern": ("tier LIKE tier", ["the pattern of LIKE must be a constant"]),
    "backreference": (r"tier RLIKE r'(a)\1'", ["RE2 has no backreferences"]),
    "subquery": ("x IN (SELECT 1)", ["subquery"]),
    "scalar subquery": ("x > (SELECT 1)", ["subquery"]),
    "a query": ("SELECT 1", ["subquery"]),
    "case": ("CASE WHEN x > 5 THEN 1 END", ["is of type int, so it is not a condition"]),
    "qualified name": ("t.x > 5", ["t.x is a qualified name"]),
    "bare number": ("x", ["attribute 'x' is a number, so it is not a condition by itself"]),
    "bare constant": ("5", ["5 is a constant"]),
    "condition in a comparison": ("(x > 5) = 1", ["is a flag, but it is compared with"]),
    "placeholder": ("x = :p", ["placeholder"]),
    "IS with a value": ("x IS 5", ["IS is followed by"]),
    "IS TRUE on a number": ("x IS TRUE", ["attribute 'x' is a number"]),
    "empty list": ("x IN ()", ["IN needs at least one value"]),
    "half a number": ("x > 5e", ["5e is not a number", "column 5"]),
    "too large a double": ("x > 1e400", ["does not fit a double"]),
    "too many digits": (f"n > {'9' * 39}", ["38 digits"]),
    "too many decimal places": ("n > 0.0000000000000000001", ["18 decimal places"]),
    "1,025 conjunctions": (
        " OR ".join(f"x > {i} AND n > {i}" for i in range(1025)),
        ["expands to 1,025 conjunctions", "at most 1,024", "a rule of its own", "IN"],
    ),
    "2^11 conjunctions": (
        " AND ".join(f"(x = {i} OR n = {i})" for i in range(11)),
        ["expands to 2,048 conjunctions"],
    ),
    "other uses of ANY": ("x > ANY(ARRAY[1, 2])", ["x = ANY(ARRAY[1, 2]), which is x IN (1, 2)"]),
    "not any": ("x <> ANY(ARRAY[1, 2])", ["x <> ALL(ARRAY[1, 2]), which is x NOT IN (1, 2)"]),
    "equal to all": ("x = ALL(ARRAY[1, 2])", ["not supported", "(line 1, column 1)"]),
    "any of a text": ("tier = ANY('{a,b}')", ["not supported", "ARRAY"]),
    "any on the left": ("ANY(ARRAY[1, 2]) = x", ["not supported", "ARRAY"]),
    "any of a query": ("x = ANY(SELECT 1)", ["subquery"]),
    "any of nothing": ("x = ANY(ARRAY[])", ["ARRAY needs at least one value"]),
    "any of texts": ("x = ANY(ARRAY['a'])", ["attribute 'x' is a number", "the text 'a'"]),
    "seam of the integers": ("n = -5819204377310644129", ["share a key"]),
    "nested too deeply": ("(" * 3000 + "x > 5" + ")" * 3000, ["nested too deeply"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CONDITIONS)
def test_condition(rules, case):
    text, fragments = CONDITIONS[case]
    call = lambda: rules.add("bad", text)  # noqa: E731
    message = refused(rules, call, "rule 'bad': ", *fragments, error=tocsin.ConditionError)
    assert "sqlglot" not in message


def test_1024_conjunctions_are_accepted(rules):
    rules.add("most", " OR ".join(f"x BETWEEN {i} AND {i}.5" for i in range(1024)))
    assert "most" in rules.match({"x": 1023.25}).by_rule()
    assert "most" not in rules.match({"x": 1023.75}).by_rule()


def test_alternative_values_of_an_attribute_count_as_one(rules):
    values = " OR ".join(f"x = {i} OR n = {i}" for i in range(2_000))
    rules.add("most", f"tier = 'a' AND ({values} OR x IN (-1, -2)) OR tier = 'b'")
    rules.add("not", "NOT (" + " AND ".join(f"n <> {i}" for i in range(2_000)) + ")")
    assert len(rules.explain({}, "most").predicates) == 5
    assert len(rules.explain({}, "not").predicates) == 1
    events = [{"tier": "a", "x": x, "n": n} for x, n in ((1999, -1), (-2, -1), (-3, 5), (-3, -1))]
    assert {e for e, rule in rules.match(events) if rule == "most"} == {0, 1, 2}
    assert {e for e, rule in rules.match(events) if rule == "not"} == {2}


@pytest.mark.parametrize("array", ["ARRAY[{}]", "array({})", "ARRAY[ {} ]"])
def test_any_of_an_array_is_a_list(rules, array):
    rules.add("any", f"n = ANY({array.format('1, 5')})")
    rules.add("all", f"n <> ALL({array.format('1, 5')})")
    rules.add("neither", f"NOT n = ANY({array.format('1, 5')})")
    texts = array.format("'a'")
    rules.add("null", f"n <> ALL({array.format('1, NULL')}) OR tier = ANY({texts})")
    events = [{"n": 1}, {"n": 2}, {}, {"n": 5, "tier": "a"}]
    found = {id: events.tolist() for id, events in rules.match(events).by_rule().items()}
    assert found == {"any": [0, 3], "all": [1], "neither": [1], "null": [3]}
    for id in ("any", "all"):
        same = {"any": "n IN (1, 5)", "all": "n NOT IN (1, 5)"}[id]
        explained = [str(test) for test in rules.explain({"n": 5}, id).predicates]
        rules.replace(id, same)
        assert [str(test) for test in rules.explain({"n": 5}, id).predicates] == explained


def test_a_list_counts_as_one(rules):
    rules.add("list", f"x IN ({', '.join(map(str, range(1000)))})")
    assert "list" in rules.match({"x": 999}).to_arrow()["rule"].to_pylist()


def test_the_position_is_right_for_a_text_whose_shape_is_known(rules):
    rules.add("fine", "seen > '2024-01-01' AND x > 5")
    call = lambda: rules.add("bad", "seen > 'noon' AND x > 5")  # noqa: E731
    refused(rules, call, "'noon' is not one", "(line 1, column 8)", "\n         ^^^^^^")


def test_decimal_columns():
    schema = pa.schema([("price", pa.decimal128(20, 2)), ("x", pa.float64()), ("b", pa.binary())])
    rules = tocsin.Rules(schema)
    rules.add("fine", "x > 5")
    with pytest.raises(tocsin.ConditionError, match=r"'price' is a decimal column .* cast it"):
        rules.add("bad", "price > 5")
    with pytest.raises(tocsin.ConditionError, match="'b' is a column of type binary"):
        rules.add("bad", "b = 'x'")
    declared = tocsin.Rules({"price": "number"})
    declared.add("fine", "price > 5")
    events = pa.table({"price": pa.array([decimal.Decimal("5.10")], pa.decimal128(10, 2))})
    with pytest.raises(
        tocsin.EventError, match=r"decimal128.*cast it to double, or .*decimal\(10,2\)"
    ):
        declared.match(events)


def test_ids(rules):
    refused(rules, lambda: rules.add("first", "x > 1"), "rule 'first' exists already", "replace")
    refused(rules, lambda: rules.add(None, "x > 1"), "the id is null")
    refused(rules, lambda: rules.add(1.5, "x > 1"), "an id must be a text or an integer", "1.5")
    refused(rules, lambda: rules.add(True, "x > 1"), "an id must be a text or an integer")
    refused(rules, lambda: rules.add(7, "x > 1"), "ids here are texts", "int 7")
    refused(rules, lambda: rules.add_many(pa.table({"id": [7], "where": ["x > 1"]})), "texts")


def test_unknown_ids(rules):
    unknown = tocsin.UnknownRuleError
    near = "there is no rule 'frist'; did you mean 'first'?"
    refused(rules, lambda: rules.remove("frist"), near, error=unknown)
    refused(rules, lambda: rules.replace("frist", "x > 1"), near, error=unknown)
    refused(rules, lambda: rules["frist"], near, error=unknown)
    refused(rules, lambda: rules.explain({"x": 1}, "frist"), near, error=KeyError)
    refused(rules, lambda: rules.remove_many(["first", "zzz"]), "there is no rule 'zzz'")
    refused(rules, lambda: rules.remove_many(["first", "first"]), "removed twice")
    refused(rules, lambda: rules.remove(None), "there is no rule None")
    empty = tocsin.Rules(SCHEMA)
    with pytest.raises(unknown, match="there is no rule 'x'"):
        empty.remove("x")


def test_a_bad_replacement_leaves_the_rule(rules):
    refused(rules, lambda: rules.replace("first", "x >"), "rule 'first': syntax error")
    assert rules["first"].where == "x > 5 AND tier = 'gold'"


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "much", None, True])
def test_weights(rules, weight):
    call = lambda: rules.add("bad", "x > 5", weights={"x": weight})  # noqa: E731
    refused(
        rules, call, "rule 'bad': the weight of attribute 'x' must be a finite number, 0 or more"
    )


def test_weight_of_what_is_not_tested(rules):
    call = lambda: rules.add("bad", "x > 5", weights={"tier": 1})  # noqa: E731
    refused(rules, call, "attribute 'tier', which the condition does not test; it tests x")
    call = lambda: rules.add("bad", "x > 5", weights={"tire": 1})  # noqa: E731
    refused(rules, call, "unknown attribute 'tire'; did you mean 'tier'?")
    refused(rules, lambda: rules.add("bad", "x > 5", weights=0.5), "weights must be a dict")


def test_payload(rules):
    rules.add("a", "x > 100", payload={"team": "vip"})
    call = lambda: rules.add("b", "x > 1", payload={"team": 5})  # noqa: E731
    refused(rules, call, "payload column 'team' holds string so far, got int64; cast it")
    refused(rules, lambda: rules.add("b", "x > 1", payload=[1]), "payload must be a dict")


# ------------------------------------------------------------ tables of rules


def test_a_bad_row_in_a_large_table(rules):
    n = 5_000
    where = [f"x > {i} AND tier = 'gold'" for i in range(n)]
    where[3_210] = "x > 'much'"
    table = pa.table({"id": [f"r{i}" for i in range(n)], "where": where})
    refused(rules, lambda: rules.add_many(table), "row 3210 (rule 'r3210')", "the text 'much'")
    assert len(rules) == 1


def boxes(**columns):
    return pa.table(
        {"id": ["a", "b", "c"], "x_low": [1.0, 2.0, 3.0], "x_high": [2.0, 3.0, 4.0]} | columns
    )


def test_boxes(rules):
    def bad(*fragments, **columns):
        refused(rules, lambda: rules.add_many(boxes(**columns)), *fragments)

    bad("row 1 (rule 'b')", "x from 9.0 to 3.0", "low bound is above", x_low=[1.0, 9.0, 1.0])
    bad("row 2 (rule 'c')", "a bound of x is NaN", x_high=[2.0, 3.0, math.nan])
    bad("row 2: duplicate id 'a', already used in row 0", id=["a", "b", "a"])
    bad("row 1: rule 'first' exists already", id=["a", "first", "c"])
    bad("row 1: the id is null", id=["a", None, "c"])
    bad("ids must be integers or texts", id=[1.5, 2.5, 3.5])
    bad("column 'z_low' looks like a box's bound", "no attribute 'z'", z_low=[1.0, 1.0, 1.0])
    bad("attribute 'x' is a number", "type string", x_low=["1", "2", "3"])
    bad("attribute 'n' is an integer", "bool", n_low=[True, False, True])
    bad("row 1 (rule 'b')", "category", tier_low=["a", "b", "c"], tier_high=["a", "c", "c"])
    assert len(rules) == 1


def test_tables_of_no_known_form(rules):
    refused(rules, lambda: rules.add_many(pa.table({"where": ["x > 5"]})), "needs a column 'id'")
    refused(
        rules,
        lambda: rules.add_many(pa.table({"id": ["a"], "condition": ["x > 5"]})),
        "id and where", "_low", "long", "'condition'",
    )  # fmt: skip
    refused(rules, lambda: rules.add_many({"id": ["a"]}), "pyarrow.table")
    refused(rules, lambda: rules.add_many(5), "Arrow-compatible", "int")
    table = pa.table({"id": ["a"], "where": [5]})
    refused(rules, lambda: rules.add_many(table), "the column 'where' must be texts")
    table = pa.table({"id": ["a"], "where": pa.array([None], pa.string())})
    refused(rules, lambda: rules.add_many(table), "row 0 (rule 'a')", "the condition is null")
    for form in ({"where": ["x > 5"]}, {"x_low": [5.0]}):
        table = pa.table({"id": ["a"], "weights": [0.5]} | form)
        refused(rules, lambda table=table: rules.add_many(table), "'weights' must be a map")


def test_long_rows(rules):
    def bad(*fragments, **columns):
        good = {"id": ["a", "a", "b"], "attribute": ["x", "n", "x"],
                "low": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 4.0]}  # fmt: skip
        refused(rules, lambda: rules.add_many(pa.table(good | columns)), *fragments)

    bad("row 1 (rule 'a')", "unknown attribute 'm'", attribute=["x", "m", "x"])
    bad("row 1 (rule 'a')", "the attribute is null", attribute=["x", None, "x"])
    bad("row 2 (rule 'b')", "low bound is above", low=[1.0, 2.0, 9.0])
    bad("row 0 (rule 'a')", "NaN", low=[math.nan, 2.0, 3.0])
    bad("row 2 (rule 'b')", "a weight must be a finite number", weight=[1.0, None, -1.0])
    bad("row 2 (rule 'b')", "a weight must be a finite number", weight=[1.0, None, math.nan])
    bad("row 2 (rule 'b')", "does not test", weight=[1.0, 1.0, 1.0], low=[1.0, 1.0, None],
        high=[2.0, 2.0, None])  # fmt: skip
    bad("'weight' must be numbers", weight=["a", "b", "c"])
    bad("attribute 'tier' is a category", attribute=["tier", "n", "x"])
    bad("row 2: rule 'first' exists already", id=["a", "a", "first"])


# ------------------------------------------------------------ events


def test_events_lack_a_column(rules):
    events = pa.table({"X": [6.0], "tire": ["gold"]})
    refused(rules, lambda: rules.match(events), "no column 'tier'", "did you mean 'tire'?")
    events = pa.table({"a": [6.0]})
    refused(rules, lambda: rules.count(events), "no column 'x'", "they have 'a'")


WRONG = {
    "x": [(pa.array(["5"]), "a number", "type string"), (pa.array([True]), "a number", "bool")],
    "n": [(pa.array([5.0]), "an integer", "double"), (pa.array(["5"]), "an integer", "string")],
    "tier": [(pa.array([5]), "a category", "int64"), (pa.array([[1]]), "a category", "list")],
    "active": [(pa.array([1]), "a flag", "int64")],
    "seen": [(pa.array([5]), "a time", "int64"), (pa.array(["2024-01-01"]), "a time", "string")],
}
TESTS = {
    "x": "x > 5",
    "n": "n > 5",
    "tier": "tier = 'a'",
    "active": "active",
    "seen": "seen > '2024'",
}


@pytest.mark.parametrize("name", WRONG)
def test_columns_of_a_wrong_type(name):
    rules = tocsin.Rules(SCHEMA)
    rules.add("only", TESTS[name])
    for column, kind, type_ in WRONG[name]:
        with pytest.raises(tocsin.EventError) as caught:
            rules.match(pa.table({name: column}))
        assert f"attribute {name!r} is {kind}" in str(caught.value)
        assert type_ in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("x", "5", "a number, but the event has str '5'"),
        ("x", True, "a number, but the event has bool True"),
        ("x", [1, 2], "for columns use a table"),
        ("n", 5.0, "an integer, but the event has float 5.0"),
        ("n", 2**63, "64-bit integer"),
        ("tier", 5, "a category, but the event has int 5"),
        ("active", 1, "a flag, but the event has int 1"),
        ("seen", "2024-01-01", "datetime.fromisoformat"),
    ],
)
def test_values_of_a_wrong_type(name, value, fragment):
    rules = tocsin.Rules(SCHEMA)
    rules.add("only", TESTS[name])
    with pytest.raises(tocsin.EventError) as caught:
        rules.match([{}, {name: value}])
    assert "event 1: attribute" in str(caught.value)
    assert fragment in str(caught.value)


def test_events_of_no_known_form(rules):
    refused(rules, lambda: rules.match(5), "Arrow-compatible", "int")
    refused(rules, lambda: rules.match([5]), "event 0 must be a dict", "int")
    refused(rules, lambda: rules.match("x"), "Arrow-compatible", "str")


def test_two_columns_for_one_attribute(rules):
    events = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array(["a"])], ["X", "x ", "tier"])
    refused(rules, lambda: rules.match(events.rename_columns(["X", "X", "tier"])), "2 columns")


def test_maps_of_a_wrong_type(rules):
    entries = pa.array([[("tier", 5.0)]], pa.map_(pa.string(), pa.float64()))
    refused(rules, lambda: rules.match(pa.table({"tags": entries})), "map column 'tags'", "'tier'")


def test_top_and_explain(rules):
    for k in (0, -1, 1.5, True, "3"):
        refused(rules, lambda k=k: rules.top({"x": 1}, k=k), "k must be an integer, 1 or more")
    refused(rules, lambda: rules.explain([{}, {}], "first"), "one event, got 2")
    refused(rules, lambda: rules.top({"x": 1}, weights={"x": -1}), "weights of events", "'x'")
    refused(rules, lambda: rules.top({"x": 1}, weights={"q": 1}), "unknown attribute 'q'")
    refused(rules, lambda: rules.top({"x": 1}, weights=[{}, {}]), "1 events, but weights for 2")
    refused(rules, lambda: rules.top({"x": 1}, weights=5), "expected a dict", "int")
    refused(rules, lambda: rules.top({"x": 1}, weights=[5]), "expected a dict for each", "int")
    maps = pa.array([[("x", -1.0)]], pa.map_(pa.string(), pa.float64()))
    refused(rules, lambda: rules.top({"x": 1}, weights=maps), "weights of events", "'x'", "-1.0")


def test_schemas():
    def bad(attributes, match, **options):
        with pytest.raises(tocsin.SchemaError, match=match):
            tocsin.Schema(attributes, **options)

    bad({"x": "numbr"}, "attribute 'x': the kind must be one of .*; did you mean 'number'?")
    bad({"x": "uuid"}, "got 'uuid'$")
    bad({"x": "number", "X": "number"}, "'X' is declared beside 'x'")
    bad({"": "number"}, "name must be a text")
    bad({5: "number"}, "name must be a text")
    bad(["x"], "a schema must be a dict")
    bad({"x": "number"}, "timezone 'Mars'", timezone="Mars")
    with pytest.raises(tocsin.RuleError, match="there is no index 'gird'"):
        tocsin.Rules({"x": "number"}, index="gird")


# ------------------------------------------------------------ not bad at all


def test_kinds_by_the_names_of_other_systems():
    names = {
        "integer": "int bigint BIGINT smallint long int64 Integer",
        "number": "float double Float64 real number",
        "category": "string str text varchar varchar(20) char(3) STRING",
        "flag": "bool boolean",
        "time": "timestamp date datetime timestamp_ntz timestamp(6)",
    }
    for kind, others in names.items():
        schema = tocsin.Schema({f"a{i}": name for i, name in enumerate(others.split())})
        assert set(schema.kinds) == {kind}
    assert str(tocsin.Schema({"x": "double", "t": "string"})) == "Schema(x: number, t: category)"
    assert tocsin.Schema({"x": "double"}) == tocsin.Schema({"x": "number"})


def test_between_the_wrong_way_round_is_legal_and_never_matches(rules):
    rules.add("never", "x BETWEEN 8 AND 3")
    assert "never" not in rules.match([{"x": v} for v in (2, 3, 5, 8, 9)]).by_rule()
    assert "no event can satisfy" in str(rules.explain({"x": 5}, "never"))


def test_empty_rules():
    rules = tocsin.Rules(SCHEMA)
    events = pa.table({"x": [1.0, 2.0]})
    assert len(rules) == 0
    assert len(rules.match(events)) == 0
    assert rules.match(events).offsets.tolist() == [0, 0, 0]
    assert rules.match(events).to_arrow().num_rows == 0
    assert rules.count(events).tolist() == [0, 0]
    assert len(rules.top(events, 3)) == 0
    assert rules.match({"x": 1}).by_rule() == {}
    assert [len(b) for b in rules.match_blocks(events)] in ([0], [])
    assert str(rules.plan()) == "no rules yet"
    rules.merge()
    rules.add_many(pa.table({"id": pa.array([], pa.string()), "where": pa.array([], pa.string())}))
    times = pa.array([], pa.timestamp("us", tz="UTC"))
    rules.add_many(pa.table({"id": pa.array([], pa.string()), "seen_low": times, "tier_low": []}))
    rules.remove_many([])
    assert list(rules) == []
    assert "0 rules" in repr(rules)


def test_empty_events(rules):
    empty = pa.table({"x": pa.array([], pa.float64()), "tier": pa.array([], pa.string())})
    for events in (empty, []):
        assert len(rules.match(events)) == 0
        assert rules.match(events).offsets.tolist() == [0]
        assert rules.count(events).tolist() == []
        assert len(rules.top(events, 3)) == 0
        assert list(rules.match_blocks(events)) == []


def test_other_spellings_of_spark():
    rules = tocsin.Rules(SCHEMA)
    event = {
        "x": 6.0, "n": 5, "tier": "it's", "active": True,
        "seen": datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC),
    }  # fmt: skip
    spellings = [
        "active", "NOT NOT active", "active = TRUE", "active IS TRUE", "active IS NOT FALSE",
        "5 < x", "5 = n", "n == 5", "n <=> 5", "NOT n <=> NULL", "temp <=> NULL",
        "n <> 4", "n != 4",
        "N = 5", "`n` = 5", "TIER = 'it\\'s'", "tier = 'it''s'", 'tier = "it\'s"',
        "seen = '2024-05-01 12:30:00'", "seen = '2024-05-01T12:30:00Z'",
        "seen = '2024-05-01T14:30:00+02:00'", "seen > '2024-05-01'", "seen > DATE '2024-05-01'",
        "seen = TIMESTAMP '2024-05-01 12:30:00'", "seen < '2025'", "seen >= '2024-05'",
        "n = 2 + 3", "n = 10 - 5", "x = 2 * 3", "x = 1.5 * 4", "n > -5", "n = +5", "n = 5L",
        "x > 5.5D", "x = 6BD", "x > 5 -- a comment", "x /* another */ > 5", "TRUE", "1 = 1",
        "n IN (5)", "n NOT IN (6, 7)", "temp IS NULL", "n IS NOT NULL", "x < CAST('NaN' AS DOUBLE)",
        "x BETWEEN 6 AND 6", "NOT x BETWEEN 7 AND 9", "(((x > 5)))", "! (x < 5)",
        "n IS DISTINCT FROM 6", "n IS NOT DISTINCT FROM 5",
    ]  # fmt: skip
    for spelling in spellings:
        rules.add(spelling, spelling)
    matched = rules.match(event).by_rule()
    assert [s for s in spellings if s not in matched] == []


def test_numpy_values_and_ids():
    rules = tocsin.Rules(SCHEMA)
    rules.add(np.int64(3), "n > 2 AND x > 1 AND active AND seen > '2024'")
    event = {"n": np.int32(5), "x": np.float32(2), "active": np.True_,
             "seen": np.datetime64("2025-01-01T00:00:00.000000001")}  # fmt: skip
    assert rules.match(event).to_arrow()["rule"].to_pylist() == [3]
    assert len(rules.match(event | {"seen": np.datetime64("NaT")})) == 0


# ------------------------------------------------------------ what was given twice, or in two ways


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"where": ["x > 1"], "x_low": [3.0]}, "'where' (text) and 'x_low' (boxes)"),
        ({"where": ["x > 1"], "X_HIGH": [3.0], "n_low": [1]}, "'X_HIGH', 'n_low' (boxes)"),
        (
            {"where": ["x > 1"], "attribute": ["x"], "low": [3.0]},
            "'where' (text) and 'attribute', 'low' (long)",
        ),
        (
            {"attribute": ["x"], "low": [3.0], "high": [4.0], "n_low": [1]},
            "'n_low' (boxes) and 'attribute', 'low', 'high' (long)",
        ),
    ],
)
def test_a_table_of_two_forms(rules, columns, words):
    table = pa.table({"id": ["a"]} | columns)
    refused(rules, lambda: rules.add_many(table), "mixes two forms of rules", words, "payload")


def test_columns_that_only_look_like_another_form_are_payload(rules):
    columns = {"price_low": [3.0], "low": [1], "attribute": ["x"]}
    rules.add_many(pa.table({"id": ["a"], "where": ["x > 5"], "price_low": [3.0], "low": [1]}))
    assert rules["a"].payload == {"price_low": 3.0, "low": 1}
    rules.add_many(pa.table({"id": ["b"], "where": ["x > 5"], "attribute": ["x"]}))
    assert rules["b"].payload == {"attribute": columns["attribute"][0]}


def long_rows(weights, attributes=("x", "x", "n")):
    return pa.table(
        {
            "id": ["a"] * 3,
            "attribute": list(attributes),
            "low": [1.0, None, 2.0],
            "high": [None, 9.0, 3.0],
            "weight": pa.array(weights, pa.float64()),
        }
    )


def test_long_rows_with_two_weights_for_one_attribute(rules):
    words = "row 0 (rule 'a'): the rows for this attribute have different weights, 0.25 and 0.5"
    refused(rules, lambda: rules.add_many(long_rows([0.5, 0.25, 1])), words)
    refused(rules, lambda: rules.add_many(long_rows([0.5, 0.25, 1], ["x", "X", "n"])), words)


@pytest.mark.parametrize("weights", [[0.5, 0.5, 2], [0.5, None, 2], [None, 0.5, 2]])
def test_long_rows_with_one_weight_for_one_attribute(rules, weights):
    rules.add_many(long_rows(weights))
    assert rules["a"].weights == {"x": 0.5, "n": 2.0}
    assert rules.top({"x": 5, "n": 2}).scores.tolist() == [2.5]


def test_two_weights_for_one_attribute(rules):
    words = "attribute 'x' has two weights, 0.5 and 0.7"
    two = {"x": 0.5, "X": 0.7}
    refused(rules, lambda: rules.add("a", "x > 1", weights=two), "rule 'a'", words)
    maps = pa.array([[], [("x", 0.5), ("X", 0.7)]], pa.map_(pa.string(), pa.float64()))
    again = pa.array([[], [("x", 0.5), ("x", 0.7)]], pa.map_(pa.string(), pa.float64()))
    for weights in (maps, again):
        for form in ({"where": ["x > 1"] * 2}, {"x_low": [1.0, 2.0]}):
            table = pa.table({"id": ["a", "b"], "weights": weights} | form)
            refused(rules, lambda table=table: rules.add_many(table), "row 1 (rule 'b')", words)


# ------------------------------------------------------------ hints that help


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        (float, "number"),
        (str, "category"),
        ("numeric", "number"),
        ("numbr", "number"),
    ],
)
def test_a_kind_that_is_meant(kind, meant):
    with pytest.raises(tocsin.SchemaError, match=f"did you mean '{meant}'"):
        tocsin.Schema({"x": kind})


def test_a_kind_that_is_none():
    for kind in (None, ["number"], {"kind": "number"}, 5):
        with pytest.raises(tocsin.SchemaError, match="the kind must be one of integer, number"):
            tocsin.Schema({"x": kind})


def test_a_number_in_quotes_is_a_number_in_quotes():
    rules = tocsin.Rules({"n": "integer", "name": "category", "n_label": "category"})
    refused(rules, lambda: rules.add("a", "n = '5'"), "leave out the quotes if a number is meant")
    refused(rules, lambda: rules.add("a", "n = '-5.5'"), "leave out the quotes")
    refused(rules, lambda: rules.add("a", "n = 'five'"), "did you mean 'n_label'?")
    plain = tocsin.Rules({"n": "integer", "name": "category"})
    message = refused(plain, lambda: plain.add("a", "n = 'five'"), "leave out the quotes")
    assert "name" not in message


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("\"tier\" <> 'UA'", "write tier or `tier` for the attribute, 'tier' for the text"),
        ("\"TIER\" = 'UA'", "there is also an attribute"),
        ("x > 5 AND 'UA' = \"tier\"", "column 18"),
        ('tier = "active"', "there is also an attribute"),
        ("tier IN ('a', \"x\")", "there is also an attribute"),
        ("\"tear\" <> 'UA'", "double quotes are for texts, as in Spark"),
        ("\"tier\" IN ('UA')", "write an attribute's name bare or in backquotes"),
        ('"tier" IS NULL', "write an attribute's name bare or in backquotes"),
        ('"x" BETWEEN 1 AND 2', "write an attribute's name bare or in backquotes"),
    ],
)
def test_names_in_double_quotes(rules, where, words):
    refused(rules, lambda: rules.add("a", where), words)


def test_texts_in_double_quotes_are_texts(rules):
    rules.add("a", 'tier = "gold"')
    rules.add("b", "tier IN (\"it's\", 'gold')")
    rules.add("c", "'a' = 'a'")
    assert set(rules.match({"x": 1, "tier": "gold"}).by_rule()) == {"a", "b", "c"}


def test_digits_that_are_none(rules):
    for _ in range(2):  # also once a text of the same shape was read
        for where in ("x > \u0663", "x > 3\u0663", "x > \u0663.5", "n IN (1, \u0663)"):
            refused(rules, lambda where=where: rules.add("a", where), "rule 'a'")
        rules.add("b", "x > 3")
        rules.add("c", "n IN (1, 3)")
        rules.remove_many(["b", "c"])


def test_names_with_letters_of_all_scripts():
    rules = tocsin.Rules({"gr\u00f6\u00dfe1": "number", "\u00e9t\u00e92": "integer"})
    for i in range(3):
        rules.add(i, f"gr\u00f6\u00dfe1 > {i} AND \u00e9t\u00e92 = {i}")
    assert list(rules.match({"gr\u00f6\u00dfe1": 5, "\u00e9t\u00e92": 1})) == [(0, 1)]


def test_a_condition_that_spells_out_to_very_much(rules):
    for times, words in ((11, "2,048"), (1_000, "over 1,000,000"), (4_000, "over 1,000,000")):
        where = " AND ".join(["(x = 1 OR n = 2)"] * times)
        message = refused(
            rules, lambda where=where: rules.add("a", where), f"expands to {words} conjunctions"
        )
        assert len(message) < 1_000


LONG = "a" * 320_000


@pytest.mark.parametrize(
    "call",
    [
        lambda rules: rules.add("b", f"tier = '{LONG}' AND x > "),
        lambda rules: rules.add("b", f"x = '{LONG}'"),
        lambda rules: rules.add("b", f"x = 1 AND {LONG} = 5"),
        lambda rules: rules.add("b", "x > 1 AND " * 8_000 + "zz > 5"),
        lambda rules: rules.add("b", f"tier = howl('{LONG}')"),
        lambda rules: rules.add("b", f"seen > '{LONG}'"),
        lambda rules: rules.add("b", f"x > {LONG.replace('a', '9')}"),
        lambda rules: rules.add("b", LONG + "\ud800"),
        lambda rules: rules.add(LONG, "zz > 1"),
        lambda rules: rules.remove(LONG),
        lambda rules: rules.match({"x": LONG}),
        lambda rules: rules.add_many([{"id": LONG, "where": "x >"}]),
        lambda rules: rules.add_many([{"id": "c", "where": f"tier = '{LONG}' AND"}]),
        lambda rules: rules.add("b", "x > 1", payload=LONG),
        lambda rules: tocsin.Rules({LONG: "color"}),
    ],
)
def test_messages_stay_short(rules, call):
    with pytest.raises(tocsin.TocsinError) as caught:
        call(rules)
    assert len(str(caught.value)) < 2_200


def test_the_trouble_is_shown_in_a_long_line(rules):
    where = "x > 1 AND " * 1_000 + "zz > 5" + " AND x > 2" * 1_000
    message = refused(rules, lambda: rules.add("b", where), "(line 1, column 10001)")
    text, carets = message.splitlines()[-2:]
    assert len(text) < 200
    assert text[carets.index("^") :].startswith("zz > 5 AND")
    assert carets.strip() == "^^"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("tier = gold", "unknown attribute 'gold'; if the text is meant, write 'gold' in quotes"),
        ("gold = tier", "unknown attribute 'gold'"),
        ("tier IN (gold, 'black')", "unknown attribute 'gold'; if the text is meant"),
        ("x BETWEEN lowest AND 5", "unknown attribute 'lowest'"),
    ],
)
def test_texts_without_quotes(rules, where, words):
    refused(rules, lambda: rules.add("a", where), words)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"x_low": [1.0], "x_hgh": [2.0]},
            "column 'x_low' has no 'x_high' beside it, but there is a column 'x_hgh'",
        ),
        (
            {"X_HIGH": [1.0], "x_lo": [2.0]},
            "'X_HIGH' has no 'x_low' beside it, but there is a column 'x_lo'",
        ),
        ({"z_low": [1.0], "z_high": [2.0]}, "the schema has no attribute 'z'"),
    ],
)
def test_bounds_that_are_misspelled(rules, columns, words):
    refused(rules, lambda: rules.add_many(pa.table({"id": ["a"]} | columns)), words)


def test_one_bound_beside_payload(rules):
    rules.add_many(pa.table({"id": ["a"], "x_low": [1.0], "team": ["red"]}))
    assert rules["a"].payload == {"team": "red"}
