"""DuckDB and Polars on rules as people write them; both count pairs on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.real_workloads import TEXTS, Family, Rule, load_events

KEYS = 3  # at most so many columns are in a hash join; further lists are tested afterwards

MOST_GROUPS = 64  # chosen: up to so many groups, rules with different bounds get separate queries

Signature = tuple[tuple[str, ...], tuple[str, ...]]  # columns of the join, columns with bounds


def rule_columns(rules: Sequence[Rule], schema: dict[str, str]) -> dict[str, pa.Array]:
    """Return the lists and bounds of rules as columns; null where an attribute is not tested."""
    columns: dict[str, pa.Array] = {}
    for name, kind in schema.items():
        tests = [rule.get(name) for rule in rules]
        if any(isinstance(test, list) for test in tests):
            item = pa.string() if name in TEXTS else pa.int64()
            lists = [test if isinstance(test, list) else None for test in tests]
            columns[f"{name}_in"] = pa.array(lists, pa.list_(item))
        if any(isinstance(test, tuple) for test in tests):
            number = pa.int64() if kind == "integer" else pa.float64()
            for i, side in enumerate(("low", "high")):
                bounds = [test[i] if isinstance(test, tuple) else None for test in tests]
                columns[f"{name}_{side}"] = pa.array(bounds, number)
    return columns


def divide(family: Family) -> dict[Signature, list[int]]:
    """Group the rules by the columns of their hash join.

    If that gives few groups, they are divided further, by the columns with bounds. The join uses at
    most three columns with lists, those with the most distinct values.
    """
    events = load_events(family.table)
    values = {name: len(events.column(name).unique()) for name in family.schema}
    groups: dict[Signature, list[int]] = {}
    finer: dict[Signature, list[int]] = {}
    for number, rule in enumerate(family.rules):
        lists = [name for name, test in rule.items() if isinstance(test, list)]
        keys = tuple(sorted(lists, key=lambda name: -values[name])[:KEYS])
        bounds = tuple(sorted(name for name, test in rule.items() if isinstance(test, tuple)))
        groups.setdefault((keys, ()), []).append(number)
        finer.setdefault((keys, bounds), []).append(number)
    return finer if len(finer) <= MOST_GROUPS else groups


class Peer:
    """A way to count pairs: `count` returns how many there are, `by_rule` how many per rule."""

    def __init__(self, name: str, count: Callable[[], int], by_rule: Callable[[], np.ndarray]):
        self.name, self.count, self.by_rule = name, count, by_rule


# ------------------------------------------------------------ DuckDB


class DuckDB:
    """Queries over tables that are loaded in advance; their pairs are counted together."""

    def __init__(
        self,
        size: int,
        sources: Sequence[str],
        tables: dict[str, pa.Table],
        prepare: Sequence[str] = (),
    ):
        self._size, self._sources = size, sources
        self._connection = duckdb.connect(config={"threads": 1})
        for name, table in tables.items():
            self._connection.register("given", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self._connection.unregister("given")
        for statement in prepare:
            self._connection.execute(statement)

    def count(self) -> int:
        counts = " UNION ALL ".join(f"SELECT count(*) AS n {source}" for source in self._sources)
        (total,) = self._connection.execute(f"SELECT sum(n) FROM ({counts})").fetchone()
        return int(total)

    def by_rule(self) -> np.ndarray:
        counts = np.zeros(self._size, np.int64)
        for source in self._sources:
            query = f"SELECT r.rule, count(*) AS n {source} GROUP BY r.rule"
            found = self._connection.execute(query).fetchnumpy()
            counts[np.asarray(found["rule"])] += np.asarray(found["n"]).astype(np.int64)
        return counts


def write_tests(columns: dict[str, pa.Array], keys: Sequence[str]) -> list[str]:
    """Return the tests of rules `r` on events `e`, except on the columns of the join."""
    tests = []
    for name, column in columns.items():
        attribute, side = name.rsplit("_", 1)
        if attribute in keys:
            continue
        test = {
            "in": f"list_contains(r.{name}, e.{attribute})",
            "low": f"e.{attribute} >= r.{name}",
            "high": f"e.{attribute} <= r.{name}",
        }[side]
        if column.null_count == len(column):
            continue
        tests.append(test if column.null_count == 0 else f"(r.{name} IS NULL OR {test})")
    return tests


def duckdb_as_written(family: Family, events: pa.Table) -> Peer:
    """Return the join as people would write it."""
    columns = rule_columns(family.rules, family.schema)
    rules = pa.table({"rule": np.arange(len(family.rules))} | columns)
    source = f"FROM events e, rules r WHERE {' AND '.join(write_tests(columns, ()))}"
    queries = DuckDB(len(rules), [source], {"events": events, "rules": rules})
    return Peer("DuckDB, list_contains", queries.count, queries.by_rule)


def duckdb_structured(family: Family, events: pa.Table) -> Peer:
    """Return an expert's query: rules grouped by columns, lists unnested, and hash joins."""
    tables, sources, prepare = {"events": events}, [], []
    for number, ((keys, _), group) in enumerate(divide(family).items()):
        columns = rule_columns([family.rules[i] for i in group], family.schema)
        name = f"rules_{number}"
        tables[name] = pa.table({"rule": np.array(group)} | columns)
        tests = [f"e.{key} = r.{key}" for key in keys] + write_tests(columns, keys)
        sources.append(f"FROM events e JOIN {name} r ON {' AND '.join(tests)}")
        if keys:
            # One at a time: DuckDB zips several unnests in one SELECT instead of combining them.
            prepare.append(f"ALTER TABLE {name} RENAME TO {name}_lists")
            source = f"{name}_lists"
            for key in keys:
                source = f"(SELECT * EXCLUDE ({key}_in), unnest({key}_in) AS {key} FROM {source})"
            prepare.append(f"CREATE TABLE {name} AS SELECT * FROM {source}")
    queries = DuckDB(len(family.rules), sources, tables, prepare)
    return Peer("DuckDB, hash joins", queries.count, queries.by_rule)


# ------------------------------------------------------------ Polars


def polars_structured(family: Family, events: pa.Table) -> Peer:
    """Return the same in Polars: lists exploded, joined, and filtered."""
    frame = pl.from_arrow(events)
    groups = []
    for (keys, _), group in divide(family).items():
        columns = rule_columns([family.rules[i] for i in group], family.schema)
        rules = pl.from_arrow(pa.table({"rule": np.array(group)} | columns))
        for key in keys:
            rules = rules.explode(f"{key}_in").rename({f"{key}_in": key})
        tests = []
        for name, column in columns.items():
            attribute, side = name.rsplit("_", 1)
            if attribute in keys or column.null_count == len(column):
                continue
            bound, value = pl.col(name), pl.col(attribute)
            test = {
                "in": lambda b=bound, v=value: b.list.contains(v),
                "low": lambda b=bound, v=value: v >= b,
                "high": lambda b=bound, v=value: v <= b,
            }[side]()
            tests.append(test if column.null_count == 0 else bound.is_null() | test)
        groups.append((list(keys), rules, tests))

    def pairs(keys: list[str], rules: Any, tests: list[Any]) -> Any:
        if keys:
            return frame.lazy().join(rules.lazy(), on=keys).filter(*tests)
        return frame.lazy().join_where(rules.lazy(), *tests)

    def count() -> int:
        return sum(pairs(*group).select(pl.len()).collect().item() for group in groups)

    def by_rule() -> np.ndarray:
        counts = np.zeros(len(family.rules), np.int64)
        for group in groups:
            found = pairs(*group).group_by("rule").agg(pl.len().alias("n")).collect()
            counts[found["rule"].to_numpy()] += found["n"].to_numpy().astype(np.int64)
        return counts

    return Peer("Polars, joins", count, by_rule)


PEERS = (duckdb_structured, duckdb_as_written, polars_structured)
