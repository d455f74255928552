"""A fixed schema, and random events with nasty values."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from random import Random

import pyarrow as pa

ZONES = [
    "Europe/Berlin",
    "UTC",
    "America/Havana",  # the first midnight of a month, twice
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/New_York",
    "Asia/Kolkata",
    "America/Sao_Paulo",  # gaps at midnight
    "Pacific/Apia",  # skipped a day
    "Africa/Monrovia",  # an offset with seconds, until 1972
    "America/St_Johns",
]
KINDS = {
    "n": "integer",
    "m": "integer",
    "x": "number",
    "y": "number",
    "name": "category",
    "word": "category",
    "f": "flag",
    "g": "flag",
    "ts": "time",
    "other_ts": "time",
    "d": "decimal(10,2)",
    "e": "decimal(18,6)",
}
STRUCT = pa.struct(
    [("lat", pa.float64()), ("label", pa.string()), ("inner", pa.struct([("k", pa.int64())]))]
)
MAP = pa.map_(pa.string(), pa.string())
TEXTS = [
    *("", " ", "a", "A", "abc", "ABC", "ABCD", "abc%", "a_c", "a\\b", "it's", 'say "hi"', "null"),
    *("\tx \t", "  pad  ", "x\ny", "x\n", "x\r\n", "x\r", "a\u2028", "\u0085", "\x0b", "a\u00a0b"),
    *(
        "straße",
        "STRASSE",
        "İstanbul",
        "ΑΣ",
        "ΣΑΣ ΟΣ",
        "ŉ",
        "\u017ftop",
        "\u212a",
        "k",
        "日本語",
        "😀 smile",
    ),
    *("é", "e\u0301", "ﬁn", "ǅ", "ß", "ẞ", "\u0131", "I"),
    *(
        "12",
        " -7 ",
        "+5",
        "1.5",
        "1e3",
        ".5",
        "5.",
        "NaN",
        "-Infinity",
        "0x10",
        "1d",
        "99999999999",
    ),
    *("true", "No", "t", "2024-02-29", "2024-03-31 02:30:00", "2024-13-01", "1999-1-2", "2024"),
    *("2024-10-27 02:30:00+01:00", "9223372036854775808", "1_0", "١٢"),
    *("-nan", "+NaN", "\x7f1\x7f", "0x1p3", "-0X.8P-1d", "0x1p99999", "1e-2147483649", "9" * 38),
]
INTEGERS = [
    *(0, 1, -1, 2, 3, 5, 7, -7, 10, 15, 25, 100, 1234, -99999, 2**31 - 1, 2**31, -(2**31)),
    *(2**53, 2**53 + 1, 2**63 - 1, -(2**63), 3_037_000_500, 10**18),
]
NUMBERS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 2.675, 1.005, -0.05, 0.1, 0.3, 3.6, 100.0, 1e-7),
    *(1e15, 123456789.125, 4.35, 1e22, 1e300, -1e300, 5e-324, 2.0**53, 2.0**63, -(2.0**63)),
    *(float("nan"), float("inf"), float("-inf"), 0.49999999999999994, 9.995, 1.45),
]


def _times(rng: Random) -> list[datetime.datetime]:
    start = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
    found = [start + datetime.timedelta(seconds=rng.randrange(9_467_000_000)) for _ in range(60)]
    found = [t.replace(microsecond=rng.choice([0, 1, 999_999, 500_000])) for t in found]
    near = ["2024-03-31 01:00", "2024-10-27 01:00", "2024-10-27 00:30", "2024-03-10 07:00"]
    near += ["2024-11-03 05:30", "2024-11-03 06:30", "2024-04-06 15:00", "2024-10-05 15:30"]
    near += ["1970-01-01 00:00", "1969-12-31 23:59", "2024-02-29 12:00", "2100-02-28 23:30"]
    near += ["2037-06-01 12:00", "2040-07-01 12:00", "2150-12-31 23:59", "2024-05-05 00:00"]
    near += ["2018-11-04 03:00", "2018-02-18 02:00", "2011-12-30 10:00", "1972-01-07 00:44"]
    near += ["2015-11-01 04:30", "2015-11-15 12:00", "2026-11-01 05:30", "2020-11-30 23:00"]
    near += ["1971-05-05 12:30", "1985-10-27 02:31", "1987-04-05 03:31", "2011-12-31 12:00"]
    for text in near:
        moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
        found += [moment, moment - datetime.timedelta(microseconds=1)]
    return found


def table(rng: Random, rows: int) -> pa.Table:
    """Return events with nasty values."""
    times = _times(rng)

    def some(make: Callable[[], object]) -> list[object]:
        return [None if rng.random() < 0.1 else make() for _ in range(rows)]

    def integer() -> int:
        return rng.choice(INTEGERS) if rng.random() < 0.7 else rng.randrange(-50, 50)

    def number() -> float:
        return rng.choice(NUMBERS) if rng.random() < 0.7 else round(rng.uniform(-99, 99), 3)

    def exact(digits: int, scale: int) -> Decimal:
        top = 10 ** rng.choice([digits, digits, digits - 3, scale + 1])
        value = rng.choice([0, top - 1, 1 - top, rng.randrange(-top + 1, top), 5, -5])
        return Decimal(value).scaleb(-scale)

    def struct() -> dict[str, object]:
        return {
            "lat": rng.choice([None, number()]),
            "label": rng.choice([None, rng.choice(TEXTS)]),
            "inner": rng.choice([None, {"k": rng.choice([None, integer()])}]),
        }

    def tags() -> list[tuple[str, object]]:
        keys = rng.sample(["a", "A", "b", "", "é"], rng.randrange(4))
        return [(key, rng.choice([None, rng.choice(TEXTS)])) for key in keys]

    utc = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "n": pa.array(some(integer), pa.int64()),
            "m": pa.array(some(integer), pa.int64()),
            "x": pa.array(some(number), pa.float64()),
            "y": pa.array(some(number), pa.float64()),
            "name": pa.array(some(lambda: rng.choice(TEXTS)), pa.string()),
            "word": pa.array(some(lambda: rng.choice(TEXTS)), pa.string()),
            "f": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
            "g": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
            "ts": pa.array(some(lambda: rng.choice(times)), utc),
            "other_ts": pa.array(some(lambda: rng.choice(times)), utc),
            "d": pa.array(some(lambda: exact(10, 2)), pa.decimal128(10, 2)),
            "e": pa.array(some(lambda: exact(18, 6)), pa.decimal128(18, 6)),
            "loc": pa.array(some(struct), STRUCT),
            "tags": pa.array(some(tags), MAP),
        }
    )
