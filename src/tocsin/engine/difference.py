"""What changed from one version of a store to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tocsin.engine.store_folder import VersionInfo
from tocsin.engine.version import Rule, Version
from tocsin.errors import shorten

_MOST_SHOWN = 10  # ids of each kind, chosen: they fit a screen
_LONGEST = 200  # characters of a condition, chosen


@dataclass(frozen=True)
class Difference:
    """What changed from one version to another, by id in the order of addition.

    `before` and `after` hold the rules: `diff.before["gold"].where`.
    """

    added: list[Any]
    removed: list[Any]
    changed: list[Any]
    versions: list[VersionInfo]  # those after the older one, up to the newer one
    before: Version = field(repr=False)
    after: Version = field(repr=False)

    def __str__(self) -> str:
        lines = [_describe_version(v) for v in self.versions if v.author or v.message]
        groups = {"added": self.added, "removed": self.removed, "changed": self.changed}
        differences = [
            f"{len(ids):,} {word}: {', '.join(map(str, ids[:_MOST_SHOWN]))}"
            + ", ..." * (len(ids) > _MOST_SHOWN)
            for word, ids in groups.items()
            if ids
        ]
        for id_ in self.changed[:_MOST_SHOWN]:
            differences += _describe_change(self.before[id_], self.after[id_])
        return "\n".join(lines + (differences or ["no difference"]))


def compare(before: Version, after: Version, versions: list[VersionInfo]) -> Difference:
    """Return what changed from one version to another."""
    then, now = before.positions(), after.positions()
    old_ids = dict.fromkeys(before.directory.ids_at(np.setdiff1d(then, now)).to_pylist())
    new_ids = dict.fromkeys(after.directory.ids_at(np.setdiff1d(now, then)).to_pylist())
    return Difference(
        [i for i in new_ids if i not in old_ids],
        [i for i in old_ids if i not in new_ids],
        [i for i in new_ids if i in old_ids],
        versions,
        before,
        after,
    )


def _describe_version(version: VersionInfo) -> str:
    by = f" by {version.author}" if version.author else ""
    message = f": {version.message}" if version.message else ""
    return f"version {version.number}{by}{message}"


def _describe_change(before: Rule, after: Rule) -> Iterator[str]:
    """Yield a line for each part of a rule that changed."""
    names = [each.name for each in fields(Rule)]
    changed = [name for name in names if getattr(before, name) != getattr(after, name)]
    for name in changed:
        what = "" if name == "where" else f" {name}"
        old, new = (_to_text(getattr(rule, name)) for rule in (before, after))
        yield f"  {after.id}{what}: {old} -> {new}"
    if not changed:
        yield f"  {after.id}: removed and added again"


def _to_text(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, _LONGEST)
