"""Numbers that a rule may have: the probability that it requires (`at_least`), its own `score`."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import RuleError
from tocsin.model.arrow import decode

_WHAT = {
    "at_least": "a probability, more than 0 and at most 1",
    "score": "a finite number, 0 or more",
}
WEIGHTS_OR_SCORE = "a rule has weights or a score of its own, not both; leave out one of them"


def check_rule_number(name: str, value: Any) -> float:
    """Return a number as a float; raise unless it is one that a rule can have, by its name."""
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or not isinstance(number, int | float | decimal.Decimal):
        raise RuleError(f"{name} must be {_WHAT[name]}; got {type(value).__name__} {value!r}")
    try:
        converted = float(number)
    except OverflowError:
        converted = math.inf
    if not _are_valid(name, converted):
        raise RuleError(_describe_range(name, converted))
    return converted


def _are_valid(name: str, numbers: Any) -> Any:
    if name == "at_least":
        return (numbers > 0) & (numbers <= 1)
    return (numbers >= 0) & (numbers < math.inf)


def _describe_range(name: str, number: float) -> str:
    is_percentage = name == "at_least" and 1 < number <= 100
    percent = f"; for {number:g}%, write {number / 100:g}" if is_percentage else ""
    return f"{name} must be {_WHAT[name]}; got {number:g}{percent}"


def read_rule_numbers(table: pa.Table, ids: pa.Array, name: str) -> np.ndarray | None:
    """Return the number of each row, NaN where it is null, or None if all are null."""
    if name not in table.column_names:
        return None
    column = decode(table.column(name))
    if column.null_count == len(column):
        return None
    type_ = column.type
    if not (t.is_floating(type_) or t.is_integer(type_) or t.is_decimal(type_)):
        hint = "; rename it if it is payload" if name == "score" else ""
        raise RuleError(f"the column {name!r} must be numbers, got type {type_}{hint}")
    is_given = np.asarray(column.is_valid())
    numbers = np.asarray(column.cast(pa.float64()).fill_null(math.nan))
    bad = is_given & ~_are_valid(name, numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): {_describe_range(name, float(numbers[row]))}"
        )
    return numbers


def merge_rule_numbers(
    name: str, numbers: np.ndarray, rule_of_row: np.ndarray, row_ids: pa.Array
) -> np.ndarray:
    """Return the number of each rule in long form; only one of its rows needs to have it."""
    merged = np.full(int(rule_of_row.max(initial=-1)) + 1, math.nan)
    np.fmax.at(merged, rule_of_row, numbers)
    differs = ~np.isnan(numbers) & (numbers != merged[rule_of_row])
    if differs.any():
        row = int(np.argmax(differs))
        raise RuleError(
            f"row {row} (rule {row_ids[row].as_py()!r}): the rows of this rule have different "
            f"{name}, {numbers[row]:g} and {merged[rule_of_row[row]]:g}; use the same in all"
        )
    return merged
