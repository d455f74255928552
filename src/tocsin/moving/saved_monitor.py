"""A monitor that was saved: two objects in a storage, most often a folder.

::

    state            options, counters, types, and of each object its key, record, stays and report
    rules/<digest>   ids, positions and fingerprints of the rules that the state was judged by

The list of rules is put first, under a name that is its digest. Then the state, which names it, is
put as a whole. So whoever opens it sees the state before or the one after, also if a save fails in
the middle. Lists that no state names are deleted when they are an hour old.
"""

from __future__ import annotations

import time

import pyarrow as pa

from tocsin.engine.storage import Storage
from tocsin.errors import MonitorError
from tocsin.moving.options import MonitorOptions
from tocsin.moving.state_files import (
    pack_rules,
    pack_state,
    read_packed,
    read_rules,
    refuse_damage,
    unpack_state,
)
from tocsin.moving.state_tables import build_tracker, tables_of, totals_of
from tocsin.moving.tracker import Tracker

_STATE = "state"
_RULES = "rules/"
UNUSED = 3600  # seconds, chosen: a save takes far less between its list of rules and its state


def save_tracker(storage: Storage, tracker: Tracker) -> None:
    """Put the state of a tracker."""
    tracker.check()
    rules = pack_rules(tracker.judged)
    content = {"options": tracker.options.to_json(), "rules": rules.digest}
    tables = None
    if tracker.objects is not None:
        no_keys = pa.array([], tracker.objects.word_type)
        tables = tables_of(tracker, tracker.objects.live(), no_keys)
    state = pack_state(content, totals_of(tracker), tables)
    try:
        storage.put({_RULES + rules.digest: rules.chunks})
        storage.put({_STATE: state.chunks})
        storage.delete(
            entry.name
            for entry in storage.list(_RULES)
            if entry.name != _RULES + rules.digest and time.time() - entry.modified > UNUSED
        )
    except OSError as error:
        raise MonitorError(f"cannot save the monitor to {storage.locate()}: {error}") from None


def open_tracker(storage: Storage) -> Tracker:
    """Return the tracker whose state was put."""
    place = storage.locate(_STATE)
    try:
        is_there = storage.stat(_STATE) is not None
    except OSError as error:
        raise MonitorError(f"{place} cannot be read: {error}") from None
    if not is_there:
        raise MonitorError(f"no monitor was saved to {storage.locate()}")
    header, sections = read_packed(storage, _STATE)
    with refuse_damage(place):
        digest = str(header.content["rules"])
        options = MonitorOptions.from_json(header.content["options"])
        totals, tables = unpack_state(header, sections)
    judged = read_rules(storage, _RULES + digest, digest)
    with refuse_damage(place):
        return build_tracker(options, totals, judged, [] if tables is None else [tables])
