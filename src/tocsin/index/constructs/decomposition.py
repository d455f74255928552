"""Virtual constructs as the papers define them: their numbers, pieces and covers.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing (intervals, section
2), and VCR indexing for fast event matching (rectangles, section 2).

This is the reference, in plain Python: read it before the kernels. The indexes use its tables,
`count_too_short`, `tabulate_differences` and `find_cover_runs`. Only tests call the other
functions. They show that the papers' theorems hold for them, and that the kernels that build
`intervals` and `rectangles` decompose as they do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# ------------------------------------------------------------ intervals


def number_simple(a: int, b: int, longest: int) -> int:
    """Return the number of the simple construct [a, b] of the lattice (2.2).

    >>> number_simple(0, 1, 4), number_simple(0, 4, 4), number_simple(1, 2, 4)
    (0, 3, 4)
    """
    return a * longest + (b - a) - 1


def number_logarithmic(a: int, b: int, longest: int) -> int:
    """Return the number of the logarithmic construct [a, b], whose length is a power of two (2.2).

    >>> number_logarithmic(0, 4, 4), number_logarithmic(1, 2, 4)
    (2, 3)
    """
    return a * longest.bit_length() + (b - a).bit_length() - 1


def decompose_interval(x: int, y: int, longest: int, logarithmic: bool) -> list[tuple[int, int]]:
    """Return the constructs that make up [x, y], from the left, the longest first (2.3).

    There are floor((y - x) / L) of length L, where the paper prints a ceiling, and a remnant:
    one construct if they are simple, one for each binary digit if they are logarithmic.

    >>> decompose_interval(3, 14, 4, False)
    [(3, 7), (7, 11), (11, 14)]
    >>> decompose_interval(0, 23, 16, True)
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


def cover_point(j: int, longest: int, logarithmic: bool, on_lattice: bool) -> list[int]:
    """Return the numbers of the constructs that cover a point, ascending (2.4).

    The point is lattice point j, or lies between j and j + 1. A point on the lattice is covered
    also by those that end there: L(L + 1) / 2 + L simple ones, or 2L + k logarithmic ones with
    k = log2(L); one between by L(L + 1) / 2, or 2L - 1.
    """
    lengths = [1 << i for i in range(longest.bit_length())] if logarithmic else None
    number = number_logarithmic if logarithmic else number_simple
    return sorted(
        number(a, a + length, longest)
        for a in range(max(j - longest, 0), j + 1)
        for length in lengths or range(1, longest + 1)
        if a + length > j or (on_lattice and a + length == j)
    )


def count_too_short(longest: int, logarithmic: bool) -> list[int]:
    """Return how many of the constructs d cells back do not reach a cell, for d = 0..L - 1.

    The paper's table of differences, kept as runs: with P constructs from each start those
    that cover cell j from cell j - d are numbered (j - d) P + skip[d] to (j - d + 1) P.

    >>> count_too_short(4, True), count_too_short(4, False)
    ([0, 1, 2, 2], [0, 1, 2, 3])
    """
    return [d.bit_length() if logarithmic else d for d in range(longest)]


def tabulate_differences(longest: int, logarithmic: bool, on_lattice: bool) -> np.ndarray:
    """Return the differences of the constructs that cover a point from the least of them (2.4).

    The least, V_min, is (j - L) P + P - 1 for lattice point j, with P constructs from each start,
    and P more for a point between j and j + 1, which those that end at j do not cover.

    >>> tabulate_differences(4, True, on_lattice=True).tolist()
    [0, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    >>> tabulate_differences(4, True, on_lattice=False).tolist()
    [0, 3, 5, 6, 7, 8, 9]
    """
    each = longest.bit_length() if logarithmic else longest
    skip = count_too_short(longest, logarithmic)
    # Those that begin d + 1 before a lattice point and cover it cover the gap before it, too.
    numbers = [np.arange(skip[d], each) - d * each for d in range(longest - 1, -1, -1)]
    if on_lattice:
        numbers.append(np.arange(each, 2 * each))
    found = np.concatenate(numbers)
    return found - found[0]


# ------------------------------------------------------------ rectangles


def number_rectangle(x: int, y: int, width: int, height: int, longest: int, across: int) -> int:
    """Return the number of a construct (eq. 1); sides are powers of two up to L.

    >>> [number_rectangle(0, 0, 1 << i, 1 << j, 4, 100) for j in range(3) for i in range(3)]
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """
    kinds = longest.bit_length()
    i, j = width.bit_length() - 1, height.bit_length() - 1
    return kinds * kinds * (x + y * across) + j * kinds + i


def decompose_side(
    begin: int, length: int, longest: int, overlapped: bool
) -> list[tuple[int, int]]:
    """Return where the pieces of one side begin, and how long they are (2.2.1, 2.2.2).

    >>> decompose_side(3, 11, 4, False), decompose_side(3, 11, 4, True)
    ([(3, 4), (7, 4), (11, 2), (13, 1)], [(3, 4), (7, 4), (10, 4)])
    """
    end, pieces = begin + length, []
    largest = min(longest, 1 << (length.bit_length() - 1))
    while begin < end:
        if overlapped:
            pieces.append((min(begin, end - largest), largest))
            begin += largest
        else:
            size = min(longest, 1 << ((end - begin).bit_length() - 1))
            pieces.append((begin, size))
            begin += size
    return pieces


def decompose_rectangle(
    x: int, y: int, width: int, height: int, longest: int, overlapped: bool
) -> list[tuple[int, int, int, int]]:
    """Return the constructs (x, y, width, height) that make up a box.

    >>> [len(decompose_rectangle(3, 3, 11, 6, 4, overlapped)) for overlapped in (False, True)]
    [8, 6]
    """
    return [
        (a, b, w, h)
        for b, h in decompose_side(y, height, longest, overlapped)
        for a, w in decompose_side(x, width, longest, overlapped)
    ]


def count_cover(longest: int, on_x: bool, on_y: bool) -> int:
    """Return how many constructs cover a point that is (not) on a lattice line of each axis.

    Theorem 1 has both on: (2Lx + kx)(2Ly + ky).

    >>> count_cover(4, True, True), count_cover(4, False, False), count_cover(4, True, False)
    (100, 49, 70)
    """
    on = 2 * longest + longest.bit_length() - 1
    return (on if on_x else 2 * longest - 1) * (on if on_y else 2 * longest - 1)


class CoverRuns(NamedTuple):
    """The cover of a cell as r runs of numbers of constructs."""

    run_x: np.ndarray  # [r] cells back from the event's cell to where the constructs of a run start
    run_y: np.ndarray  # [r]
    run_first: np.ndarray  # [r] first number, less that of the smallest construct of the cell
    run_size: np.ndarray  # [r] how many numbers


def find_cover_runs(longest: int, across: int) -> CoverRuns:
    """Return the cover of a cell of a lattice that is `across` cells wide.

    The paper's table of distances from a pivot (2.3.2), with neighbours put together. The pivot
    here is the smallest construct of the event's own cell, so distances are negative.
    """
    kinds = longest.bit_length()
    found = []
    for back_y in range(longest):
        for back_x in range(longest):
            cell = -kinds * kinds * (back_x + back_y * across)
            if back_x == 0:  # all widths do, so all heights are one run
                least = back_y.bit_length() * kinds
                found.append((back_x, back_y, cell + least, kinds * kinds - least))
                continue
            for j in range(back_y.bit_length(), kinds):
                least = back_x.bit_length()
                found.append((back_x, back_y, cell + j * kinds + least, kinds - least))
    run_x, run_y, run_first, run_size = np.array(found).T
    return CoverRuns(run_x=run_x, run_y=run_y, run_first=run_first, run_size=run_size)
