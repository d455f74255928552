"""Objects below a URL: in a bucket of Amazon S3 or what has its protocol, of Google Cloud Storage,
or in a container of Azure, through obstore.

Put-if-absent is a conditional request of the object store. If an answer is lost, obstore repeats
the request, and the second may find what the first has put; callers expect that (`Storage`).
Whoever creates a store finds out whether its object store refuses a second put at all.

Credentials come from the environment of each process (`AWS_ACCESS_KEY_ID` and the like), or from
the machine's role. So a URL is all that is pickled, stored and sent to workers, and one that
contains a password is refused.

`map` keeps objects whose checksum the caller knows in a local folder, named by the checksum, and
maps them from there. So the network is asked for a segment once for all processes of a machine. A
file is used if its size is right, since only what had the checksum was put there, and only a
folder that the user owns is trusted. Files that no process has opened for a day are deleted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tocsin.engine.storage import BUCKETS, Entry
from tocsin.engine.storage.folder import Folder
from tocsin.errors import StoreError
from tocsin.jit import cache_roots

_DAY = 24 * 3600.0
_ANSWER = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_LARGEST_MESSAGE = 500


class Bucket:
    """The storage below a URL such as `s3://bucket/folder`; equal URLs share connections."""

    lists_from: ClassVar[bool] = True

    def __init__(self, url: str):
        self.url = _normalise(url)
        self._process = os.getpid()
        self._objects = _connect(self.url)

    @property
    def identity(self) -> str:
        """The URL."""
        return self.url

    def locate(self, name: str = "") -> str:
        """Return the URL of an object."""
        return f"{self.url}/{name}" if name else self.url

    def __reduce__(self) -> tuple[Any, ...]:
        return Bucket, (self.url,)

    # ------------------------------------------------------------ write

    def put(self, objects: Mapping[str, Iterable[Any]]) -> None:
        """Put objects; see `Storage.put`."""
        with self._requests() as obstore:
            for name, chunks in objects.items():
                obstore.put(self._objects, name, b"".join(map(memoryview, chunks)))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one."""
        with self._requests() as obstore:
            try:
                obstore.put(self._objects, name, data, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects."""
        with self._requests() as obstore:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._objects, name)

    def sweep(self, prefix: str, age: float) -> None:
        """Do nothing: an upload that failed shows nothing; a rule of the bucket can delete it."""

    # ------------------------------------------------------------ read

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        with self._requests() as obstore:
            return bytes(obstore.get(self._objects, name).bytes())

    def map(self, name: str, checksum: str | None = None) -> memoryview:
        """Return an object's bytes, if the checksum is given those of a local copy."""
        folder = checksum and _local_copies()
        if not folder or not checksum:
            return memoryview(self.read(name))
        copies, file = Folder(folder), f"{checksum[:2]}/{checksum}"
        try:
            mapped = copies.map(file)
            os.utime(copies.path / file)
            return mapped
        except OSError:
            data = self.read(name)
        if hashlib.sha256(data).hexdigest() != checksum:
            return memoryview(data)  # the caller says what is wrong
        try:
            copies.put({file: [data]})
            _delete_unused(copies.path)
            return copies.map(file)
        except OSError:  # a full disk must not stop a stream
            return memoryview(data)

    def stat(self, name: str) -> Entry | None:
        """Return what is known of an object; None if there is none."""
        with self._requests() as obstore:
            try:
                return _describe(obstore.head(self._objects, name))
            except FileNotFoundError:
                return None

    def list(self, prefix: str, start: str = "") -> Sequence[Entry]:
        """Return the objects whose names begin with a prefix, from the name `start` on."""
        # Object stores list what is after a name; what is before `start` here is dropped.
        after = start[:-1] if start.startswith(prefix) else ""
        with self._requests() as obstore:
            blocks = obstore.list(
                self._objects, prefix=prefix or None, offset=after or None, chunk_size=1000
            )
            found = [_describe(each) for block in blocks for each in block]
        return sorted(e for e in found if e.name.startswith(prefix) and e.name >= start)

    @contextlib.contextmanager
    def _requests(self) -> Iterator[Any]:
        """Yield obstore, and translate its errors into an OSError without its inner workings."""
        if self._process != os.getpid():
            raise OSError(
                f"{self.url} was opened before this process was forked, and connections do not "
                "survive that; open it here, or start processes with 'spawn'"
            )
        obstore = _import_obstore()
        try:
            yield obstore
        except FileNotFoundError as error:
            answer = _message(error)
            kind: Any = OSError if "NoSuchBucket" in answer else FileNotFoundError
            raise kind(answer) from None
        except obstore.exceptions.BaseError as error:
            raise OSError(_message(error)) from None


def _describe(found: Mapping[str, Any]) -> Entry:
    modified = found["last_modified"].timestamp()
    return Entry(found["path"], found["size"], modified, f"{found['e_tag']} {modified}")


def _message(error: Exception) -> str:
    """Return what an object store has answered, or the first paragraph of an error."""
    text = str(error)
    answer = _ANSWER.search(text)
    text = f"{answer[1]}: {answer[2]}" if answer else text.partition("\n\n")[0]
    return text if len(text) <= _LARGEST_MESSAGE else f"{text[:_LARGEST_MESSAGE]}..."


# ------------------------------------------------------------ connections


def _normalise(url: str) -> str:
    """Return a URL in the form that identifies the store."""
    parts = urllib.parse.urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        plain = f"{parts.scheme}://{parts.hostname}{parts.path}"
        raise StoreError(
            f"{plain}: the URL of a store is a bucket and a folder only, and credentials come "
            "from the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    path = "/".join(part for part in parts.path.split("/") if part)
    if not parts.netloc or any(part in (".", "..") for part in path.split("/")):
        raise StoreError(f"{url!r} is not the URL of a bucket, such as s3://bucket/folder")
    return f"{BUCKETS[parts.scheme]}://{parts.netloc}/{path}".rstrip("/")


def _import_obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise StoreError(
            "stores on object stores need the package obstore: pip install 'tocsin[cloud]'"
        ) from None
    return obstore


def _connect(url: str) -> Any:
    """Return the connections to a bucket, which all that this process opens there share."""
    return _connect_in(os.getpid(), url)


@functools.lru_cache(maxsize=64)
def _connect_in(process: int, url: str) -> Any:
    obstore = _import_obstore()
    from obstore.store import from_url

    try:
        return from_url(url)
    except (obstore.exceptions.BaseError, ValueError) as error:
        raise StoreError(f"{url}: {_message(error)}") from None


# ------------------------------------------------------------ local copies


@functools.cache
def _local_copies() -> Path | None:
    """Return the folder for local copies: beside compiled kernels; None if none can be used."""
    for root in cache_roots():
        folder = root / "segments"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
            if status.st_uid == os.getuid() and not status.st_mode & 0o022:
                return folder
    return None


def _delete_unused(folder: Path) -> None:
    """Delete copies that were not opened for a day; who has mapped one keeps it."""
    limit = time.time() - _DAY
    for file in folder.glob("*/*"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < limit:
                file.unlink()
