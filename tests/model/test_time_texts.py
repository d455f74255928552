import datetime
import zoneinfo

import pytest

import tocsin
from tocsin.errors import ConditionError
from tocsin.model import encoding
from tocsin.model.time_texts import read_date, read_timestamp

UTC = zoneinfo.ZoneInfo("UTC")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
DAY = 86_400_000_000
TIMES = {
    "1970": 0,
    "1970-01": 0,
    "1970-1-2": DAY,
    "1970-01-01 00:00": 0,
    "1970-01-01T00:00:01": 1_000_000,
    " 1970-01-01 00:00:00.5 ": 500_000,
    "1970-01-01 00:00:00.1234567": 123_456,
    "1970-01-01 01:00:00+01:00": 0,
    "1970-01-01 01:00:00 +1": 0,
    "1969-12-31 23:00:00-0100": 0,
    "1970-01-01 01:00:00 Europe/Berlin": 0,
    "1970-01-01T00:00:00Z": 0,
    "\x001970-01-01\x7f": 0,
    "1970-01-01 5": 5 * DAY // 24,
    "1970-01-01 00:00:00.12345678901": 123_456,
    "1970-01-01 01:00:00UTC+1": 0,
    "1970-01-01 01:00:00+01:00:00": 0,
    "1969-12-31 18:00:00 CST": 0,
    "+1970-01-02": DAY,
    "0000-01-01": -719_528 * DAY,
    "12024-01-01 00:00:00Z": 317_273_587_200_000_000,
}
NOT_TIMES = [
    *("", "now", "1970-13-01", "1970-01-32", "70-01-01", "1970-01-01 25:00", "1970-01-01 x/y"),
    *("2024-07-01T10:00Z", "2024-07-01 10:00+01:00", "2024-07-01 10:00 Europe/Berlin"),
    *("2024-07-01 10:00:00z", "2024-07-01 10:00:00 utc", "2024-07-01 10:00:00 gmt"),
    *("2024-07-01 10:00:00+18:01", "2024-07-01 10:00:00-19", "300000-01-01"),
]


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_times_as_spark_casts_them(text, expected):
    assert read_timestamp(text, UTC) == expected


@pytest.mark.parametrize("text", NOT_TIMES)
def test_invalid_times(text):
    assert read_timestamp(text, UTC) is None


def test_spark_reads_the_same_times(spark):
    texts = [*TIMES, *NOT_TIMES]
    frame = spark.createDataFrame([(text,) for text in texts], "text string").coalesce(1)
    casts = ("unix_micros(try_cast(text AS timestamp))", "unix_date(try_cast(text AS date))")
    answers = [tuple(row) for row in frame.selectExpr(*casts).collect()]
    assert [(read_timestamp(text, UTC), read_date(text)) for text in texts] == answers


def test_times_without_a_zone_are_in_the_given_zone():
    ten = read_timestamp("2024-07-01 10:00:00", UTC)
    assert read_timestamp("2024-07-01 12:00:00", BERLIN) == ten
    naive = datetime.datetime(2024, 7, 1, 12)
    assert encoding.to_microseconds(naive, BERLIN) == ten
    assert ten == read_timestamp("2024-07-01T10:00:00Z", BERLIN)
    day = datetime.date(2024, 7, 1)
    assert encoding.to_microseconds(day, UTC) == read_timestamp("2024-07-01", UTC)


def _matches(where, **event):
    rules = tocsin.Rules(tocsin.Schema({"t": "time"}, timezone="Europe/Berlin"))
    rules.add("r", where)
    return len(rules.match(event)) == 1


def test_constants_are_read_as_columns_of_text_are():
    ten = datetime.datetime(2024, 7, 1, 8, tzinfo=datetime.UTC)
    midnight = datetime.datetime(2024, 7, 1)
    assert _matches("t = '2024-07-01 10'", t=ten)
    assert _matches("t = TIMESTAMP '2024-07-01 10'", t=ten)
    assert _matches("t IN ('2024-07-01 10', '2024-07-01 08:00:00UTC+0')", t=ten)
    assert _matches("t = DATE '2024-07-01 and more'", t=midnight)
    assert _matches("to_date(t) = '2024-07-01Tmore'", t=ten)
    assert _matches("t < '12024-01-01' AND t > '-0044-03-15'", t=ten)


@pytest.mark.parametrize("text", NOT_TIMES)
def test_constants_that_are_no_times(text):
    with pytest.raises(ConditionError, match=r"'t' is a time, but .* is not one"):
        _matches(f"t > '{text}'")
    with pytest.raises(ConditionError, match="cannot be cast to TIMESTAMP"):
        _matches(f"t > TIMESTAMP '{text}'")


@pytest.mark.parametrize("text", ["1970-13-01", "+1000000-01-01", "-1000000-01-01", "2024-01-01Z"])
def test_constants_that_are_no_dates_or_beyond_timestamps(text):
    """Spark casts a date to a timestamp for the comparison, which overflows."""
    with pytest.raises(ConditionError, match="cannot be cast to DATE"):
        _matches(f"t > DATE '{text}'")
    with pytest.raises(ConditionError, match="is not one; expected ISO 8601"):
        _matches(f"to_date(t) > '{text}'")
