"""What else holds on Spark Connect; that it gives the same answers is in `test_one_answer`."""

import json

import pytest

from tests.spark import answers
from tests.spark.test_live_rules import recomputed, written


def test_live_rules(connect_folder, spark):
    """Rules changed between the micro-batches; each row is what its version says."""
    place = connect_folder / "live"
    found = written(spark, place)
    assert found == recomputed(place)
    versions = [{v for row, _, v in found if row // 20 == number} for number in range(4)]
    assert versions == [{2}, {4}, {6}, {8}]


@pytest.fixture(scope="module")
def classic_errors(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("errors")
    return {name: str(error) for name, error in answers.errors(spark, place)}


@pytest.mark.parametrize("source", ["classic", "connect"])
def test_an_error_in_a_worker_is_told(source, classic_errors, connect_folder):
    connect_errors = json.loads((connect_folder / "errors.json").read_text())
    errors = classic_errors if source == "classic" else connect_errors
    batch = "weights of events: the weight of attribute 'x' must be a finite number, 0 or more; got"
    assert f"EventError: {batch} -1.0" in errors["batch"]
    assert "StoreError: " in errors["stream"]
    assert "the rules' ids are texts, but the query was planned for integers" in errors["stream"]


def test_the_zone_of_the_session(spark, connect_folder):
    assert json.loads((connect_folder / "zoned.json").read_text()) == answers.zoned(spark) == [0]
