"""The output of `tocsin match`: one file, written in blocks or joined from Spark's parts.

The file is written to a temporary folder and renamed when it is complete. So at any time there is
no file, the old file or the complete new one. Only one block is in memory.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from tocsin.cli.formatting import to_csv, to_json_lines

_ARROW_TYPES = {  # by Spark's names
    "string": pa.string(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}
_ROW_GROUP = 1 << 17  # rows
_BLOCK = 1 << 26  # bytes of text parsed at once; no row can be longer


class Tally:
    """The number of matches that were written, in total and per rule; counts have no rules."""

    def __init__(self) -> None:
        self.matches = 0
        self.by_rule: Counter[Any] = Counter()

    def add(self, column: str, values: pa.Array) -> None:
        """Add the matches in a column: rule, rules (lists) or matches (counts)."""
        if column == "matches":
            self.matches += pc.sum(values).as_py() or 0
            return
        ids = values.flatten() if column == "rules" else values
        self.matches += len(ids)
        rules, counts = (column.to_pylist() for column in pc.value_counts(ids).flatten())
        self.by_rule.update(dict(zip(rules, counts, strict=True)))


# ------------------------------------------------------------ in this process


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
            self._file.write(_header(schema.names))

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


# ------------------------------------------------------------ from Spark's parts


def join_parts(folder: Path, format: str, columns: list[str], out: Path) -> None:
    """Join the parts in a folder into one file, and rename it to `out` when it is complete."""
    whole = folder.parent / "whole"
    if format == "parquet":
        _join_parquet(_list_parts(folder), whole)
    else:
        with open(whole, "wb") as file:
            if format == "csv":
                file.write(_header(columns))
            for part in _list_parts(folder):
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
    os.replace(whole, out)


def _list_parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def _join_parquet(parts: list[Path], whole: Path) -> None:
    schema = pyarrow.parquet.read_schema(parts[0])
    with pyarrow.parquet.ParquetWriter(whole, schema) as writer:
        for part in parts:
            with pyarrow.parquet.ParquetFile(part) as source:
                for group in range(source.num_row_groups):
                    writer.write_table(source.read_row_group(group))


def _header(columns: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(columns)
    return text.getvalue().encode()


def tally_parts(folder: Path, format: str, columns: list[str], column: str, type_: str) -> Tally:
    """Tally the matches in a column of the parts in a folder; `type_` is its type in Spark."""
    field = pa.field(column, _ARROW_TYPES[type_])
    tally = Tally()
    for part in _list_parts(folder):
        for values in _read_column(part, format, columns, field):
            tally.add(column, values)
    return tally


def _read_column(
    part: Path, format: str, columns: list[str], field: pa.Field
) -> Iterator[pa.Array]:
    """Yield one column of a part, block by block."""
    if format == "parquet":
        with pyarrow.parquet.ParquetFile(part) as source:
            for batch in source.iter_batches(columns=[field.name]):
                yield batch.column(0)
        return
    if not part.stat().st_size:
        return
    if format == "csv":
        batches = pyarrow.csv.open_csv(
            part,
            pyarrow.csv.ReadOptions(column_names=columns, block_size=_BLOCK),
            pyarrow.csv.ParseOptions(newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                include_columns=[field.name], column_types={field.name: field.type}
            ),
        )
    else:
        batches = pyarrow.json.open_json(
            part,
            pyarrow.json.ReadOptions(block_size=_BLOCK),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([field]), unexpected_field_behavior="ignore"
            ),
        )
    for batch in batches:
        yield batch.column(0)
