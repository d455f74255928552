"""Rules on decimals: constants on the right side, bounds, events, explanations, stores."""

import re
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import tocsin

VALUES = [None, *map(Decimal, ("-9.99", "-0.01", "0.00", "9.98", "9.99", "10.00", "99.99"))]
EVENTS = pa.table({"price": pa.array(VALUES, pa.decimal128(12, 2))})


def matched(where, events=EVENTS, kind="decimal(12,2)"):
    rules = tocsin.Rules({"price": kind})
    rules.add(1, where)
    return rules.match(events).to_arrow()["event"].to_pylist()


EXACT = [
    "price < 9.999",
    "price <= 9.999",
    "price > 9.999",
    "price >= 9.985",
    "price = 9.999",
    "price = 9.990",
    "price <> 9.999",
    "price <> 9.99",
    "price IN (9.99, 9.985, 10)",
    "price NOT IN (9.99, 9.985, 10)",
    "price BETWEEN -0.005 AND 9.989",
    "price NOT BETWEEN 0.001 AND 1000000000000",
    "price < -5",
    "price >= 1000000000000000000000",
    "price > -1000000000000000000000",
    "price = 10 - 0.01",
    "price < 3.33 * 3",
    "price IS NULL",
    "price IS NOT DISTINCT FROM 9.99",
    "price IS DISTINCT FROM 9.999",
    "price >= CAST('9.99' AS DECIMAL(10, 4))",
    "price <> -CAST(9.99 AS DECIMAL(30, 20))",
    "price IN (CAST(10 AS BIGINT), 2 * 4.995, 9.98)",
]
DOUBLES = [
    "price < 9.99e0",
    "price <= 9.99e0",
    "price = 9.99e0",
    "price > 9.98e0",
    "price IN (9.99e0, 10)",
    "price <> 99.99e0",
    "price < CAST('NaN' AS DOUBLE)",
    "price > CAST('-Infinity' AS DOUBLE)",
    "price >= CAST('Infinity' AS DOUBLE)",
]


@pytest.mark.parametrize("where", EXACT + DOUBLES)
def test_conditions_against_duckdb(where):
    connection = duckdb.connect()
    connection.register("events", EVENTS.append_column("row", pa.array(range(len(VALUES)))))
    query = f"SELECT row FROM events WHERE {where} ORDER BY row"
    assert matched(where) == [row for (row,) in connection.execute(query).fetchall()]


@pytest.mark.parametrize("where", EXACT + DOUBLES)
def test_all_ways_to_give_events(where):
    expected = matched(where)
    dicts = [{"price": value} for value in VALUES]
    assert matched(where, dicts) == expected
    # Not with Arrow's cast, which does not round correctly: it makes 99.99 99.99000000000001.
    floats = [None if v is None else float(v) for v in VALUES]
    assert matched(where, [{"PRICE": v} for v in floats]) == expected
    assert matched(where, pa.table({"price": floats})) == expected
    for type_ in (pa.decimal64(12, 2), pa.decimal256(40, 2), pa.decimal128(30, 5)):
        assert matched(where, pa.table({"price": EVENTS["price"].cast(type_)})) == expected
    sparse = [[] if v is None else [("price", v)] for v in VALUES]
    maps = pa.array(sparse, pa.map_(pa.string(), pa.decimal128(12, 2)))
    assert matched(where, pa.table({"m": maps})) == expected


def test_constants_that_spark_would_round():
    rules = tocsin.Rules({"price": "decimal(12,2)"})
    for where in (
        "price > CAST(5 AS DECIMAL(38, 0))",  # Spark casts the column to it, too
        "price IN (1, CAST(5 AS DECIMAL(37, 0)))",
        f"price < {'9' * 36}.5 * 1.5",
        "price < -CAST(5 AS DECIMAL(38, 0))",
        f"price = {'9' * 30}.{'9' * 8} - {'9' * 30}.{'8' * 8}",
    ):
        with pytest.raises(tocsin.ConditionError, match="38 digits"):
            rules.add(1, where)
    rules.add(1, "price > CAST(5 AS DECIMAL(36, 0))")


def test_what_a_decimal_is_not_compared_with():
    rules = tocsin.Rules({"price": "decimal(12,2)", "price_tag": "category"})
    for where, words in {
        "price = '9.99'": "'price' is a decimal(12,2), but it is compared with the text '9.99'; "
        "leave out the quotes",
        "price = 'x'": "did you mean 'price_tag'",
        "price = TRUE": "compared with the flag TRUE",
        "price": "is a decimal(12,2), so it is not a condition by itself",
    }.items():
        with pytest.raises(tocsin.ConditionError, match=re.escape(words)):
            rules.add(1, where)


def test_explanations():
    rules = tocsin.Rules({"price": "decimal(12,2)", "whole": "decimal(5,0)"})
    rules.add(1, "price BETWEEN 5 AND 9.999 AND whole = 3")
    event = {"price": Decimal("12.50"), "whole": 5}
    price, whole = rules.explain(event, 1).predicates
    assert (price.text, price.off) == ("price BETWEEN 5.00 AND 9.99", Decimal("2.51"))
    assert (whole.text, whole.off) == ("whole = 3", 2)
    assert "price is 12.50, above by 2.51" in str(price)
    (price, _) = rules.explain({"price": {"low": 0, "high": Decimal("4.99")}}, 1).predicates
    assert price.off == Decimal("-0.01")
    assert "price is 0 to 4.99, below by 0.01" in str(price)


def test_ranges_of_events():
    rules = tocsin.Rules({"price": "decimal(12,2)"})
    rules.add("is", "price = 9.99")
    rules.add("not", "price > 9.99")
    ends = [
        {"low": Decimal("9.98"), "high": Decimal("9.99")},
        {"low": Decimal("9.995"), "high": Decimal("10.01")},
    ]
    exact = {"low": Decimal("9.99"), "high": 10.5}
    assert rules.match([{"price": ends[0]}]).to_arrow()["rule"].to_pylist() == ["is"]
    assert sorted(rules.match([{"price": exact}]).to_arrow()["rule"].to_pylist()) == ["is", "not"]
    with pytest.raises(tocsin.EventError, match="more than 2 digits after the point"):
        rules.match([{"price": ends[1]}])
    struct = pa.struct([("low", pa.decimal128(9, 2)), ("high", pa.decimal128(9, 2))])
    schema = tocsin.Schema(pa.schema([("price", struct)]))
    assert schema.kind("price") == "decimal(9,2)"
    table = pa.table({"price": pa.array([ends[0], None], struct)})
    assert rules.match(table).to_arrow()["rule"].to_pylist() == ["is"]


@pytest.mark.parametrize("value", [True, "9.99", [1], Decimal("9.999"), 9.999, 10**11, b"1"])
def test_events_that_do_not_fit(value):
    with pytest.raises(tocsin.EventError, match=r"event 1: attribute 'price' is a decimal\(12,2\)"):
        matched("price > 5", [{"price": 5}, {"price": value}])


# ------------------------------------------------------------ tables of rules


def bounds_of(rules, id_):
    return rules[id_].where


def test_boxes_are_rounded_inwards():
    rules = tocsin.Rules({"price": "decimal(6,2)", "n": "integer"})
    exact = pa.decimal128(20, 4)
    low = [Decimal("1.001"), None, Decimal("-1.001"), Decimal("9.991"), Decimal(-(10**8))]
    high = [Decimal("9.999"), Decimal("5"), Decimal("-0.001"), Decimal("9.999"), Decimal(10**8)]
    rules.add_many(
        pa.table(
            {"id": range(5), "price_low": pa.array(low, exact), "price_high": pa.array(high, exact)}
        )
    )
    assert [rules[i].where for i in range(5)] == [
        "price BETWEEN 1.01 AND 9.99",
        "price <= 5.00",
        "price BETWEEN -1.00 AND -0.01",
        "FALSE",
        "price IS NOT NULL",
    ]
    rules.add_many(pa.table({"id": [5, 6], "price_low": [9.99, 0.1], "price_high": [9.99, None]}))
    rules.add_many(pa.table({"id": [7], "price_low": [3], "price_high": [100_000]}))
    assert [rules[i].where for i in (5, 6, 7)] == ["price = 9.99", "price >= 0.10", "price >= 3.00"]
    for low, high, words in (
        (Decimal(5), Decimal(4), "the low bound is above the high bound"),
        (Decimal(10_000), None, r"no decimal\(6,2\) is as high as 10000, the low bound of price"),
        (float("nan"), 1.0, "is NaN; null means unbounded"),
        ("1", "2", r"is a decimal\(6,2\), but its column of bounds is of type string"),
    ):
        table = pa.table({"id": [9], "price_low": pa.array([low]), "price_high": pa.array([high])})
        with pytest.raises(tocsin.RuleError, match=words):
            rules.add_many(table)


def test_long_rows_of_several_kinds():
    schema = {"price": "decimal(6,2)", "n": "integer", "rate": "decimal(18,6)", "x": "number"}
    rules = tocsin.Rules(schema)
    rows = [
        ("a", "price", 1.001, 9.99),
        ("a", "n", 2.5, 7.5),
        ("b", "rate", 0.1, None),
        ("b", "x", None, 2.5),
        ("b", "price", 5.0, 5.0),
    ]
    columns = zip(*rows, strict=True)
    names = ("id", "attribute", "low", "high")
    rules.add_many(pa.table(dict(zip(names, map(list, columns), strict=True))))
    assert rules["a"].where == "price BETWEEN 1.01 AND 9.99 AND n BETWEEN 3 AND 7"
    assert rules["b"].where == "price = 5.00 AND rate >= 0.100000 AND x <= 2.5"


# ------------------------------------------------------------ schemas and stores


def test_schemas_of_columns():
    arrow = pa.schema(
        [
            ("a", pa.decimal128(12, 2)),
            ("b", pa.decimal256(18, 18)),
            ("c", pa.decimal32(5, 0)),
            ("d", pa.decimal64(9, 9)),
            ("e", pa.decimal128(19, 2)),
            ("f", pa.decimal128(5, -2)),
        ]
    )
    schema = tocsin.Schema(arrow)
    kinds = ["decimal(12,2)", "decimal(18,18)", "decimal(5,0)", "decimal(9,9)"]
    assert list(schema.kinds) == kinds
    words = "'e' is a decimal column that has 19 digits, but decimals can have at most 18; cast it"
    with pytest.raises(tocsin.ConditionError, match=words):
        schema.index("e")
    with pytest.raises(tocsin.ConditionError, match="'f' is a decimal column that must have 1 to"):
        schema.index("f")


def test_stores_keep_decimals(tmp_path):
    rules = tocsin.Rules({"price": "decimal(12, 2)"})
    rules.add(1, "price < 9.999")
    rules.save(tmp_path / "s")
    again = tocsin.open(tmp_path / "s")
    assert again.schema == rules.schema
    assert again.schema.kind("price") == "decimal(12,2)"
    assert again.match(EVENTS).pairs()[0].tolist() == [1, 2, 3, 4, 5]
    again.add(2, "price = 10")
    assert again.match(EVENTS).by_rule()[2].tolist() == [6]
