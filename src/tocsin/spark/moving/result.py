"""Events in the columns that a query was planned with, while the rules change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.result import MisfitError, cast_column
from tocsin.engine.version import Version
from tocsin.errors import StoreError
from tocsin.spark.types import SPARK_TYPES
from tocsin.spark.worker import RuleSource, planning_error

_ROWS = 1 << 16  # of a batch; chosen


class EventLayout(NamedTuple):
    """The planned columns of events."""

    schema: pa.Schema
    payload: tuple[str, ...]
    region: str | None = None  # the column of safe regions, if there is one

    def lay_out(
        self, events: pa.Table, version: Version, source: RuleSource
    ) -> Iterator[pa.RecordBatch]:
        """Yield events in the planned types; `source` is where the version comes from."""
        try:
            columns = [self._cast(events.column(f.name), f, version) for f in self.schema]
        except MisfitError as error:
            raise planning_error(source, str(error)) from None
        yield from pa.Table.from_arrays(columns, schema=self.schema).to_batches(_ROWS)

    def _cast(self, column: pa.ChunkedArray, field: pa.Field, version: Version) -> pa.ChunkedArray:
        if column.type == field.type:
            return column
        if field.name in self.payload:
            return pa.chunked_array([cast_column(column.combine_chunks(), field, SPARK_TYPES)])
        # Without rules, the type of the ids is unknown, and events are about removed ones.
        if field.name == "rule" and t.is_integer(field.type) and len(version):
            raise MisfitError("the rules' ids are strings, but the query was planned for integers")
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid as error:
            raise StoreError(
                f"column {field.name!r} of the events is {column.type}, but the query was planned "
                f"for {field.type}: {error}"
            ) from None
