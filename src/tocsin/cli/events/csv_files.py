"""Read events from CSV files as Spark does: a header, empty fields are null, a line is a row.

There are two passes: the first infers the types of columns that are not declared, the second reads
values. Only one block is in memory.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tocsin.cli.events.text_values import fits, infer, parse, parse_decimals
from tocsin.cli.events.types import check_unique, declared_types, misfit_error, type_of_kind
from tocsin.cli.files import reading
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BLOCK = 1 << 22  # bytes parsed at once; no row can be longer
_HEADER = re.compile(rb"[^\r\n]*[^\s][^\r\n]*(\r\n|\n|\r|$)")  # the first line that is not blank
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvEvents:
    """The events of CSV files with the same header.

    `advance` receives the number of bytes read, in both passes.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._files = files
        self._advance = advance
        self._header = read_common_header(files)
        with reading(files[0], EventError):
            self._names = _parse_header(self._header)
            check_unique(self._names)
        text_columns = pa.schema([(name, pa.string()) for name in self._names])
        self._declared = declared_types(text_columns, declared)
        types = self._infer_types() | self._declared
        self._without_values = [n for n, type_ in types.items() if pa.types.is_null(type_)]
        types |= dict.fromkeys(self._without_values, pa.string())
        self.schema = pa.schema([(name, types[name]) for name in self._names])

    def assume(self, known: Schema) -> None:
        """Give columns that have no values the kinds of a schema, where it has them."""
        empty = [name for name in self._without_values if known.find(name) is not None]
        types = {name: type_of_kind(known.kind(name)) for name in empty}
        self.schema = pa.schema([(f.name, types.get(f.name, f.type)) for f in self.schema])

    def _infer_types(self) -> dict[str, pa.DataType]:
        types = {name: pa.null() for name in self._names if name not in self._declared}
        for file in self._files if types else ():
            with reading(file, EventError):
                for batch in self._read_texts(file, list(types)):
                    for name, column in zip(batch.schema.names, batch.columns, strict=True):
                        types[name] = infer(column, types[name])
        return types

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        names = [name for name in self._names if name in columns] or self._names[:1]
        rows = 0
        with reading(file, EventError):
            for batch in self._read_texts(file, names):
                yield pa.RecordBatch.from_arrays(
                    [self._parse_column(batch.column(name), name, rows) for name in names], names
                )
                rows += batch.num_rows

    def _parse_column(self, texts: pa.Array, name: str, rows_before: int) -> pa.Array:
        type_ = self.schema.field(name).type
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), type_)
        if name in self._declared and pa.types.is_decimal(type_):
            try:
                return parse_decimals(texts, type_)
            except ValueError as error:
                text = error.args[0]
                row = texts.to_pylist().index(text) + rows_before + 1
                raise misfit_error(name, type_, text).with_place(f"row {row}") from None
        if name in self._declared and not fits(texts.drop_null(), type_):
            rows = enumerate(texts, rows_before + 1)
            row, text = next(
                (n, x) for n, x in rows if x.is_valid and not fits(_to_array(x), type_)
            )
            raise misfit_error(name, type_, text.as_py()).with_place(f"row {row}")
        return parse(texts, type_)

    def _read_texts(self, file: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of text; empty fields are null, quoted or not."""
        with _Lines(file, self._advance) as lines:
            if lines.header != self._header or lines.is_at_end():
                return  # an empty file, or only a header
            rows = 0
            for batch in self._open_reader(lines, names):
                rows += batch.num_rows
                yield batch if len(self._names) > 1 else _drop_blank_rows(batch)
        # The numbers also differ if there are blank lines or old line ends, which is rare.
        if rows != lines.count:
            self._refuse_line_breaks(file)

    def _open_reader(self, lines: _Lines, names: list[str]) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            lines,
            pyarrow.csv.ReadOptions(column_names=self._names, block_size=_BLOCK),
            pyarrow.csv.ParseOptions(invalid_row_handler=_skip_blank),
            pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types=dict.fromkeys(self._names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )

    def _refuse_line_breaks(self, file: Path) -> None:
        """Raise if a field has a line break, which may also be a missing closing quote."""
        with _Lines(file, lambda count: None) as lines:
            for batch in self._open_reader(lines, self._names):
                for name, column in zip(self._names, batch.columns, strict=True):
                    broken = column.filter(pc.match_substring_regex(column, "[\r\n]"))
                    if len(broken):
                        start = repr(broken[0].as_py()[:40])
                        raise EventError(
                            f"column {name!r}: a quoted value contains a line break, which is not "
                            f"supported, or its closing quote is missing: {start}"
                        )


def _to_array(text: pa.Scalar) -> pa.Array:
    return pa.array([text.as_py()], pa.string())


def _skip_blank(row: pyarrow.csv.InvalidRow) -> str:
    return "error" if row.text.strip() else "skip"


def _drop_blank_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a single column without the rows that are blank lines."""
    blank = pc.match_substring_regex(batch.column(0), r"^[\x00-\x20]*$")
    return batch.filter(pc.invert(pc.fill_null(blank, False)))


class _Lines:
    """A CSV file after its header; it reports the bytes read and counts lines."""

    def __init__(self, file: Path, advance: Callable[[int], object]):
        self._file = open(file, "rb")  # noqa: SIM115  (closed by __exit__)
        start = self._file.read(_BLOCK)
        has_mark = start.startswith(_BYTE_ORDER_MARK)
        header = _HEADER.search(start, len(_BYTE_ORDER_MARK) if has_mark else 0)
        self.header = header[0].strip(b"\r\n") if header else b""
        self._file.seek(header.end() if header else 0)
        self._left = os.fstat(self._file.fileno()).st_size - self._file.tell()
        self._advance = advance
        self._ends_in_newline = False
        self.closed = False
        self._newlines = 0

    def is_at_end(self) -> bool:
        """Return whether there is nothing after the header."""
        return self._left == 0

    @property
    def count(self) -> int:
        """The number of lines read so far."""
        return self._newlines + (not self._ends_in_newline)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; called by Arrow."""
        data = self._file.read(size)
        self._newlines += data.count(b"\n")
        self._ends_in_newline = data.endswith(b"\n") if data else self._ends_in_newline
        self._advance(len(data))
        return data

    def close(self) -> None:
        """Close the file; also called by Arrow."""
        self._file.close()
        self.closed = True

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


# ------------------------------------------------------------ headers


def read_common_header(files: Sequence[Path]) -> bytes:
    """Return the header of all files that are not empty; raise if it is not the same."""
    headers: dict[bytes, Path] = {}
    for file in files:
        with reading(file, EventError), _Lines(file, lambda count: None) as lines:
            if lines.header:
                headers.setdefault(lines.header, file)
    if len(headers) > 1:
        one, other = list(headers.values())[:2]
        raise EventError(
            f"{one} and {other} have different headers; the files of a folder must have the same "
            "columns in the same order"
        )
    if not headers:
        raise EventError(f"{files[0]} is empty; the first line of a CSV file names its columns")
    return next(iter(headers))


def _parse_header(header: bytes) -> list[str]:
    """Return the names in a header; like Spark, number those that are empty or not unique."""
    names = pyarrow.csv.read_csv(io.BytesIO(header + b"\n")).column_names
    counts = Counter(name.lower() for name in names)
    return [
        f"_c{i}" if not name else f"{name}{i}" if counts[name.lower()] > 1 else name
        for i, name in enumerate(names)
    ]
