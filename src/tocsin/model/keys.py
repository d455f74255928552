"""Events as keys: dense columns, compressed rows, or both at once.

Attributes that came as columns lie attribute by attribute, one int64 an event;
those that came sparsely (maps, dicts, wide tables that are mostly null) lie event
by event as (attribute, key). Attributes that no rule tests are in neither.

A kernel walks events and *loads* each into a scratch line, one key per attribute
of the schema, NULL where the event says nothing: so kernels need not know how an
event was given, and a load costs what the event mentions, not what the schema has.

An event may have a range in place of a value. Then keys are the ranges' low ends, and beside
them lie the high ends, laid out alike: loaded onto a second line, by the same step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32s, Int64Out, Int64Rows, Int64s, frozen, kernel, step
from tocsin.model.line import NULL


class Keys(NamedTuple):
    """The keys of n events."""

    columns: Int64Rows  # [c, n] dense attributes
    column_attribute: Int32s  # [c] number of each in the schema
    offsets: Int64s  # [n + 1], or [0] where nothing is sparse
    attribute: Int32s  # [v] numbers in the schema
    key: Int64s  # [v]
    columns_high: Int64Rows  # [c, n] the high ends of ranges, where a value is its own high end;
    key_high: Int64s  # [v]  both empty if no event has a range

    @property
    def size(self) -> int:
        """How many events there are."""
        return self.columns.shape[1]

    @property
    def ranged(self) -> bool:
        """Whether some event has a range."""
        return self.columns_high.shape[0] + self.key_high.shape[0] > 0

    @property
    def highs(self) -> tuple[np.ndarray, np.ndarray]:
        """The high ends, of values too."""
        return (self.columns_high, self.key_high) if self.ranged else (self.columns, self.key)


class EventBatch(NamedTuple):
    """The events from `first` up to `stop` of a block of keys."""

    keys: Keys
    width: int  # attributes of the schema, which may have grown since an index was built
    first: int
    stop: int

    @classmethod
    def whole(cls, keys: Keys, width: int) -> EventBatch:
        """Return all events of a block."""
        return cls(keys, width, 0, keys.size)

    @property
    def size(self) -> int:
        """How many events there are."""
        return self.stop - self.first


_NO_OFFSETS = frozen(np.empty(0), np.int64)
_NO_ATTRIBUTES = frozen(np.empty(0), np.int32)
_NO_COLUMNS = frozen(np.empty((0, 0)), np.int64)


def dense(
    columns: np.ndarray, column_attribute: np.ndarray, high: np.ndarray | None = None
) -> Keys:
    """Return keys of events that have all their attributes in columns."""
    return Keys(
        frozen(columns, np.int64),
        frozen(column_attribute, np.int32),
        _NO_OFFSETS,
        _NO_ATTRIBUTES,
        _NO_OFFSETS,
        _NO_COLUMNS if high is None or _are_values(columns, high) else frozen(high, np.int64),
        _NO_OFFSETS,
    )


def sparse(
    offsets: np.ndarray, attribute: np.ndarray, key: np.ndarray, high: np.ndarray | None = None
) -> Keys:
    """Return keys of events that are compressed rows."""
    return Keys(
        frozen(np.empty((0, len(offsets) - 1)), np.int64),
        _NO_ATTRIBUTES,
        frozen(offsets, np.int64),
        frozen(attribute, np.int32),
        frozen(key, np.int64),
        _NO_COLUMNS,
        _NO_OFFSETS if high is None or _are_values(key, high) else frozen(high, np.int64),
    )


def _are_values(low: np.ndarray, high: np.ndarray) -> bool:
    """Tell whether all ranges end where they begin."""
    return np.array_equal(low, high)


def together(columns: Keys, rows: Keys) -> Keys:
    """Return keys of events that have some attributes in columns and others in rows."""
    made = columns._replace(offsets=rows.offsets, attribute=rows.attribute, key=rows.key)
    if not columns.ranged and not rows.ranged:
        return made
    return made._replace(columns_high=columns.highs[0], key_high=rows.highs[1])


def slice_keys(keys: Keys, first: int, stop: int) -> Keys:
    """Return the keys of the events from `first` up to `stop`; columns are copied, rows shared.

    They have high ends if the others have, whether or not a range is among them.
    """
    return keys._replace(
        columns=frozen(keys.columns[:, first:stop], np.int64),
        offsets=keys.offsets[first : stop + 1],
        columns_high=frozen(keys.columns_high[:, first:stop], np.int64),
    )


def key_column(keys: Keys, attribute: int) -> np.ndarray:
    """Return every event's key of one attribute, null where it has none."""
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


# For those who cut a domain into equal parts. Floats reach further than their differences do: so
# what lies beyond FAR is an outlier, and a domain narrower than NARROW is not cut. Then extents,
# sums of 2**60 extents, and parts to a unit of a domain are finite, and a part's number fits 64
# bits.
FAR = 2.0**960
NARROW = 2.0**-960
FAR_INTEGER = 2.0**62  # like FAR, where keys are integers


@step
def number(key, is_float):
    """Return the number that a key stands for; it may be infinite, or NaN."""
    if is_float != 0:
        return np.int64(key if key >= 0 else np.int64(NULL) - key).view(np.float64)
    return np.float64(key)


@step
def blank(width):
    """Return a scratch line for a schema of `width` attributes."""
    line = np.empty(width, np.int64)
    line[:] = NULL
    return line


@step
def load(columns, column_attribute, offsets, attribute, key, event, line):
    """Put an event's keys onto the scratch line; takes the fields of `Keys`.

    Not the tuple: a field of it that is asked for within branches costs two atomic counts.
    """
    for c in range(column_attribute.shape[0]):
        line[column_attribute[c]] = columns[c, event]
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            line[attribute[i]] = key[i]


@step
def unload(offsets, attribute, event, line):
    """Take them off again; dense attributes are overwritten by the next load."""
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            line[attribute[i]] = NULL


@kernel
def line_of(keys: Keys, event: int, line: Int64Out, last: Int64Out) -> None:
    """Write one event's keys, and the high ends of its ranges, over whole lines."""
    of, offsets, attribute = keys.column_attribute, keys.offsets, keys.attribute
    line[:] = NULL
    load(keys.columns, of, offsets, attribute, keys.key, event, line)
    last[:] = line
    if keys.columns_high.shape[0] + keys.key_high.shape[0] > 0:
        load(keys.columns_high, of, offsets, attribute, keys.key_high, event, last)


@kernel
def count_present(columns: Int64Rows, counts: Int64Out) -> None:
    """Count the attributes that are not null, per event."""
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
    """Move what is not null into compressed rows; `cursor` starts as the rows' offsets."""
    for c in range(columns.shape[0]):
        for e in range(columns.shape[1]):
            if columns[c, e] != NULL:
                at = cursor[e]
                attribute[at] = column_attribute[c]
                key[at] = columns[c, e]
                cursor[e] = at + 1
