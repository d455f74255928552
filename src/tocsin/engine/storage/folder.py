"""Objects as files of a folder, on a disk or a network file system that many machines mount.

An object is written to a temporary file beside it, whose name begins with a dot, and synced to
disk. Then it is renamed; or linked, if it must be absent, since creating a hard link is atomic and
never replaces a file. Then its folder is synced. Folders are created when they are needed, and
deleted with the last object in them.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from tocsin.engine.storage import Entry


class Folder:
    """The storage in a folder, which need not exist yet."""

    lists_from: ClassVar[bool] = False

    def __init__(self, path: str | os.PathLike[str]):
        # As it is now: whoever changes the working directory later still means this folder.
        self.path = Path(os.path.abspath(path))

    @property
    def identity(self) -> str:
        """The path without symbolic links."""
        return os.path.realpath(self.path)

    def locate(self, name: str = "") -> str:
        """Return the path of an object."""
        return str(self.path / name)

    # ------------------------------------------------------------ write

    def put(self, objects: Mapping[str, Iterable[Any]]) -> None:
        """Put objects; see `Storage.put`."""
        temporaries: list[Path] = []
        changed: set[Path] = set()
        try:
            for name, chunks in objects.items():
                temporaries.append(self._temporary(name))
                changed |= _write(temporaries[-1], chunks)
            for temporary, name in zip(temporaries, objects, strict=True):
                os.replace(temporary, self.path / name)
        except BaseException:
            for temporary in temporaries:
                self._remove(temporary)
            raise
        for folder in changed:
            _sync(folder)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one."""
        path, temporary = self.path / name, self._temporary(name)
        if os.path.lexists(path):
            return False
        try:
            changed = _write(temporary, [data])
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            self._remove(temporary)
        for folder in changed:
            _sync(folder)
        return True

    def _temporary(self, name: str) -> Path:
        return (self.path / name).parent / f".{uuid.uuid4().hex}"

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, and folders that become empty."""
        for name in names:
            self._remove(self.path / name)

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        with contextlib.suppress(OSError):  # the first that is not empty
            for folder in path.parents[: len(path.parts) - len(self.path.parts) - 1]:
                folder.rmdir()

    def sweep(self, prefix: str, age: float) -> None:
        """Delete old temporary files, and old folders that a writer left empty."""
        before = time.time() - age
        for folder, folders, files in os.walk(self.path / prefix, topdown=False):
            for name in filter(_is_hidden, files):
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime <= before:
                        self._remove(path)
            for name in folders:
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime <= before:
                        # Earlier Tocsins wrote segments to hidden folders.
                        shutil.rmtree(path) if _is_hidden(name) else path.rmdir()

    # ------------------------------------------------------------ read

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        with self._open(name) as source:
            return source.read()

    def map(self, name: str, checksum: str | None = None) -> memoryview:
        """Return an object's file, mapped into memory."""
        with self._open(name) as source:
            if not os.fstat(source.fileno()).st_size:  # nothing to map
                return memoryview(b"")
            return memoryview(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ))

    def _open(self, name: str) -> IO[bytes]:
        path = self.path / name
        with contextlib.suppress(NotADirectoryError):
            if stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe could block for ever
                return open(path, "rb")
        raise FileNotFoundError(f"{path} is missing, or is no file")

    def stat(self, name: str) -> Entry | None:
        """Return what is known of an object; None if there is none."""
        try:
            return _describe(name, os.stat(self.path / name))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, prefix: str, start: str = "") -> Sequence[Entry]:
        """Return the objects whose names begin with a prefix, from the name `start` on."""
        return sorted(self._walk(prefix, start))

    def _walk(self, prefix: str, start: str) -> Iterator[Entry]:
        try:
            found = os.scandir(self.path / prefix)
        except (FileNotFoundError, NotADirectoryError):
            return
        with found:
            for each in found:
                name = prefix + each.name
                if _is_hidden(each.name):
                    continue
                if each.is_dir():
                    yield from self._walk(f"{name}/", start)
                elif name >= start:
                    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                        yield _describe(name, each.stat())


def _describe(name: str, status: os.stat_result) -> Entry:
    stamp = f"{status.st_ino} {status.st_mtime_ns}"
    return Entry(name, status.st_size, status.st_mtime, stamp)


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _write(path: Path, chunks: Iterable[Any]) -> set[Path]:
    """Write and sync a new file; return the folders to sync when it has its name."""
    while True:
        try:
            changed = _create_folder(path.parent)
            out = open(path, "xb")  # noqa: SIM115
        except FileNotFoundError:  # the folder was empty, and somebody deleted it
            continue
        with out:
            for chunk in chunks:
                out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        return changed


def _create_folder(folder: Path) -> set[Path]:
    """Create a folder if it is missing; return the folders to sync when a file is in it."""
    if folder.is_dir():
        return {folder}
    changed = {folder} | _create_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder)) from None
    return changed


def _sync(folder: Path) -> None:
    """Sync the entries of a folder to disk, after files were created or renamed there."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:  # somebody deleted all that was in it
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
