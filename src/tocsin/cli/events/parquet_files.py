"""Read events from Parquet files, batch by batch, in Spark's types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pyarrow.types as t

from tocsin.cli.events.text_values import fits, parse, parse_decimals
from tocsin.cli.events.types import (
    check_unique,
    declared_types,
    merge_numbers,
    misfit_error,
    spark_type,
    type_name,
)
from tocsin.cli.files import reading
from tocsin.cli.formatting import to_texts
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BATCH = 1 << 16  # rows


class ParquetEvents:
    """The events of Parquet files; the columns are those of the first file.

    As on Spark, columns are found by name. Columns that another file lacks are null there, and
    columns that the first file lacks are ignored. `advance` receives the number of bytes read.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._files = files
        self._advance = advance
        with reading(files[0], EventError):
            self._stored = _read_schema(_open(files[0]))
        check_unique(self._stored.names)
        self._declared = declared_types(self._stored, declared)
        types = {f.name: f.type for f in self._stored} | self._declared
        self.schema = pa.schema(list(types.items()))

    def batches(self, file: Path, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the files, with these columns in the order of the schema."""
        fields = [f for f in self._stored if f.name in columns] or list(self._stored)[:1]
        with reading(file, EventError):
            source = _open(file)
            names = self._find_columns(source, fields)
            present = [name for name in names if name is not None]
            bytes_per_row = file.stat().st_size / max(1, source.metadata.num_rows)
            for batch in source.iter_batches(_BATCH, columns=present or None):
                arrays = [
                    pa.nulls(batch.num_rows, field.type)
                    if name is None
                    else self._convert(batch.column(name), field)
                    for name, field in zip(names, fields, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, [f.name for f in fields])
                self._advance(int(bytes_per_row * batch.num_rows))

    def _find_columns(
        self, source: pyarrow.parquet.ParquetFile, fields: list[pa.Field]
    ) -> list[str | None]:
        """Return the names of columns in a file, None for columns that it lacks."""
        columns = {f.name.lower(): f for f in _read_schema(source)}
        names = []
        for field in fields:
            column = columns.get(field.name.lower())
            if column is not None and not _can_hold(field.type, column.type):
                raise EventError(
                    f"column {field.name!r} is of type {type_name(column.type)}, but in "
                    f"{self._files[0]} it is of type {type_name(field.type)}"
                )
            names.append(column and column.name)
        return names

    def _convert(self, array: pa.Array, field: pa.Field) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        array = array.cast(field.type, safe=False)  # truncates times to microseconds
        declared = self._declared.get(field.name)
        return array if declared is None else _convert_to_declared(array, declared, field.name)


def _open(file: Path) -> pyarrow.parquet.ParquetFile:
    return pyarrow.parquet.ParquetFile(file, memory_map=True, coerce_int96_timestamp_unit="us")


def _read_schema(source: pyarrow.parquet.ParquetFile) -> pa.Schema:
    leaves = range(len(source.schema))
    int96 = (source.schema.column(i).physical_type == "INT96" for i in leaves)
    return pa.schema([(f.name, spark_type(f.type, int96)) for f in source.schema_arrow])


def _can_hold(wide: pa.DataType, narrow: pa.DataType) -> bool:
    return wide == narrow or merge_numbers(narrow, wide) == wide


# ------------------------------------------------------------ declared kinds


def _convert_to_declared(array: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Return a column in its declared type."""
    stored = array.type
    if stored == type_:
        return array
    if t.is_struct(type_):
        fields = zip(array.flatten(), type_, strict=True)
        ends = [_convert_to_declared(end, f.type, f"{name}.{f.name}") for end, f in fields]
        return pa.StructArray.from_arrays(ends, fields=list(type_), mask=array.is_null())
    is_number = t.is_integer(stored) or t.is_floating(stored) or t.is_decimal(stored)
    if t.is_decimal(type_) and (is_number or t.is_string(stored)):
        return _convert_to_decimals(array, type_, name)
    if t.is_string(stored):
        return _parse_texts(pc.ascii_trim_whitespace(array), type_, name)
    if t.is_string(type_) and (is_number or t.is_boolean(stored) or t.is_date(stored)):
        return to_texts(array)
    if t.is_floating(type_) and t.is_decimal(stored):
        return array.cast(pa.string()).cast(type_)  # Arrow's own cast does not round correctly
    if t.is_floating(type_) and is_number:
        return array.cast(type_, safe=False)
    if t.is_integer(type_) and is_number:
        return _truncate_to_integers(array, name)
    if t.is_timestamp(type_) and (t.is_timestamp(stored) or t.is_date(stored)):
        return array.cast(pa.timestamp("us")).cast(type_)
    if t.is_timestamp(type_) and t.is_integer(stored):  # seconds since 1970
        return pc.multiply_checked(array.cast(pa.int64()), 10**6).cast(type_)
    raise EventError(
        f"column {name!r} is of type {type_name(stored)} and cannot be read as "
        f"{type_name(type_)}, as the schema declares it"
    )


def _parse_texts(texts: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    if not fits(texts.drop_null(), type_):
        distinct = texts.drop_null().unique()
        text = next(x.as_py() for x in distinct if not fits(pa.array([x.as_py()]), type_))
        raise misfit_error(name, type_, text)
    return parse(texts, type_)


def _convert_to_decimals(array: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Return numbers or texts as decimals; digits that do not fit are rounded half up, as on Spark.

    A float is the shortest decimal that it is nearest to.
    """
    texts = pc.ascii_trim_whitespace(array) if t.is_string(array.type) else array.cast(pa.string())
    try:
        return parse_decimals(texts, type_)
    except ValueError as error:
        raise misfit_error(name, type_, error.args[0]) from None


def _truncate_to_integers(array: pa.Array, name: str) -> pa.Array:
    """Return numbers without their fractions."""
    if t.is_integer(array.type):
        return array.cast(pa.int64())
    numbers = array.cast(pa.float64(), safe=False)
    outside = pc.invert(pc.less(pc.abs(numbers), 2.0**63))
    if pc.any(outside).as_py():
        value = array.filter(outside)[0].as_py()
        raise misfit_error(name, pa.int64(), value)
    return array.cast(pa.int64(), safe=False)
