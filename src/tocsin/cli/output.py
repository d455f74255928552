"""The one file that `tocsin match` leaves: written row by row, or joined from Spark's parts.

It lies in a folder beside its place until it is complete, and takes its name last: whoever looks
finds no file, the old one or the whole new one. Nothing is held in memory but a block.
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

from tocsin.cli.spelling import csv_lines, json_lines

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}
_ROW_GROUP = 1 << 17  # rows
_BLOCK = 1 << 26  # bytes of text parsed at once; no row may be longer


class Tally:
    """How many matches were written, and of which rules; counts name no rule."""

    def __init__(self) -> None:
        self.matches = 0
        self.by_rule: Counter[Any] = Counter()

    def add_rules(self, ids: pa.Array) -> None:
        """Count a match for each id."""
        self.matches += len(ids)
        found = pc.value_counts(ids)
        rules, counts = found.field(0).to_pylist(), found.field(1).to_pylist()
        self.by_rule.update(dict(zip(rules, counts, strict=True)))

    def add_counts(self, counts: pa.Array) -> None:
        """Add numbers of matches."""
        self.matches += pc.sum(counts).as_py() or 0


# ------------------------------------------------------------ in this process


class FileWriter:
    """Writes rows to a file: csv, json (an object a line) or parquet."""

    def __init__(self, path: Path, format: str, schema: pa.Schema):
        self._file = open(path, "wb")  # noqa: SIM115  (closed by __exit__)
        self._format = format
        self._schema = schema
        self._parquet: pyarrow.parquet.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        if format == "parquet":
            self._parquet = pyarrow.parquet.ParquetWriter(self._file, schema)
        elif format == "csv":
            self._file.write(_header(schema.names))

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows after those before."""
        if self._parquet is not None:
            self._waiting.append(rows)
            if sum(batch.num_rows for batch in self._waiting) >= _ROW_GROUP:
                self._write_waiting()
        elif rows.num_rows:
            lines = (
                csv_lines(rows.columns)
                if self._format == "csv"
                else json_lines(self._schema.names, rows.columns)
            )
            self._file.write(lines)

    def _write_waiting(self) -> None:
        if self._parquet is not None and self._waiting:
            self._parquet.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting.clear()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        try:
            if kind is None:
                self._write_waiting()
            if self._parquet is not None:
                self._parquet.close()
        finally:
            self._file.close()


# ------------------------------------------------------------ from Spark's parts


def join_parts(folder: Path, format: str, columns: list[str], out: Path) -> None:
    """Make one file of the parts in a folder, and give it its name when it is complete."""
    whole = folder.parent / "whole"
    if format == "parquet":
        _join_parquet(_parts(folder), whole)
    else:
        with open(whole, "wb") as file:
            if format == "csv":
                file.write(_header(columns))
            for part in _parts(folder):
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
    os.replace(whole, out)


def _parts(folder: Path) -> list[Path]:
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


def tally(folder: Path, format: str, columns: list[str], column: str, type_: str) -> Tally:
    """Count the matches in the parts in a folder.

    `column` has them, and is of Spark's type `type_`: rule, rules (in lists) or matches (counts).
    """
    field = pa.field(column, _ARROW[type_])
    tallied = Tally()
    for part in _parts(folder):
        for values in _values(part, format, columns, field):
            if column == "matches":
                tallied.add_counts(values)
            else:
                tallied.add_rules(values.flatten() if column == "rules" else values)
    return tallied


def _values(part: Path, format: str, columns: list[str], field: pa.Field) -> Iterator[pa.Array]:
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
