"""Options of indexes: the parameters that the papers vary, and that users may set.

An index class declares its options; an error for a wrong value states what is allowed. Values are
JSON values (a number, a text, true or false, a list, or null for "chosen by the index"), since a
store keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.errors import RuleError, suggest


@dataclass(frozen=True)
class Option:
    """One option: its meaning, its default and the values allowed."""

    meaning: str
    default: Any
    allowed: str
    is_allowed: Callable[[Any], bool]

    def __str__(self) -> str:
        return f"{self.meaning}: {self.allowed}; {_format_value(self.default)} by default"


def integer(meaning: str, default: int | None, least: int, most: int) -> Option:
    """Declare an integer option; a default of None means chosen by the index."""
    allowed = f"an integer from {least:,} to {most:,}{', or none' * (default is None)}"

    def is_allowed(value: Any) -> bool:
        return (type(value) is int and least <= value <= most) or value is default is None

    return Option(meaning, default, allowed, is_allowed)


def power_of_two(meaning: str, most: int) -> Option:
    """Declare an option that is a power of two up to `most`; None means chosen by the index."""
    return Option(
        meaning,
        None,
        f"a power of two from 1 to {most:,}, or none",
        lambda v: v is None or _is_power_of_two(v, most),
    )


def powers_of_two(meaning: str, most: int) -> Option:
    """Declare an option that is a power of two up to `most`, or a pair of them for two axes.

    A pair is a list such as [16, 8]; None means chosen by the index.
    """

    def is_allowed(value: Any) -> bool:
        sides = value if type(value) is list and len(value) == 2 else [value]
        return value is None or all(_is_power_of_two(side, most) for side in sides)

    allowed = f"a power of two from 1 to {most:,}, a pair of them such as [16, 8], or none"
    return Option(meaning, None, allowed, is_allowed)


def _is_power_of_two(value: Any, most: int) -> bool:
    return type(value) is int and 1 <= value <= most and value & (value - 1) == 0


def number(meaning: str, default: float, least: float, most: float) -> Option:
    """Declare an option that is a number from `least` to `most`."""
    allowed = f"a number from {least:g} to {most:g}"
    if most == float("inf"):
        allowed = f"a number of at least {least:g}"
    return Option(
        meaning, default, allowed, lambda v: type(v) in (int, float) and least <= v <= most
    )


def choice(meaning: str, *names: str) -> Option:
    """Declare an option that is one of several names, the first by default."""
    return Option(meaning, names[0], _join_names(names), lambda v: type(v) is str and v in names)


def flag(meaning: str, default: bool | None) -> Option:
    """Declare a boolean option; a default of None means chosen by the index."""
    allowed: tuple[Any, ...] = (True, False) if default is not None else (True, False, None)
    return Option(
        meaning,
        default,
        _join_names([_format_value(each) for each in allowed]),
        lambda v: any(v is each for each in allowed),
    )


def check_options(
    index: str, declared: Mapping[str, Option], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all options of an index, given or default; raise if one is unknown or invalid."""
    for name, value in given.items():
        if name not in declared:
            known = "".join(f"\n  {each}: {option}" for each, option in declared.items())
            raise RuleError(
                f"index {index!r} has no option {name!r}{suggest(name, declared)}"
                + (f" (its options are{known})" if declared else " (it has none)")
            )
        option = declared[name]
        if not option.is_allowed(value):
            raise RuleError(
                f"option {name!r} of index {index!r} ({option.meaning}) must be {option.allowed}; "
                f"got {value!r}"
            )
    return {name: given.get(name, option.default) for name, option in declared.items()}


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _format_value(value: Any) -> str:
    return {bool: str(value).lower(), type(None): "none"}.get(type(value), f"{value}")
