"""The state of a monitor, and how an update changes it.

An update is: read the positions, find the rules that changed and what they hold for, match the
positions, all of which leaves the state as it is; then changed rules, rows and timers happen to the
objects, in this order, in three kernels (`transitions.py`). So an update that fails changes
nothing. What is costly is the match; the rest touches each row's object once.

A `Tracker` knows nothing of stores and threads: it is given a version of the rules. `Monitor` adds
these in one process, and Spark's workers have one for each bucket of objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.version import Version, can_be_id, plain_id
from tocsin.errors import MonitorError, suggest
from tocsin.jit import freeze
from tocsin.model.arrow import translate_errors
from tocsin.model.encoding import number_key, number_value
from tocsin.model.event_tables import add_missing
from tocsin.model.events import Events
from tocsin.model.keys import Keys, dense_keys
from tocsin.model.matches import Matches
from tocsin.moving.event_table import Outcome, build_table, schema_of
from tocsin.moving.judging import find_holding
from tocsin.moving.objects import (
    CONFIRMED,
    COUNT,
    POSITION,
    RANK,
    RULE,
    START,
    STAY,
    WORDS,
    Objects,
    find_stays,
)
from tocsin.moving.options import MonitorOptions, check_duration, to_ticks
from tocsin.moving.positions import Positions, read_positions, read_time
from tocsin.moving.regions.region import SafeRegion
from tocsin.moving.regions.tracked import COUNTERS, JudgedRows, Regions
from tocsin.moving.reports import Reports
from tocsin.moving.rule_changes import JudgedRules
from tocsin.moving.step import Step
from tocsin.moving.transitions import (
    Options,
)
from tocsin.moving.velocity_search import VelocitySearch
from tocsin.moving.widening import FLOAT, INTEGER, Widened, nothing_widened, widen

_LONG = 32  # rules of a row above which all are sorted at once, and not one after the other
_NO_KEYS = dense_keys(np.empty((0, 0), np.int64), np.empty(0, np.int32))
_NOTHING_WIDENED = nothing_widened()


class Tracker:
    """Who is inside what, as of the last update."""

    def __init__(self, options: MonitorOptions, threads: int | None = None):
        self.options = options
        self.threads = threads  # of a match, as in `Rules.match`
        self.objects: Objects | None = None  # None until the type of keys is known
        self.reports = Reports()
        self.judged = JudgedRules(None)
        self.key_type: pa.DataType | None = None
        self.time_type: pa.DataType | None = None
        self.kept = pa.schema([])  # the user's columns, in the types that came first
        self.clock: int | None = None
        self.rejected: pa.Table | None = None
        self.late, self.doubled = np.zeros(0, np.int32), np.zeros(0, np.int32)  # by slot
        self.counts = dict.fromkeys(("rows", "late", "doubled", "rejected", "events"), 0)
        self.buffer = np.empty(0, np.int64)  # of events; memory that is reused costs less
        self._settings: tuple[Version, pa.DataType | None, Options, Widened | None] | None = None
        self.is_broken = False
        self.region_column: str | None = None  # of events, which then have regions and questions
        self.regions: Regions | None = None
        if options.safe_regions is not None:
            self.regions = Regions(options)
            self.counts |= dict.fromkeys(COUNTERS, 0)
        self.search = None if options.v_max is None else VelocitySearch(options)
        # What changed since `collect_changes`: slots, and keys of forgotten objects.
        self._touched: list[np.ndarray] | None = None
        self._forgotten: list[pa.Array] = []

    # ------------------------------------------------------------ change

    def update(self, source: Any, version: Version, number: int | None) -> pa.Table:
        """Let a batch of positions happen; return the events."""
        has_texts = None if self.objects is None else self.objects.has_texts
        positions = read_positions(source, self.options, version.schema, has_texts, self.time_type)
        return self._run(version, number, positions, None)

    def advance(self, now: Any, version: Version, number: int | None) -> pa.Table:
        """Move the clock; return the events that are due."""
        word, time_type = read_time(now, self.time_type, "now")
        if self.time_type is None:
            self.time_type = time_type
        return self._run(version, number, None, word)

    def remove(self, key: Any, version: Version, number: int | None) -> pa.Table:
        """Forget an object; return its leaves. Rules that changed are not judged."""
        version = version if self.judged.version is None else self.judged.version
        return self._run(version, number, None, None, key)

    def collect_changes(self) -> None:
        """Collect which objects change from now on."""
        self._touched, self._forgotten = [], []

    def touch(self, slots: np.ndarray) -> None:
        """Note that objects may change."""
        if self._touched is not None:
            self._touched.append(slots)

    def forget(self, slots: np.ndarray) -> None:
        """Forget objects."""
        assert self.objects is not None
        if self._touched is not None:
            self._forgotten.append(self.objects.keys(slots))
        self.objects.forget(slots)
        if self.regions is not None:
            self.regions.forget(slots)
        if self.search is not None:
            self.search.forget(slots)

    def changes(self) -> tuple[np.ndarray, pa.Array] | None:
        """Return the slots of objects that changed, and keys of forgotten ones; None if unknown."""
        objects = self.objects
        if self._touched is None or objects is None:
            return None
        is_touched = np.zeros(objects.slots, bool)
        for slots in self._touched:
            is_touched[slots] = True
        is_touched &= objects.records.reshape(-1, WORDS)[: objects.slots, RANK] >= 0
        keys = pa.concat_arrays([pa.array([], objects.word_type), *self._forgotten])
        gone = keys.filter(pa.array(objects.find(keys) < 0))
        return np.flatnonzero(is_touched).astype(np.int32), gone

    def _run(
        self,
        version: Version,
        number: int | None,
        positions: Positions | None,
        now: int | None,
        removed: Any = None,
    ) -> pa.Table:
        self.check()
        time_type = self.time_type if positions is None else positions.time_type
        if positions is not None and self.key_type is not None and t.is_integer(self.key_type):
            what = f"keys in {self.options.key!r}: expected {self.key_type}, as before"
            with translate_errors(MonitorError, what):
                positions.keys.cast(self.key_type)
        key_type = self.key_type or (positions.key_type if positions is not None else pa.string())
        kept, payload = self._user_columns(version, positions)
        schema = schema_of(
            version, key_type, time_type or pa.timestamp("us"), kept, payload, self.region_column
        )
        settings, widened = self._settings_of(version, time_type)
        # A state that was opened knows the rules that it was judged by as a list only.
        judged = JudgedRules(version)
        if removed is not None and self.judged.version is None:
            judged = self.judged
        self.judged.check_type(version)
        changes = None if judged is self.judged else self.judged.find_changes(version)
        holding = None
        if changes is not None and self.objects is not None:
            holding = find_holding(
                changes, version, self.objects, self.reports, widened, self.search, time_type
            )
        cuts, rows = None, None
        if self.regions is not None:
            margin = None if widened is None else widened.margin
            if changes is not None and holding is not None and self.objects is not None:
                cuts = self.regions.find_cuts(changes, version, self.objects, margin)
                holding = self.regions.leave_undecided(holding, cuts, changes, self.objects)
            if positions is not None:
                rows = self.regions.judge(positions, version, self.objects, self.reports, cuts)
        matches, keys = None, _NO_KEYS
        if positions is not None:
            matches, keys = self._match(version, positions, rows, widened)
        # What follows changes the state. Nothing in it fails, but for memory and interrupts.
        self.is_broken = True
        self._move_clock(positions, now)
        if positions is not None:
            self.counts["rows"] += len(positions.times)
            self.counts["rejected"] += positions.rejected.num_rows
            self.rejected = positions.rejected
            if self.objects is None and positions.is_valid.any():
                self.objects = Objects(not t.is_integer(positions.keys.type))
                self.key_type, self.time_type = key_type, time_type
                self.kept = kept
        table = schema.empty_table()
        if self.objects is not None:
            step = Step(self, self.objects, settings)
            if cuts is not None:
                step.cut_regions(cuts, version)
            if changes is not None and holding is not None:
                step.change_rules(changes, holding)
            if positions is not None and matches is not None:
                last = step.move(positions, matches, widened or _NOTHING_WIDENED, keys, rows)
                if rows is not None:
                    step.settle_regions(last, rows, version, widened)
            if self.clock is not None:
                step.fire(self.clock)
            if removed is not None:
                step.remove(removed)
            step.tell_regions(cuts)
            batch = None if positions is None else positions.reports
            outcome = Outcome(
                step.events(),
                self.objects,
                judged,
                version,
                changes,
                batch,
                self.reports,
                None if self.region_column is None else self.regions,
            )
            table = build_table(outcome, schema, len(kept), number)
            step.finish()
        self.judged = judged
        self.counts["events"] += len(table)
        self.is_broken = False
        return table

    def _match(
        self,
        version: Version,
        positions: Positions,
        judged: JudgedRows | None,
        widened: Widened | None,
    ) -> tuple[Matches, Keys]:
        """Return the rules that rows match, none for those without effect, and keys if widened."""
        batch = add_missing(positions.reports, version.tested())
        if judged is None or len(judged.visits) == len(batch):
            matches = version.match(batch, self.threads)
        else:
            visits = judged.visits
            matches = version.match(batch.take(pa.array(visits)), self.threads)
            counts = np.zeros(len(batch) + 1, np.int64)
            counts[visits + 1] = np.diff(matches.offsets)
            matches = Matches(np.cumsum(counts), matches.rules, version.directory)
        if np.diff(matches.offsets).max(initial=0) > _LONG:
            matches = matches.sorted()
        if widened is None:
            return matches, _NO_KEYS
        attributes = {a: i for i, a in enumerate(version.tested_attributes())}
        events = Events.read(batch, version.attributes, attributes, version.categories)
        return matches, events.keys(0, len(events))

    def _move_clock(self, positions: Positions | None, now: int | None) -> None:
        words = [self.clock, now]
        if positions is not None and positions.is_valid.any():
            latest = int(positions.times[positions.is_valid != 0].max())
            if self.options.delay is not None:
                ticks = to_ticks("delay", self.options.delay, positions.time_type)
                latest = subtract(latest, ticks, positions.time_type)
            words.append(latest)
        self.clock = max((word for word in words if word is not None), default=None)

    # ------------------------------------------------------------ settings

    def _user_columns(
        self, version: Version, positions: Positions | None
    ) -> tuple[pa.Schema, pa.Schema]:
        """Return the columns that the user adds: those to keep, and payload."""
        kept = self.kept
        if not len(kept) and self.options.keep:
            kept = pa.schema([(name, pa.null()) for name in self.options.keep])
            if positions is not None:
                by_name = {name.lower(): name for name in positions.reports.column_names}
                fields = [
                    positions.reports.schema.field(by_name[name.lower()])
                    for name in self.options.keep
                ]
                kept = pa.schema(fields)
        elif positions is not None:
            by_name = {name.lower(): name for name in positions.reports.column_names}
            for field in kept:
                column = positions.reports.column(by_name[field.name.lower()])
                with translate_errors(MonitorError, f"column {field.name!r} was {field.type}"):
                    column.cast(field.type)
        known = version.payload_schema
        for name in self.options.payload:
            if name not in known.names and len(version):
                raise MonitorError(
                    f"the rules have no payload column {name!r}{suggest(name, known.names)}"
                )
        return kept, pa.schema(
            [
                known.field(name) if name in known.names else pa.field(name, pa.null())
                for name in self.options.payload
            ]
        )

    def _settings_of(
        self, version: Version, time_type: pa.DataType | None
    ) -> tuple[Options, Widened | None]:
        """Return the options as kernels take them, and widened rules if there is a margin."""
        if self.regions is not None:
            kinds = self._position_kinds(version)
            x, y = (kinds[name.lower()] for name in self.options.position)
            self.touch(self.regions.attach(version, (x, y)))
        if self._settings is not None and self._settings[:2] == (version, time_type):
            return self._settings[2:]
        options = self.options

        def ticks(name: str, default: int) -> int:
            value = getattr(options, name)
            if value is None or time_type is None:
                return default
            return to_ticks(name, value, time_type)

        is_float = time_type is not None and t.is_floating(time_type)
        wait = [ticks("min_stay", 0), ticks("min_away", 0), ticks("lost_after", -1), int(is_float)]
        if options.dwell_column is None:
            dwell = np.array([ticks("dwell", -1)])
        else:
            dwell = np.full(version.next_position + 2, -1)
            for position, value in _payload_of(version, "dwell", options.dwell_column):
                with _naming_rule(version, position):
                    check_duration("dwell", value)
                    if time_type is not None:
                        dwell[position] = to_ticks("dwell", value, time_type)
        quiet = np.empty(0, np.uint8)
        settings = Options(
            freeze(np.array(wait), np.int64), freeze(dwell, np.int64), freeze(quiet, np.uint8)
        )
        widened = None
        if options.has_margin:
            widened = widen(version, self._position_kinds(version), self._margins(version))
        self._settings = version, time_type, settings, widened
        return settings, widened

    def _position_kinds(self, version: Version) -> dict[str, int]:
        kinds = {}
        for name in self.options.position:
            number = version.schema.find(name)
            kind = None if number is None else version.schema.kind(number)
            if kind not in ("number", "integer"):
                what = "safe regions are of distances" if self.regions else "margin is a distance"
                raise MonitorError(
                    f"{what}, and position column {name!r} "
                    + (f"is of kind {kind}" if kind else "is no attribute of the rules")
                    + "; name those that are coordinates, numbers or integers, as in "
                    "position=['x', 'y']"
                )
            kinds[name.lower()] = FLOAT if kind == "number" else INTEGER
        return kinds

    def _margins(self, version: Version) -> np.ndarray:
        column = self.options.margin_column
        if column is None:
            return np.array([self.options.margin])
        margins = np.zeros(version.next_position + 2)
        for position, value in _payload_of(version, "margin", column):
            with _naming_rule(version, position):
                if not isinstance(value, int | float) or not 0 <= value < np.inf:
                    raise MonitorError(f"margin must be a number, 0 or more, got {value!r}")
            margins[position] = value
        return margins

    # ------------------------------------------------------------ look

    def check(self) -> None:
        """Raise if an exception, such as that of a signal, has left the state half changed."""
        if self.is_broken:
            raise MonitorError(
                "an earlier update was interrupted after it had begun to change the state; open "
                "what was saved before"
            )

    def inside(self, rule: Any) -> list[Any]:
        """Return the objects in a rule, in order of first appearance."""
        self.check()
        position = self.judged.position_of(plain_id(rule))
        if position < 0 or self.objects is None:
            return []
        objects = self.objects
        slots = np.empty(objects.slots, np.int32)
        slots = slots[: find_stays(objects.records, objects.pool, objects.slots, position, slots)]
        ranks = objects.records.reshape(-1, WORDS)[slots, RANK]
        keys: list[Any] = objects.keys(slots[np.argsort(ranks)]).to_pylist()
        return keys

    def where(self, key: Any) -> list[Any]:
        """Return the rules that an object is in, in order of addition."""
        self.check()
        slot = self.find(key)
        if slot < 0:
            return []
        assert self.objects is not None
        record = self.objects.records[slot * WORDS : (slot + 1) * WORDS]
        first, count = int(record[START]), int(record[COUNT])
        stays = self.objects.pool[first : first + count * STAY].reshape(-1, STAY)[:, RULE]
        inside = stays[(stays & CONFIRMED) != 0] & POSITION
        ids: list[Any] = self.judged.ids_at(inside).to_pylist()
        return ids

    def region(self, key: Any) -> SafeRegion | None:
        """Return where an object may be silent; None if it must report, or is not known."""
        regions = self._checked_regions()
        slot = self.find(key)
        return None if slot < 0 else regions.region_of(slot)

    def to_ask(self) -> list[Any]:
        """Return the objects that must report, in order of first appearance."""
        regions = self._checked_regions()
        if self.objects is None:
            return []
        keys: list[Any] = self.objects.keys(regions.asked(self.objects.live())).to_pylist()
        return keys

    def _checked_regions(self) -> Regions:
        self.check()
        if self.regions is None:
            raise MonitorError(
                'this monitor has no safe regions; make it with safe_regions="dist", "sphere" or '
                '"rect"'
            )
        return self.regions

    def find(self, key: Any) -> int:
        """Return the slot of an object, or -1."""
        key = plain_id(key)
        objects = self.objects
        if objects is None or not can_be_id(key, objects.word_type):
            return -1
        return int(objects.find(pa.array([key], objects.word_type))[0])

    def counters(self) -> dict[str, Any]:
        """Return numbers of rows and events, and of late and doubled rows by object."""
        self.check()
        counters: dict[str, Any] = dict(self.counts)
        counters["objects"] = 0 if self.objects is None else self.objects.size
        for name, by_slot in (("late", self.late), ("doubled", self.doubled)):
            slots = np.empty(0, np.int32)
            if self.objects is not None:
                slots = self.objects.live()
                slots = slots[by_slot[slots] > 0]
            keys = [] if self.objects is None else self.objects.keys(slots).to_pylist()
            counters[f"{name}_by_object"] = dict(zip(keys, by_slot[slots].tolist(), strict=True))
        return counters if self.search is None else counters | self.search.counters

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        own = 0 if self.objects is None else self.objects.nbytes
        own += 0 if self.regions is None else self.regions.nbytes
        own += 0 if self.search is None else self.search.nbytes
        return own + self.reports.nbytes + self.late.nbytes + self.doubled.nbytes


def subtract(word: int, ticks: int, time_type: pa.DataType) -> int:
    """Return a time less a duration, both as words."""
    if not t.is_floating(time_type):
        return max(word - ticks, -(2**63) + 1)
    bits = np.int64(ticks).view(np.float64)
    return number_key(number_value(word) - float(bits))


@contextlib.contextmanager
def _naming_rule(version: Version, position: int) -> Iterator[None]:
    """Add the id of a rule to errors about its payload."""
    try:
        yield
    except MonitorError as error:
        id_ = version.directory.ids_at(np.array([position], np.int32))[0].as_py()
        raise error.with_place(f"rule {id_!r}") from None


def _payload_of(version: Version, option: str, column: str) -> Iterator[tuple[int, Any]]:
    """Yield positions and values of a payload column, where it is not null."""
    if column not in version.payload_schema.names:
        if len(version):
            known = version.payload_schema.names
            other = "a duration such as '15 min'" if option == "dwell" else "a number"
            raise MonitorError(
                f"{option}: {column!r} is neither {other} nor a payload column of the rules"
                f"{suggest(column, known)}"
            )
        return
    positions = version.positions()
    schema = pa.schema([version.payload_schema.field(column)])
    values = version.directory.payload_at(positions, schema).column(0).to_pylist()
    for position, value in zip(positions.tolist(), values, strict=True):
        if value is not None:
            yield position, value
