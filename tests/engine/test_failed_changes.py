"""A change that fails changes nothing, wherever it fails; and the rules can be used as before."""

import datetime
import decimal
import threading

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.engine import draft, merging, segment
from tocsin.index import posting_lists

SCHEMA = {"x": "number", "n": "integer", "c": "category"}
EVENTS = [{"x": x, "n": n, "c": c} for x in (0.5, 7.0) for n in (1, 4) for c in ("k", "new", "m")]


class TroubleError(Exception):
    """What an injected failure raises."""


def made(state):
    rules = tocsin.Rules(SCHEMA)
    for i in range(8):
        rules.add(i, f"x > {i} AND c <> 'm'", payload={"team": f"t{i}"})
    if state != "pending":
        rules.merge()
    if state == "mixed":
        rules.remove(0)
        rules.add(20, "c IN ('k', 'm')", weights={"c": 2.0})
        rules.match(EVENTS)
        rules.remove(1)
        rules.add(21, "n = 4")
    return rules


def seen(rules):
    return (
        list(rules),
        len(rules),
        list(rules.match(EVENTS).sorted()),
        rules.count(EVENTS).tolist(),
        [rules[i] for i in rules],
        [i in rules for i in range(25)],
        list(rules._draft.categories),
        rules.id_type,
        rules.payload_schema,
    )


CHANGES = {
    "add": lambda rules: rules.add(30, "c = 'new'", payload={"floor": 3}),
    "replace": lambda rules: rules.replace(3, "c = 'new'", payload={"floor": 3}),
    "replace pending": lambda rules: rules.replace(21 if 21 in rules else 4, "c = 'new'"),
    "remove": lambda rules: rules.remove_many([2, 3, 21] if 21 in rules else [2, 3]),
    "add_many": lambda rules: rules.add_many(
        pa.table({"id": range(40, 60), "where": ["c = 'new'"] * 20, "size": [1.5] * 20})
    ),
    "merge": lambda rules: rules.merge(),
}


@pytest.fixture(params=["pending", "mixed"])
def state(request):
    return request.param


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("looked", [False, True])
def test_a_merge_that_fails(change, state, looked, monkeypatch):
    rules, twin = made(state), made(state)
    if looked:
        rules.snapshot()
    monkeypatch.setattr(draft, "_SMALL", 1)  # so that every change merges

    def failing(*arguments):
        raise TroubleError

    monkeypatch.setattr(draft, "build_parts", failing)
    with pytest.raises(TroubleError):
        change(rules)
    monkeypatch.undo()
    assert seen(rules) == seen(twin)
    change(rules)
    change(twin)
    assert seen(rules) == seen(twin)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("where", ["expand_ranges", "concatenate_metadata", "Segment"])
def test_a_step_that_fails(change, state, where, monkeypatch):
    """Each of them has its turn of failing; where it is not a step, nothing fails."""
    rules, twin = made(state), made(state)

    def failing(*arguments, **options):
        raise TroubleError

    owners = {"expand_ranges": segment, "concatenate_metadata": merging, "Segment": merging}
    monkeypatch.setattr(owners[where], where, failing)
    try:
        change(rules)
        failed = False
    except TroubleError:
        failed = True
    monkeypatch.undo()
    if not failed:
        change(twin)
    assert seen(rules) == seen(twin)


def test_lists_that_overflow(monkeypatch):
    """A real failure in the middle of a merge: the values that were mentioned are forgotten."""

    rules = tocsin.Rules({"c": "category", "x": "number"}, index="keyed")
    monkeypatch.setattr(posting_lists, "MAX_ENTRIES", 2)
    table = [{"id": f"a{i}", "where": f"c = 'red{i}' AND x > {i}"} for i in range(4)]
    with pytest.raises(tocsin.RuleError):
        rules.add_many(table)
    monkeypatch.undo()
    assert (len(rules), list(rules), list(rules._draft.categories)) == (0, [], [])
    rules.add("b", "c = 'blue'")
    assert list(rules.match({"c": "blue", "x": 9})) == [(0, "b")]


# ------------------------------------------------------------ payload and ids that do not fit later


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1.5, decimal.Decimal("2.5")),
        (decimal.Decimal("2.5"), 1.5),
        (decimal.Decimal("2.5"), np.int8(3)),
        (np.float32(0.5), decimal.Decimal("2.5")),
        (datetime.datetime(2024, 5, 1), np.datetime64("2024-05-01T00:00:01", "s")),
        (1.5, 7),
        (1, 1.5),
        (["a"], ["b", None]),
        ({"k": 1}, {"k": 2}),
    ],
)
def test_payload_is_kept_or_refused_when_it_comes(first, second):
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "x > 1", payload={"p": first})
    try:
        rules.add("b", "x > 1", payload={"p": second})
    except tocsin.RuleError:
        assert list(rules) == ["a"]
    for _ in range(2):
        found = rules.match({"x": 5})
        assert len(found) == len(rules)
        assert found.payload(rules.payload_schema).num_rows == len(rules)
        rules.merge()


def test_payload_is_ours_once_it_is_added():
    rules = tocsin.Rules(SCHEMA)
    tags = ["a"]
    rules.add("r", "x > 1", payload={"tags": tags})
    tags.append(5)
    assert rules["r"].payload == {"tags": ["a"]}
    assert len(rules.match({"x": 5})) == 1


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"k": "v"}], pa.struct([("k", pa.dictionary(pa.int8(), pa.string()))])),
        pa.array([{"k": 5}], pa.struct([pa.field("k", pa.int64(), nullable=False)])),
    ],
    ids=["a dictionary inside", "a field that is never null"],
)
def test_payload_that_cannot_be_null_is_refused_or_kept(values, tmp_path):
    rules = tocsin.Rules(SCHEMA)
    rules.add("z", "x > 1")
    try:
        rules.add_many(pa.table({"id": ["a"], "where": ["x > 1"], "p": values}))
    except tocsin.RuleError:
        assert list(rules) == ["z"]
    rules.add("y", "x > 1")
    rules.merge()
    rules.save(tmp_path / "store")
    again = tocsin.open(tmp_path / "store")
    assert list(again) == list(rules)
    assert [again[i] for i in again] == [rules[i] for i in rules]


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), pa.uint8(), pa.uint64()])
@pytest.mark.parametrize("id_", [2**40, -1])
def test_ids_of_narrow_types_become_wider(type_, id_, tmp_path):
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(pa.table({"id": pa.array([1, 2], type_), "where": ["x > 1", "x > 2"]}))
    rules.add(id_, "x > 1")
    assert set(rules.match({"x": 5}).ids().to_pylist()) == {1, 2, id_}
    rules.save(tmp_path / "store")
    assert list(tocsin.open(tmp_path / "store")) == [1, 2, id_]


# ------------------------------------------------------------ what does not depend on who looked


@pytest.mark.parametrize("look", [False, True])
def test_ids_are_found_by_what_they_are(look):
    rules = tocsin.Rules(SCHEMA)
    rules.add(1, "x > 1")
    rules.add(10, "x > 1")
    if look:
        rules.snapshot()
    for odd in (True, 1.0, decimal.Decimal(1), None, float("nan"), b"1", [1], "1"):
        assert odd not in rules
    for odd in (True, 10.0):
        with pytest.raises(tocsin.UnknownRuleError):
            rules.remove(odd)
    assert list(rules) == [1, 10]


@pytest.mark.parametrize("look", [False, True])
def test_weights_of_tests_that_nothing_satisfies(look):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("a", "x > 5 OR (y > 1 AND y < 0)", weights={"x": 2, "y": 3})
    if look:
        rules.snapshot()
    rules.replace("a", "y > 1")
    assert rules["a"].weights == {}


def test_when_the_last_rule_is_gone_ids_may_be_of_another_type():
    """Not before a merge: a stream may be planned for the columns that rules are to have again."""
    rules = tocsin.Rules(SCHEMA)
    rules.add(1, "x > 1", payload={"rank": 5})
    rules.add(2, "x > 1")
    rules.remove_many([1, 2])
    assert (rules.id_type, rules.payload_schema.names) == (pa.int64(), ["rank"])
    rules.merge()
    assert (rules.id_type, rules.payload_schema.names) == (None, [])
    rules.add("a", "x > 1")
    assert list(rules.match({"x": 5})) == [(0, "a")]


def test_ids_that_are_found_by_asking_the_rules():
    rules = made("mixed")
    rules.remove_many(i for i in list(rules) if rules[i].where == "n = 4")
    assert 21 not in rules


# ------------------------------------------------------------ threads


def test_the_number_of_rules_while_another_thread_changes_them():
    rules = made("base")
    stop, wrong = threading.Event(), []

    def count():
        while not stop.is_set():
            if len(rules) != 8:
                wrong.append(len(rules))

    thread = threading.Thread(target=count)
    thread.start()
    for i in range(3_000):
        rules.replace(i % 8, f"n > {i}")
        if i % 50 == 0:
            rules.snapshot()
    stop.set()
    thread.join()
    assert wrong == []


def test_changes_of_a_store_by_several_threads(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    failures = []

    def half(rules):
        rules.add("half", "x > 1")
        raise TroubleError

    def work(name):
        for i in range(8):
            try:
                store.publish(half)
            except TroubleError:
                pass
            except Exception as error:
                failures.append(error)
            store.add(f"{name}{i}", "x > 1")

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(store.rules()) == {f"{name}{i}" for name in "ab" for i in range(8)}


def test_rules_that_are_changed_after_they_were_published(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    with store.change() as rules:
        rules.add("a", "x > 1")
    rules.add("sneaky", "x > 1")
    store.add("b", "x > 1")
    assert list(store.rules()) == ["a", "b"]
