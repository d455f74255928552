"""Tables of events and rules as Arrow tables, and columns of map type in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.model.arrow import combine_chunks, decode, is_text, refuse_spark, translate_errors
from tocsin.model.schema import Schema


def to_table(source: Any, names: Sequence[str] | None, what: str, on_spark: str) -> pa.Table:
    """Return any Arrow-compatible table as a pyarrow table.

    From a pandas frame only the columns in `names` are converted, or all if it is None, because
    Arrow cannot hold columns of mixed types. `on_spark` says what to use for a Spark DataFrame.
    """
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if is_pandas(source):
        if names is not None:
            lower_names = {n.lower() for n in names}
            source = source.loc[:, [str(c).lower() in lower_names for c in source.columns]]
        with translate_errors(EventError, f"the {what} have columns that Arrow cannot hold"):
            return pa.Table.from_pandas(source, preserve_index=False)
    refuse_spark(source, EventError, f"the {what}", on_spark)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        with translate_errors(EventError, f"the {what} are not a table"):
            return pa.table(source)
    raise EventError(
        f"the {what} must be a dict, a list of dicts, or an Arrow-compatible table (pyarrow, "
        f"pandas, polars, duckdb); got {type(source).__name__}"
    )


def is_pandas(source: Any) -> bool:
    """Return whether an object is a pandas frame, without importing pandas."""
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def slice_column(column: pa.ChunkedArray, start: int, stop: int) -> pa.Array:
    """Return rows of a column as one array, with a copy only if they span several chunks."""
    return combine_chunks(column.slice(start, stop - start))


def add_missing(table: Any, names: Iterable[str]) -> Any:
    """Return a table or batch with a column of nulls for each of the names that it lacks.

    If there are maps of sparse attributes, the attributes may be in these.
    """
    known = {name.lower() for name in table.column_names}
    missing = [name for name in names if name.lower() not in known]
    if not missing or any(is_sparse(field.type) for field in table.schema):
        return table
    columns = [*table.columns, *(pa.nulls(table.num_rows) for _ in missing)]
    return type(table).from_arrays(columns, [*table.column_names, *missing])


# ------------------------------------------------------------ maps


def is_sparse(type_: pa.DataType) -> bool:
    """Return whether a column has sparse attributes: maps from text to a value."""
    return t.is_map(type_) and is_text(type_.key_type)


def map_entries(
    array: pa.MapArray, schema: Schema, used: frozenset[int] | None
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Return the entries of a map column as compressed rows: offsets, attributes and items.

    Returns only entries whose names are attributes in `used`. If `used` is None, all names must
    be attributes.
    """
    offsets = np.asarray(array.offsets).astype(np.int64)[: len(array) + 1]
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    offsets -= first
    names = decode(array.keys.slice(first, entries)).dictionary_encode()
    attribute_of = np.full(len(names.dictionary), -1, np.int32)
    for i, name in enumerate(names.dictionary.to_pylist()):
        attribute = schema.index(name) if used is None else schema.find(name)
        if attribute is not None and (used is None or attribute in used):
            attribute_of[i] = attribute
    attributes = attribute_of[np.asarray(names.indices)]
    keep = attributes >= 0
    if array.null_count:
        keep &= np.repeat(np.asarray(array.is_valid()), np.diff(offsets))
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    items = array.items.slice(first, entries).filter(pa.array(keep))
    return kept_before[offsets], attributes[keep], items


def last_entries(offsets: np.ndarray, items: pa.Array) -> pa.Array:
    """Return one item per event, the last of its own, or null; see `map_entries`."""
    has_entry = offsets[1:] > offsets[:-1]
    return items.take(pa.array(offsets[1:] - 1, mask=~has_entry))
