"""Read events from CSV files: a header, empty fields are null, a line is a row.

Arrow infers the types of columns that no schema gives from the first block of the first file. Only
a few blocks are in memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.files.paths import reading
from tocsin.files.types import (
    TIME,
    check_declared,
    check_unique,
    convert_column,
    given_types,
    misfit_error,
)
from tocsin.model.schema import Schema

_BLOCK = 1 << 22  # bytes parsed at once; no row can be longer
_HEADER = re.compile(rb"[^\r\n]*[^\s][^\r\n]*(\r\n|\n|\r|$)")  # the first line that is not blank
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to [^:]*: "
    r"(?:invalid value '(.*)'|(.*))",
    re.DOTALL,
)
_BAD_ROW = re.compile(r"CSV parse error: Row #(\d+): (.*)", re.DOTALL)


class CsvEvents:
    """The events of CSV files with the same header; `advance` receives the number of bytes read."""

    def __init__(
        self,
        files: Sequence[Path],
        declared: Schema,
        known: Schema,
        advance: Callable[[int], object],
    ):
        self._advance = advance
        self._header = read_common_header(files)
        with reading(files[0], EventError):
            self._names = _parse_header(self._header)
            check_unique(self._names)
        texts = pa.schema([(name, pa.string()) for name in self._names])
        check_declared(self._names, False, declared)
        self._given = given_types(texts, declared, known)
        others = [name for name in self._names if name not in self._given]
        types = (self._infer_types(files, others) if others else {}) | self._given
        self.schema = pa.schema([(name, types[name]) for name in self._names])

    def _infer_types(self, files: Sequence[Path], names: list[str]) -> dict[str, pa.DataType]:
        for file in files:
            with reading(file, EventError), _Lines(file, lambda count: None) as lines:
                if not lines.is_at_end():
                    with self._explaining_errors():
                        found = self._open_reader(lines, names, {}).schema
                    return {field.name: _plain_type(field.type) for field in found}
        return dict.fromkeys(names, pa.string())

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        names = [name for name in self._names if name in columns] or self._names[:1]
        types = {name: self.schema.field(name).type for name in names}
        # Arrow's reader does not round decimals, nor read times with and without a zone.
        texts = {n for n, type_ in types.items() if t.is_decimal(type_) or t.is_timestamp(type_)}
        read_types = types | dict.fromkeys(texts, pa.string())
        rows = 0
        with reading(file, EventError), _Lines(file, self._advance) as lines:
            if lines.is_at_end():
                return
            with self._explaining_errors():
                for batch in self._open_reader(lines, names, read_types):
                    columns = [
                        convert_column(column, name, types[name], rows, name in self._given)
                        if name in texts
                        else column
                        for name, column in zip(names, batch.columns, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, names)
                    rows += batch.num_rows
            # The numbers also differ if there are blank lines or old line ends, which is rare.
            if rows != lines.count:
                self._refuse_line_breaks(file)

    def _open_reader(
        self, lines: _Lines, names: list[str], types: dict[str, pa.DataType]
    ) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            lines,
            # With one thread, which is as fast, Arrow's messages tell the row.
            pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=self._names),
            pyarrow.csv.ParseOptions(invalid_row_handler=_skip_blank),
            pyarrow.csv.ConvertOptions(
                include_columns=names,
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )

    @contextlib.contextmanager
    def _explaining_errors(self) -> Iterator[None]:
        """Reraise Arrow's errors with the row, the column and what to do."""
        try:
            yield
        except pa.ArrowInvalid as error:
            if row := _BAD_ROW.match(str(error)):
                raise EventError(f"row {row[1]}: {row[2]}") from None
            if not (value := _BAD_VALUE.match(str(error))):
                raise
            name, text = self._names[int(value[1])], value[3]
            if text is None:
                raise EventError(f"row {value[2]}: column {name!r}: {value[4]}") from None
            type_, is_given = self.schema.field(name).type, name in self._given
            misfit = misfit_error(name, type_, repr(text), is_given)
            raise misfit.with_place(f"row {value[2]}") from None

    def _refuse_line_breaks(self, file: Path) -> None:
        """Raise if a field has a line break, which may also be a missing closing quote."""
        texts = dict.fromkeys(self._names, pa.string())
        with _Lines(file, lambda count: None) as lines:
            for batch in self._open_reader(lines, self._names, texts):
                for name, column in zip(self._names, batch.columns, strict=True):
                    broken = column.filter(pc.match_substring_regex(column, "[\r\n]"))
                    if len(broken):
                        start = repr(broken[0].as_py()[:40])
                        raise EventError(
                            f"column {name!r}: a quoted value contains a line break, which is not "
                            f"supported, or its closing quote is missing: {start}"
                        )


def _skip_blank(row: pyarrow.csv.InvalidRow) -> str:
    return "error" if row.text.strip() else "skip"


def _plain_type(inferred: pa.DataType) -> pa.DataType:
    """Return the type of a column for which Arrow has inferred another one."""
    if t.is_timestamp(inferred):
        return TIME
    # Times without a date cannot be tested, and columns without values may have any.
    is_text = t.is_null(inferred) or t.is_time(inferred) or t.is_binary(inferred)
    return pa.string() if is_text else inferred


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
