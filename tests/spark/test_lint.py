"""Lint on Spark: the findings of one process."""

import json

import pytest

import tocsin
from tests.spark import lint_answers as answers
from tocsin.spark import lint as spark_lint
from tocsin.spark import linting


@pytest.mark.parametrize("same", [(), ("team",)])
def test_the_same_as_one_process(spark, same, monkeypatch):
    monkeypatch.setattr(linting, "_RULES_PER_TASK", 10)
    found = answers.lint_on_spark(spark, same)
    assert found == answers.lint_in_one_process(same)
    assert len(found) > 5


def test_the_same_on_connect(connect_folder):
    found = json.loads((connect_folder / "lint.json").read_text())
    assert found == answers.lint_in_one_process()


def test_integer_ids_and_boxes(spark):
    rules = spark.createDataFrame(
        [(7, 0.0, 9.0), (8, 1.0, 2.0), (9, None, None)], "id bigint, x_low double, x_high double"
    )
    found = spark_lint(rules, {"x": "number"})
    assert found.schema.simpleString() == (
        "struct<rule:bigint,finding:string,by:bigint,detail:string>"
    )
    rows = {(row.rule, row.finding, row.by) for row in found.collect()}
    assert rows == {(7, "covered", 9), (8, "covered", 9), (9, "always", None)}


def test_the_schema_of_a_frame(spark):
    rules = spark.createDataFrame([("a", "x > 5"), ("b", "x > 7")], "id string, where string")
    events = spark.createDataFrame([(1.5,)], "x double")
    assert [row.rule for row in spark_lint(rules, events).collect()] == ["b"]


def test_no_rules(spark):
    rules = spark.createDataFrame([], "id string, where string")
    assert spark_lint(rules, {"x": "number"}).collect() == []


def test_errors(spark):
    rules = spark.createDataFrame([("a", "x > 5", "t")], "id string, where string, team string")
    with pytest.raises(tocsin.RuleError, match="no payload column 'tem'"):
        spark_lint(rules, {"x": "number"}, same=["tem"])
    with pytest.raises(tocsin.RuleError, match=r"rules must be a Spark DataFrame.*Rules\.lint"):
        spark_lint([("a", "x > 5")], {"x": "number"})
    with pytest.raises(tocsin.RuleError, match="must not be a stream"):
        spark_lint(spark.readStream.format("rate").load(), {"x": "number"})
