"""Matching on Spark gives the same result as matching in one process, for any partitions."""

import datetime
import decimal
import random
import shutil

import polars
import pyarrow as pa
import pytest

import tocsin
import tocsin.spark
from tests import generate, naive
from tocsin.engine.request import MatchRequest
from tocsin.engine.result import ResultBuilder
from tocsin.spark import worker
from tocsin.spark.types import SPARK_TYPES


@pytest.fixture(scope="module")
def case(spark):
    rng = random.Random(11)
    rules = tocsin.Rules(generate.SCHEMA)
    for number in range(200):
        rules.add(f"r{number}", naive.sql(generate.condition(rng, 1), rng))
    table = generate.arrow_table([generate.event(rng) for _ in range(500)])
    table = table.append_column("row", pa.array(range(500)))
    return rules, table, spark.createDataFrame(table)


def pairs(frame, value="rule"):
    table = frame.toArrow()
    return sorted(zip(table["row"].to_pylist(), table[value].to_pylist(), strict=True))


def expected(rules, table):
    return sorted(rules.match(table))


@pytest.mark.parametrize("partitions", [1, 3])
def test_all(case, partitions):
    rules, table, frame = case
    matches = tocsin.spark.match(frame.repartition(partitions), rules, keep=["row"])
    assert matches.columns == ["row", "rule"]
    assert pairs(matches) == expected(rules, table)
    assert len(expected(rules, table)) > 1000


def test_ranges(spark):
    """A struct of low and high is a range, in a column or in a map."""
    numbers, integers = (f"struct<high: {t}, low: {t}>" for t in ("double", "int"))
    frame = spark.createDataFrame(
        [
            (0, (9.0, 4.5), (3, 1), {"z": (2.0, 1.0)}),
            (1, (3.0, 1.0), (4, 1), {}),
            (2, None, None, None),
        ],
        f"row int, x {numbers}, n {integers}, also map<string, {numbers}>",
    )
    rules = tocsin.Rules({"x": "number", "n": "integer", "z": "number"})
    rules.add("x", "x BETWEEN 5 AND 6")
    rules.add("n", "n NOT IN (1, 2, 3)")
    rules.add("z", "z = 1.5")
    rules.add("null", "x IS NULL")
    expected_rows = [(0, "x"), (0, "z"), (1, "n"), (2, "null")]
    assert pairs(tocsin.spark.match(frame, rules, keep=["row"])) == expected_rows
    assert sorted(rules.match(frame.toArrow())) == expected_rows
    texts = spark.createDataFrame([("r", "x > 8.5 AND n > 2")], "id string, where string")
    assert pairs(tocsin.spark.match(frame.drop("also"), texts, keep=["row"])) == [(0, "r")]


def test_lists_and_counts(case):
    rules, table, frame = case
    lists = tocsin.spark.match(frame.repartition(3), rules, keep=["row"], output="lists").toArrow()
    by_event = {e: sorted(r) for e, r in zip(*(c.to_pylist() for c in lists.columns), strict=True)}
    expected_rows = {e: [] for e in range(500)}
    for event, rule in expected(rules, table):
        expected_rows[event].append(rule)
    assert by_event == expected_rows
    counts = tocsin.spark.match(frame.repartition(3), rules, how="count", keep=["row"])
    assert pairs(counts, "matches") == list(enumerate(rules.count(table).tolist()))


def test_top(case):
    rules, table, frame = case
    common = {"visits": 3.0, "tier": 0.5}
    for weights in (None, common):
        matches = tocsin.spark.match(frame, rules, how="top", k=3, keep=["row"], weights=weights)
        expected_rows = rules.top(table, 3, weights=weights).to_arrow()
        sorted_rows = matches.toArrow().sort_by("row")
        assert matches.columns == ["row", "rule", "score"]
        assert sorted(zip(*(c.to_pylist() for c in sorted_rows.columns), strict=True)) == sorted(
            zip(*(c.to_pylist() for c in expected_rows.columns), strict=True)
        )
    lists = tocsin.spark.match(frame, rules, how="top", k=3, keep=["row"], output="lists")
    assert lists.columns == ["row", "rules", "scores"]
    best = {row["row"]: (row["rules"], row["scores"]) for row in lists.collect()}
    top = rules.top(table, 3)
    ids = top.ids().to_pylist()
    for event in range(500):
        span = slice(int(top.offsets[event]), int(top.offsets[event + 1]))
        assert best[event] == (ids[span], top.scores[span].tolist())


def test_weights_in_a_column(spark):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("a", "x > 0")
    rules.add("b", "y > 0")
    frame = spark.sql(
        "SELECT * FROM VALUES (0, 1D, 1D, map('y', 2D)), (1, 1D, 1D, NULL) AS t(row, x, y, w)"
    )
    matches = tocsin.spark.match(frame, rules, how="top", k=1, keep=["row"], weights="w")
    assert pairs(matches) == [(0, "b"), (1, "a")]


def test_rules_from_a_store_and_from_a_frame(case, tmp_path, spark):
    rules, table, frame = case
    rules.copy().save(tmp_path / "store")
    matches = tocsin.spark.match(frame, tmp_path / "store", keep=["row"])
    assert pairs(matches) == expected(rules, table)
    store = tocsin.RuleStore(tmp_path / "store")
    store.remove_many([i for i in rules if i != "r0"])
    assert {r for _, r in pairs(tocsin.spark.match(frame, str(store.path), keep=["row"]))} <= {"r0"}
    assert pairs(matches) == expected(rules, table), "a batch query keeps its version"
    texts = spark.createDataFrame([(1, "price > 0"), (2, "tier IS NULL")], "id INT, where STRING")
    matches = tocsin.spark.match(frame, texts, keep=["row"])
    own = tocsin.Rules(generate.SCHEMA)
    own.add(1, "price > 0")
    own.add(2, "tier IS NULL")
    assert pairs(matches) == expected(own, table)
    assert dict(matches.dtypes)["rule"] == "bigint"


def test_rules_are_frozen_at_the_call(case):
    _, _, frame = case
    rules = tocsin.Rules(generate.SCHEMA)
    rules.add(1, "TRUE")
    matches = tocsin.spark.match(frame, rules, keep=["row"])
    rules.remove(1)
    rules.add(2, "TRUE")
    assert {r for _, r in pairs(matches)} == {1}
    assert {r for _, r in pairs(tocsin.spark.match(frame, rules, keep=["row"]))} == {2}


def test_payload_and_version(spark, tmp_path):
    rules = tocsin.Rules({"x": "number"})
    when = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    rules.add(1, "x > 0", payload={"team": "red", "since": when, "tags": ["a"]})
    rules.add(2, "x > 1", payload={"team": "blue", "rank": 7})
    rules.add_many(pa.table({"id": [3], "x_low": [0.0], "team": pa.array(["k"], pa.string_view())}))
    rules.save(tmp_path / "store")
    frame = spark.sql("SELECT 2D AS x")
    names = ["team", "rank", "since", "tags"]
    for source in (rules, tmp_path / "store"):
        matches = tocsin.spark.match(frame, source, keep=[], payload=names).toArrow().to_pylist()
        assert sorted(matches, key=lambda r: r["rule"]) == [
            {"rule": 1, "team": "red", "rank": None, "since": when, "tags": ["a"]},
            {"rule": 2, "team": "blue", "rank": 7, "since": None, "tags": None},
            {"rule": 3, "team": "k", "rank": None, "since": None, "tags": None},
        ]
    matches = tocsin.spark.match(frame, tmp_path / "store", rules_version=True)
    assert matches.columns == ["x", "rule", "rules_version"]
    assert {row["rules_version"] for row in matches.collect()} == {1}
    counted = tocsin.spark.match(frame, tmp_path / "store", how="count", rules_version=True)
    assert counted.toArrow().to_pylist() == [{"x": 2.0, "matches": 3, "rules_version": 1}]


def test_kept_columns_keep_their_types(spark):
    frame = spark.sql(
        """SELECT * FROM VALUES
        (1D, 12.50BD, TIMESTAMP '2024-05-01 12:00:00', TIMESTAMP_NTZ '2024-05-01 12:00:00',
         DATE '2024-05-01', array(1, NULL), map('a', 1), named_struct('p', 'q', 'r', array(1.5D)),
         X'00FF', 7S, CAST(NULL AS BIGINT), TRUE, 1.5F, 'text'),
        (9D, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(x, dec, ts, ntz, d, arr, m, s, bin, small, big, flag, f, txt)"""
    )
    rules = tocsin.Rules({"x": "number"})
    rules.add("any", "x > 0")
    rules.add("high", "x > 5")
    matches = tocsin.spark.match(frame, rules)
    assert matches.dtypes[:-1] == frame.dtypes
    rows = {(r["x"], r["rule"]): r for r in matches.collect()}
    events = {r["x"]: r for r in frame.collect()}
    assert set(rows) == {(1.0, "any"), (9.0, "any"), (9.0, "high")}
    for (x, _), row in rows.items():
        assert tuple(row)[:-1] == tuple(events[x])
    assert rows[1.0, "any"]["dec"] == decimal.Decimal("12.50")
    assert rows[1.0, "any"]["d"] == datetime.date(2024, 5, 1)


def test_names_of_columns_are_resolved_as_in_spark(spark):
    frame = spark.sql("SELECT 1 AS row, 7D AS `X`, 'g' AS `tier.name`, 3 AS other")
    rules = tocsin.Rules({"x": "number", "tier.name": "category"})
    rules.add("a", "x > 5 AND `tier.name` = 'g'")
    assert pairs(tocsin.spark.match(frame, rules, keep=["ROW"])) == [(1, "a")]
    assert tocsin.spark.match(frame, rules).columns == ["row", "X", "tier.name", "other", "rule"]


def test_sparse_attributes(spark):
    frame = spark.sql(
        """SELECT * FROM VALUES (0, map('x', 7D, 'y', 1D), map('tier', 'g')),
        (1, map('x', 2D), NULL), (2, NULL, NULL) AS t(row, numbers, texts)"""
    )
    rules = tocsin.Rules({"x": "number", "y": "number", "tier": "category"})
    rules.add("a", "x > 1")
    rules.add("b", "tier = 'g' AND y = 1")
    rules.add("c", "x IS NULL")
    assert pairs(tocsin.spark.match(frame, rules, keep=["row"])) == [
        (0, "a"), (0, "b"), (1, "a"), (2, "c"),
    ]  # fmt: skip


def test_no_rules_and_no_events(case):
    _, _, frame = case
    nothing = tocsin.Rules(generate.SCHEMA)
    assert tocsin.spark.match(frame, nothing).count() == 0
    assert tocsin.spark.match(frame, nothing, output="lists").count() == 500
    rules = tocsin.Rules(generate.SCHEMA)
    rules.add(1, "TRUE")
    assert tocsin.spark.match(frame.where("row < 0"), rules).count() == 0
    assert tocsin.spark.match(frame, rules, keep=[]).count() == 500, "no column is needed"


def test_one_pass_over_the_events(case):
    rules, _, frame = case
    plan = tocsin.spark.match(frame, rules)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("MapInArrow") == 1
    assert "Exchange" not in plan
    assert "Join" not in plan


def test_a_running_session_is_returned_unchanged(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert tocsin.spark.session().conf.get("spark.sql.shuffle.partitions") == "2"


def test_bad_input(case, spark, tmp_path):
    rules, _, frame = case

    def expect_error(match, *arguments, **options):
        with pytest.raises(tocsin.TocsinError, match=match):
            tocsin.spark.match(*arguments, **options)

    expect_error("how must be one of", frame, rules, how="some")
    expect_error("output must be one of", frame, rules, output="columns")
    expect_error("needs k", frame, rules, how="top")
    expect_error("needs k", frame, rules, how="top", k=0)
    expect_error("go with how='top'", frame, rules, k=3)
    expect_error("no column 'rwo'; did you mean 'row'?", frame, rules, keep=["rwo"])
    expect_error("no column 'w'", frame, rules, how="top", k=1, weights="w")
    expect_error("rules must be a tocsin.Rules", frame, 5)
    expect_error("there is no rule store", frame, str(tmp_path / "none"))
    expect_error("no column 'price', which a rule tests", frame.drop("price"), rules)
    expect_error(
        "two columns 'rule' .* one is added", frame.withColumnRenamed("row", "rule"), rules
    )
    bad = spark.createDataFrame([(1, "price >")], "id INT, where STRING")
    expect_error("row 0 .rule 1.: syntax error", frame, bad)
    expect_error("payload goes with output='rows'", frame, rules, payload=["team"], output="lists")
    expect_error("no payload column 'team'", frame, rules, payload=["team"])
    expect_error("rules_version is for the path", frame, rules, rules_version=True)


def test_wrong_types_are_reported_before_the_job_runs(spark):
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 5")
    with pytest.raises(tocsin.EventError, match="attribute 'x' is a number"):
        tocsin.spark.match(spark.sql("SELECT 'a' AS x"), rules)
    with pytest.raises(tocsin.EventError, match="decimal"):
        tocsin.spark.match(spark.sql("SELECT 1.5BD AS x"), rules)


def test_decimals(spark):
    rules = tocsin.Rules({"x": "decimal(6,2)"})
    rules.add("cheap", "x < 9.999")
    columns = "CAST(9.99 AS DECIMAL(20, 10))", "CAST(9.99 AS DOUBLE)", "9", "9L", "9.99BD"
    for column in columns:
        frame = spark.sql(f"SELECT 1 AS row, {column} AS x")
        assert pairs(tocsin.spark.match(frame, rules, keep=["row"])) == [(1, "cheap")]
    with pytest.raises(tocsin.EventError, match=r"'x' is a decimal\(6,2\), but .* type string"):
        tocsin.spark.match(spark.sql("SELECT '9.99' AS x"), rules)
    as_number = tocsin.Rules({"x": "number"})
    as_number.add("cheap", "x < 9.999")
    with pytest.raises(tocsin.EventError, match="'x' is a decimal column that has 25 digits"):
        tocsin.spark.match(spark.sql("SELECT CAST(1 AS DECIMAL(25, 2)) AS x"), as_number)
    with pytest.raises(Exception, match=r"value 9\.999, which has more than 2 digits"):
        tocsin.spark.match(spark.sql("SELECT 9.999BD AS x"), rules).collect()


def test_another_store_at_the_same_path(spark, tmp_path):
    frame = spark.range(10)
    for condition, expected in (("id < 3", [0, 1, 2]), ("id >= 8", [8, 9])):
        rules = tocsin.Rules({"id": "integer"})
        rules.add("one", condition)
        rules.save(tmp_path / "store")
        matches = tocsin.spark.match(frame, tmp_path / "store", keep=["id"])
        assert sorted(row.id for row in matches.collect()) == expected
        shutil.rmtree(tmp_path / "store")


def test_a_store_is_opened_once_for_several_batches(tmp_path, monkeypatch):
    rules = tocsin.Rules({"x": "number"})
    rules.add("high", "x > 5")
    rules.save(tmp_path / "store")
    opened = []
    open_ = worker.StoreFolder.open

    def counted(*arguments, **options):
        opened.append(arguments)
        return open_(*arguments, **options)

    monkeypatch.setattr(worker.StoreFolder, "open", counted)
    source = worker.RuleSource(str(tmp_path / "store"), 1, False)
    batch = pa.RecordBatch.from_pydict({"x": [1.0, 7.0]})
    result = ResultBuilder.plan(MatchRequest(), rules.snapshot(), batch.schema, SPARK_TYPES)
    for _ in range(3):
        (first, second) = worker.match_batches(source, result, [], [batch, batch])
        assert first.to_pydict() == second.to_pydict() == {"x": [7.0], "rule": ["high"]}
    assert len(opened) == 1


def test_a_version_never_changes(spark):
    rules = tocsin.Rules({"id": "integer"})
    rules.add("one", "id < 3")
    version = rules.snapshot()
    rules.replace("one", "id > 7")
    for source, expected in ((version, [0, 1, 2]), (rules, [8, 9])):
        matches = tocsin.spark.match(spark.range(10), source)
        assert sorted(row.id for row in matches.collect()) == expected


def test_arguments_of_wrong_types(spark, tmp_path):
    rules = tocsin.Rules({"id": "integer"})
    rules.add("one", "id < 3")
    with pytest.raises(tocsin.EventError, match="must be a Spark DataFrame, got list"):
        tocsin.spark.match([{"id": 1}], rules)
    for name in ("keep", "payload"):
        with pytest.raises(tocsin.RuleError, match=f"{name} takes names of columns in a list"):
            tocsin.spark.match(spark.range(3), rules, **{name: "id"})
        with pytest.raises(tocsin.RuleError, match=f"{name} takes names of columns in a list"):
            tocsin.spark.match(spark.range(3), rules, **{name: 5})
        with pytest.raises(tocsin.TocsinError, match="5"):
            tocsin.spark.match(spark.range(3), rules, **{name: [5]})
    store = tocsin.RuleStore.create(tmp_path / "store", {"id": "integer"})
    with pytest.raises(tocsin.RuleError, match="got a tocsin RuleStore; pass its path"):
        tocsin.spark.match(spark.range(3), store)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tocsin.RuleError, match=r"must not be a stream; .* path of a rule store"):
        tocsin.spark.match(spark.range(3), stream)


def test_errors_name_the_library_of_a_table(spark):
    rules = tocsin.Rules({"x": "number"})
    table = pa.table({"id": ["a"], "where": ["x > 0"]})
    for other, name in (
        (table, "pyarrow Table"),
        (table.to_pandas(), "pandas DataFrame"),
        (polars.from_arrow(table), "polars DataFrame"),
    ):
        with pytest.raises(tocsin.EventError, match=f"got a {name}; spark.createDataFrame"):
            tocsin.spark.match(other, rules)
        with pytest.raises(tocsin.RuleError, match=rf"got a {name}; .*Rules\.add_many"):
            tocsin.spark.match(spark.sql("SELECT 1D AS x"), other)


def test_payload_keeps_its_types(spark):
    """Times without a zone keep their type; types that Spark does not support are an error."""
    frame = spark.sql("SELECT 1D AS x")

    def with_payload(array):
        rules = tocsin.Rules({"x": "number"})
        rules.add_many(pa.table({"id": ["a"], "where": ["x > 0"], "p": array}))
        return tocsin.spark.match(frame, rules, keep=[], payload=["p"])

    noon = datetime.datetime(2024, 5, 1, 12)
    matches = with_payload(pa.array([noon], pa.timestamp("us")))
    assert matches.dtypes == [("rule", "string"), ("p", "timestamp_ntz")]
    assert matches.collect() == [("a", noon)]
    nanoseconds = pa.array([1_700_000_000_000_001_999], pa.timestamp("ns", "UTC"))
    matches = with_payload(nanoseconds).selectExpr("unix_micros(p)")
    assert matches.collect() == [(1_700_000_000_000_001,)]
    with pytest.raises(
        tocsin.RuleError, match="'p' is of type uint32, which Spark does not support"
    ):
        with_payload(pa.array([1], pa.uint32()))
    with pytest.raises(tocsin.RuleError, match="'p' is of type decimal256"):
        with_payload(pa.array([1], pa.decimal256(40)))
