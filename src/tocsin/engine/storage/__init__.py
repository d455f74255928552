"""Storage: named objects, the seam between what is stored and where.

A rule store with its log of streams is a set of objects in a `Storage`: in a `Folder`, or in
`Memory`. A name is a text such as `versions/00000007.json`; no part of it begins with a dot.
Whatever is built on a storage may rely on this, and on nothing else:

- `put` replaces an object as a whole: readers see the old or the new one. Objects that are put
  together appear one by one, and are all durable when `put` returns. So a thing of several
  objects, such as a segment, is complete only when an object that was put later names it.
- `put_if_absent` puts an object for one of all callers, until it is deleted. It is durable then.
  An exception does not tell whether it was put. Neither does False, if requests are repeated on
  the way: then an object may have been found that the same call has put.
- `list` returns objects in the order of their names, which is that of code points. It shows what
  was put before the call, and not what was deleted before it. It may or may not show what is put
  or deleted meanwhile.
- `stat` costs the same however many objects there are.
- `map` returns a buffer that stays valid if the object is deleted. Processes that map the same
  object share its memory, if the storage can. A storage far away keeps copies nearby of objects
  whose SHA-256 `checksum` the caller knows.
- `delete` takes names that are not there for deleted. A crash may undo it.
- `lists_from` is whether `list` reads only what it returns, however many names come before.
- `read` and `map` raise FileNotFoundError if there is no object; all other errors are an OSError.
- Times are those of the storage's clock. They tell roughly how old an object is; what must be
  correct does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

BUCKETS = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az"}  # Spark's name for s3 is s3a


class Entry(NamedTuple):
    """What is known of an object without reading it."""

    name: str
    size: int  # bytes
    modified: float  # when it was put, in seconds since 1970
    stamp: str  # differs if the object was replaced by one with other bytes


@runtime_checkable
class Storage(Protocol):
    """Where objects are kept; the module says what it promises."""

    lists_from: ClassVar[bool]

    @property
    def identity(self) -> str:
        """The same for all storages that hold the same objects, by whatever path."""

    def locate(self, name: str = "") -> str:
        """Return how to call an object, or the whole storage, in messages."""

    def put(self, objects: Mapping[str, Iterable[Any]]) -> None:
        """Put objects, each given as buffers that are written one after the other."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one; return whether it was put."""

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""

    def map(self, name: str, checksum: str | None = None) -> memoryview:
        """Return an object's bytes as a read-only buffer."""

    def stat(self, name: str) -> Entry | None:
        """Return what is known of an object; None if there is none."""

    def list(self, prefix: str, start: str = "") -> Sequence[Entry]:
        """Return the objects whose names begin with a prefix, from the name `start` on.

        The prefix is empty, or ends with a slash.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, in this order."""

    def sweep(self, prefix: str, age: float) -> None:
        """Delete what failed puts of names with a prefix have left, older than `age` in seconds."""


def is_bucket(place: str) -> bool:
    """Return whether a text is the URL of a bucket.

    >>> is_bucket("s3://rules/fraud"), is_bucket("/srv/rules")
    (True, False)
    """
    scheme, separator, _ = place.partition("://")
    return bool(separator) and scheme in BUCKETS
