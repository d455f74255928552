"""Rules with a threshold on Spark: densities are structs of numbers and arrays."""

import pytest

import tocsin
import tocsin.spark

DENSITY = (
    "struct<low: double, high: double, mean: double, deviation: double, "
    "edges: array<double>, weights: array<double>>"
)


@pytest.fixture(scope="module")
def frame(spark):
    normal = (15.0, 30.0, 22.0, 1.5, None, None)
    uniform = (18.0, 25.0, None, None, None, None)
    histogram = (None, None, None, None, [15.0, 20.0, 25.0], [0.1, 0.9])
    rows = [
        (0, normal, (1, 6), {"humidity": uniform}),
        (1, uniform, (3, 3), {"humidity": histogram}),
        (2, histogram, None, {}),
        (3, None, (1, 3), None),
    ]
    schema = f"row int, temp {DENSITY}, n struct<low: int, high: int>, also map<string, {DENSITY}>"
    return spark.createDataFrame(rows, schema)


def rules():
    made = tocsin.Rules({"temp": "number", "n": "integer", "humidity": "number"})
    made.add("cool", "temp BETWEEN 20 AND 25", at_least=0.8)
    made.add("perhaps", "temp BETWEEN 20 AND 25")
    made.add("three", "n = 3 OR temp < 19", at_least=0.3)
    made.add("humid", "humidity > 20", at_least=0.85)
    return made


def rows_of(frame):
    table = frame.toArrow()
    return sorted(zip(table["row"].to_pylist(), table["rule"].to_pylist(), strict=True))


EXPECTED = [
    *[(0, "cool"), (0, "perhaps")],
    *[(1, "humid"), (1, "perhaps"), (1, "three")],
    *[(2, "cool"), (2, "perhaps")],
    *[(3, "three")],
]


def test_one_process_and_spark_agree(frame, tmp_path):
    assert sorted(rules().match(frame.toArrow())) == EXPECTED
    assert rows_of(tocsin.spark.match(frame.repartition(2), rules(), keep=["row"])) == EXPECTED
    rules().save(tmp_path / "store")
    stored = tocsin.spark.match(frame, str(tmp_path / "store"), keep=["row"])
    assert rows_of(stored) == EXPECTED
    counts = tocsin.spark.match(frame, rules(), how="count", keep=["row"]).toArrow()
    assert dict(zip(*counts.to_pydict().values(), strict=True)) == {0: 2, 1: 3, 2: 2, 3: 1}
    top = tocsin.spark.match(frame, rules(), how="top", k=1, keep=["row"])
    assert rows_of(top) == [(0, "cool"), (1, "perhaps"), (2, "cool"), (3, "three")]


def test_rules_in_a_data_frame(spark, frame):
    texts = spark.sql(
        "SELECT 'cool' AS id, 'temp BETWEEN 20 AND 25' AS where, 0.8 AS at_least "
        "UNION ALL SELECT 'perhaps', 'temp BETWEEN 20 AND 25', NULL"
    )
    matches = tocsin.spark.match(frame.drop("also"), texts, keep=["row"])
    assert rows_of(matches) == [pair for pair in EXPECTED if pair[1] in ("cool", "perhaps")]
