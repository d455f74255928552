"""Events in files of JSON lines, read as Spark reads them: an object a line.

Two passes: the first finds the types, the second reads values. Nothing is held in memory but a
block of lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tocsin.cli.events.json_types import NULL, arrow_type, infer_type, is_mixed, merge
from tocsin.cli.events.json_values import column, read_exactly
from tocsin.cli.events.types import TIME, check_unique, declared_types
from tocsin.cli.files import reading
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BLOCK = 1 << 23  # bytes of lines parsed at once
_BYTE_ORDER_MARK = "\ufeff"


class JsonEvents:
    """The events of files of JSON lines.

    `advance` is told how many bytes were read, in each pass.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._files = files
        self._advance = advance
        found: Any = {}
        for file in files:
            with reading(file, EventError):
                for lines in self._blocks(file):
                    found = merge(found, infer_type(row for _, row in _rows(lines, json.loads)))
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
                    rows = list(_rows(lines, parse))
                    yield pa.RecordBatch.from_arrays([_column(rows, f) for f in wanted], names)

    def _blocks(self, file: Path) -> Iterator[list[tuple[int, str]]]:
        """Yield lines that are not blank, with their numbers."""
        number = 0
        with open(file, "rb") as source:
            while data := source.readlines(_BLOCK):
                lines = [line.decode() for line in data]
                if not number:
                    lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
                yield [(n, line) for n, line in enumerate(lines, number + 1) if line.strip()]
                number += len(lines)
                self._advance(sum(map(len, data)))


def _rows(
    lines: list[tuple[int, str]], parse: Callable[[str], Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in lines; a line may also hold a list of them."""
    for number, line in lines:
        try:
            value = parse(line)
        except (ValueError, RecursionError) as error:
            raise EventError(f"line {number}: not JSON: {error}") from None
        for row in value if isinstance(value, list) else [value]:
            if not isinstance(row, dict):
                raise EventError(f"line {number}: not a JSON object: {line.strip()[:40]}")
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
                raise error.at(f"line {number}: column {name!r}") from None
        raise
