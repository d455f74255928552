"""Files of events, read in this process: CSV, JSON lines and Parquet, batch by batch.

What Spark would make of a file is made of it here: the same columns, types and values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tocsin.cli.events.csv_files import CsvEvents
from tocsin.cli.events.json_files import JsonEvents
from tocsin.cli.events.parquet_files import ParquetEvents
from tocsin.cli.events.types import depth
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_READERS: dict[str, Any] = {"csv": CsvEvents, "json": JsonEvents, "parquet": ParquetEvents}
_DEPTH = 50  # Arrow hands schemas with 64 levels to nobody


class EventFiles(Protocol):
    """Files of events whose columns and types are known."""

    schema: pa.Schema

    def batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the values of these columns, in the order of the schema."""
        ...


def open_events(
    files: Sequence[Path], format: str, declared: Schema, advance: Callable[[int], object]
) -> EventFiles:
    """Find the columns and types of files; `format` is csv, json or parquet.

    Columns that are declared have the declared kind. `advance` receives the number of bytes read:
    by now, where values have to be looked at to know their types, and in `batches`.
    """
    opened: EventFiles = _READERS[format](files, declared, advance)
    if not len(opened.schema):
        raise EventError(f"the events in {files[0]} have no columns")
    for field in opened.schema:
        if depth(field.type) > _DEPTH:
            raise EventError(f"column {field.name!r} is nested more than {_DEPTH} levels deep")
    return opened
