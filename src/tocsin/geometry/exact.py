"""Signs of sums of products of floats, without rounding.

Floats decide first, with a bound on their error: what rounding takes is at most a few 2**-53 of the
products, plus a constant where products underflow (Shewchuk, "Adaptive precision floating-point
arithmetic and fast robust geometric predicates", 1997, section 4.3). What is closer to 0 than that,
overflows or is NaN is computed again with integers. Unlike Shewchuk's expansions of floats, these
neither overflow nor underflow: each product is an integer of 106 bits and an exponent, and they are
added from the greatest exponent down, in 128 bits. If the sum so far is too large for the rest to
change its sign, it is known; otherwise it is so short that 128 bits hold the next one, too.

The first takes 2 ns, the second a few hundred.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.jit import bare_step

_TERMS = 16  # that a sum may have at most
_ENOUGH = 110  # bits: 16 products of 106 bits are less
_TINY = 1e-300  # more than underflow takes from a sum of a few products
_ORIENTATION = 3.3306690738754716e-16  # (3 + 16 * 2**-53) * 2**-53: Shewchuk's bound A
_CIRCLE = 1e-15  # more than 8 * 2**-53, for a sum of two squares and a third

_LOW_BITS = np.uint64((1 << 27) - 1)
_SHIFT = np.uint64(27)
_REST = np.uint64(10)  # 64 - 2 * 27
_WORD = np.uint64(64)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@bare_step
def orientation(ax, ay, bx, by, x, y):
    """Return 1 if (x, y) is left of the line from a to b, -1 if it is right of it, 0 on it."""
    left = (ax - x) * (by - y)
    right = (ay - y) * (bx - x)
    difference = left - right
    bound = _ORIENTATION * (abs(left) + abs(right)) + _TINY
    if difference > bound:
        return 1
    if -difference > bound:
        return -1
    return sign_of_sum(((ax, by), (-ax, y), (-x, by), (-ay, bx), (ay, x), (y, bx)))


@bare_step
def circle_side(x, y, center_x, center_y, radius):
    """Return 1 if (x, y) is outside of a circle, -1 if it is inside, 0 on it."""
    dx, dy = x - center_x, y - center_y
    distance, limit = dx * dx + dy * dy, radius * radius
    difference, bound = distance - limit, _CIRCLE * (distance + limit) + _TINY
    if difference > bound:
        return 1
    if -difference > bound:
        return -1
    x_product, y_product = (-x, center_x), (-y, center_y)
    return sign_of_sum(
        (
            (x, x), x_product, x_product, (center_x, center_x),
            (y, y), y_product, y_product, (center_y, center_y),
            (-radius, radius),
        )
    )  # fmt: skip


@bare_step
def sign_of_sum(products):
    """Return the sign of a sum of at most 16 products of finite floats, pairs: -1, 0 or 1."""
    high, low, exponent = np.int64(0), _ZERO, 0
    left = (1 << len(products)) - 1  # a bit for each product that is not added yet
    while left != 0:
        chosen, greatest = -1, -(1 << 30)
        for i in range(len(products)):
            if left >> i & 1 != 0:
                a, b = products[i]
                own = math.frexp(a)[1] + math.frexp(b)[1]
                if a == 0.0 or b == 0.0:
                    left ^= 1 << i
                elif own > greatest:
                    chosen, greatest = i, own
        if chosen < 0:
            break
        left ^= 1 << chosen
        shift = exponent - greatest
        exponent = greatest
        if high != 0 or low != _ZERO:
            if count_bits(high, low) + shift > _ENOUGH:
                break
            high, low = shift_left(high, low, shift)
        a, b = products[chosen]
        own_high, own_low = multiply(abs(a), abs(b))
        if (a < 0.0) != (b < 0.0):
            own_low = ~own_low + _ONE
            own_high = ~own_high + (1 if own_low == _ZERO else 0)
        low = low + own_low
        high = high + own_high + (1 if low < own_low else 0)
    if high < 0:
        return -1
    return 1 if high != 0 or low != _ZERO else 0


@bare_step
def multiply(a, b):
    """Return the product of the significands of two positive floats, as integers: 106 bits."""
    left = np.uint64(math.ldexp(math.frexp(a)[0], 53))
    right = np.uint64(math.ldexp(math.frexp(b)[0], 53))
    left_high, left_low = left >> _SHIFT, left & _LOW_BITS
    right_high, right_low = right >> _SHIFT, right & _LOW_BITS
    middle = left_high * right_low + left_low * right_high + (left_low * right_low >> _SHIFT)
    high = left_high * right_high + (middle >> _SHIFT)  # the product without its last 54 bits
    return np.int64(high >> _REST), left * right


@bare_step
def count_bits(high, low):
    """Return how many bits the absolute value of an integer of two words has, or one less."""
    if high < 0:
        high, low = ~high, ~low
    word = np.uint64(high)
    bits = 64
    if high == 0:
        word, bits = low, 0
    while word != _ZERO:
        word = word >> _ONE
        bits += 1
    return bits


@bare_step
def shift_left(high, low, shift):
    """Return an integer of two words, shifted by 0 to 110 bits."""
    bits = np.uint64(shift)
    if shift >= 64:
        return np.int64(low << (bits - _WORD)), _ZERO
    if shift == 0:
        return high, low
    carried = np.int64(low >> (_WORD - bits))
    return (high << np.int64(shift)) | carried, low << bits
