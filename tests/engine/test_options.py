"""Options of indexes: set, checked, stored, shown; and indexes that learn from events."""

import numpy as np
import pytest
from click.testing import CliRunner

import tocsin
from tocsin.cli.main import tocsin as command
from tocsin.index.registry import INDEXES

BOXES = [
    {"id": i, "where": f"x >= {i % 40} AND x < {i % 40 + 3} AND y BETWEEN {i % 7} AND {i % 9 + 7}"}
    for i in range(300)
]
EVENTS = [{"x": x, "y": y} for x in range(0, 45, 4) for y in range(0, 18, 3)]
CHOICES = [
    ("grid", {"tiers": "one", "cells": 7}),
    ("grid", {"tiers": "two", "cells": 3, "full_lists": "all"}),
    ("grid", {"cells": 5, "full_lists": "all"}),
    ("grid", {"cells": 12}),
    ("ntree", {"fan_out": 4}),
    ("ntree", {"fan_out": 2, "leaf_capacity": 3}),
    ("ntree", {"fan_out": 2, "leaf_capacity": 1, "bytes_per_box": 2_000}),
    ("intervals", {"longest": 8, "decomposition": "simple"}),
    ("intervals", {"lattice": "published"}),
    ("intervals", {"lattice": "published", "longest": 2, "decomposition": "simple"}),
    ("rectangles", {"longest": 4, "decomposition": "overlapped", "hashed": True}),
    ("rectangles", {"longest": [8, 2]}),
    ("rectangles", {"longest": [2, 4], "lattice": "published"}),
    ("bestar", {"leaf_capacity": 20, "alpha": 0.25, "beta": 2, "rigid": True}),
    ("bestar", {"splitting": "approximate", "summary": "attributes"}),
    ("bestar", {"gain": "predicates", "loss": "histogram", "separation": 1}),
]


def made(index, options, kind="integer"):
    rules = tocsin.Rules({"x": kind, "y": kind}, index=index, options=options)
    rules.add_many(BOXES)
    return rules


@pytest.mark.parametrize(("index", "options"), CHOICES, ids=str)
def test_an_option_reaches_the_index_and_is_kept(index, options, tmp_path):
    rules = made(index, options)
    expected = list(made("exhaustive", {}).match(EVENTS).sorted())
    arrays = rules.snapshot().segments[0].segment.parts[0].index.arrays()
    default = made(index, {}).snapshot().segments[0].segment.parts[0].index.arrays()
    assert any(not np.array_equal(arrays[name], default.get(name)) for name in arrays), "no effect"
    assert list(rules.match(EVENTS).sorted()) == expected
    assert rules.plan().parts[0].options == options
    for name, value in options.items():
        assert f"{name}={value!r}" in str(rules.plan())
    rules.save(tmp_path / "store")
    opened = tocsin.open(tmp_path / "store")
    for again in (opened, rules.copy()):
        assert again.plan().parts[0].options == options
        again.add(1000, "x > 1000")
        again.merge()  # built anew, with the same options
        kept = again.snapshot().segments[0].segment.parts[0].index.arrays()
        assert again.plan().parts[0].options == options
        assert set(kept) == set(arrays)
        assert list(again.match(EVENTS).sorted()) == expected


def test_an_index_of_another_version_is_built_again_with_its_options(tmp_path, monkeypatch):
    made("ntree", {"fan_out": 4}).save(tmp_path / "store")
    monkeypatch.setattr(INDEXES["ntree"], "version", 99)
    again = tocsin.open(tmp_path / "store")
    assert again.plan().parts[0].options == {"fan_out": 4}
    built, expected = (
        rules.snapshot().segments[0].segment.parts[0].index.arrays()
        for rules in (again, made("ntree", {"fan_out": 4}))
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(built[name], array)


def test_options_that_an_index_has_no_more_are_forgotten(tmp_path, monkeypatch):
    made("ntree", {"fan_out": 4, "leaf_capacity": 9}).save(tmp_path / "store")
    fewer = {"fan_out": INDEXES["ntree"].options["fan_out"]}
    monkeypatch.setattr(INDEXES["ntree"], "options", fewer)
    again = tocsin.open(tmp_path / "store")
    assert again.snapshot().options == again.plan().parts[0].options == {"fan_out": 4}
    again.merge()


@pytest.mark.parametrize(
    ("index", "options", "words"),
    [
        ("ntree", {"fanout": 8}, r"'ntree' has no option 'fanout'; did you mean 'fan_out'\?"),
        ("ntree", {"depth": 8}, "has no option 'depth'.*leaf_capacity: boxes.*none by default"),
        (
            "ntree",
            {"fan_out": 1},
            "'fan_out' of index 'ntree' .* integer from 2 to 1,024; got 1",
        ),
        ("ntree", {"fan_out": "8"}, "got '8'"),
        ("ntree", {"fan_out": True}, "got True"),
        ("ntree", {"fan_out": None}, "got None"),
        ("ntree", {"leaf_capacity": 0}, "an integer from 1 to .*, or none; got 0"),
        ("rectangles", {"longest": 3}, "from 1 to 256, a pair of them .*, or none; got 3"),
        ("rectangles", {"longest": [16, 8, 4]}, r"such as \[16, 8\], or none; got \[16, 8, 4\]"),
        ("rectangles", {"longest": [16, None]}, r"got \[16, None\]"),
        ("rectangles", {"lattice": "papers"}, "must be fitted or published; got 'papers'"),
        ("rectangles", {"hashed": 1}, "must be true, false or none; got 1"),
        ("intervals", {"decomposition": "overlapped"}, "must be logarithmic or simple"),
        ("intervals", {"lattice": "whole"}, "must be fitted or published; got 'whole'"),
        ("bestar", {"alpha": 0.6}, "a number from 0 to 0.5; got 0.6"),
        ("bestar", {"beta": float("nan")}, "a number of at least 1; got nan"),
        ("grid", {"longest": 3}, "'grid' has no option 'longest'.*cells: number of cells"),
        ("grid", {"cells": 0}, "an integer from 1 to 10,000, or none; got 0"),
        ("grid", {"tiers": 2}, "must be fitted, one or two; got 2"),
        ("exhaustive", {"longest": 3}, r"has no option 'longest' \(it has none\)"),
        ("auto", {"longest": 4}, "options need an index by name.*got longest"),
        ("ntree", [("fan_out", 8)], "must be a dict of names and values"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(index, options, words):
    with pytest.raises(tocsin.RuleError, match=f"(?s){words}"):
        tocsin.Rules({"x": "number"}, index=index, options=options)


def test_every_index_refuses_options_it_does_not_declare():
    rules = made("exhaustive", {}).snapshot().segments[0].segment.parts[0].conjunctions
    for name, index in INDEXES.items():
        with pytest.raises(tocsin.RuleError, match="no option 'colour'"):
            index.build(rules, np.zeros(2, np.uint8), colour=1)
        for option in index.options.values():
            assert option.is_allowed(option.default), name


def test_the_command_line(tmp_path):
    store = str(tmp_path / "store")
    create = ["rules", "create", store, "--schema", "x=number,y=number", "--index", "bestar"]
    given = ["leaf_capacity=20", "alpha=0.2", "rigid=true", "splitting=approximate"]
    options = [word for each in given for word in ("--index-option", each)]
    wrong = CliRunner().invoke(command, [*create, "--index-option", "leaf_capacity=0"])
    assert wrong.exit_code != 0
    assert "must be an integer from 1" in wrong.output
    wrong = CliRunner().invoke(command, [*create, "--index-option", "rigid"])
    assert "must be NAME=VALUE" in wrong.output
    wrong = CliRunner().invoke(command, [*create, *["--index-option", "rigid=true"] * 2])
    assert "'rigid' is given twice" in wrong.output
    assert CliRunner().invoke(command, [*create, *options]).exit_code == 0
    expected = {"leaf_capacity": 20, "alpha": 0.2, "rigid": True, "splitting": "approximate"}
    assert tocsin.open(store).snapshot().options == expected
    create[2] = str(tmp_path / "other")
    create[-1] = "rectangles"
    given = ["hashed=none", "longest=[16,8]", "lattice=published"]
    options = [word for each in given for word in ("--index-option", each)]
    created = CliRunner().invoke(command, [*create, *options])
    assert created.exit_code == 0, created.output
    expected = {"hashed": None, "longest": [16, 8], "lattice": "published"}
    assert tocsin.open(create[2]).snapshot().options == expected


# ------------------------------------------------------------ learning


SEEN = [{"tier": f"t{i % 5}", "a": i % 9, "b": 7 * i} for i in range(60)]


def trained():
    """Return rules under an index that learns."""
    rng = np.random.default_rng(3)
    rules = tocsin.Rules({"tier": "category", "a": "integer", "b": "integer"}, index="bestar")
    rules.add_many(
        [
            {"id": i, "where": f"tier = 't{i % 5}' AND a = {rng.integers(9)} AND b > {i}"}
            for i in range(400)
        ]
    )
    return rules


def test_tuning_is_a_change_that_keeps_the_answers():
    rules = trained()
    expected = list(rules.match(SEEN).sorted())
    rules.add(1000, "a = 3")
    rules.remove(17)
    before = rules.snapshot()
    rules.tune(SEEN)
    after = rules.snapshot()
    assert after is not before
    assert [live.role for live in after.segments] == ["base"]
    old, new = (v.segments[0].segment.parts[0].index.layout for v in (before, after))
    assert new.loss_rate.any()
    assert not old.loss_rate.any(), "a version never changes"
    expected = [pair for pair in expected if pair[1] != 17]
    expected += [(i, 1000) for i in range(60) if i % 9 == 3]
    assert list(rules.match(SEEN).sorted()) == sorted(expected)


def test_what_was_learnt_is_stored(tmp_path):
    rules = trained()
    rules.tune(SEEN)
    rate = rules.snapshot().segments[0].segment.parts[0].index.layout.loss_rate
    rules.save(tmp_path / "store")
    again = tocsin.open(tmp_path / "store").snapshot().segments[0].segment.parts[0].index
    assert rate.any()
    np.testing.assert_array_equal(again.layout.loss_rate, rate)
    store = tocsin.RuleStore(tmp_path / "store")
    assert store.tune([{"tier": "t2", "a": 3, "b": 5}]) == 2


def test_tuning_fails_as_a_whole():
    rules = trained()
    rules.remove(3)
    before = rules.snapshot()
    with pytest.raises(tocsin.EventError):
        rules.tune([{"a": "three"}])
    assert len(rules) == 399
    assert [live.segment for live in rules.snapshot().segments] == [
        live.segment for live in before.segments
    ]


def test_auto_chooses_again_with_events():
    """Rules that look selective on x, where all events are; only events can tell."""
    rng = np.random.default_rng(2)
    rules = tocsin.Rules({"x": "number", "y": "number", "z": "number"})
    low = rng.random((3000, 3))
    rules.add_many(
        [
            {"id": i, "where": f"x BETWEEN {a} AND {a + 0.01} AND y > {b} AND z < {c}"}
            for i, (a, b, c) in enumerate((low * [0.001, 1, 1]).tolist())
        ]
        + [{"id": -1, "where": "x BETWEEN 0.9 AND 1.0"}]
    )
    rules.merge()
    events = [{"x": 0.005, "y": y, "z": z} for y, z in rng.random((300, 2)).tolist()]
    before, expected = rules.plan(events), list(rules.match(events).sorted())
    met = sum(each.met for each in before.parts)
    assert met == pytest.approx(rules.match(events).counters.candidates / 300)
    part = max(before.parts, key=lambda each: each.met)
    assert part.met > 1.5 * part.expected > 0
    assert f"an event met {part.met:,.1f} candidates" in str(before)
    rules.tune(events)
    assert "for 300 sample events" in str(rules.plan())
    assert part.why not in [each.why for each in rules.plan().parts]
    assert list(rules.match(events).sorted()) == expected
    untouched = str(rules.plan())
    rules.tune([])
    assert str(rules.plan()) == untouched
    assert rules.plan().parts[0].met is None


def test_an_index_that_does_not_learn():
    with pytest.raises(tocsin.RuleError, match=r"held by ntree, which does not learn.*bestar does"):
        made("ntree", {}).tune(EVENTS)
    nothing = tocsin.Rules({"x": "number"})
    nothing.tune([{"x": 1.0}])
    assert len(nothing) == 0
