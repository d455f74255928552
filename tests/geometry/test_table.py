"""Tables of shapes: made, divided, joined; and refused unless kernels may trust them."""

import numpy as np
import pytest

from tests.geometry.oracle import FAMILIES, answers, nasty_points, random_shape
from tests.geometry.test_inside import ask
from tocsin.errors import StoreError
from tocsin.geometry.rasters import FINE, HEAD, SIZE
from tocsin.geometry.shape import Kind, Shape, disc, globe_disc, polygon_from_wkt
from tocsin.geometry.table import STORED, build_table, concatenate, restore, shape_at, take


@pytest.fixture(scope="module")
def shapes():
    rng = np.random.default_rng(3)
    polygons = [random_shape(rng, family) for family in FAMILIES for _ in range(3)]
    return [disc(1, 2, 3), *polygons, globe_disc(5, 6, 7, closed=False)]


def same(table, other):
    return all(np.array_equal(a, b) for a, b in zip(table, other, strict=True))


def test_shapes_of_a_table(shapes):
    table = build_table(shapes)
    assert table.size == len(shapes)
    assert [shape_at(table, number) for number in range(table.size)] == shapes
    assert table.nbytes == sum(array.nbytes for array in table)
    assert all(not array.flags.writeable for array in table)


def test_take_and_concatenate(shapes):
    table = build_table(shapes)
    numbers = np.array([5, 0, 5, len(shapes) - 1])
    assert same(take(table, numbers), build_table([shapes[number] for number in numbers]))
    assert same(concatenate([table, take(table, numbers), build_table([])]),
                build_table([*shapes, *(shapes[number] for number in numbers)]))  # fmt: skip
    parts = [shapes[:1], shapes[1:9], [], shapes[9:10], shapes[10:]]
    assert same(concatenate([build_table(part) for part in parts]), table)
    assert concatenate([]).size == take(table, np.empty(0, int)).size == 0


def test_answers_do_not_depend_on_neighbours(shapes):
    rng = np.random.default_rng(4)
    table = build_table(shapes)
    for number in range(1, len(shapes) - 1):
        points = nasty_points(rng, shapes[number], table.heads[HEAD * number :], 200)
        alone = ask(build_table([shapes[number]]), 0, points)
        assert np.array_equal(ask(table, number, points), alone)


def test_many_points_as_one_by_one(shapes):
    """`are_inside` takes steps for groups; with one point each, as `is_inside` does."""
    rng = np.random.default_rng(5)
    table = build_table(shapes)
    numbers = rng.integers(0, len(shapes), 1000)
    points = rng.uniform(-4, 4, (1000, 2))
    points[::50] = np.nan
    alone = [bool(ask(table, n, [p])[0]) for n, p in zip(numbers, points)]
    assert ask(table, numbers, points).tolist() == alone


def test_restored(shapes):
    table = build_table(shapes)
    assert same(restore(*(getattr(table, name) for name in STORED)), table)


def outlines() -> dict[str, np.ndarray]:
    """Return rings of many vertices: a circle, chords, a comb, and a curve that fills a square."""
    angle = np.linspace(0, 2 * np.pi, 5_001)
    turns = np.arange(2_000)
    comb = np.column_stack([np.repeat(turns, 2), np.tile([0, 1, 1, 0], 1_000)])
    curve = np.cumsum(np.concatenate([np.zeros(1), hilbert_steps(6)]))
    return {
        "circle": np.column_stack([np.cos(angle), np.sin(angle)])[:-1],
        "chords": np.column_stack([np.cos(turns), np.sin(turns)]),
        "comb": np.concatenate([comb, [(2_000, -1), (0, -1)]]).astype(float),
        "curve": np.column_stack([curve.real, curve.imag]),
    }


def hilbert_steps(order: int) -> np.ndarray:
    """Return the steps of Hilbert's curve as complex numbers."""
    steps = np.empty(0, complex)
    for _ in range(order):
        turned = 1j * steps.conj()
        steps = np.concatenate([turned, [1j], steps, [1], steps, [-1j], -turned])
    return steps


@pytest.mark.parametrize("name", ["circle", "chords", "comb", "curve"])
def test_rasters_have_bounded_size(name):
    """Also if edges cross most cells, or every cell has edges through all of its sides."""
    ring = outlines()[name]
    ring = np.concatenate([ring, ring[:1]])
    shape = Shape(Kind.POLYGON, True, (len(ring),), (ring + 0.0).tobytes())
    table = build_table([shape])
    assert table.nbytes < 10 * table.points.nbytes
    columns = table.heads[SIZE] / 2**FINE
    assert (columns**2 < len(ring)) == (name in ("chords", "comb"))  # it was halved
    points = nasty_points(np.random.default_rng(6), shape, table.heads, 40)
    assert ask(table, 0, points).tolist() == answers(shape, points.tolist())


def change(name, to):
    def changed(arrays):
        arrays[name] = to(arrays[name].copy())

    return changed


def put(index, value):
    def to(array):
        array[index] = value
        return array

    return to


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change("kinds", put(0, 3)), "'kinds' must be at most 2"),
        (change("kinds", lambda a: a.astype(np.int64)), "'kinds' must be one-dimensional uint8"),
        (change("points", lambda a: a.reshape(-1, 2)), "'points' must be one-dimensional float64"),
        (change("closed", put(0, 2)), "'closed' must be 0 or 1"),
        (change("closed", lambda a: a[:1]), "'closed' must have 3 elements, got 1"),
        (change("rings", put(1, 9)), "'rings' must be 4 numbers that ascend from 0 to 4"),
        (change("rings", lambda a: a[:-1]), "'rings' must be 4 numbers"),
        (change("rings", put(2, 2)), "a shape must have a ring"),
        (change("starts", put(1, -1)), "'starts' must be 5 numbers that ascend"),
        (change("starts", put(1, 4)), "the last vertex of a ring must be its first"),
        (change("starts", put(slice(1, 3), [8, 9])), "a ring must have vertices"),
        (change("starts", lambda a: a[:0]), "'starts' must not be empty"),
        (change("points", lambda a: np.append(a, 0.0)), "'points' must have two numbers for each"),
        (change("points", put(3, np.nan)), "'points' must be finite"),
        (change("points", put(0, 5.0)), "the last vertex of a ring must be its first"),
        (change("points", put(-2, -1.0)), "a radius must not be negative"),
        (change("points", put(-3, 91.0)), "a centre must have a longitude and a latitude"),
        (change("kinds", put(0, 1)), "a disc must have a centre and a radius"),
        (change("kinds", put(1, 0)), "the last vertex of a ring must be its first"),
    ],
)
def test_untrusted(damage, message):
    square = polygon_from_wkt("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 2 1, 2 2, 1 1))")
    table = build_table([square, disc(1, 2, 3), globe_disc(5, 6, 7)])
    arrays = {name: getattr(table, name) for name in STORED}
    damage(arrays)
    with pytest.raises(StoreError, match=f"shapes: .*{message}"):
        restore(**arrays)
