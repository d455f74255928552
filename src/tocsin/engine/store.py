"""The rule store as people use it: every change is a version that all others can see."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tocsin.engine.rules import Rules
from tocsin.engine.store_folder import StoreFolder, VersionInfo
from tocsin.engine.stream_log import StreamInfo
from tocsin.errors import StoreConflictError, StoreError

_TRIES = 50  # against other writers; each loses only to one that has published


@dataclass(frozen=True)
class Difference:
    """What changed from one version to another, by id in the order of addition."""

    added: list[Any]
    removed: list[Any]
    changed: list[Any]

    def __str__(self) -> str:
        parts = [
            f"{len(ids):,} {word}: {', '.join(map(str, ids[:10]))}{', ...' * (len(ids) > 10)}"
            for word, ids in vars(self).items()
            if ids
        ]
        return "\n".join(parts) or "no difference"


class RuleStore:
    """Rules in a folder, in numbered versions that never change.

    `add`, `replace`, `remove` and their like each publish a version and return its number;
    `change` publishes several changes as one. Writers do not wait for each other: whoever
    finds that another was first takes up the new version and repeats its change.

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
        self._folder.latest()
        self._rules: Rules | None = None  # those of the last publish, to go on from
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Any,
        index: str = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> RuleStore:
        """Make a store without rules; raise if there is one already."""
        if StoreFolder(path).numbers():
            raise StoreError(f"a rule store already exists at {path}")
        Rules(schema, index, options).save(path)
        return cls(path)

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self._folder.path

    @property
    def version(self) -> int:
        """The number of the current version."""
        return self._folder.latest()

    def versions(self) -> list[VersionInfo]:
        """Return the versions there are, oldest first."""
        return [self._folder.describe(number) for number in self._folder.numbers()]

    def rules(self, version: int | None = None) -> Rules:
        """Return the rules of a version, the current one if none is named; yours to change."""
        return Rules.open(self.path, version)

    def diff(self, old: int, new: int | None = None) -> Difference:
        """Return what changed from one version to another, the current one if none is named."""
        (before, _), (after, _) = self._folder.open(old), self._folder.open(new)
        then, now = before.positions(), after.positions()
        gone = dict.fromkeys(before.directory.ids_at(np.setdiff1d(then, now)).to_pylist())
        come = dict.fromkeys(after.directory.ids_at(np.setdiff1d(now, then)).to_pylist())
        return Difference(
            [i for i in come if i not in gone],
            [i for i in gone if i not in come],
            [i for i in come if i in gone],
        )

    def prune(self, keep: int = 10) -> list[int]:
        """Delete all versions but the last `keep`; return the numbers of those deleted.

        Versions that a stream may still need, since its log pins a micro-batch to them, stay; see
        `streams` and `unpin`.
        """
        if type(keep) is not int or keep < 1:
            raise StoreError(f"keep must be an integer, 1 or more; got {keep!r}")
        return self._folder.prune(keep)

    def streams(self) -> list[StreamInfo]:
        """Return the streams that have used these rules live, the latest first."""
        return self._folder.log.streams()

    def unpin(self, query: str, batch: int | None = None) -> None:
        """Release a micro-batch of a stream from the version that it is pinned to, or all of them.

        A batch that is repeated after that uses the current version. For emergencies: a batch that
        fails again and again because of the version it is pinned to, or a stream that will never
        run again and keeps old versions from being pruned. While the stream runs, tasks of one
        batch could see two versions; stop it first.
        """
        self._folder.log.unpin(query, batch)

    # ------------------------------------------------------------ change

    @contextlib.contextmanager
    def change(self) -> Iterator[Rules]:
        """Give the current rules to be changed, and publish them as one version afterwards.

        Nothing is published if what is inside fails, or if someone else publishes meanwhile.
        """
        rules = self._current()
        yield rules
        rules.save(self.path)

    def add(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> int:
        """Add a rule; see `Rules.add`."""
        return self.publish(lambda rules: rules.add(id, where, weights, payload))

    def replace(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> int:
        """Replace a rule; see `Rules.replace`."""
        return self.publish(lambda rules: rules.replace(id, where, weights, payload))

    def add_many(self, table: Any) -> int:
        """Add the rules of a table; see `Rules.add_many`."""
        return self.publish(lambda rules: rules.add_many(table))

    def remove(self, id: Any) -> int:
        """Remove a rule."""
        return self.publish(lambda rules: rules.remove(id))

    def remove_many(self, ids: Iterable[Any]) -> int:
        """Remove rules by id."""
        # A generator would be empty when the change is repeated.
        several = list(ids) if isinstance(ids, Iterator) else ids
        return self.publish(lambda rules: rules.remove_many(several))

    def merge(self) -> int:
        """Publish a version with one base of all rules."""
        return self.publish(Rules.merge)

    def tune(self, events: Any) -> int:
        """Publish a version whose index has learnt from events; see `Rules.tune`."""
        return self.publish(lambda rules: rules.tune(events))

    def publish(self, change: Callable[[Rules], None]) -> int:
        """Publish what a function does to the current rules, and return the version's number.

        If someone else publishes meanwhile, it is called again, with their rules.
        """
        for _ in range(_TRIES):
            rules = self._current()
            change(rules)
            try:
                number = rules.save(self.path)
            except StoreConflictError:
                continue
            self._rules = rules
            return number
        raise StoreConflictError(
            f"{self.path}: other writers were faster {_TRIES} times; try again"
        )

    def _current(self) -> Rules:
        """Return the current rules, which nobody else has; what fails half-way is forgotten."""
        with self._lock:
            rules, self._rules = self._rules, None
        if rules is None or rules.version != self.version:
            rules = self.rules()
        return rules

    def __repr__(self) -> str:
        return f"RuleStore({str(self.path)!r}, version {self.version})"
