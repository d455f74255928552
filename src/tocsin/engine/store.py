"""The public API of rule stores: every change publishes a version that all readers can see."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tocsin.engine.difference import Difference, compare
from tocsin.engine.rules import Rules
from tocsin.engine.store_folder import TRIES, StoreFolder, VersionInfo
from tocsin.engine.stream_log import StreamInfo
from tocsin.errors import StoreConflictError, StoreError


class RuleStore:
    """Rules in a folder, in numbered versions that never change.

    `add`, `replace`, `remove` and the like each publish a version and return its number;
    `change` publishes several changes as one version. Writers do not wait for each other: a writer
    that comes second repeats its change on top of the new version.

    >>> import tempfile
    >>> store = RuleStore.create(tempfile.mkdtemp() + "/rules", {"x": "number"})
    >>> store.add("high", "x > 5")
    2
    >>> with store.change() as rules:
    ...     rules.add("low", "x < 1")
    ...     rules.remove("high")
    >>> print(store.diff(2))
    1 added: low
    1 removed: high
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._folder = StoreFolder(path)
        self._folder.versions.latest()
        self._rules: Rules | None = None  # those of the last publish, reused by the next
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Any,
        index: str = "auto",
        options: Mapping[str, Any] | None = None,
        point: tuple[str, str] | None = None,
    ) -> RuleStore:
        """Create a store without rules; raise if there is one already. See `Rules`."""
        if StoreFolder(path).versions.find_latest() is not None:
            raise StoreError(f"a rule store already exists at {path}")
        Rules(schema, index, options, point).save(path)
        return cls(path)

    @property
    def path(self) -> Path | str:
        """The store's folder, or its URL."""
        return self._folder.path

    @property
    def version(self) -> int:
        """The number of the current version."""
        return self._folder.versions.latest()

    def versions(self) -> list[VersionInfo]:
        """Return all versions, oldest first."""
        return self._folder.describe(self._folder.versions.numbers())

    def rules(self, version: int | None = None) -> Rules:
        """Return the rules of a version, by default the current one; changes are private."""
        return Rules.open(self._folder.storage, version)

    def diff(self, old: int, new: int | None = None) -> Difference:
        """Return what changed from one version to another, by default the current one."""
        (before, _), (after, origin) = self._folder.open(old), self._folder.open(new)
        first, last = sorted((old, origin.version))
        between = [number for number in self._folder.versions.numbers(first + 1) if number <= last]
        return compare(before, after, self._folder.describe(between))

    def prune(self, keep: int = 10) -> list[int]:
        """Delete all versions but the last `keep`; return the numbers of those deleted.

        Versions that a stream may still need are kept: its log pins micro-batches to them. See
        `streams` and `unpin`. Files of writers that failed are deleted after an hour.
        """
        if type(keep) is not int or keep < 1:
            raise StoreError(f"keep must be an integer, 1 or more; got {keep!r}")
        return self._folder.prune(keep)

    def streams(self) -> list[StreamInfo]:
        """Return the streams that have used live rules of this store, the latest first."""
        return self._folder.log.streams()

    def unpin(self, query: str, batch: int | None = None) -> None:
        """Unpin one micro-batch of a stream from its version, or all of them.

        If the batch is repeated, it uses the current version. For emergencies: a batch that keeps
        failing because of the version it is pinned to, or a stream that will never run again and
        keeps old versions from being pruned. Stop the stream first: otherwise tasks of one batch
        could see two versions.
        """
        self._folder.log.unpin(query, batch)

    # ------------------------------------------------------------ change

    @contextlib.contextmanager
    def change(self, author: str | None = None, message: str | None = None) -> Iterator[Rules]:
        """Yield the current rules to change, and publish them as one version afterwards.

        Nothing is published if the block raises or changes nothing, or if another writer publishes
        meanwhile.
        """
        rules = self._current()
        yield rules
        rules.save(self._folder.storage, author, message)

    def add(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
        at_least: float | None = None,
        score: float | None = None,
    ) -> int:
        """Add a rule; see `Rules.add`."""
        settings = (weights, payload, at_least, score)
        return self.publish(lambda rules: rules.add(id, where, *settings))

    def replace(
        self,
        id: Any,
        where: str | None = None,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
        at_least: float | None = None,
        score: float | None = None,
    ) -> int:
        """Replace a rule; see `Rules.replace`."""
        settings = (weights, payload, at_least, score)
        return self.publish(lambda rules: rules.replace(id, where, *settings))

    def add_many(self, table: Any) -> int:
        """Add the rules of a table; see `Rules.add_many`."""
        return self.publish(lambda rules: rules.add_many(table))

    def sync(self, table: Any, author: str | None = None, message: str | None = None) -> int:
        """Make the rules those of a table; only what differs is changed. See `Rules.sync`."""
        return self.publish(lambda rules: rules.sync(table), author, message)

    def rollback(self, version: int, author: str | None = None, message: str | None = None) -> int:
        """Publish the rules of an older version again, as the next one."""
        message = f"back to version {version}" if message is None else message
        for _ in range(TRIES):
            try:
                return self._folder.publish_again(version, author, message)
            except StoreConflictError:
                continue
        raise self._too_slow()

    def remove(self, id: Any) -> int:
        """Remove a rule."""
        return self.publish(lambda rules: rules.remove(id))

    def remove_many(self, ids: Iterable[Any]) -> int:
        """Remove rules by id."""
        # A generator would be empty when the change is repeated.
        id_list = list(ids) if isinstance(ids, Iterator) else ids
        return self.publish(lambda rules: rules.remove_many(id_list))

    def merge(self) -> int:
        """Publish a version whose rules are merged; see `Rules.merge`."""
        return self.publish(Rules.merge)

    def tune(self, events: Any) -> int:
        """Publish a version whose index is tuned to events; see `Rules.tune`."""
        return self.publish(lambda rules: rules.tune(events))

    def publish(
        self,
        change: Callable[[Rules], None],
        author: str | None = None,
        message: str | None = None,
    ) -> int:
        """Apply a function to the current rules, publish them, and return the version's number.

        If another writer publishes meanwhile, the function is called again with the new rules. If
        it changes nothing, nothing is published. `author` and `message` are shown by `versions`
        and `diff`.
        """
        for _ in range(TRIES):
            rules = self._current()
            change(rules)
            try:
                number = rules.save(self._folder.storage, author, message)
            except StoreConflictError:
                continue
            self._rules = rules
            return number
        raise self._too_slow()

    def _too_slow(self) -> StoreConflictError:
        return StoreConflictError(
            f"{self.path}: other writers were faster {TRIES} times; try again"
        )

    def _current(self) -> Rules:
        """Return the current rules for one change; a change that fails discards them."""
        with self._lock:
            rules, self._rules = self._rules, None
        if rules is None or rules.version != self.version:
            rules = self.rules()
        return rules

    def __reduce__(self) -> tuple[Any, ...]:
        return RuleStore, (self.path,)

    def __repr__(self) -> str:
        return f"RuleStore({str(self.path)!r}, version {self.version})"
