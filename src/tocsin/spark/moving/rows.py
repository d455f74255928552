"""Rows of positions as they arrive in workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

BUCKET = "bucket"  # the last column of the rows, perhaps before `DIGEST`


def select_valid(rows: pa.RecordBatch, key: str, time: str) -> pa.RecordBatch:
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


def log_rejected(count: int, key: str, time: str) -> None:
    """Tell how many rows were rejected."""
    logging.getLogger("tocsin").warning(
        "%d positions were rejected, because their key %r or their time %r is missing or not "
        "finite",
        count,
        key,
        time,
    )
