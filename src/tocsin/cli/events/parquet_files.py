"""Events in Parquet files, read batch by batch, in the types that Spark has for theirs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pyarrow.types as t

from tocsin.cli.events.text_values import fits, parse
from tocsin.cli.events.types import (
    check_unique,
    declared_types,
    merge_numbers,
    misfit,
    spark_type,
    type_name,
)
from tocsin.cli.files import reading
from tocsin.cli.spelling import plain_texts
from tocsin.errors import EventError
from tocsin.model.schema import Schema

_BATCH = 1 << 16  # rows


class ParquetEvents:
    """The events of Parquet files; the columns are those of the first file.

    As on Spark, columns are found by name, one that another file lacks is null there, and what
    the first file lacks is left out. `advance` receives the number of bytes read.
    """

    def __init__(self, files: Sequence[Path], declared: Schema, advance: Callable[[int], object]):
        self._files = files
        self._advance = advance
        with reading(files[0], EventError):
            self._given = _columns(_open(files[0]))
        check_unique(self._given.names)
        self._declared = declared_types(self._given, declared)
        self.schema = pa.schema([(f.name, self._declared.get(f.name, f.type)) for f in self._given])

    def batches(self, columns: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Yield the values of these columns, in the order of the schema."""
        wanted = [f for f in self._given if f.name in columns] or list(self._given)[:1]
        for file in self._files:
            with reading(file, EventError):
                source = _open(file)
                names = self._names_in(source, wanted)
                there = [name for name in names if name is not None]
                bytes_per_row = file.stat().st_size / max(1, source.metadata.num_rows)
                for batch in source.iter_batches(_BATCH, columns=there or None):
                    arrays = [
                        pa.nulls(batch.num_rows, field.type)
                        if name is None
                        else self._values(batch.column(name), field)
                        for name, field in zip(names, wanted, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, [f.name for f in wanted])
                    self._advance(int(bytes_per_row * batch.num_rows))

    def _names_in(
        self, source: pyarrow.parquet.ParquetFile, wanted: list[pa.Field]
    ) -> list[str | None]:
        """Return what a file calls the columns of the first one, None where it has none."""
        columns = {f.name.lower(): f for f in _columns(source)}
        names = []
        for field in wanted:
            found = columns.get(field.name.lower())
            if found is not None and not _holds(field.type, found.type):
                raise EventError(
                    f"column {field.name!r} is of type {type_name(found.type)}, but in "
                    f"{self._files[0]} it is of type {type_name(field.type)}"
                )
            names.append(found and found.name)
        return names

    def _values(self, array: pa.Array, field: pa.Field) -> pa.Array:
        # What is not a whole microsecond is dropped.
        array = _storage(array).cast(field.type, safe=False)
        declared = self._declared.get(field.name)
        return array if declared is None else _as_declared(array, declared, field.name)


def _open(file: Path) -> pyarrow.parquet.ParquetFile:
    return pyarrow.parquet.ParquetFile(file, memory_map=True, coerce_int96_timestamp_unit="us")


def _columns(source: pyarrow.parquet.ParquetFile) -> pa.Schema:
    leaves = range(len(source.schema))
    int96 = (source.schema.column(i).physical_type == "INT96" for i in leaves)
    return pa.schema([(f.name, spark_type(f.type, int96)) for f in source.schema_arrow])


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    return wide == narrow or merge_numbers(narrow, wide) == wide


# ------------------------------------------------------------ declared kinds


def _as_declared(array: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    """Return a column in the type that is declared for it."""
    given = array.type
    if given == type_:
        return array
    if t.is_struct(type_):
        parts = zip(array.flatten(), type_, strict=True)
        ends = [_as_declared(part, field.type, f"{name}.{field.name}") for part, field in parts]
        return pa.StructArray.from_arrays(ends, fields=list(type_), mask=array.is_null())
    is_number = t.is_integer(given) or t.is_floating(given) or t.is_decimal(given)
    if t.is_string(given):
        return _parsed(pc.ascii_trim_whitespace(array), type_, name)
    if t.is_string(type_) and (is_number or t.is_boolean(given) or t.is_date(given)):
        return plain_texts(array)
    if t.is_floating(type_) and is_number:
        return array.cast(type_, safe=False)
    if t.is_integer(type_) and is_number:
        return _whole(array, name)
    if t.is_timestamp(type_) and (t.is_timestamp(given) or t.is_date(given)):
        return array.cast(pa.timestamp("us")).cast(type_)
    if t.is_timestamp(type_) and t.is_integer(given):  # seconds since 1970
        return pc.multiply_checked(array.cast(pa.int64()), 10**6).cast(type_)
    raise EventError(
        f"column {name!r} is of type {type_name(given)} and cannot be read as {type_name(type_)}, "
        "as the schema declares it"
    )


def _parsed(texts: pa.Array, type_: pa.DataType, name: str) -> pa.Array:
    if not fits(texts.drop_null(), type_):
        distinct = texts.drop_null().unique()
        text = next(x.as_py() for x in distinct if not fits(pa.array([x.as_py()]), type_))
        raise misfit(name, type_, text)
    return parse(texts, type_)


def _whole(array: pa.Array, name: str) -> pa.Array:
    """Return numbers without their fractions."""
    if t.is_integer(array.type):
        return array.cast(pa.int64())
    numbers = array.cast(pa.float64(), safe=False)
    outside = pc.invert(pc.less(pc.abs(numbers), 2.0**63))
    if pc.any(outside).as_py():
        value = array.filter(outside)[0].as_py()
        raise misfit(name, pa.int64(), value)
    return array.cast(pa.int64(), safe=False)
