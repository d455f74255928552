"""The job of `tocsin match` and its outcome, both in this process and on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.engine.request import MatchRequest
from tocsin.engine.rules import Rules
from tocsin.errors import EventError
from tocsin.files.paths import FORMATS
from tocsin.files.rules import add_file
from tocsin.model.schema import Schema


class Job(NamedTuple):
    """The files to match, and how to match them."""

    rules: Path | str  # a store, or a file
    version: int | None  # of a store; None: the current one
    events: Path
    format: str  # of the events: csv, json or parquet
    declared: Schema  # kinds of event columns that are not inferred
    out: Path
    request: MatchRequest
    index_name: str  # for a file of rules; a store has its own
    index_options: dict[str, Any]
    threads: int | None  # None: the default; not on Spark

    @property
    def out_format(self) -> str:
        """The format of the output: csv, json or parquet."""
        return FORMATS[self.out.suffix]

    def read_rules(self, columns: Any) -> Rules:
        """Return the rules of a file; attributes are the events' columns and the declared names."""
        return read_rules(self.rules, columns, self.declared, self.index_name, self.index_options)

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


def read_rules(
    path: Path | str, columns: Any, declared: Schema, index: str, options: dict[str, Any]
) -> Rules:
    """Return the rules of a file; attributes are columns of events and the declared names."""
    schema = Schema(columns)
    for name in declared:
        if name not in schema:
            schema.add(name, declared.kind(name))
    for name, type_ in declared.nested.values():
        if name.lower() not in schema.nested:
            schema.add(name, str(type_))
    rules = Rules(schema, index, options)
    add_file(rules, Path(path))
    return rules


class Outcome(NamedTuple):
    """What a job matched and wrote."""

    events: int
    matches: int
    by_rule: Counter[Any]  # empty for --how count
    seconds: float
