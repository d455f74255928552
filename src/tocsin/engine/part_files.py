"""Parts on disk: files of one column, category values or removed positions, that versions share."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from tocsin.engine.segment_files import check_file, damage_error, describe, sync_folder
from tocsin.errors import StoreError


class PartFolder:
    """The parts of a store; an entry in a version file gives a part's name, rows and checksum."""

    def __init__(self, path: Path):
        self.path = path

    def write(self, table: pa.Table) -> dict[str, Any]:
        """Write a part; return its entry."""
        name = uuid.uuid4().hex
        temporary = self.path / f".{name}"
        try:
            with open(temporary, "wb") as out:
                with pa.ipc.new_file(out, table.schema) as writer:
                    writer.write_table(table)
                out.flush()
                os.fsync(out.fileno())
            entry = {"name": name, "count": len(table)} | describe(temporary)
            temporary.rename(self.path / name)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self.path)
        return entry

    def has(self, entry: dict[str, Any]) -> bool:
        """Return whether a part is there, by its size."""
        try:
            self._check(entry, verify=False)
        except StoreError:
            return False
        return True

    def read(
        self, entry: dict[str, Any], column: str, type_: pa.DataType, verify: bool
    ) -> pa.Array:
        """Return the column of a part; raise if the part is damaged."""
        path = self._check(entry, verify)
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            table.validate(full=verify)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from None
        if table.schema.names != [column] or table.schema.types != [type_]:
            raise damage_error(path, f"its columns are {table.schema}")
        if len(table) != entry["count"]:
            raise damage_error(path, f"it has {len(table):,} rows instead of {entry['count']:,}")
        if table.column(0).null_count:
            raise damage_error(path, "it has nulls")
        return table.column(0).combine_chunks()

    def _check(self, entry: dict[str, Any], verify: bool) -> Path:
        path = self.path / entry["name"]
        check_file(path, {k: entry[k] for k in ("bytes", "sha256")}, verify)
        return path
