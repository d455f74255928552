"""The R*-tree of the thesis' page model finds what is there, and counts pages."""

import numpy as np
import pytest

from experiments.moving_data import BUFFERS, ENTRIES, make_world
from experiments.page_tree import PageTree, point_boxes


def found(boxes, queries):
    """Return how many boxes each query meets."""
    low, high = boxes[:, None, :2], boxes[:, None, 2:]
    return ((low <= queries[:, 2:]) & (high >= queries[:, :2])).all(axis=2).sum(axis=0)


def check_nodes(tree, size):
    """Check that nodes have 40 to 100 entries, and that a node's box is that of its entries."""
    pages = tree.pages
    box, child = pages.box.reshape(-1, ENTRIES + 1, 4), pages.child.reshape(-1, ENTRIES + 1)
    root, seen = int(pages.head[0]), []
    nodes = [root]
    while nodes:
        node = nodes.pop()
        n = int(pages.count[node])
        assert (2 if node == root and pages.level[node] else 0 if node == root else 40) <= n <= 100
        if pages.level[node] == 0:
            seen += child[node, :n].tolist()
            continue
        for i in range(n):
            below = child[node, i]
            own = box[below, : pages.count[below]]
            assert pages.parent[below] == node
            assert pages.level[below] == pages.level[node] - 1
            assert (box[node, i] == [*own[:, :2].min(axis=0), *own[:, 2:].max(axis=0)]).all()
            nodes.append(below)
    assert sorted(seen) == list(range(size))
    leaves = tree.leaves()
    assert sorted(leaves.order.tolist()) == sorted(seen)
    assert len(leaves.start) == len(leaves.parent) == tree.nodes_by_level[0]


@pytest.mark.parametrize("size", [1, 100, 101, 3_000, 12_000])
def test_a_tree_finds_what_is_there(size):
    world = make_world(size, size, 200)
    boxes = point_boxes(world.x, world.y)
    tree = PageTree(boxes)
    check_nodes(tree, size)
    assert (tree.search(world.boxes)[1] == found(boxes, world.boxes)).all()


def test_a_tree_finds_boxes():
    queries = make_world(1, 10, 2_000).boxes
    tree = PageTree(queries)
    points = point_boxes(*np.random.default_rng(1).random((2, 500)))
    assert (tree.search(points)[1] == found(queries, points)).all()


def test_equal_points():
    boxes = np.zeros((1_000, 4))
    tree = PageTree(boxes)
    check_nodes(tree, 1_000)
    assert tree.search(boxes[:2])[1].tolist() == [1_000, 1_000]
    tree.delete(np.arange(900, 1_000), boxes[:100])
    assert tree.search(boxes[:1])[1].tolist() == [900]


def test_objects_move():
    world = make_world(7, 12_000, 300)
    ways = {name: PageTree(point_boxes(world.x, world.y)) for name in ("modify", "delete")}
    for _ in range(3):
        old = point_boxes(world.x, world.y)
        rows, _ = world.move(600)
        new = point_boxes(world.x, world.y)
        ways["modify"].modify(rows, old[rows], new[rows])
        ways["delete"].delete(rows, old[rows])
        ways["delete"].insert(rows, new[rows])
        for tree in ways.values():
            check_nodes(tree, 12_000)
            assert (tree.search(world.boxes)[1] == found(new, world.boxes)).all()
    with pytest.raises(AssertionError, match="1 entries were not found"):
        ways["modify"].modify(np.array([3]), old[:1] + 2, new[:1])


def test_nearly_all_objects_can_be_deleted():
    world = make_world(7, 3_000, 30)
    boxes = point_boxes(world.x, world.y)
    tree = PageTree(boxes)
    tree.delete(np.arange(50, 3_000), boxes[50:])
    assert tree.levels == 1
    check_nodes(tree, 50)


def test_ios():
    """Leaves are on disk once there are more than 21 pages; an operation reads each once."""
    world = make_world(5, 12_000, 100)
    boxes = point_boxes(world.x, world.y)
    tree = PageTree(boxes[:1_000], room=11_000)
    assert tree.pages.head[1] <= BUFFERS
    assert tree.ios == tree.search(world.boxes)[0] == 0
    tree.insert(np.arange(1_000, 12_000), boxes[1_000:])
    assert tree.levels == 3
    # A page read and one written, and more for those that split or insert entries again.
    assert 2 * 10_000 < tree.ios < 2.4 * 11_000
    ios, _ = tree.search(world.boxes)
    leaves = tree.leaves()
    x, y = world.x[leaves.order], world.y[leaves.order]
    ends = [*leaves.start[1:], 12_000]
    own = np.array(
        [
            (x[a:b].min(), y[a:b].min(), x[a:b].max(), y[a:b].max())
            for a, b in zip(leaves.start, ends, strict=True)
        ]
    )
    assert ios == found(own, world.boxes).sum()
    old = boxes[:1]
    assert 2 <= tree.modify(np.array([0]), old, old) <= 1 + found(own, old)[0]
