"""The columns of a DataFrame of readings: which are there, and what a row of them says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from pyspark.sql import types as st

from tocsin.errors import UncertainError, suggest
from tocsin.spark.operators import check_frame, quote_column
from tocsin.spark.uncertain.intervals import (
    Family,
    Time,
    make_growing,
    make_histogram,
    make_normal,
    make_point,
    make_uniform,
    number_of,
    numbers_of,
    quote_number,
    quote_text,
)
from tocsin.uncertain.readings import Readings, read_number

# Whose values say which density a row has; and `time`, which any row may have.
DENSITY = ("value", "rate", "low", "high", "mean", "deviation", "edges", "weights")
COLUMNS = (*DENSITY, "time")
_LISTS = ("edges", "weights")
_FORMS = "value; value, rate, time; low, high; low, high, mean, deviation; or edges, weights"
_TIMES = st.TimestampType | st.TimestampNTZType | st.DateType


class ReadingOptions(TypedDict, total=False):
    """How to read the rows of a DataFrame; arguments of all queries.

    - `at`: the time of the query, if values have rates: a number, or a `datetime` or an ISO text if
      the column `time` has timestamps. One without a zone is in the session's time zone.
    - `domain`: the (low, high) that values with rates never leave.
    - `id`: the column of ids.
    - `columns`: names of columns where they are not the usual ones, as in `{"value": "temp"}`. With
      None in place of a name, there is no such column.
    """

    at: Any
    domain: tuple[float, float] | None
    id: str
    columns: Mapping[str, str | None] | None


# Spark does not push filters below an expression that is not deterministic, or copy the expression
# into them. This one makes it so even where it is never evaluated.
BARRIER = "spark_partition_id()"
# Added to a DataFrame: the family of a row, and its interval.
FAMILY, LOW, HIGH = "_tocsin_family", "_tocsin_low", "_tocsin_high"


class ReadingColumns(NamedTuple):
    """SQL for the readings of a DataFrame."""

    id: str  # the name of the column
    family: str  # the number of the row's family; an error if the reading is not valid
    low: str  # of the interval, from the family
    high: str
    extra: dict[str, str]  # mean, deviation, edges, weights, as far as there are such columns

    def add_intervals(self, frame: Any) -> Any:
        """Return the readings with the columns FAMILY, LOW and HIGH; every row is checked."""
        checked = frame.selectExpr("*", f"{self.family} AS {FAMILY}")
        return checked.selectExpr("*", f"{self.low} AS {LOW}", f"{self.high} AS {HIGH}")

    def select(self) -> dict[str, str]:
        """Return the columns that a worker needs, but for the id, of readings with intervals."""
        return {"low": LOW, "high": HIGH, **self.extra}


def check_readings(frame: Any, query: str, no_stream: str | None = None) -> None:
    """Raise unless this is a DataFrame; see `check_frame`."""
    check_frame(frame, "readings", f"tocsin.uncertain.{query}", UncertainError, no_stream)


def find_column(schema: st.StructType, name: object, parameter: str) -> st.StructField:
    """Return the column with a name, which is case-insensitive; raise if there is none."""
    if not isinstance(name, str):
        raise UncertainError(f"{parameter} takes names of columns, got {name!r}")
    fields = [f for f in schema.fields if f.name.lower() == name.lower()]
    if len(fields) > 1:
        raise UncertainError(
            f"{parameter}: the readings have {len(fields)} columns {name!r} (names are "
            "case-insensitive); rename or drop all but one"
        )
    if not fields:
        hint = suggest(name, schema.names) or f"; they have {', '.join(schema.names[:8])}"
        raise UncertainError(f"{parameter}: the readings have no column {name!r}{hint}")
    return fields[0]


def find_columns(schema: st.StructType, names: object, parameter: str) -> list[st.StructField]:
    """Return the columns with these names; raise if one comes twice."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise UncertainError(f"{parameter} takes names of columns in a list, as in [{names!r}]")
    fields = [find_column(schema, name, parameter) for name in names]
    for i, field in enumerate(fields):
        if field in fields[:i]:
            raise UncertainError(f"{parameter} names the column {field.name!r} twice")
    return fields


def read_columns(
    schema: st.StructType,
    at: Any = None,
    domain: tuple[float, float] | None = None,
    id: str = "id",
    columns: Mapping[str, str | None] | None = None,
) -> ReadingColumns:
    """Return SQL for the readings of a DataFrame; see `ReadingOptions`."""
    id_name = find_column(schema, id, "id").name
    found = _find_density_columns(schema, columns)
    names = {key: field.name for key, field in found.items()}
    families = _make_families(found, names, at, domain)
    _check_all_are_used(names, families)
    extra: dict[str, str] = {
        name: numbers_of(names[name]) if name in _LISTS else number_of(names[name])
        for name in ("mean", "deviation", "edges", "weights")
        if name in names
    }
    low = " ".join(f"WHEN {i} THEN {family.low}" for i, family in enumerate(families))
    high = " ".join(f"WHEN {i} THEN {family.high}" for i, family in enumerate(families))
    return ReadingColumns(
        id_name,
        _Check(id_name, names, families).sql(),
        f"CASE {FAMILY} {low} END",
        f"CASE {FAMILY} {high} END",
        extra,
    )


def _find_density_columns(
    schema: st.StructType, columns: Mapping[str, str | None] | None
) -> dict[str, st.StructField]:
    given = dict(columns or {})
    for key in given:
        if key not in COLUMNS:
            raise UncertainError(
                f"columns has {key!r}, but it names the columns of {', '.join(COLUMNS)}"
                f"{suggest(key, COLUMNS)}"
            )
    known = {name.lower() for name in schema.names}
    found = {}
    for key in COLUMNS:
        name = given.get(key, key)
        if name is not None and (key in given or key in known):
            found[key] = find_column(schema, name, f"columns[{key!r}]" if key in given else key)
            _check_type(key, found[key])
    if not any(key in found for key in DENSITY):
        raise UncertainError(
            f"the readings have none of the columns {', '.join(DENSITY)}; they have "
            f"{', '.join(schema.names[:8])}. Say which is which, as in "
            "columns={'value': 'temperature'}"
        )
    return found


def _check_type(key: str, field: st.StructField) -> None:
    type_: Any = field.dataType
    expected = "a number"
    if key in _LISTS:
        expected = "an array of numbers"
        type_ = type_.elementType if isinstance(type_, st.ArrayType) else None
    is_time = key == "time" and isinstance(type_, _TIMES)
    if key == "time":
        expected = "a number or a timestamp"
    if not is_time and not isinstance(type_, st.NumericType):
        raise UncertainError(
            f"column {field.name!r} is of type {field.dataType.simpleString()}, but {key} is "
            f"{expected}; cast it, or leave it out with columns={{{key!r}: None}}"
        )


def _make_families(
    found: dict[str, st.StructField],
    names: dict[str, str],
    at: Any,
    domain: tuple[float, float] | None,
) -> list[Family]:
    """Return the families that rows may have, by the columns that there are."""
    families = []
    is_growing = {"value", "rate", "time"} <= set(names)
    if is_growing:
        time = _read_time(found["time"], at)
        # Checked as in one process.
        domain = Readings.growing([], [], [], [], domain).domain
        families.append(make_growing(names["value"], names["rate"], time, domain))
    elif at is not None or domain is not None:
        missing = ", ".join(repr(n) for n in ("value", "rate", "time") if n not in names)
        argument = "at" if at is not None else "domain"
        raise UncertainError(
            f"{argument} is for values with rates, but the readings have no column {missing}; name "
            f"it with columns={{...}}, or leave {argument} out"
        )
    if "value" in names:
        families.append(make_point(names["value"], names["time"] if is_growing else None))
    if {"low", "high"} <= set(names):
        families.append(make_uniform(names["low"], names["high"]))
        if {"mean", "deviation"} <= set(names):
            families.append(make_normal(*(names[n] for n in ("low", "high", "mean", "deviation"))))
    if {"edges", "weights"} <= set(names):
        families.append(make_histogram(names["edges"], names["weights"]))
    return families


def _check_all_are_used(names: dict[str, str], families: list[Family]) -> None:
    used = {name for family in families for name in family.columns}
    for key in DENSITY:
        if key in names and key not in used:
            raise UncertainError(
                f"the readings have a column {names[key]!r} for {key}, but not all that go with "
                f"it; a reading has {_FORMS}. Name the others with columns={{...}}, or leave it "
                f"out with columns={{{key!r}: None}}"
            )


def _read_time(field: st.StructField, at: Any) -> Time:
    """Return the time of reports, and that of the query."""
    column = quote_column(field.name)
    if at is None:
        raise UncertainError(
            "the readings have the columns value, rate and time, so their intervals grow: say for "
            "which time to answer, as in at=..., or leave the rate out with columns={'rate': None}"
        )
    is_null, text = f"{column} IS NULL", f"CAST({column} AS STRING)"
    if isinstance(field.dataType, _TIMES):
        moment = read_moment(at, field.name)
        micros = f"(unix_micros({moment}) - unix_micros(CAST({column} AS TIMESTAMP)))"
        return Time(is_null, text, f"({micros} / 1e6D)", str(at))
    if isinstance(at, str | datetime.date):
        raise UncertainError(
            f"at is the time {at}, but column {field.name!r} is of type "
            f"{field.dataType.simpleString()}; both are numbers, or both are times"
        )
    number = read_number(at, "at")
    elapsed = f"({quote_number(number)} - {number_of(field.name)})"
    return Time(is_null, text, elapsed, f"{number:.17g}")


def read_moment(at: Any, column: str) -> str:
    """Return a point in time as SQL; without a zone it is in the session's."""
    moment = at
    if isinstance(at, str):
        try:
            moment = datetime.datetime.fromisoformat(at)
        except ValueError:
            raise UncertainError(
                f"at is {at!r}, which is not a time as in '2026-05-01 12:00:00'"
            ) from None
    if not isinstance(moment, datetime.datetime):
        raise UncertainError(
            f"at is {at!r}, but column {column!r} has times; at must be a datetime, or a text as "
            "in '2026-05-01 12:00:00'"
        )
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return f"CAST('{moment.isoformat(sep=' ')}' AS TIMESTAMP)"


class _Check(NamedTuple):
    """Finds the family of a row, or what is wrong with it."""

    id: str
    names: dict[str, str]
    families: list[Family]

    def sql(self) -> str:
        """Return the number of a row's family; an error for rows that are not valid.

        Spark must evaluate this before everything else: a filter such as `low IS NOT NULL`, which
        it derives from others, would drop wrong rows unseen. So the message has a `BARRIER`.
        """
        cases = []
        for i, family in enumerate(self.families):
            wrong = " OR ".join(problem.condition for problem in family.problems)
            cases.append(f"WHEN {self._has_columns(family)} AND NOT ({wrong}) THEN {i}")
        problem = f"raise_error({self._message()} || IF({BARRIER} < 0, '.', ''))"
        return f"CASE {' '.join(cases)} ELSE {problem} END"

    def _has_columns(self, family: Family) -> str:
        tests = [f"{quote_column(self.id)} IS NOT NULL"]
        for key in DENSITY:
            if key in self.names:
                is_own = "NOT " if key in family.columns else ""
                tests.append(f"{quote_column(self.names[key])} IS {is_own}NULL")
        return " AND ".join(tests)

    def _message(self) -> str:
        cases = [
            f"WHEN {self._has_columns(family)} AND ({problem.condition}) THEN {problem.message}"
            for family in self.families
            for problem in family.problems
        ]
        given = ", ".join(
            f"IF({quote_column(name)} IS NULL, NULL, {quote_text(key)})"
            for key, name in self.names.items()
        )
        other = (
            f"concat('it has ', coalesce(nullif(concat_ws(', ', {given}), ''), 'no values'), "
            f"{quote_text(f'; a reading has {_FORMS}')})"
        )
        id_text = f"CAST({quote_column(self.id)} AS STRING)"
        start = f"concat('UncertainError: reading \\'', {id_text}, '\\': ')"
        no_id = "'UncertainError: the id of a reading is null; every reading needs an id'"
        reason = f"CASE {' '.join(cases)} ELSE {other} END"
        return f"coalesce({start} || {reason}, {no_id})"
