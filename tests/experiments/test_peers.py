"""The structures that the papers compare with find what is there."""

import numpy as np
import pytest

from benchmarks.boolean_workloads import Setting, World
from benchmarks.covering_workloads import (
    ORDERS,
    check_same_decisions,
    make_commands,
    run,
)
from benchmarks.index_search import IndexSearch, check_same
from experiments.array_constructs import ArrayConstructs
from experiments.bestar_sweeps import Scan
from experiments.bit_vectors import BitVectorSearch
from experiments.covering_runs import METHODS, run_all
from experiments.cr_tree import CRTree
from experiments.hashed_constructs import HashedConstructs, chain, next_prime
from experiments.interval_skip_list import IntervalSkipList, SkipListSearch
from experiments.kindex import KIndex
from experiments.measuring import boxes, check_equal
from experiments.rivals import DirectList, NestedList, build_packed_tree, build_rstar_tree
from experiments.rtree_join import RTreeJoin, build_tree
from experiments.similarity_cases import digest
from tests.experiments.plain_boxes import PlainBoxes
from tocsin import similarity
from tocsin.covering import CoverIndex
from tocsin.index.constructs.decomposition import decompose_rectangle
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.model.keys import EventBatch
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.output import collect_pairs, count_pairs, stream_pairs


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


def test_leaves_of_the_r_star_tree_are_those_of_insertion():
    """Nodes have at most 16 entries; packed ones are full but for the last of a level."""
    from rtree import index

    rng = np.random.default_rng(3)
    low, points = rng.random((2, 700)), rng.random((2, 5))
    high = low + 0.05
    settings = index.Property(variant=index.RT_Star, leaf_capacity=16, index_capacity=16)
    settings.near_minimum_overlap_factor = 8
    library = index.Index(properties=settings)
    for number, box in enumerate(np.concatenate([low, high]).T.tolist()):
        library.insert(number, box)
    expected = {frozenset(members) for _, members, _ in library.leaves()}
    trees = [build_rstar_tree(low, high, points).tree, build_packed_tree(low, high, points).tree]
    for tree in trees:
        assert (tree.stop - tree.first)[700:].max() <= 16
    leaves = [
        {
            frozenset(tree.ids[a:b].tolist())
            for a, b in zip(tree.first[700:].tolist(), tree.stop[700:].tolist(), strict=True)
            if a < 700
        }
        for tree in trees
    ]
    assert leaves[0] == expected
    assert sorted(map(len, leaves[1])) == [12] + 43 * [16]


@pytest.mark.parametrize("n", [1, 15, 16, 17, 700])
def test_rivals_find_the_intervals_that_are_there(n):
    rng = np.random.default_rng(n)
    low, points = rng.integers(0, 150, n), rng.integers(0, 220, 300)
    high = low + rng.integers(1, 60, n)
    structures = {
        "plain": PlainBoxes(low[None], high[None], points[None]),
        "Dlist": DirectList(low, high, points),
        "IS-list": SkipListSearch(low, high, points),
        "ncls": NestedList(low, high, points),
    }
    for longest in (1, 2, 8, 64):
        index = Intervals.build(
            *boxes(low[None], high[None], False), lattice="published", longest=longest
        )
        for table in (False, True):
            found = BitVectorSearch(index.layout, n, points, table)
            structures[f"LCI-BV, L = {longest}, table: {table}"] = found
    check_equal(structures, 300)


@pytest.mark.parametrize("seed", range(5))
def test_the_skip_list_finds_intervals_between_ends_and_of_no_length(seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 40, 60) / 4
    high = low + rng.integers(0, 20, 60) / 4
    points = rng.integers(-8, 80, 300) / 8
    plain = PlainBoxes(low[None], high[None], points[None])
    check_equal({"plain": plain, "IS-list": SkipListSearch(low, high, points)}, 300)


@pytest.mark.parametrize("seed", range(5))
def test_markers_of_the_skip_list_lead_from_end_to_end(seed):
    """Those of an interval cover exactly it, do not overlap, and are as high as they can be."""
    rng = np.random.default_rng(seed)
    skip_list, ends = IntervalSkipList(seed), []
    for count in (1, 2, 20, 200):
        while len(ends) < count:
            low = int(rng.integers(0, 150))
            ends.append((low, low + int(rng.integers(0, 90))))
            skip_list.insert(*ends[-1])
        nodes = list(skip_list.nodes())[1:]
        keys = [node.key for node in nodes]
        assert keys == sorted({end for interval in ends for end in interval})
        edges = [
            (node.key, after.key, level, node.markers[level])
            for node in nodes
            for level, after in enumerate(node.forward)
            if after is not None
        ]
        assert not any(skip_list.header.markers)
        for node in nodes:
            assert not any(
                marks for after, marks in zip(node.forward, node.markers) if after is None
            )
        for number, (low, high) in enumerate(ends):
            marked = sorted((a, b, level) for a, b, level, marks in edges if number in marks)
            steps = [low, *(b for _, b, _ in marked)]
            assert [a for a, _, _ in marked] == steps[:-1], "no gap and no overlap"
            assert steps[-1] == high
            touched = {node.key for node in nodes if number in node.at_node}
            assert touched == set(steps)
            for a, b, level in marked:
                above = [each for each in edges if each[2] > level and each[0] <= a <= b <= each[1]]
                assert not any(low <= each[0] and each[1] <= high for each in above)
    heights = [len(node.forward) for node in nodes]
    assert max(heights) > 3
    assert min(heights) == 1


def test_a_bit_vector_takes_less_storage_than_pointers():
    low = np.arange(0, 900, 30)
    conjunctions = boxes(low[None], low[None] + 20, False)
    index = Intervals.build(*conjunctions, lattice="published", longest=16)
    vector = BitVectorSearch(index.layout, len(low), low, True)
    constructs, activated = len(index.layout.piece) - 1, 2 * len(low)  # 20 = 16 + 4
    assert constructs == 5 * (870 + 20 + 3), "R = 893 and k = 4"
    assert vector.nbytes == (
        12 * (constructs // 64 + 2)
        + 8 * (activated + 1)
        + 4 * activated
        + vector.vector.mask.nbytes
    )
    assert vector.nbytes < index.nbytes / 5


@pytest.mark.parametrize("kind", ["simple", "overlapped"])
@pytest.mark.parametrize("places", [1, 101, 1_800_017])
@pytest.mark.parametrize("n", [1, 300])
def test_published_constructs_find_what_is_there(n, places, kind):
    rng = np.random.default_rng(n)
    low, points = rng.integers(0, 40, (2, n)), rng.integers(-5, 70, (2, 150))
    high = low + rng.integers(1, [[30], [15]], (2, n))
    options = {"longest": [8, 4], "decomposition": kind, "hashed": True, "lattice": "published"}
    index = Rectangles.build(*boxes(low, high, False), **options)
    hashed = HashedConstructs(index, points, places)
    index = Rectangles.build(*boxes(low, high, False), **options | {"hashed": False})
    array = ArrayConstructs(index, points)
    check_equal({"plain": PlainBoxes(low, high, points), "hashed": hashed, "array": array}, 150)
    all_pieces = [
        piece
        for (x, y), (right, top) in zip(low.T.tolist(), high.T.tolist(), strict=True)
        for piece in decompose_rectangle(x, y, right - x, top - y, (8, 4), kind == "overlapped")
    ]
    pieces = set(all_pieces)
    assert hashed.activated == len(pieces)
    assert hashed.load == len(pieces) / places
    covers = [
        [p for p in pieces if p[0] <= x <= p[0] + p[2] and p[1] <= y <= p[1] + p[3]]
        for x, y in points.T.tolist()
    ]
    for structure in (hashed, array):
        offsets, out = np.zeros(151, np.int64), np.zeros(structure.size + 10**6, np.int32)
        assert structure.search(0, 150, offsets, out) == 150
        assert np.diff(offsets).max() == structure.size
        # As published, an id is reported for each of its pieces that is met.
        expected = [
            sum(p[0] <= x <= p[0] + p[2] and p[1] <= y <= p[1] + p[3] for p in all_pieces)
            for x, y in points.T.tolist()
        ]
        assert np.diff(offsets).tolist() == expected
    found = sum(map(len, covers)) / 150
    if places == 1:  # one chain of all
        assert hashed.collisions == len(pieces) - 1
        assert n == 1 or hashed.count_probes(150) > 10 * found
    elif places == 101:
        assert hashed.collisions >= len(pieces) - 101
    else:  # hardly more than those that are there
        assert hashed.collisions < 0.01 * len(pieces)
        assert found <= hashed.count_probes(150) < found + 1


def test_primes():
    assert [next_prime(n) for n in (0, 2, 8, 9, 320_000)] == [2, 2, 11, 11, 320_009]
    assert next_prime(1_800_017) == 1_800_017, "the paper's"


def test_constructs_that_are_clustered_are_spread_over_the_hash_table():
    """VCR, 2.2.3: that is what numbers are randomised for."""
    head, after = np.full(1_800_017, -1, np.int32), np.empty(5000, np.int32)
    chain(np.arange(70_000, 75_000), head, after)
    tenths, _ = np.histogram(np.flatnonzero(head >= 0), 10, (0, len(head)))
    assert 400 < tenths.min() <= tenths.max() < 600


def test_published_constructs_need_the_published_index():
    low, points = np.array([[1], [2]]), np.array([[1], [2]])
    for options in ({"hashed": True}, {"lattice": "published", "hashed": False}):
        index = Rectangles.build(*boxes(low, low + 3, False), **options)
        with pytest.raises(ValueError, match="published"):
            HashedConstructs(index, points, 7)
    for options in ({"hashed": False}, {"lattice": "published", "hashed": True}):
        index = Rectangles.build(*boxes(low, low + 3, False), **options)
        with pytest.raises(ValueError, match="published"):
            ArrayConstructs(index, points)


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


def test_a_scan_finds_what_is_there():
    world = World(Setting(dimensions=12, rule_size=(1, 6), event_size=(6, 9), match=0.02))
    c, keys = world.rules(700), world.events(60)
    scan = Scan(c)
    offsets, out = np.zeros(61, np.int64), np.zeros(60 * 700, np.int32)
    assert scan.candidates(EventBatch.whole(keys, 12), offsets, out) == 60
    assert (~out.reshape(60, 700) == np.arange(700)).all(), "each rule is to be evaluated"
    searches = {
        "exhaustive": IndexSearch(Exhaustive.build(c), keys, 12),
        "SCAN": IndexSearch(scan, keys, 12),
    }
    check_equal(searches, 60)


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
