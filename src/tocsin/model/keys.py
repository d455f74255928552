"""The keys of events in memory: dense columns, compressed rows, or both.

Attributes that come as columns are stored by attribute, with one int64 per event. Sparse attributes
(from maps, dicts, and wide tables that are mostly null) are stored by event, as (attribute, key).
Attributes that no rule tests are not stored.

A kernel *loads* one event at a time into a scratch line: an array with one key per attribute of
the schema, NULL where the event has no value. So kernels do not depend on how events are stored,
and a load costs as much as the event has values, not as much as the schema has attributes.

An event can have a range instead of a value. The keys are then the low ends of ranges, and the high
ends are stored in the same way. The same step loads them into a second line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32s, Int64Out, Int64Rows, Int64s, freeze, kernel, step
from tocsin.model.encoding import NULL


class Keys(NamedTuple):
    """The keys of n events."""

    columns: Int64Rows  # [c, n] dense attributes
    column_attribute: Int32s  # [c] their numbers in the schema
    offsets: Int64s  # [n + 1] the sparse keys of event e are offsets[e] to offsets[e + 1]; or [0]
    attribute: Int32s  # [v] numbers in the schema
    key: Int64s  # [v]
    columns_high: Int64Rows  # [c, n] the high ends of ranges; a value is its own high end
    key_high: Int64s  # [v] likewise; both are empty if no event has a range

    @property
    def size(self) -> int:
        """The number of events."""
        return self.columns.shape[1]

    @property
    def has_ranges(self) -> bool:
        """Whether some event has a range."""
        return self.columns_high.shape[0] + self.key_high.shape[0] > 0

    @property
    def highs(self) -> tuple[np.ndarray, np.ndarray]:
        """The high ends of columns and of sparse keys. A value is its own high end."""
        return (self.columns_high, self.key_high) if self.has_ranges else (self.columns, self.key)


class EventBatch(NamedTuple):
    """The events from `first` up to `stop` of a block of keys."""

    keys: Keys
    width: int  # attributes in the schema, which may have grown since an index was built
    first: int
    stop: int

    @classmethod
    def whole(cls, keys: Keys, width: int) -> EventBatch:
        """Return all events of a block."""
        return cls(keys, width, 0, keys.size)

    def until(self, stop: int) -> EventBatch:
        """Return the events before `stop`."""
        return self if stop == self.stop else self._replace(stop=stop)

    @property
    def size(self) -> int:
        """The number of events."""
        return self.stop - self.first


_NO_OFFSETS = freeze(np.empty(0), np.int64)
_NO_ATTRIBUTES = freeze(np.empty(0), np.int32)
_NO_COLUMNS = freeze(np.empty((0, 0)), np.int64)


def dense_keys(
    columns: np.ndarray, column_attribute: np.ndarray, high: np.ndarray | None = None
) -> Keys:
    """Return the keys of events that have all their attributes in columns."""
    return Keys(
        freeze(columns, np.int64),
        freeze(column_attribute, np.int32),
        _NO_OFFSETS,
        _NO_ATTRIBUTES,
        _NO_OFFSETS,
        _NO_COLUMNS if high is None or np.array_equal(columns, high) else freeze(high, np.int64),
        _NO_OFFSETS,
    )


def sparse_keys(
    offsets: np.ndarray, attribute: np.ndarray, key: np.ndarray, high: np.ndarray | None = None
) -> Keys:
    """Return the keys of events that are compressed rows."""
    return Keys(
        freeze(np.empty((0, len(offsets) - 1)), np.int64),
        _NO_ATTRIBUTES,
        freeze(offsets, np.int64),
        freeze(attribute, np.int32),
        freeze(key, np.int64),
        _NO_COLUMNS,
        _NO_OFFSETS if high is None or np.array_equal(key, high) else freeze(high, np.int64),
    )


def combine_keys(columns: Keys, rows: Keys) -> Keys:
    """Return the keys of events that have some attributes in columns and others in rows."""
    combined = columns._replace(offsets=rows.offsets, attribute=rows.attribute, key=rows.key)
    if not columns.has_ranges and not rows.has_ranges:
        return combined
    return combined._replace(columns_high=columns.highs[0], key_high=rows.highs[1])


def add_columns(keys: Keys, columns: np.ndarray, column_attribute: np.ndarray) -> Keys:
    """Return keys with further columns; none of their values is a range."""
    high = keys.columns_high
    if keys.has_ranges:
        high = freeze(np.concatenate([keys.highs[0], columns]), np.int64)
    return keys._replace(
        columns=freeze(np.concatenate([keys.columns, columns]), np.int64),
        column_attribute=freeze(
            np.concatenate([keys.column_attribute, column_attribute]), np.int32
        ),
        columns_high=high,
    )


def slice_keys(keys: Keys, first: int, stop: int) -> Keys:
    """Return the keys of the events from `first` up to `stop`; columns are copied, rows shared.

    They have high ends if the others have, whether or not a range is among them.
    """
    return keys._replace(
        columns=freeze(keys.columns[:, first:stop], np.int64),
        offsets=keys.offsets[first : stop + 1],
        columns_high=freeze(keys.columns_high[:, first:stop], np.int64),
    )


def key_column(keys: Keys, attribute: int) -> np.ndarray:
    """Return the keys of one attribute for all events, NULL where an event has no value.

    The attribute -1 is none: all keys are NULL.
    """
    rows = keys.column_attribute.tolist()
    if attribute in rows:
        return keys.columns[rows.index(attribute)]
    column = np.full(keys.size, NULL)
    if len(keys.offsets):
        gather(keys, attribute, column)
    return column


@kernel
def gather(keys: Keys, attribute: int, column: Int64Out) -> None:
    """Write the keys of a sparse attribute."""
    offsets, attributes, key = keys.offsets, keys.attribute, keys.key
    for event in range(column.shape[0]):
        for i in range(offsets[event], offsets[event + 1]):
            if attributes[i] == attribute:
                column[event] = key[i]


# Limits for indexes that divide a domain into equal cells. The difference of two floats can
# overflow, so bounds beyond FAR are outliers, and a domain narrower than NARROW is not divided.
# Then extents, sums of 2**60 extents and cells per unit are finite, and the number of a cell fits
# into 64 bits.
FAR = 2.0**960
NARROW = 2.0**-960
FAR_INTEGER = 2.0**62  # like FAR, for integer keys


@step
def to_number(key, is_float):
    """Return the number of a key as a float. It can be infinite or NaN."""
    if is_float != 0:
        return np.int64(key if key >= 0 else np.int64(NULL) - key).view(np.float64)
    return np.float64(key)


@step
def to_key(number):
    """Return the key of a number that is not NaN."""
    bits = np.float64(number + 0.0).view(np.int64)  # -0 becomes 0
    return bits if bits >= 0 else np.int64(NULL) - bits


@step
def blank(width):
    """Return an empty scratch line for a schema of `width` attributes."""
    line = np.empty(width, np.int64)
    line[:] = NULL
    return line


@step
def load(columns, column_attribute, offsets, attribute, key, event, line):
    """Load the keys of an event into a scratch line.

    Takes the fields of `Keys` and not the tuple: Numba counts references to a tuple's array at
    every access within a branch, with two atomic operations.
    """
    for c in range(column_attribute.shape[0]):
        line[column_attribute[c]] = columns[c, event]
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            line[attribute[i]] = key[i]


@step
def unload(offsets, attribute, event, line):
    """Clear the sparse keys of an event. The next load overwrites the dense ones."""
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            line[attribute[i]] = NULL


@kernel
def write_lines(keys: Keys, event: int, line: Int64Out, last: Int64Out) -> None:
    """Write the keys of one event to `line`, and the high ends of its ranges to `last`."""
    columns, offsets, attribute = keys.column_attribute, keys.offsets, keys.attribute
    line[:] = NULL
    load(keys.columns, columns, offsets, attribute, keys.key, event, line)
    for a in range(line.shape[0]):
        last[a] = line[a]
    if keys.columns_high.shape[0] + keys.key_high.shape[0] > 0:
        load(keys.columns_high, columns, offsets, attribute, keys.key_high, event, last)


@kernel
def count_present(columns: Int64Rows, counts: Int64Out) -> None:
    """Write the number of attributes that are not null, per event."""
    counts[:] = 0
    for c in range(columns.shape[0]):
        for e in range(columns.shape[1]):
            counts[e] += columns[c, e] != NULL


@kernel
def compress(
    columns: Int64Rows,
    column_attribute: Int32s,
    cursor: Int64Out,
    attribute: Int64Out,
    key: Int64Out,
) -> None:
    """Write the keys that are not null as compressed rows; `cursor` starts as their offsets."""
    for c in range(columns.shape[0]):
        for e in range(columns.shape[1]):
            if columns[c, e] != NULL:
                at = cursor[e]
                attribute[at] = column_attribute[c]
                key[at] = columns[c, e]
                cursor[e] = at + 1
