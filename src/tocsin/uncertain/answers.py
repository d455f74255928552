"""Answers with probabilities, and how good they are (thesis, 5.5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

_MOST_SHOWN = 8  # objects in a repr


def entropy(probabilities: np.ndarray) -> float:
    """Return the entropy of probabilities, in bits (Equation 5.10).

    >>> round(entropy(np.array([0.6, 0.4])), 3), round(entropy(np.array([0.6, 0.3, 0.1])), 3)
    (0.971, 1.295)
    """
    p = probabilities[probabilities > 0]
    return float(max(-(p * np.log2(p)).sum(), 0.0))


def decisiveness(probabilities: np.ndarray) -> float:
    """Return the score of a range query: the mean of |p - 0.5| / 0.5 (Equation 5.9).

    An answer without objects is certain: 1.
    """
    return float(np.abs(2 * probabilities - 1).mean()) if len(probabilities) else 1.0


class Answer:
    """The objects that may satisfy a query, each with its probability, the likeliest first.

    `quality` is the thesis' score, larger is better: for a range the mean of |p - 0.5| / 0.5, for
    other queries minus the entropy times the width of the bounding interval B. `bounds` are those
    of B, for `nearest` the distances.

    >>> from tocsin import uncertain
    >>> uncertain.minimum(uncertain.Readings.uniform(["a", "b"], [10, 12], [14, 13]))
    Answer: 2 of 2 may be the minimum; quality -2.8633
      a: probability 0.625
      b: probability 0.375
    """

    def __init__(
        self,
        question: str,
        ids: pa.Array,
        probabilities: np.ndarray,
        bounds: tuple[float, float] | None,
        at_least: float | None,
    ):
        least = np.nextafter(0, 1) if at_least is None else at_least
        chosen = np.flatnonzero(probabilities >= least)
        chosen = chosen[np.argsort(-probabilities[chosen], kind="stable")]
        self._ids = ids
        self.probabilities = probabilities[chosen]
        self.positions = chosen
        self.bounds = bounds
        self.entropy: float | None = None
        self.quality: float | None = None
        self._question, self._of, self._at_least = question, len(ids), at_least
        if bounds is None:
            self.quality = decisiveness(probabilities[probabilities > 0])
        elif at_least is None:
            self.entropy = entropy(self.probabilities)
            # The sides of B are symmetric around the query point of `nearest`: its width is 2 f.
            width = (bounds[1] - bounds[0]) * (2 if question == "nearest" else 1)
            self.quality = -self.entropy * width if self.entropy else 0.0

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of the objects."""
        return self._ids.take(pa.array(self.positions))

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        """Yield ids and probabilities."""
        return zip(self.ids.to_pylist(), self.probabilities.tolist(), strict=True)

    def to_arrow(self) -> pa.Table:
        """Return a table of id and probability."""
        return pa.table({"id": self.ids, "probability": self.probabilities})

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        what = "in the range" if self._question == "in range" else f"the {self._question}"
        quality = "" if self.quality is None else f"; quality {self.quality:.6g}"
        if self._at_least is None:
            claim = f"may be {what}"
        else:
            is_or_are = "is" if len(self) == 1 else "are"
            claim = f"{is_or_are} {what} with probability >= {self._at_least:g}"
        lines = [f"Answer: {len(self):,} of {self._of:,} {claim}{quality}"]
        head = zip(self.ids[:_MOST_SHOWN].to_pylist(), self.probabilities.tolist())
        lines += [f"  {id}: probability {p:.6g}" for id, p in head]
        return "\n".join([*lines, *["  ..."] * (len(self) > _MOST_SHOWN)])
