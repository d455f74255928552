"""Reading the points of a similarity join: arrays and tables become float64[n, d].

Two tables are matched by the names of their columns, whatever their order; anything else by
position. A column of fixed-size lists is as many dimensions as its lists have elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import SimilarityError
from tocsin.model.arrow import refuse_spark
from tocsin.model.event_tables import is_pandas

_MOST_POINTS = 2**31 - 1024  # methods number them with 32 bits
_MOST_EXACT = 2**53  # integers up to here are doubles


class Points(NamedTuple):
    """n points of d coordinates, all of them finite."""

    coordinates: np.ndarray  # float64[n, d], C-contiguous
    columns: tuple[str, ...]  # the names of a table's columns; empty for an array


def read_points(source: Any, name: str) -> Points:
    """Return the points in an array or a table; `name` is that of the argument."""
    refuse_spark(source, SimilarityError, name, "use tocsin.spark.similarity_join")
    if isinstance(source, pa.Array | pa.ChunkedArray):
        points = Points(_read_lists(source, name), ())
    elif _is_table(source):
        points = _read_table(source, name)
    else:
        points = Points(_read_array(source, name), ())
    n, d = points.coordinates.shape
    if n > _MOST_POINTS:
        raise SimilarityError(
            f"{name} has {n:,} points, but at most {_MOST_POINTS:,} are joined in one process; use "
            "tocsin.spark.similarity_join"
        )
    if d == 0:
        raise SimilarityError(f"the points of {name} have no coordinates")
    _check_finite(points, name)
    return points


def read_both(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of two sets of points, with the same dimensions in the same order."""
    left, right = read_points(a, "a"), read_points(b, "b")
    if left.columns and right.columns and left.columns != right.columns:
        if sorted(left.columns) != sorted(right.columns):
            raise SimilarityError(
                f"a has the columns {', '.join(left.columns)}, but b has "
                f"{', '.join(right.columns)}; select the coordinates, with the same names in both"
            )
        if len(set(left.columns)) < len(left.columns):
            raise SimilarityError(
                f"a has the columns {', '.join(left.columns)}, and b has them in another order; "
                "rename those that have the same name"
            )
        order = [right.columns.index(column) for column in left.columns]
        right = Points(np.ascontiguousarray(right.coordinates[:, order]), left.columns)
    widths = left.coordinates.shape[1], right.coordinates.shape[1]
    if widths[0] != widths[1]:
        raise SimilarityError(
            f"the points of a have {widths[0]} coordinates, those of b have {widths[1]}"
        )
    return left.coordinates, right.coordinates


def _is_table(source: Any) -> bool:
    return (
        isinstance(source, pa.Table | pa.RecordBatch)
        or is_pandas(source)
        or hasattr(source, "__arrow_c_stream__")
    )


def _read_array(source: Any, name: str) -> np.ndarray:
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise SimilarityError(f"{name} has masked values; a point has no nulls")
    try:
        array = np.asarray(source)
    except ValueError:
        raise SimilarityError(
            f"{name} must be a table or an array of numbers [points, coordinates]; its rows differ "
            "in length"
        ) from None
    if array.dtype.kind not in "fiu":
        raise SimilarityError(
            f"{name} must be a table or an array of numbers [points, coordinates]; got "
            f"{type(source).__name__} of {array.dtype}"
        )
    if array.ndim != 2:
        advice = f"; for points of one coordinate use {name}.reshape(-1, 1)"
        raise SimilarityError(
            f"{name} must have two dimensions, [points, coordinates]; its shape is {array.shape}"
            + (advice if array.ndim == 1 else "")
        )
    return _to_doubles(array, name)


def _read_table(source: Any, name: str) -> Points:
    try:
        table = (
            pa.Table.from_pandas(source, preserve_index=False)
            if is_pandas(source)
            else pa.table(source)
        )
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SimilarityError(f"{name} is not a table: {error}") from None
    columns: list[np.ndarray] = []
    names: list[str] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if t.is_fixed_size_list(field.type):
            lists = _read_lists(column, f"{name}, column {field.name!r}")
            columns += list(lists.T)
            names += [f"{field.name}[{i}]" for i in range(lists.shape[1])]
            continue
        columns.append(_read_numbers(column, f"{name}, column {field.name!r}"))
        names.append(field.name)
    coordinates = np.empty((table.num_rows, len(columns)))
    for i, values in enumerate(columns):
        coordinates[:, i] = values
    return Points(coordinates, tuple(names))


def _read_lists(column: pa.Array | pa.ChunkedArray, name: str) -> np.ndarray:
    """Return a column of fixed-size lists as rows."""
    if not t.is_fixed_size_list(column.type):
        raise SimilarityError(
            f"{name} is of type {column.type}; points are columns of numbers, or one column of "
            "fixed-size lists"
        )
    if column.null_count:
        raise SimilarityError(f"{name} has {column.null_count:,} nulls; a point has no nulls")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    width = column.type.list_size
    # `flatten` leaves out what a slice leaves out, unlike `values`.
    numbers = pa.chunked_array([chunk.flatten() for chunk in chunks], column.type.value_type)
    return _read_numbers(numbers, name, width).reshape(len(column), width)


def _read_numbers(column: pa.Array | pa.ChunkedArray, name: str, per_row: int = 1) -> np.ndarray:
    if not (t.is_integer(column.type) or t.is_floating(column.type)):
        raise SimilarityError(
            f"{name} is of type {column.type}, but coordinates are integers or floats; select the "
            "columns that are coordinates, and cast them if need be"
        )
    if column.null_count:
        row = np.flatnonzero(np.asarray(column.is_null()))[0] // per_row
        raise SimilarityError(f"{name} is null in row {row:,}; a point has no nulls")
    return _to_doubles(column.to_numpy(), name)


def _to_doubles(array: np.ndarray, name: str) -> np.ndarray:
    is_long = array.dtype.kind in "iu" and array.itemsize == 8 and array.size > 0
    if is_long and max(int(array.max()), -int(array.min())) > _MOST_EXACT:
        raise SimilarityError(
            f"{name} has integers beyond 2^53, which a 64-bit float does not hold exactly; "
            "subtract a common offset first"
        )
    if array.dtype.kind == "f" and array.itemsize > 8:
        raise SimilarityError(f"{name} is of {array.dtype}; use 64-bit floats")
    return np.ascontiguousarray(array, np.float64)


def _check_finite(points: Points, name: str) -> None:
    coordinates = points.coordinates
    # The sum is finite unless a coordinate is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(coordinates.sum()):
            return
    bad = np.argwhere(~np.isfinite(coordinates))
    if len(bad):
        row, column = bad[0]
        place = points.columns[column] if points.columns else f"coordinate {column}"
        raise SimilarityError(
            f"{name} has {coordinates[row, column]} in row {row:,}, {place} (and in "
            f"{len(np.unique(bad[:, 0])) - 1:,} other rows); coordinates must be finite. Filter "
            "such rows out first"
        )
