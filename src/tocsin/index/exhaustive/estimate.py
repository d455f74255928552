"""Estimate the work for an event, with the same blocks as when building."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tocsin.index.costs import Sample
from tocsin.index.exhaustive.building import find_tested_rows, group_alike, survey
from tocsin.index.exhaustive.matching import CHUNK


class Work(NamedTuple):
    """The work for an event, on average."""

    blocks: float  # of which it is found out whether the event can meet them
    looked: float  # conjunctions that it is compared with
    again: float  # conjunctions in chunks of which one passes the first two tests
    candidates: float
    unproven: float  # candidates that are left to accept


def estimate_work(sample: Sample) -> Work:
    """Estimate the work for an index over the conjunctions that a sample represents."""
    c, facts, factor = sample.conjunctions, sample.facts, sample.factor
    signature, lead = np.empty(c.size, np.int64), np.empty(c.size, np.int64)
    exact = np.empty(c.size, np.uint8)
    survey(c, facts, signature, lead, exact)
    order, block, alike = group_alike(c, signature, lead, factor)
    shares, lengths = sample.bound_shares, np.diff(c.offsets)
    looked = again = candidates = unproven = 0.0
    for first, stop in pairwise(block.tolist()):
        members = order[first:stop]
        tests = find_tested_rows(c, facts, members, lead, bool(alike[members[0]]))
        hulls = [sample.hull_share(rows) for rows in tests]
        passed = np.prod([shares[rows] for rows in tests[:2]], axis=0) * np.ones(len(members))
        proposed = np.prod([passed, *(shares[rows] for rows in tests[2:])], axis=0)
        proven = (exact[members] != 0) & (lengths[members] == len(tests))
        size = factor * len(members)
        met = float(np.prod(hulls))
        looked += met * size
        # A chunk is compared again if one of its conjunctions passes; most often few do.
        hits = factor * float(passed.sum())
        chunks = max(size / CHUNK, 1.0)
        again += size * met * -np.expm1(-hits / chunks / met) if met > 0 else 0.0
        candidates += factor * float(proposed.sum())
        unproven += factor * float(proposed[~proven].sum())
    return Work(len(block) - 1, looked, again, candidates, unproven)
