"""Reading terms: names, identity, canonical SQL, storage, and what is refused."""

import json
import pickle

import pyarrow as pa
import pytest

from tests.model.terms.columns import SOURCES, UTC, read
from tocsin.errors import ConditionError
from tocsin.model import terms
from tocsin.model.terms.functions.table import FUNCTIONS

SAMPLES = {
    "+": "n + 1",
    "-": "n - m",
    "*": "d * 3",
    "/": "n / 2.5",
    "%": "x % 3",
    "pmod": "pmod(n, 3)",
    "div": "n div m",
    "negative": "-n",
    "abs": "abs(x)",
    "round": "round(x, 2)",
    "sqrt": "sqrt(n)",
    "&": "n & 7",
    "|": "n | m",
    "^": "n ^ -1",
    "~": "~n",
    "<<": "shiftleft(n, 3)",
    ">>": "n >> 3",
    "shiftrightunsigned": "shiftrightunsigned(n, 3)",
    "floor": "floor(d)",
    "ceil": "ceiling(x)",
    "lower": "lower(name)",
    "upper": "upper(tags['x'])",
    "length": "char_length(name)",
    "trim": "trim(BOTH 'x' FROM name)",
    "ltrim": "ltrim(name)",
    "rtrim": "rtrim(name)",
    "left": "left(name, 3)",
    "right": "right(name, 3)",
    "substring": "substring(name, -3, 2)",
    "concat": "name || n || d || f",
    "replace": "replace(name, 'a')",
    "startswith": "startswith(name, 'a')",
    "endswith": "endswith(name, 'a')",
    "contains": "contains(name, 'a')",
    "instr": "locate('ß', name, 2)",
    "split": "element_at(split(name, '[ß-]'), -1)",
    "split_part": "split_part(name, 'ß', 2)",
    "array_contains": "array_contains(split(name, 'ß'), '1')",
    "like": "name LIKE '_a!_%' ESCAPE '!'",
    "rlike": "name RLIKE 'a\\\\d+'",
    "year": "year(ts)",
    "quarter": "quarter(ts)",
    "month": "month(ts)",
    "day": "dayofmonth(ts)",
    "dayofweek": "dayofweek(ts)",
    "weekday": "weekday(ts)",
    "dayofyear": "dayofyear(ts)",
    "weekofyear": "weekofyear(ts)",
    "hour": "hour(ts)",
    "minute": "minute(ts)",
    "second": "second(ts)",
    "date_trunc": "date_trunc('MM', ts)",
    "datediff": "datediff(ts, '2024-01-01')",
    "date_add": "date_add(ts, 3)",
    "date_sub": "date_sub(ts, 3)",
    "unix_timestamp": "unix_timestamp(ts)",
    "unix_seconds": "unix_seconds(ts)",
    "unix_millis": "unix_millis(ts)",
    "unix_micros": "unix_micros(ts)",
    "=": "n = m",
    "<>": "x <> y",
    "<": "name < 'b'",
    "<=": "ts <= '2024-01-01'",
    ">": "d > n",
    ">=": "n >= 2.5",
    "<=>": "x <=> NULL",
    "and": "f AND n > 1 AND x > 2",
    "or": "f OR NOT f",
    "not": "NOT f",
    "in": "n IN (1, 2, 3)",
    "isnull": "loc IS NULL",
    "isnan": "isnan(x)",
    "case": "CASE n WHEN 1 THEN 'a' ELSE name END",
    "coalesce": "coalesce(x, n, 1.5)",
    "greatest": "greatest(ts, to_date(ts))",
    "least": "least(x, y, 0)",
    "cast": "CAST(x AS DECIMAL(10, 2))",
}


def columns(rows: list[int | None]) -> dict[str, pa.Array]:
    """Return columns that have one value or null in their rows."""
    values = {
        "n": 5,
        "m": 0,
        "x": 1.5,
        "y": float("nan"),
        "name": "aß1",
        "f": True,
        "ts": 1_700_000_000_000_000,
        "d": 1,
        "Loc": {"lat": 1.0, "Tag": "t"},
        "tags": [("x", "y")],
    }
    return {
        declared: pa.array([None if r is None else values[declared] for r in rows], arrow)
        for declared, arrow in ((d, terms.arrow_type(t)) for d, t in SOURCES.values())
    }


def test_every_function_has_a_sample() -> None:
    assert set(SAMPLES) == set(FUNCTIONS)
    for name, text in SAMPLES.items():
        assert name in str(terms.to_json(read(text))), text


@pytest.mark.parametrize("text", [*SAMPLES.values(), "loc.lat", "tags['x']", "tags.x"])
class TestEvery:
    def test_sql_reads_as_the_same_term(self, text: str) -> None:
        term = read(text)
        again = read(term.sql)
        assert again == term
        assert hash(again) == hash(term)
        assert again.sql == term.sql

    def test_json_and_pickle_keep_the_term(self, text: str) -> None:
        term = read(text)
        assert terms.from_json(json.loads(json.dumps(terms.to_json(term)))) == term
        assert pickle.loads(pickle.dumps(term)) == term

    def test_nulls_slices_and_no_events(self, text: str) -> None:
        term = read(text)
        whole = columns([0, None, 1, None, None, 2])
        (expected,) = terms.evaluate([term], whole.__getitem__, 6, UTC)
        assert expected.type == terms.arrow_type(term.type)
        expected.validate(full=True)
        for start, stop in ((1, 6), (2, 4), (3, 5), (3, 3)):
            part = {name: column[start:stop] for name, column in whole.items()}
            (found,) = terms.evaluate([term], part.__getitem__, stop - start, UTC)
            assert found.to_pylist() == expected[start:stop].to_pylist()
        nulls = {name: pa.nulls(3, column.type) for name, column in whole.items()}
        (found,) = terms.evaluate([term], nulls.__getitem__, 3, UTC)
        assert found.to_pylist() == expected.take(pa.array([1, 3, 4])).to_pylist()


def test_names_fold_case_and_literals_do_not() -> None:
    assert read("HOUR(TS)") == read("hour(`ts`)")
    assert read("LOC.LAT") == read("loc.lat")
    assert read("LOC.LAT").columns == ("Loc",)
    assert read("tags['x']") != read("tags['X']")
    assert read("concat(name, 'a')") != read("concat(name, 'A')")
    assert len({read("x + 1e0"), read("n + 1"), read("d + 1"), read("d + 1.0")}) == 4
    assert read("coalesce(NULL, 1)") != read("coalesce(NULL, 1.0)") != read("coalesce(NULL, 1e0)")
    assert read("x + y").columns == ("x", "y")
    assert read("1 + 2").is_constant


def test_bit_operators_have_the_precedence_of_spark() -> None:
    for text, parenthesised in (
        ("n | m & 3 ^ 1", "n | ((m & 3) ^ 1)"),
        ("n & m << 2 + 1", "n & (m << (2 + 1))"),
        ("n ^ m | 1 & ~n >> 1", "(n ^ m) | (1 & ((~n) >> 1))"),
        ("n << 1 << 2 & 3 & m", "(((n << 1) << 2) & 3) & m"),
        ("shiftleft(n, 1) & (m | 1)", "(n << 1) & (m | 1)"),
    ):
        assert read(text) == read(parenthesised), text
    assert read("n & 3 = 1") == read("(n & 3) = 1")


def test_equal_terms_are_computed_once() -> None:
    asked: list[str] = []

    def column(name: str) -> pa.Array:
        asked.append(name)
        return columns([0, 1])[name]

    found = terms.evaluate(
        [read("lower(name)"), read("upper(name)"), read("1 + 1")], column, 2, UTC
    )
    assert asked == ["name"]
    assert [each.to_pylist() for each in found] == [["aß1"] * 2, ["ASS1"] * 2, [2, 2]]


@pytest.mark.parametrize(
    ("text", "message", "start"),
    [
        ("lower(nam)", "unknown attribute 'nam'; did you mean 'name'?", 6),
        (
            "hour(zulu)",
            "unknown attribute 'zulu'; the schema has n, m, x, y, name, f, ts, d, ...",
            5,
        ),
        ("hours(ts)", "the function hours is not supported; did you mean 'hour'?", 0),
        ("rand() > x", "is not the same at all times", 0),
        ("now()", "is not the same at all times", None),
        ("x > (SELECT 1)", "is a subquery", 12),
        ("sum(x) > 1", "needs several events", 0),
        ("name > 5", "the comparison > needs values of one type, but name is a text", 0),
        ("name + 1", "+ needs numbers, but name is a text; cast it", 0),
        ("lower(n)", "lower needs a text, but n is an integer (bigint); cast it to string", 0),
        ("left(name, n)", "the length of left must be a constant, but it is n", 0),
        ("substring(name, x)", "must be a constant", 10),
        ("name LIKE tags['x']", "the pattern of LIKE must be a constant", 0),
        ("name LIKE 'a\\\\b'", "the escape character \\ precedes 'b'", 0),
        ("name LIKE 'a\\\\'", "ends the pattern", 0),
        ("name LIKE ANY ('a') ESCAPE '!'", "join several LIKE by OR", 0),
        ("split(name, ',')", "is an array; test a part, as in split(text, ',')[0] = 'a'", 0),
        ("split(name, ',')[-1]", "split(text, pattern)[n] counts from 0", 0),
        ("element_at(split(name, ','), 0)", "from 1, or from the end with negative n", 0),
        ("split(name, ',')[n]", "needs a constant number of the part", 0),
        ("split(name, '^a')[0]", "must not contain ^ or $", 0),
        ("split(name, 'a*')[0]", "must not match empty text", 0),
        ("split(name, 'a|[ab]*c')[0]", "which may take long; write one of them", 0),
        ("split(name, 'a(b+c)?')[0]", "which may take long; write one of them", 0),
        ("split_part(name, ',', 0)", "split_part counts from 1", 0),
        (
            "array_contains(tags, 'a')",
            "by array_join; for the key of a map, write tags['key'] IS NOT NULL",
            0,
        ),
        ("locate(name, 'a')", "the part to look for must be a constant, but it is name", 0),
        ("shiftleft(x, 1)", "a shift needs integers, but x is a number (double)", 0),
        ("x & 1", "& needs integers, but x is a number (double)", 0),
        ("n << n", "a shift needs an int, but n is an integer (bigint); cast it to int", 0),
        ("name || 1 + 2", "write parentheses", 0),
        ("n & 1 || name", "write parentheses", 0),
        ("CAST(x AS STRING)", "depends on the version of Java", 5),
        ("CAST(x AS FLOAT)", "a cast to FLOAT is not supported", 5),
        ("CAST(loc AS STRING)", "use one of its fields", 5),
        ("CAST(n AS DECIMAL(39, 0))", "it can have 1 to 38 digits", 5),
        ("ts + INTERVAL 1 DAY", "intervals are not supported", None),
        ("ts - ts", "- needs numbers, but ts is a time (timestamp); use date_add", 0),
        ("ts > 'noon'", "'noon' is not a timestamp; expected ISO 8601", 0),
        ("TIMESTAMP 'noon' < ts", "'noon' is not a timestamp", 10),
        ("date_add(ts, n)", "date_add needs an int, but n is an integer (bigint)", 0),
        ("date_trunc('eon', ts)", "date_trunc has no unit 'EON'", 0),
        ("trunc(ts, 'MM')", "use to_date(date_trunc", 0),
        ("to_date(name, 'yyyy')", "to_date with a format is not supported", 0),
        ("datediff(HOUR, ts, ts)", "datediff is not supported with UNIT", None),
        ("floor(x, 2)", "floor is not supported with DECIMALS", 6),
        ("extract(SECOND FROM ts)", "SECOND cannot be extracted", None),
        ("loc.lon", "Loc has no field 'lon' that a condition can test, only lat, Tag", 0),
        ("name.x", "name is a text, so it has no field 'x'", 0),
        ("tags[1]", "needs a text between the brackets", 0),
        ("loc = loc", "does not take a struct", 0),
        ("d * 5L", "Spark reads 5L and CAST(5 AS BIGINT) differently", 0),
        ("x div 2", "div needs integers, but x is a number (double)", 0),
        ("CASE WHEN n THEN 1 END", "WHEN needs a flag, but n is an integer", None),
        ("if(f, n, name)", "CASE needs values of one type", 3),
        ("n + 123456789012345678901234567890123456789", "more than Spark's 38 digits", None),
        ("1e999 > x", "does not fit a double", 0),
        ("pmod(n)", "pmod takes 2 arguments (pmod(a, b)), got 1", 0),
        ("name RLIKE '(?=a)'", "RE2 has no lookahead", 0),
    ],
)
def test_refused(text: str, message: str, start: int | None) -> None:
    with pytest.raises(ConditionError) as caught:
        read(text)
    assert message in str(caught.value)
    if start is not None:
        assert caught.value.position == start


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ConditionError, match="nested deeper than 100"):
        read("abs(" * 150 + "n" + ")" * 150)
    assert read(" AND ".join(["f"] * 500)).depth == 2


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ABC%", ("equal", "left(name, 3)", "ABC")),
        ("%ABC", ("equal", "right(name, 3)", "ABC")),
        ("ABC", ("equal", "name", "ABC")),
        ("", ("equal", "name", "")),
        ("%", ("not_null", "name", None)),
        ("%%", ("not_null", "name", None)),
        ("😀\\%%", ("equal", "left(name, 2)", "😀%")),
        ("%A%", ("flag", "(name LIKE '%A%')", None)),
        ("A_", ("flag", "(name LIKE 'A_')", None)),
    ],
)
def test_patterns_become_prefixes_where_they_can(pattern: str, expected: tuple) -> None:
    how, term, text = terms.read_pattern(read("name"), pattern, None, False)
    assert (how, term.sql, text) == expected


def test_patterns_that_ignore_case_compare_lower_case() -> None:
    how, term, text = terms.read_pattern(read("name"), "ABC%", None, True)
    assert (how, term, text) == ("equal", read("left(lower(name), 3)"), "abc")
    how, term, text = terms.read_pattern(read("name"), "A!%B%", "!", False)
    assert (how, term, text) == ("equal", read("left(name, 3)"), "A%B")
    with pytest.raises(ConditionError, match="LIKE needs a text"):
        terms.read_pattern(read("n"), "1%", None, False)
    with pytest.raises(ConditionError, match="precedes 'x'"):
        terms.read_pattern(read("name"), "\\x", None, False)


@pytest.mark.parametrize(
    "stored",
    [
        *(None, 5, "n", [], {}, ["column"], ["column", 5, "bigint"], ["column", "n", "long"]),
        *(["column", "n", {"list": "bigint"}], ["literal", 5, "string"], ["literal", True, "int"]),
        *(
            ["literal", 2**31, "int"],
            ["literal", "x", "decimal(3,1)"],
            ["literal", "10.55", "decimal(3,1)"],
        ),
        *(
            ["literal", "sNaN", "decimal(3,1)"],
            ["literal", 1e999, "double"],
            ["literal", "\ud800", "string"],
        ),
        *(["explode", ["column", "n", "bigint"]], ["hour"], ["hour", ["column", "n", "bigint"]]),
        ["+", ["column", "n", "bigint"], ["literal", 1, "int"]],
        ["+", ["column", "n", "bigint"], ["literal", None, "bigint"]],
        ["cast", "bigint", ["column", "n", "bigint"]],
        ["cast", "string", ["column", "x", "double"]],
        ["field", "b", ["column", "s", {"struct": [["a", "bigint"]]}]],
        ["field", "A", ["column", "s", {"struct": [["a", "bigint"]]}]],
        ["column", "s", {"struct": [["a", "bigint"], ["A", "bigint"]]}],
        ["item", 5, ["column", "m", {"map": "string"}]],
        ["like", ["column", "s", "string"], ["column", "s", "string"]],
        ["rlike", ["column", "s", "string"], ["literal", "(?=a)", "string"]],
        ["date_trunc", ["literal", "HOUR", "string"], ["column", "t", "timestamp"]],
        ["literal", 2**62, "timestamp"],
        ["cast", "decimal(99,0)", ["column", "n", "bigint"]],
    ],
)
def test_malformed_storage_is_refused(stored: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        terms.from_json(stored)


def test_deep_storage_is_refused() -> None:
    stored: list = ["column", "n", "bigint"]
    for _ in range(100_000):
        stored = ["abs", stored]
    with pytest.raises(ValueError, match="nested"):
        terms.from_json(stored)


def test_the_table_of_functions() -> None:
    rows = list(terms.describe_functions())
    assert len(rows) == len(FUNCTIONS)
    assert ("times", "dayofweek(time)", "", "int", "Sunday is 1") in rows
    assert "try_add" in terms.function_names()
