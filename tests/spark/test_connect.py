"""Live rules, errors and time zones on Spark Connect; `test_one_answer` compares its results."""

import json

import pytest

from tests.spark import answers
from tests.spark.test_live_rules import expected_output, read_output


def test_live_rules(connect_folder, spark):
    """Rules change between micro-batches; each row is a match of its version."""
    path = connect_folder / "live"
    rows = read_output(spark, path)
    assert rows == expected_output(path)
    versions = [{v for row, _, v in rows if row // 20 == number} for number in range(4)]
    assert versions == [{2}, {4}, {6}, {8}]


@pytest.fixture(scope="module")
def classic_errors(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("errors")
    return {name: str(error) for name, error in answers.errors(spark, path)}


@pytest.mark.parametrize("source", ["classic", "connect"])
def test_errors_in_a_worker_are_reported(source, classic_errors, connect_folder):
    connect_errors = json.loads((connect_folder / "errors.json").read_text())
    errors = classic_errors if source == "classic" else connect_errors
    batch = "weights of events: the weight of attribute 'x' must be a finite number, 0 or more; got"
    assert f"EventError: {batch} -1.0" in errors["batch"]
    assert "StoreError: " in errors["stream"]
    assert "the rules' ids are strings, but the query was planned for integers" in errors["stream"]


def test_the_zone_of_the_session(spark, connect_folder):
    on_connect = json.loads((connect_folder / "zoned.json").read_text())
    assert on_connect == answers.match_in_another_zone(spark) == [0]
