"""The one file that `tocsin match` leaves, put together from the parts that Spark writes.

Parts lie in a folder beside the file until it is complete, and it takes its name last: whoever
looks finds no file, the old one or the whole new one. Nothing is held in memory but a block.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}
_BLOCK = 1 << 26  # bytes of text parsed at once; no row may be longer


class Tally(NamedTuple):
    """What was written."""

    matches: int
    by_rule: Counter[Any]  # empty for counts, which name no rule


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
    matches = 0
    by_rule: Counter[Any] = Counter()
    for part in _parts(folder):
        for values in _values(part, format, columns, field):
            if column == "matches":
                matches += pc.sum(values).as_py() or 0
                continue
            rules = values.flatten() if column == "rules" else values
            matches += len(rules)
            found = pc.value_counts(rules)
            by_rule.update(
                dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
            )
    return Tally(matches, by_rule)


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
