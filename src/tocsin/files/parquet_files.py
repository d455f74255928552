"""Read events from Parquet files, batch by batch, in the types that they have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tocsin.errors import EventError
from tocsin.files.paths import reading
from tocsin.files.types import check_declared, check_unique, convert_column, given_types
from tocsin.model.arrow import decode, decoded_type
from tocsin.model.schema import Schema

_BATCH = 1 << 16  # rows


class ParquetEvents:
    """The events of Parquet files; the columns are those of the first file.

    Columns are found by name. Columns that another file lacks are null there, and columns that the
    first file lacks are ignored. `advance` receives the number of bytes read. Of the given types,
    only the declared ones count: a file has its own.
    """

    def __init__(
        self,
        files: Sequence[Path],
        declared: Schema,
        known: Schema,
        advance: Callable[[int], object],
    ):
        self._advance = advance
        with reading(files[0], EventError):
            stored = _open(files[0]).schema_arrow
            check_unique(stored.names)
            has_map = any(pa.types.is_map(f.type) for f in stored)
            check_declared(stored.names, has_map, declared)
        self._declared = given_types(stored, declared, Schema({}))
        types = {f.name: decoded_type(f.type) for f in stored} | self._declared
        self.schema = pa.schema(list(types.items()))

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        fields = [f for f in self.schema if f.name in columns] or list(self.schema)[:1]
        rows = 0
        with reading(file, EventError):
            source = _open(file)
            names = {name.lower(): name for name in source.schema_arrow.names}
            present = [names[f.name.lower()] for f in fields if f.name.lower() in names]
            bytes_per_row = file.stat().st_size / max(1, source.metadata.num_rows)
            for batch in source.iter_batches(_BATCH, columns=present or None):
                arrays = [
                    convert_column(
                        decode(batch.column(names[f.name.lower()])),
                        *(f.name, f.type, rows, f.name in self._declared),
                    )
                    if f.name.lower() in names
                    else pa.nulls(batch.num_rows, f.type)
                    for f in fields
                ]
                yield pa.RecordBatch.from_arrays(arrays, [f.name for f in fields])
                rows += batch.num_rows
                self._advance(int(bytes_per_row * batch.num_rows))


def _open(file: Path) -> pyarrow.parquet.ParquetFile:
    return pyarrow.parquet.ParquetFile(file, memory_map=True, coerce_int96_timestamp_unit="us")
