"""Tocsin: standing queries. Index the conditions, stream the events past them.

The public names are loaded when first used: `import tocsin` alone imports neither
Numba, Arrow nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocsin.errors import (
    ConditionError,
    ConditionWarning,
    CoverError,
    EventError,
    EventWarning,
    MonitorError,
    RoutingError,
    RuleError,
    SchemaError,
    ShapeError,
    SimilarityError,
    SimilarityWarning,
    StoreConflictError,
    StoreError,
    TocsinError,
    UncertainError,
    UnknownRuleError,
)

if TYPE_CHECKING:
    from tocsin.engine.explain import Explanation
    from tocsin.engine.report import Plan
    from tocsin.engine.rules import Rules
    from tocsin.engine.store import RuleStore
    from tocsin.engine.version import Rule, Version
    from tocsin.model.matches import Counters, Matches
    from tocsin.model.schema import Schema
    from tocsin.moving.monitor import Monitor

__version__ = "0.1.0"

__all__ = [
    "ConditionError",
    "ConditionWarning",
    "Counters",
    "CoverError",
    "EventError",
    "EventWarning",
    "Explanation",
    "Matches",
    "Monitor",
    "MonitorError",
    "Plan",
    "RoutingError",
    "Rule",
    "RuleError",
    "RuleStore",
    "Rules",
    "Schema",
    "SchemaError",
    "ShapeError",
    "SimilarityError",
    "SimilarityWarning",
    "StoreConflictError",
    "StoreError",
    "TocsinError",
    "UncertainError",
    "UnknownRuleError",
    "Version",
    "open",
]

_PACKAGES = ("covering", "moving", "routing", "similarity", "uncertain")

_HOMES = {
    "Counters": "tocsin.model.matches",
    "Explanation": "tocsin.engine.explain",
    "Matches": "tocsin.model.matches",
    "Monitor": "tocsin.moving.monitor",
    "Plan": "tocsin.engine.report",
    "Rule": "tocsin.engine.version",
    "RuleStore": "tocsin.engine.store",
    "Rules": "tocsin.engine.rules",
    "Schema": "tocsin.model.schema",
    "Version": "tocsin.engine.version",
}


def open(path: Any, version: int | None = None) -> Rules:
    """Return the rules of a rule store, at its current version or an older one."""
    from tocsin.engine.rules import Rules

    return Rules.open(path, version)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        import importlib

        return importlib.import_module(f"tocsin.{name}")
    raise AttributeError(f"module 'tocsin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
