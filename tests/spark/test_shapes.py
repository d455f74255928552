"""Tables of shapes on Spark; conditions with shapes are among `answers`."""

import numpy as np
import pyarrow as pa
import pytest
import shapely

import tocsin
import tocsin.spark


@pytest.fixture(scope="module")
def case(spark):
    rng = np.random.default_rng(8)
    shapes = shapely.buffer(shapely.points(rng.uniform(0, 20, (40, 2))), 2, quad_segs=3)
    table = pa.table(
        {"id": np.arange(40), "shape": shapely.to_wkb(shapes), "team": ["a", "b"] * 20}
    )
    events = pa.table(
        {"row": np.arange(400), "lon": rng.uniform(0, 20, 400), "lat": rng.uniform(0, 20, 400)}
    )
    found = shapely.STRtree(shapes).query(
        shapely.points(events["lon"], events["lat"]), predicate="intersects"
    )
    return spark.createDataFrame(table), spark.createDataFrame(events), sorted(zip(*found.tolist()))


def pairs(frame):
    return sorted((row["row"], row["rule"]) for row in frame.collect())


def test_a_frame_of_rules_has_a_binary_column(case):
    rules, events, expected = case
    matches = tocsin.spark.match(events, rules, keep=["row"], payload=["team"])
    assert pairs(matches) == expected
    assert {(row["rule"] % 2, row["team"]) for row in matches.collect()} == {(0, "a"), (1, "b")}


def test_the_point_is_named(case):
    rules, events, expected = case
    renamed = events.withColumnsRenamed({"lon": "u", "lat": "v"})
    with pytest.raises(tocsin.RuleError, match="not known which attributes are the point"):
        tocsin.spark.match(renamed, rules)
    named = tocsin.Rules({"u": "number", "v": "number"}, point=("u", "v"))
    named.add_many(rules.toArrow())
    assert pairs(tocsin.spark.match(renamed, named, keep=["row"])) == expected


def test_lint_of_a_frame(case):
    rules, events, _ = case
    copy = rules.withColumn("id", rules["id"] + 100)
    found = tocsin.spark.lint(rules.union(copy), events).collect()
    assert [(row["rule"], row["finding"], row["by"]) for row in found] == [
        (n + 100, "duplicate", n) for n in range(40)
    ]
