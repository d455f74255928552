"""Objects in memory, for tests and for versions that are packed into one file."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from tocsin.engine.storage import Entry


class Memory:
    """A storage of one process; threads may share it."""

    lists_from: ClassVar[bool] = False

    def __init__(self, objects: Mapping[str, bytes] | None = None):
        self.identity = f"memory {uuid.uuid4().hex}"
        self._objects: dict[str, tuple[bytes, Entry]] = {}
        self._stamps = itertools.count()
        self._lock = threading.Lock()
        self.put({name: [data] for name, data in (objects or {}).items()})

    def locate(self, name: str = "") -> str:
        """Return how to call an object in messages."""
        return f"memory/{name}" if name else "memory"

    def put(self, objects: Mapping[str, Iterable[Any]]) -> None:
        """Put objects; see `Storage.put`."""
        for name, chunks in objects.items():
            self._put(name, b"".join(chunks))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one."""
        with self._lock:
            return name not in self._objects and self._put(name, data)

    def _put(self, name: str, data: bytes) -> bool:
        entry = Entry(name, len(data), time.time(), str(next(self._stamps)))
        self._objects[name] = data, entry
        return True

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        try:
            return self._objects[name][0]
        except KeyError:
            raise FileNotFoundError(f"{self.locate(name)} is not there") from None

    def map(self, name: str, checksum: str | None = None) -> memoryview:
        """Return an object's bytes as a read-only buffer."""
        return memoryview(self.read(name))

    def stat(self, name: str) -> Entry | None:
        """Return what is known of an object; None if there is none."""
        return self._objects.get(name, (b"", None))[1]

    def list(self, prefix: str, start: str = "") -> Sequence[Entry]:
        """Return the objects whose names begin with a prefix, from the name `start` on."""
        names = [n for n in list(self._objects) if n.startswith(prefix) and n >= start]
        return [entry for name in sorted(names) if (entry := self.stat(name))]

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects."""
        for name in names:
            self._objects.pop(name, None)

    def sweep(self, prefix: str, age: float) -> None:
        """Do nothing: a put that fails leaves nothing."""
