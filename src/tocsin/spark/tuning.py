"""Tune rules to a sample that Spark draws from a DataFrame of events."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from tocsin.engine.rules import TUNING_EVENTS, Rules
from tocsin.engine.store import RuleStore
from tocsin.errors import EventError, RuleError
from tocsin.spark.columns import EventColumns, find_needed_columns
from tocsin.spark.operators import check_frame, draw_sample


def tune(rules: Any, events: Any) -> int | None:
    """Tune rules to events like those expected, as `Rules.tune` does.

    Parameters
    ----------
    rules
        A `Rules`, or the path of a rule store. A store gets a new version, whose number is
        returned; streams that use the store switch to it in their next micro-batch.
    events
        A DataFrame, not a stream. At most 20,000 of its rows, drawn at random in one pass, are
        collected in this process.
    """
    advice = (
        "tune with a batch DataFrame of such events, for example from a file that the stream has "
        "read"
    )
    check_frame(events, "events", "Rules.tune", no_stream=advice)
    if isinstance(rules, Rules):
        rules.tune(_sample(rules, events))
        return None
    if not isinstance(rules, str | os.PathLike):
        raise RuleError(
            f"rules must be a tocsin.Rules or the path of a rule store, got {type(rules).__name__}"
        )
    store = RuleStore(rules)
    return store.tune(_sample(store.rules(), events))


def _sample(rules: Rules, events: Any) -> pa.Table:
    """Return the columns that rules test, of at most `TUNING_EVENTS` random events."""
    needed = find_needed_columns(rules.snapshot(), EventColumns(events.schema), live=False)
    if not needed:
        raise RuleError("the rules test no column of these events; there is nothing to tune")
    sample = draw_sample(events, needed, TUNING_EVENTS)
    if not len(sample):
        raise EventError("the DataFrame has no events to tune to")
    return sample
