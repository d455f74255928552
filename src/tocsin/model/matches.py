"""The result of matching: pairs of an event and a rule that it satisfies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

# With more rules per pair than this, pairs are sorted by rule rather than counted; chosen.
_SPARSE = 8


class RuleDirectory(Protocol):
    """Looks up the ids and payloads of rules by position."""

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """Return the ids of the rules at these positions."""
        ...

    def payload_at(self, positions: np.ndarray, schema: pa.Schema) -> pa.Table:
        """Return these payload columns of the rules at these positions."""
        ...


class Counters(NamedTuple):
    """The work of a match.

    The index alone proves `candidates - evaluated` of the conjunctions. `matched` is at most
    `candidates`: a rule that matches by two of its conjunctions is one pair.
    """

    candidates: int  # conjunctions that the index proposed
    evaluated: int  # of these, conjunctions tested predicate by predicate
    matched: int  # pairs


class Matches:
    """Pairs of an event and a rule, ordered by event; with scores for `top`.

    Attributes
    ----------
    offsets
        int64[n_events + 1]; the pairs of event e are offsets[e] to offsets[e + 1].
    rules
        int32[n_pairs], the positions of rules: their numbers in the order of addition, never
        reused. `to_arrow` returns the ids.
    scores
        float64[n_pairs], or None without scores.
    first
        The row number of the first event; 0 except in blocks.
    counters
        The work of the match, see `Counters`.

    The order within an event depends on the index, and is always the same for the same input.
    `sorted` returns the order of addition. With scores, the best rule comes first.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        rules: np.ndarray,
        directory: RuleDirectory,
        scores: np.ndarray | None = None,
        first: int = 0,
        counters: Counters | None = None,
    ):
        self.offsets = offsets
        self.rules = rules
        self.scores = scores
        self.first = first
        self.counters = counters or Counters(len(rules), len(rules), len(rules))
        self._directory = directory

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def events(self) -> np.ndarray:
        """The row numbers of the events, int64[n_pairs]."""
        if len(self.offsets) == 2:  # of one event, whose other costs are small, too
            return np.full(len(self.rules), self.first)
        numbers = np.arange(self.first, self.first + len(self.offsets) - 1)
        return np.repeat(numbers, np.diff(self.offsets))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays: the row numbers of events and the positions of rules."""
        return self.events, self.rules

    def ids(self) -> pa.Array:
        """Return the ids of the rules, one for each pair."""
        return self._directory.ids_at(self.rules)

    def payload(self, schema: pa.Schema) -> pa.Table:
        """Return these payload columns of the rules, one row for each pair."""
        return self._directory.payload_at(self.rules, schema)

    def to_arrow(self) -> pa.Table:
        """Return a table of event (row number), rule (id) and, if there are scores, score."""
        columns: dict[str, Any] = {"event": self.events, "rule": self.ids()}
        if self.scores is not None:
            columns["score"] = self.scores
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def by_rule(self) -> dict[Any, np.ndarray]:
        """Return the row numbers of its events for each rule that matched, in order of addition."""
        if not len(self):
            return {}
        if int(self.rules.max()) <= _SPARSE * len(self):
            from tocsin.model.grouping import group_by_rule  # imports Numba

            events, all_ends = group_by_rule(self.offsets - self.offsets[0], self.rules)
            positions = np.flatnonzero(np.diff(all_ends, prepend=0))
            events, ends = events + self.first, all_ends[positions]
        else:
            order = np.argsort(self.rules, kind="stable")
            positions, starts = np.unique(self.rules[order], return_index=True)
            events, ends = self.events[order], np.append(starts[1:], len(self))
        ids = self._directory.ids_at(positions).to_pylist()
        begins = [0, *ends[:-1].tolist()]
        groups = [events[begin:end] for begin, end in zip(begins, ends.tolist(), strict=True)]
        return dict(zip(ids, groups, strict=True))

    def sorted(self) -> Matches:
        """Return the same pairs; within an event, in the order in which rules were added."""
        order = np.lexsort((self.rules, self.events))
        scores = None if self.scores is None else self.scores[order]
        return Matches(
            self.offsets, self.rules[order], self._directory, scores, self.first, self.counters
        )

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield (event, id), or (event, id, score)."""
        table = self.to_arrow()
        return zip(*(column.to_pylist() for column in table.columns), strict=True)

    def __repr__(self) -> str:
        n = len(self.offsets) - 1
        matched = int(np.count_nonzero(np.diff(self.offsets)))
        pairs = f"{len(self):,} pair{'s' * (len(self) != 1)}"
        lines = [f"Matches: {pairs}; {matched:,} of {n:,} events matched"]
        head = Matches(
            np.minimum(self.offsets, 8),
            self.rules[:8],
            self._directory,
            None if self.scores is None else self.scores[:8],
            self.first,
        )
        for event, rule, *score in head:
            lines.append(f"  event {event}: {rule!r}" + (f" ({score[0]:.6g})" if score else ""))
        if len(self) > 8:
            lines.append("  ...")
        return "\n".join(lines)
