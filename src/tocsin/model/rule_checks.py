"""Checks a table of rules, and finds all that is wrong with it instead of the first error."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.errors import TocsinError
from tocsin.model.arrow import decode
from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader
from tocsin.model.tables import RuleTable, number_rules, read_rules, to_rule_table


class Finding(NamedTuple):
    """What is wrong with one rule."""

    row: int  # in the table
    id: Any
    is_error: bool  # otherwise it is a warning
    message: str


def check_rules(source: Any, conditions: ConditionReader) -> tuple[int, list[Finding]]:
    """Return the number of rules in a table, and all errors and warnings in the order of rows.

    Raise if the table as a whole is wrong. Rules are read together; if that fails, each half is
    read by itself, down to single rules.
    """
    table, categories = to_rule_table(source), Categories()
    read_rules(table.slice(0, 0), conditions, categories, 0)
    rows, bounds = _group_rows(table)
    ids = decode(table.column("id")).take(pa.array(rows)) if len(table) else pa.array([])
    findings = _find_duplicates(ids.take(pa.array(bounds[:-1])).to_pylist(), rows[bounds[:-1]])
    table = table.take(pa.array(rows))
    spans = [(0, len(bounds) - 1)]
    while spans:
        first, stop = spans.pop()
        begin, end = int(bounds[first]), int(bounds[stop])
        try:
            read = read_rules(table.slice(begin, end - begin), conditions, categories, 0)
        except TocsinError as error:
            if stop - first > 1:
                middle = (first + stop) // 2
                spans += [(first, middle), (middle, stop)]
            else:
                row, message = _split_place(str(error), id_ := ids[begin].as_py())
                findings.append(Finding(int(rows[begin + row]), id_, True, message))
            continue
        for place in read.impossible.tolist():
            row, id_ = int(rows[begin + int(read.rows[place])]), read.ids[place].as_py()
            findings += [
                Finding(row, id_, False, message)
                for message in describe_impossible(read, place, conditions, categories)
            ]
    return len(bounds) - 1, sorted(findings, key=lambda finding: finding.row)


def _group_rows(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows, those of one rule adjacent, and where each rule begins; then the end."""
    rows = np.arange(len(table))
    is_long = "attribute" in table.column_names and {"low", "high"} & set(table.column_names)
    if not is_long or not len(table):
        return rows, np.arange(len(table) + 1)
    numbers, starts = number_rules(decode(table.column("id")).cast(pa.large_string()).fill_null(""))
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(len(starts) + 1))


def _find_duplicates(ids: list[Any], rows: np.ndarray) -> list[Finding]:
    first_row: dict[Any, int] = {}
    findings = []
    for id_, row in zip(ids, rows.tolist(), strict=True):
        first = first_row.setdefault(id_, row)
        if first != row and id_ is not None:
            message = f"duplicate id {id_!r}, already used in row {first}"
            findings.append(Finding(row, id_, True, message))
    return findings


def _split_place(message: str, id_: Any) -> tuple[int, str]:
    """Return the row that a message names, and the rest of it."""
    place = re.match(r"row (\d+)", message)
    if place is None:
        return 0, message
    rest = message[place.end() :].removeprefix(f" (rule {id_!r})").removeprefix(": ")
    return int(place[1]), rest


def describe_impossible(
    read: RuleTable, place: int, conditions: ConditionReader, categories: Categories
) -> list[str]:
    """Return a message for each part that never holds, of a rule in `read.impossible`."""
    where = read.where[place].as_py()
    if where is None:
        return ["its bounds enclose no value, so no event can satisfy it"]
    return [str(each) for each in conditions.describe_impossible(where, categories)]
