"""Workloads to judge the planner's choice of an index, written without knowing how it chooses."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

import tocsin
from benchmarks.planner_families import data


class Family(NamedTuple):
    """The rules that one kind of user keeps, and the events that arrive."""

    name: str
    what: str
    schema: dict[str, str]
    """Attribute to kind: number, integer, category, flag or time."""
    rules: pa.Table
    """Columns id and where."""
    events: pa.Table


def to_family(name: str, what: str, rules: Sequence[str], events: pd.DataFrame) -> Family:
    """Number the rules, and derive the schema from the types of the events' columns."""
    table = data.to_arrow(events)
    kinds = {"i": "integer", "f": "number", "O": "category", "b": "flag", "M": "time"}
    schema = {column: kinds[events[column].dtype.kind] for column in events}
    ids = [f"{name.replace(' ', '-')}-{number}" for number in range(len(rules))]
    return Family(name, what, schema, pa.table({"id": ids, "where": list(rules)}), table)


def scaled(count: int, size: float, least: int = 50) -> int:
    return max(round(count * size), least)


def report(families: Callable[[float], Iterator[Family]]) -> None:
    """Print the sizes and matches of families; the program's first argument is the size."""
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 0.02
    for family in families(size):
        rules = tocsin.Rules(family.schema)
        rules.add_many(family.rules)
        counts = rules.count(family.events)
        print(
            f"{family.name:20} {len(rules):8,} rules {len(counts):8,} events "
            f"{counts.mean():9.3f} matches per event, {(counts > 0).mean():6.1%} of events match"
        )
