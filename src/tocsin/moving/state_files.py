r"""States and lists of rules as bytes, with checksums.

::

    tocsin-state 1 <size> <sha256>\n      the format, and of the header the size and the checksum
    {...}                                 the header, JSON, padded to a multiple of 64 bytes
    ...                                   sections, each padded likewise: Arrow IPC streams (LZ4)

The header has the sizes of the sections and their checksum, so no byte can change without notice.
It is read on its own to know a state by its *identity* without reading it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.storage import Storage
from tocsin.engine.store_folder import open_storage
from tocsin.engine.version import Version
from tocsin.errors import MonitorError, StoreError, TocsinError
from tocsin.model.arrow import combine_chunks, values_of
from tocsin.moving.rule_changes import JudgedRules, RuleList
from tocsin.moving.state_tables import StateTables, Totals, require

FORMAT = 1
_FIRST_LINE = re.compile(rb"tocsin-state (\d{1,9}) (\d{1,9}) ([0-9a-f]{64})\n")
_LONGEST = 128  # bytes of the first line
_ALIGNMENT = 64
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_MOST_RULES = 1 << 31


def open_states(path: Any) -> Storage:
    """Return the storage of states at a path or URL that a user has given."""
    try:
        return open_storage(path, "a saved monitor, or the state of a stream,")
    except StoreError as error:
        raise MonitorError(str(error)) from None


class Packed(NamedTuple):
    """Bytes to put, and their digest: the checksum of the header, which has all others."""

    digest: str
    chunks: list[Any]


class Header(NamedTuple):
    """What is known of packed sections without reading them."""

    digest: str
    size: int  # bytes in all
    content: dict[str, Any]
    start: int  # of the sections
    sections: list[tuple[str, int]]  # names and sizes
    checksum: str  # of all sections


def pack(content: Mapping[str, Any], sections: Sequence[tuple[str, pa.Buffer]]) -> Packed:
    """Return a header and sections as bytes."""
    checksum, sizes = hashlib.sha256(), []
    chunks: list[Any] = []
    for name, section in sections:
        padded = [section, b"\0" * (-section.size % _ALIGNMENT)]
        for chunk in padded:
            checksum.update(chunk)
        chunks += padded
        sizes.append((name, section.size + len(padded[1])))
    header = {"content": content, "sections": sizes, "sha256": checksum.hexdigest()}
    text = json.dumps(header, ensure_ascii=False).encode()
    size = len(text)
    while True:  # the size of the first line depends on that of the header
        text = text.ljust(size)
        digest = hashlib.sha256(text).hexdigest()
        line = f"tocsin-state {FORMAT} {size} {digest}\n".encode()
        missing = -(len(line) + size) % _ALIGNMENT
        if not missing:
            return Packed(digest, [line, text, *chunks])
        size += missing


def unpack_header(place: str, data: memoryview) -> Header:
    """Return the header of packed bytes; raise unless it is as it was written."""
    found = _FIRST_LINE.match(bytes(data[:_LONGEST]))
    if found is None:
        raise damage_error(place, "it does not begin as a state does")
    if int(found[1]) != FORMAT:
        raise MonitorError(
            f"{place} is of format {int(found[1])}, and this Tocsin reads format {FORMAT}; "
            "a newer one wrote it: upgrade"
        )
    start = found.end() + int(found[2])
    text = bytes(data[found.end() : start])
    digest = hashlib.sha256(text).hexdigest()
    if digest.encode() != found[3]:
        raise damage_error(place, "its header is not what was written")
    with refuse_damage(place):
        header = json.loads(text)
        sections = [(str(name), int(size)) for name, size in header["sections"]]
        require(all(size >= 0 for _, size in sections), "a size is negative")
        size = start + sum(size for _, size in sections)
        require(isinstance(header["content"], dict), "its content must be an object")
        checksum = str(header["sha256"])
    if size != data.nbytes:
        raise damage_error(place, f"it has {data.nbytes:,} bytes instead of {size:,}")
    return Header(digest, size, header["content"], start, sections, checksum)


def unpack(place: str, data: memoryview) -> tuple[Header, list[tuple[str, memoryview]]]:
    """Return the header and the sections of packed bytes; raise unless all are as written."""
    header = unpack_header(place, data)
    if hashlib.sha256(data[header.start :]).hexdigest() != header.checksum:
        raise damage_error(place, "it is not what was written (its checksum differs)")
    sections, at = [], header.start
    for name, size in header.sections:
        sections.append((name, data[at : at + size]))
        at += size
    return header, sections


def read_packed(storage: Storage, name: str) -> tuple[Header, list[tuple[str, memoryview]]]:
    """Return the header and the sections of an object."""
    return unpack(storage.locate(name), memoryview(read_object(storage, name)))


def read_object(storage: Storage, name: str) -> bytes:
    """Return an object's bytes; raise a MonitorError if it is missing."""
    try:
        return storage.read(name)
    except FileNotFoundError:
        raise damage_error(storage.locate(name), "it is missing") from None
    except OSError as error:
        raise MonitorError(f"{storage.locate(name)} cannot be read: {error}") from None


def damage_error(place: str, trouble: object) -> MonitorError:
    """Return the error for a damaged object."""
    return MonitorError(f"{place} is damaged, or Tocsin did not write it: {trouble}")


@contextlib.contextmanager
def refuse_damage(place: str) -> Iterator[None]:
    """Raise a MonitorError for whatever bytes that someone has made up may cause."""
    try:
        yield
    except (
        *(TocsinError, pa.ArrowException, ValueError, TypeError, LookupError, OverflowError),
        *(AttributeError, RecursionError, MemoryError, NotImplementedError, OSError),
    ) as error:
        raise damage_error(place, error) from None


# ------------------------------------------------------------ tables


def _to_stream(table: pa.Table) -> pa.Buffer:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=_LZ4) as writer:
        writer.write_table(table)
    return out.getvalue()


def _from_stream(section: memoryview) -> pa.Table:
    table = pa.ipc.open_stream(pa.py_buffer(section)).read_all()
    table.validate(full=True)
    return table


def pack_state(content: Mapping[str, Any], totals: Totals, tables: StateTables | None) -> Packed:
    """Return a state as bytes; `content` is what else its header has."""
    fields = [pa.field("key", totals.key_type)] if totals.key_type is not None else []
    fields += [pa.field("time", totals.time_type)] if totals.time_type is not None else []
    sections = [("types", pa.schema(fields).serialize()), ("kept", totals.kept.serialize())]
    if tables is not None:
        sections += [
            ("objects", _to_stream(tables.objects)),
            ("stays", _to_stream(tables.stays)),
            ("forgotten", _to_stream(pa.table({"key": tables.forgotten}))),
            *(("reports", _to_stream(report)) for report in tables.reports),
        ]
    own: dict[str, Any] = {"clock": totals.clock, "counts": totals.counts}
    if totals.regions is not None:
        own["regions"] = totals.regions
    return pack(dict(content) | own, sections)


def unpack_state(
    header: Header, sections: list[tuple[str, memoryview]]
) -> tuple[Totals, StateTables | None]:
    """Return the state that `pack_state` has packed; `refuse_damage` must be around."""
    by_name = dict(sections)
    types = pa.ipc.read_schema(pa.py_buffer(by_name["types"]))
    kept = pa.ipc.read_schema(pa.py_buffer(by_name["kept"]))
    clock, counts = header.content["clock"], header.content["counts"]
    require(clock is None or _is_word(clock), "its clock must be a time")
    require(all(_is_word(count) and count >= 0 for count in counts.values()), "a count is wrong")
    totals = Totals(
        types.field("key").type if "key" in types.names else None,
        types.field("time").type if "time" in types.names else None,
        kept,
        clock,
        counts,
        header.content.get("regions"),
    )
    if "objects" not in by_name:
        return totals, None
    forgotten = _from_stream(by_name["forgotten"])
    tables = StateTables(
        _from_stream(by_name["objects"]),
        _from_stream(by_name["stays"]),
        [_from_stream(section) for name, section in sections if name == "reports"],
        combine_chunks(forgotten.column(0)),
    )
    return totals, tables


def _is_word(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


# ------------------------------------------------------------ lists of rules

_digests: weakref.WeakKeyDictionary[Version | JudgedRules, str] = weakref.WeakKeyDictionary()


def digest_of(judged: JudgedRules) -> str:
    """Return the digest of the list of rules, which is computed once."""
    key = judged if judged.version is None else judged.version
    digest = _digests.get(key)
    if digest is None:
        digest = _digests[key] = pack_rules(judged).digest
    return digest


def pack_rules(judged: JudgedRules) -> Packed:
    """Return the rules that a state was judged by as bytes."""
    rules = judged.to_list()
    table = pa.table(
        {
            "id": rules.ids,
            "position": pa.array(rules.positions, pa.int32()),
            "fingerprint": pa.array(rules.fingerprints, pa.uint64()),
        }
    )
    return pack({"positions": judged.positions}, [("rules", _to_stream(table))])


def read_rules(storage: Storage, name: str, digest: str) -> JudgedRules:
    """Return rules that were packed."""
    header, sections = read_packed(storage, name)
    place = storage.locate(name)
    with refuse_damage(place):
        require(header.digest == digest, "it is not the list of rules that the state names")
        table, count = _from_stream(dict(sections)["rules"]), header.content["positions"]
        ids, positions, fingerprints = (combine_chunks(column) for column in table.columns)
        require(ids.type in (pa.int64(), pa.large_string()), f"ids are of type {ids.type}")
        require(
            positions.type == pa.int32() and fingerprints.type == pa.uint64(),
            "positions and fingerprints must be int32 and uint64",
        )
        nulls = ids.null_count + positions.null_count + fingerprints.null_count
        require(nulls == 0, "a value is null")
        numbers = np.array(values_of(positions))
        require(_is_word(count) and 0 <= count < _MOST_RULES, "the number of positions is wrong")
        require(
            not len(numbers)
            or (
                bool((numbers[1:] > numbers[:-1]).all()) and numbers[0] >= 0 and numbers[-1] < count
            ),
            "positions must ascend",
        )
        judged = JudgedRules(None, RuleList(numbers, ids, np.array(values_of(fingerprints))), count)
        _digests[judged] = digest
    return judged
