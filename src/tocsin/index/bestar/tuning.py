"""Ranks from events (section V-B): what a p-node gains, less what it makes events evaluate in vain.

A p-node gains the conjunctions below it, which have its predicate in common; it loses the
predicates that an event evaluates below it for conjunctions it does not match, on average over
the window of events that was given.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BUCKET,
    COUNT,
    NODE,
    PNODE,
    PNODES,
    Tree,
)
from tocsin.jit import Int64s, UInt8Out, kernel


@kernel
def charge(t: Tree, discarded: Int64s, events: int) -> None:
    """Set every p-node's loss, and every attribute's rate, from what each bucket has cost."""
    bucket, pnode, loss, rate, state = t.bucket, t.pnode, t.loss, t.rate, t.state
    loss[:] = 0.0
    for b in range(discarded.shape[0]):
        if discarded[b] > 0:
            node = bucket[b * BUCKET + NODE]
            while node >= 0:
                loss[node] += discarded[b] / events
                node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
    lost, filed = np.zeros(rate.shape[0]), np.zeros(rate.shape[0])
    for p in range(state[PNODES]):
        if pnode[p * PNODE + ABOVE] >= 0:
            lost[pnode[p * PNODE + ATTRIBUTE]] += loss[p]
            filed[pnode[p * PNODE + ATTRIBUTE]] += pnode[p * PNODE + COUNT]
    for attribute in range(rate.shape[0]):
        if filed[attribute] > 0:
            rate[attribute] = lost[attribute] / filed[attribute]


@kernel
def mark_fallen(t: Tree, marked: UInt8Out) -> None:
    """Mark the conjunctions below p-nodes whose rank has fallen below zero."""
    bucket, pnode, loss, home = t.bucket, t.pnode, t.loss, t.home
    for number in range(marked.shape[0]):
        if home[number] < 0:
            continue
        node = bucket[home[number] * BUCKET + NODE]
        while node >= 0:
            if pnode[node * PNODE + COUNT] < loss[node]:
                marked[number] = 1
            node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
