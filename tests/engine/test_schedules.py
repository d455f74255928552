"""Writers and pruners of one store, stopped at any step while others go on, or for ever.

Whatever the schedule, changes that were acknowledged are in the store, changes that met a conflict
are not, and all versions can be opened.
"""

import contextlib
import itertools
import os
import random
import threading

import pytest

import tocsin
from tocsin.engine import store_folder
from tocsin.engine.storage.folder import Folder
from tocsin.engine.storage.memory import Memory
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version_file import VersionFile
from tocsin.engine.version_folder import VersionFolder

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
SCHEMA = {"x": "number", "c": "category"}


class Stopped(BaseException):
    """A process that never goes on."""


class Actor(threading.Thread):
    """Runs a function step by step: one access to the store's storage after the other."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.result, self.error = function, None, None
        self.go, self.waiting = threading.Semaphore(0), threading.Semaphore(0)
        self.steps, self.is_stopped = 0, False
        self.start()
        self.waiting.acquire()

    def run(self):
        try:
            self.pause()
            self.result = self.function()
        except (tocsin.StoreError, Stopped) as error:
            self.error = error
        self.steps = -1
        self.waiting.release()

    def pause(self):
        self.waiting.release()
        self.go.acquire()
        if self.is_stopped:
            raise Stopped

    @property
    def is_done(self):
        return self.steps < 0

    def step(self, count=1):
        """Go on for some steps; return whether there are more."""
        while count and not self.is_done:
            self.steps, count = self.steps + 1, count - 1
            self.go.release()
            self.waiting.acquire()
        return not self.is_done

    def finish(self):
        self.step(100_000)
        assert self.is_done

    def crash(self):
        if not self.is_done:
            self.is_stopped = True
            self.step()
        return self


class ListingMemory(Memory):
    """Lists from a name on, as object stores do."""

    lists_from = True


@pytest.fixture(params=["folder", "object store"])
def new_storage(request, tmp_path):
    """A function that returns an empty storage."""
    numbers = itertools.count()
    is_folder = request.param == "folder"
    return (lambda: Folder(tmp_path / f"{next(numbers)}")) if is_folder else ListingMemory


@pytest.fixture
def place(new_storage, monkeypatch):
    """A store, which is copied for each schedule."""
    original = new_storage()
    store = tocsin.RuleStore.create(original, SCHEMA)
    # Prune keeps this version, which is marked as the latest, and leaves a gap above it.
    StoreFolder(original).pin("q", "0")
    store.add("first", "x > 1 AND c = 'k'")
    store.add("second", "x > 1")
    store.remove("first")

    def pausing(method):
        def call(*arguments):
            if isinstance(threading.current_thread(), Actor):
                threading.current_thread().pause()
            return method(*arguments)

        return call

    for kind in (Folder, Memory):
        for name in ("list", "stat", "read", "put", "put_if_absent"):
            monkeypatch.setattr(kind, name, pausing(getattr(kind, name)))
        delete_one = pausing(kind.delete)
        monkeypatch.setattr(
            kind, "delete", lambda self, names, one=delete_one: [one(self, [n]) for n in names]
        )
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def copy():
        storage = new_storage()
        storage.put({entry.name: [original.read(entry.name)] for entry in original.list("")})
        return storage

    return copy


def adding(path, name, times=1):
    """Return a function that adds rules, repeated if others are faster, and returns their ids."""

    def add():
        store = tocsin.RuleStore(path)
        ids = [f"{name}{i}" for i in range(times)]
        for id_ in ids:
            store.add(id_, f"c = '{id_}'")
        return ids

    return add


def saving(path, name):
    """Return a function that saves a rule on top of what is current now, and returns its id."""
    rules = tocsin.open(path)
    rules.add(name, f"c = '{name}'")
    return lambda: [name] if rules.save(path) else []


def pruning(path, keep=1):
    return lambda: tocsin.RuleStore(path).prune(keep) and []


def pinning(path, batch="7"):
    """Return a function that pins a micro-batch, and opens the version."""

    def pin():
        folder = StoreFolder(path)
        folder.open(folder.pin("stream", batch))
        return []

    return pin


def check(path, actors):
    """Raise unless the store is as the actors believe."""
    current = set(tocsin.open(path))
    known = {"second"}
    for actor in actors:
        if actor.error is None:
            known |= set(actor.result)
        else:
            assert isinstance(actor.error, tocsin.StoreConflictError | Stopped), actor.error
    assert known <= current, "an acknowledged change is lost"
    if not any(isinstance(actor.error, Stopped) for actor in actors):
        assert known == current, "a change that met a conflict is there"
    folder = StoreFolder(path)
    for number in folder.versions.numbers():
        if number == folder.versions.latest() or not any(actor.is_stopped for actor in actors):
            tocsin.open(path, number)
    number = tocsin.RuleStore(path).add("last", "x > 5")
    assert number == folder.versions.latest()
    assert set(tocsin.open(path)) == current | {"last"}


def before_next_version(monkeypatch, storage, function):
    """Call a function just before the storage is to put the next version."""
    put = type(storage).put_if_absent

    def put_late(self, name, data):
        if name.startswith("versions/"):
            monkeypatch.setattr(type(storage), "put_if_absent", put)
            function()
        return put(self, name, data)

    monkeypatch.setattr(type(storage), "put_if_absent", put_late)


def test_a_number_that_was_pruned_is_not_used_again(new_storage, monkeypatch):
    """A writer is stopped just before it puts version 2; 2 and 3 are published, and pruned."""
    path = new_storage()
    store = tocsin.RuleStore.create(path, SCHEMA)
    mine = tocsin.open(path)
    mine.add("mine", "x > 1")

    def publish_and_prune():
        store.add("a", "x > 2")
        store.add("b", "x > 3")
        assert store.prune(1) == [1, 2]

    before_next_version(monkeypatch, path, publish_and_prune)
    with pytest.raises(tocsin.StoreConflictError, match=r"is now at version 3, .* at version 1"):
        mine.save(path)
    assert [version.number for version in store.versions()] == [3]
    assert list(tocsin.open(path)) == ["a", "b"]


def test_an_acknowledgement_that_comes_late_is_right(new_storage, monkeypatch):
    """A writer is stopped after it has put version 2, until 2 itself is pruned."""
    followed = VersionFolder._is_followed
    for others in (1, 2, 5, 80):
        path = new_storage()
        store = tocsin.RuleStore.create(path, SCHEMA)
        mine = tocsin.open(path)
        mine.add("mine", "x > 1")

        def look_late(*arguments, store=store, others=others):
            monkeypatch.setattr(VersionFolder, "_is_followed", followed)
            for i in range(others):
                store.add(f"{i}", "x > 2")
            assert store.prune(1)[-1] == others + 1
            return followed(*arguments)

        monkeypatch.setattr(VersionFolder, "_is_followed", look_late)
        if others < 64:
            assert mine.save(path) == 2
        else:  # later versions no longer list it, so nobody knows
            with pytest.raises(tocsin.StoreError, match="cannot tell whether later") as caught:
                mine.save(path)
            assert not isinstance(caught.value, tocsin.StoreConflictError)
        assert "mine" in tocsin.open(path)


def test_a_put_whose_answer_was_lost_is_published(new_storage, monkeypatch):
    """Storage may repeat a request by itself, and then find what the first one has put."""
    path = new_storage()
    store = tocsin.RuleStore.create(path, SCHEMA)
    put = type(path).put_if_absent
    monkeypatch.setattr(type(path), "put_if_absent", lambda *a: put(*a) and put(*a))
    assert store.add("a", "x > 1") == 2
    assert list(tocsin.open(path)) == ["a"]


def test_writers_of_an_earlier_release_among_others(new_storage, monkeypatch):
    """Their versions have no history, so that a late writer cannot tell: it says so."""
    path = new_storage()
    store = tocsin.RuleStore.create(path, SCHEMA)
    late = tocsin.open(path)
    late.add("late", "x > 1")
    with monkeypatch.context() as patch:
        patch.setattr(VersionFile, "extended_history", lambda self: ())
        for i in range(3):
            store.add(f"{i}", "x > 1")
    read_latest = VersionFolder.read_latest

    def prune():
        monkeypatch.setattr(VersionFolder, "read_latest", read_latest)
        store.prune(1)

    before_next_version(monkeypatch, path, prune)
    monkeypatch.setattr(VersionFolder, "read_latest", lambda self: self.read(1))
    with pytest.raises(tocsin.StoreError, match="cannot tell whether later versions"):
        late.save(path)
    assert store.add("3", "x > 1") == 5
    assert list(tocsin.open(path)) == ["0", "1", "2", "3"]


OTHERS = {
    "two changes and a prune": lambda path: [adding(path, "o", 2), pruning(path)],
    "changes and two prunes": lambda path: [
        *(adding(path, "o", 2), pruning(path)),
        *(adding(path, "p", 2), pruning(path, 2)),
    ],
}


@pytest.mark.parametrize(
    ("victim", "others"),
    [
        *itertools.product([adding, saving, pruning], OTHERS),
        (pinning, "two changes and a prune"),
    ],
)
def test_stopped_at_any_step_while_others_go_on(place, victim, others):
    for stop in range(1, 1000):
        path = place()
        actor = Actor(pruning(path) if victim is pruning else victim(path, "7"))
        more = actor.step(stop)
        actors = [actor]
        for function in OTHERS[others](path):
            actors.append(Actor(function))
            actors[-1].finish()
        actor.finish()
        check(path, actors)
        if not more:
            break
    assert 5 < stop < 999


@pytest.mark.parametrize("victim", [adding, pruning])
def test_stopped_for_ever_at_any_step(place, victim):
    for stop in range(1, 1000):
        path = place()
        actor = Actor(pruning(path) if victim is pruning else victim(path, "v"))
        more = actor.step(stop)
        actors = [actor.crash()]
        for function in OTHERS["two changes and a prune"](path):
            actors.append(Actor(function))
            actors[-1].finish()
        check(path, actors)
        if not more:
            break
    assert 5 < stop < 999


@pytest.mark.parametrize("stopped_for_ever", [False, True])
def test_files_of_a_slow_writer(place, monkeypatch, stopped_for_ever):
    """Its files look left over, and are deleted; what it then publishes would lack them."""
    monkeypatch.setattr(store_folder, "_UNFINISHED", 0)
    for victim in (adding, saving):
        for stop in range(1, 1000):
            path = place()
            actor = Actor(victim(path, "v"))
            more = actor.step(stop)
            if stopped_for_ever:
                actor.crash()
            actors = [actor, Actor(pruning(path))]
            actors[1].finish()
            actor.finish()
            check(path, actors)
            if not more:
                break
        assert 5 < stop < 999


def test_random_schedules(place):
    for seed in range(2000 if LONG else 60):
        rng = random.Random(seed)
        path = place()
        functions = [adding(path, name, rng.randint(1, 3)) for name in "abc"[: rng.randint(2, 3)]]
        functions += [saving(path, "s")] * (rng.random() < 0.5)
        functions += [pinning(path, str(batch)) for batch in range(rng.randint(0, 2))]
        functions += [pruning(path, rng.randint(1, 2)) for _ in range(rng.randint(1, 3))]
        actors = [Actor(function) for function in functions]
        with contextlib.suppress(IndexError):
            while True:
                actor = rng.choice([actor for actor in actors if not actor.is_done])
                actor.step(rng.choice([1, 2, 3, 10, 50, 100]))
                if rng.random() < 0.02:
                    actor.crash()
        check(path, actors)
