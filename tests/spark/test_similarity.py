"""Similarity joins on Spark: the pairs of one process, whatever the partitions."""

import json

import pytest

import tocsin
from tests.spark import similarity_answers as answers


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_the_same_as_one_process(spark, partitions):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    try:
        found = answers.join_on_spark(spark, partitions)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    expected = answers.join_in_one_process()
    assert found == expected
    assert len(expected) > 20_000


def test_the_same_on_connect(connect_folder):
    found = json.loads((connect_folder / "similarity.json").read_text())
    assert [tuple(row) for row in found] == answers.join_in_one_process()


def test_the_columns_of_the_result(spark):
    a, b = map(spark.createDataFrame, answers.tables())
    joined = tocsin.spark.similarity_join(a, b, on=answers.ON, epsilon=0.01)
    assert joined.columns == [
        "id_a", "x_a", "y_a", "z_a", "z_b", "y_b", "X_b", "name_b", "id_b", "distance",
    ]  # fmt: skip
    row = joined.filter("name_b IS NOT NULL").first()
    assert row.name_b == f"b{row.id_b}"


def test_other_metrics_and_types(spark):
    a = spark.createDataFrame([(1, 2.0), (4, 2.0)], "x int, y float")
    b = spark.createDataFrame(
        [(3, 4.0, {"k": 1}), (9, 9.0, None)], "x bigint, y double, m map<string, int>"
    )
    for metric, epsilon, count in (("linf", 2, 2), ("l1", 3, 1), ("l2", 2.5, 1)):
        joined = tocsin.spark.similarity_join(a, b, ["x", "y"], epsilon, metric, closed=True)
        assert joined.count() == count, metric
    assert joined.first().m_b == {"k": 1}


def test_empty_frames(spark):
    a = spark.createDataFrame([(1.0,)], "x double")
    assert tocsin.spark.similarity_join(a, a.filter("x > 5"), ["x"], 1).count() == 0
    assert tocsin.spark.similarity_join(a.filter("x > 5"), a, ["x"], 1).count() == 0


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("x", "on takes the names of the coordinates in a list, got 'x'"),
        ([], "in a list"),
        (["xx"], "a has no column 'xx'"),
        (["x", "t"], "a, column 't' is of type string, but coordinates are integers or floats"),
    ],
)
def test_wrong_columns(spark, on, message):
    a = spark.createDataFrame([(1.0, "a")], "x double, t string")
    with pytest.raises(tocsin.SimilarityError) as error:
        tocsin.spark.similarity_join(a, a, on, 1)
    assert message in str(error.value)


def test_not_a_frame(spark):
    a = spark.createDataFrame([(1.0,)], "x double")
    with pytest.raises(tocsin.SimilarityError, match=r"b must be a Spark DataFrame, got list"):
        tocsin.spark.similarity_join(a, [[1.0]], ["x"], 1)


@pytest.mark.parametrize(
    "value", ["CAST(NULL AS DOUBLE)", "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"]
)
def test_values_that_are_no_coordinates(spark, value):
    a = spark.createDataFrame([(1.0,)], "x double")
    b = a.selectExpr(f"{value} AS x")
    with pytest.raises(tocsin.SimilarityError, match=r"b has|b, column 'x' is null"):
        tocsin.spark.similarity_join(a, b, ["x"], 1)


def test_a_stream_is_refused(spark):
    a = spark.createDataFrame([(1.0,)], "x double")
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS DOUBLE) AS x")
    with pytest.raises(tocsin.SimilarityError, match=r"b must not be a stream; .* foreachBatch"):
        tocsin.spark.similarity_join(a, stream, ["x"], 1)


def test_columns_that_cannot_be_hashed(spark):
    a = spark.range(3).selectExpr(
        "CAST(id AS DOUBLE) AS x", "parse_json('1') AS v", "INTERVAL '1' DAY AS i", "map(1, 2) AS m"
    )
    assert tocsin.spark.similarity_join(a, a, ["x"], 1).count() == 3


def test_times_in_another_zone(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        a = spark.sql("SELECT 1.0D AS x, TIMESTAMP '2020-05-01 10:00:00' AS t")
        row = tocsin.spark.similarity_join(a, a, ["x"], 1).selectExpr("t_a = t_b", "hour(t_a)")
        assert tuple(row.first()) == (True, 10)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
