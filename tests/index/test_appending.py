"""Conjunctions that grow: equal to those concatenated, and nothing that was shared changes."""

import math
import random

import numpy as np
import pytest

from tests.index.trees import made, random_rule
from tocsin.index.appending import AppendedConjunctions
from tocsin.model.conjunctions import concatenate, scores


def equal(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def own_scores(rng, size):
    return scores(np.array([rng.choice((math.nan, 0.0, 2.5)) for _ in range(size)]))


@pytest.mark.parametrize("seed", range(6))
def test_appended_is_concatenated(seed):
    rng = random.Random(seed)
    parts, handed_out = [], []
    grown = None
    for _ in range(60):
        rules = [random_rule(rng, 5) for _ in range(rng.choice((0, 1, 1, 3, 30)))]
        score = own_scores(rng, len(rules)) if rng.random() < 0.3 else ()
        more = made(rules, sum(part.size for part in parts), rng.random() < 0.3, score)
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


@pytest.mark.parametrize("score", [(), (2.5,)])
def test_an_insertion_does_not_copy_everything(score):
    rng = random.Random(9)
    grown = AppendedConjunctions(
        made([random_rule(rng, 5) for _ in range(1000)], score=score * 1000)
    )
    before = grown.append(made([random_rule(rng, 5)], 1000, score=score))
    after = grown.append(made([random_rule(rng, 5)], 1001, score=score))
    for name, a, b in zip(after._fields, before, after, strict=True):
        if name == "score" and not score:  # empty arrays share no memory, even with themselves
            assert len(a) == len(b) == 0
        else:
            assert np.shares_memory(a, b), name
