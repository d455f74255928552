"""The log of streams: which version of a store each micro-batch uses.

::

    log/<stream>/<batch>            the number of the version that the batch is *pinned* to
    log/<stream>/held/<version>     a version that prune keeps, because a batch may be pinned to it
    log/<stream>/missing/<name>     an attribute that rules test and the stream has no column for
    log/<stream>/names/<name>       the name that the user gave the query, if any

The first task of a micro-batch pins it, put-if-absent. All other tasks, and every repetition of the
batch after a crash, read the pin. So a batch always sees the same version.

A task that is stopped between reading the number of the latest version and pinning it may find it
pruned. So it *holds* the version first, and then looks whether it is still the latest. If it is,
whoever prunes it lists versions later, and what is held after that.

Spark repeats only batches in its checkpoint, by default the last 100
(`spark.sql.streaming.minBatchesToRetain`). The log keeps as many pins per stream, and deletes older
ones. Pinned versions are not pruned. A stream that will never run again keeps its pins until a user
unpins them.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tocsin.engine.storage import Entry, Storage
from tocsin.errors import StoreError

PINS_KEPT = 100  # of each stream: as many batches as Spark's checkpoint keeps by default

_BATCH = re.compile(r"[0-9]+")
_HELD = re.compile(r"log/[^/]+/held/([0-9]+)")
_PLAIN = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True)
class StreamInfo:
    """A stream that uses a store with live rules."""

    query: str  # Spark's id of the streaming query
    batch: int  # the latest micro-batch
    version: int  # the version that it is pinned to
    used: datetime.datetime  # when it was pinned
    pinned: tuple[int, ...]  # all versions that its batches are pinned to
    missing: tuple[str, ...]  # attributes that rules test and the stream has no column for
    name: str = ""  # the query's latest name; empty if it has none


class StreamLog:
    """The log of a store: pins and names of its streams."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._held: set[str] = set()  # that this process has seen; only prune forgets one

    # ------------------------------------------------------------ for workers

    def pin(self, query: str, batch: str, latest: Callable[[], int]) -> int:
        """Return the version that a micro-batch is pinned to; pin it to the latest if it is not.

        Later calls return the same version, also when the batch is repeated.
        """
        stream = _stream(query)
        entry = stream + _check_name(_BATCH, batch)
        try:
            with contextlib.suppress(FileNotFoundError):
                return self._read_version(entry)
            version = self._hold(stream, latest)
            if not self._storage.put_if_absent(entry, b"%d\n" % version):
                return self._read_version(entry)
            self._forget_before(stream, int(batch) - PINS_KEPT)
            return version
        except OSError as error:
            raise StoreError(
                f"cannot record in {self._storage.locate('log')} which version this micro-batch "
                f"uses: {error}; workers need read and write access to it"
            ) from None

    def report_missing(self, query: str, names: list[str]) -> list[str]:
        """Record attributes that a stream has no column for; return those not recorded before."""
        return self._record_names(f"{_stream(query)}missing/", names)

    def report_name(self, query: str, name: str) -> None:
        """Record the name of a stream."""
        self._record_names(f"{_stream(query)}names/", [name])

    def _hold(self, stream: str, latest: Callable[[], int]) -> int:
        """Return the latest version, which is not pruned from now on."""
        version = latest()
        while (name := f"{stream}held/{version}") not in self._held:
            if self._storage.stat(name) is None:
                self._storage.put_if_absent(name, b"")
            self._held = {name}
            version = latest()
        return version

    def _forget_before(self, stream: str, batch: int) -> None:
        if batch > 0:
            entries = self._storage.list(stream)
            pins = _select_pins(stream, entries)
            self._storage.delete(pins.pop(number).name for number in [*pins] if number <= batch)
            # Nobody holds a version that is not the latest and goes on to pin it.
            held, pinned = _select_held(entries), self._read_version(pins[min(pins)].name)
            self._storage.delete(held[version] for version in held if version < pinned)

    def _record_names(self, prefix: str, names: list[str]) -> list[str]:
        """Put an empty object for each name; return the names that had none."""
        try:
            return [n for n in names if self._storage.put_if_absent(prefix + _quote_name(n), b"")]
        except OSError:  # informative only: it must not stop a stream
            return []

    def _read_version(self, entry: str) -> int:
        text = self._storage.read(entry)
        try:
            return int(text)
        except ValueError:
            raise StoreError(
                f"{self._storage.locate(entry)} is damaged: it should hold the number of a "
                f"version, and holds {text[:40]!r}; delete the file, and the batch takes the "
                "current version"
            ) from None

    # ------------------------------------------------------------ for users

    def streams(self) -> list[StreamInfo]:
        """Return the streams that have used the store, the latest first."""
        by_stream: dict[str, list[Entry]] = {}
        for entry in self._storage.list("log/"):
            by_stream.setdefault(entry.name.split("/")[1], []).append(entry)
        infos = [self._describe(query, entries) for query, entries in by_stream.items()]
        return sorted(filter(None, infos), key=lambda stream: stream.used, reverse=True)

    def _describe(self, query: str, entries: list[Entry]) -> StreamInfo | None:
        """Return a stream by the objects of its log; None if it has no pins."""
        pins = _select_pins(f"log/{query}/", entries)
        if not pins:
            return None
        versions = {number: self._read_version(pins[number].name) for number in pins}
        names = _select_names(f"log/{query}/names/", entries)
        last = max(pins)
        return StreamInfo(
            query,
            last,
            versions[last],
            datetime.datetime.fromtimestamp(pins[last].modified, datetime.UTC),
            tuple(sorted(set(versions.values()))),
            tuple(sorted(_select_names(f"log/{query}/missing/", entries))),
            names[-1] if names else "",
        )

    def pinned(self) -> set[int]:
        """Return the versions that batches are pinned to, or may be soon."""
        held = _select_held(self._storage.list("log/"))
        return {*held, *(version for stream in self.streams() for version in stream.pinned)}

    def unpin(self, query: str, batch: int | None = None) -> None:
        """Unpin one batch of a stream, or all; a repeated batch then uses the current version."""
        stream = _stream(query)
        entries = self._storage.list(stream)
        pins = _select_pins(stream, entries)
        if not pins:
            known = [each.query for each in self.streams()]
            raise StoreError(
                f"stream {query!r} has no pinned batches; "
                + (f"streams with pinned batches: {', '.join(known[:5])}" if known else "none has")
            )
        if batch is not None and batch not in pins:
            raise StoreError(
                f"batch {batch} of stream {query} is not pinned; its pinned batches are "
                f"{min(pins)} to {max(pins)}"
            )
        unpinned = [entry.name for entry in entries]
        if batch is not None:
            unpinned = [pins[batch].name, *_select_held(entries).values()]
        self._storage.delete(unpinned)


def _stream(query: str) -> str:
    """Return the prefix of the log of a stream."""
    return f"log/{_check_name(_PLAIN, query)}/"


def _select_pins(stream: str, entries: Iterable[Entry]) -> dict[int, Entry]:
    """Return the pins among the objects of a stream's log, by the number of the batch."""
    named = {entry.name.removeprefix(stream): entry for entry in entries}
    return {int(name): entry for name, entry in named.items() if _BATCH.fullmatch(name)}


def _select_held(entries: Iterable[Entry]) -> dict[int, str]:
    """Return the names of the objects that hold versions, by version."""
    matches = [match for entry in entries if (match := _HELD.fullmatch(entry.name))]
    return {int(match[1]): match[0] for match in matches}


def _select_names(prefix: str, entries: Iterable[Entry]) -> list[str]:
    """Return the recorded names, the oldest first."""
    found = [entry for entry in entries if entry.name.startswith(prefix)]
    found.sort(key=lambda entry: entry.modified)
    return [urllib.parse.unquote(entry.name.removeprefix(prefix)) for entry in found]


def _check_name(pattern: re.Pattern[str], name: object) -> str:
    text = str(name)
    if not pattern.fullmatch(text):
        raise StoreError(f"{text!r} is not the name of a stream or a micro-batch")
    return text


def _quote_name(name: str) -> str:
    # A leading dot would hide the file, and `..` would leave the folder.
    return urllib.parse.quote(name, safe="").replace(".", "%2E")[:200]
