"""Files and folders of data: their formats, their order, and their names in messages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tocsin.errors import TocsinError, suggest

# Folders of JSON lines that Spark writes contain files that end in .json.
FORMATS = {".csv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}

# A row, as the Python API names it at the start of a message, or at the end: "..., already used in
# row 3".
_ROW = re.compile(r"^(?:row|event) (\d+)\b|(?<=, already used in )row (\d+)$")


def is_url(text: str) -> bool:
    """Return whether a path is a URL, such as s3://bucket/file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def is_store(place: Path | str) -> bool:
    """Return whether rules are in a store: in a folder, or in the bucket of a URL."""
    return isinstance(place, str) or place.is_dir()


def detect_format(path: Path) -> str:
    """Return the format of a file, or of all files in a folder: csv, json or parquet."""
    if not path.exists():
        raise TocsinError(f"there is no file or folder {path}")
    if path.is_dir():
        formats = {detect_format(file) for file in _list_files(path)}
        if len(formats) == 1:
            return formats.pop()
        what = f"files of several kinds ({', '.join(sorted(formats))})" if formats else "no files"
        raise TocsinError(f"the folder {path} has {what}; expected CSV, JSON lines or Parquet")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise TocsinError(
            f"{path}: the name of a file must end in .csv, .jsonl (JSON lines) or .parquet"
            + (suggest(suffix, FORMATS) if suffix else "")
        )
    return FORMATS[suffix]


def list_data_files(path: Path, partitioned: bool = False) -> list[Path]:
    """Return a file, or the files of a folder in the order of their names.

    Folders in a folder are refused. If `partitioned`, they may be partitions such as day=1/, all at
    the same depth.
    """
    if not path.is_dir():
        return [path]
    files = _list_files(path)
    for file in files:
        parts = file.relative_to(path).parts[:-1]
        if partitioned and all("=" in part for part in parts):
            if len(parts) == len(files[0].relative_to(path).parts[:-1]):
                continue
        elif not parts:
            continue
        raise TocsinError(
            f"the folder {path} has files in subfolders, such as {file.relative_to(path)}; "
            + (
                "Spark reads them only if all are in partitions such as day=1/"
                if partitioned
                else "only --spark reads them, if they are partitions such as day=1/"
            )
        )
    return files


def _list_files(folder: Path) -> list[Path]:
    # Like Spark, skip names that begin with a dot or an underscore.
    return sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(folder).parts)
    )


# ------------------------------------------------------------ messages


@contextlib.contextmanager
def reading(path: Path, kind: type[TocsinError]) -> Iterator[None]:
    """Add the name of a file to errors; errors of Arrow and the system become a `kind`."""
    from tocsin.model.arrow import translate_errors

    try:
        with translate_errors(kind, "cannot be read"):
            yield
    except OSError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise kind(f"{path}: cannot be read: values are nested too deeply") from None
    except TocsinError as error:
        raise error.with_place(str(path)) from None


@contextlib.contextmanager
def naming_rows(name_row: Callable[[int], str]) -> Iterator[None]:
    """Replace the rows in errors, which the Python API numbers from 0, by their names."""
    try:
        yield
    except TocsinError as error:
        error.args = (rename_rows(error.args[0], name_row), *error.args[1:])
        raise


def rename_rows(message: str, name_row: Callable[[int], str]) -> str:
    """Return a message with rows as `name_row` names them."""
    return _ROW.sub(lambda found: name_row(int(found[1] or found[2])), message)
