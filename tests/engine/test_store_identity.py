"""A store is known by its identity, whatever its path: nothing published is lost or left broken."""

import errno
import os
import shutil

import pytest

import tocsin
from tocsin.engine import store_folder
from tocsin.engine.store_folder import StoreFolder

SCHEMA = {"x": "number", "c": "category"}


@pytest.fixture
def store(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    store.add("a", "c = 'k' AND x > 1")
    return store


def ids(path):
    return list(tocsin.open(path))


# ------------------------------------------------------------ the same folder by another path


def spellings(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    link = path.parent / "link"
    link.symlink_to(path)
    return {
        "absolute": path,
        "relative": path.name,
        "dots": path.parent / "elsewhere" / ".." / path.name,
        "link": link,
        "slash": f"{path}/",
        "through link": link / ".." / path.name,
    }


@pytest.mark.parametrize("opened", ["absolute", "relative", "dots", "link", "slash"])
@pytest.mark.parametrize("saved", ["absolute", "relative", "dots", "link", "through link"])
def test_a_stale_writer_is_told_however_the_path_is_spelled(store, monkeypatch, opened, saved):
    paths = spellings(store.path, monkeypatch)
    mine = tocsin.open(paths[opened])
    store.add("yours", "x > 2")
    mine.add("mine", "x > 3")
    with pytest.raises(tocsin.StoreConflictError, match=r"is now at version 3, .* at version 2"):
        mine.save(paths[saved])
    assert ids(store.path) == ["a", "yours"]
    again = tocsin.open(paths[opened])
    again.add("mine", "x > 3")
    before = set(os.listdir(store.path / "segments"))
    assert again.save(paths[saved]) == 4
    assert len(set(os.listdir(store.path / "segments")) - before) == 1, "the base was there"
    assert ids(store.path) == ["a", "yours", "mine"]


def test_a_copy_is_a_store_of_its_own(store, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy)
    rules = store.rules()
    rules.add("b", "c = 'new'")
    assert rules.save(copy) == 3, "the copy is at the version that the rules were opened at"
    store.add("c", "x > 5")
    assert (ids(store.path), ids(copy)) == (["a", "c"], ["a", "b"])
    moved_on = store.rules()
    with pytest.raises(tocsin.StoreConflictError, match="a copy that has changed since"):
        moved_on.save(copy)
    store.add("d", "x > 5")
    with pytest.raises(tocsin.StoreConflictError, match=r"is now at version 3, .* at version 4"):
        store.rules().save(copy)
    assert ids(copy) == ["a", "b"]


def test_a_store_made_anew_is_another_store(store):
    rules = store.rules()
    shutil.rmtree(store.path)
    other = tocsin.RuleStore.create(store.path, SCHEMA)
    other.add("other", "x > 1")
    rules.add("b", "x > 2")
    with pytest.raises(tocsin.StoreConflictError, match="re-created"):
        rules.save(store.path)
    assert ids(store.path) == ["other"]
    # And a writer that has kept the old rules in memory starts from the new ones.
    assert store.add("c", "c = 'k'") == 3
    assert ids(store.path) == ["other", "c"]


def test_a_deleted_store_is_written_whole(store):
    rules = store.rules()
    rules.add("b", "c = 'm'")
    shutil.rmtree(store.path)
    assert rules.save(store.path) == 1
    again = tocsin.open(store.path)
    assert list(again) == ["a", "b"]
    assert list(again.match([{"x": 2, "c": "k"}, {"c": "m"}])) == [(0, "a"), (1, "b")]


def test_a_store_with_lost_parts_is_published_whole(store):
    """Whatever of the parent version is gone is written again: a version can be opened."""
    rules = store.rules()
    for folder in ("segments", "parts"):
        shutil.rmtree(store.path / folder)
    rules.add("b", "c = 'm'")
    assert rules.save(store.path) == 3
    assert list(tocsin.open(store.path).match([{"x": 2, "c": "k"}, {"c": "m"}])) == [
        (0, "a"),
        (1, "b"),
    ]


def test_the_working_directory_may_change(store, tmp_path, monkeypatch):
    monkeypatch.chdir(store.path.parent)
    rules = tocsin.open("store")
    relative = tocsin.RuleStore("store")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    relative.add("b", "x > 2")
    assert ids(store.path) == ["a", "b"]
    assert os.listdir() == []
    # A relative path now names another folder, which gets all of it.
    assert rules.save("store") == 1
    assert list(tocsin.open("store").match({"x": 2, "c": "k"})) == [(0, "a")]


def test_stores_without_an_identity(store, tmp_path, monkeypatch):
    """As they were written before stores had one."""
    monkeypatch.setattr(store_folder.uuid, "uuid4", Nameless)
    path = tmp_path / "old"
    old = tocsin.RuleStore.create(path, SCHEMA)
    old.add("a", "x > 1")
    monkeypatch.undo()
    assert old.rules()._origin.store == ""
    mine, yours = tocsin.open(path), tocsin.open(path)
    yours.add("yours", "x > 2")
    assert yours.save(path) == 3
    assert tocsin.open(path)._origin.store != ""
    mine.add("mine", "x > 2")
    with pytest.raises(tocsin.StoreConflictError):
        mine.save(path)
    elsewhere = tocsin.open(path, 2)
    assert elsewhere.save(store.path) == 3, "it replaces what another store has"
    assert ids(store.path) == ["a"]


class Nameless:
    """Random names for files, and an empty one for a store."""

    def __init__(self):
        import inspect
        import uuid

        is_identity = inspect.currentframe().f_back.f_code.co_name == "publish"
        self.hex = "" if is_identity else uuid.UUID(bytes=os.urandom(16)).hex


# ------------------------------------------------------------ paths that are none


@pytest.mark.parametrize(
    "path",
    ["hdfs://host/rules", "dbfs:/rules", "file:///tmp/rules", "S3A://b", "s3:/bucket/rules"],
)
def test_other_file_systems_are_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: tocsin.open(path),
        lambda: tocsin.RuleStore(path),
        lambda: tocsin.RuleStore.create(path, SCHEMA),
        lambda: tocsin.Rules(SCHEMA).save(path),
    ):
        with pytest.raises(
            tocsin.StoreError, match=r"a rule store must be a folder .* in a bucket"
        ):
            call()
    assert os.listdir() == []


def test_paths_that_only_look_like_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("a:b", "./s3:/x", "C"):
        tocsin.RuleStore.create(path, SCHEMA)
        assert tocsin.open(path).version == 1
    for path in ("", "a\0b", b"bytes"):
        with pytest.raises(tocsin.StoreError, match="named by its path"):
            tocsin.open(path)


# ------------------------------------------------------------ disks that are full or locked


def test_a_full_disk_is_told_and_leaves_nothing(store, monkeypatch):
    """Each file that is written in a publish runs out of space once."""
    listed = sorted(p for p in store.path.rglob("*"))
    real = os.fsync
    for turn in range(20):
        left = [turn]

        def full(descriptor, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(descriptor)

        rules = store.rules()
        rules.add("b", "c = 'fresh'")
        rules.remove("a")
        monkeypatch.setattr(os, "fsync", full)
        message = ""
        try:
            rules.save(store.path)
        except tocsin.StoreError as error:
            message = str(error)
        finally:
            monkeypatch.setattr(os, "fsync", real)
        if not message:
            break
        assert f"{store.path} cannot be written: No space left on device" in message
        left_over = [p for p in store.path.rglob("*") if p.name.startswith(".")]
        assert left_over == []
        if store.version > 2:
            break  # it was in place; only making that last failed
        assert ids(store.path) == ["a"]
    assert turn > 4
    assert set(listed) <= set(store.path.rglob("*"))
    # What failed once can be tried again.
    again = store.rules()
    again.add("c", "c = 'fresh'")
    again.save(store.path)
    assert tocsin.open(store.path).match({"c": "fresh"}).by_rule().keys() == {"b", "c"}


def test_a_folder_that_may_not_be_read_or_written(store, monkeypatch):
    """Calls fail instead of modes being set: no mode stops root."""

    def denied(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(arguments[0]))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(tocsin.StoreError, match=r"cannot be read: .*Permission denied"):
        tocsin.open(store.path)
    monkeypatch.undo()
    monkeypatch.setattr(os, "link", denied)
    with pytest.raises(tocsin.StoreError, match=r"cannot be written: Permission denied"):
        store.add("b", "x > 1")
    monkeypatch.undo()
    assert store.add("b", "x > 1") == 3


# ------------------------------------------------------------ what lies in the folder besides


def test_names_that_are_no_versions_do_not_matter(store):
    for name in ("².json", "٣.json", "1.json", "x.json", "00000099.json.bak", "-0000001.json"):
        (store.path / "versions" / name).write_text("{}")
    assert store.version == 2
    assert ids(store.path) == ["a"]
    assert store.add("b", "x > 1") == 3


def test_what_failed_writers_left_is_pruned(store):
    folders = [store.path / name for name in ("segments", "parts", "versions", "log/q")]
    StoreFolder(store.path).pin("q", "0")
    left, young = [], []
    for folder in folders:
        for name, age in ((".old", 7200), (".young", 60)):
            path = folder / name
            if folder.name == "segments":
                path.mkdir()
                (path / "arrays.bin").write_bytes(b"half")
            else:
                path.write_bytes(b"half")
            moment = path.stat().st_mtime - age
            os.utime(path, (moment, moment))
            (left if age > 3600 else young).append(path)
    own = store.path / ".git" / "config"  # of a user who keeps a store there
    own.parent.mkdir()
    own.write_text("")
    for path in (own, own.parent):
        os.utime(path, (0, 0))
    store.prune(keep=10)
    assert own.exists()
    assert [p for p in left if p.exists()] == []
    assert [p for p in young if not p.exists()] == []
    assert ids(store.path) == ["a"]
