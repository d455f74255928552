"""Random typed expressions over a fixed table, written twice: for Tocsin, and for Spark.

Where Spark raises an error, its text says null instead: `try_add(a, b)` for `a + b`.
"""

from random import Random
from typing import NamedTuple

from tests.model.terms.events import TEXTS
from tests.model.terms.patterns import LIKES, REGEXES


class Both(NamedTuple):
    """An expression for Tocsin and for Spark."""

    tocsin: str
    spark: str


def same(text: str) -> Both:
    return Both(text, text)


def call(pattern: str, *parts: Both) -> Both:
    return Both(
        pattern.format(*(p.tocsin for p in parts)), pattern.format(*(p.spark for p in parts))
    )


def quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


UNITS = ["year", "QUARTER", "month", "WEEK", "day", "HOUR", "minute", "second", "MILLISECOND"]
DAY_PARTS = [
    *("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear"),
    *("weekofyear",),
]
CASTS = {
    "bigint": ["int", "double", "decimal(20,3)", "decimal(7,2)", "string", "boolean", "timestamp"],
    "int": ["bigint", "double", "decimal(5,1)", "string"],
    # Up to 15 digits: before Java 19, the text of a double may have one more than needed.
    "double": ["int", "bigint", "decimal(14,3)", "decimal(12,0)", "boolean"],
    "decimal": ["int", "bigint", "double", "decimal(12,1)", "decimal(38,18)", "boolean", "string"],
    "string": [
        *("int", "bigint", "double", "decimal(10,2)", "boolean", "date", "timestamp"),
    ],
    "boolean": ["int", "bigint", "double", "decimal(3,1)", "string"],
    "timestamp": ["date", "bigint", "string", "double"],
    "date": ["timestamp", "string"],
}


class Generator:
    """Makes expressions; `seen` counts which forms were made."""

    def __init__(self, rng: Random):
        self._rng = rng
        self.seen: dict[str, int] = {}

    def of(self, type_: str, depth: int) -> Both:
        """Return an expression of a type."""
        if depth <= 0 or self._rng.random() < 0.15:
            return self._leaf(type_)
        return getattr(self, f"_{type_}")(depth - 1)

    def _pick(self, *choices: str) -> str:
        choice = self._rng.choice(choices)
        self.seen[choice] = self.seen.get(choice, 0) + 1
        return choice

    def _leaf(self, type_: str) -> Both:
        rng = self._rng
        columns = {
            "bigint": ["n", "m", "loc.inner.k"],
            "double": ["x", "y", "loc.lat", "LOC.LAT"],
            "decimal": ["d", "e"],
            "string": ["name", "word", "loc.label", "tags['a']", "tags['A']", "tags['zz']"],
            "boolean": ["f", "g"],
            "timestamp": ["ts", "other_ts"],
        }
        if type_ == "int":
            return same(str(rng.choice([0, 1, 2, 3, -7, 10, 2147483647, -2147483648])))
        if type_ == "date":
            if rng.random() < 0.3:
                return same("DATE '2024-02-29'")
            return call("to_date({})", self._leaf("timestamp"))
        if rng.random() < 0.7:
            return same(rng.choice(columns[type_]))
        if type_ == "bigint":
            return same(str(rng.choice([2**31, -(2**40), 2**63 - 1, -(2**63)])))
        if type_ == "double":
            return same(rng.choice(["1e0", "2.5e0", "-0.0e0", "1e300", "3.6e0", "5e-1"]))
        if type_ == "decimal":
            return same(rng.choice(["3.6", "0.05", "-1.50", "100.0", "12345678901234567890.5"]))
        if type_ == "string":
            return same(quote(rng.choice(TEXTS)))
        if type_ == "boolean":
            return same(rng.choice(["TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]))
        return same("TIMESTAMP '2024-03-31 00:30:00Z'")

    def _number(self, depth: int) -> Both:
        return self.of(self._rng.choice(["bigint", "int", "double", "decimal"]), depth)

    def _exact(self, depth: int) -> Both:
        return self.of(self._rng.choice(["bigint", "int", "decimal"]), depth)

    def _arithmetic(self, a: Both, b: Both) -> Both:
        form = self._pick("+", "-", "*", "%")
        name = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "%": "try_mod"}[form]
        return Both(f"({a.tocsin} {form} {b.tocsin})", f"{name}({a.spark}, {b.spark})")

    def _choice(self, type_: str, depth: int) -> Both:
        form = self._pick("coalesce", "if", "case", "nullif", "nvl", "greatest", "least", "case of")
        a, b, c = (self.of(type_, depth) for _ in range(3))
        flag = self.of("boolean", depth)
        if form == "if":
            return call("if({}, {}, {})", flag, a, b)
        if form == "case":
            otherwise = self.of("boolean", depth)
            return call("CASE WHEN {} THEN {} WHEN {} THEN {} END", flag, a, otherwise, b)
        if form == "case of":
            return call("CASE {} WHEN {} THEN {} ELSE {} END", a, b, a, c)
        if form in ("nullif", "nvl"):
            return call(form + "({}, {})", a, b)
        return call(form + "({}, {}, {})", a, b, c)

    def _bigint(self, depth: int) -> Both:
        form = self._pick(
            "arithmetic", "div", "-b", "abs b", "pmod", "floor", "cast", "unix", "pick", "bits"
        )
        if form == "bits":
            a, b = (self.of(self._rng.choice(["bigint", "int"]), depth) for _ in range(2))
            way = self._pick("~{}", "({0} & {1})", "({0} | {1} ^ 5)", "({0} ^ {1} & 12 << 1)")
            places = self._rng.choice([0, 1, 31, 33, 63, 64, -1])
            shift = self._pick("({} << N)", "({} >> N)", "shiftleft({}, N)", "shiftright({}, N)")
            shift = self._rng.choice([shift, "shiftrightunsigned({}, N)"]).replace("N", str(places))
            return call(f"CAST({self._rng.choice([way, shift])} AS BIGINT)", a, b)
        if form == "arithmetic":
            return self._arithmetic(
                self.of("bigint", depth), self.of(self._rng.choice(["bigint", "int"]), depth)
            )
        if form == "div":
            a, b = self.of("bigint", depth), self.of("bigint", depth)
            bad = f"{b.spark} = 0 OR ({a.spark} = -9223372036854775808 AND {b.spark} = -1)"
            return Both(
                f"({a.tocsin} div {b.tocsin})", f"if({bad}, NULL, ({a.spark}) div ({b.spark}))"
            )
        if form in ("-b", "abs b"):
            a = self.of("bigint", depth)
            sign = "-" if form == "-b" else "abs"
            bad = f"{a.spark} = -9223372036854775808"
            return Both(f"{sign}({a.tocsin})", f"if({bad}, NULL, {sign}({a.spark}))")
        if form == "pmod":
            a, b = self.of("bigint", depth), self.of("bigint", depth)
            return Both(
                f"pmod({a.tocsin}, {b.tocsin})",
                f"if({b.spark} = 0, NULL, pmod({a.spark}, {b.spark}))",
            )
        if form == "floor":
            name = self._pick("floor", "ceil", "ceiling")
            a = self.of("double", depth)
            bad = f"NOT isnan({a.spark}) AND {a.spark} >= 9223372036854775808e0"
            bad += f" OR {a.spark} < -9223372036854775808e0"
            return Both(f"{name}({a.tocsin})", f"if({bad}, NULL, {name}({a.spark}))")
        if form == "unix":
            name = self._pick("unix_timestamp", "unix_seconds", "unix_millis", "unix_micros")
            return call(name + "({})", self.of("timestamp", depth))
        return self._cast("bigint", depth) if form == "cast" else self._choice("bigint", depth)

    def _int(self, depth: int) -> Both:
        form = self._pick(
            "length", "instr", "day part", "clock", "datediff", "int arithmetic", "int cast"
        )
        if form == "instr":
            part = same(quote(self._rng.choice([*TEXTS, "b", "c", "2", "é", ""])))
            start = self._rng.choice(["-1", "0", "1", "2", "3", "9"])
            ways = ("instr({0}, {1})", "locate({1}, {0}, #)", "position({1} IN {0})")
            way = self._pick(*ways, "position({1}, {0})").replace("#", start)
            return call(way, self.of("string", depth), part)
        if form == "length":
            name = self._pick("length", "char_length", "len")
            return call(name + "({})", self.of("string", depth))
        if form == "day part":
            time = self.of(self._rng.choice(["timestamp", "date"]), depth)
            return call(self._pick(*DAY_PARTS) + "({})", time)
        if form == "clock":
            return call(
                self._pick("hour", "minute", "second") + "({})", self.of("timestamp", depth)
            )
        if form == "datediff":
            times = (self.of(self._rng.choice(["timestamp", "date"]), depth) for _ in range(2))
            return call("datediff({}, {})", *times)
        if form == "int cast":
            return self._cast("int", depth)
        return self._arithmetic(self.of("int", depth), self.of("int", depth))

    def _double(self, depth: int) -> Both:
        form = self._pick(
            "arithmetic d", "/", "-d", "abs d", "round d", "double cast", "pick d", "sqrt"
        )
        if form == "sqrt":
            return call("sqrt({})", self._number(depth))
        if form == "arithmetic d":
            sides = [self.of("double", depth), self._number(depth)]
            self._rng.shuffle(sides)
            return self._arithmetic(*sides)
        if form == "/":
            integers = [self.of(self._rng.choice(["bigint", "int"]), depth) for _ in range(2)]
            sides = self._rng.choice([integers, [self.of("double", depth), self._number(depth)]])
            return Both(
                f"({sides[0].tocsin} / {sides[1].tocsin})",
                f"try_divide({sides[0].spark}, {sides[1].spark})",
            )
        if form == "-d":
            return call("-({})", self.of("double", depth))
        if form == "abs d":
            return call("abs({})", self.of("double", depth))
        if form == "round d":
            places = self._rng.choice(["", ", 1", ", 2", ", 3", ", -1", ", 15", ", 30", ", -25"])
            return call("round({}" + places + ")", self.of("double", depth))
        return (
            self._cast("double", depth) if form == "double cast" else self._choice("double", depth)
        )

    def _decimal(self, depth: int) -> Both:
        form = self._pick(
            "decimals", "decimals /", "-e", "abs e", "round e", "floor e", "cast e", "p"
        )
        if form in ("decimals", "decimals /"):
            sides = [self.of("decimal", depth), self._exact(depth)]
            self._rng.shuffle(sides)
            if form == "decimals":
                return self._arithmetic(*sides)
            return Both(
                f"({sides[0].tocsin} / {sides[1].tocsin})",
                f"try_divide({sides[0].spark}, {sides[1].spark})",
            )
        if form == "-e":
            return call("-({})", self.of("decimal", depth))
        if form == "abs e":
            return call("abs({})", self.of("decimal", depth))
        if form == "round e":
            places = self._rng.choice(["", ", 1", ", 2", ", 30", ", -1", ", -3"])
            return call("round({}" + places + ")", self.of("decimal", min(depth, 1)))
        if form == "floor e":
            return call(self._pick("floor", "ceil") + "({})", self.of("decimal", depth))
        if form == "cast e":
            return self._cast("decimal", depth)
        return self._choice("decimal", min(depth, 1))

    def _string(self, depth: int) -> Both:
        form = self._pick(
            "case of text", "trim", "part", "concat", "replace", "text cast", "pick s", "split"
        )
        if form == "split":
            pattern = self._rng.choice(
                ["b", " ", "[-.:]", "\\s", "é|ß", "(?i)s+", "a.", "\\.", "00"]
            )
            n = self._rng.choice([-3, -2, -1, 1, 2, 3, 4])
            text = self.of("string", depth)
            if self._pick("split()", "split_part") == "split_part":
                return call(f"split_part({{}}, {quote(pattern)}, {n})", text)
            split = f"split({{}}, {quote(pattern)})"
            tocsin = f"{split}[{n - 1}]" if n > 0 else f"element_at({split}, {n})"
            spark = f"try_element_at({split}, {n})"
            return Both(tocsin.format(text.tocsin), spark.format(text.spark))
        text = self.of("string", depth)
        if form == "case of text":
            return call(self._pick("lower", "upper", "lcase", "ucase") + "({})", text)
        if form == "trim":
            way = self._pick("trim({})", "ltrim({})", "rtrim({})", "trim(BOTH 'ax' FROM {})")
            return call(way, text)
        if form == "part":
            n, m = (self._rng.choice([-9, -3, -1, 0, 1, 2, 4, 9]) for _ in range(2))
            way = self._pick("left({}, N)", "right({}, N)", "substring({}, N, M)", "substr({}, N)")
            return call(way.replace("N", str(n)).replace("M", str(m)), text)
        if form == "concat":
            types = ["string", "bigint", "boolean", "date", "timestamp", "decimal"]
            other = self.of(self._rng.choice(types), min(depth, 1))
            return call(
                self._pick("concat({}, {})", "({} || {})", "concat({}, 'x', {})"), text, other
            )
        if form == "replace":
            way = self._pick("replace({}, 'a', 'bb')", "replace({}, 'x')", "replace({}, '', 'y')")
            return call(way, text)
        return self._cast("string", depth) if form == "text cast" else self._choice("string", depth)

    def _boolean(self, depth: int) -> Both:
        form = self._pick(
            "compare", "and", "or", "not", "null", "in", "between", "like", "text test", "likes"
        )
        if form == "likes":
            patterns = [quote(self._rng.choice(LIKES)) for _ in range(self._rng.choice([1, 2, 3]))]
            patterns += self._rng.choice([[], [], ["NULL"]])
            word = self._pick("ANY", "ALL", "SOME")
            way = self._pick("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE")
            listed = same("(" + ", ".join(patterns) + ")")
            return call("({} " + f"{way} {word} " + "{})", self.of("string", depth), listed)
        if form == "compare":
            operator = self._pick("=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "==")
            a, b = self._comparable(depth)
            return call("({} " + operator + " {})", a, b)
        if form in ("and", "or"):
            a, b = self.of("boolean", depth), self.of("boolean", depth)
            return call("({} " + form.upper() + " {})", a, b)
        if form == "not":
            return call(
                self._pick("(NOT {})", "({} IS TRUE)", "({} IS NOT FALSE)"),
                self.of("boolean", depth),
            )
        if form == "null":
            type_ = self._rng.choice(list(CASTS))
            way = self._pick("({} IS NULL)", "({} IS NOT NULL)", "isnull({})", "isnotnull({})")
            return call(way, self.of(type_, depth))
        if form == "in":
            a, b = self._comparable(depth)
            return call(self._pick("({} IN ({}, {}))", "({} NOT IN ({}, {}))"), a, b, b)
        if form == "between":
            a, b = self._comparable(depth)
            return call(self._pick("({} BETWEEN {} AND {})", "({} NOT BETWEEN {} AND {})"), a, b, a)
        text = self.of("string", depth)
        if form == "like":
            pattern = self._rng.choice(LIKES)
            way = self._pick("LIKE", "NOT LIKE", "ILIKE", "RLIKE")
            if way == "RLIKE":
                pattern = self._rng.choice(REGEXES)
            return call("({} " + way + " {})", text, same(quote(pattern)))
        if self._rng.random() < 0.2:
            return call("isnan({})", self.of("double", depth))
        if self._rng.random() < 0.2:
            part = same(quote(self._rng.choice(["a", "", "b", "c", "x", "12"])))
            pattern = same(quote(self._rng.choice(["b", " ", "[-.:_]", "\\s"])))
            return call("array_contains(split({}, {}), {})", text, pattern, part)
        name = self._pick("startswith", "endswith", "contains")
        return call(name + "({}, {})", text, same(quote(self._rng.choice(TEXTS))))

    def _comparable(self, depth: int) -> tuple[Both, Both]:
        type_ = self._rng.choice(["number", "string", "boolean", "timestamp", "date"])
        if type_ == "number":
            return self._number(depth), self._number(depth)
        other = self._rng.choice(["timestamp", "date"]) if type_ in ("timestamp", "date") else type_
        return self.of(type_, depth), self.of(other, depth)

    def _timestamp(self, depth: int) -> Both:
        form = self._pick("date_trunc", "timestamp cast", "pick t")
        if form == "date_trunc":
            unit = self._pick(*UNITS)
            return call(f"date_trunc('{unit}', {{}})", self.of("timestamp", depth))
        if form == "timestamp cast":
            return self._cast("timestamp", depth)
        return self._choice("timestamp", depth)

    def _date(self, depth: int) -> Both:
        form = self._pick("date_add", "date_sub", "to_date", "date cast", "pick date")
        if form in ("date_add", "date_sub"):
            days = self._rng.choice(["0", "1", "-1", "31", "400"])
            return call(form + "({}, " + days + ")", self.of("date", depth))
        if form == "to_date":
            return call("to_date({})", self.of("timestamp", depth))
        return self._cast("date", depth) if form == "date cast" else self._choice("date", depth)

    def _cast(self, target: str, depth: int) -> Both:
        pairs = [
            (source, to)
            for source, targets in CASTS.items()
            for to in targets
            if to.partition("(")[0] == target
        ]
        source, to = self._rng.choice(pairs)
        self._pick(f"cast {source} to {target}")
        # A text that is a part of another could be a time without a date, which for Spark is today.
        value = self.of(source, 0 if source == "string" else min(depth, 1))
        if to == "timestamp" and source == "bigint":
            # Not beyond 1900 to 2200.
            value = Both(f"({value.tocsin} % 2200000000)", f"try_mod({value.spark}, 2200000000)")
        form = self._rng.choice(["CAST({} AS {})", "try_cast({} AS {})"])
        return Both(form.format(value.tocsin, to), f"try_cast({value.spark} AS {to})")
