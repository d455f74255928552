"""Conjunctions that grow: equal to those concatenated, and nothing that was shared changes."""

import random

import numpy as np
import pytest

from tests.index.trees import made, random_rule
from tocsin.index.appending import AppendedConjunctions
from tocsin.model.conjunctions import concatenate


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_appended_is_concatenated(seed):
    rng = random.Random(seed)
    parts, handed_out = [], []
    grown = None
    for _ in range(60):
        rules = [random_rule(rng, 5) for _ in range(rng.choice((0, 1, 1, 3, 30)))]
        more = made(rules, sum(part.size for part in parts), rng.random() < 0.3)
        parts.append(more)
        if grown is None:
            grown = AppendedConjunctions(more)
            continue
        handed_out.append((grown.append(more), concatenate(parts)))
    for c, expected in handed_out:
        assert equal(c, expected)
        expected.validate(5)
        assert not any(array.flags.writeable for array in c)
        assert [array.dtype for array in c] == [array.dtype for array in expected]


def test_indexes_that_share_conjunctions_do_not_affect_each_other():
    rng = random.Random(8)
    base = made([random_rule(rng, 5) for _ in range(20)])
    copy = [array.copy() for array in base]
    one, other = AppendedConjunctions(base), AppendedConjunctions(base)
    first, second = (made([random_rule(rng, 5)], 20) for _ in range(2))
    a, b = one.append(first), other.append(second)
    one.append(second)
    assert equal(a, concatenate([base, first]))
    assert equal(b, concatenate([base, second]))
    assert equal(base, copy)


def test_an_insertion_does_not_copy_everything():
    rng = random.Random(9)
    grown = AppendedConjunctions(made([random_rule(rng, 5) for _ in range(1000)]))
    before = grown.append(made([random_rule(rng, 5)], 1000))
    after = grown.append(made([random_rule(rng, 5)], 1001))
    for a, b in zip(before, after, strict=True):
        assert np.shares_memory(a, b)
