"""A DataFrame of Spark is never collected by a function for one process."""

import json

import pytest

import tocsin
from tests.spark.refusals import refuse_frame

INSTEAD = {
    "tune": "tocsin.spark.tune",
    "lint": "tocsin.spark.lint",
    "add_many": "tocsin.spark.match",
    **dict.fromkeys(
        ["join", "join with an array", "self_join", "count pairs", "join_blocks", "estimate"],
        "tocsin.spark.similarity_join",
    ),
    **dict.fromkeys(
        ["minimum", "in_range", "total", "ids", "numbers", "lists"], "tocsin.spark.uncertain"
    ),
}


def test_the_function_of_spark_is_named(spark):
    check_messages(refuse_frame(spark))


def test_the_function_of_spark_is_named_on_connect(connect_folder):
    check_messages(json.loads((connect_folder / "refusals.json").read_text()))


def check_messages(messages):
    assert len(messages) == 22
    for name, message in messages.items():
        assert "must not be a Spark DataFrame" in message, name
        assert INSTEAD.get(name, "tocsin.spark.match") in message, name


def test_pandas_on_spark(spark):
    frame = spark.sql("SELECT 1D AS x").pandas_api()
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 0")
    with pytest.raises(tocsin.EventError, match="must not be a Spark DataFrame"):
        rules.count(frame)
    with pytest.raises(tocsin.UncertainError, match="low must not be a Spark Series"):
        tocsin.uncertain.Readings.uniform([1], frame["x"], [2.0])
