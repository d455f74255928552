"""SQL for the intervals of readings, with a check of every row.

Spark evaluates an expression where a worker in Python would cost ten times as much. So bad
readings, too, are found by SQL: `raise_error` stops the query with the message that one process
would have, and the reading's id.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.spark.operators import quote_column

INFINITY = "DOUBLE('Infinity')"


class Problem(NamedTuple):
    """What may be wrong with a reading; both are SQL."""

    condition: str  # true or false if no earlier problem holds, never null
    message: str


class Family(NamedTuple):
    """A family of densities. Its columns are not null, all others that say a density are."""

    columns: tuple[str, ...]
    low: str  # SQL
    high: str
    problems: list[Problem]


class Time(NamedTuple):
    """When a reading was reported, as SQL."""

    is_null: str
    text: str
    elapsed: str  # until the query's time
    at: str  # the query's time, as text


def quote_text(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_number(number: float) -> str:
    """Return a number as SQL; it may be infinite."""
    return f"DOUBLE('{number!r}')"


def number_of(column: str) -> str:
    """Return a numeric column as SQL, in float64."""
    return f"CAST({quote_column(column)} AS DOUBLE)"


def numbers_of(column: str) -> str:
    """Return a column of arrays as SQL, in float64."""
    return f"CAST({quote_column(column)} AS ARRAY<DOUBLE>)"


# ------------------------------------------------------------ families


def make_point(value: str, time: str | None) -> Family:
    """Return values without uncertainty; `time` is a column if other values grow."""
    x = number_of(value)
    problems = _check_finite(("value", x))
    if time is not None:
        # More likely a rate is missing than that nothing changes.
        message = "it has a value and a time, but no rate; a value that does not change has rate 0"
        problems.append(Problem(f"{quote_column(time)} IS NOT NULL", quote_text(message)))
    return Family(("value",), x, x, problems)


def make_growing(value: str, rate: str, time: Time, domain: tuple[float, float] | None) -> Family:
    """Return values that have changed by at most a rate since their report."""
    x, r = number_of(value), number_of(rate)
    change = f"{r} * {time.elapsed}"
    after_at = quote_text(f", after at = {time.at}")
    low, high = f"({x} - {change})", f"({x} + {change})"
    problems = [
        Problem(time.is_null, quote_text("it has a value and a rate, but no time")),
        *_check_finite(("value", x), ("rate", r)),
        Problem(
            f"NOT {_is_finite(time.elapsed)}",
            f"concat('time is ', {time.text}, ', but it must be finite')",
        ),
        Problem(f"{r} < 0", f"concat('the rate is ', {r}, ', but it must not be negative')"),
        Problem(
            f"{time.elapsed} < 0",
            f"concat('the report is of time ', {time.text}, {after_at})",
        ),
        Problem(
            f"NOT ({_is_finite(low)} AND {_is_finite(high)})",
            f"concat('the interval ', {x}, ' +- ', {change}, ' is too wide')",
        ),
    ]
    if domain is not None:
        bottom, top = map(quote_number, domain)
        problems.append(
            Problem(
                f"{x} < {bottom} OR {x} > {top}",
                f"concat('the value ', {x}, {quote_text(f' is not in the domain {domain}')})",
            )
        )
        low, high = f"greatest({low}, {bottom})", f"least({high}, {top})"
    return Family(("value", "rate"), low, high, problems)


def make_uniform(low: str, high: str) -> Family:
    """Return values anywhere in an interval."""
    a, b = number_of(low), number_of(high)
    return Family(("low", "high"), a, b, _check_interval(a, b))


def make_normal(low: str, high: str, mean: str, deviation: str) -> Family:
    """Return truncated normals; with a deviation of 0, the value is the mean."""
    a, b, m, d = map(number_of, (low, high, mean, deviation))
    is_exact = f"({d} = 0 AND {a} < {b})"
    far = f"greatest(abs({a} - {m}), abs({b} - {m}))"
    problems = [
        *_check_interval(a, b),
        *_check_finite(("mean", m), ("deviation", d)),
        Problem(f"{d} < 0", f"concat('the deviation is ', {d}, ', but it must not be negative')"),
        Problem(
            f"{is_exact} AND ({m} < {a} OR {m} > {b})",
            f"concat('the deviation is 0, so the mean ', {m}, ' must be within the interval')",
        ),
        Problem(
            f"{d} > 0 AND {a} < {b} AND {far} > 1e8D * {d}",
            f"concat('an end of the interval is ', {far}, ' from the mean, and the deviation is ', "
            f"{d}, '; at most 1e8 deviations can be computed with, so check the deviation, or use "
            "a uniform reading')",
        ),
    ]
    low_end, high_end = f"IF({is_exact}, {m}, {a})", f"IF({is_exact}, {m}, {b})"
    return Family(("low", "high", "mean", "deviation"), low_end, high_end, problems)


def make_histogram(edges: str, weights: str) -> Family:
    """Return histograms; their intervals are without bins of weight 0 at both ends."""
    e, w = numbers_of(edges), numbers_of(weights)
    total = sum_of(w)
    used = f"filter(transform({w}, (x, i) -> IF(x > 0, get({e}, i{{}}), NULL)), x -> x IS NOT NULL)"
    problems = [
        Problem(
            f"size({w}) = 0 OR size({e}) <> size({w}) + 1",
            f"concat('a histogram has one edge more than weights; it has ', size({e}), "
            f"' edges and ', size({w}), ' weights')",
        ),
        Problem(
            f"NOT (forall({e}, x -> x IS NOT NULL AND {_is_finite('x')}) AND "
            f"forall(transform({w}, (x, i) -> get({e}, i + 1) > get({e}, i)), x -> x))",
            f"concat('the edges must be finite and ascend; they are ', {_show(e)})",
        ),
        Problem(
            f"NOT forall({w}, x -> x IS NOT NULL AND x >= 0 AND {_is_finite('x')})",
            f"concat('weights must be finite and not negative; they are ', {_show(w)})",
        ),
        Problem(
            f"abs({total} - 1) > 1e-9D",
            f"concat('the weights add up to ', {total}, ', not to 1; divide counts by their sum')",
        ),
    ]
    low = f"element_at({used.format('')}, 1)"
    high = f"element_at({used.format(' + 1')}, -1)"
    return Family(("edges", "weights"), low, high, problems)


def sum_of(array: str) -> str:
    """Return the sum of an array of numbers."""
    return f"aggregate({array}, 0D, (s, x) -> s + x)"


def _check_finite(*numbers: tuple[str, str]) -> list[Problem]:
    return [
        Problem(f"NOT {_is_finite(x)}", f"concat('{name} is ', {x}, ', but it must be finite')")
        for name, x in numbers
    ]


def _check_interval(low: str, high: str) -> list[Problem]:
    message = f"concat('the interval is reversed: low ', {low}, ' is above high ', {high})"
    return [*_check_finite(("low", low), ("high", high)), Problem(f"{low} > {high}", message)]


def _is_finite(x: str) -> str:
    # In Spark, NaN is greater than infinity.
    return f"(abs({x}) < {INFINITY})"


def _show(array: str) -> str:
    return f"CAST(slice({array}, 1, 8) AS STRING)"
