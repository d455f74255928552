"""Data and parameters are those of the papers."""

import numpy as np
import pytest

from benchmarks.covering_workloads import (
    ORDERS,
    RULE_SETS,
    make_commands,
)
from experiments import (
    bestar,
    bestar_topk,
    grid_data,
    uncertain_runs,
)
from experiments.bestar_sweeps import leaf_capacity
from experiments.bestar_topk import CASES, MATCH_CASES
from experiments.grid_cycles import move, z_order
from experiments.grid_data import SHAPES, draw_clusters, query_sides
from experiments.image_features import cut, moments_of, to_hsv
from experiments.similarity_cases import epsilons_for, make_case, skewed
from experiments.uncertain_runs import BANDWIDTHS, RATES, TARGET
from experiments.vci import draw_intervals
from experiments.vcr import draw_events, draw_predicates
from tocsin import similarity
from tocsin.covering import CoverIndex


@pytest.mark.parametrize(("hot", "share"), [(None, 0.1), (0.1, 0.91), (0.01, 0.91)])
def test_predicates_are_those_of_the_simulation(hot, share):
    """VCR, 3.1: 90% of corners are in a central share of the area, sides are 1 to Wx and Wy."""
    side, most, n = np.array([[300], [200]]), np.array([[40], [20]]), 40_000
    low, high = draw_predicates(n, (300, 200), (40, 20), hot)
    for points in (low, draw_events(n, (300, 200), hot)):
        assert points.min() == 0
        assert (points < side).all()
        distance = np.abs(points + 0.5 - side / 2) / side
        central = (distance <= np.sqrt(hot or 0.1) / 2).all(axis=0)
        assert central.mean() == pytest.approx(share, abs=0.02)
        inner = (distance <= np.sqrt(hot or 0.1) / 4).all(axis=0)
        assert inner.mean() == pytest.approx(share / 4, abs=0.03), "uniform there"
        assert points.mean(axis=1) == pytest.approx([150, 100], rel=0.02)
    assert (high <= side).all(), "cut at the end of the domain"
    for axis in (0, 1):
        whole = low[axis] + most[axis] <= side[axis]
        widths = np.bincount((high - low)[axis, whole])
        assert widths[0] == 0
        assert len(widths) == most[axis] + 1
        assert widths[1:] / widths.sum() == pytest.approx(1 / most[axis, 0], rel=0.25)


def test_intervals_lie_in_the_papers_range():
    low, high, values = draw_intervals(20_000, 20_000)
    assert (low.min(), high.max()) == (0, 4999), "R = 5,000, from a_0 to a_0 + R - 1"
    assert (values.min(), values.max()) == (0, 4999)
    assert (high - low).min() == 1
    assert (high - low).max() == 500


# Table III, then its columns of matching probability: dimensions, cardinality, clusters, size
# of a cluster (none given for DBLP), average sizes of subscriptions and events.
SYNTHETIC = (400, 250_000_000, 4, 100, 8, 15)


TABLE_III = {
    "uniform": (*SYNTHETIC, 0.0),
    "Zipf": (*SYNTHETIC, 1.0),
    "author": (677, 26**3, None, None, 8, 8, 1.0),
    "title": (677, 26**3, None, None, 35, 35, 1.0),
}


TABLE_III_MATCH = {
    "uniform": (*SYNTHETIC, 0.0),
    "Zipf": (*SYNTHETIC, 1.0),
    "author": (677, 26**3, 4, 100, 8, 16, 1.0),
    "title": (677, 26**3, 4, 100, 30, 43, 1.0),
}


@pytest.mark.parametrize(("cases", "table"), [(CASES, TABLE_III), (MATCH_CASES, TABLE_III_MATCH)])
def test_boolean_workloads_are_those_of_table_iii(cases, table):
    assert list(cases) == list(table)
    for case, (dimensions, cardinality, clusters, cluster_size, rule, event, zipf) in table.items():
        setting = cases[case]
        assert (setting.dimensions, setting.cardinality) == (dimensions, cardinality)
        if clusters is not None:
            assert (setting.clusters, setting.cluster_size) == (clusters, cluster_size)
        assert (sum(setting.rule_size) / 2, sum(setting.event_size) / 2) == (rule, event)
        assert (setting.match, setting.zipf) == (0.001, zipf)
    # Table II(a).
    shares = (0.0001, 0.00999, 0.01, 0.0999, 0.1, 0.5)
    assert [leaf_capacity(share) for share in shares] == [5, 5, 20, 20, 160, 160]


def test_numbers_of_rules_are_those_of_table_iii():
    """And the ends of what figures change."""
    full = {"uniform": 1_000_000, "Zipf": 1_000_000, "author": 760_000, "title": 250_000}
    s, top = bestar._SIZES["full"], bestar_topk._SIZES["full"]
    assert s["built"] == full, "Table II(b)"
    assert (s["rules"], s["million"]) == (100_000, 1_000_000)
    ends = {name: (s[name][0], s[name][-1]) for name in ("cardinalities", "dimensions")}
    assert ends == {"cardinalities": (2_500, 250_000_000), "dimensions": (50, 1_400)}
    ends = {name: (s[name][0], s[name][-1]) for name in ("clusters", "cluster_sizes")}
    assert ends == {"clusters": (2, 26), "cluster_sizes": (25, 800)}
    assert {case: counts[-1] for case, counts in top["counts"].items()} == full
    least = {"uniform": 100_000, "Zipf": 100_000, "author": 100_000, "title": 50_000}
    assert {case: counts[0] for case, counts in top["counts"].items()} == least
    assert (top["matches"][0], top["matches"][-1]) == (0.0001, 0.09)
    assert top["match_rules"] == full | {"author": 400_000, "title": 150_000}


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


def test_skewed_objects_are_nearer_to_the_five_centres_than_queries(monkeypatch):
    """Thesis, 3.3: standard deviations of 0.05 and 0.1."""
    drawn = {}

    def draw(rng, centres, spread, margins):
        found = draw_clusters(rng, centres, spread, margins)
        drawn[margins.shape[1]] = centres.copy(), (found - 0.5).std()
        return found

    class Middle(np.random.Generator):
        def random(self, size):
            assert size == (2, 5)
            return np.full(size, 0.5)

    monkeypatch.setattr(grid_data, "draw_clusters", draw)
    grid_data.skewed(Middle(np.random.PCG64(1)), 40_000, 20_000, query_sides(20_000, False))
    assert drawn[40_000][1] == pytest.approx(0.05, rel=0.02)
    assert drawn[20_000][1] == pytest.approx(0.1, rel=0.02)
    np.testing.assert_array_equal(drawn[40_000][0], drawn[20_000][0])


def test_objects_stay_inside_the_square():
    moved = move(np.array([[0.1, 0.9], [0.5, 0.5]]), np.array([[-0.1, 0.1], [0.0, 0.1]]), 3)
    np.testing.assert_allclose(moved, [[0.2, 0.8], [0.5, 0.8]])


def test_z_order():
    points = np.array([[0.1, 0.9, 0.1, 0.9], [0.9, 0.9, 0.1, 0.1]])
    assert z_order(points).tolist() == [2, 3, 0, 1]


def test_z_order_interleaves_the_bits_of_both_axes():
    points = np.random.default_rng(2).random((2, 500))
    points[:, :100] *= 2e-3  # that differ in the last bits only

    def interleave(x, y):
        return int("".join(b + a for a, b in zip(f"{x:016b}", f"{y:016b}", strict=True)), 2)

    codes = [interleave(int(x * 65536), int(y * 65536)) for x, y in points.T]
    assert [codes[i] for i in z_order(points)] == sorted(codes)


@pytest.mark.parametrize("rules", RULE_SETS)
def test_rule_sets_are_boxes(rules):
    for id, low, high in make_commands(300, 4, 0.2, 0, rules):
        if low is not None:
            CoverIndex(4).add(id, low, high)


def test_commands_are_those_of_the_paper():
    """Covering, V-A: sides are random segments, and unsubscribes have probability p."""
    commands = make_commands(20_000, 3, 0.15, 0)
    boxes = np.array([(low, high) for _, low, high in commands if low is not None])
    assert len(commands) == 20_000
    assert abs(1 - len(boxes) / 20_000 - 0.15) < 0.01
    assert (boxes[:, 0] <= boxes[:, 1]).all()
    # The ends of a random segment are the smaller and the larger of two uniform numbers.
    np.testing.assert_allclose(boxes.mean(axis=0), [[1 / 3] * 3, [2 / 3] * 3], atol=0.01)
    np.testing.assert_allclose(boxes.std(axis=0), np.sqrt(1 / 18), atol=0.01)
    live, ages = [], []
    for id, low, _ in commands:
        if low is None:
            ages.append(live.index(id) / len(live))
            live.remove(id)
        else:
            live.append(id)
    assert abs(np.mean(ages) - 0.5) < 0.02
    assert abs(np.std(ages) - np.sqrt(1 / 12)) < 0.02


def test_an_order_of_unsubscribes():
    removed = {
        order: [id for id, low, _ in make_commands(300, 1, 0.3, 0, order=order) if low is None]
        for order in ORDERS
    }
    assert removed["oldest"] == sorted(removed["oldest"])
    assert all(len(set(ids)) == len(ids) for ids in removed.values())
    assert removed["random"] != removed["oldest"]


def test_an_epsilon_has_the_selectivity_that_it_was_chosen_for():
    rng = np.random.default_rng(0)
    a, b = rng.random((200, 3)), rng.random((300, 3))
    for wanted, epsilon in zip((1.0, 20.0), epsilons_for(a, b, (1.0, 20.0)), strict=True):
        assert similarity.count(a, b, epsilon) == wanted * len(a)


def test_skewed_points_are_in_the_unit_cube():
    for points in skewed(5_000, 32):
        assert points.min() >= 0
        assert points.max() <= 1
        for _ in range(5):  # clusters, each with about a fifth of the points
            is_near = (np.abs(points - points[0]) < 0.45).all(axis=1)
            assert 850 < is_near.sum() < 1_150
            assert 0.04 < points[is_near].std(axis=0).max() < 0.06
            points = points[~is_near]
        assert len(points) == 0


def test_joins_have_the_sizes_of_the_thesis():
    """4.4.2: 4-D uniform, Figs. 4.14 to 4.19; 0.07 lies between the epsilons of the last."""
    for name, count in (("4-D uniform", 100_000), ("4-D uniform, 200,000", 200_000)):
        case = make_case(name, 1)
        assert case.a.shape == case.b.shape == (count, 4)
    assert case.epsilons[0] < 0.07 < case.epsilons[-1]


def test_refreshes_have_the_parameters_of_the_thesis():
    """5.7.2: Table 5.2's defaults, a goal of -0.06, and 5 to 45 queries per second."""
    assert (RATES[0], RATES[-1], TARGET) == (5, 45, -0.06)
    assert {25, 20} < set(RATES)
    assert {200, 350} < set(BANDWIDTHS)
    assert uncertain_runs.SIZES["full"].options.keys() == {"duration", "warm_up"}


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
