"""Virtual constructs as the papers define them: their numbers, cuts and covers.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing (intervals, section
2), and VCR indexing for fast event matching (rectangles, section 2). In plain Python, to be read
and to be tested against; `intervals` and `rectangles` do the same in kernels, and take their
tables (`too_short`, `runs`) from here.
"""

from __future__ import annotations

import numpy as np

# ------------------------------------------------------------ intervals


def simple_number(a: int, b: int, longest: int) -> int:
    """Return the number of the simple construct [a, b] of the lattice (2.2).

    >>> simple_number(0, 1, 4), simple_number(0, 4, 4), simple_number(1, 2, 4)
    (0, 3, 4)
    """
    return a * longest + (b - a) - 1


def logarithmic_number(a: int, b: int, longest: int) -> int:
    """Return the number of the logarithmic construct [a, b], whose length is a power of two.

    >>> logarithmic_number(0, 4, 4), logarithmic_number(1, 2, 4)
    (2, 3)
    """
    return a * longest.bit_length() + (b - a).bit_length() - 1


def interval_pieces(x: int, y: int, longest: int, logarithmic: bool) -> list[tuple[int, int]]:
    """Return the constructs that [x, y] is cut into, from the left, the longest first (2.3).

    There are floor((y - x) / L) of length L, where the paper prints a ceiling, and a remnant:
    one construct if they are simple, one for each binary digit if they are logarithmic.

    >>> interval_pieces(3, 14, 4, False)
    [(3, 7), (7, 11), (11, 14)]
    >>> interval_pieces(0, 23, 16, True)
    [(0, 16), (16, 20), (20, 22), (22, 23)]
    """
    pieces = []
    while x < y:
        length = min(longest, y - x)
        if logarithmic:
            length = 1 << (length.bit_length() - 1)
        pieces.append((x, x + length))
        x += length
    return pieces


def interval_cover(j: int, longest: int, logarithmic: bool, on_lattice: bool) -> list[int]:
    """Return the numbers of the constructs that cover a point, ascending.

    The point is lattice point j, or lies between j and j + 1. A point on the lattice is covered
    also by those that end there: L(L + 1) / 2 + L simple ones, or 2L + k logarithmic ones with
    k = log2(L); one between by L(L + 1) / 2, or 2L - 1.
    """
    lengths = [1 << i for i in range(longest.bit_length())] if logarithmic else None
    number = logarithmic_number if logarithmic else simple_number
    return sorted(
        number(a, a + length, longest)
        for a in range(max(j - longest, 0), j + 1)
        for length in lengths or range(1, longest + 1)
        if a + length > j or (on_lattice and a + length == j)
    )


def too_short(longest: int, logarithmic: bool) -> list[int]:
    """Return how many of the constructs d cells back do not reach a cell, for d = 0..L - 1.

    The paper's table of differences, kept as runs: with P constructs from each start those
    that cover cell j from cell j - d are numbered (j - d) P + skip[d] to (j - d + 1) P.

    >>> too_short(4, True), too_short(4, False)
    ([0, 1, 2, 2], [0, 1, 2, 3])
    """
    return [d.bit_length() if logarithmic else d for d in range(longest)]


# ------------------------------------------------------------ rectangles


def rectangle_number(x: int, y: int, width: int, height: int, longest: int, across: int) -> int:
    """Return the number of a construct (eq. 1); sides are powers of two up to L.

    >>> [rectangle_number(0, 0, 1 << i, 1 << j, 4, 100) for j in range(3) for i in range(3)]
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    kinds = longest.bit_length()
    i, j = width.bit_length() - 1, height.bit_length() - 1
    return kinds * kinds * (x + y * across) + j * kinds + i


def side_pieces(begin: int, length: int, longest: int, overlapped: bool) -> list[tuple[int, int]]:
    """Return where the pieces of one side begin, and how long they are (2.2.1, 2.2.2).

    >>> side_pieces(3, 11, 4, False), side_pieces(3, 11, 4, True)
    ([(3, 4), (7, 4), (11, 2), (13, 1)], [(3, 4), (7, 4), (10, 4)])
    """
    end, made = begin + length, []
    largest = min(longest, 1 << (length.bit_length() - 1))
    while begin < end:
        if overlapped:
            made.append((min(begin, end - largest), largest))
            begin += largest
        else:
            size = min(longest, 1 << ((end - begin).bit_length() - 1))
            made.append((begin, size))
            begin += size
    return made


def rectangle_pieces(
    x: int, y: int, width: int, height: int, longest: int, overlapped: bool
) -> list[tuple[int, int, int, int]]:
    """Return the constructs (x, y, width, height) that a box is cut into.

    >>> [len(rectangle_pieces(3, 3, 11, 6, 4, overlapped)) for overlapped in (False, True)]
    [8, 6]
    """
    return [
        (a, b, w, h)
        for b, h in side_pieces(y, height, longest, overlapped)
        for a, w in side_pieces(x, width, longest, overlapped)
    ]


def cover_size(longest: int, on_x: bool, on_y: bool) -> int:
    """Return how many constructs cover a point that is (not) on a lattice line of each axis.

    Theorem 1 has both on: (2Lx + kx)(2Ly + ky).

    >>> cover_size(4, True, True), cover_size(4, False, False), cover_size(4, True, False)
    (100, 49, 70)
    """
    on = 2 * longest + longest.bit_length() - 1
    return (on if on_x else 2 * longest - 1) * (on if on_y else 2 * longest - 1)


def runs(longest: int, across: int) -> np.ndarray:
    """Return the cover of a cell as runs of numbers, [4, r]: cells back, first number, how many.

    Relative to the number of the cell's own smallest construct: the paper's table of distances
    from a pivot (2.3.2), with neighbours put together.
    """
    kinds = longest.bit_length()
    made = []
    for back_y in range(longest):
        for back_x in range(longest):
            cell = -kinds * kinds * (back_x + back_y * across)
            if back_x == 0:  # all widths do, so all heights are one run
                least = back_y.bit_length() * kinds
                made.append((back_x, back_y, cell + least, kinds * kinds - least))
                continue
            for j in range(back_y.bit_length(), kinds):
                least = back_x.bit_length()
                made.append((back_x, back_y, cell + j * kinds + least, kinds - least))
    return np.array(made).T
