"""A segment on disk: a folder of three files that any process can map.

::

    arrays.bin      every array, one after the other, each at a multiple of 64 bytes
    rules.arrow     ids, texts and payload, an Arrow IPC file
    manifest.json   which array lies where, and the sizes and checksums of the other two

Nothing is ever changed in place: a segment is written under a temporary name, synced to
disk and renamed. Few files, since every one of them has to be synced.
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
from tocsin.engine.plan import INDEXES
from tocsin.engine.segment import Indexed, Roster, Segment
from tocsin.errors import StoreError
from tocsin.model.conjunctions import Conjunctions, conjunctions

FORMAT = 5  # 1 had one index a segment; 2 to 4 other arrays for counting, bestar, keyed
_ALIGNMENT = 64


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
    arrays["positions"] = segment.roster.positions
    places: dict[str, Any] = {}
    with open(folder / "arrays.bin", "wb") as out:
        for key, array in arrays.items():
            out.write(b"\0" * (-out.tell() % _ALIGNMENT))
            shape = list(array.shape)
            places[key] = {"dtype": array.dtype.str, "shape": shape, "offset": out.tell()}
            out.write(np.ascontiguousarray(array).tobytes())
        _sync(out)
    roster = segment.roster
    payload = {f"payload.{n}": roster.payload.column(n) for n in roster.payload.column_names}
    table = pa.table({"id": roster.ids, "where": roster.where} | payload)
    with open(folder / "rules.arrow", "wb") as out:
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        _sync(out)
    manifest = {
        "format": FORMAT,
        "rules": len(roster.positions),
        "parts": [{"index": part.index.name, "why": part.why} for part in segment.parts],
        "arrays": places,
        "files": {n: describe(folder / n) for n in ("arrays.bin", "rules.arrow")},
    }
    checksum = write_json(folder / "manifest.json", manifest)
    sync_folder(folder)
    return checksum


def is_whole(folder: Path, checksum: str) -> bool:
    """Tell whether a folder holds the segment of this manifest, by the sizes of its files."""
    try:
        manifest = read_json(folder / "manifest.json", checksum)
        for name, expected in manifest["files"].items():
            check_file(folder / name, expected, verify=False)
    except StoreError:
        return False
    return True


def read_segment(folder: Path, checksum: str, verify: bool) -> Segment:
    """Return the segment in a folder, its arrays mapped.

    Sizes are always checked, the contents' checksums if `verify`.
    """
    manifest = read_json(folder / "manifest.json", checksum)
    for name, expected in manifest["files"].items():
        check_file(folder / name, expected, verify)
    arrays = _mapped(folder / "arrays.bin", manifest["arrays"])
    with pa.memory_map(str(folder / "rules.arrow")) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    parts = []
    for number, entry in enumerate(manifest["parts"]):
        if entry["index"] not in INDEXES:
            raise StoreError(f"{folder}: its index {entry['index']!r} is not one of this Tocsin's")
        fields = _named(arrays, f"{number}.conjunctions.")
        made = conjunctions(*(fields[name] for name in Conjunctions._fields))
        index = INDEXES[entry["index"]].from_arrays(made, _named(arrays, f"{number}.index."))
        parts.append(Indexed(index, entry["why"]))
    ids = _only_chunk(table.column("id"))
    payload = [n for n in table.column_names if n.startswith("payload.")]
    roster = Roster(
        arrays["positions"],
        ids,
        _only_chunk(table.column("where")),
        table.select(payload).rename_columns([n.removeprefix("payload.") for n in payload]),
    )
    return Segment(roster, parts, IdIndex.from_arrays(ids, _named(arrays, "ids.")))


def _mapped(path: Path, places: dict[str, Any]) -> dict[str, np.ndarray]:
    whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    whole = whole.view(np.ndarray)
    arrays = {}
    for name, place in places.items():
        dtype, start = np.dtype(place["dtype"]), place["offset"]
        size = int(np.prod(place["shape"])) * dtype.itemsize
        arrays[name] = whole[start : start + size].view(dtype).reshape(place["shape"])
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
    try:
        size = path.stat().st_size
    except OSError:
        raise StoreError(f"{path} is missing: the store is damaged") from None
    if size != expected["bytes"]:
        raise StoreError(
            f"{path} has {size:,} bytes instead of {expected['bytes']:,}: it was cut off or "
            "written over, and the store is damaged"
        )
    if verify and describe(path) != expected:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")


def write_json(path: Path, content: dict[str, Any]) -> str:
    """Write JSON to disk for good; return its checksum."""
    data = json.dumps(content, indent=1, sort_keys=True).encode()
    with open(path, "wb") as out:
        out.write(data)
        _sync(out)
    return hashlib.sha256(data).hexdigest()


def read_json(path: Path, checksum: str) -> dict[str, Any]:
    """Return JSON whose checksum is known; raise if it is damaged or of another format."""
    try:
        data = path.read_bytes()
    except OSError:
        raise StoreError(f"{path} is missing: the store is damaged") from None
    if hashlib.sha256(data).hexdigest() != checksum:
        raise StoreError(f"{path} is not what was written (its checksum differs): it is damaged")
    content: dict[str, Any] = json.loads(data)
    check_format(path, content)
    return content


def check_format(path: Path, content: dict[str, Any]) -> None:
    """Raise if a file is of a format that another Tocsin writes."""
    found = content.get("format")
    if found != FORMAT:
        older = isinstance(found, int) and found < FORMAT
        raise StoreError(
            f"{path} is of format {found!r}, and this Tocsin reads format {FORMAT}; "
            f"{'an older' if older else 'a newer'} one wrote it: "
            f"{'make the store anew' if older else 'upgrade'}"
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
