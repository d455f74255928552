"""What a client is told: where it may be silent."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

Number = int | float


class SafeDistance(NamedTuple):
    """An object may travel less than a distance from its last report on, all ways added up."""

    distance: float
    fixed: tuple[str, ...]  # columns that must not change


class SafeSphere(NamedTuple):
    """An object may be nearer to a center than a distance; it may leave and come back."""

    center: tuple[Number, Number]
    distance: float
    fixed: tuple[str, ...]

    def contains(self, x: Number, y: Number) -> bool:
        """Return whether a position is inside: exactly, and not at the distance itself."""
        if not (_is_finite(x) and _is_finite(y)):
            return False
        if self.distance == math.inf:
            return True
        parts = [Fraction(a) - Fraction(b) for a, b in zip((x, y), self.center, strict=True)]
        return parts[0] ** 2 + parts[1] ** 2 < Fraction(self.distance) ** 2


class SafeRectangle(NamedTuple):
    """An object may be in a rectangle; it may leave and come back."""

    bounds: tuple[Number, Number, Number, Number]  # least x and y, greatest x and y, both inside
    fixed: tuple[str, ...]

    def contains(self, x: Number, y: Number) -> bool:
        """Return whether a position is inside, or on a side."""
        low_x, low_y, high_x, high_y = self.bounds
        is_inside = _is_finite(x) and _is_finite(y)
        return is_inside and low_x <= x <= high_x and low_y <= y <= high_y


SafeRegion = SafeDistance | SafeSphere | SafeRectangle


# Regions as a column; what a kind does not have is null.
REGION_TYPE = pa.struct(
    [
        ("bounds", pa.list_(pa.float64())),
        ("center", pa.list_(pa.float64())),
        ("distance", pa.float64()),
        ("fixed", pa.list_(pa.string())),
    ]
)


def to_struct(region: SafeRegion | None) -> dict[str, Any] | None:
    """Return a value of `REGION_TYPE`; integers beyond 2**53 are rounded inwards."""
    if region is None:
        return None
    values = region._asdict()
    if isinstance(region, SafeRectangle):
        low, high = region.bounds[:2], region.bounds[2:]
        values["bounds"] = [*(-_float_below(-v) for v in low), *map(_float_below, high)]
        if any(a > b for a, b in zip(values["bounds"][:2], values["bounds"][2:], strict=True)):
            return None
    elif isinstance(region, SafeSphere) and any(float(v) != v for v in region.center):
        return None
    return values


def _float_below(value: Number) -> float:
    """Return the greatest float that is not above a value."""
    number = float(value)
    return number if number <= value else math.nextafter(number, -math.inf)


def _is_finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)
