"""Which columns of the events are kept, needed and added; found by name as Spark finds them."""

import pytest

import tocsin
import tocsin.spark


@pytest.fixture(scope="module")
def rules():
    rules = tocsin.Rules({"x": "number"})
    rules.add("a", "x > 0", payload={"team": "red", "Team": "blue", "rule": 7, "x": 8})
    return rules


def rows(frame):
    return sorted(map(tuple, frame.collect()))


def refused(message, *arguments, **options):
    with pytest.raises(tocsin.TocsinError, match=message):
        tocsin.spark.match(*arguments, **options)


def test_no_column_twice(spark, rules):
    frame = spark.sql("SELECT 1D AS x, 5 AS y, map('x', 1D) AS w, 6 AS `Rule`, 7 AS `Team`")
    refused("keep names the column 'y' twice", frame, rules, keep=["y", "y"])
    refused("keep names the column 'y' twice", frame, rules, keep=["y", "x", "Y"])
    refused("payload names the column 'team' twice", frame, rules, payload=["team", "team"])
    refused("payload names the column 'Team' twice", frame, rules, payload=["team", "Team"])
    added = "one is added by matching, one is "
    refused(f"two columns 'Rule' .*: {added}kept", frame, rules)
    refused(f"two columns 'rule' .*: {added}payload", frame, rules, keep=["x"], payload=["rule"])
    refused("one is kept, one is payload", frame, rules, keep=["x"], payload=["x"])
    refused("one is kept, one is payload", frame, rules, keep=["Team"], payload=["team"])
    assert tocsin.spark.match(frame, rules, how="count").columns[-2:] == ["Team", "matches"]
    # A column may be kept, tested and hold the weights.
    options = {"how": "top", "k": 1, "keep": ["W", "X"], "payload": ["team"]}
    found = tocsin.spark.match(frame, rules, weights="W", **options)
    assert found.columns == ["w", "x", "rule", "score", "team"]
    assert rows(found) == [({"x": 1.0}, 1.0, "a", 1.0, "red")]


def test_rules_version_is_a_column_that_is_added(spark, rules, tmp_path):
    rules.copy().save(tmp_path / "store")
    frame = spark.sql("SELECT 1D AS x, 5 AS `RULES_version`")
    refused("two columns 'RULES_version'", frame, tmp_path / "store", rules_version=True)
    assert tocsin.spark.match(frame, tmp_path / "store").columns == ["x", "RULES_version", "rule"]


def test_columns_that_cannot_be_selected_matter_only_where_needed(spark, rules):
    wide = spark.sql("SELECT 1D AS x, 1 AS a, 2 AS a, 3 AS b, 4 AS `B`, 5 AS n")
    frame = wide.toDF("x", "a", "a", "b", "B", "")
    texts = spark.sql("SELECT 'a' AS id, 'x > 0' AS where")
    for given in (rules, texts):
        assert rows(tocsin.spark.match(frame, given, keep=["x"])) == [(1.0, "a")]
        assert rows(tocsin.spark.match(frame, given, keep=[])) == [("a",)]
    refused(r"the events have 2 columns 'a'; .*keep=\[", frame, rules)
    refused("keep: the events have 2 columns 'A'; rename", frame, rules, keep=["A"])
    refused(
        "have the columns 'b' and 'B', and names are case-insensitive", frame, rules, keep=["b"]
    )
    refused("column 5 of the events has no name", frame, rules, keep=[""])
    refused(r"column 1 of the events has no name.*keep=\[", frame.select("x", "``"), rules)
    weights = {"how": "top", "k": 1, "weights": "a"}
    refused("weights: the events have 2 columns", frame, rules, keep=[], **weights)
    own = tocsin.Rules({"a": "integer", "x": "number"})
    own.add(1, "a > 0")
    refused("the events have 2 columns 'a'", frame, own, keep=["x"])
    tests_b = spark.sql("SELECT 'a' AS id, 'b > 0' AS where")
    refused("'b' is the name of more than one column", frame, tests_b, keep=["x"])


def test_no_column_can_be_selected(spark):
    rules = tocsin.Rules({"x": "number"})
    rules.add("all", "TRUE")
    frame = spark.sql("SELECT 1 AS a, 2 AS a UNION ALL SELECT 3, 4")
    assert rows(tocsin.spark.match(frame, rules, keep=[])) == [("all",), ("all",)]


def test_weights_are_no_attributes(spark):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("seven", "x = 7")
    rules.add("two", "x = 2")
    frame = spark.sql("SELECT map('x', 7D) AS attributes, map('x', 2D) AS w")
    options = {"keep": [], "how": "top", "k": 5}
    assert rows(tocsin.spark.match(frame, rules, weights="w", **options)) == [("seven", 2.0)]
    refused("no column 'x', which a rule tests", frame.select("w"), rules, weights="w", **options)


def test_maps_that_no_rule_needs_are_left_alone(spark, rules):
    frame = spark.sql("SELECT 1D AS x, map('x', 'text') AS m, map('x', 'text') AS m")
    assert rows(tocsin.spark.match(frame, rules, keep=["x"])) == [(1.0, "a")]
    rules = tocsin.Rules({"y": "number"})
    rules.add("b", "y > 0")
    refused("the events have 2 columns 'm'", frame, rules, keep=["x"])


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM"])
def test_texts_with_a_collation_are_not_tested(spark, collation, tmp_path):
    frame = spark.sql(
        f"SELECT 1D AS x, 'A' COLLATE {collation} AS t, map('u', 'A' COLLATE {collation}) AS m"
    )
    rules = tocsin.Rules({"t": "category", "u": "category", "x": "number"})
    rules.add("x", "x > 0")
    rules.copy().save(tmp_path / "store")
    found = tocsin.spark.match(frame, rules)
    assert found.dtypes[:-1] == frame.dtypes
    assert rows(found) == [(1.0, "A", {"u": "A"}, "x")]
    stream = spark.readStream.schema(frame.schema).format("parquet").load(str(tmp_path))
    refused(f"'t' is a column of type string collate {collation}", stream, tmp_path / "store")
    texts = spark.sql("SELECT 't' AS id, \"t = 'a'\" AS where")
    refused(f"'t' is a column of type string collate {collation}", frame, texts)
    rules.add("u", "u = 'a'")
    refused("'m' may hold attributes .* byte by byte; cast it", frame, rules)
    rules.add("t", "t = 'a'")
    refused(f"'t' is a column of type string collate {collation}.*cast", frame, rules)
    cast = frame.selectExpr("x", "CAST(t AS STRING)", "CAST(m AS map<string, string>)")
    assert rows(tocsin.spark.match(cast, rules, keep=[])) == [("x",)]
    bounds = spark.sql(
        f"SELECT 1 AS id, 'A' COLLATE {collation} AS t_low, 'A' COLLATE {collation} AS t_high"
    )
    refused("the bounds 't_low' are of type string collate", cast, bounds)
    texts = texts.selectExpr("*", f"'p' COLLATE {collation} AS flow")
    assert tocsin.spark.match(cast, texts, payload=["flow"]).columns[-1] == "flow"


def test_a_collation_hides_a_column_from_live_rules(spark, tmp_path):
    """An attribute that a store declares later must not be found in a column with a collation."""
    from tests.spark.test_live_rules import planned

    rules = tocsin.Rules({"x": "number"})
    rules.add("x", "x > 0")
    rules.save(tmp_path / "store")
    frame = spark.sql("SELECT 1D AS x, 'A' COLLATE UTF8_LCASE AS t, 'B' AS u")
    stream = spark.readStream.schema(frame.schema).format("parquet").load(str(tmp_path))
    _, options = planned(stream, tmp_path / "store")
    assert (options.columns, options.hidden) == (["x", "t", "u"], ["t"])
