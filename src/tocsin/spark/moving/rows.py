"""Rows of positions as they arrive in workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

# Columns that are added to the rows; no columns of a user have such names.
BUCKET = "\0bucket"
DIGEST = "\0digest"  # a hash of all columns of a row


_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def select_valid(rows: _Rows, key: str, time: str) -> _Rows:
    """Return the rows with a key and a time."""
    is_valid = pc.and_(rows.column(key).is_valid(), rows.column(time).is_valid())
    if t.is_floating(rows.column(time).type):
        is_valid = pc.and_kleene(is_valid, pc.is_finite(rows.column(time)))
    if pc.all(is_valid).as_py() is False:
        rows = rows.filter(is_valid)
    return rows


def split_buckets(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield runs of rows of one bucket, without the column of buckets."""
    for rows in batches:
        buckets = np.asarray(rows.column(BUCKET))
        rows = rows.drop_columns([BUCKET])
        starts = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], len(buckets)], strict=True):
            if stop > start:
                yield int(buckets[start]), rows.slice(start, stop - start)


def log_rejected(what: str, key: str, time: str, count: int | None = None) -> None:
    """Tell that rows were rejected."""
    logging.getLogger("tocsin").warning(
        "%s has %spositions whose key %r or time %r is missing or not finite: they are left out",
        what,
        "" if count is None else f"{count:,} ",
        key,
        time,
    )
