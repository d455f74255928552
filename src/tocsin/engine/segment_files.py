"""Segments on disk: a folder of three files that any process can map.

::

    arrays.bin      every array, one after the other, each at a multiple of 64 bytes
    rules.arrow     ids, texts and payload, an Arrow IPC file
    manifest.json   the place of each array, and the sizes and checksums of the other two

Files never change: a segment is written under a temporary name, synced to disk and renamed. There
are few files, since each of them has to be synced.

A store outlives upgrades. Conjunctions, ids and texts are permanent. The arrays of an index are
derived: they are rebuilt from the conjunctions if another version of the index wrote them, or if
the index no longer exists. Every format that was ever written can be read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.ids import IdIndex
from tocsin.engine.planner import build_parts
from tocsin.engine.segment import IndexedPart, RuleMetadata, Segment
from tocsin.errors import StoreError
from tocsin.index.registry import INDEXES, known_options
from tocsin.jit import freeze, freeze_fields
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.categories import check_codes
from tocsin.model.conjunctions import NO_SCORES, Conjunctions
from tocsin.model.schema import Schema
from tocsin.model.validation import check_dtype, require, typed_arrays

# 1 had one index per segment; 2 to 4 had other arrays for counting, bestar and keyed; up to 5
# indexes had no versions of their own; up to 6 rules tested columns only, not terms. 8 is 7 with
# thresholds: a segment without thresholds is still a 7, which older versions of Tocsin read. They
# must not read an 8, because they would match its rules regardless of the thresholds. 9 is the same
# with scores of rules, and perhaps thresholds.
FORMAT = 7
FORMAT_WITH_THRESHOLDS = 8
FORMAT_WITH_SCORES = 9
_ALIGNMENT = 64
_FILES = ("arrays.bin", "rules.arrow")
_DTYPES = ("<i8", "<i4", "|u1", "<u2", "<u8", "<f8")  # of arrays; others are rejected


def write_segment(folder: Path, segment: Segment) -> tuple[str, str]:
    """Write a segment into a folder of segments; return its name and its manifest's checksum."""
    name = uuid.uuid4().hex
    temporary = folder / f".{name}"
    temporary.mkdir()
    try:
        checksum = _write_files(temporary, segment)
        temporary.rename(folder / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder)
    return name, checksum


def _write_files(folder: Path, segment: Segment) -> str:
    """Write the files of a segment; return its manifest's checksum."""
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
    places: dict[str, Any] = {}
    with open(folder / "arrays.bin", "wb") as out:
        for key, array in arrays.items():
            out.write(b"\0" * (-out.tell() % _ALIGNMENT))
            shape = list(array.shape)
            places[key] = {"dtype": array.dtype.str, "shape": shape, "offset": out.tell()}
            out.write(np.ascontiguousarray(array).tobytes())
        _sync(out)
    metadata = segment.metadata
    payload = {f"payload.{n}": metadata.payload.column(n) for n in metadata.payload.column_names}
    table = pa.table({"id": metadata.ids, "where": metadata.where} | payload)
    with open(folder / "rules.arrow", "wb") as out:
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        _sync(out)
    manifest = {
        "format": FORMAT_WITH_SCORES
        if segment.has_scores
        else FORMAT_WITH_THRESHOLDS
        if segment.has_thresholds
        else FORMAT,
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
        "files": {n: describe(folder / n) for n in _FILES},
    }
    checksum = write_json(folder / "manifest.json", manifest)
    sync_folder(folder)
    return checksum


def is_complete(folder: Path, checksum: str) -> bool:
    """Return whether a folder holds a complete segment, by the sizes of its files."""
    try:
        manifest = read_manifest(folder, checksum)
        for name in _FILES:
            check_file(folder / name, manifest["files"][name], verify=False)
    except StoreError:
        return False
    return True


def read_segment(folder: Path, checksum: str, floats: np.ndarray, verify: bool) -> Segment:
    """Return the segment in a folder, with memory-mapped arrays.

    `floats` is whether the keys of each attribute of the schema are the bits of floats. File sizes
    are always checked. If `verify`, so are the checksums and everything that kernels rely on:
    whoever can change a file can also change its checksum.
    """
    try:
        manifest = read_manifest(folder, checksum)
        for name in _FILES:
            check_file(folder / name, manifest["files"][name], verify)
        return _read_files(folder, manifest, floats, verify)
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error}") from None


def _read_files(
    folder: Path, manifest: dict[str, Any], floats: np.ndarray, verify: bool
) -> Segment:
    try:
        arrays = _map_arrays(folder / "arrays.bin", manifest["arrays"])
        require("positions" in arrays, "array 'positions' is missing")
        check_dtype("positions", arrays["positions"], "int32")
        metadata = _read_metadata(folder / "rules.arrow", arrays["positions"], verify)
        if "at_least" in arrays:
            metadata = metadata._replace(at_least=_read_thresholds(arrays, len(metadata.ids)))
        if "score" in arrays:
            metadata = metadata._replace(score=_read_scores(arrays, len(metadata.positions)))
        ids = IdIndex.from_arrays(metadata.ids, _select_prefix(arrays, "ids."))
        parts = [
            part
            for number, entry in enumerate(manifest["parts"])
            for part in _read_part(number, entry, arrays, metadata, floats, verify)
        ]
        if verify:
            _check_rules(manifest["rules"], metadata, parts)
            ids.validate()
    except StoreError as error:
        raise damage_error(folder, error) from None
    return Segment(metadata, parts, ids)


def _read_metadata(path: Path, positions: np.ndarray, verify: bool) -> RuleMetadata:
    """Return the metadata of the rules at `positions`."""
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        if verify:
            table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"{path.name} cannot be read: {error}") from None
    require(
        names[:2] == ["id", "where"]
        and len(set(names)) == len(names)
        and all(name.startswith("payload.") for name in names[2:]),
        f"{path.name} must have the columns id, where and payload.<name>, got {', '.join(names)}",
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


def check_fits(
    segment: Segment, schema: Schema, categories: int, id_type: pa.DataType, payload: pa.Schema
) -> None:
    """Raise a StoreError unless a segment fits its version.

    Only the version has the number of `categories` and the types of ids and payload.
    """
    for part in segment.parts:
        check_codes(part.conjunctions, categories, schema)
    metadata = segment.metadata
    require(is_text(id_type) == is_text(metadata.ids.type), f"ids must be of type {id_type}")
    with translate_errors(
        StoreError, "ids, or a column of the payload, are not of the version's types"
    ):
        if not is_text(id_type):  # texts too long for the type are returned as large text
            metadata.ids.cast(id_type)
        merged = pa.unify_schemas([payload, metadata.payload.schema], promote_options="permissive")
        require(merged.types == payload.types, f"the payload's columns must be {payload.names}")


def read_manifest(folder: Path, checksum: str) -> dict[str, Any]:
    """Return the manifest of a segment; raise if it is damaged or malformed."""
    manifest = read_json(folder / "manifest.json", checksum)
    try:
        manifest = _upgrade_manifest(manifest)
        _check_manifest(manifest)
    except StoreError as error:
        raise damage_error(folder / "manifest.json", error) from None
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


def damage_error(path: Path, trouble: object) -> StoreError:
    """Return the error for a damaged file or folder."""
    return StoreError(f"{path} is damaged, or Tocsin did not write it: {trouble}")


def _map_arrays(path: Path, places: dict[str, Any]) -> dict[str, np.ndarray]:
    whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    whole = whole.view(np.ndarray)
    arrays = {}
    for name, place in places.items():
        dtype, start = np.dtype(place["dtype"]), place["offset"]
        stop = start + place["shape"][0] * dtype.itemsize
        arrays[name] = whole[start:stop].view(dtype)
    return arrays


def _select_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# ------------------------------------------------------------ files with checksums


def describe(path: Path) -> dict[str, Any]:
    """Return the size and the checksum of a file."""
    with open(path, "rb") as source:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(source, "sha256").hexdigest(),
        }


def check_file(path: Path, expected: dict[str, Any], verify: bool) -> None:
    """Raise if a file is missing or has another size or, if `verify`, another checksum."""
    _check_is_file(path)
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise StoreError(
            f"{path} has {size:,} bytes instead of {expected['bytes']:,}: it was cut off or "
            "written over, and the store is damaged"
        )
    if verify and describe(path) != expected:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")


def _check_is_file(path: Path) -> None:
    """Raise unless a path is a regular file: reading a pipe could block for ever."""
    if not path.is_file():
        raise StoreError(f"{path} is missing, or is no file: the store is damaged")


def write_json(path: Path, content: dict[str, Any]) -> str:
    """Write JSON and sync it to disk; return its checksum."""
    data = json.dumps(content, indent=1, sort_keys=True).encode()
    with open(path, "wb") as out:
        out.write(data)
        _sync(out)
    return hashlib.sha256(data).hexdigest()


def read_json(path: Path, checksum: str) -> dict[str, Any]:
    """Return a manifest with a known checksum; raise if it is damaged or of another format."""
    _check_is_file(path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != checksum:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")
    try:
        content: dict[str, Any] = json.loads(data)
        require(isinstance(content, dict), "it is not a JSON object")
    except (ValueError, RecursionError, StoreError) as error:
        raise damage_error(path, error) from None
    check_format(path, content, FORMAT_WITH_SCORES)
    return content


def check_format(path: Path, content: dict[str, Any], newest: int = FORMAT) -> None:
    """Raise if a file has a format that this Tocsin cannot read."""
    file_format = content.get("format")
    if type(file_format) is not int or not 1 <= file_format <= newest:
        raise StoreError(
            f"{path} is of format {file_format!r}, and this Tocsin reads formats 1 to {newest}; "
            "a newer one wrote it: upgrade"
        )


def put_if_absent(path: Path, data: bytes) -> bool:
    """Write and sync a file atomically unless it exists; return whether it was written."""
    temporary = path.parent / f".{uuid.uuid4().hex}"
    try:
        with open(temporary, "wb") as out:
            out.write(data)
            _sync(out)
        # Creating a hard link is atomic, and never replaces a file.
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def _sync(out: Any) -> None:
    out.flush()
    os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, after files were created or renamed there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
