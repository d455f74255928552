"""Local times as Arrow arrays, in years that Arrow's calendar has."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

from tocsin.model.arrow import values_of
from tocsin.model.local_times import CYCLE, DAY, is_utc, offsets_at
from tocsin.model.terms.arrays import from_values, replace_values, validity

_NAIVE = pa.timestamp("us")
_FAR_DAYS = 10_000_000  # from 1970: 27,000 years; Arrow's calendar has 32,767


def to_local(instants: pa.Array, zone: datetime.tzinfo) -> tuple[pa.Array, np.ndarray | None]:
    """Return timestamps as local times without a zone, in the years that `near_years` has."""
    near, cycles = near_years(instants.view(_NAIVE))
    if is_utc(zone):
        return near, cycles
    # A local time itself may not fit into 64 bits.
    local = values_of(near) + offsets_at(values_of(instants), zone)
    return replace_values(near, local, _NAIVE), cycles


def near_years(times: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Return times in years that Arrow's calendar has, and the cycles of 400 years in between.

    The calendar repeats after a cycle, with its weeks. There are no cycles for usual times.
    """
    values = values_of(times)
    day = DAY if values.dtype == np.int64 else 1
    if not len(values) or (values.min() >= -_FAR_DAYS * day and values.max() <= _FAR_DAYS * day):
        return times, None
    cycles = values // (CYCLE * day)
    near = values - cycles * (CYCLE * day)
    return from_values(near, times.type, validity(times)), cycles.astype(np.int32)
