"""The version files of a store: which version readers follow, and how writers add to them.

Readers follow the highest number. A writer puts its version at the number after its parent's, if
that is absent; the second of two writers finds it taken. Prune deletes versions below the highest
number only, so the highest number that was ever put is always present. But it makes lower numbers
free again, and a writer that was stopped for long may put its version at one of them, where no
reader looks. So every version lists the checksums of the versions before it
(`VersionFile.history`), and after putting a version, its writer checks that it did not come too
late:

- If no number is higher, readers follow this version.
- If one is, the writer of that version had found its parent to be the highest. So all checksums
  that it lists are of versions that readers followed, one of each number. If this version's
  checksum is listed, it was published. Otherwise the writer deletes it again, and gets an error.

This takes nothing but put-if-absent, read, list and delete, and listings that show what was put
before. It uses no clocks, and it does not matter where writers crash or how long they are stopped.
If a writer crashes before it has checked, its version is followed, or lies below those that are,
until somebody prunes. If more versions than a history lists are published and pruned before it
checks, it gets an error that says that the outcome is unknown. Earlier Tocsins wrote versions
without a history, and do not check: they should not write to a store that others prune.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path

from tocsin.engine.segment_files import damage_error, put_if_absent
from tocsin.engine.version_file import VersionFile, checksum_of, parse
from tocsin.errors import StoreConflictError, StoreError

_NAME = re.compile(r"([0-9]{8,})\.json")


class VersionFolder:
    """The numbered version files of a store."""

    def __init__(self, store: Path):
        self._store = store
        self.path = store / "versions"

    # ------------------------------------------------------------ read

    def numbers(self) -> list[int]:
        """Return the numbers of all versions, ascending."""
        try:
            name_matches = map(_NAME.fullmatch, os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._read_error(error) from None
        return sorted(int(match[1]) for match in name_matches if match)

    def latest(self) -> int:
        """Return the number of the current version; raise if there is no store."""
        numbers = self.numbers()
        if not numbers:
            raise StoreError(f"there is no rule store at {self._store}")
        return numbers[-1]

    def path_of(self, number: int) -> Path:
        """Return the path of a version file."""
        return self.path / f"{number:08d}.json"

    def stamp(self, number: int) -> tuple[int, int] | None:
        """Return a stamp that differs for a version of the same number in a re-created store."""
        try:
            status = os.stat(self.path_of(number))
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def read(self, number: int) -> VersionFile:
        """Return a version; raise if there is none, or it is damaged."""
        if type(number) is not int:
            raise StoreError(f"a version is a number, got {type(number).__name__} {number!r}")
        path = self.path_of(number)
        try:
            if not path.is_file():  # reading a pipe, for example, could block
                raise FileNotFoundError
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(map(str, self.numbers()[-5:])) or "none"
            raise StoreError(
                f"{self._store} has no version {number}; the latest versions are {known}"
            ) from None
        except OSError as error:
            raise self._read_error(error) from None
        file = parse(path, data)
        if file.number != number:
            raise damage_error(path, f"it is version {file.number}")
        return file

    def find(self, number: int) -> VersionFile | None:
        """Return a version that was listed; None if it has been pruned since."""
        try:
            return self.read(number)
        except StoreError:
            if os.path.lexists(self.path_of(number)):
                raise
            return None

    def read_latest(self) -> VersionFile | None:
        """Return the current version; None if there is no store."""
        while numbers := self.numbers():
            file = self.find(numbers[-1])
            if file is not None:
                return file
        return None

    def _read_error(self, error: OSError) -> StoreError:
        return StoreError(f"the rule store at {self._store} cannot be read: {error}")

    # ------------------------------------------------------------ put

    def put(self, file: VersionFile, parent: VersionFile | None) -> VersionFile:
        """Put a version; return it with its checksum. Raise if another writer was faster."""
        file = replace(file, history=parent.extended_history() if parent else ())
        path, data = self.path_of(file.number), file.to_bytes()
        file = replace(file, checksum=checksum_of(data))
        was_put = put_if_absent(path, data)
        # Also if it was not: an earlier try that seemed to fail may have put it.
        if self._is_followed(file, was_put):
            return file
        if was_put:
            with contextlib.suppress(StoreError):  # if others have pruned it
                if self.read(file.number).checksum == file.checksum:
                    path.unlink(missing_ok=True)
        raise self.conflict(file.number - 1, self.latest())

    def _is_followed(self, file: VersionFile, was_put: bool) -> bool:
        """Return whether readers follow a version, or later ones that are based on it."""
        while True:
            numbers = self.numbers()
            higher = min((n for n in numbers if n > file.number), default=None)
            if higher is None and file.number not in numbers:
                return False  # the store was deleted
            other = self.find(higher or file.number)
            if other is None:
                continue
            if higher is None:
                return other.checksum == file.checksum
            if other.knows(file.number):
                return other.follows(file)
            if not was_put:
                return False
            raise StoreError(
                f"{self._store} is now at version {self.latest()}: this process was stopped for so "
                f"long while it published version {file.number} that it cannot tell whether later "
                "versions are based on it; open the store, and repeat the change if it is missing"
            )

    def conflict(self, known: int, now: int) -> StoreConflictError:
        """Return the error for rules that were opened at another version than the current one."""
        return StoreConflictError(
            f"{self._store} is now at version {now}, but these rules were opened at version "
            f"{known}; open the store again and repeat the change"
        )
