"""The pairs that a similarity join finds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.jit import Float64Out, Float64s, Int64s, kernel
from tocsin.similarity.closeness import L2, gap_of


class SimilarPairs:
    """Pairs of close points, by row number. `len(found)` is their number.

    The order depends on the method, and is always the same for the same input.

    >>> import tocsin.similarity
    >>> tocsin.similarity.join([[0.0, 0.0], [5.0, 5.0]], [[0.3, 0.4]], epsilon=1)
    SimilarPairs: 1 pair
      0 and 0: distance 0.5
    """

    def __init__(
        self, left: np.ndarray, right: np.ndarray, a: np.ndarray, b: np.ndarray, metric: int
    ):
        self._left, self._right = left, right
        self._a, self._b, self._metric = a, b, metric

    def __len__(self) -> int:
        return len(self._left)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the row numbers in `a` and in `b`, two int64 arrays."""
        return self._left, self._right

    @cached_property
    def distances(self) -> np.ndarray:
        """The distance of each pair, float64; computed on first use."""
        gaps = np.empty(len(self))
        d = self._a.shape[1]
        write_gaps(
            self._a.reshape(-1), self._b.reshape(-1), d, self._metric, self._left, self._right, gaps
        )
        return np.sqrt(gaps, out=gaps) if self._metric == L2 else gaps

    def sorted(self) -> SimilarPairs:
        """Return the same pairs ordered by the row in `a`, then in `b`."""
        order = np.lexsort((self._right, self._left))
        left, right = self._left[order], self._right[order]
        return SimilarPairs(left, right, self._a, self._b, self._metric)

    def to_arrow(self) -> pa.Table:
        """Return a table of a and b (row numbers) and distance."""
        return pa.table({"a": self._left, "b": self._right, "distance": self.distances})

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of row numbers."""
        return zip(self._left.tolist(), self._right.tolist(), strict=True)

    def __repr__(self) -> str:
        lines = [f"SimilarPairs: {len(self):,} pair{'s' * (len(self) != 1)}"]
        left, right = self._left[:8], self._right[:8]
        head = SimilarPairs(left, right, self._a, self._b, self._metric)
        for (i, j), distance in zip(head, head.distances.tolist(), strict=True):
            lines.append(f"  {i} and {j}: distance {distance:.6g}")
        if len(self) > 8:
            lines.append("  ...")
        return "\n".join(lines)


@kernel
def write_gaps(
    a: Float64s,
    b: Float64s,
    d: int,
    metric: int,
    left: Int64s,
    right: Int64s,
    out: Float64Out,
) -> None:
    """Write the gap of each pair."""
    for i in range(out.shape[0]):
        out[i] = gap_of(a, left[i] * d, b, right[i] * d, d, metric)
