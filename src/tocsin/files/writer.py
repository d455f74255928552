"""Write rows to one file, block by block."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pyarrow.types as t

from tocsin.files.formatting import is_bytes, to_csv, to_json_lines

_ROW_GROUP = 1 << 17  # rows


def can_be_written(type_: pa.DataType, format: str) -> bool:
    """Return whether a file of a format (csv, json or parquet) can hold values of a type."""
    return format != "csv" or not (t.is_nested(type_) or is_bytes(type_))


class FileWriter:
    """Writes rows to a file: csv, json (an object per line) or parquet."""

    def __init__(self, path: Path, format: str, schema: pa.Schema):
        self._file = open(path, "wb")  # noqa: SIM115  (closed by __exit__)
        self._format = format
        self._schema = schema
        self._parquet: pyarrow.parquet.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        if format == "parquet":
            self._parquet = pyarrow.parquet.ParquetWriter(self._file, schema)
        elif format == "csv":
            self._file.write(csv_header(schema.names))

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows."""
        if self._parquet is not None:
            self._pending.append(rows)
            if sum(batch.num_rows for batch in self._pending) >= _ROW_GROUP:
                self._write_pending()
        elif rows.num_rows:
            lines = (
                to_csv(rows.columns)
                if self._format == "csv"
                else to_json_lines(self._schema.names, rows.columns)
            )
            self._file.write(lines)

    def _write_pending(self) -> None:
        if self._parquet is not None and self._pending:
            self._parquet.write_table(pa.Table.from_batches(self._pending, self._schema))
            self._pending.clear()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        try:
            if kind is None:
                self._write_pending()
            if self._parquet is not None:
                self._parquet.close()
        finally:
            self._file.close()


def csv_header(columns: list[str]) -> bytes:
    """Return the first line of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(columns)
    return text.getvalue().encode()
