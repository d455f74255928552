"""The three searches, against each other and comparing all boxes, while boxes come and go."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tocsin
from tests.covering.oracle import contains, covers, random_box
from tocsin.covering import CoverIndex
from tocsin.covering.cover_index import METHODS, box_point
from tocsin.covering.kd_tree import KdTree
from tocsin.covering.z_curve import ZCurve, cell_key, jump_below, write_key

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"
ALL = 10_000


def make_searches(random, dimensions):
    """One of each method, with small limits, so that splits, merges and jumps are frequent."""
    overflow = random.choice([2, 4, 16])
    return [
        CoverIndex(
            dimensions, "kd", overflow=overflow, underflow=random.choice([0, overflow // 2])
        ),
        CoverIndex(dimensions, "z", bits=random.choice([1, 3, 8])),
        CoverIndex(dimensions, "naive"),
    ]


def check_answers(searches, boxes, box):
    covering = {each for each in boxes if contains(boxes[each], box)}
    covered = {each for each in boxes if contains(box, boxes[each])}
    for search in searches:
        found = search.covering(*box, k=ALL)
        assert (set(found), len(found)) == (covering, len(covering)), search.method
        some = search.covering(*box, k=2)
        assert len(some) == min(2, len(covering)), search.method
        assert set(some) <= covering, search.method
        found = search.covered(*box)
        assert (set(found), len(found)) == (covered, len(covered)), search.method
        assert len(search) == len(boxes)


def run_commands(seed, commands=400):
    rng = random.Random(seed)
    dimensions = rng.choice([1, 2, 3, 5, 8])
    size, missing = rng.choice([3, 8, 1000]), rng.choice([0.0, 0.3])
    grows = rng.random() < 0.3  # each box contains the ones before: the worst order for a tree
    searches, boxes = make_searches(rng, dimensions), {}
    for number in range(commands):
        box = random_box(rng, dimensions, size, missing)
        if grows:
            box = [-number] * dimensions, [number] * dimensions
        leaves = 0.35 if number < commands * 2 // 3 else 0.8  # in the end nearly all go
        if boxes and rng.random() < leaves:
            gone = rng.choice(list(boxes))
            del boxes[gone]
            for search in searches:
                search.remove(gone)
        else:
            boxes[number] = box
            for search in searches:
                search.add(number, *box)
        if number % 3 == 0:
            check_answers(searches, boxes, box)
        if boxes:
            some = rng.choice(list(boxes))
            above = {each for each in boxes if covers(boxes, each, some)}
            for search in searches:
                assert set(search.index.covering_id(some, ALL)) == above


@pytest.mark.parametrize("seed", range(500 if IS_LONG else 12))
def test_all_searches_agree(seed):
    run_commands(seed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dimensions", "size"), [(1, 40), (2, 1000), (5, 4), (8, 2)])
def test_many_boxes(dimensions, size, method):
    """So many that rows are in several chunks, and that cells are chosen more than once.

    Over five and eight attributes, keys of the Z-curve have several words.
    """
    rng = np.random.default_rng([dimensions, size])
    ends = np.sort(rng.integers(-size, size, (1500, 2, dimensions)), axis=1)
    cover = CoverIndex(dimensions, method, **({"bits": 12} if method == "z" else {}))
    live = np.zeros(len(ends), bool)
    for step in range(6):
        for number in rng.permutation(len(ends))[:900].tolist():
            if live[number]:
                cover.remove(number)
            else:
                cover.add(number, *ends[number].tolist())
            live[number] = not live[number]
        for low, high in ends[step::100]:
            larger = live & ((ends[:, 0] <= low) & (ends[:, 1] >= high)).all(axis=1)
            smaller = live & ((ends[:, 0] >= low) & (ends[:, 1] <= high)).all(axis=1)
            found = cover.covering(low.tolist(), high.tolist(), k=ALL)
            assert sorted(found) == np.flatnonzero(larger).tolist()
            found = cover.covering(low.tolist(), high.tolist(), k=1)
            assert len(found) == larger.any()
            assert larger[found].all()
            found = cover.covered(low.tolist(), high.tolist())
            assert sorted(found) == np.flatnonzero(smaller).tolist()


@pytest.mark.skipif(not IS_LONG, reason="compiles all kernels again, which takes a minute")
def test_with_bounds_checks(tmp_path):
    code = (
        "from tests.covering.test_searches import run_commands\nfor s in range(6): run_commands(s)"
    )
    environment = os.environ | {"TOCSIN_BOUNDS_CHECK": "1", "TOCSIN_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, check=True)


def test_the_papers_keys():
    assert cell_key((3, 5), 3) == 0b1_011011
    assert cell_key((3, 5), 3) - 2**6 == 27
    assert cell_key((0, 0), 1) == 0b100
    assert cell_key((0, 0), 2) == 0b10000


def test_the_papers_subscription():
    """IV: ([1, 1], [0, 30], [90, 100]) does not have the notification (1, 59, 87)."""
    subscription = [1, 0, 90], [1, 30, 100]
    for method in METHODS:
        cover = CoverIndex(3, method)
        cover.add("s", *subscription)
        assert cover.covering((1, 59, 87), (1, 59, 87)) == []
        assert cover.covering((1, 30, 90), (1, 30, 90)) == ["s"]


def test_the_papers_textbooks():
    """V-A: a subscription of three attributes is a point of six dimensions."""
    price, published, shipping = (0, 50), (1999, 2004), (2, 6)
    low, high = zip(price, published, shipping, strict=True)
    assert len(box_point(low, high, 3)) == 6
    for method in METHODS:
        cover = CoverIndex(3, method)
        cover.add("S", low, high)
        assert cover.covering((10, 2000, 3), (20, 2001, 6)) == ["S"]
        assert cover.covering((10, 2000, 3), (20, 2005, 6)) == []


# ------------------------------------------------------------ the k-d tree (IV-C)


class Node:
    """A node of a k-d tree, with all that is below it."""

    def __init__(self, tree, number, d):
        self.dimension, self.split = int(tree.dimension[number]), int(tree.split[number])
        self.children = []
        if self.dimension < 0:
            bucket, n = int(tree.left[number]), int(tree.length[number])
            rows = tree.key.reshape(len(tree.leaf), d, -1)[bucket, :, :n].T
            self.points = [tuple(row) for row in rows.tolist()]
        else:
            self.children = [Node(tree, int(c[number]), d) for c in (tree.left, tree.right)]
            self.points = [point for child in self.children for point in child.points]
        self.largest = tree.largest.reshape(-1, d)[number].tolist()
        self.smallest = tree.smallest.reshape(-1, d)[number].tolist()


def check_node(node, overflow):
    """Check what the paper says of nodes, and the corners that we added to them."""
    columns = list(zip(*node.points, strict=True))
    if columns:
        assert node.largest == [max(column) for column in columns]
        assert node.smallest == [min(column) for column in columns]
    if not node.children:
        assert len(node.points) <= overflow
        return
    left, right = node.children
    assert all(point[node.dimension] <= node.split for point in left.points)
    assert all(point[node.dimension] > node.split for point in right.points)
    check_node(left, overflow)
    check_node(right, overflow)


def leaves_of(node):
    """Return the sorted points of each leaf, in order."""
    if not node.children:
        return [sorted(node.points)]
    return [points for child in node.children for points in leaves_of(child)]


def leaves_without(node, point, overflow, underflow):
    """Return the leaves that are left if a point goes: small siblings that fit are merged."""
    if not node.children:
        return [sorted({*node.points} - {point})]
    at = int(point[node.dimension] > node.split)
    own, sibling = node.children[at], node.children[1 - at]
    is_small = not own.children and len(own.points) - 1 < underflow
    if is_small and not sibling.children and len(node.points) - 1 <= overflow:
        return [sorted({*node.points} - {point})]
    parts = [leaves_of(sibling), leaves_without(own, point, overflow, underflow)]
    return parts[1 - at] + parts[at]


def make_tree(points, **limits):
    tree = KdTree(points.shape[1], **limits)
    for entry, point in enumerate(points):
        tree.insert(point, entry)
    return tree


def root_of(tree):
    return Node(tree.tree, int(tree.tree.head[0]), tree.d)


def test_eight_points_in_two_dimensions():
    """Fig. 5: halved by the median of the first dimension, then by that of the second."""
    points = np.array([[i, 5 * i % 8] for i in range(8)], np.int64)
    tree = KdTree(2, overflow=2, underflow=1)
    tree.build(points, np.arange(8))
    root = root_of(tree)
    assert root.dimension == 0
    assert [len(child.points) for child in root.children] == [4, 4]
    for child in root.children:
        assert child.dimension == 1
        assert [len(leaf.points) for leaf in child.children] == [2, 2]


@pytest.mark.parametrize(("overflow", "underflow"), [(2, 1), (4, 2), (16, 4), (16, 0)])
def test_buckets_are_split_and_merged(overflow, underflow):
    rng = np.random.default_rng(overflow)
    points = np.unique(rng.integers(0, 9, (400, 4)), axis=0)
    rng.shuffle(points)
    tree = make_tree(points, overflow=overflow, underflow=underflow)
    root, merges = root_of(tree), 0
    assert sorted(root.points) == sorted(map(tuple, points.tolist()))
    check_node(root, overflow)
    for entry in rng.permutation(len(points))[:300].tolist():  # later, the tree may be rebuilt
        expected = leaves_without(root, tuple(points[entry].tolist()), overflow, underflow)
        merges += len(expected) < len(leaves_of(root))
        tree.remove(points[entry], entry)
        root = root_of(tree)
        assert leaves_of(root) == expected
    check_node(root, overflow)
    assert (merges > 0) == (underflow > 0)


def test_dimensions_take_turns():
    """Dimension (i mod d) + 1 at level i, unless all points agree in it."""
    rng = np.random.default_rng(0)
    points = np.unique(rng.integers(0, 1000, (500, 3)), axis=0)
    points[:, 1] = 7
    points = np.unique(points, axis=0)
    level = [root_of(make_tree(points, overflow=8))]
    for depth in range(4):
        assert {node.dimension for node in level} == {(0, 2)[depth % 2]}
        level = [child for node in level for child in node.children]


def test_a_search_begins_at_the_rightmost_leaf():
    points = np.array([[i, i] for i in range(200)], np.int64)
    tree = make_tree(points, overflow=4)
    node = root_of(tree)
    while node.children:
        node = node.children[1]
    found = np.empty(1, np.int64)
    assert tree.find_dominating(np.array([0, 0]), -1, found) == 1
    assert tuple(points[found[0]].tolist()) in node.points


def search_by_hand(root, point, k):
    """Return the first k points that dominate one, and how many nodes and points that takes."""
    waiting, found, visited, compared = [root], [], 0, 0
    while waiting and len(found) < k:
        node = waiting.pop()
        visited += 1
        if any(most < least for most, least in zip(node.largest, point, strict=True)):
            continue
        if node.children:
            left, right = node.children
            waiting += [left, right] if node.split >= point[node.dimension] else [right]
            continue
        compared += len(node.points)
        found += [p for p in node.points if all(a >= b for a, b in zip(p, point, strict=True))]
    return found[:k], visited, compared


@pytest.mark.parametrize("k", [1, 3, 500])
def test_nodes_and_points_of_the_tree_are_counted(k):
    """V-A: every node that is looked at, and all points of a bucket that is compared."""
    rng = np.random.default_rng(k)
    points = np.unique(rng.integers(0, 50, (500, 4)), axis=0)
    tree = make_tree(points, overflow=4)
    root, found = root_of(tree), np.empty(k, np.int64)
    for point in rng.integers(0, 50, (50, 4)):
        expected, visited, compared = search_by_hand(root, point.tolist(), k)
        before = tree.visited, tree.compared
        n = tree.find_dominating(point, -1, found)
        assert [tuple(points[entry].tolist()) for entry in found[:n]] == expected
        assert (tree.visited - before[0], tree.compared - before[1]) == (visited, compared)


def depth_of(node):
    return 1 + max(map(depth_of, node.children), default=-1)


def test_a_deep_tree_is_rebuilt():
    """Points that come in order split the rightmost leaf again and again."""
    tree, deepest = KdTree(2, overflow=4), 0
    for number in range(3000):
        tree.insert(np.array([number, number]), number)
        if number % 50 == 0:
            deepest = max(deepest, depth_of(root_of(tree)))
    assert 16 < deepest < 16 + 3 * 12 + 2


def test_an_empty_tree_is_rebuilt():
    """Without an underflow limit, removals alone would leave all buckets."""
    rng = np.random.default_rng(0)
    points = np.unique(rng.integers(0, 10**6, (3000, 2)), axis=0)
    tree = make_tree(points, overflow=4, underflow=0)
    assert len(leaves_of(root_of(tree))) > 700
    for entry, point in enumerate(points[:-20]):
        tree.remove(point, entry)
    assert len(leaves_of(root_of(tree))) < 120
    assert sorted(root_of(tree).points) == sorted(map(tuple, points[-20:].tolist()))


# ------------------------------------------------------------ the Z-curve (IV-D)


def cells_of(curve, points):
    """Return the cell of each point in each dimension."""
    ends = curve._ends.reshape(curve.d, -1)
    return np.stack([np.searchsorted(e, c, "right") for e, c in zip(ends, points.T)], axis=1)


def make_curve(n, bits):
    points = np.unique(np.random.default_rng(n).integers(0, 10**6, (n, 3)) ** 3, axis=0)
    np.random.default_rng(0).shuffle(points)
    curve = ZCurve(3, bits)
    for entry, point in enumerate(points):
        curve.insert(point, entry)
    return curve, points


def test_cells_hold_as_many_points_each():
    """Also if points are skewed; cells are chosen at 256, 512, 1,024, ... points."""
    curve, points = make_curve(1024, 3)
    for column in cells_of(curve, points).T:
        assert np.bincount(column).tolist() == [128] * 8


def test_points_of_the_curve_are_counted():
    """Those in cells that are not below the query's are compared, and jumps are visits, too."""
    curve, points = make_curve(1500, 3)
    cells, found = cells_of(curve, points), np.empty(len(points), np.int64)
    for point in points[:50]:
        before = curve.visited, curve.compared
        n = curve.find_dominating(point, -1, found)
        assert n == (points >= point).all(axis=1).sum()
        compared = curve.compared - before[1]
        assert compared == (cells >= cells_of(curve, point[None])).all(axis=1).sum()
        assert compared <= curve.visited - before[0] <= len(points)


def key_of(cell, bits):
    """Return the key that the index gives to a point in a cell, as an integer."""
    d = len(cell)
    ends = np.tile(np.arange(1, 2**bits), d)  # cell c has the point c
    key = np.empty((d * bits + 63) // 64, np.uint64)
    write_key(ends, bits, np.array(cell, np.int64), key)
    whole = int("".join(f"{word:064b}" for word in key.tolist()), 2)
    return whole >> (64 * len(key) - d * bits)


def test_keys_of_points_are_those_of_cells():
    """Figs. 6 and 7: all cells of 8 x 8, and one of 2^16 cells in each of ten dimensions."""
    assert key_of((3, 5), 3) == 27
    keys = {key_of((x, y), 3): (x, y) for x in range(8) for y in range(8)}
    assert sorted(keys) == list(range(64))
    assert [keys[z] for z in range(8)] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3),
    ]  # fmt: skip
    cell = np.random.default_rng(0).integers(0, 2**16, 10).tolist()
    assert key_of(cell, 16) == cell_key(cell, 16) - 2**160


@pytest.mark.parametrize(("d", "bits"), [(1, 4), (2, 3), (3, 2), (4, 1)])
def test_jumps_are_to_the_next_key_inside(d, bits):
    places = d * bits
    cells = [[z >> (places - 1 - p) & 1 for p in range(places)] for z in range(2**places)]
    cells = [
        [sum(b[p] << (bits - 1 - p // d) for p in range(j, places, d)) for j in range(d)]
        for b in cells
    ]
    memory, shift = np.empty(d, np.int64), np.uint64(64 - places)
    for corner in range(2**places):
        inside = [all(x >= y for x, y in zip(cell, cells[corner], strict=True)) for cell in cells]
        for z in range(2**places):
            key, least = (np.array([n], np.uint64) << shift for n in (z, corner))
            jump = jump_below(key, least, d, places, memory)
            below = [n for n in range(z) if inside[n]]
            assert jump == (0 if inside[z] else 1 if below else -1)
            if jump == 1:
                assert int(key[0] >> shift) == below[-1]


@pytest.mark.parametrize(("d", "bits"), [(4, 16), (5, 16), (10, 16), (16, 12)])
def test_jumps_with_keys_of_several_words(d, bits):
    """The largest key below that is inside has a 0 for some 1 of the key, and ones after it."""
    rng, places = random.Random(d), d * bits
    words = (places + 63) // 64
    shift, memory = 64 * words - places, np.empty(d, np.int64)

    def to_words(key):
        return np.array([key << shift >> 64 * w & 2**64 - 1 for w in range(words)[::-1]], np.uint64)

    def interleave(cell):
        bits_of = [f"{x:0{bits}b}" for x in cell]
        return int("".join(each[b] for b in range(bits) for each in bits_of), 2)

    def is_inside(key, least):
        text = f"{key:0{places}b}"
        return all(int(text[j::d], 2) >= least[j] for j in range(d))

    jumps = 0
    for _ in range(500):
        cell = [rng.randrange(2**bits) for _ in range(d)]
        steps = [rng.choice([-1, 0, 0, 1]) << rng.randrange(bits) for _ in range(d)]
        least = [min(max(x + s, 0), 2**bits - 1) for x, s in zip(cell, steps, strict=True)]
        z = interleave(cell)
        below = [((z >> n) << n) - 1 for n in range(places) if z >> n & 1]  # largest first
        below = [key for key in below if is_inside(key, least)]
        key = to_words(z)
        jump = jump_below(key, to_words(interleave(least)), d, places, memory)
        assert jump == (0 if is_inside(z, least) else 1 if below else -1)
        if jump == 1:
            jumps += 1
            key[-1] = key[-1] >> np.uint64(shift) << np.uint64(shift)
            assert key.tolist() == to_words(below[0]).tolist()
    assert jumps > 100


# ------------------------------------------------------------ hard cases


@pytest.mark.parametrize("method", METHODS)
def test_large_and_special_numbers(method):
    huge, tiny, inf = sys.float_info.max, 5e-324, np.inf
    cover = CoverIndex(1, method)
    cover.add("finite", [-huge], [huge])
    cover.add("infinite", [-inf], [inf])
    cover.add("any", [None], [None])
    cover.add("negative zero", [-0.0], [0.0])
    cover.add("tiny", [-tiny], [tiny])
    cover.add("above", [inf], [inf])
    assert set(cover.covering([0.0], [-0.0], k=9)) == {
        "finite", "infinite", "any", "negative zero", "tiny",
    }  # fmt: skip
    assert set(cover.covering([huge], [inf], k=9)) == {"infinite", "any"}
    assert set(cover.covering([None], [9.0], k=9)) == {"any"}
    assert set(cover.covering([inf], [inf], k=9)) == {"infinite", "any", "above"}
    assert set(cover.covered([-1], [1])) == {"negative zero", "tiny"}


@pytest.mark.parametrize("method", METHODS)
def test_null_and_open_ends(method):
    cover = CoverIndex(1, method)
    cover.add("at most 9", [None], [9])
    assert cover.covering([None], [None]) == []  # null is not at most 9
    assert cover.covering([None], [9]) == ["at most 9"]
    assert cover.covering([None], [np.nextafter(9, 10)]) == []


def test_equal_boxes_are_found_oldest_first():
    cover = CoverIndex(1)
    for id in "cab":
        cover.add(id, [0], [1])
    assert cover.covering([0], [1], k=3) == ["c", "a", "b"]
    assert cover.index.covering_id("a", 3) == ["c"]
    cover.remove("c")
    cover.add("c", [0], [1])
    assert cover.index.covering_id("c", 3) == ["a", "b"]


def test_counters():
    cover = CoverIndex(2)
    for number in range(1000):
        cover.add(number, [number, 0], [number + 1, 1])
    assert (cover.visited, cover.compared) == (0, 0)
    cover.covering([5, 0], [6, 1])
    assert 0 < cover.visited < 200
    assert 0 < cover.compared < 200


def test_boxes_in_arrays_and_columns():
    boxes = np.sort(np.random.default_rng(1).random((50, 2, 3)), axis=1)
    cover = CoverIndex(3)
    for number, box in enumerate(boxes[::-1]):
        cover.add(number, *box[:, ::-1])  # slices with negative steps
    low, high = boxes[3]
    assert 46 in cover.covering(low[::-1].astype(np.float32) * 0 + low[::-1], high[::-1], k=50)


def test_threads_take_turns():
    """Kernels release the interpreter's lock; without the index's own this crashes."""
    cover, failures = CoverIndex(3), []
    boxes = np.sort(np.random.default_rng(2).random((4000, 2, 3)), axis=1)

    def work(first):
        try:
            for number in range(first, 4000, 4):
                cover.add(number, *boxes[number])
                assert number in cover.covering(*boxes[number], k=4000)
                if number % 3 == 0:
                    cover.remove(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert len(cover) == sum(number % 3 != 0 for number in range(4000))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.add("a", [0, 0], [1, 1]), "already a box with the id 'a'"),
        (lambda c: c.remove("z"), "no box with the id 'z'"),
        (lambda c: c.add("b", [0], [1]), "needs 2 lower and 2 upper bounds; got 1 and 1"),
        (lambda c: c.add("b", [0, 2], [1, 1]), "dimension 1 has the bounds 2 and 1"),
        (lambda c: c.add("b", [0, float("nan")], [1, 1]), "neither can be NaN"),
        (lambda c: c.add("b", ["x", 0], [1, 1]), "numbers or None"),
        (lambda c: c.add("b", [0, 0], [1, 2**53 + 1]), "9007199254740993 is not a float64"),
        (lambda c: c.covering([0, 0], [1, 1], k=0), "k must be an integer, 1 or more"),
        (lambda c: CoverIndex(0), "dimensions must be"),
        (lambda c: CoverIndex(2, "kdd"), "method must be one of kd, z, naive"),
        (lambda c: CoverIndex(2, "z", overflow=3), "has no option 'overflow'"),
        (lambda c: CoverIndex(2, overflow=1), "overflow must be an integer from 2"),
        (
            lambda c: CoverIndex(2, overflow=4, underflow=5),
            "must not be above overflow; got 5 and 4",
        ),
        (lambda c: CoverIndex(2, underflow=17), "must not be above overflow; got 17 and 16"),
        (lambda c: c.add(["b"], [0, 0], [1, 1]), r"an id must be hashable.*got \['b'\]"),
        (lambda c: c.remove(["b"]), "an id must be hashable"),
        (lambda c: c.add("b", (n for n in "ab"), [1, 1]), "bounds of a box must be numbers"),
    ],
)
def test_errors(call, message):
    cover = CoverIndex(2)
    cover.add("a", [0, 0], [1, 1])
    with pytest.raises(tocsin.CoverError, match=message):
        call(cover)
    assert cover.covering([0, 0], [1, 1], k=9) == ["a"]


def test_points_of_boxes():
    point = box_point([1, None], [2, None], 2)
    assert point.tolist()[0] == ~np.float64(1).view(np.int64)
    assert point.tolist()[1] == np.float64(2).view(np.int64)
    assert point.tolist()[2:] == [2**63 - 1, 2**63 - 1]
