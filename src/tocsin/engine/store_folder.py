"""A rule store's files: numbered versions of rules in a folder, each immutable.

::

    segments/<name>/     what rules say and their index, see `segment_files`
    parts/<name>         category values and removed positions, as versions add them
    versions/<number>.json   which of these make up a version, with checksums
    log/<reader>/<batch>     which version a stream used for a micro-batch

Publishing writes only what is not there yet: after one change that is a segment of the
recent rules (at most 1,024 of them), a list of what was removed, and a version file. The
version file is put in place last and only if no other has its number (a hard link, which
exists or does not), so a crash leaves the old version and the second of two writers is
told. Old versions stay until they are pruned.

Opening checks the checksums of everything once; `verify=False`, for workers that open
what was checked, looks at sizes and maps.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.collection import ROLES, Collection
from tocsin.engine.segment import Segment
from tocsin.engine.segment_files import (
    FORMAT,
    check_file,
    check_fits,
    check_format,
    describe,
    read_segment,
    sync_folder,
    write_segment,
)
from tocsin.errors import StoreConflictError, StoreError
from tocsin.model.schema import Schema
from tocsin.model.validation import require

_MOST_PARTS = 32  # files of category values that a version may list before they are joined


@dataclass(frozen=True)
class Version:
    """One version of a store, as `versions` lists them."""

    number: int
    created: datetime.datetime
    rules: int
    segments: tuple[str, ...]


class StoreFolder:
    """The files of a store: reads versions into collections, publishes collections as versions."""

    def __init__(self, path: str | os.PathLike[str]):
        if not isinstance(path, str | os.PathLike):
            raise StoreError(
                f"a rule store is named by its path, got {type(path).__name__} {path!r}"
            )
        self.path = Path(path)
        self._segments = self.path / "segments"
        self._parts = self.path / "parts"
        self._versions = self.path / "versions"

    # ------------------------------------------------------------ versions

    def numbers(self) -> list[int]:
        """Return the numbers of the versions there are, ascending."""
        try:
            names = os.listdir(self._versions)
        except OSError:
            return []
        return sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdigit())

    def latest(self) -> int:
        """Return the number of the current version; raise if there is no store."""
        numbers = self.numbers()
        if not numbers:
            raise StoreError(f"there is no rule store at {self.path}")
        return numbers[-1]

    def describe(self, number: int) -> Version:
        """Return what a version is."""
        content = self._read_version(number)
        return Version(
            number,
            datetime.datetime.fromisoformat(content["created"]),
            content["rules"],
            tuple(s["name"] for s in content["segments"]),
        )

    def _version_path(self, number: int) -> Path:
        return self._versions / f"{number:08d}.json"

    def stamp(self, number: int) -> tuple[int, int] | None:
        """Return what tells a version from one of the same number in a store made anew."""
        try:
            found = os.stat(self._version_path(number))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read_version(self, number: int) -> dict[str, Any]:
        if type(number) is not int:
            raise StoreError(f"a version is a number, got {type(number).__name__} {number!r}")
        path = self._version_path(number)
        try:
            data = path.read_bytes()
        except OSError:
            known = ", ".join(map(str, self.numbers()[-5:])) or "none"
            raise StoreError(
                f"{self.path} has no version {number}; the last ones are {known}"
            ) from None
        # The last line is the checksum of what stands before it.
        body = data[:-66]
        if data != _sealed(body):
            raise StoreError(
                f"{path} is not what was written (its checksum differs): it is damaged"
            )
        content: dict[str, Any] = json.loads(body)
        check_format(path, content)
        return content

    # ------------------------------------------------------------ open

    def open(self, number: int | None = None, verify: bool = True) -> Collection:
        """Return the rules of a version, the current one if none is named."""
        number = self.latest() if number is None else number
        content = self._read_version(number)
        schema = Schema({}, timezone=content["timezone"])
        for name, kind in content["attributes"]:
            schema.add(name, kind)
        schema.refuse(content["refused"])
        collection = Collection(schema, content["index"])
        parts: dict[str, Segment] = {}
        for entry in content["segments"]:
            folder = self._segments / entry["name"]
            segment = read_segment(folder, entry["manifest"], len(schema), verify)
            segment.stored = (str(self.path), entry["name"], entry["manifest"])
            parts[entry["role"]] = segment
        for entry in content["codes"]:
            table = self._read_part(entry, verify)
            for text in table.column("text").to_pylist():
                collection.codes[text] = len(collection.codes) + 1
        if content["removed"]:
            gone = self._read_part(content["removed"], verify).column("position").to_numpy()
            for segment in parts.values():
                places = np.flatnonzero(np.isin(segment.roster.positions, gone))
                if len(places):
                    segment.remove(places)
        payload = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["payload"])))
        id_type = None if content["id_type"] is None else pa.type_for_alias(content["id_type"])
        if verify:
            before = -1
            for role in ROLES:
                if role in parts:
                    check_fits(parts[role], schema, len(collection.codes), id_type, payload)
                    positions = parts[role].roster.positions
                    require(positions[0] > before, "segments are not in order")
                    before = int(positions[-1])
            require(before < content["next_position"], "the next position is taken")
        collection.restore(
            [parts.get(role) for role in ROLES],
            content["next_position"],
            id_type,
            payload,
        )
        collection.origin = (str(self.path), number, content["codes"])
        return collection

    # ------------------------------------------------------------ publish

    def publish(self, collection: Collection) -> int:
        """Write a collection as the next version and return its number.

        Raise if it was opened from this store and someone has published since.
        """
        for folder in (self._segments, self._parts, self._versions):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"no rule store can be made at {self.path}: {error}") from None
        numbers = self.numbers()
        parent = numbers[-1] if numbers else 0
        origin, known, codes = collection.origin or ("", 0, [])
        if origin != str(self.path):
            codes = []
        elif known != parent:
            raise self._conflict(known, parent)
        segments = []
        removed = []
        for role, segment in collection.roles():
            stored, name, checksum = segment.stored or ("", "", "")
            if stored != str(self.path) or not (self._segments / name).is_dir():
                name, checksum = write_segment(self._segments, segment)
            segments.append({"role": role, "name": name, "manifest": checksum})
            segment.stored = (str(self.path), name, checksum)
            if len(segment.alive):
                removed.append(segment.roster.positions[~segment.alive])
        if len(codes) >= _MOST_PARTS:
            codes = []
        written = sum(entry["count"] for entry in codes)
        texts = pa.array(list(collection.codes)[written:], pa.large_string())
        if len(texts):
            codes = [*codes, self._write_part(pa.table({"text": texts}))]
        schema = collection.schema
        content = {
            "format": FORMAT,
            "version": parent + 1,
            "created": datetime.datetime.now(datetime.UTC).isoformat(),
            "rules": len(collection),
            "attributes": [[name, schema.kind(name)] for name in schema],
            "refused": schema.refused,
            "timezone": schema.timezone,
            "index": collection.index,
            "next_position": collection.next_position,
            "id_type": None if collection.id_type is None else str(collection.id_type),
            "payload": base64.b64encode(collection.payload_schema.serialize()).decode(),
            "segments": segments,
            "codes": codes,
            "removed": self._write_part(pa.table({"position": np.concatenate(removed)}))
            if removed
            else None,
        }
        self._put_version(parent + 1, content)
        collection.origin = (str(self.path), parent + 1, codes)
        return parent + 1

    def _conflict(self, known: int, now: int) -> StoreConflictError:
        return StoreConflictError(
            f"{self.path} is at version {now}, and these rules were opened at version {known}; "
            "open it again and repeat the change"
        )

    def _put_version(self, number: int, content: dict[str, Any]) -> None:
        body = json.dumps(content, indent=1).encode()
        temporary = self._versions / f".{uuid.uuid4().hex}"
        with open(temporary, "wb") as out:
            out.write(_sealed(body))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(temporary, self._version_path(number))
        except FileExistsError:
            raise self._conflict(number - 1, self.latest()) from None
        finally:
            temporary.unlink()
        sync_folder(self._versions)

    def _write_part(self, table: pa.Table) -> dict[str, Any]:
        name = uuid.uuid4().hex
        temporary = self._parts / f".{name}"
        with open(temporary, "wb") as out:
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
            out.flush()
            os.fsync(out.fileno())
        entry = {"name": name, "count": len(table)} | describe(temporary)
        temporary.rename(self._parts / name)
        sync_folder(self._parts)
        return entry

    def _read_part(self, entry: dict[str, Any], verify: bool) -> pa.Table:
        path = self._parts / entry["name"]
        check_file(path, {k: entry[k] for k in ("bytes", "sha256")}, verify)
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()

    # ------------------------------------------------------------ live

    def agreed(self, reader: str, batch: str) -> int:
        """Return the version that a reader uses for a batch: the first to ask decides for all.

        Whoever asks again, now or when the batch is repeated after a crash, gets the same.
        """
        log = self.path / "log" / reader
        entry = log / batch
        with contextlib.suppress(FileNotFoundError):
            return int(entry.read_bytes())
        log.mkdir(parents=True, exist_ok=True)
        temporary = log / f".{uuid.uuid4().hex}"
        with open(temporary, "wb") as out:
            out.write(b"%d\n" % self.latest())
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, entry)
            sync_folder(log)
        temporary.unlink()
        return int(entry.read_bytes())

    # ------------------------------------------------------------ prune

    def prune(self, keep: int) -> list[int]:
        """Delete all versions but the last `keep`, and what only they used; return which."""
        numbers = self.numbers()
        gone = numbers[:-keep]
        contents = [self._read_version(n) for n in numbers[-keep:]]
        segments = {s["name"] for c in contents for s in c["segments"]}
        parts = {e["name"] for c in contents for e in c["codes"]}
        parts |= {c["removed"]["name"] for c in contents if c["removed"]}
        for number in gone:
            self._version_path(number).unlink()
        for folder, used in ((self._segments, segments), (self._parts, parts)):
            for entry in folder.iterdir():
                # What another writer is about to publish has a name that begins with a dot, or
                # is younger than an hour.
                if entry.name in used or entry.name.startswith(".") or _is_young(entry):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return gone


def _sealed(body: bytes) -> bytes:
    """Return a version file's text with its checksum as the last line."""
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _is_young(path: Path) -> bool:
    age = datetime.datetime.now().timestamp() - path.stat().st_mtime
    return age < 3600
