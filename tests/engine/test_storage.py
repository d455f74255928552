"""What every storage promises, see `engine/storage`; and what only a folder does."""

import os
import threading
import time
import uuid

import numpy as np
import pytest

import tocsin
from tocsin.engine import version_folder
from tocsin.engine.storage import Storage
from tocsin.engine.storage.bucket import Bucket
from tocsin.engine.storage.folder import Folder
from tocsin.engine.storage.memory import Memory
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version_folder import VersionFolder


@pytest.fixture(params=["folder", "memory", "bucket"])
def storage(request, tmp_path):
    if request.param == "bucket":
        return Bucket(f"{request.getfixturevalue('bucket')}/new/{uuid.uuid4().hex}")
    return Folder(tmp_path / "new" / "storage") if request.param == "folder" else Memory()


def names(entries):
    return [entry.name for entry in entries]


def put_all(storage, *names):
    storage.put({name: [b"x"] for name in names})


# ------------------------------------------------------------ promises


def test_it_is_a_storage(storage):
    assert isinstance(storage, Storage)
    assert storage.list("") == []
    assert storage.list("a/") == []


def test_what_is_put_is_read(storage):
    chunks = [b"ab", memoryview(b"cd"), np.arange(2, dtype=np.uint8), np.empty(0, np.int64), b""]
    storage.put({"a/1": chunks, "b": [], "a/deep/2": iter([b"z"])})
    assert storage.read("a/1") == bytes(storage.map("a/1")) == b"abcd\0\1"
    assert storage.read("b") == bytes(storage.map("b")) == b""
    assert storage.read("a/deep/2") == b"z"
    storage.put({"a/1": [b"new"]})
    assert storage.read("a/1") == b"new"


def test_what_is_not_there(storage):
    put_all(storage, "a/1")
    for name in ("a/2", "b", "b/1", "a/1/more"):
        assert storage.stat(name) is None
        for read in (storage.read, storage.map):
            with pytest.raises(FileNotFoundError):
                read(name)
        storage.delete([name])
    assert names(storage.list("")) == ["a/1"]


def test_one_of_all_puts_if_absent_succeeds(storage):
    for round_ in range(20):
        answers = {}
        gate = threading.Barrier(4)

        def put(i, gate=gate, answers=answers, name=f"log/{round_}"):
            gate.wait()
            answers[i] = storage.put_if_absent(name, b"%d" % i)

        threads = [threading.Thread(target=put, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [i for i in answers if answers[i]]
        assert storage.read(f"log/{round_}") == b"%d" % winner
    storage.delete(["log/0"])
    assert storage.put_if_absent("log/0", b"again")
    assert storage.read("log/0") == b"again"


def test_a_reader_sees_the_old_or_the_new_object(storage):
    size, seen, is_done = 1 << 12, set(), threading.Event()

    def read():
        while not is_done.is_set():
            seen.add(bytes(storage.map("a")))

    storage.put({"a": [b"0" * size] * 16})
    reader = threading.Thread(target=read)
    reader.start()
    for i in range(20):
        storage.put({"a": [b"%d" % (i % 10) * size] * 16})
    is_done.set()
    reader.join()
    assert seen <= {b"%d" % i * size * 16 for i in range(10)}


def test_a_list_is_in_order_and_begins_anywhere(storage):
    put_all(storage, "b/2", "b/10", "b/1", "a", "b/x/1", "b/1-", "c/1", "bb/1")
    found = ["b/1", "b/1-", "b/10", "b/2", "b/x/1"]
    assert names(storage.list("b/")) == found
    for start in ("b/", "b/1", "b/10", "b/15", "b/x/0", "b/zz", "a", "c"):
        assert names(storage.list("b/", start)) == [n for n in found if n >= start]
    assert names(storage.list("")) == ["a", *found, "bb/1", "c/1"]


def test_a_list_and_stat_tell_sizes_and_times(storage):
    before = int(time.time())  # object stores tell seconds
    storage.put({"a/1": [b"abc"], "a/2": [b""]})
    first, second = storage.list("a/")
    assert (first.size, second.size) == (3, 0)
    assert before - 0.1 <= first.modified <= time.time() + 0.1
    assert storage.stat("a/1") == first


def test_a_stamp_tells_an_object_from_one_put_later(storage):
    stamps = set()
    for i in range(5):
        assert storage.put_if_absent("a", b"%d" % i)
        stamps |= {storage.stat("a").stamp, storage.stat("a").stamp}
        storage.put({"a": [b"%d again" % i]})
        stamps.add(storage.stat("a").stamp)
        storage.delete(["a"])
    assert len(stamps) == 10


def test_deletion(storage):
    put_all(storage, "a/1", "a/2", "b/1")
    storage.delete(name for name in ["a/1", "a/1", "nothing", "a/2"])
    assert names(storage.list("")) == ["b/1"]
    assert storage.stat("a/1") is None
    storage.delete([])
    put_all(storage, "a/1")
    assert names(storage.list("a/")) == ["a/1"]


def test_a_map_outlives_its_object(storage):
    storage.put({"a": [b"abc" * 1000]})
    mapped = storage.map("a")
    assert mapped.readonly
    assert not np.frombuffer(mapped, np.uint8).flags.writeable
    storage.put({"a": [b"new"]})
    storage.delete(["a"])
    assert bytes(mapped) == b"abc" * 1000


def test_a_put_that_fails_leaves_nothing(storage):
    def broken():
        yield b"begun"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.put({"a/1": broken()})
    assert storage.list("") == []
    storage.sweep("a/", 0)
    put_all(storage, "a/1")
    storage.sweep("a/", 0)
    assert names(storage.list("")) == ["a/1"]


# ------------------------------------------------------------ a store on any storage


SCHEMA = {"x": "number", "c": "category"}


def test_a_store_stands_on_any_storage(storage):
    store = tocsin.RuleStore.create(storage, SCHEMA)
    with pytest.raises(tocsin.StoreError, match="already exists"):
        tocsin.RuleStore.create(storage, SCHEMA)
    store.add("a", "c = 'k' AND x > 1")
    store.add("b", "c = 'm' OR x < 0", payload={"team": "red"})
    store.remove("a")
    assert list(tocsin.open(storage).match([{"c": "m"}, {"c": "k", "x": 2}])) == [(0, "b")]
    assert list(store.rules(2)) == ["a"]
    assert str(store.diff(2)) == "1 added: b\n1 removed: a"
    stale = tocsin.open(storage, 3)
    stale.add("late", "x > 1")
    with pytest.raises(tocsin.StoreConflictError, match=r"is now at version 4, .* at version 3"):
        stale.save(storage)
    folder = StoreFolder(storage)
    assert (folder.pin("q", "0"), folder.pin("q", "1")) == (4, 4)
    folder.log.report_name("q", "alerts")
    assert folder.log.report_missing("q", ["c", "x"]) == ["c", "x"]
    store.merge()
    store.add("c", "x > 3")
    (stream,) = store.streams()
    assert (stream.batch, stream.pinned, stream.name, stream.missing) == (
        1,
        (4,),
        "alerts",
        ("c", "x"),
    )
    assert store.prune(1)[:3] == [1, 2, 3]
    assert [version.number for version in store.versions()] == [4, store.version]
    store.unpin("q", 0)
    store.unpin("q")
    assert (store.streams(), storage.list("log/")) == ([], [])
    assert store.prune(1) == [4]
    assert list(tocsin.open(storage)) == ["b", "c"]


# ------------------------------------------------------------ the latest version


class Counting(Memory):
    """Counts requests."""

    requests = 0

    def stat(self, name):
        self.requests += 1
        return super().stat(name)

    def list(self, prefix, start=""):
        self.requests += 1
        assert prefix != "versions/", "all versions are listed"
        return super().list(prefix, start)


def version_names(numbers):
    return [VersionFolder.name_of(number) for number in numbers]


@pytest.mark.parametrize("last", [1, 2, 3, 4, 5, 7, 8, 9, 1000, 100_000])
def test_the_latest_of_many_is_found_by_few_requests(last):
    storage = Counting(dict.fromkeys([*version_names(range(1, last + 1)), "latest/00000001"], b""))
    folder = VersionFolder(storage)
    assert folder.latest() == last
    assert storage.requests <= 8 + 2 * (last + 1).bit_length()
    assert list(folder.numbers(last)) == [last]
    assert list(folder.numbers(last + 1)) == []


@pytest.mark.parametrize(
    ("marks", "numbers"),
    [
        ([], [1, 2, 9]),  # earlier Tocsins put no marks
        ([1], [5, 6, 9]),  # and prune without marking
        ([4], [2, 4, 5, 6]),
        ([1, 4, 7], [1, 4, 7, 8]),  # pinned versions leave gaps, and old marks may be left
        ([100], [1, 2, 3]),  # a store that was deleted, but for its marks
    ],
)
def test_marks_that_are_missing_or_old(storage, marks, numbers):
    put_all(storage, *version_names(numbers), *(f"latest/{n:08d}" for n in marks), "latest/x")
    folder = VersionFolder(storage)
    assert folder.latest() == numbers[-1]
    for start in range(10):
        assert list(folder.numbers(start)) == [n for n in numbers if n >= start]


def test_a_store_without_marks_gets_one(storage):
    store = tocsin.RuleStore.create(storage, SCHEMA)
    store.add("a", "x > 1")
    storage.delete(names(storage.list("latest/")))
    assert store.version == 2
    assert store.add("b", "x > 1") == 3
    assert names(storage.list("latest/")) == ["latest/00000002"]
    store.prune(1)
    assert names(storage.list("latest/")) == ["latest/00000003"]


def test_a_mark_moves_with_the_versions(storage, monkeypatch):
    monkeypatch.setattr(version_folder, "_MARK_EVERY", 3)
    store = tocsin.RuleStore.create(storage, SCHEMA)
    marks = [storage.list("latest/")[0].name for i in range(6) if store.add(i, "x > 1")]
    assert marks == ["latest/00000001"] * 3 + ["latest/00000004"] * 3
    assert len(storage.list("latest/")) == 1


# ------------------------------------------------------------ folders


def test_a_folder_leaves_no_empty_folders(tmp_path):
    storage = Folder(tmp_path / "s")
    put_all(storage, "a/b/c/1", "a/b/2")
    storage.delete(["a/b/c/1"])
    assert not (tmp_path / "s/a/b/c").exists()
    storage.delete(["a/b/2"])
    assert os.listdir(tmp_path / "s") == []


def test_writers_whose_folder_is_deleted_meanwhile(tmp_path):
    storage, failures = Folder(tmp_path), []

    def write(name):
        try:
            for _ in range(200):
                assert storage.put_if_absent(f"a/b/{name}", b"")
                storage.delete([f"a/b/{name}"])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_file_where_a_folder_should_be(tmp_path):
    storage = Folder(tmp_path)
    put_all(storage, "a")
    with pytest.raises(NotADirectoryError, match="Not a directory"):
        storage.put({"b/1": [b""], "a/1": [b""]})
    with pytest.raises(NotADirectoryError, match="Not a directory"):
        storage.put_if_absent("a/1", b"")
    assert os.listdir(tmp_path) == ["a"]


def test_processes_share_the_pages_of_a_map(tmp_path):
    storage = Folder(tmp_path)
    storage.put({"a": [b"x" * 10_000]})
    mapped = storage.map("a")
    with open("/proc/self/maps") as maps:
        (line,) = [line for line in maps if line.rstrip().endswith(str(tmp_path / "a"))]
    assert line.split()[1] == "r--s"
    del mapped
