"""The job of `tocsin match` and its outcome, both in this process and on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.engine.rules import Rules
from tocsin.errors import EventError
from tocsin.files.paths import FORMATS
from tocsin.files.rules import add_file
from tocsin.model.schema import Schema


class Job(NamedTuple):
    """The files to match, and how to match them."""

    rules: Path  # a store, or a file
    version: int | None  # of a store; None: the current one
    events: Path
    format: str  # of the events: csv, json or parquet
    declared: Schema  # kinds of event columns that are not inferred
    out: Path
    how: str
    k: int | None
    keep: list[str] | None
    output: str
    payload: list[str]
    index_name: str  # for a file of rules; a store has its own
    index_options: dict[str, Any]
    threads: int | None  # None: the default; not on Spark

    @property
    def out_format(self) -> str:
        """The format of the output: csv, json or parquet."""
        return FORMATS[self.out.suffix]

    def read_rules(self, columns: Any) -> Rules:
        """Return the rules of a file; attributes are the events' columns and the declared names."""
        schema = Schema(columns)
        for name in self.declared:
            if name not in schema:
                schema.add(name, self.declared.kind(name))
        for name, type_ in self.declared.nested.values():
            if name.lower() not in schema.nested:
                schema.add(name, str(type_))
        rules = Rules(schema, self.index_name, self.index_options)
        add_file(rules, self.rules)
        return rules

    def refuse_columns(self, columns: dict[str, str]) -> None:
        """Raise if there are columns, by name and type, that the output cannot hold."""
        for name, type_ in columns.items():
            format_name, instead = ("CSV", ".jsonl or .parquet")
            if self.out_format == "json":
                format_name, instead = "JSON", ".parquet"
            raise EventError(
                f"{self.out}: {format_name} cannot hold column {name!r}, which is of type {type_}; "
                f"write {instead}, or leave it out (--keep names the events' columns to keep, "
                "--output rows gives no lists)"
            )


class Outcome(NamedTuple):
    """What a job matched and wrote."""

    events: int
    matches: int
    by_rule: Counter[Any]  # empty for --how count
    seconds: float
