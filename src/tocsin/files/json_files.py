"""Read events from files of JSON lines: an object per line.

Arrow infers the types of fields that no schema gives from the first block of lines; fields are in
the order of their names. Only one block is in memory.
"""

from __future__ import annotations

import bisect
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as t

from tocsin.errors import EventError, shorten
from tocsin.files.paths import reading
from tocsin.files.types import (
    EXACT,
    TIME,
    check_declared,
    check_unique,
    convert,
    fits,
    given_types,
    misfit_error,
    type_name,
    type_of_kind,
)
from tocsin.model.arrow import combine_chunks
from tocsin.model.schema import KINDS, Schema

_BLOCK = 1 << 22  # bytes of lines parsed at once
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Arrow crashes on a line that is null, and on lists nested ten thousand deep (pyarrow 26).
_SUSPICIOUS = re.compile(rb"^[ \t\r]*[^{\s]|\}\s*null", re.MULTILINE)
_MAX_BRACKETS = 1000  # in a line, which limits its depth; chosen
_COLUMN = re.compile(r"Column\(/([^/)]+)")  # as Arrow's messages name it
_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


class JsonEvents:
    """The events of files of JSON lines; `advance` receives the number of bytes read."""

    def __init__(
        self,
        files: Sequence[Path],
        declared: Schema,
        known: Schema,
        advance: Callable[[int], object],
    ):
        self._advance: Callable[[int], object] = lambda count: None
        inferred, is_whole = pa.schema([]), True
        for file in files:
            with reading(file, EventError):
                block = next(self._blocks(file), None)
                if block is not None:
                    inferred = _infer_schema(block, declared, known)
                    is_whole = len(files) == 1 and block.size == file.stat().st_size
                    break
        self._advance = advance
        check_unique(inferred.names)
        if is_whole:
            check_declared(inferred.names, False, declared)
        self._given = given_types(inferred, declared, known)
        # A declared field that the first block lacks may come later.
        lower_names = {name.lower() for name in inferred.names}
        later = [name for name in declared if name.lower() not in lower_names]
        self._given |= {name: type_of_kind(declared.kind(name)) for name in later}
        types = {f.name: f.type for f in inferred} | self._given
        self.schema = pa.schema([(name, types[name]) for name in sorted(types)])

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        fields = [f for f in self.schema if f.name in columns] or list(self.schema)[:1]
        names = [f.name for f in fields]
        if any(t.is_nested(f.type) for f in fields):
            fields = list(self.schema)  # Arrow ignores new fields at all levels or at none
        with reading(file, EventError):
            for block in self._blocks(file):
                yield self._read(block, fields).select(names)

    def _blocks(self, file: Path) -> Iterator[_Block]:
        """Yield the lines of a file in blocks that have at least one object."""
        before = 0
        with open(file, "rb") as source:
            while lines := source.readlines(_BLOCK):
                block = _Block(lines, before)
                size = block.size
                if not before:
                    lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
                if any(map(bytes.strip, lines)):
                    block.check()
                    yield block
                before += len(lines)
                self._advance(size)

    def _read(self, block: _Block, fields: list[pa.Field]) -> pa.RecordBatch:
        unexpected = "error" if len(fields) == len(self.schema) else "ignore"
        try:
            return _read_lines(block.lines, fields, unexpected)
        except _ARROW_ERRORS:
            rows = list(block.rows())
        # Arrow does not read other values as texts.
        texts = {f.name for f in fields if f.name in self._given and f.type == pa.string()}
        others = [f for f in fields if f.name not in texts]
        lines = _without(rows, texts)
        bad = _first_bad(lines, others, unexpected)
        if bad < len(lines):
            error = self._explain(json.loads(lines[bad]), others, unexpected)
            raise error.with_place(f"line {rows[bad][0]}")
        columns = {name: block.texts(name) for name in texts}
        if others:
            batch = _read_lines(block.lines, others, "ignore")
            columns |= dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays(
            [columns[f.name] for f in fields], schema=pa.schema(fields)
        )

    def _explain(self, row: dict[str, Any], fields: list[pa.Field], unexpected: str) -> EventError:
        """Return the error for an object that cannot be read."""
        known = {f.name: f for f in fields}
        for name, value in row.items():
            line = _dump({name: value})
            if name in known and not _can_read([line], [known[name]], unexpected):
                shown = json.dumps(value, ensure_ascii=False)
                return misfit_error(name, known[name].type, shown, name in self._given)
            if name not in known and unexpected == "error":
                kind = type_name(_infer_type(_parse([line], [], "infer").column(0)))
                return EventError(
                    f"the first lines have no field {name!r}; give --schema {name}="
                    + (kind if kind in KINDS else "category")
                )
        return EventError("cannot be read with the lines before it")


class _Block(NamedTuple):
    """Consecutive lines of a file."""

    lines: list[bytes]
    before: int  # lines before the block

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self.lines))

    def check(self) -> None:
        """Raise if Arrow would crash, or read lines that are not objects, or not UTF-8."""
        data = b"".join(self.lines)
        data.decode()
        is_deep = any(line.count(b"[") + line.count(b"{") > _MAX_BRACKETS for line in self.lines)
        if is_deep or _SUSPICIOUS.search(data):
            for _ in self.rows():
                pass

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line numbers and objects; raise if a line has none."""
        for number, line in enumerate(self.lines, self.before + 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=_unique)
            except (ValueError, RecursionError) as error:
                raise EventError(f"line {number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise EventError(f"line {number}: not a JSON object: {line.decode()[:40].strip()}")
            yield number, row

    def texts(self, name: str) -> pa.Array:
        """Return the values of a field as texts: strings, and others as they are written."""
        texts: list[str | None] = []
        for line in filter(bytes.strip, self.lines):
            value = json.loads(line, parse_int=str, parse_float=str, parse_constant=str).get(name)
            if isinstance(value, bool | list | dict):
                value = json.dumps(json.loads(line)[name], ensure_ascii=False)
            texts.append(value)
        return pa.array(texts, pa.string())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("an object has a field twice")
    return row


def _without(rows: list[tuple[int, dict[str, Any]]], names: set[str]) -> list[bytes]:
    """Return objects as lines, without some fields."""
    return [_dump({n: value for n, value in row.items() if n not in names}) for _, row in rows]


def _dump(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"


# ------------------------------------------------------------ with Arrow


def _parse(lines: list[bytes], fields: list[pa.Field], unexpected: str) -> pa.Table:
    """Return lines as Arrow reads them, with all digits of decimals."""
    data = b"".join(lines)
    table = pyarrow.json.read_json(
        io.BytesIO(data),
        pyarrow.json.ReadOptions(block_size=len(data) + 1),
        pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(f.name, _exact_type(f.type)) for f in fields]),
            unexpected_field_behavior=unexpected,
        ),
    )
    table.validate()  # raises for lists of only nulls, which Arrow reads wrongly
    if table.num_rows != sum(map(bool, map(bytes.strip, lines))):
        raise pa.ArrowInvalid("an object on several lines, or several on one")
    return table


def _read_lines(lines: list[bytes], fields: list[pa.Field], unexpected: str) -> pa.RecordBatch:
    table = _parse(lines, fields, unexpected)
    columns = [convert(table.column(f.name).combine_chunks(), f.type) for f in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _can_read(lines: list[bytes], fields: list[pa.Field], unexpected: str) -> bool:
    try:
        _read_lines(lines, fields, unexpected)
    except _ARROW_ERRORS:
        return False
    return True


def _first_bad(lines: list[bytes], fields: list[pa.Field], unexpected: str) -> int:
    """Return the index of the first line that cannot be read after those before it, if any."""
    return bisect.bisect_left(
        range(len(lines)), True, key=lambda i: not _can_read(lines[: i + 1], fields, unexpected)
    )


def _exact_type(type_: pa.DataType) -> pa.DataType:
    if t.is_struct(type_):
        return pa.struct([(f.name, _exact_type(f.type)) for f in type_])
    return EXACT if t.is_decimal(type_) else type_


# ------------------------------------------------------------ types


def _infer_schema(block: _Block, declared: Schema, known: Schema) -> pa.Schema:
    """Return the fields of a block; values of different types are allowed where a kind is given."""
    given: dict[str, pa.DataType] = {}
    try:
        table = _parse(block.lines, [], "infer")
    except _ARROW_ERRORS:
        rows = list(block.rows())
        names = dict.fromkeys(name for _, row in rows for name in row)
        given = given_types(pa.schema([(name, pa.string()) for name in names]), declared, known)
        for name in list(given):
            if _can_read([_dump({name: row.get(name)}) for _, row in rows], [], "infer"):
                del given[name]
        lines = _without(rows, set(given))
        bad = _first_bad(lines, [], "infer")
        if bad < len(lines):
            raise _mixture_error(lines[: bad + 1]).with_place(f"line {rows[bad][0]}") from None
        table = _parse(lines, [], "infer")
    fields = [(n, _infer_type(c)) for n, c in zip(table.column_names, table.columns, strict=True)]
    return pa.schema([*fields, *given.items()])


def _mixture_error(lines: list[bytes]) -> EventError:
    """Return the error for lines whose last one does not have the types of the others."""
    try:
        _parse(lines, [], "infer")
    except _ARROW_ERRORS as error:
        found, reason = _COLUMN.search(str(error)), str(error)
    if found is None:
        return EventError(f"cannot be read: {reason}")
    value = json.dumps(json.loads(lines[-1]).get(found[1]), ensure_ascii=False)
    return EventError(
        f"column {found[1]!r} has the value {shorten(value, 60)} after values of another type; "
        f"give --schema {found[1]}=category to read all as text"
    )


def _infer_type(column: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column as Arrow has inferred it, but with all times."""
    array = combine_chunks(column) if isinstance(column, pa.ChunkedArray) else column
    type_ = array.type
    if t.is_struct(type_):
        children = zip(type_, array.flatten(), strict=True)
        types = {field.name: _infer_type(values) for field, values in children}
        return pa.struct([(name, types[name]) for name in sorted(types)])
    if t.is_list(type_):
        return pa.list_(_infer_type(array.flatten()))
    if t.is_string(type_):
        # Arrow infers times without fractions only, and reads at most microseconds.
        texts = array.drop_null()
        nanoseconds = pc.any(pc.match_substring_regex(texts, r"\.[0-9]{7}")).as_py()
        return TIME if len(texts) and fits(texts, TIME) and not nanoseconds else type_
    if t.is_null(type_):
        return pa.string()
    return TIME if t.is_timestamp(type_) else type_
