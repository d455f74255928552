"""What every answer promises, whatever the query."""

import math

import numpy as np
import pyarrow as pa

from tests.uncertain import oracle
from tests.uncertain.cases import ends

TOLERANCE = 1e-10
# What is left out or reported with a probability that small is a matter of rounding.
_NEGLIGIBLE = 1e-12


def probabilities_by_id(answer):
    return dict(zip(answer.ids.to_pylist(), answer.probabilities.tolist(), strict=True))


def check_answer(answer, expected, ids=None):
    """Compare with a probability per value; ids are positions unless they are given."""
    expected = [float(p) for p in expected]
    ids = list(range(len(expected))) if ids is None else list(ids)
    check_form(answer, ids)
    found = probabilities_by_id(answer)
    for i, p in zip(ids, expected, strict=True):
        assert abs(found.get(i, 0.0) - p) <= TOLERANCE, (i, found.get(i), p)
        assert i in found or p < _NEGLIGIBLE, (i, p)
        assert i not in found or p > 0, (i, found[i])


def check_form(answer, ids):
    """Probabilities are such, and in order: the highest first, ties by position."""
    assert isinstance(answer.ids, pa.Array)
    assert answer.probabilities.dtype == np.float64
    assert len(answer) == len(answer.ids) == len(answer.probabilities)
    assert ((answer.probabilities > 0) & (answer.probabilities <= 1)).all()
    found = answer.ids.to_pylist()
    assert len(set(found)) == len(found)
    position = {id_: i for i, id_ in enumerate(ids)}
    order = [(-p, position[i]) for i, p in zip(found, answer.probabilities.tolist(), strict=True)]
    assert order == sorted(order)
    assert list(answer) == [(i, -p) for i, (p, _) in zip(found, order, strict=True)]


def check_quality(answer, width):
    """Compare the entropy of an aggregate and its quality with their definitions (5.10, 5.11)."""
    assert abs(answer.probabilities.sum() - 1) <= 1e-9
    entropy = oracle.entropy(answer.probabilities.tolist())
    assert math.isclose(answer.entropy, entropy, rel_tol=1e-12, abs_tol=1e-12)
    quality = -entropy * float(width) if entropy else 0.0
    assert math.isclose(answer.quality, quality, rel_tol=1e-12, abs_tol=1e-300)


def check_minimum(answer, densities, expected):
    """Compare the answer, the interval B and the quality of a minimum query."""
    check_answer(answer, expected)
    low, high = min(ends(d)[0] for d in densities), min(ends(d)[1] for d in densities)
    assert tuple(answer.bounds) == (low, high)
    check_quality(answer, high - low)


def check_maximum(answer, densities, expected):
    check_answer(answer, expected)
    low, high = max(ends(d)[0] for d in densities), max(ends(d)[1] for d in densities)
    assert tuple(answer.bounds) == (low, high)
    check_quality(answer, high - low)


def check_nearest(answer, densities, q, expected):
    check_answer(answer, expected)
    farthest = min(max(abs(x - q) for x in ends(d)) for d in densities)
    assert answer.bounds[0] == 0
    assert math.isclose(answer.bounds[1], farthest, rel_tol=1e-15)
    check_quality(answer, 2 * farthest)


def check_in_range(answer, expected):
    check_answer(answer, expected)
    found = answer.probabilities
    quality = np.mean(abs(found - 0.5) / 0.5) if len(found) else 1.0
    assert math.isclose(answer.quality, quality, rel_tol=1e-12, abs_tol=1e-15)
