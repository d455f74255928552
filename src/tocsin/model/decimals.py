"""The kind `decimal(p, s)`: exact numbers of up to 18 digits, s of them after the point.

The key of a decimal is its unscaled integer: 9.99 has the key 999 in `decimal(12,2)`. So decimals
are compared as integers, exactly, and all keys are far from the seam of integers.

A constant need not be a value of the kind. Its cuts (see `constants`) are then on the right side:
`price < 9.999` is `price <= 9.99`, and no price equals 9.999. As in Spark, integers and decimals
are compared exactly, and doubles as doubles: the column is cast to double.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tocsin.model.encoding import HIGHEST, LOWEST

MAX_DIGITS = 18  # 10**18 fits into 64 bits
_KIND = re.compile(r"decimal\s*\(\s*(\d{1,4})\s*(?:,\s*(\d{1,4})\s*)?\)", re.ASCII | re.IGNORECASE)
_EXACT = decimal.Context(prec=120)  # digits
_SAFE_FLOAT = 10**15  # any decimal of 15 digits is the only one that its double is nearest to


class Digits(NamedTuple):
    """The number of digits of a decimal kind: of all, and of those after the point."""

    precision: int
    scale: int

    @property
    def limit(self) -> int:
        """The first unscaled integer with too many digits."""
        return int(10**self.precision)

    @property
    def unit(self) -> int:
        """The unscaled integer of 1."""
        return int(10**self.scale)


@functools.lru_cache(maxsize=1024)
def digits_of(kind: str) -> Digits | None:
    """Return the digits of a decimal kind, or None for other kinds.

    >>> digits_of("decimal(12, 2)"), digits_of("number")
    (Digits(precision=12, scale=2), None)
    """
    match = _KIND.fullmatch(kind.strip())
    return None if match is None else Digits(int(match[1]), int(match[2] or 0))


def is_decimal(kind: str) -> bool:
    """Return whether a kind of a schema is a decimal."""
    return kind.startswith("decimal")


def decimal_kind(precision: int, scale: int) -> str:
    """Return the kind of decimals with so many digits; raise a ValueError if there is none."""
    if precision > MAX_DIGITS:
        raise ValueError(f"has {precision} digits, but decimals can have at most {MAX_DIGITS}")
    if not 0 <= scale <= precision or not precision:
        raise ValueError(f"must have 1 to {MAX_DIGITS} digits, 0 to all of them after the point")
    return f"decimal({precision},{scale})"


def decimal_value(key: int, kind: str) -> decimal.Decimal:
    """Return the decimal of a key."""
    digits = digits_of(kind)
    assert digits is not None
    return decimal.Decimal(key).scaleb(-digits.scale, _EXACT)


def decimal_key(value: Any, digits: Digits) -> int:
    """Return the key of an int, a Decimal or a float; raise a ValueError if it is no such decimal.

    A float must be the nearest one to a decimal. It determines 15 digits.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("which is not a finite number")
        key = round(value * digits.unit) if abs(value) < _SAFE_FLOAT else _SAFE_FLOAT
        if abs(key) >= min(digits.limit, _SAFE_FLOAT):
            raise ValueError(
                "which has too many digits"
                if digits.limit <= _SAFE_FLOAT
                else "but a float determines only 15 digits; give a Decimal"
            )
        if key / digits.unit != value:
            raise ValueError(f"which has {more_places(digits)}; round it, or give a Decimal")
        return key
    if isinstance(value, int):
        key = value * digits.unit
    elif not value.is_finite():
        raise ValueError("which is not a finite number")
    elif value.adjusted() > MAX_DIGITS:  # 1e999999 has a million digits
        raise ValueError("which has too many digits")
    else:
        scaled = value.scaleb(digits.scale, _EXACT)
        key = int(scaled)
        if key != scaled or len(value.as_tuple().digits) > _EXACT.prec:
            raise ValueError(f"which has {more_places(digits)}; round it")
    if abs(key) >= digits.limit:
        raise ValueError("which has too many digits")
    return key


def more_places(digits: Digits) -> str:
    """Describe the digits after the point that a value has too many."""
    return f"more than {digits.scale} digits after the point" if digits.scale else "a fraction"


def exact_cuts(value: int | decimal.Decimal, digits: Digits) -> tuple[int, int]:
    """Return the least keys of decimals that are >= and > `value`."""
    scaled = value * digits.unit if isinstance(value, int) else value.scaleb(digits.scale, _EXACT)
    return _clip(math.ceil(scaled), math.floor(scaled) + 1, digits)


def double_cuts(bound: float, digits: Digits) -> tuple[int, int]:
    """Return the least keys of decimals that, cast to double, are >= and > `bound`."""
    if math.isnan(bound):
        return HIGHEST + 1, HIGHEST + 1

    def least(holds: Callable[[float], bool]) -> int:
        low, high = 1 - digits.limit, digits.limit
        while low < high:
            middle = (low + high) // 2
            # Python rounds the quotient of integers correctly, as Java does.
            if holds(middle / digits.unit):
                high = middle
            else:
                low = middle + 1
        return low if low > 1 - digits.limit else -digits.limit

    return _clip(least(lambda v: v >= bound), least(lambda v: v > bound), digits)


def _clip(least: int, above: int, digits: Digits) -> tuple[int, int]:
    """Return cuts as keys: beyond all keys if no decimal, or every decimal, is on one side."""
    if above <= -digits.limit:
        return LOWEST, LOWEST
    if least >= digits.limit:
        return HIGHEST + 1, HIGHEST + 1
    return max(least, 1 - digits.limit), above
