"""Tables of shapes: put together, they are what is built from all shapes."""

import numpy as np

from tests.geometry.oracle import FAMILIES, star
from tocsin.geometry.shape import disc, globe_disc, read_geometries
from tocsin.geometry.table import ShapeTable, build_table, concatenate


def test_concatenated_tables_are_tables_of_all_shapes():
    rng = np.random.default_rng(1)
    shapes = [disc(1, 2, 3), globe_disc(2, 3, 500, False)]
    for family in FAMILIES:
        polygons = [star(rng, int(rng.integers(3, 200)), family) for _ in range(6)]
        shapes += read_geometries([each for each in polygons if each.is_valid])
    shapes.append(disc(0, 0, 1))
    parts = [shapes[:1], shapes[1:9], [], shapes[9:10], shapes[10:]]
    combined, whole = concatenate([build_table(part) for part in parts]), build_table(shapes)
    for name in ShapeTable._fields:
        assert np.array_equal(getattr(combined, name), getattr(whole, name)), name
    assert concatenate([]).size == 0
