"""The output of `tocsin match`: counts of matches, and one file of Spark's parts."""

from __future__ import annotations

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

from tocsin.files.writer import csv_header

_ARROW_TYPES = {  # by Spark's names
    "string": pa.string(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}
_BLOCK = 1 << 26  # bytes of text parsed at once; no row can be longer


class Tally:
    """The number of matches that were written, in total and per rule; counts have no rules."""

    def __init__(self) -> None:
        self.matches = 0
        self.by_rule: Counter[Any] = Counter()

    def add_rules(self, ids: pa.Array) -> None:
        """Add one match per id."""
        self.matches += len(ids)
        rules, counts = (column.to_pylist() for column in pc.value_counts(ids).flatten())
        self.by_rule.update(dict(zip(rules, counts, strict=True)))

    def add_counts(self, counts: pa.Array) -> None:
        """Add the numbers of matches of several events."""
        self.matches += pc.sum(counts).as_py() or 0


def join_parts(folder: Path, format: str, columns: list[str], out: Path) -> None:
    """Join the parts in a folder into one file, and rename it to `out` when it is complete."""
    whole = folder.parent / "whole"
    if format == "parquet":
        _join_parquet(_list_parts(folder), whole)
    else:
        with open(whole, "wb") as file:
            if format == "csv":
                file.write(csv_header(columns))
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


def tally_parts(folder: Path, format: str, columns: list[str], column: str, type_: str) -> Tally:
    """Tally the matches in the parts in a folder.

    They are in `column`, which is rule, rules (lists) or matches (counts). `type_` is its type in
    Spark.
    """
    field = pa.field(column, _ARROW_TYPES[type_])
    tally = Tally()
    for part in _list_parts(folder):
        for values in _read_column(part, format, columns, field):
            if column == "matches":
                tally.add_counts(values)
            else:
                tally.add_rules(values.flatten() if column == "rules" else values)
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
