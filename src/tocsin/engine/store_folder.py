"""A rule store's files: numbered versions of rules in a folder, each immutable.

::

    segments/<name>/     what rules say and their index, see `segment_files`
    parts/<name>         category values and removed positions, as versions add them
    versions/<number>.json   which of these make up a version, with checksums
    log/                     which version streams used for their micro-batches, see `stream_log`

Publishing writes only what is not there yet: after one change that is a segment of the
recent rules (at most 1,024 of them), a list of what was removed, and a version file. The
version file is put in place last and only if no other has its number, so a crash leaves the old
version and the second of two writers is told. Old versions stay until they are pruned.

A store has an identity, a random name that its first version gives it and all others repeat; a
path would not do, since one folder has many paths and one path sees many folders. Rules remember
the identity, the number and the checksum of the version that they were opened at, and publish only
on top of that very version: copies of a store share its identity, but not what was published
since.

Opening checks the checksums of everything once, and what kernels trust; `verify=False`, for
workers that open what was checked, looks at sizes and maps.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.collection import ROLES, Collection, Origin
from tocsin.engine.segment import Segment
from tocsin.engine.segment_files import (
    check_file,
    check_fits,
    damaged,
    describe,
    is_whole,
    put_if_absent,
    read_segment,
    sync_folder,
    write_segment,
)
from tocsin.engine.stream_log import StreamLog
from tocsin.engine.version_file import VersionFile, checksum_of, parse
from tocsin.errors import StoreConflictError, StoreError
from tocsin.model.validation import require

_MOST_PARTS = 32  # files of category values that a version may list before they are joined
_UNFINISHED = 3600  # seconds after which a file that no version lists is taken for left over
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_VERSION_NAME = re.compile(r"([0-9]{8,})\.json")


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
        text = os.fspath(path)
        if isinstance(text, bytes) or not text or "\0" in text:
            raise StoreError(f"a rule store is named by its path, got {path!r}")
        if _SCHEME.match(text):
            raise StoreError(
                f"{text!r} is not a path: a rule store is a folder that this machine and Spark's "
                "workers can open by its path, such as a mounted disk; no other file system is "
                "supported" + ("; leave out 'file:'" if text.startswith("file:") else "")
            )
        # As it is now: whoever changes the working directory later still means this folder.
        self.path = Path(os.path.abspath(text))
        self.log = StreamLog(self.path / "log")
        self._segments = self.path / "segments"
        self._parts = self.path / "parts"
        self._versions = self.path / "versions"

    # ------------------------------------------------------------ versions

    def numbers(self) -> list[int]:
        """Return the numbers of the versions there are, ascending."""
        try:
            found = map(_VERSION_NAME.fullmatch, os.listdir(self._versions))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unreadable(error) from None
        return sorted(int(match[1]) for match in found if match)

    def latest(self) -> int:
        """Return the number of the current version; raise if there is no store."""
        numbers = self.numbers()
        if not numbers:
            raise StoreError(f"there is no rule store at {self.path}")
        return numbers[-1]

    def describe(self, number: int) -> Version:
        """Return what a version is."""
        version = self._read_version(number)
        names = tuple(entry["name"] for entry in version.segments)
        return Version(number, version.created, version.rules, names)

    def _version_path(self, number: int) -> Path:
        return self._versions / f"{number:08d}.json"

    def stamp(self, number: int) -> tuple[int, int] | None:
        """Return what tells a version from one of the same number in a store made anew."""
        try:
            found = os.stat(self._version_path(number))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read_version(self, number: int) -> VersionFile:
        if type(number) is not int:
            raise StoreError(f"a version is a number, got {type(number).__name__} {number!r}")
        path = self._version_path(number)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(map(str, self.numbers()[-5:])) or "none"
            raise StoreError(
                f"{self.path} has no version {number}; the last ones are {known}"
            ) from None
        except OSError as error:
            raise self._unreadable(error) from None
        return parse(path, data)

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(f"the rule store at {self.path} cannot be read: {error}")

    # ------------------------------------------------------------ open

    def open(self, number: int | None = None, verify: bool = True) -> Collection:
        """Return the rules of a version, the current one if none is named."""
        number = self.latest() if number is None else number
        version = self._read_version(number)
        collection = Collection(version.schema, version.index)
        parts: dict[str, Segment] = {}
        for entry in version.segments:
            folder = self._segments / entry["name"]
            segment = read_segment(folder, entry["manifest"], len(version.schema), verify)
            segment.stored = (version.store, entry["name"], entry["manifest"])
            parts[entry["role"]] = segment
        for entry in version.codes:
            for text in self._read_part(entry, "text", pa.large_string(), verify).to_pylist():
                collection.codes[text] = len(collection.codes) + 1
        if version.removed:
            gone = self._read_part(version.removed, "position", pa.int32(), verify).to_numpy()
            for segment in parts.values():
                places = np.flatnonzero(np.isin(segment.roster.positions, gone))
                if len(places):
                    segment.remove(places)
        segments = [parts.get(role) for role in ROLES]
        try:
            _check_parts(version, segments, collection.codes, verify)
        except StoreError as error:
            raise damaged(self._version_path(number), error) from None
        collection.restore(segments, version.next_position, version.id_type, version.payload)
        collection.origin = self._origin(version)
        return collection

    def _origin(self, version: VersionFile) -> Origin:
        folder = Path(os.path.realpath(self.path))
        return Origin(version.store, folder, version.number, version.checksum, version.codes)

    # ------------------------------------------------------------ publish

    def publish(self, collection: Collection) -> int:
        """Write a collection as the next version and return its number.

        Raise if it was opened from this store, or a copy of it, and the current version is not
        the one that it was opened at.
        """
        with self._writing():
            for folder in (self._segments, self._parts, self._versions):
                folder.mkdir(parents=True, exist_ok=True)
            numbers = self.numbers()
            parent = self._read_version(numbers[-1]) if numbers else None
            if parent is not None and self._is_on_top_of(collection.origin, parent):
                origin = collection.origin
            else:
                origin = None  # nothing of these rules lies here yet
            store = parent.store if parent and parent.store else uuid.uuid4().hex
            entries, removed = self._write_segments(collection, store, origin)
            version = VersionFile(
                store,
                parent.number + 1 if parent else 1,
                datetime.datetime.now(datetime.UTC),
                len(collection),
                collection.schema,
                collection.index,
                collection.next_position,
                collection.id_type,
                collection.payload_schema,
                entries,
                self._write_codes(collection, origin.codes if origin else []),
                self._write_part(pa.table({"position": removed})) if len(removed) else None,
            )
            data = version.to_bytes()
            if not put_if_absent(self._version_path(version.number), data):
                raise self._conflict(version.number - 1, self.latest())
            collection.origin = self._origin(replace(version, checksum=checksum_of(data)))
        return version.number

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the system says while we write into an error of ours."""
        existed = self.path.is_dir()
        try:
            yield
        except OSError as error:
            what = "cannot be written" if existed else "cannot be made"
            raise StoreError(
                f"the rule store at {self.path} {what}: {error.strerror or error}"
                + (f" ({error.filename})" if error.filename else "")
            ) from None

    def _is_on_top_of(self, origin: Origin | None, parent: VersionFile) -> bool:
        """Tell whether rules were opened at the current version of this store.

        Raise if they were opened from this store, or a copy of it, at another one.
        """
        if origin is None:
            return False
        here = origin.folder == Path(os.path.realpath(self.path))
        if not here and (not origin.store or origin.store != parent.store):
            return False
        if (origin.version, origin.checksum) == (parent.number, parent.checksum):
            return True
        if origin.version != parent.number:
            raise self._conflict(origin.version, parent.number)
        raise StoreConflictError(
            f"version {parent.number} of {self.path} is not the one that these rules were opened "
            "at: the store was made anew, or is a copy that has changed since; open it again and "
            "repeat the change"
        )

    def _conflict(self, known: int, now: int) -> StoreConflictError:
        return StoreConflictError(
            f"{self.path} is at version {now}, and these rules were opened at version {known}; "
            "open it again and repeat the change"
        )

    def _write_segments(
        self, collection: Collection, store: str, origin: Origin | None
    ) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Write the segments that are not here yet; return entries for all, and what was removed.

        `origin` is None if these rules do not come from this store.
        """
        entries = []
        removed = [np.empty(0, np.int32)]
        for role, segment in collection.roles():
            home, name, checksum = segment.stored or ("", "", "")
            if not origin or home != origin.store or not is_whole(self._segments / name, checksum):
                name, checksum = write_segment(self._segments, segment)
            entries.append({"role": role, "name": name, "manifest": checksum})
            segment.stored = (store, name, checksum)
            if len(segment.alive):
                removed.append(segment.roster.positions[~segment.alive])
        return entries, np.concatenate(removed)

    def _write_codes(
        self, collection: Collection, stored: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Write the category values that the stored files lack; return entries for all files."""
        if len(stored) >= _MOST_PARTS or not all(map(self._has_part, stored)):
            stored = []
        written = sum(entry["count"] for entry in stored)
        texts = pa.array(list(collection.codes)[written:], pa.large_string())
        return [*stored, self._write_part(pa.table({"text": texts}))] if len(texts) else stored

    def _write_part(self, table: pa.Table) -> dict[str, Any]:
        name = uuid.uuid4().hex
        temporary = self._parts / f".{name}"
        try:
            with open(temporary, "wb") as out:
                with pa.ipc.new_file(out, table.schema) as writer:
                    writer.write_table(table)
                out.flush()
                os.fsync(out.fileno())
            entry = {"name": name, "count": len(table)} | describe(temporary)
            temporary.rename(self._parts / name)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self._parts)
        return entry

    def _has_part(self, entry: dict[str, Any]) -> bool:
        try:
            self._check_part(entry, verify=False)
        except StoreError:
            return False
        return True

    def _check_part(self, entry: dict[str, Any], verify: bool) -> Path:
        path = self._parts / entry["name"]
        check_file(path, {k: entry[k] for k in ("bytes", "sha256")}, verify)
        return path

    def _read_part(
        self, entry: dict[str, Any], column: str, type_: pa.DataType, verify: bool
    ) -> pa.Array:
        path = self._check_part(entry, verify)
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            table.validate(full=verify)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from None
        if table.schema.names != [column] or table.schema.types != [type_]:
            raise damaged(path, f"its columns are {table.schema}")
        if len(table) != entry["count"]:
            raise damaged(path, f"it has {len(table):,} rows instead of {entry['count']:,}")
        if table.column(0).null_count:
            raise damaged(path, "it has nulls")
        return table.column(0).combine_chunks()

    # ------------------------------------------------------------ live

    def pin(self, query: str, batch: str) -> int:
        """Return the version that a stream's micro-batch uses: the first to ask decides for all."""
        return self.log.pin(query, batch, self.latest)

    # ------------------------------------------------------------ prune

    def prune(self, keep: int) -> list[int]:
        """Delete all versions but the last `keep` and those that a stream's log pins.

        Also what only they used, and what writers left that failed. Return which versions.
        """
        with self._writing():
            numbers = self.numbers()
            kept = set(numbers[-keep:]) | self.log.pinned()
            gone = [number for number in numbers if number not in kept]
            versions = [self._read_version(n) for n in numbers if n in kept]
            used = {entry["name"] for v in versions for entry in (*v.segments, *v.codes)}
            used |= {v.removed["name"] for v in versions if v.removed}
            for number in gone:
                self._version_path(number).unlink(missing_ok=True)
            for entry in (*self._segments.iterdir(), *self._parts.iterdir()):
                if entry.name not in used:
                    _delete_left_over(entry)
            for folder in (self._versions, *self.log.folders()):
                for entry in folder.glob(".*"):
                    _delete_left_over(entry)
        return gone


def _check_parts(
    version: VersionFile, segments: list[Segment | None], codes: dict[str, int], verify: bool
) -> None:
    """Raise unless what a version lists fits together."""
    roles = [entry["role"] for entry in version.segments]
    require(
        len(set(roles)) == len(roles) and set(roles) <= set(ROLES),
        f"its segments are {', '.join(map(repr, roles))}",
    )
    listed = sum(entry["count"] for entry in version.codes)
    require(len(codes) == listed, "a category value is listed twice")
    last = -1
    for segment in filter(None, segments):
        positions = segment.roster.positions
        require(len(positions) > 0 and positions[0] > last, "its segments are not in order")
        last = int(positions[-1])
        require(version.id_type is not None, "it has rules, but no type of their ids")
        if verify:
            check_fits(segment, version.schema, len(codes), version.id_type, version.payload)
    require(last < version.next_position, "a rule has the next position already")


def _delete_left_over(path: Path) -> None:
    """Delete what no version lists, unless it is so young that it may be about to be published."""
    with contextlib.suppress(FileNotFoundError):
        if datetime.datetime.now().timestamp() - path.stat().st_mtime >= _UNFINISHED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
