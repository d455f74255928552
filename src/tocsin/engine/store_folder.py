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
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.draft import ROLES
from tocsin.engine.segment import LiveSegment, Segment, none_removed, remove
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
from tocsin.engine.version import Version
from tocsin.engine.version_file import VersionFile, checksum_of, parse
from tocsin.errors import StoreConflictError, StoreError
from tocsin.model.categories import Categories
from tocsin.model.validation import require

_MOST_PARTS = 32  # files of category values that a version may list before they are joined
_UNFINISHED = 3600  # seconds after which a file that no version lists is taken for left over
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_VERSION_NAME = re.compile(r"([0-9]{8,})\.json")


@dataclass(frozen=True)
class VersionInfo:
    """One version of a store, as `versions` lists them."""

    number: int
    created: datetime.datetime
    rules: int
    segments: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Origin:
    """What a draft remembers of the version of a store that it was opened from or last saved as."""

    store: str  # the store's identity
    folder: Path  # where it was
    version: int
    checksum: str  # of the version file
    # Where segments lie, as long as somebody holds them: name and manifest's checksum.
    segments: weakref.WeakKeyDictionary[Segment, tuple[str, str]]
    categories: Categories  # of which
    category_files: list[dict[str, Any]]  # these files hold the first


class StoreFolder:
    """The files of a store: reads and publishes versions."""

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
                f"{text!r} is a URL, but a rule store must be a folder on a local or mounted file "
                "system that this machine and Spark's workers can reach"
                + ("; leave out 'file:'" if text.startswith("file:") else "")
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

    def describe(self, number: int) -> VersionInfo:
        """Return what a version is."""
        version = self._read_version(number)
        names = tuple(entry["name"] for entry in version.segments)
        return VersionInfo(number, version.created, version.rules, names)

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
            if not path.is_file():  # nor anything else, such as a pipe, which would be waited for
                raise FileNotFoundError
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(map(str, self.numbers()[-5:])) or "none"
            raise StoreError(
                f"{self.path} has no version {number}; the latest versions are {known}"
            ) from None
        except OSError as error:
            raise self._unreadable(error) from None
        return parse(path, data)

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(f"the rule store at {self.path} cannot be read: {error}")

    # ------------------------------------------------------------ open

    def open(self, number: int | None = None, verify: bool = True) -> tuple[Version, Origin]:
        """Return a version, the current one if none is named, and where it comes from."""
        number = self.latest() if number is None else number
        file = self._read_version(number)
        segments: dict[str, Segment] = {}
        for entry in file.segments:
            folder = self._segments / entry["name"]
            segment = read_segment(folder, entry["manifest"], file.schema.floats(), verify)
            segments[entry["role"]] = segment
        texts: list[str] = []
        for entry in file.codes:
            texts += self._read_part(entry, "text", pa.large_string(), verify).to_pylist()
        categories = Categories(texts)
        try:
            _check_parts(file, [segments[r] for r in ROLES if r in segments], categories, verify)
        except StoreError as error:
            raise damaged(self._version_path(number), error) from None
        gone = np.empty(0, np.int32)
        if file.removed:
            gone = self._read_part(file.removed, "position", pa.int32(), verify).to_numpy()
        version = Version(
            file.schema,
            len(file.schema),
            categories,
            len(categories),
            file.index,
            file.options,
            tuple(_live(role, segments[role], gone) for role in ROLES if role in segments),
            file.next_position,
            file.id_type,
            file.payload,
        )
        return version, self._origin(file, version)

    def _origin(self, file: VersionFile, version: Version) -> Origin:
        lies = {entry["role"]: (entry["name"], entry["manifest"]) for entry in file.segments}
        return Origin(
            file.store,
            Path(os.path.realpath(self.path)),
            file.number,
            file.checksum,
            weakref.WeakKeyDictionary({live.segment: lies[live.role] for live in version.segments}),
            version.categories,
            file.codes,
        )

    # ------------------------------------------------------------ publish

    def publish(self, version: Version, origin: Origin | None) -> Origin:
        """Write a version as the store's next one, and return what to remember of it.

        `origin` is what is remembered of the version that this one was made from. Raise if that was
        of this store, or a copy of it, and the current version is another.
        """
        with self._writing():
            for folder in (self._segments, self._parts, self._versions):
                folder.mkdir(parents=True, exist_ok=True)
            numbers = self.numbers()
            parent = self._read_version(numbers[-1]) if numbers else None
            if parent is None or not self._is_on_top_of(origin, parent):
                origin = None  # nothing of these rules lies here yet
            removed = _removed_positions(version)
            file = VersionFile(
                parent.store if parent and parent.store else uuid.uuid4().hex,
                parent.number + 1 if parent else 1,
                datetime.datetime.now(datetime.UTC),
                len(version),
                version.schema,
                version.index,
                dict(version.options),
                version.next_position,
                version.id_type,
                version.payload_schema,
                [self._write_segment(live, origin) for live in version.segments],
                self._write_categories(version, origin),
                self._write_part(pa.table({"position": removed})) if len(removed) else None,
            )
            data = file.to_bytes()
            if not put_if_absent(self._version_path(file.number), data):
                raise self._conflict(file.number - 1, self.latest())
        return self._origin(replace(file, checksum=checksum_of(data)), version)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the system says while we write into an error of ours."""
        existed = self.path.is_dir()
        try:
            yield
        except OSError as error:
            what = "cannot be written" if existed else "cannot be created"
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
        if origin.version != parent.number and origin.store in ("", parent.store):
            raise self._conflict(origin.version, parent.number)
        raise StoreConflictError(
            f"version {parent.number} of {self.path} does not follow the version that these rules "
            "were opened at: the store was re-created, or is a copy that has changed since; open "
            "the store again and repeat the change"
        )

    def _conflict(self, known: int, now: int) -> StoreConflictError:
        return StoreConflictError(
            f"{self.path} is now at version {now}, but these rules were opened at version {known}; "
            "open the store again and repeat the change"
        )

    def _write_segment(self, live: LiveSegment, origin: Origin | None) -> dict[str, Any]:
        """Write a segment, unless it is here already; return how a version lists it."""
        name, checksum = (origin and origin.segments.get(live.segment)) or ("", "")
        if not name or not is_whole(self._segments / name, checksum):
            name, checksum = write_segment(self._segments, live.segment)
        return {"role": live.role, "name": name, "manifest": checksum}

    def _write_categories(self, version: Version, origin: Origin | None) -> list[dict[str, Any]]:
        """Write the category values that no file has yet; return how a version lists all files."""
        files = origin.category_files if origin and origin.categories is version.categories else []
        if len(files) >= _MOST_PARTS or not all(map(self._has_part, files)):
            files = []
        written = sum(entry["count"] for entry in files)
        texts = version.categories.to_arrow(written, version.category_count)
        return [*files, self._write_part(pa.table({"text": texts}))] if len(texts) else files

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


def _live(role: str, segment: Segment, gone: np.ndarray) -> LiveSegment:
    """Return a segment without the rules at positions that are gone."""
    removed = none_removed(segment)
    places = np.flatnonzero(np.isin(segment.metadata.positions, gone))
    if len(places):
        removed = remove(segment, removed, places, in_place=True)
    return LiveSegment(role, segment, removed)


def _removed_positions(version: Version) -> np.ndarray:
    gone = [
        live.segment.metadata.positions[~live.alive()]
        for live in version.segments
        if live.removed.size
    ]
    return np.concatenate(gone) if gone else np.empty(0, np.int32)


def _check_parts(
    version: VersionFile, segments: list[Segment], categories: Categories, verify: bool
) -> None:
    """Raise unless what a version lists fits together."""
    roles = [entry["role"] for entry in version.segments]
    require(
        len(set(roles)) == len(roles) and set(roles) <= set(ROLES),
        f"its segments are {', '.join(map(repr, roles))}",
    )
    listed = sum(entry["count"] for entry in version.codes)
    require(len(categories) == listed, "a category value is listed twice")
    last = -1
    for segment in segments:
        positions = segment.metadata.positions
        require(len(positions) > 0 and positions[0] > last, "its segments are not in order")
        last = int(positions[-1])
        require(version.id_type is not None, "it has rules, but no type of their ids")
        if verify:
            check_fits(segment, version.schema, len(categories), version.id_type, version.payload)
    require(last < version.next_position, "a rule has the next position already")


def _delete_left_over(path: Path) -> None:
    """Delete what no version lists, unless it is so young that it may be about to be published."""
    with contextlib.suppress(FileNotFoundError):
        if datetime.datetime.now().timestamp() - path.stat().st_mtime >= _UNFINISHED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
