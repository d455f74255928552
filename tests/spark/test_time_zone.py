"""Times without a zone in a DataFrame of rules are in the session's zone, as in Spark SQL."""

import itertools

import pytest

import tocsin
import tocsin.spark
from tocsin.spark.matching import find_zone_name

# In summer and in winter, at both changes of the clock in Berlin and New York, and around 1970.
TIMES = [
    "2024-05-01 00:00:00", "2024-05-01 12:00:00", "2024-12-24 18:30:00.000001",
    "2024-03-31 01:59:59.999999", "2024-03-31 02:30:00", "2024-03-31 03:30:00",
    "2024-10-27 02:30:00", "2024-10-27 03:00:00",
    "2024-03-10 02:30:00", "2024-03-10 03:00:00", "2024-11-03 01:30:00",
    "1969-12-31 23:59:59", "1900-01-01 00:00:00",
]  # fmt: skip
COLUMNS = ("ts", "ntz", "day")


@pytest.fixture(params=["Europe/Berlin", "America/New_York", "+02:00"])
def zoned(spark, request):
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def events(zoned):
    rows = [
        f"({i}, TIMESTAMP '{time}', TIMESTAMP_NTZ '{time}', DATE '{time[:10]}')"
        for i, time in enumerate(TIMES)
    ]
    rows.append("(99, NULL, NULL, NULL)")
    return zoned.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(row, ts, ntz, day)")


def pairs(frame):
    return sorted(map(tuple, frame.collect()))


def test_conditions(zoned, events):
    """A column of dates or of times without a zone compares as if cast to TIMESTAMP."""
    conditions = [
        (column, f"{operator} {literal}")
        for time in TIMES
        for column, operator, literal in itertools.product(
            COLUMNS,
            ("=", ">", "<="),
            (f"TIMESTAMP '{time}'", f"'{time}'", f"DATE '{time[:10]}'", f"TIMESTAMP '{time}Z'"),
        )
    ]
    texts = zoned.createDataFrame(
        [(i, f"{column} {test}") for i, (column, test) in enumerate(conditions)],
        "id INT, where STRING",
    )
    matches = pairs(tocsin.spark.match(events, texts, keep=["row"]))
    casts = events.selectExpr("row", *(f"CAST({c} AS TIMESTAMP) AS {c}" for c in COLUMNS))
    rows = casts.selectExpr("row", *(f"{c} {test}" for c, test in conditions)).collect()
    assert matches == sorted((r[0], i) for r in rows for i, holds in enumerate(r[1:]) if holds)
    # Spark itself casts in this way if the literal is a TIMESTAMP.
    typed = [(i, f"{c} {t}") for i, (c, t) in enumerate(conditions) if " TIMESTAMP '" in t]
    rows = events.selectExpr("row", *(text for _, text in typed)).collect()
    numbers = {i for i, _ in typed}
    expected = [(r[0], typed[n][0]) for r in rows for n, holds in enumerate(r[1:]) if holds]
    assert [pair for pair in matches if pair[1] in numbers] == sorted(expected)


@pytest.mark.parametrize("zoned", ["Europe/Berlin"], indirect=True)
def test_boxes(zoned, events):
    """Bounds have other types than their columns; each box is over one column."""
    boxes, expected = [], []
    for column, kind in (("ts", "TIMESTAMP_NTZ"), ("ntz", "DATE"), ("day", "TIMESTAMP")):
        ends = [
            f"({len(boxes) * 1000 + i}, CAST('{low}' AS {kind}), CAST('{high}' AS {kind}))"
            for i, (low, high) in enumerate(itertools.combinations(sorted(TIMES), 2))
        ]
        bounds = zoned.sql(f"SELECT * FROM VALUES {', '.join(ends)} AS t(id, low, high)")
        # Local times are not in the order of instants when the clock is put forward.
        bounds = bounds.where("CAST(low AS TIMESTAMP) <= CAST(high AS TIMESTAMP)")
        low, value, high = (f"CAST({name} AS TIMESTAMP)" for name in ("low", column, "high"))
        joined = events.join(bounds).where(f"{value} BETWEEN {low} AND {high}")
        expected += pairs(joined.select("row", "id"))
        boxes.append(bounds.withColumnsRenamed({e: f"{column}_{e}" for e in ("low", "high")}))
    first, second, third = boxes
    table = first.unionByName(second, allowMissingColumns=True)
    table = table.unionByName(third, allowMissingColumns=True)
    assert pairs(tocsin.spark.match(events, table, keep=["row"])) == sorted(expected)


def test_names_of_zones():
    names = {
        "Europe/Berlin": "Europe/Berlin", "UTC": "UTC", "Z": "UTC", "+00:00": "UTC",
        "+02:00": "Etc/GMT-2", "-7": "Etc/GMT+7", "GMT+1": "Etc/GMT-1", "UTC-03:00": "Etc/GMT+3",
        "+05:30": None, "+18:00": None, "PST": None, "no/where": None, "../etc": None, "": None,
    }  # fmt: skip
    assert {zone: find_zone_name(zone) for zone in names} == names


def test_a_zone_without_a_name_is_an_error_if_a_rule_tests_a_time(spark):
    frame = spark.sql("SELECT 1D AS x, current_timestamp() AS ts")
    spark.conf.set("spark.sql.session.timeZone", "+05:30")
    try:
        texts = spark.sql("SELECT 1 AS id, 'x > 0' AS where")
        assert tocsin.spark.match(frame, texts, keep=[]).collect() == [(1,)]
        texts = spark.sql("SELECT 1 AS id, \"ts > '2024-05-01'\" AS where")
        with pytest.raises(tocsin.RuleError, match=r"time 'ts', .* zone '\+05:30'.*Berlin"):
            tocsin.spark.match(frame, texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
