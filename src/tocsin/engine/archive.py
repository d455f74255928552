"""Archives: a version in one file or in bytes, as a zipped store that has only this version."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO

from tocsin.engine.storage.memory import Memory
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version import Version


def write_archive(version: Version, target: Path | IO[bytes]) -> None:
    """Write a version to a file."""
    storage = Memory()
    StoreFolder(storage).publish(version, None)
    # Compression would take longer than everything else.
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for entry in storage.list(""):
            archive.writestr(entry.name, storage.read(entry.name))


def to_bytes(version: Version) -> bytes:
    """Return a version as bytes, to be sent to another process."""
    data = io.BytesIO()
    write_archive(version, data)
    return data.getvalue()


def from_bytes(data: bytes) -> Version:
    """Return the version in bytes that another process has made; they are trusted."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        storage = Memory({name: archive.read(name) for name in archive.namelist()})
    return StoreFolder(storage).open(verify=False)[0]
