"""The log of streams: which version of a store each micro-batch uses.

::

    log/<stream>/<batch>            the number of the version that the batch is *pinned* to
    log/<stream>/missing/<name>     an attribute that rules test and the stream has no column for
    log/<stream>/names/<name>       the name that the user gave the query, if any

The first task of a micro-batch pins it, put-if-absent. All other tasks, and every repetition of the
batch after a crash, read the pin. So a batch always sees the same version.

Spark repeats only batches in its checkpoint, by default the last 100
(`spark.sql.streaming.minBatchesToRetain`). The log keeps as many pins per stream, and deletes older
ones. Pinned versions are not pruned. A stream that will never run again keeps its pins until a user
unpins them.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tocsin.engine.segment_files import put_if_absent
from tocsin.errors import StoreError

PINS_KEPT = 100  # of each stream: as many batches as Spark's checkpoint keeps by default

_BATCH = re.compile(r"[0-9]+")
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
    """The log of a store: one folder per stream."""

    def __init__(self, folder: Path):
        self.folder = folder

    # ------------------------------------------------------------ for workers

    def pin(self, query: str, batch: str, latest: Callable[[], int]) -> int:
        """Return the version that a micro-batch is pinned to; pin it to the latest if it is not.

        Later calls return the same version, also when the batch is repeated.
        """
        entry = self._stream(query) / _check_name(_BATCH, batch)
        try:
            with contextlib.suppress(FileNotFoundError):
                return _read_version(entry)
            entry.parent.mkdir(parents=True, exist_ok=True)
            if put_if_absent(entry, b"%d\n" % latest()):
                self._forget_before(entry.parent, int(batch) - PINS_KEPT)
            return _read_version(entry)
        except OSError as error:
            raise StoreError(
                f"cannot record in {self.folder} which version this micro-batch uses: {error}; "
                "workers need read and write access to it"
            ) from None

    def report_missing(self, query: str, names: list[str]) -> list[str]:
        """Record attributes that a stream has no column for; return those not recorded before."""
        return _record_names(self._stream(query) / "missing", names)

    def report_name(self, query: str, name: str) -> None:
        """Record the name of a stream."""
        _record_names(self._stream(query) / "names", [name])

    @staticmethod
    def _forget_before(stream: Path, batch: int) -> None:
        if batch > 0:
            for entry in _entries(stream):
                if int(entry.name) <= batch:
                    entry.unlink(missing_ok=True)

    # ------------------------------------------------------------ for users

    def streams(self) -> list[StreamInfo]:
        """Return the streams that have used the store, the latest first."""
        infos = []
        for stream in self.folders():
            entries = sorted(_entries(stream), key=lambda entry: int(entry.name))
            if entries:
                infos.append(_describe_stream(stream, entries))
        return sorted(infos, key=lambda stream: stream.used, reverse=True)

    def folders(self) -> list[Path]:
        """Return the folders of all streams."""
        with contextlib.suppress(FileNotFoundError):
            return [entry for entry in self.folder.iterdir() if entry.is_dir()]
        return []

    def pinned(self) -> set[int]:
        """Return the versions that batches are pinned to."""
        return {version for stream in self.streams() for version in stream.pinned}

    def unpin(self, query: str, batch: int | None = None) -> None:
        """Unpin one batch of a stream, or all; a repeated batch then uses the current version."""
        stream = self._stream(query)
        known = [each.query for each in self.streams()]
        if query not in known:
            raise StoreError(
                f"stream {query!r} has no pinned batches; "
                + (f"streams with pinned batches: {', '.join(known[:5])}" if known else "none has")
            )
        if batch is None:
            shutil.rmtree(stream)
            return
        try:
            (stream / str(batch)).unlink()
        except FileNotFoundError:
            batches = sorted(int(entry.name) for entry in _entries(stream))
            raise StoreError(
                f"batch {batch} of stream {query} is not pinned; its pinned batches are "
                f"{batches[0]} to {batches[-1]}"
            ) from None

    def _stream(self, query: str) -> Path:
        return self.folder / _check_name(_PLAIN, query)


def _record_names(folder: Path, names: list[str]) -> list[str]:
    """Create an empty file for each name; return the names that had none."""
    fresh = []
    with contextlib.suppress(OSError):  # informative only: it must not stop a stream
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(folder / _quote_name(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                fresh.append(name)
    return fresh


def _recorded_names(folder: Path) -> list[str]:
    """Return the recorded names, the oldest first."""
    with contextlib.suppress(FileNotFoundError):
        files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        return [urllib.parse.unquote(file.name) for file in files]
    return []


def _describe_stream(stream: Path, entries: list[Path]) -> StreamInfo:
    last = entries[-1]
    names = _recorded_names(stream / "names")
    return StreamInfo(
        stream.name,
        int(last.name),
        _read_version(last),
        datetime.datetime.fromtimestamp(last.stat().st_mtime, datetime.UTC),
        tuple(sorted({_read_version(entry) for entry in entries})),
        tuple(sorted(_recorded_names(stream / "missing"))),
        names[-1] if names else "",
    )


def _entries(stream: Path) -> list[Path]:
    return [entry for entry in stream.iterdir() if _BATCH.fullmatch(entry.name)]


def _read_version(entry: Path) -> int:
    text = entry.read_bytes()
    try:
        return int(text)
    except ValueError:
        raise StoreError(
            f"{entry} is damaged: it should hold the number of a version, and holds {text[:40]!r}; "
            "delete the file, and the batch takes the current version"
        ) from None


def _check_name(pattern: re.Pattern[str], name: object) -> str:
    text = str(name)
    if not pattern.fullmatch(text):
        raise StoreError(f"{text!r} is not the name of a stream or a micro-batch")
    return text


def _quote_name(name: str) -> str:
    # A leading dot would hide the file, and `..` would leave the folder.
    return urllib.parse.quote(name, safe="").replace(".", "%2E")[:200]
