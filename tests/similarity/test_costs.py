"""Estimates: what a join will find, the grid size of the thesis, and costs that were measured."""

import json
import math
import warnings
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import tocsin
from tests.similarity import oracle
from tocsin import similarity
from tocsin.similarity import calibration, costs, grid_costs, unit_costs
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.grid_join import GridJoin, copy_later, upper_bound
from tocsin.similarity.output import collect_pairs, stream_pairs


@pytest.mark.parametrize(("d", "epsilon"), [(2, 0.01), (4, 0.1), (9, 0.4)])
def test_the_number_of_pairs(d, epsilon):
    rng = np.random.default_rng(0)
    a, b = rng.random((5000, d)), rng.random((30_000, d))
    expected = similarity.estimate(a, b, epsilon)
    found = similarity.count(a, b, epsilon)
    assert expected.pairs == pytest.approx(found, rel=0.2)
    assert expected.selectivity == pytest.approx(found / 5000, rel=0.2)
    assert expected.nbytes > 16 * found * 0.8
    assert expected.method in similarity.METHODS
    assert expected.seconds == min(expected.seconds_by_method.values()) > 0
    assert f"with {expected.method}" in str(expected)


def test_an_epsilon_that_cannot_be_meant():
    """For 10^5 uniform points in 32 dimensions, m^(-1/d) is 0.70, but l2 needs 1.27."""
    rng = np.random.default_rng(0)
    a, b = rng.random((100_000, 32)), rng.random((100_000, 32))
    with pytest.warns(tocsin.SimilarityWarning, match="hardly any; epsilon") as caught:
        similarity.estimate(a, b, 0.7)
    usual = float(str(caught[0].message).split("epsilon ")[2].split(" ")[0])
    assert usual == pytest.approx(1.27, rel=0.06)
    with pytest.warns(tocsin.SimilarityWarning, match="more than can be meant"):
        similarity.estimate(a, b, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        similarity.estimate(a[:2000], b, 1.27)


@pytest.mark.parametrize(
    ("wanted", "warns"), [(0.005, True), (0.03, False), (60.0, False), (180.0, True)]
)
def test_up_to_100_pairs_per_point_can_be_meant(wanted, warns):
    """4.4.1: "unlikely more than 100"; below 0.01 there are hardly any."""
    rng = np.random.default_rng(0)
    a, b = 0.2 + 0.6 * rng.random((2000, 2)), rng.random((2000, 2))
    epsilon = math.sqrt(wanted / 2000 / math.pi)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = similarity.estimate(a, b, epsilon)
    assert found.selectivity == pytest.approx(wanted, rel=0.5)
    assert bool(caught) == warns


@pytest.mark.parametrize("cheapest", costs.PRICED)
def test_the_cheapest_method_is_chosen(monkeypatch, cheapest):
    """4.6: by estimated cost; in a self-join, too."""
    rng = np.random.default_rng(0)
    a, b = rng.random((1500, 3)), rng.random((1500, 3))
    closeness = read_closeness(0.05, "l2", False)
    monkeypatch.setattr(costs, "price", lambda method, *_: 1.0 + (method != cheapest))
    assert costs.choose_method(a, b, closeness, same=False) == cheapest
    assert costs.choose_method(a, a, closeness, same=True) == cheapest


def test_least_prices_are_least():
    """A method is not priced if its least price is above the price of another one."""
    rng = np.random.default_rng(0)
    for n, d, epsilon in ((2000, 2, 0.01), (5000, 4, 0.1), (3000, 16, 0.9)):
        a, b = rng.random((n, d)), rng.random((n, d))
        shares = costs.Shares(a, b, read_closeness(epsilon, "l2", False), *costs.QUICK)
        for method in costs.PRICED:
            for same in (False, True):
                assert costs.least_price(method, shares, same) <= costs.price(method, shares, same)


def test_a_self_join_by_grid_takes_less():
    """It sorts one set instead of two, and compares each pair once."""
    a = np.random.default_rng(0).random((3000, 4))
    shares = costs.Shares(a, a, read_closeness(0.1, "l2", False), *costs.QUICK)
    phases = grid_costs.estimate(shares.problem, grid_costs.find_size(shares.problem))
    saved = 0.5 * phases.sort + 0.5 * phases.process
    assert costs.price("grid", shares, same=False) == pytest.approx(phases.total)
    assert costs.price("grid", shares, same=True) == pytest.approx(phases.total - saved)


def test_the_usual_epsilon_gives_about_one_pair():
    rng = np.random.default_rng(1)
    for d in (2, 4, 9):
        a, b = rng.random((3000, d)), rng.random((60_000, d))
        epsilon = costs.find_epsilon(a, b, read_closeness(1.0, "l2", False))
        assert 0.3 < similarity.count(a, b, epsilon) / 3000 < 3


def test_estimates_do_not_depend_on_the_order_of_points():
    rng = np.random.default_rng(1)
    b = rng.random((60_000, 2))
    closeness = read_closeness(1.0, "l2", False)
    epsilon = costs.find_epsilon(b[:3000], b[np.argsort(b[:, 0])], closeness)
    assert epsilon == pytest.approx(costs.find_epsilon(b[:3000], b, closeness), rel=0.3)


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::tocsin.SimilarityWarning")
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_outliers_and_extremes(scale):
    """Some points are far outside of the box around a sample."""
    rng = np.random.default_rng(0)
    a = rng.standard_cauchy((3000, 3)).clip(-1e6, 1e6)
    a *= scale
    for metric in ("l1", "linf"):
        assert similarity.estimate(a, a, 0.1 * scale, metric).pairs > 0
        found = similarity.self_join(a, 0.1 * scale, metric=metric)
        assert len(found) == len(similarity.self_join(a, 0.1 * scale, "exhaustive", metric))


def test_equal_points_have_no_usual_epsilon():
    with pytest.warns(tocsin.SimilarityWarning, match="more than can be meant$"):
        similarity.estimate(np.zeros((2000, 2)), np.zeros((2000, 2)), 1)


def test_the_upper_bound_of_the_grid_size():
    """Fig. 4.10 ends at 190: epsilon 0.001 and 20,000 circles give 189."""
    assert upper_bound(20_000, 0.001) == 189
    # Above 1 / (2 sqrt(pi m)) the other formula holds.
    assert upper_bound(20_000, 0.01) == math.ceil(4 * math.sqrt(math.pi) * 0.01 * 20_000)


@pytest.mark.parametrize(("m", "epsilon"), [(10_000, 0.001), (10_000, 0.2), (10, 0.4)])
def test_a_grid_takes_little_memory(monkeypatch, m, epsilon):
    """4.3.2: the upper bound is limited by memory, even if the finest grid is the fastest."""
    finer_is_faster = [float(i == 3) for i in range(18)]  # the width of a cell
    made = {"initialise": [0, 0, 0], "load": [0] * 18, "process": [finer_is_faster] * 2,
            "dimension": 0.0, "sort": 0.0}  # fmt: skip
    monkeypatch.setattr(unit_costs, "load", lambda: {"grid": made})
    n = grid_costs.find_size(grid_costs.Problem(m, m, epsilon, 2))
    assert 1 < n <= upper_bound(m, epsilon)
    assert n * n <= 5 * m + 1
    assert (2 * epsilon * n + 2) ** 2 < 50  # cells that a circle may meet


@pytest.mark.parametrize("lowest", [1, 2, 17, 74, 189, 190])
def test_bisection_finds_the_leftmost_minimum(lowest):
    assert grid_costs.find_minimum(lambda n: max(abs(n - lowest), 1), 1, 190) == max(
        min(lowest - 1, 190), 1
    )
    assert grid_costs.find_minimum(lambda n: abs(n - lowest), 1, 190) == lowest


def test_any_grid_size_finds_the_same_pairs():
    rng = np.random.default_rng(2)
    a, b = rng.random((500, 2)), rng.random((400, 2))
    closeness = read_closeness(0.05, "l2", False)
    expected = sorted(oracle.join(a, b, 0.05))
    for size in (1, 2, 7, 33, 200):
        for z_sort in (True, False):
            search = GridJoin(a, b, closeness, False, size, z_sort)
            assert sorted(zip(*collect_pairs(search), strict=True)) == expected


def test_full_lists_need_no_comparison():
    """In two dimensions, with cells much smaller than circles, most entries are in full lists."""
    rng = np.random.default_rng(3)
    a = rng.random((300, 2))
    search = GridJoin(a, a, read_closeness(0.3, "l2", False), True, 60)
    assert len(search._full.entry) > 5 * len(search._part.entry)
    deep = GridJoin(rng.random((9, 3)), rng.random((9, 3)), read_closeness(0.3, "l2", False), False)
    assert len(deep._full.entry) == 0


def lists_of(lists, n):
    """Return the entries of each cell."""
    start = lists.start.tolist()
    return [set(lists.entry[start[c] : start[c + 1]].tolist()) for c in range(n * n)]


@pytest.mark.parametrize("d", [2, 3])
def test_full_and_part_lists(d):
    """Fig. 4.5: 10 x 10 cells over the unit square; C.full and C.part by their definitions."""
    n, epsilon = 10, 0.17
    rng = np.random.default_rng(0)
    b = rng.random((60, d))
    b[0], b[1] = 0, 1
    join = GridJoin(rng.random((90, d)), b, read_closeness(epsilon, "l2", False), False, n)
    order = join._b.tolist()
    part, full = lists_of(join._part, n), lists_of(join._full, n)
    for cell in range(n * n):
        low = cell // n / n, cell % n / n
        expected_part, expected_full = set(), set()
        for row, i in enumerate(order):
            near = [max(low[k] - b[i, k], b[i, k] - low[k] - 1 / n, 0) for k in range(2)]
            far = [max(b[i, k] - low[k], low[k] + 1 / n - b[i, k]) for k in range(2)]
            if math.hypot(*far) < epsilon and d == 2:
                expected_full.add(row)
            elif math.hypot(*near) < epsilon:
                expected_part.add(row)
        assert (part[cell], full[cell]) == (expected_part, expected_full)
    assert any(full) == (d == 2)


def test_the_grid_is_over_the_smaller_set():
    """4.4.3: that was always faster."""
    rng = np.random.default_rng(0)
    few, many = rng.random((40, 2)), rng.random((90, 2))
    for a, b in ((few, many), (many, few)):
        join = GridJoin(a, b, read_closeness(0.1, "l2", False), False)
        assert len(join._b) == 40
        assert sorted(zip(*collect_pairs(join), strict=True)) == sorted(oracle.join(a, b, 0.1))


@pytest.mark.parametrize(("d", "metric"), [(2, "l2"), (2, "linf"), (3, "l2")])
def test_a_self_join_compares_each_pair_once(d, metric):
    """A point looks at the entries of its lists that have a larger number, in their order."""
    points = np.random.default_rng(0).random((300, d))
    join = GridJoin(points, points, read_closeness(0.2, metric, False), True, 9)
    numbers, later = join._b, np.empty(300, np.int32)
    for lists in (join._part, join._full):
        for cell, x in ((0, 150), (40, 0), (40, 150), (40, 299), (80, 20)):
            entries = lists.entry[lists.start[cell] : lists.start[cell + 1]].tolist()
            expected = [j for j in entries if numbers[j] > x]
            later[0] = 7  # stays
            n = copy_later(lists, cell, numbers, x, later, 1)
            assert later[:n].tolist() == [7, *expected]


def test_a_self_join_continues_where_its_output_was_full():
    points = np.random.default_rng(0).random((300, 2))
    closeness = read_closeness(0.2, "l2", False)
    left, right = collect_pairs(GridJoin(points, points, closeness, True))
    for room in (1, 7, 1000):
        blocks = stream_pairs(GridJoin(points, points, closeness, True), room)
        found = [pair for i, j in blocks for pair in zip(i.tolist(), j.tolist(), strict=True)]
        assert found == list(zip(left.tolist(), right.tolist(), strict=True))
    assert sorted(found) == sorted(oracle.self_join(points, 0.2))


def test_points_are_in_z_order():
    """3.2.6: quarter by quarter, and so on within each."""
    rng = np.random.default_rng(0)
    points = rng.random((500, 2))
    points[0], points[1] = 0, 1
    others = rng.random((300, 2))
    closeness = read_closeness(0.1, "l2", False)

    def place(x, y):
        bits = []
        for _ in range(8):
            x, y = 2 * x, 2 * y
            bits += [y >= 1, x >= 1]
            x, y = x - (x >= 1), y - (y >= 1)
        return bits

    def check(order, rows):
        assert sorted(order.tolist()) == list(range(len(rows)))
        places = [place(*rows[i].tolist()) for i in order.tolist() if rows[i].max() < 1]
        assert places == sorted(places)

    check(GridJoin(points, points, closeness, True, 8)._a, points)
    both = GridJoin(points, others, closeness, False, 8)
    check(both._a, points)
    check(both._b, others)
    unsorted = GridJoin(points, others, closeness, False, 8, z_sort=False)
    assert unsorted._b.tolist() == list(range(300))


def test_estimators_are_the_polynomials_of_the_thesis():
    """4.3.4 to 4.3.7, with the thesis' coefficients of the first phase."""
    rng = np.random.default_rng(0)
    load, small, large = rng.random((3, 18)).tolist()
    made = {"initialise": [8.26e-7, 0, 0], "load": load, "process": [small, large],
            "dimension": 0.0, "sort": 3e-8}  # fmt: skip

    def polynomial(coefficients, x, epsilon, m):
        terms = iter(coefficients)
        return sum(next(terms) * m**h * x**i * epsilon**j
                   for h in range(2) for i in range(3) for j in range(3))  # fmt: skip

    k, m = 1000, 5000
    for n, epsilon in ((10, 0.056), (10, 0.057), (100, 0.001), (200, 0.02)):
        found = grid_costs.estimate(grid_costs.Problem(k, m, epsilon, 2), n, made)
        assert found.initialise == pytest.approx(8.26e-7 * n**2)
        assert found.load == pytest.approx(polynomial(load, n, epsilon, m))
        # A circle counts as large if a square of its area is at least as large as a cell.
        is_large = epsilon * math.sqrt(math.pi) >= 1 / n
        own = large if is_large else small
        assert is_large == ((n, epsilon) in ((10, 0.057), (200, 0.02)))
        assert found.process == pytest.approx(k * polynomial(own, 1 / n, epsilon, m))
        assert found.sort == pytest.approx(3e-8 * (k + m))  # a phase of our own
        phases = found.initialise, found.sort, found.load, found.process
        assert found.total == pytest.approx(sum(phases))


def test_a_finer_grid_is_slower_to_load_and_faster_to_search():
    """4.3.1, by the costs that were measured."""
    problem = grid_costs.Problem(100_000, 100_000, 0.005, 2)
    coarse, fine = (grid_costs.estimate(problem, n) for n in (10, 100))
    assert coarse.initialise <= fine.initialise
    assert 2 * coarse.load < fine.load
    assert coarse.process > 2 * fine.process


def test_eighteen_joins_determine_eighteen_coefficients():
    """4.3.5: three grid sizes, three epsilons and two cardinalities."""
    points = (10, 100, 200), (0.001, 0.01, 0.02), (50_000, 100_000)
    assert points == (calibration.SIZES, calibration.EPSILONS, calibration.COUNTS)
    table = np.array([grid_costs.terms(*point) for point in product(*points)])
    assert table.shape == (18, 18)
    assert np.linalg.matrix_rank(table / np.abs(table).max(axis=0)) == 18


def test_phases_are_timed_apart(monkeypatch):
    """4.3: the total is the sum of the phases, so none may be part of another one."""
    clock = [0.0]
    monkeypatch.setattr(calibration, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow_down(name, seconds):
        original = getattr(calibration._Phases, name)

        def run(join):
            clock[0] += seconds
            original(join)

        monkeypatch.setattr(calibration._Phases, name, run)

    for name, seconds in (("initialise", 100), ("load", 10), ("process", 1)):
        slow_down(name, seconds)
    assert calibration.time_phases(10, 0.01, 100, 50) == (100, 10, 1)


def test_squares_in_two_and_in_eight_dimensions():
    """4.4.1: a square of side 0.1 is 1% of the domain; in eight dimensions, 10^-6 % of it."""
    rng = np.random.default_rng(0)
    for d, n, share in ((2, 3000, 0.01), (8, 100_000, 1e-8)):
        a, b = 0.05 + 0.9 * rng.random((n, d)), rng.random((n, d))
        found = similarity.count(a, b, 0.05, metric="linf")
        assert found / n**2 == pytest.approx(share, abs=5 * math.sqrt(share) / n)


def test_a_domain_that_is_twice_as_large():
    """4.4.1: an epsilon of 0.1 over [-1, 1]^d is one of 0.05 over [0, 1]^d."""
    rng = np.random.default_rng(0)
    a, b = rng.random((500, 3)), rng.random((400, 3))
    expected = sorted(oracle.join(a, b, 0.05))
    assert len(expected) > 50
    assert sorted(similarity.join(2 * a - 1, 2 * b - 1, 0.1)) == expected


def test_unit_costs_fit_what_they_were_made_of():
    steps = [[1.0, n, n * d] for n in (10, 100, 1000) for d in (2, 8)]
    seconds = [float(np.dot(each, [5.0, 0.3, 0.02])) for each in steps]
    assert calibration.fit(steps, seconds) == pytest.approx([5.0, 0.3, 0.02])
    # A cost that would be negative is 0.
    assert min(calibration.fit(steps, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0])) == 0


def test_calibration(tmp_path, monkeypatch):
    monkeypatch.setattr(unit_costs, "saved_file", lambda: tmp_path / "costs.json")
    unit_costs.load.cache_clear()
    shipped = unit_costs.load()
    *_, (_, measured) = calibration.calibrate(shrink=100)
    assert measured.keys() | {"format"} == shipped.keys()
    assert measured["grid"].keys() == shipped["grid"].keys()
    unit_costs.save(measured, tmp_path / "costs.json")
    assert unit_costs.load() == json.loads((tmp_path / "costs.json").read_text())
    a = np.random.default_rng(0).random((2000, 3))
    assert set(similarity.self_join(a[:300], 0.2)) == oracle.self_join(a[:300], 0.2) != set()
    (tmp_path / "costs.json").write_text("{")
    unit_costs.load.cache_clear()
    with pytest.raises(tocsin.SimilarityError, match="damaged; delete it, or run"):
        unit_costs.load()
    (tmp_path / "costs.json").write_text('{"format": 0}')  # of an older version
    assert unit_costs.load() == shipped
    unit_costs.load.cache_clear()
