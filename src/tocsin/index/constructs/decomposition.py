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

Sides = tuple[int, int]  # the longest sides of constructs, Lx and Ly: powers of two


def number_rectangle(x: int, y: int, width: int, height: int, longest: Sides, across: int) -> int:
    """Return the number of a construct (eq. 1); sides are powers of two up to Lx and Ly.

    >>> [number_rectangle(0, 0, 1 << i, 1 << j, (4, 4), 100) for j in range(3) for i in range(3)]
    [0, 1, 2, 3, 4, 5, 6, 7, 8]
    >>> number_rectangle(1, 0, 1, 1, (16, 8), 100), number_rectangle(0, 0, 1, 2, (16, 8), 100)
    (20, 5)
    """
    kinds_x, kinds_y = (side.bit_length() for side in longest)
    i, j = width.bit_length() - 1, height.bit_length() - 1
    return kinds_x * kinds_y * (x + y * across) + j * kinds_x + i


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
    x: int, y: int, width: int, height: int, longest: Sides, overlapped: bool
) -> list[tuple[int, int, int, int]]:
    """Return the constructs (x, y, width, height) that make up a box.

    >>> [len(decompose_rectangle(3, 3, 11, 6, (4, 4), over)) for over in (False, True)]
    [8, 6]
    """
    return [
        (a, b, w, h)
        for b, h in decompose_side(y, height, longest[1], overlapped)
        for a, w in decompose_side(x, width, longest[0], overlapped)
    ]


def count_cover(longest: Sides, on_x: bool, on_y: bool) -> int:
    """Return how many constructs cover a point that is (not) on a lattice line of each axis.

    Theorem 1 has both on: (2Lx + kx)(2Ly + ky). Between lines, 2L - 1 of an axis cover a point.

    >>> count_cover((16, 8), True, True), count_cover((16, 8), False, False)
    (684, 465)
    """
    x, y = (
        2 * side + side.bit_length() - 1 if on else 2 * side - 1
        for side, on in zip(longest, (on_x, on_y), strict=True)
    )
    return x * y


class CoverRuns(NamedTuple):
    """Covers of a point as runs of consecutive numbers of constructs.

    There is a cover for each case: 0 between the lines of both axes, 1 on a line of x, 2 on a line
    of y, 3 on a lattice point. It has the runs cover[case] to cover[case + 1].
    """

    cover: np.ndarray  # [5]
    run_x: np.ndarray  # [r] cells back from the point's cell to where the constructs of a run start
    run_y: np.ndarray  # [r]
    run_first: np.ndarray  # [r] first number, less that of the pivot
    run_size: np.ndarray  # [r] how many numbers


def find_cover_runs(longest: Sides, across: int, closed: bool) -> CoverRuns:
    """Return the covers on a lattice that is `across` cells wide.

    The paper's table of distances from a pivot (2.3.2), with neighbours put together. The pivot is
    the unit construct L cells back on an axis where the point is on a line, and L - 1 cells back
    where it is between lines (the stream paper, 3.4). If constructs are not closed, there is only
    the case between lines.
    """
    covers = [list_runs(longest, across, case & 1, case >> 1) for case in range(4 if closed else 1)]
    ends = np.cumsum([0, *map(len, covers)]).tolist()
    run_x, run_y, run_first, run_size = np.array([run for runs in covers for run in runs]).T
    return CoverRuns(
        cover=np.array([*ends, *ends[-1:] * (5 - len(ends))]),
        run_x=run_x,
        run_y=run_y,
        run_first=run_first,
        run_size=run_size,
    )


def list_runs(longest: Sides, across: int, on_x: int, on_y: int) -> list[tuple[int, int, int, int]]:
    """Return the runs of one cover: cells back along x and y, first distance, and size.

    >>> list_runs((2, 1), 100, 0, 0), list_runs((2, 1), 100, 1, 0)
    ([(0, 0, 2, 2), (1, 0, 1, 1)], [(0, 0, 4, 2), (1, 0, 2, 2), (2, 0, 1, 1)])
    """
    kinds_x, kinds_y = (side.bit_length() for side in longest)
    most_x, most_y = longest[0] - 1 + on_x, longest[1] - 1 + on_y  # cells back to the pivot
    found = []
    for back_y in range(most_y + 1):
        # A construct d cells back covers what is between lines if it is longer than d, and what is
        # on a line also if it is as long.
        least_y = max(back_y - on_y, 0).bit_length()
        for back_x in range(most_x + 1):
            least_x = max(back_x - on_x, 0).bit_length()
            cell = kinds_x * kinds_y * (most_x - back_x + (most_y - back_y) * across)
            if least_x == 0:  # all widths do, so all heights are one run
                first = least_y * kinds_x
                found.append((back_x, back_y, cell + first, kinds_x * kinds_y - first))
                continue
            found += [
                (back_x, back_y, cell + j * kinds_x + least_x, kinds_x - least_x)
                for j in range(least_y, kinds_y)
            ]
    return found
