"""Which rules changed between two versions, by id and by what their conditions mean.

A condition is known by its *fingerprint*: a hash of its conjunctions and of the probability that it
requires. It has names of attributes and texts of categories in place of their numbers, which merges
and other stores give anew. So a rule that is written differently but means the same has not
changed, and payload and weights do not count. A fingerprint is the same in all processes.

Two versions mostly share their large segments, so only removals are compared there. The other
rules are compared one by one.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.ids import hash_texts
from tocsin.engine.segment import LiveSegment, Segment
from tocsin.engine.version import Version, can_be_id, find_many
from tocsin.errors import MonitorError
from tocsin.geometry.table import shape_at
from tocsin.jit import Int64s, UInt8s, UInt64Out, UInt64s, freeze, kernel, step
from tocsin.model.arrow import is_text
from tocsin.model.conjunctions import Conjunctions, expand_ranges
from tocsin.model.encoding import OTHER
from tocsin.model.predicates import INTERVAL, NOT_SET, SET
from tocsin.model.residuals import Residuals
from tocsin.model.text_codes import mix
from tocsin.moving.transitions import CHANGED, MOVED, REMOVED


class RuleList(NamedTuple):
    """Rules by position."""

    positions: np.ndarray  # int32, ascending
    ids: pa.Array  # int64 or large text
    fingerprints: np.ndarray  # uint64

    def select(self, keep: np.ndarray) -> RuleList:
        """Return the rules where `keep` is true."""
        return RuleList(
            self.positions[keep], self.ids.filter(pa.array(keep)), self.fingerprints[keep]
        )


_NO_RULES = RuleList(np.empty(0, np.int32), pa.array([], pa.large_string()), np.empty(0, np.uint64))


class Changes(NamedTuple):
    """What became of rules."""

    verdicts: np.ndarray  # uint8 by old position: UNCHANGED, REMOVED, MOVED or CHANGED
    new_position: np.ndarray  # int32 by old position, if it moved or changed
    removed: RuleList  # by old position
    added: np.ndarray  # int32, new positions, ascending
    changed: np.ndarray  # int32, new positions, ascending


class JudgedRules:
    """The rules that the state of a monitor was judged by: a version, or a list that was saved."""

    def __init__(self, version: Version | None, listed: RuleList | None = None, positions: int = 0):
        self._segments: Sequence[LiveSegment] = () if version is None else version.segments
        self._listed = _NO_RULES if listed is None else listed  # in place of a version
        self.positions = positions if version is None else version.next_position
        self.version = version

    def to_list(self) -> RuleList:
        """Return all rules."""
        if self.version is None:
            return self._listed
        version = self.version
        return _concatenate([_list_rules(live, version) for live in version.segments])

    def position_of(self, id_: Any) -> int:
        """Return the position of a rule, or -1."""
        if self.version is not None:
            location = self.version.find(id_)
            if location is None:
                return -1
            return int(self._segments[location[0]].segment.positions[location[1]])
        rules = self.to_list()
        if not can_be_id(id_, rules.ids.type):
            return -1
        place = pc.index(rules.ids, pa.scalar(id_, rules.ids.type)).as_py()
        return int(rules.positions[place]) if place >= 0 else -1

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """Return the ids of the rules at these positions."""
        if self.version is not None:
            return self.version.directory.ids_at(positions)
        rules = self.to_list()
        return rules.ids.take(pa.array(np.searchsorted(rules.positions, positions)))

    def positions_in(self, version: Version, positions: np.ndarray) -> np.ndarray:
        """Return where a version has the rules at these positions, -1 where it does not."""
        if version is self.version:
            return positions
        found = find_many(version.segments, self.ids_at(positions).to_pylist(), version.id_type)
        return np.array(
            [-1 if at is None else version.segments[at[0]].segment.positions[at[1]] for at in found]
        )

    def check_type(self, version: Version) -> None:
        """Raise if these are a list whose ids are texts, and those of a version are not, or so."""
        ids, type_ = self._listed.ids, version.id_type
        if len(ids) and type_ is not None and is_text(ids.type) != is_text(type_):
            came, was = ("texts", "integers") if is_text(type_) else ("integers", "texts")
            raise MonitorError(
                f"the ids of the rules are {came}, and those of the rules that the saved state "
                f"was judged by were {was}, such as {ids[0].as_py()!r}; are these its rules?"
            )

    def find_changes(self, version: Version) -> Changes | None:
        """Return how the rules of a version differ from these; None if they are the same."""
        if version is self.version:
            return None
        old = [self._listed]
        new = []
        known = {live.segment: live for live in self._segments}
        for live in version.segments:
            before = known.pop(live.segment, None)
            if before is None:
                new.append(_list_rules(live, version))
            elif before.removed.size != live.removed.size:
                gone = before.alive() & ~live.alive()
                assert self.version is not None
                old.append(_list_rules(before, self.version, gone))
        for live in known.values():
            assert self.version is not None
            old.append(_list_rules(live, self.version))
        return _compare(_concatenate(old), _concatenate(new), self.positions)


def _concatenate(lists: Sequence[RuleList]) -> RuleList:
    lists = [each for each in lists if len(each.positions)]
    if not lists:
        return _NO_RULES
    rules = RuleList(
        np.concatenate([each.positions for each in lists]),
        pa.concat_arrays([each.ids for each in lists]),
        np.concatenate([each.fingerprints for each in lists]),
    )
    if (rules.positions[1:] > rules.positions[:-1]).all():
        return rules
    order = np.argsort(rules.positions, kind="stable")
    return RuleList(
        rules.positions[order], rules.ids.take(pa.array(order)), rules.fingerprints[order]
    )


def _compare(old: RuleList, new: RuleList, positions: int) -> Changes | None:
    """Return what became of the old rules, and which rules are new."""
    both, in_old, in_new = np.intersect1d(
        old.positions, new.positions, assume_unique=True, return_indices=True
    )
    if len(both) and old.ids.type == new.ids.type:
        same = np.asarray(pc.equal(old.ids.take(pa.array(in_old)), new.ids.take(pa.array(in_new))))
        same &= old.fingerprints[in_old] == new.fingerprints[in_new]
        keep_old, keep_new = np.ones(len(old.ids), bool), np.ones(len(new.ids), bool)
        keep_old[in_old[same]] = keep_new[in_new[same]] = False
        old, new = old.select(keep_old), new.select(keep_new)
    if not len(old.positions) and not len(new.positions):
        return None
    place = np.full(len(old.positions), -1)
    if len(old.ids) and len(new.ids) and old.ids.type == new.ids.type:
        place = np.asarray(pc.index_in(old.ids, new.ids).fill_null(-1))
    verdicts, new_position = np.zeros(positions + 1, np.uint8), np.zeros(positions + 1, np.int32)
    stays = place >= 0
    is_same = old.fingerprints[stays] == new.fingerprints[place[stays]]
    verdicts[old.positions] = REMOVED
    verdicts[old.positions[stays]] = np.where(is_same, MOVED, CHANGED)
    new_position[old.positions[stays]] = new.positions[place[stays]]
    is_added = np.ones(len(new.positions), bool)
    is_added[place[stays]] = False
    return Changes(
        verdicts,
        new_position,
        old.select(~stays),
        new.positions[is_added],
        np.sort(new.positions[place[stays]][~is_same]),
    )


# ------------------------------------------------------------ fingerprints

_fingerprints: weakref.WeakKeyDictionary[Segment, np.ndarray] = weakref.WeakKeyDictionary()


def _list_rules(live: LiveSegment, version: Version, which: np.ndarray | None = None) -> RuleList:
    """Return the live rules of a segment, or those where `which` is true."""
    segment = live.segment
    fingerprints = _fingerprints.get(segment)
    if fingerprints is None:
        fingerprints = _fingerprints[segment] = _compute_fingerprints(segment, version)
    rules = RuleList(segment.positions, segment.metadata.ids, fingerprints)
    if which is None:
        which = live.alive()
    return rules if which.all() else rules.select(which)


def _compute_fingerprints(segment: Segment, version: Version) -> np.ndarray:
    """Return the fingerprints of all rules of a segment."""
    attributes = version.attributes
    out = np.zeros(len(segment), np.uint64)
    names = [attributes.sql(a).lower() for a in range(version.attribute_count)]
    kinds = [attributes.kind(a) for a in range(version.attribute_count)]
    name_hash = _hash(names)
    residual_hash = _hash_residuals(segment.residuals, name_hash)
    is_category = np.array([kind == "category" for kind in kinds], np.uint8)
    for part in segment.parts:
        c = part.conjunctions
        rows = is_category[c.attribute] != 0
        sets = np.flatnonzero(rows & (c.kind != INTERVAL))
        runs = np.flatnonzero(rows & (c.kind == INTERVAL) & (c.low > OTHER))
        codes = np.concatenate(
            [
                c.points[expand_ranges(c.low[sets], c.high[sets])],
                expand_ranges(c.low[runs], c.high[runs] + 1),
            ]
        )
        codes = np.unique(codes)
        texts = [version.categories.text(int(code)) for code in codes]
        coded = np.array([text is not None for text in texts], bool)
        codes, hashes = codes[coded], _hash([text for text in texts if text is not None])
        places = np.searchsorted(segment.positions, c.rule)
        rows, residuals = np.empty(0, np.int64), residual_hash
        if segment.residuals is not None:
            own, rows = segment.residuals.rows_of(c)
            residuals = residual_hash[own]
        write_fingerprints(c, places, name_hash, is_category, codes, hashes, rows, residuals, out)
    at_least = segment.metadata.at_least
    if len(at_least):
        out += at_least.view(np.uint64) * np.uint64(3)
    return out


def _hash_residuals(residuals: Residuals | None, name_hash: np.ndarray) -> np.ndarray:
    """Return the hashes of residuals."""
    if residuals is None:
        return np.empty(0, np.uint64)
    tests = residuals.tests
    used, number = np.unique(tests.shape, return_inverse=True)
    shapes = _hash([shape_at(residuals.shapes, each).to_bytes() for each in used.tolist()])
    out = np.empty(residuals.size, np.uint64)
    write_residual_hashes(
        freeze(name_hash[tests.x], np.uint64),
        freeze(name_hash[tests.y], np.uint64),
        freeze(shapes[number], np.uint64),
        tests.negated,
        out,
    )
    return out


def _hash(texts: Sequence[str] | Sequence[bytes]) -> np.ndarray:
    is_binary = bool(texts) and isinstance(texts[0], bytes)
    array = pa.array(texts, pa.large_binary() if is_binary else pa.large_string())
    out = np.empty(len(array), np.int64)
    if len(array):
        _, offsets, data = array.buffers()
        letters = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        hash_texts(np.frombuffer(offsets, np.int64), letters, out)
    return out.view(np.uint64)


@step
def hash_code(code, codes, code_hash):
    """Return the hash of a category's text, or the code itself if there is none."""
    at, stop = 0, codes.shape[0]
    while at < stop:
        middle = (at + stop) >> 1
        if codes[middle] < code:
            at = middle + 1
        else:
            stop = middle
    if at < codes.shape[0] and codes[at] == code:
        return code_hash[at]
    return np.uint64(code)


@kernel
def write_fingerprints(
    c: Conjunctions,
    places: Int64s,
    name_hash: UInt64s,
    is_category: UInt8s,
    codes: Int64s,
    code_hash: UInt64s,
    residual_rows: Int64s,
    residual_hash: UInt64s,
    out: UInt64Out,
) -> None:
    """Add the hash of each conjunction to the fingerprint of its rule, which is at `places`.

    The residuals of conjunction c are residual_rows[c] to residual_rows[c + 1], if there are any.

    `codes` are the categories with texts, ascending, and `code_hash` the hashes of these. Whether
    the codes of a list of categories follow each other, so that it is an interval, depends on the
    other rules: it is hashed as the set that it is, without those that a complement excludes.
    """
    offsets, attribute, kind, low, high = c.offsets, c.attribute, c.kind, c.low, c.high
    points = c.points
    for i in range(places.shape[0]):
        whole = np.uint64(1)
        for row in range(offsets[i], offsets[i + 1]):
            a = attribute[row]
            values, what = np.uint64(0), np.int64(kind[row])
            is_listed, other = False, np.int64(-1)
            if is_category[a] != 0:
                for each in range(offsets[i], offsets[i + 1]):
                    if attribute[each] == a and kind[each] == INTERVAL and low[each] > OTHER:
                        is_listed = True
                    if attribute[each] == a and kind[each] == NOT_SET:
                        other = np.int64(each)
            if is_listed and what == NOT_SET:
                continue
            if is_listed:
                what = np.int64(SET)
                for code in range(low[row], high[row] + 1):
                    is_excluded = False
                    if other >= 0:
                        for at in range(low[other], high[other]):
                            is_excluded |= points[at] == code
                    if not is_excluded:
                        values += mix(mix(hash_code(code, codes, code_hash)))
            elif what == INTERVAL:
                values = mix(mix(np.uint64(low[row])) ^ np.uint64(high[row]))
            else:
                for at in range(low[row], high[row]):
                    point = np.uint64(points[at])
                    if is_category[a] != 0:
                        point = hash_code(points[at], codes, code_hash)
                    values += mix(mix(point))  # in any order: codes are numbered anew
            # A sum: the order of rows is that of the attributes' numbers.
            whole += mix(mix(name_hash[a] ^ np.uint64(what + 1)) ^ values)
        if residual_rows.shape[0] > 0:
            for each in range(residual_rows[i], residual_rows[i + 1]):
                whole += residual_hash[each]
        out[places[i]] += mix(whole)


@kernel
def write_residual_hashes(
    x: UInt64s, y: UInt64s, shapes: UInt64s, negated: UInt8s, out: UInt64Out
) -> None:
    """Write the hash of each residual, from those of its attributes' names and of its shape."""
    for i in range(out.shape[0]):
        out[i] = mix(mix(mix(mix(x[i]) ^ (y[i] + np.uint64(negated[i]))) ^ shapes[i]))
