"""Thresholds of rules: the probability that an event must satisfy a rule with, `at_least`."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import RuleError
from tocsin.model.arrow import decode

NO_THRESHOLDS = np.empty(0)


def check_threshold(at_least: Any) -> float:
    """Return a threshold as a float; raise unless it is a probability other than 0."""
    number = at_least.item() if isinstance(at_least, np.generic) else at_least
    if isinstance(number, bool) or not isinstance(number, int | float | decimal.Decimal):
        raise RuleError(
            f"at_least must be a probability, got {type(at_least).__name__} {at_least!r}"
        )
    if not 0 < number <= 1:
        raise RuleError(_describe_range(float(number)))
    return float(number)


def _describe_range(number: float) -> str:
    percent = f"; for {number:g}%, write {number / 100:g}" if 1 < number <= 100 else ""
    return f"at_least must be a probability, more than 0 and at most 1; got {number:g}{percent}"


def read_thresholds(table: pa.Table, ids: pa.Array) -> np.ndarray:
    """Return the threshold of each row, 0 where it is null, or an empty array if all are null."""
    if "at_least" not in table.column_names:
        return NO_THRESHOLDS
    column = decode(table.column("at_least"))
    if column.null_count == len(column):
        return NO_THRESHOLDS
    type_ = column.type
    if not (t.is_floating(type_) or t.is_integer(type_) or t.is_decimal(type_)):
        raise RuleError(f"the column 'at_least' must be probabilities, got type {type_}")
    at_least = np.asarray(column.cast(pa.float64()).fill_null(0.0))
    bad = np.asarray(column.is_valid()) & ~((at_least > 0) & (at_least <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): {_describe_range(float(at_least[row]))}"
        )
    return at_least


def merge_thresholds(
    at_least: np.ndarray, rule_of_row: np.ndarray, row_ids: pa.Array
) -> np.ndarray:
    """Return the threshold of each rule in long form; only one of its rows needs to have it."""
    merged = np.zeros(int(rule_of_row.max(initial=-1)) + 1)
    np.maximum.at(merged, rule_of_row, at_least)
    differs = (at_least > 0) & (at_least != merged[rule_of_row])
    if differs.any():
        row = int(np.argmax(differs))
        raise RuleError(
            f"row {row} (rule {row_ids[row].as_py()!r}): the rows of this rule have different "
            f"at_least, {at_least[row]:g} and {merged[rule_of_row[row]]:g}; use the same in all"
        )
    return merged
