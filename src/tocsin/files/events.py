"""Open files of events: CSV, JSON lines or Parquet, read batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.files.csv_files import CsvEvents
from tocsin.files.json_files import JsonEvents
from tocsin.files.parquet_files import ParquetEvents
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
    files: Sequence[Path],
    format: str,
    declared: Schema,
    known: Schema,
    advance: Callable[[int], object],
) -> EventFiles:
    """Open files and determine their columns and types; `format` is csv, json or parquet.

    Declared columns have the declared kind, and must exist. In CSV and JSON, other columns have the
    kind of `known`, where it has them, and else the type that Arrow infers from the first block.
    Parquet has types of its own. `advance` receives the number of bytes read by `batches`.
    """
    events: EventFiles = _READERS[format](files, declared, known, advance)
    if not len(events.schema):
        raise EventError(f"the events in {files[0]} have no columns")
    for field in events.schema:
        _check_nesting(field)
    return events


def _check_nesting(column: pa.Field) -> None:
    """Raise if a column has too many levels, or objects without fields, which no file can hold."""
    level, types = 0, [column.type]
    while types:
        if any(t.is_struct(type_) and not type_.num_fields for type_ in types):
            raise EventError(
                f"column {column.name!r} has objects without fields; leave it out, or read it as "
                f"text: --schema {column.name}=category"
            )
        types = [type_.field(i).type for type_ in types for i in range(type_.num_fields)]
        level += 1
    if level > _MAX_DEPTH + 1:
        raise EventError(f"column {column.name!r} is nested more than {_MAX_DEPTH} levels deep")
