"""Which columns of the events are kept, needed and added; names are resolved as in Spark."""

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


def expect_error(message, *arguments, **options):
    with pytest.raises(tocsin.TocsinError, match=message):
        tocsin.spark.match(*arguments, **options)


def test_no_column_twice(spark, rules):
    frame = spark.sql("SELECT 1D AS x, 5 AS y, map('x', 1D) AS w, 6 AS `Rule`, 7 AS `Team`")
    expect_error("keep names the column 'y' twice", frame, rules, keep=["y", "y"])
    expect_error("keep names the column 'y' twice", frame, rules, keep=["y", "x", "Y"])
    expect_error("payload names the column 'team' twice", frame, rules, payload=["team", "team"])
    expect_error("payload names the column 'Team' twice", frame, rules, payload=["team", "Team"])
    added = "one is added by matching, one is "
    expect_error(f"two columns 'Rule' .*: {added}kept", frame, rules)
    expect_error(
        f"two columns 'rule' .*: {added}payload", frame, rules, keep=["x"], payload=["rule"]
    )
    expect_error("one is kept, one is payload", frame, rules, keep=["x"], payload=["x"])
    expect_error("one is kept, one is payload", frame, rules, keep=["Team"], payload=["team"])
    assert tocsin.spark.match(frame, rules, how="count").columns[-2:] == ["Team", "matches"]
    # A column may be kept, tested and hold the weights.
    options = {"how": "top", "k": 1, "keep": ["W", "X"], "payload": ["team"]}
    matches = tocsin.spark.match(frame, rules, weights="W", **options)
    assert matches.columns == ["w", "x", "rule", "score", "team"]
    assert rows(matches) == [({"x": 1.0}, 1.0, "a", 1.0, "red")]


def test_rules_version_is_an_added_column(spark, rules, tmp_path):
    rules.copy().save(tmp_path / "store")
    frame = spark.sql("SELECT 1D AS x, 5 AS `RULES_version`")
    expect_error("two columns 'RULES_version'", frame, tmp_path / "store", rules_version=True)
    assert tocsin.spark.match(frame, tmp_path / "store").columns == ["x", "RULES_version", "rule"]


def test_columns_that_cannot_be_selected_matter_only_where_needed(spark, rules):
    wide = spark.sql("SELECT 1D AS x, 1 AS a, 2 AS a, 3 AS b, 4 AS `B`, 5 AS n")
    frame = wide.toDF("x", "a", "a", "b", "B", "")
    texts = spark.sql("SELECT 'a' AS id, 'x > 0' AS where")
    for source in (rules, texts):
        assert rows(tocsin.spark.match(frame, source, keep=["x"])) == [(1.0, "a")]
        assert rows(tocsin.spark.match(frame, source, keep=[])) == [("a",)]
    expect_error(r"the events have 2 columns 'a'; .*keep=\[", frame, rules)
    expect_error("keep: the events have 2 columns 'A'; rename", frame, rules, keep=["A"])
    expect_error(
        "have the columns 'b' and 'B', and names are case-insensitive", frame, rules, keep=["b"]
    )
    expect_error("column 5 of the events has no name", frame, rules, keep=[""])
    expect_error(r"column 1 of the events has no name.*keep=\[", frame.select("x", "``"), rules)
    weights = {"how": "top", "k": 1, "weights": "a"}
    expect_error("weights: the events have 2 columns", frame, rules, keep=[], **weights)
    own = tocsin.Rules({"a": "integer", "x": "number"})
    own.add(1, "a > 0")
    expect_error("the events have 2 columns 'a'", frame, own, keep=["x"])
    tests_b = spark.sql("SELECT 'a' AS id, 'b > 0' AS where")
    expect_error("'b' is the name of more than one column", frame, tests_b, keep=["x"])


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
    expect_error(
        "no column 'x', which a rule tests", frame.select("w"), rules, weights="w", **options
    )


def test_maps_that_no_rule_needs_are_left_alone(spark, rules):
    frame = spark.sql("SELECT 1D AS x, map('x', 'text') AS m, map('x', 'text') AS m")
    assert rows(tocsin.spark.match(frame, rules, keep=["x"])) == [(1.0, "a")]
    rules = tocsin.Rules({"y": "number"})
    rules.add("b", "y > 0")
    expect_error("the events have 2 columns 'm'", frame, rules, keep=["x"])


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM"])
def test_texts_with_a_collation_are_not_tested(spark, collation, tmp_path):
    frame = spark.sql(
        f"SELECT 1D AS x, 'A' COLLATE {collation} AS t, map('u', 'A' COLLATE {collation}) AS m"
    )
    rules = tocsin.Rules({"t": "category", "u": "category", "x": "number"})
    rules.add("x", "x > 0")
    rules.copy().save(tmp_path / "store")
    matches = tocsin.spark.match(frame, rules)
    assert matches.dtypes[:-1] == frame.dtypes
    assert rows(matches) == [(1.0, "A", {"u": "A"}, "x")]
    stream = spark.readStream.schema(frame.schema).format("parquet").load(str(tmp_path))
    expect_error(f"'t' is a column of type string collate {collation}", stream, tmp_path / "store")
    texts = spark.sql("SELECT 't' AS id, \"t = 'a'\" AS where")
    expect_error(f"'t' is a column of type string collate {collation}", frame, texts)
    rules.add("u", "u = 'a'")
    expect_error("'m' may hold attributes .* byte by byte; cast it", frame, rules)
    rules.add("t", "t = 'a'")
    expect_error(f"'t' is a column of type string collate {collation}.*cast", frame, rules)
    cast = frame.selectExpr("x", "CAST(t AS STRING)", "CAST(m AS map<string, string>)")
    assert rows(tocsin.spark.match(cast, rules, keep=[])) == [("x",)]
    bounds = spark.sql(
        f"SELECT 1 AS id, 'A' COLLATE {collation} AS t_low, 'A' COLLATE {collation} AS t_high"
    )
    expect_error("the bounds 't_low' are of type string collate", cast, bounds)
    texts = texts.selectExpr("*", f"'p' COLLATE {collation} AS flow")
    assert tocsin.spark.match(cast, texts, payload=["flow"]).columns[-1] == "flow"


def test_a_collation_hides_a_column_from_live_rules(spark, tmp_path):
    """Attributes that a store declares later do not use a column with a collation."""
    from tests.spark.test_live_rules import planned

    rules = tocsin.Rules({"x": "number"})
    rules.add("x", "x > 0")
    rules.save(tmp_path / "store")
    frame = spark.sql("SELECT 1D AS x, 'A' COLLATE UTF8_LCASE AS t, 'B' AS u")
    stream = spark.readStream.schema(frame.schema).format("parquet").load(str(tmp_path))
    columns, (_, _, hidden) = planned(stream, tmp_path / "store")
    assert (columns, hidden) == (["x", "t", "u"], ["t"])


# ------------------------------------------------------------ reported before a job runs


@pytest.mark.parametrize(
    "sql", ["INTERVAL '3' MONTH", "array(INTERVAL '3' YEAR)", "make_interval(1)"]
)
def test_columns_that_cannot_reach_a_worker(spark, sql):
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 2")
    frame = spark.sql(f"SELECT 'a' AS id, 3D AS x, 1D AS low, 2D AS high, {sql} AS m")
    match, uncertain = tocsin.spark.match, tocsin.spark.uncertain
    for call in [
        lambda: match(frame, rules),
        lambda: tocsin.spark.similarity_join(frame, frame, ["x"], 1.0),
        lambda: uncertain.minimum(frame, keep=["m"]),
        lambda: uncertain.total(frame, by=["m"]),
        lambda: uncertain.value(frame, keep=["m"]),
    ]:
        with pytest.raises(tocsin.EventError, match=r"column 'm' is of type .* cannot pass to"):
            call()
    assert match(frame, rules, keep=["id"]).collect() == [("a", 1)]


@pytest.mark.parametrize(
    ("schema", "where", "sql", "message"),
    [
        ("number", "x > 2", "map('x', 'a') AS w", "map column 'w': attribute 'x' is a number"),
        (
            "time",
            "x > '2024-01-01'",
            "map('x', 1D) AS w",
            "map column 'w': attribute 'x' is a time",
        ),
        ("number", "x > 2", "map('x', struct(1D AS lo)) AS w", "of type struct<lo:double>"),
        ("number", "x > 2", "map('x', array(1D)) AS w", "map column 'w': attribute 'x'"),
        ("number", "x > 2", "map('x', INTERVAL '3' MONTH) AS w", "cannot pass to Python"),
        ("struct<a: double>", "x.a > 2", "struct('a' AS a) AS x", "'x': the events' column is of"),
        ("struct<a: double>", "x.a > 2", "struct(1D AS b) AS x", "no field 'a'"),
        (
            "map<string, double>",
            "x['k'] > 2",
            "map('k', 'a') AS x",
            "'x': the events' column is of",
        ),
    ],
)
def test_values_in_maps_and_structs_of_a_wrong_type(spark, schema, where, sql, message):
    rules = tocsin.Rules({"x": schema})
    rules.add(1, where)
    with pytest.raises(tocsin.EventError) as error:
        tocsin.spark.match(spark.sql(f"SELECT {sql}"), rules, keep=[])
    assert message in str(error.value)


def test_one_of_several_maps_has_the_attribute(spark):
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 2")
    for sql in ["map('y', 'a') AS texts, map('x', 3) AS numbers", "map('x', NULL) AS nothing"]:
        found = tocsin.spark.match(spark.sql(f"SELECT 7 AS e, {sql}"), rules, keep=["e"]).collect()
        assert found == ([(7, 1)] if "numbers" in sql else [])
