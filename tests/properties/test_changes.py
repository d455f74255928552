"""After any sequence of changes, matching equals a fresh build, and removed rules never match."""

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

import tocsin
from tests import generate, naive
from tocsin.engine import draft

RANDOMS = st.randoms(use_true_random=False)


class Changes(RuleBasedStateMachine):
    """Add, replace, remove, merge and match in any order, beside a plain dict of rules."""

    ids = Bundle("ids")

    @initialize(small=st.sampled_from([0, 2, 1024]), integers=st.booleans())
    def start(self, small, integers):
        # A tiny delta merges all the time, a large one as good as never.
        draft._SMALL = small
        self.rules = tocsin.Rules(generate.SCHEMA)
        self.model: dict[object, naive.Condition] = {}  # in the order of addition
        self.gone: set[object] = set()
        self.positions = 0
        self.integers = integers

    def teardown(self):
        draft._SMALL = 1024

    def new_id(self):
        number = self.positions
        return number * 7919 % 1000 if self.integers else f"rule {number * 7919 % 1000}"

    @rule(target=ids, rng=RANDOMS)
    def add(self, rng):
        id_, where = self.new_id(), generate.condition(rng, 1)
        if id_ in self.model:
            with pytest.raises(tocsin.RuleError):
                self.rules.add(id_, naive.sql(where))
            self.positions += 1
            return multiple()
        self.rules.add(id_, naive.sql(where, rng))
        self.model[id_] = where
        self.positions += 1
        return id_

    @rule(target=ids, rng=RANDOMS, n=st.integers(0, 5))
    def add_many(self, rng, n):
        ids, wheres = [], []
        for _ in range(n):
            id_ = self.new_id()
            self.positions += 1
            if id_ not in self.model and id_ not in ids:
                ids.append(id_)
                wheres.append(generate.condition(rng, 1))
        type_ = pa.int64() if self.integers else pa.string()
        texts = pa.array([naive.sql(w) for w in wheres], pa.string())
        self.rules.add_many(pa.table({"id": pa.array(ids, type_), "where": texts}))
        self.model.update(zip(ids, wheres, strict=True))
        return multiple(*ids)

    @rule(id_=ids, rng=RANDOMS)
    def replace(self, id_, rng):
        where = generate.condition(rng, 1)
        if id_ not in self.model:
            with pytest.raises(tocsin.UnknownRuleError):
                self.rules.replace(id_, naive.sql(where))
            return
        text = naive.sql(where)
        if self.rules[id_].where != text:  # otherwise it is not changed, and keeps its place
            del self.model[id_]
        self.rules.replace(id_, text)
        self.model[id_] = where  # it comes last now

    @rule(id_=consumes(ids))
    def remove(self, id_):
        self.rules.remove(id_)
        del self.model[id_]
        self.gone.add(id_)

    @rule(id_=ids, rng=RANDOMS)
    def fail(self, id_, rng):
        bad = pa.table({"id": [f"new {id_}", f"{id_}"], "where": ["active", "active >"]})
        with pytest.raises(tocsin.TocsinError):
            self.rules.add_many(bad)
        with pytest.raises(tocsin.TocsinError):
            self.rules.remove_many([id_, "nobody"])

    @rule()
    def merge(self):
        self.rules.merge()

    @rule(rng=RANDOMS)
    def match(self, rng):
        events = [generate.event(rng) for _ in range(3)]
        known = [naive.Rule(id_, where) for id_, where in self.model.items()]
        expected = naive.matches(known, events)
        found = self.rules.match(events)
        pairs = set(zip(found.events.tolist(), found.to_arrow()["rule"].to_pylist(), strict=True))
        assert pairs == expected
        assert len(found) == len(expected)
        assert not (self.gone - set(self.model)) & {r for _, r in pairs}
        assert self.rules.count(events).sum() == len(expected)
        fresh = tocsin.Rules(generate.SCHEMA)
        for each in known:
            fresh.add(each.id, naive.sql(each.where))
        again = fresh.match(events).sorted().to_arrow()
        assert found.sorted().to_arrow()["event"] == again["event"]
        assert found.sorted().to_arrow()["rule"].to_pylist() == again["rule"].to_pylist()
        best = self.rules.top(events, 2).to_arrow()
        assert best["rule"].to_pylist() == fresh.top(events, 2).to_arrow()["rule"].to_pylist()
        assert best["score"].to_pylist() == fresh.top(events, 2).to_arrow()["score"].to_pylist()

    @invariant()
    def knows_its_rules(self):
        if hasattr(self, "rules"):
            assert len(self.rules) == len(self.model)
            assert all(id_ in self.rules for id_ in self.model)

    @invariant()
    def lists_its_rules_in_order(self):
        if hasattr(self, "rules") and self.positions % 5 == 0:
            assert list(self.rules) == list(self.model)
            assert [self.rules[id_].id for id_ in self.model] == list(self.model)


TestChanges = Changes.TestCase
