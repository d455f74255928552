"""The rule store: what was published is what is read, or it is refused."""

import base64
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests import generate, naive
from tocsin.engine.segment_files import FORMAT
from tocsin.engine.store_folder import StoreFolder

SCHEMA = {"x": "number", "n": "integer", "c": "category"}


@pytest.fixture
def store(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    table = {"id": ["a", "b", "c"], "where": ["x > 5", "c IN ('k', 'l') OR n = 3", "x < 0"]}
    store.add_many(pa.table(table | {"team": ["red", None, "blue"]}))
    store.replace("c", "c = 'm' AND x < 1", weights={"x": 2.0}, payload={"team": "green"})
    store.remove("a")
    return store


EVENTS = [{"x": 6, "c": "k"}, {"x": 0, "c": "m"}, {"n": 3}, {}]
EXPECTED = [(0, "b"), (1, "c"), (2, "b")]


def answers(rules):
    return list(rules.match(EVENTS).sorted())


def test_rules_come_back(store):
    assert store.version == 4
    rules = tocsin.open(store.path)
    assert answers(rules) == EXPECTED
    assert list(rules) == ["b", "c"]
    assert rules["c"] == tocsin.Rule("c", "c = 'm' AND x < 1", {"x": 2.0}, {"team": "green"})
    assert rules["b"].where == "c IN ('k', 'l') OR n = 3"
    assert rules.schema == tocsin.Schema(SCHEMA)
    assert rules.top(EVENTS[1], 3).scores.tolist() == [3.0]
    assert rules.explain({"n": 3}, "b").matched
    assert rules.version == 4
    assert repr(store).endswith("version 4)")


def test_old_versions_stay(store):
    assert [v.number for v in store.versions()] == [1, 2, 3, 4]
    assert [v.rules for v in store.versions()] == [0, 3, 3, 2]
    assert list(store.rules(2)) == ["a", "b", "c"]
    assert store.rules(2)["c"].where == "x < 0"
    assert set(store.rules(3)) == {"a", "b", "c"}
    assert list(store.rules(1)) == []
    diff = store.diff(2)
    assert (diff.added, diff.removed, diff.changed) == ([], ["a"], ["c"])
    assert str(store.diff(1, 2)) == "3 added: a, b, c"
    assert str(store.diff(4)) == "no difference"
    with pytest.raises(
        tocsin.StoreError, match="has no version 9; the latest versions are 1, 2, 3, 4"
    ):
        store.rules(9)


def test_opened_rules_are_ones_own(store):
    rules = store.rules()
    rules.remove("b")
    assert answers(store.rules()) == EXPECTED
    assert rules.save(store.path) == 5
    assert list(store.rules()) == ["c"]


def test_several_changes_as_one_version(store):
    with store.change() as rules:
        rules.add("d", "n > 1")
        rules.remove("b")
    assert store.version == 5
    assert list(store.rules()) == ["c", "d"]
    with pytest.raises(tocsin.RuleError), store.change() as rules:  # noqa: PT012
        rules.add("e", "n > 1")
        rules.add("e", "n > 1")
    assert store.version == 5
    assert list(store.rules()) == ["c", "d"]
    assert store.add("e", "n > 2") == 6


def test_a_failed_change_publishes_nothing(store):
    for call in (
        lambda: store.add("b", "x > 1"),
        lambda: store.remove("nobody"),
        lambda: store.add("z", "x >"),
        lambda: store.add_many(pa.table({"id": ["y", "z"], "where": ["x > 1", "x >"]})),
    ):
        with pytest.raises(tocsin.TocsinError):
            call()
    assert store.version == 4
    assert answers(store.rules()) == EXPECTED


def test_a_stale_writer_is_told(store):
    mine, yours = store.rules(), store.rules()
    mine.add("mine", "x > 1")
    yours.add("yours", "x > 1")
    mine.save(store.path)
    with pytest.raises(
        tocsin.StoreConflictError, match=r"is now at version 5, .* opened at version 4"
    ):
        yours.save(store.path)
    assert "yours" not in store.rules()


def test_saving_elsewhere_writes_all(store, tmp_path):
    rules = store.rules()
    assert rules.save(tmp_path / "copy") == 1
    shutil.rmtree(store.path)
    assert answers(tocsin.open(tmp_path / "copy")) == EXPECTED
    rules.add("d", "n > 1")
    assert rules.save(tmp_path / "copy") == 2


def test_publishing_a_change_writes_little(tmp_path):
    n = 20_000
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(pa.table({"id": np.arange(n), "n_low": np.arange(n)}))
    rules.save(tmp_path / "store")
    store = tocsin.RuleStore(tmp_path / "store")

    def size():
        return sum(f.stat().st_size for f in store.path.rglob("*") if f.is_file())

    before = size()
    store.replace(7, "x > 3")
    assert size() - before < before / 20
    assert store.rules()[7].where == "x > 3"
    assert len(store.rules()) == n


def test_pruning(store, monkeypatch):
    from tocsin.engine import store_folder

    monkeypatch.setattr(store_folder, "_UNFINISHED", 0)
    store.merge()
    assert store.prune(keep=2) == [1, 2, 3]
    assert [v.number for v in store.versions()] == [4, 5]
    assert answers(store.rules(4)) == answers(store.rules(5)) == EXPECTED
    used = {s for v in store.versions() for s in v.segments}
    assert {f.name for f in (store.path / "segments").iterdir()} == used
    with pytest.raises(tocsin.StoreError, match="keep must be an integer, 1 or more"):
        store.prune(0)


def test_there_is_no_store(tmp_path, store):
    with pytest.raises(tocsin.StoreError, match="there is no rule store at"):
        tocsin.open(tmp_path / "nothing")
    with pytest.raises(tocsin.StoreError, match="there is no rule store at"):
        tocsin.RuleStore(tmp_path)
    with pytest.raises(tocsin.StoreError, match="already"):
        tocsin.RuleStore.create(store.path, SCHEMA)


def test_bad_input(tmp_path, store):
    (tmp_path / "file").write_text("not a store")
    rules = tocsin.Rules(SCHEMA)
    for call, words in (
        (lambda: tocsin.open(tmp_path / "file"), "there is no rule store at"),
        (lambda: rules.save(tmp_path / "file"), "cannot be created"),
        (lambda: tocsin.open(None), "named by its path, got NoneType"),
        (lambda: tocsin.open(store.path, "two"), "a version is a number, got str 'two'"),
        (lambda: store.diff("two"), "a version is a number, got str 'two'"),
        (lambda: store.prune("all"), "keep must be an integer"),
        (lambda: store.remove_many(None), "takes several ids, got None"),
    ):
        with pytest.raises(tocsin.TocsinError, match=words):
            call()
    assert store.version == 4
    assert store.remove_many(i for i in ("b", "c")) == 5


def test_growing_schemas_zones_and_refusals(tmp_path):
    schema = tocsin.Schema(
        pa.schema([("x", pa.float64()), ("p", pa.decimal128(19, 2))]), timezone="Asia/Tokyo"
    )
    rules = tocsin.Rules(schema)
    rules.add(1, "x > 1")
    rules.save(tmp_path / "s")
    rules.schema.add("t", "time")
    rules.add(2, "t > '2024-01-01'")
    rules.save(tmp_path / "s")
    again = tocsin.open(tmp_path / "s")
    assert again.schema == schema
    with pytest.raises(tocsin.ConditionError, match="decimal column"):
        again.add(3, "p > 1")


def test_a_schema_that_grows_without_a_rule_is_saved(store, tmp_path):
    with store.change() as rules:
        rules.schema.add("temp", "number")
    assert "temp" in store.rules().schema
    store.publish(lambda rules: rules.schema.add("wind", "number"))  # the rules of the last publish
    store.publish(lambda rules: rules.schema.add("place", "struct<lat: number>"))
    rules = store.rules()
    assert list(rules.schema)[-2:] == ["temp", "wind"]
    rules.snapshot()
    rules.schema.add("rain", "number")
    rules.schema.refuse({"raw": "is binary"})
    rules.save(store.path)
    again = store.rules()
    assert list(again.schema)[-3:] == ["temp", "wind", "rain"]
    with pytest.raises(tocsin.ConditionError, match="is binary"):
        again.add("d", "raw = 1")
    again.add("e", "place.lat > 3 AND rain > 2 AND wind < 1")
    again.save(store.path)
    event = {"place": {"lat": 4}, "rain": 3, "wind": 0}
    assert list(store.rules().match(event)) == [(0, "e")]

    again.snapshot()
    again.schema.add("snow", "number")
    for number, other in enumerate((again.copy(), tocsin.Rules(again.schema))):
        other.save(tmp_path / str(number))
        assert list(tocsin.open(tmp_path / str(number)).schema) == list(again.schema)
        other.snapshot()
        again.schema.add(f"hail{number}", "number")  # the copy shares the schema
        assert other.snapshot().attribute_count == len(other.snapshot().attributes)
        other.save(tmp_path / str(number))
        assert list(tocsin.open(tmp_path / str(number)).schema) == list(again.schema)
    assert again.top(event, weights={"rain": 2, "snow": 5}).scores.tolist() == [4.0]


@given(st.randoms(use_true_random=False))
def test_any_sequence_of_changes(tmp_path_factory, rng):
    """What every version says, opened later, is what the rules said when it was published."""
    path = tmp_path_factory.mktemp("stores") / "store"
    store = tocsin.RuleStore.create(path, generate.SCHEMA)
    live, history = {}, {1: {}}
    for step in range(rng.randint(1, 8)):
        if live and rng.random() < 0.5:
            id_ = rng.choice(sorted(live))
            if rng.random() < 0.5:
                store.remove(id_)
                del live[id_]
            else:
                where = generate.condition(rng, 1)
                store.replace(id_, naive.sql(where))
                del live[id_]
                live[id_] = where
        elif rng.random() < 0.2:
            store.merge()
        else:
            where = generate.condition(rng, 1)
            store.add(step, naive.sql(where))
            live[step] = where
        history[store.version] = dict(live)
    events = [generate.event(rng) for _ in range(3)]
    for version, expected in history.items():
        rules = store.rules(version)
        assert list(rules) == list(expected)
        wanted = naive.matches([naive.Rule(i, w) for i, w in expected.items()], events)
        assert set(rules.match(events)) == wanted


# ------------------------------------------------------------ damage


def files(path):
    return sorted(f for f in path.rglob("*") if f.is_file())


def used_files(store):
    """Return what the current version is made of."""
    version = store.path / "versions" / f"{store.version:08d}.json"
    content = json.loads(version.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[0])
    found = [version]
    for segment in content["segments"]:
        found += files(store.path / "segments" / segment["name"])
    found += [store.path / "parts" / e["name"] for e in content["codes"]]
    if content["removed"]:
        found.append(store.path / "parts" / content["removed"]["name"])
    return found


def is_refused(store):
    try:
        rules = tocsin.open(store.path)
    except tocsin.StoreError as error:
        return str(error)
    assert answers(rules) == EXPECTED
    return None


def test_every_file_cut_off_is_refused(store):
    assert len(used_files(store)) > 6
    for path in used_files(store):
        whole = path.read_bytes()
        for size in {0, 1, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:size])
            message = is_refused(store)
            assert message, (path, size)
            assert path.name in message
        path.write_bytes(whole)
    assert is_refused(store) is None


def test_a_byte_flipped_anywhere_is_refused(store):
    rng = random.Random(7)
    for path in used_files(store):
        whole = path.read_bytes()
        places = range(len(whole)) if len(whole) < 200 else rng.sample(range(len(whole)), 60)
        for place in [*places, 0, len(whole) - 2]:
            broken = bytearray(whole)
            broken[place] ^= 1 << rng.randrange(8)
            path.write_bytes(broken)
            assert is_refused(store), (path, place)
        path.write_bytes(whole)
    assert is_refused(store) is None


def test_a_missing_file_is_refused(store):
    for path in used_files(store)[1:]:
        whole = path.read_bytes()
        path.unlink()
        assert "missing" in is_refused(store)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("format_", "words"),
    [
        (FORMAT + 1, "a newer one wrote it: upgrade"),
        (None, "a newer one wrote it: upgrade"),
    ],
)
def test_another_format_is_refused(store, format_, words):
    path = store.path / "versions" / f"{store.version:08d}.json"
    body = path.read_bytes().rstrip(b"\n").rpartition(b"\n")[0]
    other = json.dumps(json.loads(body) | {"format": format_}).encode()
    path.write_bytes(other + b"\n" + hashlib.sha256(other).hexdigest().encode() + b"\n")
    assert words in is_refused(store)


def reseal(path, change):
    """Change the JSON of a version file, and give it its checksum again."""
    body = path.read_bytes().rstrip(b"\n").rpartition(b"\n")[0]
    content = json.loads(body)
    content = change(content) or content
    other = json.dumps(content).encode()
    path.write_bytes(other + b"\n" + hashlib.sha256(other).hexdigest().encode() + b"\n")


def put(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(content):
        for key in keys:
            content = content[key]
        content[last] = value

    return change


def nested_type(depth):
    return {"struct": [["a", nested_type(depth - 1)]]} if depth else "double"


def nested_payload(depth):
    type_ = pa.int64()
    for _ in range(depth):
        type_ = pa.list_(type_)
    return base64.b64encode(pa.schema([("p", type_)]).serialize()).decode()


def without(key):
    return lambda content: content.pop(key) and None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: [content], "not a JSON object"),
        (lambda content: "text", "not a JSON object"),
        (without("segments"), "it has no 'segments'"),
        (without("timezone"), "it has no 'timezone'"),
        (put("timezone", "Mars/Base"), "timezone 'Mars/Base'"),
        (put("attributes", [["x", "color"]]), "the kind must be one of"),
        (put("attributes", [["x", "number"], ["x", "number"]]), "declared twice"),
        (put("attributes", 5), "not iterable"),
        (put("refused", ["x"]), "'refused' must be a dict of texts"),
        (put("rules", -1), "are counts"),
        (put("rules", True), "are counts"),
        (put("next_position", 2**31), "too large"),
        (put("next_position", 1), "a rule has the next position already"),
        (put("index", None), "there is no index None"),
        (put("index", "magic"), "there is no index 'magic'"),
        (put("id_type", "float64"), "ids are of type double"),
        (put("id_type", "color"), "color"),
        (put("id_type", None), "no type of their ids"),
        (put("payload", "?"), "base64"),
        (put("payload", "AAAA"), "damaged, or Tocsin did not write it"),
        (put("created", "yesterday"), "Invalid isoformat"),
        (put("segments", {"a": 1}), "damaged, or Tocsin did not write it"),
        (put("segments", 0, "name", "../../etc"), "a segment's name is '../../etc'"),
        (put("segments", 0, "name", "/etc"), "a segment's name is '/etc'"),
        (put("segments", 0, "manifest", 5), "damaged, or Tocsin did not write it"),
        (put("segments", 0, "role", "king"), "its segments are 'king'"),
        (put("segments", 0, "role", []), "a segment's role is []"),
        (lambda content: content["segments"][0].pop("role") and None, "it has no 'role'"),
        (put("codes", 0, "name", "../versions/00000001.json"), "a part's name is"),
        (put("codes", 0, "bytes", -1), "a part's size"),
        (put("codes", 0, "count", 7), "rows instead of 7"),
        (put("codes", []), "codes of the 0 known values"),
        (put("removed", "name", "/etc/passwd"), "a part's name is '/etc/passwd'"),
        (put("removed", []), "damaged, or Tocsin did not write it"),
        (put("store", 5), "'store' must be a text"),
        (put("version", 3), "it is version 3"),
        (put("history", ["?"]), "damaged, or Tocsin did not write it"),
        (put("history", "00ff"), "'history' must be checksums"),
        (put("nested", [["loc", nested_type(90)]]), "the type of 'loc' is nested too deeply"),
        (put("nested", [["loc", nested_type(200)]]), "damaged, or Tocsin did not write it"),
        (put("payload", nested_payload(150)), "Invalid flatbuffers message"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_version_file_that_was_sealed_again_is_refused(store, change, words):
    path = store.path / "versions" / f"{store.version:08d}.json"
    reseal(path, change)
    with pytest.raises(tocsin.StoreError) as caught:
        tocsin.open(store.path)
    assert words in str(caught.value)
    assert str(store.path) in str(caught.value)


def test_what_is_no_file_is_not_read(store):
    """A pipe would be waited for, for ever."""
    os.mkfifo(store.path / "versions" / "00000005.json")
    with pytest.raises(tocsin.StoreError, match="has no version 5"):
        tocsin.open(store.path)


def test_workers_check_sizes_only(store):
    rules = tocsin.Rules.open(store.path, verify=False)
    assert answers(rules) == EXPECTED
    path = next(p for p in used_files(store) if p.name == "arrays.bin")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(tocsin.StoreError, match="bytes instead of"):
        tocsin.Rules.open(store.path, verify=False)


# ------------------------------------------------------------ crashes and several writers

WRITER = """
import sys, tocsin
store = tocsin.RuleStore(sys.argv[1])
print("ready", flush=True)
for i in range(int(sys.argv[3])):
    store.add(f"{sys.argv[2]}-{i}", f"x > {i} AND c = 'w{i}'")
print("done", flush=True)
"""


def writer(store, name, changes):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.path), name, str(changes)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_writer_killed_at_any_moment_leaves_a_good_store(store):
    rng = random.Random(3)
    for round_ in range(8):
        process = writer(store, f"k{round_}", 10_000)
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.3)
        process.kill()
        process.wait()
        process.stdout.close()
        rules = tocsin.open(store.path)
        mine = [i for i in rules if str(i).startswith(f"k{round_}-")]
        assert mine == [f"k{round_}-{i}" for i in range(len(mine))]
        assert [(e, r) for e, r in answers(rules) if r in ("b", "c")] == EXPECTED
        assert store.add(f"after {round_}", "x > 1e9") == store.version


def test_a_crash_between_any_two_steps_leaves_the_old_version(store, monkeypatch):
    """Every call that touches the disk fails once, at each of its turns."""

    class Crash(BaseException):
        pass

    real = {"fsync": os.fsync, "link": os.link}
    turn, published = 0, 0
    while not published:
        countdown = [turn]

        def crashing(name, countdown=countdown):
            def call(*arguments):
                if countdown[0] == 0:
                    raise Crash
                countdown[0] -= 1
                return real[name](*arguments)

            return call

        before = store.version
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, crashing(name))
            try:
                store.add("new", "c = 'fresh' AND x > 2")
                published = 1
            except Crash:
                pass
        assert store.version == before + published or (
            store.version == before + 1 and countdown[0] == 0
        )
        found = answers(tocsin.open(store.path))
        assert found == EXPECTED
        if store.version > before and not published:
            break  # it was in place already; only making it last was cut short
        turn += 1
    assert turn > 5
    assert "new" in tocsin.open(store.path)


def test_writers_at_once_lose_nothing_while_another_prunes(store):
    names = ("one", "two", "three")
    writers = [writer(store, name, 25) for name in names]
    while any(process.poll() is None for process in writers):
        store.prune(1)
    for process in writers:
        output, _ = process.communicate()
        assert output == "ready\ndone\n"
        assert process.returncode == 0
    rules = store.rules()
    for name in names:
        assert [i for i in rules if str(i).startswith(name)] == [f"{name}-{i}" for i in range(25)]
    assert store.version == 4 + 75
    assert sorted(rules.match({"x": 100, "c": "w7"}).by_rule()) == sorted(f"{n}-7" for n in names)


def test_threads_may_share_a_folder(store):
    failures = []

    def write(name):
        try:
            mine = tocsin.RuleStore(store.path)
            for i in range(10):
                mine.add(f"{name}{i}", "x > 1")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.rules()) == 2 + 30


def test_segments_of_a_version_that_was_opened_are_used_again(tmp_path):
    rules = tocsin.Rules({"x": "number"})
    rules.add_many([{"id": i, "x_low": i, "x_high": i + 1} for i in range(3000)])
    rules.save(tmp_path)
    folder = StoreFolder(tmp_path)
    before, origin = folder.open()
    rules.remove(7)
    rules.add(5000, "x > 5")
    rules.save(tmp_path)
    after, _ = folder.open(opened=origin)
    assert after.segments[0].segment is before.segments[0].segment
    assert list(after) == list(folder.open()[0]) == [i for i in range(3000) if i != 7] + [5000]
