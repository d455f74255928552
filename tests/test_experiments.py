"""Every figure can be regenerated, and verdicts follow from numbers; at this size they mean
nothing."""

import json

import numpy as np
import pytest

from benchmarks.boolean_workloads import Setting, World
from benchmarks.covering_workloads import (
    ORDERS,
    RULE_SETS,
    check_same_decisions,
    make_commands,
    run,
)
from benchmarks.index_search import IndexSearch, check_same
from experiments.__main__ import FIGURES, main
from experiments.answer_sets import AnswerSets, Cycle, count_matches, cycle_times
from experiments.covering_runs import METHODS, run_all
from experiments.cr_tree import CRTree
from experiments.grid_cycles import move, z_order
from experiments.grid_data import SHAPES, query_sides
from experiments.image_features import cut, moments_of, to_hsv
from experiments.kindex import KIndex
from experiments.measuring import check_equal
from experiments.rivals import Constructs, SegmentTree, build_packed_tree, build_rstar_tree
from experiments.rtree_join import RTreeJoin, build_tree
from experiments.similarity_cases import Case, digest, epsilons_for, measure
from experiments.similarity_costs import solve
from tocsin import similarity
from tocsin.covering import CoverIndex
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.output import collect_pairs, count_pairs, stream_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("experiments")
    main(["--size", "tiny", "--out", str(out)])
    return out


def test_every_figure_has_a_picture_and_a_verdict(folder):
    records = json.loads((folder / "experiments" / "findings.json").read_text())
    page = (folder / "experiments.md").read_text()
    assert list(records) == list(FIGURES)
    for name, record in records.items():
        assert record["name"] == name
        assert record["verdict"] in ("holds", "does not hold", "cannot be tested")
        if not record["untested"]:
            assert (folder / "experiments" / f"{name}.png").stat().st_size > 10_000
            assert f"experiments/{name}.png" in page
        assert record["line"] in page


def test_one_figure_alone_keeps_the_others(folder):
    before = json.loads((folder / "experiments" / "findings.json").read_text())
    main(["--size", "tiny", "--only", "vcr-hashing", "--out", str(folder)])
    after = json.loads((folder / "experiments" / "findings.json").read_text())
    assert list(after) == list(before)
    del before["vcr-hashing"], after["vcr-hashing"]
    assert after == before


class PlainBoxes:
    """Boxes tested one by one."""

    nbytes = 0

    def __init__(self, low, high, points):
        self.low, self.high, self.points = low, high, points
        self.size, self.events = low.shape[1], points.shape[1]

    def search(self, first, stop, offsets, out):
        at = self.points[:, first : first + 1]
        found = np.flatnonzero(((self.low <= at) & (at <= self.high)).all(axis=0))
        out[: len(found)] = found
        offsets[1] = len(found)
        return first + 1


@pytest.mark.parametrize("n", [1, 15, 16, 17, 700])
def test_rivals_find_what_is_there(n):
    rng = np.random.default_rng(n)
    low, points = rng.integers(0, 50, (2, n)), rng.integers(0, 60, (2, 200))
    high = low + rng.integers(0, 20, (2, n))
    plain = {"plain": PlainBoxes(low, high, points)}
    trees = {
        "packed": build_packed_tree(low, high, points),
        "R*": build_rstar_tree(low, high, points),
        "CR": CRTree(low, high, points),
        "CR, one line": CRTree(low, high, points, 5),
    }
    check_equal(plain | trees, 200)
    low, high, points = low[0], high[0], points[0]
    lists = {f"{i}": Constructs(low, high, points, 1 << i, i % 2 == 0) for i in range(6)}
    plain = {"plain": PlainBoxes(low[None], high[None], points[None])}
    check_equal(plain | lists | {"tree": SegmentTree(low, high, points)}, 200)


@pytest.mark.parametrize("n", [1, 50, 3_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_k_index_finds_what_is_there(n, weighted):
    setting = Setting(dimensions=12, rule_size=(1, 6), event_size=(6, 9), zipf=1.0, match=0.02)
    world = World(setting)
    c, keys = world.rules(n, weighted), world.events(150)
    exhaustive = IndexSearch(Exhaustive.build(c), keys, 12)
    index = KIndex(c, keys, 12)
    check_equal({"exhaustive": exhaustive, "k-index": index}, 150)
    for k in (1, 5):
        check_same("k-index", index.find_best(k, 150), exhaustive.scan_best(k, 150))


def test_differences_are_reported():
    low = np.zeros((2, 3))
    points = np.full((2, 4), 0.5)
    one, other = PlainBoxes(low, low + 1, points), PlainBoxes(low, low + 0.1, points)
    with pytest.raises(AssertionError, match="other finds other rules than one"):
        check_equal({"one": one, "other": other}, 4)


def test_nodes_of_the_cr_tree_fit_cache_lines():
    """With five entries a node, as in the thesis. Bounds are within one of 255 steps."""
    rng = np.random.default_rng(0)
    low = rng.random((2, 700))
    tree = CRTree(low, low + 0.01, low, 5)
    assert tree.node_bytes == 64
    nodes = tree.nodes
    assert nodes.codes.ctypes.data % 64 == 0
    codes = nodes.codes.reshape(-1, 64)
    origin, scale = nodes.floats.reshape(-1, 8)[0, :2]
    leaf_low = nodes.bounds.reshape(-1, 4)[:5, 0]
    steps = codes[0, 40:60].reshape(5, 4)[:, 0]
    assert (origin + steps / scale <= leaf_low + 1e-12).all()
    assert (leaf_low < origin + (steps + 1.0) / scale).all()


@pytest.mark.parametrize("elongated", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_thesis_data_are_inside_the_unit_square(shape, elongated):
    rng = np.random.default_rng(4)
    sides = query_sides(2_000, elongated)
    low, high, points = SHAPES[shape](rng, 3_000, 2_000, sides)
    for bounds in (low, high, points):
        assert 0 <= bounds.min() <= bounds.max() <= 1
    dense = (high <= 0.001).all(axis=0)
    assert dense.sum() == (1_000 if shape == "hyper-skewed" else 0)
    expected = np.where(dense, 0.001 * sides, sides)
    np.testing.assert_allclose(high - low, expected, rtol=1e-9, atol=1e-15)
    assert (points <= 0.001).all(axis=0).sum() == (1_500 if shape == "hyper-skewed" else 0)


def test_a_cycle_ends_with_the_objects_of_every_query():
    rng = np.random.default_rng(1)
    low, points = rng.random((2, 50)), rng.random((2, 400))
    high = low + 0.3
    structure = PlainBoxes(low, high, points)
    answers = AnswerSets(50, count_matches(structure))
    cycle = Cycle(structure, answers)
    at = points[:, None]
    inside = ((low[:, :, None] <= at) & (at <= high[:, :, None])).all(axis=0)
    assert inside.sum(axis=1).max() > 32  # sets grow several times
    for _ in range(3):
        cycle.run()
        begin, end = answers.sets[0::3], answers.sets[1::3]
        for query in range(50):
            found = answers.objects[begin[query] : end[query]]
            assert found.tolist() == np.flatnonzero(inside[query]).tolist()
    objects = np.arange(400)
    np.testing.assert_array_equal(answers.summarise(), [inside.sum(axis=1), inside @ objects])


def test_cycles_that_find_other_objects_are_reported():
    low = np.zeros((2, 3))
    points = np.full((2, 4), 0.5)
    one, other = PlainBoxes(low, low + 1, points), PlainBoxes(low, low + 0.1, points)
    for alike in (True, False):
        with pytest.raises(AssertionError, match="other finds other objects than one"):
            cycle_times({"one": one, "other": other}, 0.0, alike)


def test_objects_stay_inside_the_square():
    moved = move(np.array([[0.1, 0.9], [0.5, 0.5]]), np.array([[-0.1, 0.1], [0.0, 0.1]]), 3)
    np.testing.assert_allclose(moved, [[0.2, 0.8], [0.5, 0.8]])


def test_z_order():
    points = np.array([[0.1, 0.9, 0.1, 0.9], [0.9, 0.9, 0.1, 0.1]])
    assert z_order(points).tolist() == [2, 3, 0, 1]


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 2), (9, 700, 3), (700, 65, 1), (600, 500, 9)])
def test_the_r_tree_join_finds_what_is_there(n, m, d, restricted):
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 12, (n, d)) / 12, rng.integers(0, 12, (m, d)) / 12
    trees = build_tree(a), build_tree(b)
    closeness = read_closeness(0.5, "l2", False)
    expected = similarity.join(a, b, 0.5, "exhaustive").pairs()
    found = collect_pairs(RTreeJoin(*trees, closeness, False, restricted))
    assert digest(*found) == digest(*expected)
    assert count_pairs(RTreeJoin(*trees, closeness, False, restricted)) == len(expected[0])
    blocks = stream_pairs(RTreeJoin(*trees, closeness, False, restricted), 1024)
    parts = [(left.copy(), right.copy()) for left, right in blocks]
    assert sum(len(left) for left, _ in parts) == len(expected[0])
    own = collect_pairs(RTreeJoin(trees[0], trees[0], closeness, True, restricted))
    assert digest(*own) == digest(*similarity.self_join(a, 0.5, "exhaustive").pairs())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", [1, 3])
def test_all_ways_to_find_covering_rules_forward_the_same(d, order):
    commands = make_commands(400, d, 0.3, d, order=order)
    runs = run_all(commands, d, tuple(METHODS), marks=(100, 400), count_covered=True)
    first = runs["k-d tree"]
    assert first.rules[-1] == first.subscribes - first.unsubscribes
    assert 0 < first.forwarded[-1] <= first.rules[-1]
    assert len({tuple(r.covered) for r in runs.values()}) == 1
    for name in ("k-d tree", "Z-curve"):
        assert sum(runs[name].visited) >= runs[name].searches
    for kind in ("star", "poset"):
        check_same_decisions(kind, run(commands, CoverIndex(d), 1, kind, (100, 400)), first)


@pytest.mark.parametrize("rules", RULE_SETS)
def test_rule_sets_are_boxes(rules):
    for id, low, high in make_commands(300, 4, 0.2, 0, rules):
        if low is not None:
            CoverIndex(4).add(id, low, high)


def test_an_order_of_unsubscribes():
    removed = {
        order: [id for id, low, _ in make_commands(300, 1, 0.3, 0, order=order) if low is None]
        for order in ORDERS
    }
    assert removed["oldest"] == sorted(removed["oldest"])
    assert all(len(set(ids)) == len(ids) for ids in removed.values())
    assert removed["random"] != removed["oldest"]


def test_other_decisions_are_reported():
    one = run(make_commands(100, 2, 0.2, 0), CoverIndex(2))
    other = run(make_commands(100, 2, 0.2, 1), CoverIndex(2))
    with pytest.raises(AssertionError, match="other forwards other rules"):
        check_same_decisions("other", other, one)


def test_digests_differ_for_other_pairs():
    left, right = np.array([1, 2, 3]), np.array([4, 5, 6])
    assert digest(left, right) == digest(left[::-1], right[::-1])
    assert digest(left, right) != digest(left, right[::-1])
    assert digest(left, right) != digest(right, left)


def test_joins_that_find_other_pairs_are_reported(monkeypatch):
    from experiments import similarity_cases

    class Nothing(similarity_cases.CellJoin):
        def fill(self, out):
            out.state[0] = 0
            return True

    monkeypatch.setattr(similarity_cases, "CellJoin", Nothing)
    points = np.random.default_rng(0).random((100, 2))
    case = Case("few", points, None, (0.5,), (similarity_cases.BLOCKS, similarity_cases.CELLS))
    with pytest.raises(AssertionError, match=r"few: cells \(Tocsin\) finds other pairs"):
        measure(case, 0.0)


def test_an_epsilon_has_the_selectivity_that_it_was_chosen_for():
    rng = np.random.default_rng(0)
    a, b = rng.random((200, 3)), rng.random((300, 3))
    for wanted, epsilon in zip((1.0, 20.0), epsilons_for(a, b, (1.0, 20.0)), strict=True):
        assert similarity.count(a, b, epsilon) == wanted * len(a)


def test_equations_are_solved_exactly():
    numbers = [[1.0, 2e9], [3.0, 4e9]]
    np.testing.assert_allclose(solve(numbers, [5.0, 11.0]), [1.0, 2e-9])


def test_patches_and_their_moments():
    picture = np.zeros((24, 32, 3))
    picture[:8, :8] = 1.0
    patches = cut(picture)
    assert patches.shape == (2 * 3, 256, 3)
    np.testing.assert_allclose(moments_of(patches)[0, :3], 0.25)
    np.testing.assert_allclose(moments_of(patches)[0, 3:6], np.sqrt(0.25 * 0.75))
    np.testing.assert_allclose(
        to_hsv(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])),
        [[0, 1, 1], [1 / 3, 1, 1], [2 / 3, 1, 1], [0, 0, 1]],
    )
