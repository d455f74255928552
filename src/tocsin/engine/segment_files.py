"""A segment on disk: a folder of three files that any process can map.

::

    arrays.bin      every array, one after the other, each at a multiple of 64 bytes
    rules.arrow     ids, texts and payload, an Arrow IPC file
    manifest.json   which array lies where, and the sizes and checksums of the other two

Nothing is ever changed in place: a segment is written under a temporary name, synced to
disk and renamed. Few files, since every one of them has to be synced.

A store outlives upgrades. Conjunctions, ids and texts are what it keeps; the arrays of an index are
derived, and built again from the conjunctions where another version of that index wrote them, or
one that is not here any more. Every format that was ever written can be read.
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
from tocsin.jit import freeze_fields
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.categories import check_codes
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.schema import Schema
from tocsin.model.validation import check_dtype, require, typed_arrays

# 1 had one index a segment; 2 to 4 had other arrays for counting, bestar and keyed; until 5
# indexes had no versions of their own.
FORMAT = 6
_ALIGNMENT = 64
_FILES = ("arrays.bin", "rules.arrow")
_DTYPES = ("<i8", "<i4", "|u1", "<u2", "<u8", "<f8")  # of arrays; no other is ever mapped


def write_segment(folder: Path, segment: Segment) -> tuple[str, str]:
    """Write a segment into a folder of segments; return its name and its manifest's checksum."""
    name = uuid.uuid4().hex
    temporary = folder / f".{name}"
    temporary.mkdir()
    try:
        checksum = _fill(temporary, segment)
        temporary.rename(folder / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(folder)
    return name, checksum


def _fill(folder: Path, segment: Segment) -> str:
    """Write the files of a segment; return its manifest's checksum."""
    arrays = {f"ids.{k}": v for k, v in segment.ids.arrays().items()}
    for number, part in enumerate(segment.parts):
        held = {"conjunctions": part.conjunctions._asdict(), "index": part.index.arrays()}
        arrays |= {f"{number}.{what}.{k}": v for what in held for k, v in held[what].items()}
    arrays["positions"] = segment.metadata.positions
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
        "format": FORMAT,
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


def is_whole(folder: Path, checksum: str) -> bool:
    """Tell whether a folder holds the segment of this manifest, by the sizes of its files."""
    try:
        manifest = read_manifest(folder, checksum)
        for name in _FILES:
            check_file(folder / name, manifest["files"][name], verify=False)
    except StoreError:
        return False
    return True


def read_segment(folder: Path, checksum: str, floats: np.ndarray, verify: bool) -> Segment:
    """Return the segment in a folder, its arrays mapped.

    `floats` tells of each attribute of the schema whether its keys are the bits of floats.
    Sizes are always checked. If `verify`, so are the contents' checksums, and then all that
    kernels rely on: whoever can change a file can seal it again.
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
        arrays = _mapped(folder / "arrays.bin", manifest["arrays"])
        require("positions" in arrays, "array 'positions' is missing")
        check_dtype("positions", arrays["positions"], "int32")
        metadata = _read_metadata(folder / "rules.arrow", arrays["positions"], verify)
        ids = IdIndex.from_arrays(metadata.ids, _named(arrays, "ids."))
        parts = [
            part
            for number, entry in enumerate(manifest["parts"])
            for part in _read_part(number, entry, arrays, floats, verify)
        ]
        if verify:
            _check_rules(manifest["rules"], metadata, parts)
            ids.validate()
    except StoreError as error:
        raise damaged(folder, error) from None
    return Segment(metadata, parts, ids)


def _read_metadata(path: Path, positions: np.ndarray, verify: bool) -> RuleMetadata:
    """Return what is known of the rules at these positions."""
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
        _only_chunk(table.column("id")),
        _only_chunk(table.column("where")),
        payload.rename_columns([name.removeprefix("payload.") for name in names[2:]]),
    )


def _read_part(
    number: int,
    entry: dict[str, Any],
    arrays: dict[str, np.ndarray],
    floats: np.ndarray,
    verify: bool,
) -> list[IndexedPart]:
    """Return the conjunctions of a part under their index, as stored or built again.

    An index that is not here any more may have several in its place.
    """
    name, why, options = (
        entry["index"],
        entry["why"],
        known_options(entry["index"], entry.get("options", {})),
    )
    index = INDEXES.get(name)
    try:
        fields = typed_arrays(Conjunctions, _named(arrays, f"{number}.conjunctions."))
        made = freeze_fields(Conjunctions, **fields)
        if verify:
            made.validate(len(floats))
        if index is None:
            return build_parts("auto", {}, made, floats)
        if entry["version"] != index.version:
            return [IndexedPart(index.build(made, floats, **options), why, options)]
        stored = index.from_arrays(made, _named(arrays, f"{number}.index."))
        if verify:
            stored.validate(len(floats))
    except StoreError as error:
        raise error.with_place(f"part {number} ({name})") from None
    return [IndexedPart(stored, why, options)]


def _check_rules(count: int, metadata: RuleMetadata, parts: list[IndexedPart]) -> None:
    """Raise unless there are so many rules, in order, and each has its conjunctions in one part."""
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
    """Raise a StoreError unless a segment fits a version with so many `categories`.

    Only a version knows how many there are, and of what types ids and payload are.
    """
    for part in segment.parts:
        check_codes(part.conjunctions, categories, schema)
    metadata = segment.metadata
    require(is_text(id_type) == is_text(metadata.ids.type), f"ids must be of type {id_type}")
    with translate_errors(
        StoreError, "ids, or a column of the payload, are not of the version's types"
    ):
        if not is_text(id_type):  # texts are handed out as they are where they are too long for it
            metadata.ids.cast(id_type)
        joined = pa.unify_schemas([payload, metadata.payload.schema], promote_options="permissive")
        require(joined.types == payload.types, f"the payload's columns must be {payload.names}")


def read_manifest(folder: Path, checksum: str) -> dict[str, Any]:
    """Return the manifest of a segment; raise if it is damaged or not of the form that we write."""
    manifest = read_json(folder / "manifest.json", checksum)
    try:
        manifest = _upgraded(manifest)
        _check_manifest(manifest)
    except StoreError as error:
        raise damaged(folder / "manifest.json", error) from None
    return manifest


def _upgraded(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of any format as it would be written now.

    Indexes had no version until format 5, whose arrays are those of their first; before that, there
    is nothing to be read of them.
    """
    found = manifest["format"]
    if found == FORMAT:
        return manifest
    parts: Any = manifest.get("parts")
    arrays: Any = manifest.get("arrays")
    if found == 1:
        parts = [{"index": manifest.get("index"), "why": manifest.get("why", "it was chosen")}]
    require(isinstance(parts, list) and isinstance(arrays, dict), "it must tell parts and arrays")
    if found == 1:
        arrays = {
            f"0.{name}" if name.startswith("conjunctions.") else name: place
            for name, place in arrays.items()
        }
    if found < 5:
        arrays = {name: at for name, at in arrays.items() if "index." not in name}
    version = 1 if found == 5 else 0
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
        f"it must tell size and checksum of {' and '.join(_FILES)}",
    )
    require(is_count(manifest.get("rules")), "it must tell how many rules there are")
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
        "it must tell the index of each part, its version, and why",
    )
    require(isinstance(arrays, dict), "it must tell where the arrays lie")
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
            f"it must tell type, shape and place of array {name!r} within arrays.bin, got {place}",
        )


def is_count(value: Any) -> bool:
    """Tell whether a value out of JSON counts something."""
    return type(value) is int and 0 <= value < 2**63


def damaged(path: Path, trouble: object) -> StoreError:
    """Return the error for a file that does not say what we would have written."""
    return StoreError(f"{path} is damaged, or Tocsin did not write it: {trouble}")


def _mapped(path: Path, places: dict[str, Any]) -> dict[str, np.ndarray]:
    whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    whole = whole.view(np.ndarray)
    arrays = {}
    for name, place in places.items():
        dtype, start = np.dtype(place["dtype"]), place["offset"]
        stop = start + place["shape"][0] * dtype.itemsize
        arrays[name] = whole[start:stop].view(dtype)
    return arrays


def _named(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# ------------------------------------------------------------ files that tell when they are damaged


def describe(path: Path) -> dict[str, Any]:
    """Return size and checksum of a file."""
    with open(path, "rb") as source:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(source, "sha256").hexdigest(),
        }


def check_file(path: Path, expected: dict[str, Any], verify: bool) -> None:
    """Raise if a file is missing, has another size or, if `verify`, another checksum."""
    _check_there(path)
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise StoreError(
            f"{path} has {size:,} bytes instead of {expected['bytes']:,}: it was cut off or "
            "written over, and the store is damaged"
        )
    if verify and describe(path) != expected:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")


def _check_there(path: Path) -> None:
    """Raise if there is no such file; what is none, as a pipe, could keep its reader for ever."""
    if not path.is_file():
        raise StoreError(f"{path} is missing, or is no file: the store is damaged")


def write_json(path: Path, content: dict[str, Any]) -> str:
    """Write JSON to disk for good; return its checksum."""
    data = json.dumps(content, indent=1, sort_keys=True).encode()
    with open(path, "wb") as out:
        out.write(data)
        _sync(out)
    return hashlib.sha256(data).hexdigest()


def read_json(path: Path, checksum: str) -> dict[str, Any]:
    """Return JSON whose checksum is known; raise if it is damaged or of another format."""
    _check_there(path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != checksum:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")
    try:
        content: dict[str, Any] = json.loads(data)
        require(isinstance(content, dict), "it is not a JSON object")
    except (ValueError, RecursionError, StoreError) as error:
        raise damaged(path, error) from None
    check_format(path, content)
    return content


def check_format(path: Path, content: dict[str, Any]) -> None:
    """Raise if a file is of a format that only a newer Tocsin knows."""
    found = content.get("format")
    if type(found) is not int or not 1 <= found <= FORMAT:
        raise StoreError(
            f"{path} is of format {found!r}, and this Tocsin reads formats 1 to {FORMAT}; a newer "
            "one wrote it: upgrade"
        )


def put_if_absent(path: Path, data: bytes) -> bool:
    """Write a file, complete and lasting when it appears; tell whether it was not there before."""
    temporary = path.parent / f".{uuid.uuid4().hex}"
    try:
        with open(temporary, "wb") as out:
            out.write(data)
            _sync(out)
        # A hard link exists or does not, and never takes another's place.
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
    """Make what was created or renamed in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
