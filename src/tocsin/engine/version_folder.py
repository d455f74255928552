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

A listing of all versions takes half a second after a million of them. So some numbers are marked,
by empty objects `latest/<number>`: each was once the highest, and from the highest mark on, no
number is missing, because prune marks the highest number before it deletes any. From there the
highest is found by trying whether numbers are present, with steps that double and then halve. If
the mark is still the highest afterwards, nothing was deleted meanwhile from it on. Numbers below
the mark are listed, and so are those of a store without marks, or whose marked version is missing:
Tocsins that did not mark have written it, or pruned it.

Object stores can list from a name on, so there whoever has seen the highest number lists from it.
A listing may lack a version that was deleted meanwhile, and the higher one that was put before
that. So here, too, the mark must be the one that was seen before.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tocsin.engine.segment_files import damage_error
from tocsin.engine.storage import Storage
from tocsin.engine.version_file import VersionFile, checksum_of, parse
from tocsin.errors import StoreConflictError, StoreError

_VERSION = re.compile(r"versions/([0-9]{8,})\.json")
_MARK = re.compile(r"latest/([0-9]{8,})")
_MARK_EVERY = 1000  # versions, chosen: as many as object stores list in one answer


class VersionFolder:
    """The numbered version files of a store."""

    def __init__(self, storage: Storage):
        self._storage = storage
        # Where `lists_from`: the highest number and the highest mark that were seen.
        self._known, self._mark_seen = 0, -1

    # ------------------------------------------------------------ read

    def numbers(self, start: int = 0) -> Sequence[int]:
        """Return the numbers of all versions from `start` on, ascending."""
        if self._storage.lists_from:
            while True:
                found = sorted(self._list(_VERSION, self.name_of(start)))
                before, self._mark_seen = self._mark_seen, self._marks()[-1]
                if self._mark_seen == before:
                    return found
        mark = self._marks()[-1]
        while start >= mark > 0 and not self._is_missing(mark):
            count = self._count_from(start)
            mark, before = self._marks()[-1], mark
            if mark == before:
                return range(start, start + count)
        return sorted(number for number in self._list(_VERSION) if number >= start)

    def _count_from(self, start: int) -> int:
        """Return how many numbers from `start` on are present, if none of them is missing."""
        step = 1
        while not self._is_missing(start + step - 1):
            step *= 2
        low = step // 2
        return low + bisect.bisect_left(
            range(low, step - 1), True, key=lambda count: self._is_missing(start + count)
        )

    def _is_missing(self, number: int) -> bool:
        with self._translate_errors():
            return self._storage.stat(self.name_of(number)) is None

    def _marks(self) -> list[int]:
        """Return all marked numbers, 0 for none, ascending."""
        return sorted([0, *self._list(_MARK)])

    def _list(self, pattern: re.Pattern[str], start: str = "") -> list[int]:
        """Return the numbers in the names of a kind of objects, from a name on."""
        prefix, _, _ = pattern.pattern.rpartition("/")
        with self._translate_errors():
            names = [entry.name for entry in self._storage.list(f"{prefix}/", start)]
        return [int(match[1]) for match in map(pattern.fullmatch, names) if match]

    def find_latest(self) -> int | None:
        """Return the number of the current version; None if there is no store."""
        start = self._known if self._storage.lists_from else 0
        numbers = self.numbers(start or self._marks()[-1]) or self.numbers()
        self._known = numbers[-1] if numbers else 0
        return self._known or None

    def latest(self) -> int:
        """Return the number of the current version; raise if there is no store."""
        number = self.find_latest()
        if number is None:
            raise StoreError(f"there is no rule store at {self._storage.locate()}")
        return number

    @staticmethod
    def name_of(number: int) -> str:
        """Return the name of a version file."""
        return f"versions/{number:08d}.json"

    def place_of(self, number: int) -> str:
        """Return how to call a version file in messages."""
        return self._storage.locate(self.name_of(number))

    def stamp(self, number: int) -> str | None:
        """Return a stamp that differs for a version of the same number in a re-created store."""
        entry = self._storage.stat(self.name_of(number))
        return entry and entry.stamp

    def read(self, number: int) -> VersionFile:
        """Return a version; raise if there is none, or it is damaged."""
        if type(number) is not int:
            raise StoreError(f"a version is a number, got {type(number).__name__} {number!r}")
        with self._translate_errors():
            try:
                data = self._storage.read(self.name_of(number))
            except FileNotFoundError:
                known = ", ".join(map(str, self.numbers()[-5:])) or "none"
                raise StoreError(
                    f"{self._storage.locate()} has no version {number}; the latest versions are "
                    f"{known}"
                ) from None
        place = self.place_of(number)
        file = parse(place, data)
        if file.number != number:
            raise damage_error(place, f"it is version {file.number}")
        return file

    def find(self, number: int) -> VersionFile | None:
        """Return a version that was listed; None if it has been pruned since."""
        try:
            return self.read(number)
        except StoreError:
            if not self._is_missing(number):
                raise
            return None

    def read_latest(self) -> VersionFile | None:
        """Return the current version; None if there is no store."""
        while (number := self.find_latest()) is not None:
            file = self.find(number)
            if file is not None:
                return file
        return None

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate system errors while reading into a StoreError."""
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"the rule store at {self._storage.locate()} cannot be read: {error}"
            ) from None

    # ------------------------------------------------------------ put

    def put(self, file: VersionFile, parent: VersionFile | None) -> VersionFile:
        """Put a version; return it with its checksum. Raise if another writer was faster."""
        file = replace(file, history=parent.extended_history() if parent else ())
        name, data = self.name_of(file.number), file.to_bytes()
        file = replace(file, checksum=checksum_of(data))
        mark = self._marks()[-1]
        if mark == 0 or file.number - mark > _MARK_EVERY:
            self._mark(parent.number if parent else file.number)
        was_put = self._storage.put_if_absent(name, data)
        # Also if it was not: an earlier try that seemed to fail may have put it.
        if self._is_followed(file, was_put):
            return file
        if was_put:
            with contextlib.suppress(StoreError):  # if others have pruned it
                if self.read(file.number).checksum == file.checksum:
                    self._storage.delete([name])
        raise self.conflict(file.number - 1, self.latest())

    def _mark(self, number: int) -> None:
        """Mark a number that was the highest, and of which all that are higher are present."""
        lower = [mark for mark in self._marks() if mark < number]
        self._storage.put_if_absent(_name_of_mark(number), b"")
        self._storage.delete(map(_name_of_mark, lower))

    def _is_followed(self, file: VersionFile, was_put: bool) -> bool:
        """Return whether readers follow a version, or later ones that are based on it."""
        while True:
            numbers = self.numbers(file.number)
            higher = next((n for n in numbers if n > file.number), None)
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
                f"{self._storage.locate()} is now at version {self.latest()}: this process was "
                f"stopped for so long while it published version {file.number} that it cannot tell "
                "whether later versions are based on it; open the store, and repeat the change if "
                "it is missing"
            )

    def conflict(self, known: int, now: int) -> StoreConflictError:
        """Return the error for rules that were opened at another version than the current one."""
        return StoreConflictError(
            f"{self._storage.locate()} is now at version {now}, but these rules were opened at "
            f"version {known}; open the store again and repeat the change"
        )

    # ------------------------------------------------------------ delete

    def delete(self, numbers: Iterable[int], latest: int) -> None:
        """Delete versions below the latest one."""
        self._mark(latest)
        self._storage.delete(map(self.name_of, numbers))


def _name_of_mark(number: int) -> str:
    return f"latest/{number:08d}"
