"""Version files: the contents of a version as JSON, followed by a checksum.

Nothing in a file is trusted before it is checked. File names must be plain, so that no name leads
out of the store, and all values must have the right types. The files that it names are checked when
they are opened.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.segment_files import FORMAT, check_format, damage_error, is_count
from tocsin.errors import StoreError, TocsinError
from tocsin.index.registry import check_index, known_options
from tocsin.model.arrow import is_text
from tocsin.model.attributes import Attributes, kind_of_term
from tocsin.model.schema import Schema
from tocsin.model.terms import EVALUATOR_VERSION, Term, from_json, to_json
from tocsin.model.terms.types import type_from_json, type_to_json
from tocsin.model.validation import require

_SEAL = 66  # bytes: a line break, the checksum, a line break
_NAME = re.compile(r"[0-9a-f]{32}")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_DIGEST = 16  # characters of a checksum, chosen: the chance that two versions share one is nil
_HISTORY = re.compile(rf"[0-9a-f]{{{_DIGEST}}}")
# Chosen: a writer that lost the processor between two calls sees fewer versions pruned, and a
# version file grows by a kilobyte.
_LONGEST_HISTORY = 64
_DEEPEST = 200  # lists and dicts of a type, chosen: types are read recursively
_NOT_RULES = {"version", "created", "history", "author", "message", "next_position"}


@dataclass(frozen=True)
class VersionFile:
    """The contents of a version file."""

    store: str  # the store's identity; empty in old stores, which have none
    number: int
    created: datetime.datetime
    rules: int
    attributes: Attributes
    attribute_count: int  # how many of the attributes the version has
    index: str
    options: dict[str, Any]  # of the index
    next_position: int
    id_type: pa.DataType | None
    payload: pa.Schema
    segments: list[dict[str, Any]]  # role, name, manifest (its checksum)
    codes: list[dict[str, Any]]  # name, count, bytes, sha256: files of category values
    removed: dict[str, Any] | None  # the same: a file of removed positions
    author: str | None = None
    message: str | None = None
    history: tuple[str, ...] = ()  # digests of the versions before it, the latest first
    point: tuple[str, str] | None = None  # what the shapes in a table of rules are about
    checksum: str = ""  # of the file; set by `parse`

    def extended_history(self) -> tuple[str, ...]:
        """Return the history of a version that is based on this one."""
        return (self._digest, *self.history)[:_LONGEST_HISTORY]

    def knows(self, number: int) -> bool:
        """Return whether the history reaches back to a version."""
        return 0 < self.number - number <= len(self.history)

    def follows(self, other: VersionFile) -> bool:
        """Return whether this version is based on another one that it knows."""
        return self.history[self.number - other.number - 1] == other._digest

    @property
    def _digest(self) -> str:
        return self.checksum[:_DIGEST]

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        body = json.dumps(self._content(), indent=1).encode()
        return body + _seal(body)

    def has_same_rules(self, other: VersionFile) -> bool:
        """Return whether two versions have the same rules and schema."""
        own, others = self._content(), other._content()
        return all(own[key] == others[key] for key in own.keys() - _NOT_RULES)

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "store": self.store,
            "version": self.number,
            "created": self.created.isoformat(),
            "history": " ".join(self.history),
            "author": self.author,
            "message": self.message,
            "rules": self.rules,
            "attributes": [
                {"term": to_json(entry), "kind": kind_of_term(entry)}
                if isinstance(entry, Term)
                else list(entry)
                for entry in self.attributes.entries(self.attribute_count)
            ],
            # Whatever evaluates terms can read a version that has none.
            "evaluator": EVALUATOR_VERSION if self.attributes.terms else 1,
            "nested": [
                [name, type_to_json(type_)] for name, type_ in self.attributes.nested.values()
            ],
            "refused": self.attributes.refused,
            "timezone": self.attributes.timezone,
            "index": self.index,
            "options": self.options,
            "next_position": self.next_position,
            "id_type": None if self.id_type is None else str(self.id_type),
            "payload": base64.b64encode(self.payload.serialize()).decode(),
            "segments": self.segments,
            "codes": self.codes,
            "removed": self.removed,
            "point": self.point and list(self.point),
        }


def checksum_of(data: bytes) -> str:
    """Return the checksum of a version file."""
    return hashlib.sha256(data).hexdigest()


def parse(place: str, data: bytes) -> VersionFile:
    """Parse a version file; raise if it is damaged, or of another format."""
    body = data[:-_SEAL]
    if data[-_SEAL:] != _seal(body):
        raise StoreError(f"{place} is not what was written (its checksum differs): it is damaged")
    try:
        content = json.loads(body)
        require(isinstance(content, dict), "it is not a JSON object")
    except (ValueError, RecursionError, StoreError) as error:
        raise damage_error(place, error) from None
    check_format(place, content)
    try:
        return replace(_read(content), checksum=checksum_of(data))
    except KeyError as error:
        raise damage_error(place, f"it has no {error}") from None
    except (TypeError, ValueError, AttributeError, RecursionError, TocsinError) as error:
        raise damage_error(place, error) from None
    except (OSError, pa.ArrowException) as error:  # of the payload's schema, as Arrow reads it
        raise damage_error(place, error) from None


def _read_attributes(content: dict[str, Any]) -> Attributes:
    """Return the attributes of a version; up to format 6 there are only columns."""
    schema = Schema({}, timezone=content["timezone"])
    for name, type_ in content.get("nested", []):
        require(_depth(type_) <= _DEEPEST, f"the type of {name!r} is nested too deeply")
        schema.nested[name.lower()] = name, type_from_json(type_)
    require(_are_texts(content["refused"]), "'refused' must be a dict of texts")
    schema.refuse(content["refused"])
    evaluator = content.get("evaluator", 1)
    require(
        is_count(evaluator) and evaluator <= EVALUATOR_VERSION,
        f"its terms are of evaluator {evaluator!r}, and this Tocsin has {EVALUATOR_VERSION}; "
        "upgrade",
    )
    entries: list[tuple[str, Any] | Term] = []
    for entry in content["attributes"]:
        if isinstance(entry, dict):
            term = from_json(entry["term"])
            kind = kind_of_term(term)
            require(
                kind is not None and kind == entry["kind"],
                f"the term {term.sql} is a {kind}, and not a {entry['kind']}",
            )
            entries.append(term)
        else:
            name, kind = entry
            schema.add(name, kind)
            entries.append((name, schema.kind(name)))
    terms = [entry for entry in entries if isinstance(entry, Term)]
    require(len(set(terms)) == len(terms), "a term is listed twice")
    known = {name for name, _ in schema.sources().values()}
    for term in terms:
        require(set(term.columns) <= known, f"the term {term.sql} has an unknown column")
    return Attributes.restore(schema, entries)


def _read(content: dict[str, Any]) -> VersionFile:
    attributes = _read_attributes(content)
    counts = [content[name] for name in ("version", "rules", "next_position")]
    require(all(is_count(each) for each in counts), "version, rules and next_position are counts")
    require(content["next_position"] < 2**31, "next_position is too large")
    segments, codes, removed = content["segments"], content["codes"], content["removed"]
    for entry in segments:
        require(
            _NAME.fullmatch(entry["name"]) is not None, f"a segment's name is {entry['name']!r}"
        )
        require(isinstance(entry["role"], str), f"a segment's role is {entry['role']!r}")
        require(_CHECKSUM.fullmatch(entry["manifest"]) is not None, "a manifest has no checksum")
    for entry in codes if removed is None else [*codes, removed]:
        require(_NAME.fullmatch(entry["name"]) is not None, f"a part's name is {entry['name']!r}")
        require(is_count(entry["count"]) and is_count(entry["bytes"]), "a part's size is no count")
        require(_CHECKSUM.fullmatch(entry["sha256"]) is not None, "a part has no checksum")
    id_type = None if content["id_type"] is None else pa.type_for_alias(content["id_type"])
    require(
        id_type is None or t.is_integer(id_type) or is_text(id_type), f"ids are of type {id_type}"
    )
    require(isinstance(content.get("options", {}), dict), "'options' must be a dict")
    options = known_options(content["index"], content.get("options", {}))
    check_index(content["index"], options)
    require(isinstance(content.get("store", ""), str), "'store' must be a text")
    author, message = content.get("author"), content.get("message")
    require(
        all(text is None or isinstance(text, str) for text in (author, message)),
        "'author' and 'message' must be texts",
    )
    point = content.get("point")
    require(
        point is None
        or (isinstance(point, list) and len(point) == 2 and all(isinstance(n, str) for n in point)),
        "'point' must be two texts",
    )
    history = content.get("history", "").split()
    require(all(map(_HISTORY.fullmatch, history)), "'history' must be checksums")
    return VersionFile(
        content.get("store", ""),
        content["version"],
        datetime.datetime.fromisoformat(content["created"]),
        content["rules"],
        attributes,
        len(attributes),
        content["index"],
        options,
        content["next_position"],
        id_type,
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["payload"], validate=True))),
        segments,
        codes,
        removed,
        author,
        message,
        tuple(history),
        None if point is None else (point[0], point[1]),
    )


def _seal(body: bytes) -> bytes:
    return b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _depth(value: Any) -> int:
    values = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(_depth, values), default=0) if isinstance(values, list) else 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(k, str) and isinstance(v, str) for k, v in value.items()
    )
