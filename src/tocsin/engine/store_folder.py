"""The objects of a rule store: numbered, immutable versions and what they are made of.

::

    segments/<name>/         conjunctions, indexes and metadata of rules, see `segment_files`
    parts/<name>             category values and removed positions, as versions add them
    versions/<number>.json   the files that make up a version, with checksums
    latest/<number>          a version that was the latest once, see `version_folder`
    log/                     the version of each micro-batch of a stream, see `stream_log`

They lie in a `Storage`, most often a folder. Publishing writes only what is new: after one change,
a segment of the recent rules (at most 1,024 of them), a list of removed positions, and a version
file, which is written last. So a crash leaves the old version intact, and the second of two writers
gets an error, see `version_folder`. Versions are kept until they are pruned.

Prune deletes a version first, and then its files. No later version needs them: a version has new
files, and files of its parent, which was the highest. Files that no version lists are left over
from a writer that failed, or about to be published by one that is slow. They are deleted after an
hour, once the current version has been published again under the next number: a writer that is
still there then comes too late.

A store has an identity: a random name that its first version introduces and all others repeat. A
path does not identify a store, since a folder can have many paths, and a path can name different
folders over time. Rules remember the identity, the number and the checksum of the version that they
were opened at, and publish only on top of that version: copies of a store share its identity, but
not the versions published since.

Opening verifies all checksums, and everything that kernels rely on. With `verify=False`, for
workers that open a version already verified, it only checks file sizes.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.draft import ROLES
from tocsin.engine.part_files import PARTS, has_part, pack_part, read_part
from tocsin.engine.segment import LiveSegment, Segment, none_removed, remove
from tocsin.engine.segment_files import (
    SEGMENTS,
    check_fits,
    damage_error,
    is_complete,
    pack_segment,
    read_segment,
)
from tocsin.engine.storage import Entry, Storage, is_bucket
from tocsin.engine.storage.bucket import Bucket
from tocsin.engine.storage.folder import Folder
from tocsin.engine.stream_log import StreamLog
from tocsin.engine.version import Version
from tocsin.engine.version_file import VersionFile
from tocsin.engine.version_folder import VersionFolder
from tocsin.errors import StoreConflictError, StoreError, is_unicode
from tocsin.model.categories import Categories
from tocsin.model.validation import require

_MOST_PARTS = 32  # files of category values that a version may list before they are merged
_UNFINISHED = 3600  # seconds, chosen: a publish takes far less, see `_is_old`
TRIES = 50  # attempts to publish; each fails only if another writer has published
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class VersionInfo:
    """One version of a store, as listed by `versions`."""

    number: int
    created: datetime.datetime
    rules: int
    segments: tuple[str, ...]
    author: str | None = None
    message: str | None = None


@dataclass(frozen=True, eq=False)
class Origin:
    """The version of a store that rules were opened from or last saved as."""

    store: str  # the store's identity
    place: str  # the identity of the storage where it was
    version: int
    checksum: str  # of the version file
    # Stored segments that are still referenced: name and the manifest's checksum.
    segments: weakref.WeakKeyDictionary[Segment, tuple[str, str]]
    categories: Categories
    category_files: list[dict[str, Any]]  # hold the first of these categories
    removed: np.ndarray  # positions of removed rules
    removed_file: dict[str, Any] | None  # holds them

    @classmethod
    def of(
        cls,
        version: Version,
        store: str,
        place: str,
        number: int,
        checksum: str,
        stored: Mapping[str, tuple[str, str]],
        category_files: list[dict[str, Any]],
        removed_file: dict[str, Any] | None,
    ) -> Origin:
        """Return the origin of a version whose segments are `stored`, by role."""
        segments = {
            live.segment: stored[live.role] for live in version.segments if live.role in stored
        }
        return cls(
            store,
            place,
            number,
            checksum,
            weakref.WeakKeyDictionary(segments),
            version.categories,
            category_files,
            _removed_positions(version),
            removed_file,
        )

    def describe_for(self, version: Version) -> tuple[Any, ...]:
        """Return what `of` takes, for a version derived from this origin in another process."""
        stored = {live.role: self.segments.get(live.segment) for live in version.segments}
        is_removed_file = np.array_equal(self.removed, _removed_positions(version))
        return (
            self.store,
            self.place,
            self.version,
            self.checksum,
            {role: names for role, names in stored.items() if names},
            self.category_files if self.categories is version.categories else [],
            self.removed_file if is_removed_file else None,
        )


class StoreFolder:
    """The objects of a store: reads and publishes versions."""

    def __init__(self, path: str | os.PathLike[str] | Storage):
        self.storage = open_storage(path)
        self.log = StreamLog(self.storage)
        self.versions = VersionFolder(self.storage)

    @property
    def path(self) -> Path | str:
        """The store's folder, or its URL."""
        place = self.storage.locate()
        return place if is_bucket(place) else Path(place)

    def describe(self, numbers: Sequence[int]) -> list[VersionInfo]:
        """Return the summaries of listed versions, without those that were pruned since."""
        files = map(self.versions.find, numbers)
        return [
            VersionInfo(
                file.number,
                file.created,
                file.rules,
                tuple(entry["name"] for entry in file.segments),
                file.author,
                file.message,
            )
            for file in files
            if file is not None
        ]

    # ------------------------------------------------------------ open

    def open(
        self, number: int | None = None, verify: bool = True, opened: Origin | None = None
    ) -> tuple[Version, Origin]:
        """Return a version, by default the current one, and its origin.

        Segments of a version that was `opened` before are used again and not read.
        """
        if number is not None:
            file = self.versions.read(number)
            return self._open(file, verify, opened)
        while True:
            latest = self.versions.latest()
            try:
                return self._open(self.versions.read(latest), verify, opened)
            except StoreError:
                # Others may have published, and pruned this version before all of it was read.
                if latest == self.versions.latest():
                    raise

    def _open(
        self, file: VersionFile, verify: bool, opened: Origin | None
    ) -> tuple[Version, Origin]:
        known = {stored: segment for segment, stored in opened.segments.items()} if opened else {}
        segments: dict[str, Segment] = {}
        floats = file.attributes.floats()
        for entry in file.segments:
            stored = entry["name"], entry["manifest"]
            if stored not in known:
                known[stored] = read_segment(self.storage, *stored, floats, verify)
            segments[entry["role"]] = known[stored]
        texts: list[str] = []
        for entry in file.codes:
            column = read_part(self.storage, entry, "text", pa.large_string(), verify)
            texts += column.to_pylist()
        categories = Categories(texts)
        try:
            _check_parts(file, [segments[r] for r in ROLES if r in segments], categories, verify)
        except StoreError as error:
            raise damage_error(self.versions.place_of(file.number), error) from None
        removed = np.empty(0, np.int32)
        if file.removed:
            column = read_part(self.storage, file.removed, "position", pa.int32(), verify)
            removed = column.to_numpy()
        version = Version(
            file.attributes,
            len(file.attributes),
            categories,
            len(categories),
            file.index,
            file.options,
            tuple(
                _live_segment(role, segments[role], removed) for role in ROLES if role in segments
            ),
            file.next_position,
            file.id_type,
            file.payload,
            file.point,
        )
        return version, self._origin(file, version)

    def _origin(self, file: VersionFile, version: Version) -> Origin:
        return Origin.of(
            version,
            file.store,
            self.storage.identity,
            file.number,
            file.checksum,
            {entry["role"]: (entry["name"], entry["manifest"]) for entry in file.segments},
            file.codes,
            file.removed,
        )

    # ------------------------------------------------------------ publish

    def publish(
        self,
        version: Version,
        origin: Origin | None,
        author: str | None = None,
        message: str | None = None,
    ) -> Origin:
        """Write a version as the store's next one, and return its origin.

        `origin` is the version that this one is derived from. Raise if that is a version of this
        store, or of a copy of it, other than the current one. If the two have the same rules,
        nothing is published.
        """
        for what, text in (("author", author), ("message", message)):
            if text is not None and not (isinstance(text, str) and is_unicode(text)):
                raise StoreError(f"{what} must be a text, got {text!r}")
        version = version.settled()
        with self._translate_write_errors():
            parent = self.versions.read_latest()
            if parent is None or not self._is_on_top_of(origin, parent):
                origin = None  # no files of these rules are here yet
            new: dict[str, list[Any]] = {}  # objects to put
            file = VersionFile(
                parent.store if parent and parent.store else uuid.uuid4().hex,
                parent.number + 1 if parent else 1,
                datetime.datetime.now(datetime.UTC),
                len(version),
                version.attributes,
                version.attribute_count,
                version.index,
                dict(version.options),
                version.next_position,
                version.id_type,
                version.payload_schema,
                [self._pack_segment(live, origin, new) for live in version.segments],
                self._pack_categories(version, origin, new),
                self._pack_removed(version, origin, new),
                author,
                message,
                point=version.point,
            )
            if origin is not None and parent is not None and file.has_same_rules(parent):
                return origin
            if parent is None:
                self._check_puts()
            self.storage.put(new)
            file = self.versions.put(file, parent)
        return self._origin(file, version)

    def _check_puts(self) -> None:
        """Raise if the storage replaces what must be absent, as some object stores do."""
        name = f"probe/{uuid.uuid4().hex}"
        self.storage.put_if_absent(name, b"first")
        is_replaced = self.storage.put_if_absent(name, b"second")
        self.storage.delete([name])
        if is_replaced:
            raise StoreError(
                f"{self.storage.locate()} cannot hold a rule store: it replaces objects that must "
                "be absent, so that two writers would overwrite each other"
            )

    def publish_again(self, number: int, author: str | None, message: str) -> int:
        """Publish the rules of an older version as the next one, and return its number.

        In files of their own: those of the older version may be pruned meanwhile.
        """
        latest = self.versions.latest()
        if number == latest:
            return latest
        old, _ = self.open(number)
        # Later rules had the positions that follow, and `diff` tells rules by these.
        position = self.versions.read(latest).next_position
        old = replace(old, next_position=max(position, old.next_position))
        return self.publish(old, None, author, message).version

    @contextlib.contextmanager
    def _translate_write_errors(self) -> Iterator[None]:
        """Translate system errors while writing into a StoreError."""
        try:
            yield
        except OSError as error:
            exists = self.versions.find_latest() is not None
            what = "cannot be written" if exists else "cannot be created"
            raise StoreError(
                f"the rule store at {self.storage.locate()} {what}: {error.strerror or error}"
                + (f" ({error.filename})" if error.filename else "")
            ) from None

    def _is_on_top_of(self, origin: Origin | None, parent: VersionFile) -> bool:
        """Return whether rules were opened at the current version of this store.

        Raise if they were opened at another version of this store, or of a copy of it.
        """
        if origin is None:
            return False
        here = origin.place == self.storage.identity
        if not here and (not origin.store or origin.store != parent.store):
            return False
        if (origin.version, origin.checksum) == (parent.number, parent.checksum):
            return True
        if origin.version != parent.number and origin.store in ("", parent.store):
            raise self.versions.conflict(origin.version, parent.number)
        raise StoreConflictError(
            f"version {parent.number} of {self.storage.locate()} does not follow the version that "
            "these rules were opened at: the store was re-created, or is a copy that has changed "
            "since; open the store again and repeat the change"
        )

    def _pack_segment(
        self, live: LiveSegment, origin: Origin | None, new: dict[str, list[Any]]
    ) -> dict[str, Any]:
        """Return a segment's entry in a version file; unless it is stored, add it to `new`."""
        name, checksum = (origin and origin.segments.get(live.segment)) or ("", "")
        if not name or not is_complete(self.storage, name, checksum):
            name, checksum = pack_segment(live.segment, new)
        return {"role": live.role, "name": name, "manifest": checksum}

    def _pack_removed(
        self, version: Version, origin: Origin | None, new: dict[str, list[Any]]
    ) -> dict[str, Any] | None:
        """Return the entry of the positions of removed rules; unless stored, add them to `new`."""
        removed = _removed_positions(version)
        if not len(removed):
            return None
        stored = origin.removed_file if origin and np.array_equal(removed, origin.removed) else None
        if stored and has_part(self.storage, stored):
            return stored
        return pack_part(pa.table({"position": removed}), new)

    def _pack_categories(
        self, version: Version, origin: Origin | None, new: dict[str, list[Any]]
    ) -> list[dict[str, Any]]:
        """Return the entries of all files of category values; add new values to `new`."""
        files = origin.category_files if origin and origin.categories is version.categories else []
        if len(files) >= _MOST_PARTS or not all(has_part(self.storage, file) for file in files):
            files = []
        written = sum(entry["count"] for entry in files)
        texts = version.categories.to_arrow(written, version.category_count)
        return [*files, pack_part(pa.table({"text": texts}), new)] if len(texts) else files

    # ------------------------------------------------------------ live

    def pin(self, query: str, batch: str) -> int:
        """Return the version that a stream's micro-batch uses; the first call pins it."""
        return self.log.pin(query, batch, self.versions.latest)

    # ------------------------------------------------------------ prune

    def prune(self, keep: int) -> list[int]:
        """Delete all versions but the last `keep` and those that a stream's log pins.

        Also delete files that only they used, and left-over files of failed writers. Return the
        deleted versions.
        """
        with self._translate_write_errors():
            files = self._files_by_version()
            listed = set().union(*files.values())
            abandoned = {
                entry.name
                for entry in self._stored()
                if _is_old(entry) and _file_of(entry) not in listed
            }
            if abandoned:
                self._republish()
                files = self._files_by_version()
            kept = {*list(files)[-keep:], *self.log.pinned()}
            used = set().union(*(files[number] for number in files if number in kept))
            deleted = [number for number in files if number not in kept]
            if deleted:
                self.versions.delete(deleted, max(files))
            freed = set().union(*(files[number] for number in deleted))
            self.storage.delete(
                entry.name
                for entry in self._stored()
                if (entry.name in abandoned or _file_of(entry) in freed)
                and _file_of(entry) not in used
            )
            for prefix in (SEGMENTS, PARTS, "versions/", "latest/", "log/"):
                self.storage.sweep(prefix, _UNFINISHED)
        return deleted

    def _files_by_version(self) -> dict[int, set[str]]:
        """Return the segments and parts of all versions, by ascending number."""
        while numbers := self.versions.numbers():
            found = {number: self.versions.find(number) for number in numbers}
            # If others have pruned the highest, later versions may use files that only it showed.
            if found[numbers[-1]] is not None:
                return {number: _files_of(file) for number, file in found.items() if file}
        return {}

    def _stored(self) -> list[Entry]:
        """Return the objects of all segments and parts, whether a version lists them or not."""
        return [*self.storage.list(SEGMENTS), *self.storage.list(PARTS)]

    def _republish(self) -> None:
        """Publish the current version under the next number, ahead of writers that are slow."""
        for _ in range(TRIES):
            parent = self.versions.read_latest()
            if parent is None:
                return
            again = replace(
                parent,
                number=parent.number + 1,
                created=datetime.datetime.now(datetime.UTC),
                author=None,
                message=f"version {parent.number} again, to delete left-over files",
            )
            with contextlib.suppress(StoreConflictError):
                self.versions.put(again, parent)
                return
        place = self.storage.locate()
        raise StoreConflictError(f"{place}: other writers were faster {TRIES} times; try again")


def _live_segment(role: str, segment: Segment, removed_positions: np.ndarray) -> LiveSegment:
    """Return a segment without the rules at removed positions."""
    removed = none_removed(segment)
    places = np.flatnonzero(np.isin(segment.positions, removed_positions))
    if len(places):
        removed = remove(segment, removed, places, in_place=True)
    return LiveSegment(role, segment, removed)


def _removed_positions(version: Version) -> np.ndarray:
    positions = [
        live.segment.positions[~live.alive()] for live in version.segments if live.removed.size
    ]
    return np.concatenate(positions) if positions else np.empty(0, np.int32)


def _check_parts(
    version: VersionFile, segments: list[Segment], categories: Categories, verify: bool
) -> None:
    """Raise unless the segments and categories of a version are consistent."""
    roles = [entry["role"] for entry in version.segments]
    require(
        len(set(roles)) == len(roles) and set(roles) <= set(ROLES),
        f"its segments are {', '.join(map(repr, roles))}",
    )
    listed = sum(entry["count"] for entry in version.codes)
    require(len(categories) == listed, "a category value is listed twice")
    last = -1
    for segment in segments:
        positions = segment.positions
        require(len(positions) > 0 and positions[0] > last, "its segments are not in order")
        last = int(positions[-1])
        require(version.id_type is not None, "it has rules, but no type of their ids")
        if verify:
            check_fits(
                segment, version.attributes, len(categories), version.id_type, version.payload
            )
    require(last < version.next_position, "a rule has the next position already")


def _files_of(version: VersionFile) -> set[str]:
    """Return the names of a version's segments and parts."""
    parts = [*version.codes, *([version.removed] if version.removed else [])]
    return {
        *(SEGMENTS + entry["name"] for entry in version.segments),
        *(PARTS + entry["name"] for entry in parts),
    }


def _file_of(entry: Entry) -> str:
    """Return the name of the segment or part that an object belongs to."""
    return "/".join(entry.name.split("/")[:2])


def _is_old(entry: Entry) -> bool:
    """Return whether an object that no version lists is so old that its writer probably failed."""
    return time.time() - entry.modified >= _UNFINISHED


def open_storage(path: Any, what: str = "a rule store") -> Storage:
    """Return the storage at a path or URL that a user has given; raise if it cannot be one."""
    if isinstance(path, Storage):
        return path
    if not isinstance(path, str | os.PathLike):
        raise StoreError(f"{what} is named by its path, got {type(path).__name__} {path!r}")
    text = os.fspath(path)
    if isinstance(text, bytes) or not text or "\0" in text:
        raise StoreError(f"{what} is named by its path, got {path!r}")
    if is_bucket(text):
        return Bucket(text)
    if _SCHEME.match(text):
        raise StoreError(
            f"{what} must be a folder on a local or mounted file system, or in a bucket as "
            f"s3://bucket/folder, gs:// or az://; got the URL {text!r}"
            + ("; leave out 'file:'" if text.startswith("file:") else "")
        )
    return Folder(text)
