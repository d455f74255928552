"""Tuning with events of Spark, and indexes chosen for a DataFrame of rules."""

import json

import pytest

import tocsin
import tocsin.spark
from tests.spark import tune_answers as answers


def check(found):
    few = answers.make_events().slice(0, 500)
    assert found["version"] == 3
    assert found["before"] != found["after"]
    assert [tuple(p) for p in found["matches"]] == sorted(answers.make_rules().match(few))
    assert len(found["matches"]) > 100
    assert len(found["stored"]) > 500


def test_tuning_changes_the_plan_and_no_match(spark, tmp_path):
    check(answers.tune_on_spark(spark, tmp_path / "store"))


def test_the_same_on_connect(connect_folder):
    check(json.loads((connect_folder / "tune.json").read_text()))


def test_wrong_arguments(spark, tmp_path):
    rules = answers.make_rules()
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tocsin.EventError, match="events must not be a stream"):
        tocsin.spark.tune(rules, stream)
    with pytest.raises(tocsin.EventError, match=r"events must be a Spark DataFrame.*Rules\.tune"):
        tocsin.spark.tune(rules, answers.make_events())
    with pytest.raises(tocsin.RuleError, match="or the path of a rule store, got dict"):
        tocsin.spark.tune({}, spark.range(3))
    with pytest.raises(tocsin.RuleError, match="there is nothing to tune"):
        tocsin.spark.tune(tocsin.Rules({"x": "number"}), spark.range(3))
    with pytest.raises(tocsin.EventError, match="no events to tune to"):
        tocsin.spark.tune(rules, spark.createDataFrame([], "x double, y double, z double"))
    grid = tocsin.Rules({"id": "integer"}, index="grid")
    grid.add("a", "id > 5")
    with pytest.raises(tocsin.RuleError, match="does not learn from events"):
        tocsin.spark.tune(grid, spark.range(3))


def test_a_frame_of_rules_may_have_any_index_with_options(spark):
    rules = spark.createDataFrame(
        [(7, 0.0, 9.0), (8, 1.0, 2.0)], "id int, x_low double, x_high double"
    )
    events = spark.createDataFrame([(1.5,), (5.0,), (20.0,)], "x double")
    expected = [(1.5, 7), (1.5, 8), (5.0, 7)]
    for index, options in (("auto", None), ("ntree", {"fan_out": 8}), ("bestar", {"rigid": True})):
        matches = tocsin.spark.match(events, rules, index=index, options=options)
        assert sorted(map(tuple, matches.collect())) == expected
    with pytest.raises(tocsin.RuleError, match="no option 'fanout'; did you mean 'fan_out'"):
        tocsin.spark.match(events, rules, index="ntree", options={"fanout": 8})
    with pytest.raises(tocsin.RuleError, match="are for a DataFrame of rules"):
        tocsin.spark.match(events, tocsin.Rules({"x": "number"}), index="grid")
