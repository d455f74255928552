"""The states of a streaming monitor's buckets: what Spark's workers read and write.

A streaming monitor divides objects into buckets by their keys. A bucket's state after a micro-batch
is an object in a storage that all workers see::

    token                                       see `put_token`
    queries/<query>/settings                    number of buckets, types, options
    queries/<query>/buckets/<bucket>/<batch>    a state: a base, or a delta
    queries/<query>/rules/<digest>              a list of rules that states were judged by

A micro-batch may run again, after a crash or speculatively. So its state is put if absent, and has
an *identity*: a digest of the sorted rows, of the identity before, of the rules and of the options.
A repeated batch has the same, and one that has not is refused: the events of that batch may have
been delivered already. The identity does not depend on the bytes, which a new version may change.

A *delta* has the objects that changed since the state before. It names the states that it follows,
down to their *base*, which has all objects, by the digests of their headers. There is a new base
when the deltas since the last one have as many objects as it has.

Spark repeats only batches in its checkpoint, by default the last 100. Of each bucket the states of
as many batches are kept, and the newest before these, with what it follows: a bucket may have no
rows for a long time, so age alone would delete what is needed.

A process keeps trackers in memory, so that the next micro-batch need not read them. One is used
only if the newest stored state has its identity.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
import threading
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.engine.storage import Entry, Storage
from tocsin.engine.stream_log import PINS_KEPT
from tocsin.errors import MonitorError
from tocsin.moving.options import MonitorOptions
from tocsin.moving.rule_changes import JudgedRules
from tocsin.moving.saved_monitor import UNUSED
from tocsin.moving.state_files import (
    Header,
    damage_error,
    digest_of,
    pack_rules,
    pack_state,
    read_object,
    read_packed,
    read_rules,
    refuse_damage,
    unpack_header,
    unpack_state,
)
from tocsin.moving.state_tables import build_tracker, require, tables_of, totals_of
from tocsin.moving.tracker import Tracker

_TOKEN = "token"
_QUERIES = "queries/"
_START = "start_from"  # among the settings: a query, and its latest batch at that time
_NAME = re.compile(r"[\w-]+", re.ASCII)
_MOST_DELTAS = 24  # after a base; chosen: each is an object to read
_MANY_LISTS = 64  # of rules, from which on it is worth to look for unused ones; chosen
_CACHE_BYTES = 256 << 20  # of trackers that a process keeps; chosen: Spark counts on little memory


# States by batch, number of objects, and digest of the header.
_Chain = tuple[tuple[int, int, str], ...]


class _Origin(NamedTuple):
    """The stored state that a tracker is, or has begun as."""

    query: str
    batch: int
    identity: str
    chain: _Chain  # the states from its base to it


_NO_ORIGIN = _Origin("", -1, "", ())
_origins: weakref.WeakKeyDictionary[Tracker, _Origin] = weakref.WeakKeyDictionary()
_Key = tuple[str, str, int]  # storage, query and bucket
_cache: OrderedDict[_Key, Tracker] = OrderedDict()  # the one that was used last comes last
_lists: OrderedDict[tuple[str, str], JudgedRules] = OrderedDict()  # by storage and name
_lock = threading.Lock()


@dataclass(frozen=True)
class QueryInfo:
    """The states of a query, as listed by `tocsin state list`."""

    query: str
    buckets: int  # that have a state
    batch: int  # the latest
    objects: int
    states: int
    bytes: int
    used: datetime.datetime  # when the latest state was put


def put_token(storage: Storage) -> str:
    """Return the random text that tells this storage from others; put one if there is none."""
    with _report_failures(storage):
        storage.put_if_absent(_TOKEN, uuid.uuid4().hex.encode())
        return storage.read(_TOKEN).decode(errors="replace")


def check_token(storage: Storage, token: str) -> None:
    """Raise unless this storage has the driver's token.

    A folder that is not shared would seem empty to a worker, and its objects would enter again.
    """
    try:
        found = storage.read(_TOKEN).decode(errors="replace")
    except OSError:
        found = None
    if found != token:
        raise MonitorError(
            f"a worker does not see the driver's folder of states at {storage.locate()}: "
            + ("there is none" if found is None else "another one is there")
            + "; the folder must be on a file system that the driver and all workers mount"
        )


def identity_of(
    rows_digest: str, previous_identity: str, rules_digest: str, options: MonitorOptions
) -> str:
    """Return the identity of the state that rows lead to."""
    parts = [rows_digest, previous_identity, rules_digest, options.describe()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class BucketStates:
    """The states of a streaming monitor's buckets, in a storage."""

    def __init__(self, storage: Storage, query: str, start_from: str | None = None):
        for name in (query, start_from or "-"):
            if not _NAME.fullmatch(str(name)):
                raise MonitorError(f"{name!r} is not the id of a streaming query")
        self._storage, self.query, self._start_from = storage, query, start_from
        self._prefix = f"{_QUERIES}{query}/"

    # ------------------------------------------------------------ settings

    def settle(self, settings: Mapping[str, str]) -> None:
        """Record what the states depend on, once; raise if something else is recorded."""
        own = dict(settings)
        recorded = dict(own)
        if self._start_from is not None:
            self._compare_settings(self._start_from, own, self._read_settings(self._start_from))
            with _report_failures(self._storage):
                older = BucketStates(self._storage, self._start_from)._all_batches()
            last = max((batches[-1] for batches in older.values()), default=-1)
            # The other query may go on. This one begins, in each bucket, with its states as of now.
            recorded |= {_START: f"{self._start_from} {last}"}
        with _report_failures(self._storage):
            self._storage.put_if_absent(f"{self._prefix}settings", _seal(recorded))
        found = self._read_settings(self.query)
        start = found.get(_START, "nothing").split()[0]
        if self._start_from not in (None, start):
            raise MonitorError(
                f"start_from is {self._start_from}, but query {self.query} has begun with {start}; "
                "it is for a query that has no states yet"
            )
        self._compare_settings(self.query, own, found)

    def _read_settings(self, query: str) -> dict[str, str]:
        name = f"{_QUERIES}{query}/settings"
        with _report_failures(self._storage):
            if self._storage.stat(name) is None:
                known = [info.query for info in queries(self._storage)]
                raise MonitorError(
                    f"there are no states of query {query!r} in {self._storage.locate()}; "
                    + (f"there are those of {', '.join(known[:5])}" if known else "it is empty")
                )
        return _unseal(self._storage.locate(name), read_object(self._storage, name))

    def _compare_settings(self, query: str, own: dict[str, str], found: dict[str, str]) -> None:
        for name in sorted(own.keys() | found.keys()):
            if name != _START and own.get(name) != found.get(name):
                raise MonitorError(
                    f"{name} is {own.get(name, 'not set')}, but the states of query {query} in "
                    f"{self._storage.locate()} were made with {found.get(name, 'none')}; set it "
                    "back, or begin anew, with another checkpoint and another folder of states"
                )

    # ------------------------------------------------------------ read

    def read(self, bucket: int, batch: int, options: MonitorOptions) -> Tracker:
        """Return the newest state of a bucket before a micro-batch, or an empty one.

        The caller may change it, and is to `write` it then.
        """
        with _report_failures(self._storage):
            batches = self._batches(bucket)
            before = [each for each in batches if each < batch]
            if before:
                return self._read_state(bucket, before[-1], options)
            if batches:
                first = self._read_header(bucket, batches[0]).content["previous"]
                if first is not None:
                    raise MonitorError(
                        f"the state of bucket {bucket} before batch {batch} of query {self.query} "
                        f"was deleted, as {PINS_KEPT} newer batches are kept; begin anew, with "
                        "another checkpoint and another folder of states"
                    )
            start = self._read_settings(self.query).get(_START)
            if start is not None:
                tracker = self._read_start(bucket, start, options)
                if tracker is not None:
                    return tracker
        tracker = Tracker(options)
        _origins[tracker] = _NO_ORIGIN
        return tracker

    def _read_start(self, bucket: int, start: str, options: MonitorOptions) -> Tracker | None:
        """Return the state of a bucket of the query that this one begins with, if it has one."""
        query, last = start.split()
        older = BucketStates(self._storage, query)
        batches = older._batches(bucket)
        before = [each for each in batches if each <= int(last)]
        if before:
            return older._read_state(bucket, before[-1], options)
        if batches and older._read_header(bucket, batches[0]).content["previous"] is not None:
            raise MonitorError(
                f"the state of bucket {bucket} that query {self.query} begins with, that of query "
                f"{query} up to batch {last}, was deleted: {query} has gone on"
            )
        return None

    def previous_identity(self, tracker: Tracker) -> str:
        """Return the identity of the stored state that a tracker began as; empty if none."""
        return _origins.get(tracker, _NO_ORIGIN).identity

    def _read_state(self, bucket: int, batch: int, options: MonitorOptions) -> Tracker:
        header = self._read_header(bucket, batch)
        identity = header.content["identity"]
        with _lock:
            tracker = _cache.pop(self._key(bucket), None)
        if tracker is not None and tracker.options == options:
            origin = _origins[tracker]
            if (origin.batch, origin.identity) == (batch, identity):
                return tracker
        place = self._storage.locate(self._name(bucket, batch))
        chain = _chain_of(header, batch)
        tables = []
        for each, _, digest in chain:
            name = self._name(bucket, each)
            header, sections = read_packed(self._storage, name)
            with refuse_damage(self._storage.locate(name)):
                require(header.digest == digest, "it is not the one that later states follow")
                totals, own = unpack_state(header, sections)
                tables += [] if own is None else [own]
        recorded = header.content["options"]
        if recorded != options.describe():
            self._compare_settings(self.query, options.describe(), recorded)
        judged = self._read_rules(str(header.content["rules"]))
        with refuse_damage(place):
            tracker = build_tracker(options, totals, judged, tables)
        self._begin(tracker, _Origin(self.query, batch, identity, chain))
        return tracker

    def _begin(self, tracker: Tracker, origin: _Origin) -> None:
        _origins[tracker] = origin
        tracker.collect_changes()

    def _read_header(self, bucket: int, batch: int) -> Header:
        name = self._name(bucket, batch)
        place = self._storage.locate(name)
        try:
            data = self._storage.map(name)
        except FileNotFoundError:
            raise damage_error(place, "it is missing") from None
        header = unpack_header(place, data)
        with refuse_damage(place):
            content = header.content
            require(isinstance(content["identity"], str), "it has no identity")
            require(isinstance(content["previous"], int | None), "what it follows is no batch")
            require(type(content["objects"]) is int, "its number of objects is none")
            chain = [(int(each), int(n), str(digest)) for each, n, digest in content["chain"]]
            numbers = [each for each, _, _ in chain] + [batch]
            require(numbers == sorted(set(numbers)), "it follows a later state")
        return header

    def _read_rules(self, digest: str) -> JudgedRules:
        name = f"{self._prefix}rules/{digest}"
        key = self._storage.identity, name
        with _lock:
            judged = _lists.get(key)
        if judged is None:
            judged = read_rules(self._storage, name, digest)
            with _lock:
                _lists[key] = judged
                while len(_lists) > 4:
                    _lists.popitem(last=False)
        return judged

    # ------------------------------------------------------------ write

    def write(self, bucket: int, batch: int, tracker: Tracker, identity: str) -> None:
        """Put the state of a bucket after a micro-batch, unless it is there.

        The tracker belongs to the cache from then on.
        """
        tracker.check()
        name = self._name(bucket, batch)
        origin = _origins.get(tracker, _NO_ORIGIN)
        with _report_failures(self._storage):
            stored = None
            if self._storage.stat(name) is None:
                content = {
                    "identity": identity,
                    "previous": origin.batch if origin.query == self.query else None,
                    "options": tracker.options.describe(),
                    "rules": self._put_rules(tracker.judged),
                }
                chain = self._put_state(name, tracker, origin, content)
                if chain is not None:
                    stored = _Origin(self.query, batch, identity, chain)
                    if len(chain) == 1:
                        self._prune(bucket, batch)
            is_own = stored is not None
            if stored is None:  # somebody else was faster, or the batch is repeated
                header = self._check_stored(bucket, batch, identity)
                stored = _Origin(self.query, batch, identity, _chain_of(header, batch))
                # Equal rules may have other positions, if they come from a copy of the store.
                is_own = header.content["rules"] == digest_of(tracker.judged)
        self._begin(tracker, stored)
        with _lock:
            _cache.pop(self._key(bucket), None)
            if is_own:
                _cache[self._key(bucket)] = tracker
            size = sum(each.nbytes for each in _cache.values())
            while size > _CACHE_BYTES and _cache:
                size -= _cache.popitem(last=False)[1].nbytes

    def _put_state(
        self, name: str, tracker: Tracker, origin: _Origin, content: dict[str, Any]
    ) -> _Chain | None:
        """Put a state; return its chain, or None if there is a state already."""
        objects, tables = tracker.objects, None
        chain: _Chain = ()
        if objects is not None:
            changes = tracker.changes() if origin.query == self.query and origin.chain else None
            if changes is not None:
                own = len(changes[0]) + len(changes[1])
                since = sum(n for _, n, _ in origin.chain[1:])
                if len(origin.chain) <= _MOST_DELTAS and since + own < max(1, origin.chain[0][1]):
                    chain = origin.chain
            if chain and changes is not None:
                slots, forgotten = changes
            else:
                slots, forgotten = objects.live(), pa.array([], objects.word_type)
            tables = tables_of(tracker, slots, forgotten)
        own = 0 if tables is None else len(tables.objects) + len(tables.forgotten)
        content |= {
            "chain": chain,
            "objects": own,
            "total": 0 if objects is None else objects.size,
        }
        packed = pack_state(content, totals_of(tracker), tables)
        is_put = self._storage.put_if_absent(name, b"".join(packed.chunks))
        batch = int(name.rpartition("/")[2])
        return (*chain, (batch, own, packed.digest)) if is_put else None

    def _check_stored(self, bucket: int, batch: int, identity: str) -> Header:
        """Return the header of a state that was put before; raise unless it is the same."""
        header = self._read_header(bucket, batch)
        if header.content["identity"] != identity:
            raise MonitorError(
                f"batch {batch} of query {self.query} ran before, and led to another state of "
                f"bucket {bucket} in {self._storage.locate()}: its rows, the rules or the state "
                "before are not the same. Its events may have been delivered. To run it with what "
                f"is there now, stop the query, and run: "
                f"tocsin state drop {self._storage.locate()} {self.query} {batch}"
            )
        return header

    def _put_rules(self, judged: JudgedRules) -> str:
        """Put a list of rules, unless it was put a while ago; return its digest."""
        digest = digest_of(judged)
        name = f"{self._prefix}rules/{digest}"
        entry = self._storage.stat(name)
        # One that is old may be about to be pruned, for no state names it.
        if entry is None or time.time() - entry.modified > UNUSED / 2:
            self._storage.put({name: pack_rules(judged).chunks})
            if entry is None:
                self._prune_rules()
        return digest

    # ------------------------------------------------------------ delete

    def drop(self, batch: int) -> int:
        """Delete the states of a micro-batch and of later ones; return how many.

        Batch 0 deletes all that there is of the query.
        """
        with _report_failures(self._storage):
            self._read_settings(self.query)
            doomed = []
            for bucket, batches in self._all_batches().items():
                late = [each for each in batches if each >= batch]
                if late and len(late) == len(batches) and batch > 0:
                    previous = self._read_header(bucket, late[0]).content["previous"]
                    if previous is not None:
                        raise MonitorError(
                            f"bucket {bucket} of query {self.query} has no state before batch "
                            f"{batch}: it was pruned; nothing is dropped. To begin anew, drop "
                            "batch 0, and use another checkpoint"
                        )
                doomed += [(each, bucket) for each in late]
            # The latest first: what is left after a crash is as if fewer were dropped.
            doomed.sort(reverse=True)
            self._storage.delete(self._name(bucket, each) for each, bucket in doomed)
            if batch <= 0:
                self._storage.delete(entry.name for entry in self._storage.list(self._prefix))
        return len(doomed)

    def _prune(self, bucket: int, batch: int) -> None:
        """Delete the states of a bucket that no batch that may run again needs."""
        old = [each for each in self._batches(bucket) if each < batch - PINS_KEPT]
        if len(old) > 1:
            header = self._read_header(bucket, old[-1])
            needed = {old[-1], *(int(each) for each, _, _ in header.content["chain"])}
            self._storage.delete(self._name(bucket, each) for each in old if each not in needed)

    def _prune_rules(self) -> None:
        """Delete lists of rules that no state names, now and then."""
        entries = self._storage.list(f"{self._prefix}rules/")
        if len(entries) % _MANY_LISTS:
            return
        old = [each for each in entries if time.time() - each.modified > UNUSED]
        if old:
            used = {
                self._read_header(bucket, each).content["rules"]
                for bucket, batches in self._all_batches().items()
                for each in batches
            }
            unused = [each.name for each in old if each.name.rpartition("/")[2] not in used]
            self._storage.delete(unused)

    # ------------------------------------------------------------ names

    def _name(self, bucket: int, batch: int) -> str:
        return f"{self._prefix}buckets/{bucket:05}/{batch:012}"

    def _key(self, bucket: int) -> _Key:
        return self._storage.identity, self.query, bucket

    def _batches(self, bucket: int) -> list[int]:
        """Return the batches whose states a bucket has, ascending."""
        prefix = f"{self._prefix}buckets/{bucket:05}/"
        names = [entry.name[len(prefix) :] for entry in self._storage.list(prefix)]
        return [int(name) for name in names if name.isdecimal()]

    def _all_batches(self) -> dict[int, list[int]]:
        """Return the batches of all buckets, ascending."""
        by_bucket: dict[int, list[int]] = {}
        for entry in self._storage.list(f"{self._prefix}buckets/"):
            _, bucket, batch = entry.name.rsplit("/", 2)
            if bucket.isdecimal() and batch.isdecimal():
                by_bucket.setdefault(int(bucket), []).append(int(batch))
        return by_bucket


def _chain_of(header: Header, batch: int) -> _Chain:
    """Return the chain of a state, itself included."""
    before = tuple((each, n, digest) for each, n, digest in header.content["chain"])
    return (*before, (batch, header.content["objects"], header.digest))


def queries(storage: Storage) -> list[QueryInfo]:
    """Return the queries that have states in a storage, the latest first."""
    with _report_failures(storage):
        by_query: dict[str, list[Entry]] = {}
        for entry in storage.list(_QUERIES):
            by_query.setdefault(entry.name.split("/")[1], []).append(entry)
        infos = []
        for query, entries in by_query.items():
            states = BucketStates(storage, query)
            own = [entry for entry in entries if "/buckets/" in entry.name]
            latest = {bucket: batches[-1] for bucket, batches in states._all_batches().items()}
            headers = [states._read_header(*each) for each in latest.items()]
            infos.append(
                QueryInfo(
                    query,
                    len(latest),
                    max(latest.values(), default=-1),
                    sum(int(header.content["total"]) for header in headers),
                    len(own),
                    sum(entry.size for entry in entries),
                    datetime.datetime.fromtimestamp(
                        max(entry.modified for entry in entries), datetime.UTC
                    ),
                )
            )
    return sorted(infos, key=lambda info: info.used, reverse=True)


@contextlib.contextmanager
def _report_failures(storage: Storage) -> Iterator[None]:
    """Say what a storage that fails was needed for."""
    try:
        yield
    except OSError as error:
        raise MonitorError(
            f"cannot use the states in {storage.locate()}: {error}; the driver and all workers "
            "need read and write access to it"
        ) from None


def _seal(settings: Mapping[str, str]) -> bytes:
    """Return settings as lines of JSON, the second of which is the checksum of the first."""
    text = json.dumps(settings, sort_keys=True)
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def _unseal(place: str, data: bytes) -> dict[str, str]:
    text, _, checksum = data.partition(b"\n")
    if checksum != hashlib.sha256(text).hexdigest().encode() + b"\n":
        raise damage_error(place, "its checksum differs")
    settings: dict[str, str] = json.loads(text)
    return settings
