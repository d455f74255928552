"""Every index passes the same checks, over the same workloads."""

import functools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import generate, naive
from tests.conformance import checks
from tocsin.index.keyed import buckets, key_sets, shelves
from tocsin.index.registry import INDEXES

# In the order in which they stand there: the first has the plainest words for what is wrong.
CHECKS = [check for name, check in vars(checks).items() if name.startswith("check_")]


def mixed(seed, rules=150, events=60):
    rng = random.Random(seed)
    return (
        [generate.condition(rng, rng.choice((0, 1, 2))) for _ in range(rules)],
        [generate.event(rng) for _ in range(events)],
    )


def boxes(seed, rules=400, events=60):
    """Many conjunctions over the same two attributes: blocks, cells, trees."""
    rng = random.Random(seed)

    def box():
        x, y = rng.uniform(-1, 1), rng.uniform(-1, 1)
        w, h = rng.choice((0, 0.01, 0.2, 3)), rng.choice((0, 0.01, 0.2, 3))
        return naive.And((naive.Between("price", x, x + w), naive.Between("ratio", y, y + h)))

    events = [{"price": rng.uniform(-1, 1), "ratio": rng.uniform(-1, 1)} for _ in range(events)]
    return [box() for _ in range(rules)], [*events, {"price": 0.5}, {}]


def wide(seed):
    """Conjunctions of four tests each, enough of them for blocks, beside sets and complements."""
    rng = random.Random(seed)
    conditions = []
    for _ in range(200):
        parts = [
            naive.Compare("visits", ">=", rng.randint(0, 9)),
            naive.Compare("stock", "<", rng.randint(0, 9)),
            naive.Compare("price", ">", rng.uniform(0, 9)),
        ]
        parts.append(
            rng.choice(
                [
                    naive.Compare("ratio", "<", rng.uniform(0, 9)),
                    naive.In("tier", ("gold", "black", "")),
                    naive.Not(naive.In("tier", ("gold", "black"))),
                    naive.Not(naive.Compare("visits", "=", 5)),
                ]
            )
        )
        conditions.append(naive.And(tuple(parts)))
    events = [
        {
            "visits": rng.randint(0, 9),
            "stock": rng.randint(-2, 9),
            "price": rng.uniform(0, 9),
            "ratio": rng.uniform(0, 9),
            "tier": rng.choice(["gold", "black", "tin", None]),
        }
        for _ in range(60)
    ]
    return conditions, events


WORKLOADS = {
    "mixed": mixed(1),
    "boxes": boxes(2),
    "wide": wide(3),
    "nothing": ([], [{}, {"price": 1.0}]),
    "always and never": (
        [naive.Constant(True), naive.Constant(False), naive.Constant(None), naive.IsNull("price")]
        * 40,
        [{}, {"price": 1.0}],
    ),
}


@pytest.fixture(scope="module")
def workloads():
    return {name: checks.Workload(*made) for name, made in WORKLOADS.items()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", INDEXES)
def test_conformance(name, workload, check, workloads, tmp_path):
    work = workloads[workload]
    index = INDEXES[name].build(work.conjunctions, work.schema.floats())
    assert index.name == name
    assert index.version >= 1
    assert all(index.summary)
    if check is checks.check_arrays_round_trip:
        check(index, work, tmp_path)
    else:
        check(index, work)


VARIANTS = {
    "intervals published": ("intervals", {"lattice": "published"}),
    "intervals published simple": (
        "intervals",
        {"lattice": "published", "decomposition": "simple", "longest": 4},
    ),
    "rectangles published": ("rectangles", {"lattice": "published", "longest": [4, 2]}),
}


@pytest.fixture(scope="module")
def build_variant(workloads):
    """A function that builds a variant; the checks of one index share it, as it takes seconds."""

    @functools.lru_cache(maxsize=1)
    def build(variant, workload):
        name, options = VARIANTS[variant]
        work = workloads[workload]
        return INDEXES[name].build(work.conjunctions, work.schema.floats(), **options)

    return build


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_conformance_as_published(variant, workload, check, workloads, build_variant, tmp_path):
    work = workloads[workload]
    index = build_variant(variant, workload)
    assert index.name == VARIANTS[variant][0]
    if check is checks.check_arrays_round_trip:
        check(index, work, tmp_path)
    else:
        check(index, work)


@pytest.fixture(scope="module")
def crowds():
    return {"mixed": checks.Workload(*mixed(4, 1200, 40)), "wide": checks.Workload(*wide(3))}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("workload", ["mixed", "wide"])
def test_keyed_with_shelves_of_two_attributes(workload, check, crowds, tmp_path, monkeypatch):
    """Workloads of this size would have none."""
    monkeypatch.setattr(shelves, "_SHELF_COST", -1.0)
    monkeypatch.setattr(shelves, "_MIN_PAIR_ENTRIES", 1)
    test_conformance("keyed", workload, check, crowds, tmp_path)
    work = crowds[workload]
    index = INDEXES["keyed"].build(work.conjunctions, work.schema.floats())
    assert (index.layout.pair_shelf >= 0).sum() > 2


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("workload", ["mixed", "wide"])
@pytest.mark.parametrize("hashed", [False, True])
def test_keyed_with_key_sets(workload, check, hashed, crowds, tmp_path, monkeypatch):
    """Workloads of this size would have few."""
    monkeypatch.setattr(key_sets, "PROBE_COST", 0.0)
    if hashed:
        monkeypatch.setattr(buckets, "_MIN_DIRECT", 0)
        monkeypatch.setattr(buckets, "_DIRECT", 0)
    test_conformance("keyed", workload, check, crowds, tmp_path)
    work = crowds[workload]
    index = INDEXES["keyed"].build(work.conjunctions, work.schema.floats())
    assert len(index.layout.slot_start) > 1


# The paper's ways where the tree has ways of its own.
AS_PUBLISHED = {
    "summary": "attributes",
    "gain": "predicates",
    "loss": "histogram",
    "separation": 1.0,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_bestar_as_published(workload, check, workloads, tmp_path):
    work = workloads[workload]
    index = INDEXES["bestar"].build(work.conjunctions, work.schema.floats(), **AS_PUBLISHED)
    if check is checks.check_arrays_round_trip:
        check(index, work, tmp_path)
    else:
        check(index, work)


def test_the_workloads_are_not_vacuous(workloads):
    for name in ("mixed", "boxes", "wide"):
        hits = [len(t) for t in workloads[name].truths]
        assert sum(hits) > 100
        assert max(hits) < workloads[name].conjunctions.size


@pytest.mark.parametrize("name", INDEXES)
@given(rng=st.randoms(use_true_random=False))
def test_properties(name, rng):
    conditions = [generate.condition(rng, 1) for _ in range(rng.randint(0, 12))]
    work = checks.Workload(conditions, [generate.event(rng) for _ in range(4)])
    index = INDEXES[name].build(work.conjunctions, work.schema.floats())
    checks.check_proposes_what_holds(index, work)
    checks.check_accepts_exactly(index, work)
    checks.check_small_buffers(index, work)
    checks.check_counts(index, work)
    checks.check_what_was_built_is_valid(index, work)


@pytest.mark.parametrize("variant", VARIANTS)
@given(rng=st.randoms(use_true_random=False))
def test_properties_as_published(variant, rng):
    name, options = VARIANTS[variant]
    conditions = [generate.condition(rng, 1) for _ in range(rng.randint(0, 12))]
    work = checks.Workload(conditions, [generate.event(rng) for _ in range(4)])
    index = INDEXES[name].build(work.conjunctions, work.schema.floats(), **options)
    checks.check_proposes_what_holds(index, work)
    checks.check_accepts_exactly(index, work)
    checks.check_small_buffers(index, work)
    checks.check_counts(index, work)
    checks.check_what_was_built_is_valid(index, work)
