"""What `auto` chooses, and that it says why."""

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.conformance import boxes as shapes
from tocsin.engine.plan import built_index
from tocsin.index.plane import chosen_axes


def chosen(shape):
    work = shape(np.random.default_rng(1))
    index, why = built_index("auto", work.conjunctions, work.floats)
    assert "nanoseconds" in why
    return index.name


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (shapes.squares, "grid"),
        (shapes.half_in_a_corner, "grid"),
        (shapes.a_city_in_a_country, "grid"),
        (shapes.large_on_pixels, "grid"),
        (shapes.integers, "rectangles"),
        (shapes.one_attribute, "intervals"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_the_choice(shape, expected):
    assert chosen(shape) == expected


def squares(n, extra=""):
    rng = np.random.default_rng(4)
    rules = tocsin.Rules(
        {"f": "flag", "x": "number", "z": "number", "y": "number", "c": "category"}
    )
    low = rng.random((2, n))
    rules.add_many(
        [
            {
                "id": i,
                "where": f"x BETWEEN {a} AND {a + 0.01} AND y BETWEEN {b} AND {b + 0.01}"
                + extra.format(flag=("true", "false")[i % 2]),
            }
            for i, (a, b) in enumerate(low.T.tolist())
        ]
    )
    return rules


@pytest.mark.parametrize(
    "extra",
    ["", " AND f = true", " AND f = {flag}", " AND z IS NOT NULL", " AND f = true AND c = 'DE'"],
)
def test_what_all_rules_have_alike_is_no_axis(extra):
    rules = squares(400, extra)
    (segment,) = rules._rules.segments()
    assert segment.index.name == "grid"
    axes, is_float = chosen_axes(segment.conjunctions, rules.schema.floats())
    assert sorted(axes.tolist()) == [1, 3]
    assert is_float.all()


def test_few_rules_are_looked_at_one_by_one():
    assert squares(50)._rules.segments()[0].index.name == "exhaustive"


def test_a_plan_says_why_also_after_it_was_stored(tmp_path):
    rules = squares(400)
    assert "an event meets about" in str(rules.plan())
    rules.save(tmp_path / "store")
    assert str(tocsin.open(tmp_path / "store").plan()) == str(rules.plan())


def test_a_merge_chooses_anew():
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("one", "x > 5")
    rules.merge()
    assert rules.plan().parts[0].index == "exhaustive"
    low = np.random.default_rng(1).random((2, 3000))
    rules.add_many(
        pa.table(
            {"id": [str(i) for i in range(3000)], "x_low": low[0], "x_high": low[0] + 0.01,
             "y_low": low[1], "y_high": low[1] + 0.01}
        )
    )  # fmt: skip
    assert rules.plan().parts[0].index == "grid"


def test_a_bulk_load_builds_one_index(monkeypatch):
    from tocsin.engine import collection

    built = []

    def counting(name, conjunctions, floats):
        built.append(conjunctions.size)
        return built_index(name, conjunctions, floats)

    monkeypatch.setattr(collection, "built_index", counting)
    squares(3000)
    assert built == [3000]
