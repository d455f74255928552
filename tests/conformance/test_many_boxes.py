"""Every index over thousands of boxes of every shape, against NumPy.

Small workloads leave one cell, one level, one tier; these do not.
"""

from typing import Any

import numpy as np
import pytest

from tests.conformance.boxes import SHAPES, check_equal_to_numpy
from tocsin.index.registry import INDEXES

PUBLISHED: list[dict[str, Any]] = [
    {},
    {"longest": [16, 8], "decomposition": "overlapped"},
    {"longest": [8, 16], "hashed": True},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("name", INDEXES)
def test_equal_to_numpy(name, shape):
    work = shape(np.random.default_rng(11))
    check_equal_to_numpy(INDEXES[name].build(work.conjunctions, work.floats), work)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("options", PUBLISHED, ids=str)
def test_rectangles_as_published(options, shape):
    work = shape(np.random.default_rng(11))
    index = INDEXES["rectangles"].build(
        work.conjunctions, work.floats, lattice="published", **options
    )
    check_equal_to_numpy(index, work)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("name", INDEXES)
def test_keeps_its_budget(name, shape):
    work = shape(np.random.default_rng(11))
    index = INDEXES[name].build(work.conjunctions, work.floats)
    # 4 MiB for any number of rules, twice that where boxes of all sizes need several levels.
    assert index.nbytes < 10 << 20
