"""Which version a micro-batch uses: pinned once, kept from pruning, released by hand."""

import threading

import pytest

import tocsin
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.stream_log import PINS_KEPT

SCHEMA = {"n": "integer"}


@pytest.fixture
def store(tmp_path):
    return tocsin.RuleStore.create(tmp_path / "store", SCHEMA)


def pins(store, query):
    """Return the pinned batches of a stream, ascending."""
    return sorted(int(f.name) for f in (store.path / "log" / query).iterdir() if f.is_file())


def publish(store, versions):
    for number in range(versions):
        store.add(f"{store.version}-{number}", "n > 1")


def test_the_first_to_ask_decides(store):
    folder = StoreFolder(store.path)
    assert folder.pin("q", "0") == 1
    store.add("a", "n > 1")
    assert folder.pin("q", "0") == 1
    assert folder.pin("q", "1") == 2
    assert folder.pin("other", "0") == 2
    assert pins(store, "q") == [0, 1]


def test_all_tasks_of_a_batch_agree(store):
    found = [[], [], [], []]

    def ask(own):
        folder = StoreFolder(store.path)
        for batch in range(20):
            own.append(folder.pin("q", str(batch)))

    threads = [threading.Thread(target=ask, args=(own,)) for own in found]
    for thread in threads:
        thread.start()
    publish(store, 10)
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4
    assert [int((store.path / "log" / "q" / str(b)).read_text()) for b in range(20)] == found[0]


def test_old_pins_are_forgotten(store):
    folder = StoreFolder(store.path)
    for batch in [*range(PINS_KEPT + 20), PINS_KEPT + 500]:
        folder.pin("q", str(batch))
        folder.pin("still", "3")
    assert pins(store, "q") == [PINS_KEPT + 500], "all others are more than 100 batches older"
    for batch in range(PINS_KEPT + 501, PINS_KEPT + 700):
        folder.pin("q", str(batch))
    assert len(pins(store, "q")) == PINS_KEPT
    assert pins(store, "still") == [3]


def test_what_is_held_is_forgotten_with_its_pins(store):
    folder = StoreFolder(store.path)
    for batch in range(PINS_KEPT + 2):
        publish(store, 1)
        folder.pin("q", str(batch))
    assert folder.log.pinned() == {*range(4, PINS_KEPT + 4)}
    assert len(list((store.path / "log" / "q" / "held").iterdir())) == PINS_KEPT


def test_pinned_versions_are_not_pruned(store):
    publish(store, 4)
    folder = StoreFolder(store.path)
    folder.pin("q", "7")  # to version 5; then there is an outage
    publish(store, 4)
    folder.pin("r", "0")  # to version 9
    publish(store, 4)
    assert store.prune(keep=2) == [1, 2, 3, 4, 6, 7, 8, 10, 11]
    assert [v.number for v in store.versions()] == [5, 9, 12, 13]
    assert folder.pin("q", "7") == 5
    assert len(store.rules(5)) == 4
    store.unpin("q", 7)
    assert folder.pin("q", "7") == 13
    store.unpin("r")
    assert store.prune(keep=1) == [5, 9, 12]


def test_streams_are_listed(store):
    assert store.streams() == []
    folder = StoreFolder(store.path)
    folder.pin("q", "0")
    publish(store, 2)
    folder.pin("q", "12")
    assert folder.log.report_missing("q", ["z", "a.b/../c"]) == ["z", "a.b/../c"]
    assert folder.log.report_missing("q", ["z", "y"]) == ["y"]
    (stream,) = store.streams()
    assert (stream.query, stream.batch, stream.version) == ("q", 12, 3)
    assert stream.pinned == (1, 3)
    assert stream.missing == ("a.b/../c", "y", "z")


@pytest.mark.parametrize(
    ("query", "batch", "words"),
    [
        ("nobody", None, "stream 'nobody' has no pinned batches; streams with pinned batches: q"),
        ("q", 5, "batch 5 of stream q is not pinned; its pinned batches are 0 to 1"),
        ("../..", None, "is not the name of a stream"),
    ],
)
def test_what_is_not_pinned_cannot_be_released(store, query, batch, words):
    for number in "01":
        StoreFolder(store.path).pin("q", number)
    with pytest.raises(tocsin.StoreError, match=words):
        store.unpin(query, batch)
    assert store.streams()[0].batch == 1


def test_a_damaged_pin_is_told(store):
    StoreFolder(store.path).pin("q", "0")
    (store.path / "log" / "q" / "0").write_text("five")
    with pytest.raises(tocsin.StoreError, match=r"log/q/0 is damaged: .* holds b'five'"):
        StoreFolder(store.path).pin("q", "0")


def test_a_log_that_cannot_be_written(store):
    (store.path / "log").write_text("a file where a folder should be")
    with pytest.raises(tocsin.StoreError, match="workers need read and write access"):
        StoreFolder(store.path).pin("q", "0")
    assert StoreFolder(store.path).log.report_missing("q", ["z"]) == []
