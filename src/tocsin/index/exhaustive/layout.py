"""What exhaustive search looks like in memory: blocks, their tests, and the bounds of these."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Int32s, Int64s


class Layout(NamedTuple):
    """b blocks over n conjunctions, with t tests."""

    block: Int64s  # [b + 1] the conjunctions of a block are block[i] to block[i + 1]
    tests: Int64s  # [b + 1] its tests are tests[i] to tests[i + 1]
    attribute: Int32s  # [t] what a test looks at
    least: Int64s  # [t] the lowest of its lows
    greatest: Int64s  # [t] the highest of its highs
    bounds: Int64s  # [t] where in low and high its bounds start, one per conjunction of the block
    low: Int64s
    high: Int64s
    candidate: Int32s  # [n] what to propose: c if its tests prove it, ~c otherwise
