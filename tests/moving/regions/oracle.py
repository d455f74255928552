"""Safe regions by brute force: all fences, exact fractions, and every rectangle there could be.

A fence is (x_low, x_high, y_low, y_high) with closed ends; infinite ones are open.
"""

from fractions import Fraction
from itertools import product
from math import inf, isfinite, nextafter

Fence = tuple[float, float, float, float]


def squared_distance(fence: Fence, x: float, y: float) -> Fraction | float:
    """Return the square of the distance to the nearest edge of a fence, inside or outside."""
    if is_inside(fence, x, y):
        gaps = [Fraction(x) - Fraction(fence[0]) if isfinite(fence[0]) else inf]
        gaps += [Fraction(fence[1]) - Fraction(x) if isfinite(fence[1]) else inf]
        gaps += [Fraction(y) - Fraction(fence[2]) if isfinite(fence[2]) else inf]
        gaps += [Fraction(fence[3]) - Fraction(y) if isfinite(fence[3]) else inf]
        nearest = min(gaps)
        return nearest if nearest == inf else nearest**2
    total: Fraction | float = Fraction(0)
    for value, low, high in ((x, *fence[:2]), (y, *fence[2:])):
        end = low if value < low else high if value > high else value
        if not isfinite(end):
            return inf
        total += (Fraction(end) - Fraction(value)) ** 2
    return total


def is_inside(fence: Fence, x: float, y: float) -> bool:
    return fence[0] <= x <= fence[1] and fence[2] <= y <= fence[3]


def is_safe(rectangle: Fence, fences: list[Fence], x: float, y: float) -> bool:
    """Return whether a rectangle contains the position, and all or nothing of each fence's edge."""
    if not is_inside(rectangle, x, y):
        return False
    for fence in fences:
        if is_inside(fence, x, y):
            if not (
                fence[0] <= rectangle[0]
                and rectangle[1] <= fence[1]
                and fence[2] <= rectangle[2]
                and rectangle[3] <= fence[3]
            ):
                return False
        elif not (
            rectangle[1] < fence[0]
            or fence[1] < rectangle[0]
            or rectangle[3] < fence[2]
            or fence[3] < rectangle[2]
        ):
            return False
    return True


def hull(fences: list[Fence], x: float, y: float) -> Fence:
    """Return the hull of the position and all finite ends."""
    xs = [x, *(end for fence in fences for end in fence[:2] if isfinite(end))]
    ys = [y, *(end for fence in fences for end in fence[2:] if isfinite(end))]
    return min(xs), max(xs), min(ys), max(ys)


def measure(rectangle: Fence, within: Fence, by: str) -> Fraction:
    """Return the area or half the perimeter inside the hull; an axis without ends does not count.

    The area is that of the hull divided.
    """
    sizes, wholes = [], []
    for axis in (0, 2):
        low, high = within[axis], within[axis + 1]
        ends = [Fraction(min(max(end, low), high)) for end in rectangle[axis : axis + 2]]
        sizes.append(ends[1] - ends[0])
        wholes.append(Fraction(high) - Fraction(low))
    if by == "perimeter":
        return sum(sizes)
    shares = [size / whole if whole else Fraction(1) for size, whole in zip(sizes, wholes)]
    return shares[0] * shares[1]


def largest(fences: list[Fence], x: float, y: float, by: str) -> Fraction:
    """Return the measure of the largest safe rectangle."""
    within = hull(fences, x, y)
    sides = []
    for value, axis in ((x, 0), (y, 2)):
        lows, highs = {-inf}, {inf}
        for fence in fences:
            lows |= {fence[axis], nextafter(fence[axis + 1], inf)}
            highs |= {fence[axis + 1], nextafter(fence[axis], -inf)}
        sides += [[low for low in lows if low <= value], [high for high in highs if high >= value]]
    return max(
        measure(rectangle, within, by)
        for rectangle in product(*sides)
        if is_safe(rectangle, fences, x, y)
    )
