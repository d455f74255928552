"""Parts: objects of one column, category values or removed positions, that versions share."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from tocsin.engine.segment_files import (
    check_object,
    damage_error,
    describe,
    map_object,
    table_to_buffer,
)
from tocsin.engine.storage import Storage
from tocsin.errors import StoreError

PARTS = "parts/"


def pack_part(table: pa.Table, new: dict[str, list[Any]]) -> dict[str, Any]:
    """Add a part to the objects to put; return its entry in a version file."""
    data, name = table_to_buffer(table), uuid.uuid4().hex
    new[PARTS + name] = [data]
    return {"name": name, "count": len(table)} | describe([data])


def has_part(storage: Storage, entry: dict[str, Any]) -> bool:
    """Return whether a part is there, by its size."""
    try:
        check_object(storage, PARTS + entry["name"], entry)
    except StoreError:
        return False
    return True


def read_part(
    storage: Storage, entry: dict[str, Any], column: str, type_: pa.DataType, verify: bool
) -> pa.Array:
    """Return the column of a part; raise if the part is damaged."""
    name = PARTS + entry["name"]
    place, data = storage.locate(name), map_object(storage, name, entry, verify)
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        table.validate(full=verify)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{place} cannot be read: {error}") from None
    if table.schema.names != [column] or table.schema.types != [type_]:
        raise damage_error(place, f"its columns are {table.schema}")
    if len(table) != entry["count"]:
        raise damage_error(place, f"it has {len(table):,} rows instead of {entry['count']:,}")
    if table.column(0).null_count:
        raise damage_error(place, "it has nulls")
    return table.column(0).combine_chunks()
