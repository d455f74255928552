"""What terms mean: one test for each place where engines differ."""

import datetime
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from tests.model.terms.columns import constant, evaluate, read

BERLIN = ZoneInfo("Europe/Berlin")
NAN, INF = math.nan, math.inf
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (moment - epoch) // datetime.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("100 / 3.6", Decimal("27.777778"), "decimal(10,6)"),
        ("7 / 2", 3.5, "double"),
        ("-7 % 3", -1, "int"),
        ("mod(-7, 3)", -1, "int"),
        ("pmod(-7, 3)", 2, "int"),
        ("-7 div 2", -3, "bigint"),
        ("2147483647 + 1", None, "int"),
        ("2147483648 + 1", 2147483649, "bigint"),
        ("1 / 0", None, "double"),
        ("1.0 / 0", None, "decimal(7,6)"),
        ("5 % 0", None, "int"),
        ("round(2.675, 2)", Decimal("2.68"), "decimal(4,2)"),
        ("round(2.675e0, 2)", 2.68, "double"),
        ("round(2.5e0)", 3.0, "double"),
        ("round(-2.5e0)", -3.0, "double"),
        ("round(125, -1)", 130, "int"),
        ("round(2147483647, -1)", None, "int"),
        ("floor(-2.5e0)", -3, "bigint"),
        ("ceil(-2.5)", Decimal("-2"), "decimal(2,0)"),
        ("floor(1e300)", None, "bigint"),
        ("abs(-2147483648)", None, "int"),
        ("1.5 + 1", Decimal("2.5"), "decimal(3,1)"),
        ("1.5 * 2.5", Decimal("3.75"), "decimal(5,2)"),
        ("1.5 + 1e0", 2.5, "double"),
        ("0.1 + 0.2 = 0.3", True, "boolean"),
        ("0.1e0 + 0.2e0 = 0.3e0", False, "boolean"),
        ("upper('straße')", "STRASSE", "string"),
        ("length(lower('İ'))", 2, "int"),
        ("lower('ΑΣ')", "ας", "string"),
        ("trim('\t x \t')", "\t x \t", "string"),
        ("trim('  x ')", "x", "string"),
        ("length('😀é')", 2, "int"),
        ("left('abc', 0)", "", "string"),
        ("left('abc', -1)", "", "string"),
        ("right('abc', 2)", "bc", "string"),
        ("right('abc', 9)", "abc", "string"),
        ("substring('abc', 0, 2)", "ab", "string"),
        ("substring('abc', 1, 2)", "ab", "string"),
        ("substring('ab', -5, 4)", "a", "string"),
        ("substr('abc', -2)", "bc", "string"),
        ("substring('abc', 9)", "", "string"),
        ("concat('a', NULL)", None, "string"),
        ("'a' || 1 || true", "a1true", "string"),
        ("replace('aaa', 'a')", "", "string"),
        ("replace('abc', '', 'x')", "abc", "string"),
        ("'it' LIKE 'it\\n'", False, "boolean"),
        ("dayofweek(DATE '2024-05-05')", 1, "int"),
        ("weekday(DATE '2024-05-05')", 6, "int"),
        ("weekofyear(DATE '2021-01-03')", 53, "int"),
        ("datediff('2024-03-01', '2024-02-28')", 2, "int"),
        ("year('2024-05-01')", 2024, "int"),
        ("CAST('1.5' AS INT)", None, "int"),
        ("CAST(' 12 ' AS INT)", 12, "int"),
        ("CAST(1e19 AS BIGINT)", None, "bigint"),
        ("CAST(-1.9e0 AS INT)", -1, "int"),
        ("CAST(2.5 AS INT)", 2, "int"),
        ("CAST(12345 AS DECIMAL(4,0))", None, "decimal(4,0)"),
        ("CAST(0.125e0 AS DECIMAL(4,2))", Decimal("0.13"), "decimal(4,2)"),
        ("CAST('yes' AS BOOLEAN)", True, "boolean"),
        ("coalesce(NULL, 1, 2.5)", Decimal("1.0"), "decimal(11,1)"),
        ("nullif(1, 1)", None, "int"),
        ("if(NULL, 1, 2)", 2, "int"),
        ("CASE 1 WHEN 2 THEN 'a' END", None, "string"),
        ("greatest(1, NULL, 3)", 3, "int"),
        ("1 IN (2, NULL)", None, "boolean"),
        ("1 IN (1, NULL)", True, "boolean"),
        ("NULL <=> NULL", True, "boolean"),
        ("NULL AND FALSE", False, "boolean"),
        ("NULL OR TRUE", True, "boolean"),
        ("'a' < 'é'", True, "boolean"),
        ("isnan(CAST('NaN' AS DOUBLE))", True, "boolean"),
        ("isnotnull(NULL)", False, "boolean"),
        ("try_add(2147483647, 1)", None, "int"),
        ("try_divide(1, 0)", None, "double"),
        ("try_cast('x' AS INT)", None, "int"),
    ],
)
def test_constants_are_folded_as_spark_does(text: str, value: object, type_: str) -> None:
    term = read(text)
    assert term.function == "literal"
    assert str(term.type) == type_
    assert term.value == value
    assert type(term.value) is type(value)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("n * 3.6", "decimal(23,1)"),
        ("n / m", "double"),
        ("n + length(name)", "bigint"),
        ("length(name) + 1", "int"),
        ("d + d", "decimal(11,2)"),
        ("d * d", "decimal(21,4)"),
        ("d / d", "decimal(23,13)"),
        ("d % 3", "decimal(3,2)"),
        ("d * 3", "decimal(12,2)"),
        ("d * (1 + 2)", "decimal(21,2)"),
        ("d * n", "decimal(31,2)"),
        ("d * d * d * d", "decimal(38,6)"),
        ("d + x", "double"),
        ("round(d, 1)", "decimal(10,1)"),
        ("round(d, -1)", "decimal(9,0)"),
        ("floor(d)", "decimal(9,0)"),
        ("floor(x)", "bigint"),
        ("coalesce(d, n)", "decimal(22,2)"),
        ("greatest(ts, to_date(ts))", "timestamp"),
        ("date_add(ts, 1)", "date"),
    ],
)
def test_types_are_those_of_spark(text: str, type_: str) -> None:
    assert str(read(text).type) == type_


def test_a_plain_column_is_a_term_too() -> None:
    assert read("N").function == "column"
    assert read("N").value == "n"
    assert evaluate("n", n=[1, None]) == [1, None]


def test_overflow_is_null_in_its_rows_only() -> None:
    n, m = [1, LARGEST, SMALLEST, None, 3_037_000_500], [2, 1, -1, 1, 3_037_000_500]
    assert evaluate("n + m", n=n, m=m) == [3, None, None, None, 6_074_001_000]
    assert evaluate("n - m", n=n, m=m) == [-1, LARGEST - 1, SMALLEST + 1, None, 0]
    assert evaluate("n * m", n=n, m=m) == [2, LARGEST, None, None, None]
    assert evaluate("n * m", n=[-(2**62), 2**62], m=[2, 2]) == [SMALLEST, None]
    ends = [2.0**63, -(2.0**63), NAN, None]
    assert evaluate("floor(x)", x=ends) == [None, SMALLEST, 0, None]
    assert evaluate("ceil(x)", x=ends) == [None, SMALLEST, 0, None]
    assert evaluate("-n", n=n) == [-1, -LARGEST, None, None, -3_037_000_500]
    assert evaluate("abs(n)", n=n) == [1, LARGEST, None, None, 3_037_000_500]
    assert evaluate("n div m", n=n, m=m) == [0, LARGEST, None, None, 1]
    assert evaluate("n % m", n=n, m=m) == [1, 0, 0, None, 0]
    assert evaluate("length(name) * 2147483647", name=["", "a", "ab", None]) == [
        *(0, 2147483647, None, None),
    ]
    assert evaluate("round(n, -1)", n=n) == [0, None, None, None, 3_037_000_500]


def test_division_by_zero_is_null() -> None:
    assert evaluate("x / y", x=[1.0, 1.0, NAN], y=[0.0, -0.0, 0.0]) == [None, None, None]
    assert evaluate("x / 0", x=[1.0]) == [None]
    assert evaluate("x % y", x=[5.5, 5.5], y=[0.0, 2.0]) == [None, 1.5]
    assert evaluate("n % m", n=[-7, 7], m=[3, 0]) == [-1, None]
    assert evaluate("d / n", d=[Decimal("1.00"), Decimal("1.00")], n=[0, 3]) == [
        *(None, Decimal("0.33333333333333333333333")),
    ]


def test_nan_equals_nan_and_is_the_greatest_number() -> None:
    x, y = [NAN, NAN, 1.0, INF, None], [NAN, 1.0, NAN, NAN, NAN]
    assert evaluate("x = y", x=x, y=y) == [True, False, False, False, None]
    assert evaluate("x <> y", x=x, y=y) == [False, True, True, True, None]
    assert evaluate("x < y", x=x, y=y) == [False, False, True, True, None]
    assert evaluate("x <= y", x=x, y=y) == [True, False, True, True, None]
    assert evaluate("x > y", x=x, y=y) == [False, True, False, False, None]
    assert evaluate("x >= y", x=x, y=y) == [True, True, False, False, None]
    assert evaluate("x > 5", x=x) == [True, True, False, True, None]
    assert evaluate("5 < x", x=x) == [True, True, False, True, None]
    assert evaluate("x >= CAST('NaN' AS DOUBLE)", x=x) == [True, True, False, False, None]
    assert evaluate("x > CAST('NaN' AS DOUBLE)", x=x) == [False, False, False, False, None]
    assert evaluate("x <= CAST('NaN' AS DOUBLE)", x=x) == [True, True, True, True, None]
    assert evaluate("x IN (CAST('NaN' AS DOUBLE), 7)", x=x) == [True, True, False, False, None]
    assert evaluate("x <=> y", x=x, y=y) == [True, False, False, False, False]
    greatest = evaluate("greatest(x, y)", x=[1.0, NAN, None], y=[NAN, INF, 3.0])
    assert [str(v) for v in greatest] == ["nan", "nan", "3.0"]
    assert evaluate("least(x, y)", x=[1.0, NAN, None], y=[NAN, INF, 3.0]) == [1.0, INF, 3.0]


def test_several_constants_among_columns() -> None:
    assert evaluate("greatest(1e0, 2e0, x)", x=[0.0, 3.0, None]) == [2.0, 3.0, 2.0]
    assert evaluate("least(n, 1, 2)", n=[0, 3, None]) == [0, 1, 1]
    assert evaluate("n IN (1, 2, 3)", n=[1, 4, None]) == [True, False, None]
    assert evaluate("n IN (1, 2, 3, NULL)", n=[1, 4, None]) == [True, None, None]
    assert evaluate("1e0 IN (2e0, x)", x=[1.0, 3.0, None]) == [True, False, None]
    assert evaluate("CASE WHEN f THEN 1 WHEN NOT f THEN 2 END", f=[True, False, None]) == [
        1,
        2,
        None,
    ]
    assert evaluate("CASE WHEN TRUE THEN 1e0 WHEN f THEN x END", f=[True], x=[2.0]) == [1.0]
    assert evaluate("concat('a', name, 'b')", name=["-", None]) == ["a-b", None]
    assert evaluate("2 - n", n=[5, None]) == [-3, None]
    assert evaluate("2.5 / d", d=[Decimal("2.00"), None]) == [Decimal("1.2500000000000"), None]
    assert evaluate("7 % n", n=[4, 0]) == [3, None]
    assert evaluate("7 div n", n=[4, 0]) == [1, None]
    assert evaluate("datediff('2024-01-02', ts)", ts=[0, None]) == [19724, None]


def test_negative_zero_equals_zero() -> None:
    assert evaluate("x = y", x=[-0.0], y=[0.0]) == [True]
    assert evaluate("x < y", x=[-0.0], y=[0.0]) == [False]
    assert read("-0e0") != read("0e0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name LIKE 'a%'", [True, True, False, False, True]),
        ("name LIKE '%c'", [True, True, False, False, False]),
        ("name LIKE '_b_'", [True, False, False, False, True]),
        ("name LIKE 'a\\\\_%'", [False, True, False, False, False]),
        ("name LIKE 'a!_%' ESCAPE '!'", [False, True, False, False, False]),
        ("name LIKE '%\n%'", [False, False, False, False, True]),
        ("name ILIKE 'A%C'", [True, True, False, False, False]),
        ("name NOT LIKE 'a%'", [False, False, True, True, False]),
        ("name LIKE ''", [False, False, True, False, False]),
        ("name LIKE '%'", [True, True, True, True, True]),
        ("name RLIKE '^.b.$'", [True, False, False, False, False]),
        ("name RLIKE 'b$'", [False, False, False, False, True]),
        ("name RLIKE '(?i)^A'", [True, True, False, False, True]),
        ("name RLIKE '\\\\s'", [False, False, False, False, True]),
        ("startswith(name, 'a')", [True, True, False, False, True]),
        ("endswith(name, '')", [True, True, True, True, True]),
        ("contains(name, '_')", [False, True, False, False, False]),
    ],
)
def test_patterns(text: str, expected: list[bool]) -> None:
    names = ["abc", "a_c", "", "%", "ab\n"]
    assert evaluate(text, name=[*names, None]) == [*expected, None]


def test_case_of_letters_beyond_ascii() -> None:
    names = ["straße", "ABC", None, "İ", "ΑΣ", ""]
    assert evaluate("upper(name)", name=names) == ["STRASSE", "ABC", None, "İ", "ΑΣ", ""]
    assert evaluate("lower(name)", name=names) == ["straße", "abc", None, "i̇", "ας", ""]


def test_hours_are_local_and_skip_gaps() -> None:
    texts = ["2024-03-31T00:59:59+00:00", "2024-03-31T01:00:00+00:00", "2150-07-01T12:00:00+00:00"]
    times = pa.array([micros(t) for t in texts] + [None], pa.timestamp("us", "UTC"))
    assert evaluate("hour(ts)", BERLIN, ts=times) == [1, 3, 14, None]
    assert evaluate("hour(ts)", ts=times) == [0, 1, 12, None]
    assert evaluate("day(ts)", ZoneInfo("Asia/Tokyo"), ts=times) == [31, 31, 1, None]
    starts = evaluate("unix_micros(date_trunc('day', ts))", BERLIN, ts=times)
    assert starts == [
        *(micros("2024-03-31T00:00:00+01:00"),) * 2,
        *(micros("2150-07-01T00:00:00+02:00"), None),
    ]


def test_years_far_away() -> None:
    times = pa.array([micros("2024-02-29T10:00:00+00:00") + 400 * 365 * 86_400_000_000 * 100, None])
    times = times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    (year, _), (start, _) = (
        evaluate(t, ts=times) for t in ("year(ts)", "unix_micros(date_trunc('year', ts))")
    )
    assert year == 41997
    assert evaluate("month(ts)", ts=times)[0] in range(1, 13)
    assert start <= times.cast(pa.int64())[0].as_py() < start + 366 * 86_400_000_000


def test_structs_and_maps() -> None:
    loc = [{"lat": 1.5, "Tag": "a"}, None, {"lat": None, "Tag": None}]
    assert evaluate("loc.lat", Loc=loc) == [1.5, None, None]
    assert evaluate("LOC.tag", Loc=loc) == ["a", None, None]
    assert evaluate("loc['LAT'] + 1", Loc=loc) == [2.5, None, None]
    tags = [[("x", "1"), ("X", "2")], None, [], [("x", None)]]
    assert evaluate("tags['x']", tags=tags) == ["1", None, None, None]
    assert evaluate("tags.X", tags=tags) == ["2", None, None, None]
    assert evaluate("element_at(tags, 'X')", tags=tags) == ["2", None, None, None]


def test_the_optimizer_of_spark_drops_the_inner_of_two_changes_of_case() -> None:
    assert read("lower(upper(name))") == read("lower(name)")
    assert constant("lower(upper('straße'))") == "strasse"


def test_integers_against_literals_beyond_bigint_are_decided_without_a_look() -> None:
    assert constant("n < 9223372036854775808") is True
    assert constant("n >= 9223372036854775808") is False
    assert constant("-9223372036854775809 < n") is True
    assert evaluate("n = 9223372036854775808", n=[1, None]) == [False, None]
