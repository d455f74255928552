"""Events in files of JSON lines, read as Spark reads them: an object a line.

Two passes: the first finds the types, the second reads values. Nothing is held in memory but a
block of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.cli.events.json_arrow import infer_block, read_block
from tocsin.cli.events.json_types import NULL, arrow_type, infer_type, is_mixed, merge
from tocsin.cli.events.json_values import column, read_exactly
from tocsin.cli.events.types import TIME, check_unique, declared_types
from tocsin.cli.files import reading
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BLOCK = 1 << 22  # bytes of lines parsed at once
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonEvents:
    """The events of files of JSON lines.

    `advance` receives the number of bytes read, in each pass.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._files = files
        self._advance = advance
        found: Any = {}
        for file in files:
            with reading(file, EventError):
                for lines in self._blocks(file):
                    block = infer_block(lines.lines, found)
                    if block is None:
                        block = infer_type(row for _, row in lines.rows(json.loads))
                    found = merge(found, block)
        inferred = pa.schema(list(arrow_type(found) or ()))
        check_unique(inferred.names)
        types = declared_types(inferred, declared)
        self.schema = pa.schema([(f.name, types.get(f.name, f.type)) for f in inferred])
        self._is_mixed = any(is_mixed(found[name]) for name in inferred.names) or any(
            type_ == pa.string() and found[name] not in (pa.string(), TIME, NULL)
            for name, type_ in types.items()
        )

    def batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the values of these columns, in the order of the schema."""
        wanted = [f for f in self.schema if f.name in columns] or list(self.schema)[:1]
        names = [f.name for f in wanted]
        exact = pa.struct(wanted)
        parse = (lambda line: read_exactly(line, exact)) if self._is_mixed else json.loads
        for file in self._files:
            with reading(file, EventError):
                for lines in self._blocks(file):
                    batch = None if self._is_mixed else read_block(lines.lines, wanted)
                    if batch is None:
                        rows = list(lines.rows(parse))
                        values = [_column(rows, field) for field in wanted]
                        batch = pa.RecordBatch.from_arrays(values, names)
                    yield batch

    def _blocks(self, file: Path) -> Iterator[_Lines]:
        before = 0
        with open(file, "rb") as source:
            while lines := source.readlines(_BLOCK):
                if not before:
                    lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
                yield _Lines(lines, before)
                before += len(lines)
                self._advance(sum(map(len, lines)))


class _Lines(NamedTuple):
    """Some lines of a file, and how many are before them."""

    lines: list[bytes]
    before: int

    def rows(self, parse: Callable[[str], Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects in lines, with the number of the line; it may also hold a list."""
        for number, data in enumerate(self.lines, self.before + 1):
            line = data.decode().strip()
            if not line:
                continue
            try:
                value = parse(line)
            except (ValueError, RecursionError) as error:
                raise EventError(f"line {number}: not JSON: {error}") from None
            for row in value if isinstance(value, list) else [value]:
                if not isinstance(row, dict):
                    raise EventError(f"line {number}: not a JSON object: {line[:40]}")
                yield number, row


def _column(rows: list[tuple[int, dict[str, Any]]], field: pa.Field) -> pa.Array:
    name = field.name
    try:
        return column([row.get(name) for _, row in rows], field.type)
    except EventError:
        for number, row in rows:  # now one by one: which is it?
            try:
                column([row.get(name)], field.type)
            except EventError as error:
                raise error.with_place(f"line {number}: column {name!r}") from None
        raise
