"""Segments: three objects that any process can map.

::

    arrays.bin      every array, one after the other, each at a multiple of 64 bytes
    rules.arrow     ids, texts and payload, an Arrow IPC file
    manifest.json   the place of each array, and the sizes and checksums of the other two

They never change, and are complete when a version names the segment. There are few of them, since
each is a file to sync, or a request.

A store outlives upgrades. Conjunctions, ids and texts are permanent. The arrays of an index are
derived: they are rebuilt from the conjunctions if another version of the index wrote them, or if
the index no longer exists. Every format that was ever written can be read.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.ids import IdIndex
from tocsin.engine.planner import build_parts
from tocsin.engine.segment import IndexedPart, RuleMetadata, Segment
from tocsin.engine.storage import Storage
from tocsin.errors import StoreError
from tocsin.index.registry import INDEXES, known_options
from tocsin.jit import freeze, freeze_fields
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.categories import check_codes
from tocsin.model.conjunctions import NO_SCORES, Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.predicates import NOT_SET, SET
from tocsin.model.residuals import check_scales, read_residuals, validate
from tocsin.model.schema import Schema
from tocsin.model.validation import check_dtype, require, typed_arrays

# 1 had one index per segment; 2 to 4 had other arrays for counting, bestar and keyed; up to 5
# indexes had no versions of their own; up to 6 rules tested columns only, not terms. 8 is 7 with
# thresholds: a segment without thresholds is still a 7, which older versions of Tocsin read. They
# must not read an 8, because they would match its rules regardless of the thresholds. 9 is the same
# with scores of rules, and perhaps thresholds. 10 is the same with shapes, and perhaps both.
FORMAT = 7
FORMAT_WITH_THRESHOLDS = 8
FORMAT_WITH_SCORES = 9
FORMAT_WITH_SHAPES = 10
_RESIDUALS = "residuals."  # prefix of their arrays
_ALIGNMENT = 64
SEGMENTS = "segments/"
_FILES = ("arrays.bin", "rules.arrow")
_MANIFEST = "manifest.json"
_DTYPES = ("<i8", "<i4", "|u1", "<u2", "<u8", "<f8")  # of arrays; others are rejected


def pack_segment(segment: Segment, new: dict[str, list[Any]]) -> tuple[str, str]:
    """Add a segment to the objects to put; return its name and its manifest's checksum."""
    arrays = {f"ids.{k}": v for k, v in segment.ids.arrays().items()}
    for number, part in enumerate(segment.parts):
        conjunctions = part.conjunctions._asdict()
        del conjunctions["score"]  # those of rules are stored once
        groups = {"conjunctions": conjunctions, "index": part.index.arrays()}
        arrays |= {f"{number}.{group}.{k}": v for group in groups for k, v in groups[group].items()}
    arrays["positions"] = segment.positions
    if segment.has_thresholds:
        arrays["at_least"] = segment.metadata.at_least
    if segment.has_scores:
        arrays["score"] = segment.metadata.score
    if segment.residuals is not None:
        arrays |= {_RESIDUALS + k: v for k, v in segment.residuals.arrays().items()}
    places: dict[str, Any] = {}
    chunks: list[Any] = []
    end = 0
    for key, array in arrays.items():
        padding = -end % _ALIGNMENT
        start, shape = end + padding, list(array.shape)
        places[key] = {"dtype": array.dtype.str, "shape": shape, "offset": start}
        chunks += [b"\0" * padding, np.ascontiguousarray(array)]
        end = start + array.nbytes
    metadata = segment.metadata
    payload = {f"payload.{n}": metadata.payload.column(n) for n in metadata.payload.column_names}
    table = pa.table({"id": metadata.ids, "where": metadata.where} | payload)
    contents = {"arrays.bin": chunks, "rules.arrow": [table_to_buffer(table)]}
    manifest = {
        "format": _format_of(segment),
        "rules": len(metadata.positions),
        "parts": [
            {
                "index": part.index.name,
                "version": part.index.version,
                "options": part.options,
                "why": part.why,
            }
            for part in segment.parts
        ],
        "arrays": places,
        "files": {file: describe(contents[file]) for file in _FILES},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    name = uuid.uuid4().hex
    for file, chunks in (contents | {_MANIFEST: [text]}).items():
        new[name_of(name, file)] = chunks
    return name, hashlib.sha256(text).hexdigest()


def _format_of(segment: Segment) -> int:
    """Return the oldest format that can hold a segment."""
    if segment.residuals is not None:
        return FORMAT_WITH_SHAPES
    if segment.has_scores:
        return FORMAT_WITH_SCORES
    return FORMAT_WITH_THRESHOLDS if segment.has_thresholds else FORMAT


def name_of(segment: str, file: str) -> str:
    """Return the name of a file of a segment."""
    return f"{SEGMENTS}{segment}/{file}"


def is_complete(storage: Storage, name: str, checksum: str) -> bool:
    """Return whether a segment is complete, by the sizes of its files."""
    try:
        manifest = read_manifest(storage, name, checksum)
        for file in _FILES:
            check_object(storage, name_of(name, file), manifest["files"][file])
    except StoreError:
        return False
    return True


def read_segment(
    storage: Storage, name: str, checksum: str, floats: np.ndarray, verify: bool
) -> Segment:
    """Return a segment with mapped arrays.

    `floats` is whether the keys of each attribute of the schema are the bits of floats. Sizes are
    always checked. If `verify`, so are the checksums and everything that kernels rely on: whoever
    can change a file can also change its checksum.
    """
    place = storage.locate(SEGMENTS + name)
    try:
        manifest = read_manifest(storage, name, checksum)
        contents = {
            file: map_object(storage, name_of(name, file), manifest["files"][file], verify)
            for file in _FILES
        }
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error}") from None
    try:
        arrays = _split_arrays(contents["arrays.bin"], manifest["arrays"])
        require("positions" in arrays, "array 'positions' is missing")
        check_dtype("positions", arrays["positions"], "int32")
        metadata = _read_metadata(contents["rules.arrow"], arrays["positions"], verify)
        if "at_least" in arrays:
            metadata = metadata._replace(at_least=_read_thresholds(arrays, len(metadata.ids)))
        if "score" in arrays:
            metadata = metadata._replace(score=_read_scores(arrays, len(metadata.positions)))
        residuals = _select_prefix(arrays, _RESIDUALS)
        if residuals:
            metadata = metadata._replace(residuals=read_residuals(residuals))
        ids = IdIndex.from_arrays(metadata.ids, _select_prefix(arrays, "ids."))
        parts = [
            part
            for number, entry in enumerate(manifest["parts"])
            for part in _read_part(number, entry, arrays, metadata, floats, verify)
        ]
        if verify:
            _check_rules(manifest["rules"], metadata, parts)
            _check_residuals(metadata, parts, len(floats))
            ids.validate()
    except StoreError as error:
        raise damage_error(place, error) from None
    return Segment(metadata, parts, ids)


def _read_metadata(data: memoryview, positions: np.ndarray, verify: bool) -> RuleMetadata:
    """Return the metadata of the rules at `positions`."""
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        if verify:
            table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"rules.arrow cannot be read: {error}") from None
    require(
        names[:2] == ["id", "where"]
        and len(set(names)) == len(names)
        and all(name.startswith("payload.") for name in names[2:]),
        f"rules.arrow must have the columns id, where and payload.<name>, got {', '.join(names)}",
    )
    types = table.schema.types
    require(types[0] in (pa.int64(), pa.large_string()), f"ids cannot be of type {types[0]}")
    require(types[1] == pa.large_string(), f"conditions cannot be of type {types[1]}")
    table = table.combine_chunks()
    payload = table.select(names[2:])
    return RuleMetadata(
        positions,
        _to_array(table.column("id")),
        _to_array(table.column("where")),
        payload.rename_columns([name.removeprefix("payload.") for name in names[2:]]),
    )


def _read_thresholds(arrays: dict[str, np.ndarray], rules: int) -> np.ndarray:
    at_least = arrays["at_least"]
    check_dtype("at_least", at_least, "float64")
    require(
        len(at_least) == rules and bool(((at_least >= 0) & (at_least <= 1)).all()),
        f"'at_least' must be {rules:,} numbers from 0 to 1, one for each rule",
    )
    return freeze(at_least, np.float64)


def _read_scores(arrays: dict[str, np.ndarray], rules: int) -> np.ndarray:
    score = arrays["score"]
    check_dtype("score", score, "float64")
    require(
        rules > 0
        and len(score) == rules
        and bool((np.isnan(score) | (score >= 0) & (score < np.inf)).all()),
        f"'score' must be {rules:,} finite numbers, 0 or more, or NaN, one for each rule",
    )
    return freeze(score, np.float64)


def _read_part(
    number: int,
    entry: dict[str, Any],
    arrays: dict[str, np.ndarray],
    metadata: RuleMetadata,
    floats: np.ndarray,
    verify: bool,
) -> list[IndexedPart]:
    """Return a part with its index, as stored or rebuilt.

    An index that no longer exists may be replaced by several.
    """
    name, why, options = (
        entry["index"],
        entry["why"],
        known_options(entry["index"], entry.get("options", {})),
    )
    index = INDEXES.get(name)
    try:
        stored_fields = _select_prefix(arrays, f"{number}.conjunctions.") | {"score": NO_SCORES}
        conjunctions = freeze_fields(Conjunctions, **typed_arrays(Conjunctions, stored_fields))
        if verify:
            conjunctions.validate(len(floats))
        if len(metadata.score):
            conjunctions = conjunctions.with_scores(metadata.positions, metadata.score)
        if index is None:
            return build_parts("auto", {}, conjunctions, floats)
        if entry["version"] != index.version:
            rebuilt = index.build(conjunctions, floats, **options)
            return [IndexedPart(rebuilt, why, options)]
        stored = index.from_arrays(conjunctions, _select_prefix(arrays, f"{number}.index."))
        if verify:
            stored.validate(len(floats))
    except StoreError as error:
        raise error.with_place(f"part {number} ({name})") from None
    return [IndexedPart(stored, why, options)]


def _check_rules(count: int, metadata: RuleMetadata, parts: list[IndexedPart]) -> None:
    """Raise unless there are `count` rules, in order, each with its conjunctions in one part."""
    positions = metadata.positions
    require(
        1 <= count == len(positions) == len(metadata.ids) == len(metadata.where),
        f"there must be as many positions and rows as rules, {count:,}, and 1 or more",
    )
    require(
        positions[0] >= 0 and bool((positions[1:] > positions[:-1]).all()),
        "the positions of rules must ascend",
    )
    require(metadata.ids.null_count == 0, "an id is null")
    taken = np.zeros(count, bool)
    for part in parts:
        rule = part.conjunctions.rule
        rule = rule[np.flatnonzero(np.diff(rule, prepend=-1))]
        places = np.minimum(np.searchsorted(positions, rule), count - 1)
        require(np.array_equal(positions[places], rule), "a conjunction is of no rule")
        require(not taken[places].any(), "a rule is in two parts")
        taken[places] = True


def _check_residuals(metadata: RuleMetadata, parts: list[IndexedPart], attributes: int) -> None:
    """Raise unless each residual is of a conjunction that requires both coordinates."""
    residuals = metadata.residuals
    if residuals is None:
        return
    validate(residuals, attributes)
    count = 0
    for part in parts:
        c = part.conjunctions
        rows, offsets = residuals.rows_of(c)
        count += len(rows)
        owner = np.repeat(np.arange(c.size), np.diff(offsets))
        rows_of_owner = np.repeat(np.arange(c.size), np.diff(c.offsets))
        tested = rows_of_owner * attributes + c.attribute
        first = np.where(c.kind == SET, c.low, 0)
        least = np.where(c.kind == SET, c.points[first] if len(c.points) else 0, c.low)
        excludes_null = (c.kind != NOT_SET) & (least > NULL)
        for attribute in (residuals.tests.x, residuals.tests.y):
            wanted = owner * attributes + attribute[rows]
            require(
                bool(np.isin(wanted, tested[excludes_null]).all()),
                "a conjunction with a shape must exclude points without coordinates",
            )
    require(count == residuals.size, "a residual is of no conjunction")


def check_fits(
    segment: Segment, schema: Schema, categories: int, id_type: pa.DataType, payload: pa.Schema
) -> None:
    """Raise a StoreError unless a segment fits its version.

    Only the version has the number of `categories` and the types of ids and payload.
    """
    for part in segment.parts:
        check_codes(part.conjunctions, categories, schema)
    metadata = segment.metadata
    if metadata.residuals is not None:
        check_scales(metadata.residuals, schema)
    require(is_text(id_type) == is_text(metadata.ids.type), f"ids must be of type {id_type}")
    with translate_errors(
        StoreError, "ids, or a column of the payload, are not of the version's types"
    ):
        if not is_text(id_type):  # texts too long for the type are returned as large text
            metadata.ids.cast(id_type)
        merged = pa.unify_schemas([payload, metadata.payload.schema], promote_options="permissive")
        require(merged.types == payload.types, f"the payload's columns must be {payload.names}")


def read_manifest(storage: Storage, segment: str, checksum: str) -> dict[str, Any]:
    """Return the manifest of a segment; raise if it is missing, damaged or malformed."""
    name = name_of(segment, _MANIFEST)
    place = storage.locate(name)
    try:
        data = storage.read(name)
    except FileNotFoundError:
        raise _missing_error(place) from None
    if hashlib.sha256(data).hexdigest() != checksum:
        raise _changed_error(place)
    try:
        manifest: dict[str, Any] = json.loads(data)
        require(isinstance(manifest, dict), "it is not a JSON object")
    except (ValueError, RecursionError, StoreError) as error:
        raise damage_error(place, error) from None
    check_format(place, manifest, FORMAT_WITH_SHAPES)
    try:
        manifest = _upgrade_manifest(manifest)
        _check_manifest(manifest)
    except StoreError as error:
        raise damage_error(place, error) from None
    return manifest


def _upgrade_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of any format in the current one.

    Up to format 5 indexes had no version. The arrays of format 5 are those of version 1; those of
    older formats are ignored.
    """
    manifest_format = manifest["format"]
    if manifest_format >= 6:  # format 7 has other version files
        return manifest
    parts: Any = manifest.get("parts")
    arrays: Any = manifest.get("arrays")
    if manifest_format == 1:
        parts = [{"index": manifest.get("index"), "why": manifest.get("why", "it was chosen")}]
    require(isinstance(parts, list) and isinstance(arrays, dict), "it must list parts and arrays")
    if manifest_format == 1:
        arrays = {
            f"0.{name}" if name.startswith("conjunctions.") else name: place
            for name, place in arrays.items()
        }
    if manifest_format < 5:
        arrays = {name: at for name, at in arrays.items() if "index." not in name}
    version = 1 if manifest_format == 5 else 0
    parts = [part | {"version": version} if isinstance(part, dict) else part for part in parts]
    return manifest | {"parts": parts, "arrays": arrays}


def _check_manifest(manifest: dict[str, Any]) -> None:
    files: Any = manifest.get("files")
    parts: Any = manifest.get("parts")
    arrays: Any = manifest.get("arrays")
    require(
        isinstance(files, dict)
        and all(
            isinstance(file := files.get(name), dict)
            and is_count(file.get("bytes"))
            and isinstance(file.get("sha256"), str)
            for name in _FILES
        ),
        f"it must give size and checksum of {' and '.join(_FILES)}",
    )
    require(is_count(manifest.get("rules")), "it must give the number of rules")
    require(
        isinstance(parts, list)
        and len(parts) > 0
        and all(
            isinstance(part, dict)
            and isinstance(part.get("index"), str)
            and is_count(part.get("version"))
            and isinstance(part.get("why"), str)
            and isinstance(part.get("options", {}), dict)
            for part in parts
        ),
        "it must give the index of each part, its version, and why",
    )
    require(isinstance(arrays, dict), "it must list the arrays")
    for name, place in arrays.items():
        require(
            isinstance(place, dict)
            and place.get("dtype") in _DTYPES
            and isinstance(place.get("shape"), list)
            and len(place["shape"]) == 1
            and is_count(place["shape"][0])
            and is_count(place.get("offset"))
            and place["offset"] % _ALIGNMENT == 0
            and place["offset"] + place["shape"][0] * np.dtype(place["dtype"]).itemsize
            <= files["arrays.bin"]["bytes"],
            f"it must give type, shape and place of array {name!r} within arrays.bin, got {place}",
        )


def is_count(value: Any) -> bool:
    """Return whether a JSON value is a count: an integer, 0 or more."""
    return type(value) is int and 0 <= value < 2**63


def _split_arrays(whole: memoryview, places: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays = {}
    for name, place in places.items():
        dtype, start = np.dtype(place["dtype"]), place["offset"]
        stop = start + place["shape"][0] * dtype.itemsize
        arrays[name] = np.frombuffer(whole[start:stop], dtype)
    return arrays


def _select_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def table_to_buffer(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow IPC file."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


# ------------------------------------------------------------ objects with checksums


def describe(chunks: list[Any]) -> dict[str, Any]:
    """Return the size and the checksum of an object."""
    checksum, size = hashlib.sha256(), 0
    for chunk in chunks:
        checksum.update(chunk)
        size += memoryview(chunk).nbytes
    return {"bytes": size, "sha256": checksum.hexdigest()}


def check_object(storage: Storage, name: str, expected: Mapping[str, Any]) -> None:
    """Raise if an object is missing, or has another size."""
    entry = storage.stat(name)
    if entry is None:
        raise _missing_error(storage.locate(name))
    _check_size(storage.locate(name), entry.size, expected)


def map_object(
    storage: Storage, name: str, expected: Mapping[str, Any], verify: bool
) -> memoryview:
    """Return an object; raise if it has another size or, if `verify`, another checksum."""
    place = storage.locate(name)
    try:
        data = storage.map(name, expected["sha256"])
    except FileNotFoundError:
        raise _missing_error(place) from None
    _check_size(place, data.nbytes, expected)
    if verify and hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise _changed_error(place)
    return data


def _check_size(place: str, size: int, expected: Mapping[str, Any]) -> None:
    if size != expected["bytes"]:
        raise StoreError(
            f"{place} has {size:,} bytes instead of {expected['bytes']:,}: it was cut off or "
            "written over, and the store is damaged"
        )


def check_format(place: str, content: dict[str, Any], newest: int = FORMAT) -> None:
    """Raise if a file has a format that this Tocsin cannot read."""
    file_format = content.get("format")
    if type(file_format) is not int or not 1 <= file_format <= newest:
        raise StoreError(
            f"{place} is of format {file_format!r}, and this Tocsin reads formats 1 to {newest}; "
            "a newer one wrote it: upgrade"
        )


def damage_error(place: str, trouble: object) -> StoreError:
    """Return the error for a damaged file or segment."""
    return StoreError(f"{place} is damaged, or Tocsin did not write it: {trouble}")


def _changed_error(place: str) -> StoreError:
    return StoreError(f"{place} is not what was written (its checksum differs): it is damaged")


def _missing_error(place: str) -> StoreError:
    return StoreError(f"{place} is missing, or is no file: the store is damaged")
