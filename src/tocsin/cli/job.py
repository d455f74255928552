"""What `tocsin match` is asked to do, whether in this process or on Spark, and what came of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.cli.files import FORMATS, add_file
from tocsin.engine.rules import Rules
from tocsin.errors import EventError
from tocsin.model.schema import Schema


class Job(NamedTuple):
    """Files to match, and how."""

    rules: Path  # a store, or a file
    events: Path
    format: str  # of the events: csv, json or parquet
    declared: Schema  # what columns of events are, where it is not to be guessed
    out: Path
    how: str
    k: int | None
    keep: list[str] | None
    output: str
    payload: list[str]
    threads: int | None  # in one process; None: the default

    @property
    def out_format(self) -> str:
        """csv, json or parquet."""
        return FORMATS[self.out.suffix]

    def read_rules(self, columns: Any) -> Rules:
        """Return the rules of a file, over the events' columns and what their maps are to hold."""
        schema = Schema(columns)
        for name in self.declared:
            if name not in schema:
                schema.add(name, self.declared.kind(name))
        rules = Rules(schema)
        add_file(rules, self.rules)
        return rules

    def refuse(self, columns: dict[str, str]) -> None:
        """Raise if there are columns, given with their types, that the output cannot hold."""
        for name, type_ in columns.items():
            what, instead = ("CSV", ".jsonl or .parquet")
            if self.out_format == "json":
                what, instead = "JSON", ".parquet"
            raise EventError(
                f"{self.out}: {what} cannot hold column {name!r}, which is of type {type_}; write "
                f"{instead}, or leave it out (--keep names the events' columns to keep, --output "
                "rows gives no lists)"
            )


class Outcome(NamedTuple):
    """What was matched and written."""

    events: int
    matches: int
    by_rule: Counter[Any]  # empty for counts, which name no rule
    seconds: float
