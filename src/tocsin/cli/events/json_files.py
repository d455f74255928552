"""Read events from files of JSON lines as Spark does: an object per line.

There are two passes: the first infers types, the second reads values. Only one block of lines is
in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.cli.events.json_arrow import infer_block, read_block
from tocsin.cli.events.json_types import NULL, arrow_type, has_mixed, infer_type, merge
from tocsin.cli.events.json_values import build_column, parse_verbatim
from tocsin.cli.events.types import TIME, check_unique, declared_types, has_decimals
from tocsin.cli.files import reading
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BLOCK = 1 << 22  # bytes of lines parsed at once
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonEvents:
    """The events of files of JSON lines.

    `advance` receives the number of bytes read, in both passes.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._advance = advance
        known: Any = {}
        for file in files:
            with reading(file, EventError):
                for block in self._blocks(file):
                    type_ = infer_block(block.lines, known)
                    if type_ is None:
                        type_ = infer_type(row for _, row in block.rows(json.loads))
                    known = merge(known, type_)
        inferred = pa.schema(list(arrow_type(known) or ()))
        check_unique(inferred.names)
        types = declared_types(inferred, declared)
        self.schema = pa.schema([(f.name, types.get(f.name, f.type)) for f in inferred])
        self._has_mixed = any(has_mixed(known[name]) for name in inferred.names) or any(
            type_ == pa.string() and known[name] not in (pa.string(), TIME, NULL)
            for name, type_ in types.items()
        )

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        fields = [f for f in self.schema if f.name in columns] or list(self.schema)[:1]
        names = [f.name for f in fields]
        row_type = pa.struct(fields)
        # Python's json would read a decimal as a float.
        is_verbatim = self._has_mixed or has_decimals(row_type)
        parse = (lambda line: parse_verbatim(line, row_type)) if is_verbatim else json.loads
        with reading(file, EventError):
            for block in self._blocks(file):
                batch = None if self._has_mixed else read_block(block.lines, fields)
                if batch is None:
                    rows = list(block.rows(parse))
                    arrays = [_build_column(rows, field) for field in fields]
                    batch = pa.RecordBatch.from_arrays(arrays, names)
                yield batch

    def _blocks(self, file: Path) -> Iterator[_Block]:
        before = 0
        with open(file, "rb") as source:
            while lines := source.readlines(_BLOCK):
                if not before:
                    lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
                yield _Block(lines, before)
                before += len(lines)
                self._advance(sum(map(len, lines)))


class _Block(NamedTuple):
    """Consecutive lines of a file."""

    lines: list[bytes]
    before: int  # lines before the block

    def rows(self, parse: Callable[[str], Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line numbers and objects; a line may also have a list of objects."""
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


def _build_column(rows: list[tuple[int, dict[str, Any]]], field: pa.Field) -> pa.Array:
    name = field.name
    try:
        return build_column([row.get(name) for _, row in rows], field.type)
    except EventError:
        for number, row in rows:  # one by one, to find the line
            try:
                build_column([row.get(name)], field.type)
            except EventError as error:
                raise error.with_place(f"line {number}: column {name!r}") from None
        raise
