"""The last report of each object: a log of Arrow tables, with a bit for rows that are the last.

A monitor keeps raw values, and not keys: categories that no rule mentions share a code, so keys
could not judge a rule that comes later. Values of any type are appended as they come, batch by
batch, which costs a copy and no search. When more than half of the rows are outdated, the others
are copied together. A batch may have other columns, or other types, than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

_FEW = 1 << 16  # outdated rows that are never removed, and rows up to which batches are joined


class Reports:
    """The log; a row has a number that is valid until the next `pack`."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._starts: list[int] = []  # the number of each table's first row
        self.rows = 0
        self.outdated = 0
        self.taken = 0  # rows that an index has taken in
        self._slots = np.empty(0, np.int32)  # by row
        self._is_last = np.empty(0, bool)

    def append(self, table: pa.Table, slots: np.ndarray) -> None:
        """Append reports, one for each slot; the slots' earlier ones must be marked `forget`."""
        n = len(slots)
        if self.rows + n > len(self._slots):
            room = self.rows + n + max(_FEW, (self.rows + n) // 2)
            self._slots = np.resize(self._slots, room)
            self._is_last = np.resize(self._is_last, room)
        self._slots[self.rows : self.rows + n] = slots
        self._is_last[self.rows : self.rows + n] = True
        self._tables.append(table)
        self._starts.append(self.rows)
        self.rows += n
        # So that there are few tables, and a row is copied a few times at most.
        while len(self._tables) > 1:
            before, last = self._tables[-2:]
            both = before.num_rows + last.num_rows
            if both > min(_FEW, 3 * last.num_rows) or before.schema != last.schema:
                break
            self._tables[-2:] = [pa.concat_tables([before, last]).combine_chunks()]
            self._starts.pop()

    def forget(self, rows: np.ndarray) -> None:
        """Mark rows as outdated."""
        self._is_last[rows] = False
        self.outdated += len(rows)

    def pack(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Remove outdated rows if they are most; return all slots and their new rows, or None."""
        if self.outdated <= _FEW or 2 * self.outdated <= self.rows:
            return None
        tables, self._tables, self._starts = self._tables, [], []
        kept = np.flatnonzero(self._is_last[: self.rows])
        slots = self._slots[kept]
        self.taken = int(np.searchsorted(kept, self.taken))
        runs: list[list[pa.Table]] = []
        start = 0
        for table in tables:
            mask = self._is_last[start : start + table.num_rows]
            start += table.num_rows
            if mask.any():
                rest = table.filter(pa.array(mask))
                if runs and runs[-1][0].schema == rest.schema:
                    runs[-1].append(rest)
                else:
                    runs.append([rest])
        self.rows = 0
        for run in runs:
            self._tables.append(pa.concat_tables(run).combine_chunks())
            self._starts.append(self.rows)
            self.rows += self._tables[-1].num_rows
        self._slots[: self.rows], self._is_last[: self.rows] = slots, True
        self.outdated = 0
        return slots, np.arange(self.rows)

    # ------------------------------------------------------------ look

    def tables(self) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        """Yield all tables, with the slots of their rows, and which rows are the last."""
        for start, table in zip(self._starts, self._tables, strict=True):
            rows = slice(start, start + table.num_rows)
            yield table, self._slots[rows], self._is_last[rows]

    def take(self, rows: np.ndarray) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Yield tables with these rows, and which of them they are: indices into `rows`."""
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            own = rows[places] - self._starts[number]
            yield self._tables[number].take(pa.array(own)), places

    @property
    def nbytes(self) -> int:
        """Bytes of all reports."""
        return sum(table.nbytes for table in self._tables) + self._slots.nbytes // 4 * 5
