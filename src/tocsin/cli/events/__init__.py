"""Read files of events in this process, batch by batch: CSV, JSON lines and Parquet.

Columns, types and values are the same as those that Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tocsin.cli.events.csv_files import CsvEvents
from tocsin.cli.events.json_files import JsonEvents
from tocsin.cli.events.parquet_files import ParquetEvents
from tocsin.cli.events.types import nesting_depth
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_READERS: dict[str, Any] = {"csv": CsvEvents, "json": JsonEvents, "parquet": ParquetEvents}
_MAX_DEPTH = 50  # levels of nesting; Arrow cannot export schemas with 64


class EventFiles(Protocol):
    """Files of events with known columns and types."""

    schema: pa.Schema

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        ...


def open_events(
    files: Sequence[Path], format: str, declared: Schema, advance: Callable[[int], object]
) -> EventFiles:
    """Open files and determine their columns and types; `format` is csv, json or parquet.

    Declared columns have the declared kind. `advance` receives the number of bytes read: now, if
    types have to be inferred from values, and in `batches`.
    """
    events: EventFiles = _READERS[format](files, declared, advance)
    if not len(events.schema):
        raise EventError(f"the events in {files[0]} have no columns")
    for field in events.schema:
        if nesting_depth(field.type) > _MAX_DEPTH:
            raise EventError(f"column {field.name!r} is nested more than {_MAX_DEPTH} levels deep")
    return events
