"""What a tree learns from events: the losses of p-nodes (section V-B), and the lengths of ranges.

The loss of a p-node is the number of predicates that an event evaluates below it for conjunctions
that it does not match, on average over the events given, which are the paper's window. With the
option `gain` of "predicates", a bucket that an event comes to and does not meet counts as
well: a discarded search path.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import distance_apart, length
from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BUCKET,
    BUCKETS,
    COMMON_PREDICATES,
    COUNT,
    DIRECTORY,
    HIGH,
    LEAF,
    LEFT,
    LOW,
    NODE,
    NODES,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    Tree,
)
from tocsin.index.bestar.matching import (
    blank_shifted,
    first_failed,
    list_followed,
    list_present,
    meets_bucket,
)
from tocsin.index.bestar.ranks import rank_of
from tocsin.index.bestar.splitting import is_apart
from tocsin.jit import Int64Out, Int64s, UInt8Out, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, load, unload


@kernel
def count_in_vain(t: Tree, c: Conjunctions, batch: EventBatch, in_vain: Int64Out) -> None:
    """Add for each bucket how many predicates events evaluate in vain in its own leaf.

    A conjunction that an event does not match costs the predicates up to the one that fails. If
    the event lacks the attribute that the conjunction requires, it costs one.
    """
    keys, width = batch.keys, batch.width
    bucket, pnode, target, required = t.bucket, t.pnode, t.target, t.required
    rows, tested, kind, low, high, points = (
        c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    )  # fmt: skip
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    shifted = blank_shifted(width)
    shifted_high = blank_shifted(width) if ranged else shifted
    values, values_high = shifted[1:], shifted_high[1:]
    marked, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    paths = np.int64(t.options[COMMON_PREDICATES] != 0)
    stack = np.empty(2 * t.state[BUCKETS] + 2, np.int64)
    for event in range(batch.first, batch.stop):
        load(columns, column_attribute, sparse, attribute, key, event, values)
        if ranged:
            load(columns_high, column_attribute, sparse, attribute, key_high, event, values_high)
        n_present = list_present(
            column_attribute, sparse, attribute, event, shifted, marked, present
        )  # fmt: skip
        stack[0], stack[1] = 0, 0
        height = 2
        while height > 0:
            height -= 2
            b, active = stack[height], stack[height + 1]
            at = b * BUCKET
            if active > 0 and not meets_bucket(bucket, at, shifted[active], shifted_high[active]):
                in_vain[b] += paths
                continue
            count = 0
            leaf = bucket[at + LEAF]
            for i in range(leaf, leaf + bucket[at + SIZE]):
                if shifted[required[i]] == NULL:
                    count += 1
                    continue
                begin, end = rows[target[i]], rows[target[i] + 1]
                failed = first_failed(
                    tested, kind, low, high, points, begin, end, values, values_high
                )  # fmt: skip
                if failed < end:
                    count += failed - begin + 1
            in_vain[b] += count
            for side in (LEFT, RIGHT):
                if bucket[at + side] >= 0:
                    stack[height], stack[height + 1] = bucket[at + side], active
                    height += 2
            start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
            for i in range(
                list_followed(required, start, nodes, shifted, present, n_present, entries)
            ):
                child = pnode[target[entries[i]] * PNODE + ROOT]
                stack[height], stack[height + 1] = child, required[entries[i]]
                height += 2
        unload(sparse, attribute, event, values)
        unload(sparse, attribute, event, values_high)


@kernel
def update_losses(t: Tree, in_vain: Int64s, events: int) -> None:
    """Set the loss of every p-node, and the loss rate of every attribute.

    `in_vain` has by bucket how many predicates so many events evaluated in vain.
    """
    bucket, pnode, loss, loss_rate, state = t.bucket, t.pnode, t.loss, t.loss_rate, t.state
    loss[:] = 0.0
    for b in range(in_vain.shape[0]):
        if in_vain[b] > 0:
            node = bucket[b * BUCKET + NODE]
            while node >= 0:
                loss[node] += in_vain[b] / events
                node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
    total, below = np.zeros(loss_rate.shape[0]), np.zeros(loss_rate.shape[0])
    for p in range(state[PNODES]):
        if pnode[p * PNODE + ABOVE] >= 0:
            total[pnode[p * PNODE + ATTRIBUTE]] += loss[p]
            below[pnode[p * PNODE + ATTRIBUTE]] += pnode[p * PNODE + COUNT]
    for attribute in range(loss_rate.shape[0]):
        if below[attribute] > 0:
            loss_rate[attribute] = total[attribute] / below[attribute]


@kernel
def update_extensions(t: Tree, batch: EventBatch) -> None:
    """Set the average length of the ranges that events have, for each attribute that one has."""
    keys, attributes = batch.keys, t.extension.shape[0]
    total, count = np.zeros(attributes), np.zeros(attributes)
    ranged = keys.columns_high.shape[0] + keys.key_high.shape[0] > 0
    for event in range(batch.first, batch.stop):
        for i in range(keys.column_attribute.shape[0]):
            a, low = keys.column_attribute[i], keys.columns[i, event]
            if a < attributes and low != NULL:
                count[a] += 1
                if ranged:
                    total[a] += np.float64(length(low, keys.columns_high[i, event]))
        if keys.offsets.shape[0] > 0:
            for i in range(keys.offsets[event], keys.offsets[event + 1]):
                a, low = keys.attribute[i], keys.key[i]
                if a < attributes and low != NULL:
                    count[a] += 1
                    if ranged:
                        total[a] += np.float64(length(low, keys.key_high[i]))
    for a in range(attributes):
        if count[a] > 0:
            t.extension[a] = total[a] / count[a]


@kernel
def mark_misplaced(t: Tree, marked: UInt8Out) -> None:
    """Mark the conjunctions below p-nodes of negative rank, or with siblings too close together."""
    bucket, pnode, home, state = t.bucket, t.pnode, t.home, t.state
    misplaced = np.zeros(state[PNODES], np.uint8)
    for p in range(state[PNODES]):
        misplaced[p] = pnode[p * PNODE + ABOVE] >= 0 and rank_of(t, p) < 0
    for b in range(state[BUCKETS]):
        at = b * BUCKET
        node, left, right = bucket[at + NODE], bucket[at + LEFT], bucket[at + RIGHT]
        if node >= 0 and left >= 0 and right >= 0:
            apart = distance_apart(t, pnode[node * PNODE + ATTRIBUTE])
            if not is_apart(bucket[left * BUCKET + HIGH], bucket[right * BUCKET + LOW], apart):
                misplaced[node] = 1
    for number in range(marked.shape[0]):
        if home[number] < 0:
            continue
        node = bucket[home[number] * BUCKET + NODE]
        while node >= 0:
            if misplaced[node] != 0:
                marked[number] = 1
            node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
