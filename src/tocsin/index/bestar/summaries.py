"""The paper's weight summaries (sections III-C and VI): the greatest weight for each attribute.

A summary is a run of attributes, ascending, and of the greatest weight that a conjunction has for
each; weights of 0 are left out. A bucket has one for its own leaf (the paper's l-node), and one for
all that is below it (its c-node, and the p-node whose top bucket it is). While there is nothing
below but the leaf, it has only the first. The root has no second one: it is always visited.

An insertion raises summaries on the way up from its leaf, and stops at the first that has these
weights already, since all above have them, too. After a removal (of which the paper says nothing)
summaries are computed again on the way up, as boxes are, from those right below. So they are exact.

A run has 2**k places: the least that hold it. Hence its size tells its length.
"""

from __future__ import annotations

from tocsin.index.bestar.layout import (
    ATTRIBUTE_SUMMARIES,
    BELOW,
    BELOW_SIZE,
    BUCKET,
    CLASSES,
    CUT,
    DIRECTORY,
    LEAF,
    LEFT,
    NODES,
    OWN,
    OWN_SIZE,
    PARENT,
    PNODE,
    RAISED,
    RAISING,
    RIGHT,
    ROOT,
    SIZE,
    SMALLEST_CLASS,
    SUMMARIES,
    SUMMARY,
)
from tocsin.index.bestar.records import allocate, has_room, release, release_summary, size_class
from tocsin.jit import bare_step, call_pair
from tocsin.model.encoding import NULL
from tocsin.model.facts import adds_to_score, has_own_score

_LONG = 8  # times as many entries as the event has attributes: then these are looked up; chosen


@bare_step
def summarises(t):
    """Tell whether the tree has these summaries; if not, the arrays are empty."""
    return t.options[ATTRIBUTE_SUMMARIES] != 0


@bare_step
def room_for_summary(t):
    """Return the most places that a new summary takes, and one that grows."""
    return 2 << max(SMALLEST_CLASS, size_class(t.loss_rate.shape[0]))


@bare_step
def find_attribute(attributes, start, size, wanted):
    """Return the first place of a run whose attribute is at least `wanted`."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if attributes[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


# These steps run for every row, and take the arrays that they need: a tuple of all arrays of a tree
# is copied at every call that is not inlined.


@bare_step
def raise_weight(summary, attributes, weights, free, state, word, a, weight):
    """Raise a summary, whose start is in `word`, to a weight; tell whether it was less."""
    start, size = summary[word], summary[word + 1]
    i = find_attribute(attributes, start, size, a)
    if i < start + size and attributes[i] == a:
        if weights[i] >= weight:
            return False
        weights[i] = weight
        return True
    if size == 0 or (size >= 1 << SMALLEST_CLASS and size & (size - 1) == 0):
        k = SMALLEST_CLASS if size == 0 else size_class(size + 1)
        fresh = allocate(free, 2 * CLASSES, attributes, state, SUMMARIES, k)
        for j in range(size):
            attributes[fresh + j], weights[fresh + j] = attributes[start + j], weights[start + j]
        i += fresh - start
        release_summary(summary, attributes, free, word)
        start = fresh
    for j in range(start + size, i, -1):
        attributes[j], weights[j] = attributes[j - 1], weights[j - 1]
    attributes[i], weights[i] = a, weight
    summary[word], summary[word + 1] = start, size + 1
    return True


@bare_step
def raise_to_conjunction(
    summary, attributes, weights, free, state, word, tested, kind, high, weight, own_score, rows,
    number,
):  # fmt: skip
    """Raise a summary to the weights of a conjunction; tell whether one was less."""
    raised = False
    if has_own_score(own_score, number):
        return raised
    begin, stop = rows[number], rows[number + 1]
    for row in range(begin, stop):
        if adds_to_score(tested, kind, high, begin, row):
            each = weight[row] if weight.shape[0] > 0 else 1.0
            if each > 0:
                raised |= raise_weight(
                    summary, attributes, weights, free, state, word, tested[row], each
                )
    return raised


@bare_step
def raise_to_summary(t, word, other):
    """Raise a summary to another one."""
    summary, attributes, weights = t.summary, t.summary_attribute, t.summary_weight
    start = summary[other]
    for i in range(start, start + summary[other + 1]):
        a, weight = attributes[i], weights[i]
        raise_weight(summary, attributes, weights, t.free, t.state, word, a, weight)


@bare_step
def summary_below(summary, b):
    """Return the word of the summary of all that is below a bucket."""
    return b * SUMMARY + (BELOW if summary[b * SUMMARY + BELOW] >= 0 else OWN)


@bare_step
def raise_path(t, c):
    """Raise the summaries above a conjunction that was inserted; tell whether there was room.

    `state` has the conjunction, and the bucket to go on with.
    """
    bucket, state, free = t.bucket, t.state, t.free
    summary, attributes, weights = t.summary, t.summary_attribute, t.summary_weight
    tested, kind, high, weight = c.attribute, c.kind, c.high, c.weight
    rows, own_score = c.offsets, c.score
    number, home = state[RAISED], t.home[state[RAISED]]
    while state[RAISING] >= 0:
        b = state[RAISING]
        if not has_room(t, 0, 0, 0, 0, 2 * room_for_summary(t)):
            return False
        raised = False
        if b == home:
            word = b * SUMMARY + OWN
            raised = raise_to_conjunction(
                summary, attributes, weights, free, state, word, tested, kind, high, weight,
                own_score, rows, number,
            )  # fmt: skip
        if has_summary_below(bucket, b):
            word = b * SUMMARY + BELOW
            raised = raise_to_conjunction(
                summary, attributes, weights, free, state, word, tested, kind, high, weight,
                own_score, rows, number,
            )  # fmt: skip
        state[RAISING] = bucket[b * BUCKET + PARENT] if raised else -1
    return True


@bare_step
def has_summary_below(bucket, b):
    """Tell whether a bucket has more below it than its leaf, and is not the root."""
    return b > 0 and (bucket[b * BUCKET + CUT] != NULL or bucket[b * BUCKET + NODES] > 0)


@bare_step
def summarise_leaf(t, c, b):
    """Write the summary of a leaf, which must be empty."""
    summary, attributes, weights = t.summary, t.summary_attribute, t.summary_weight
    rows, tested, kind, high, weight = c.offsets, c.attribute, c.kind, c.high, c.weight
    own_score = c.score
    target, free, state, word = t.target, t.free, t.state, b * SUMMARY + OWN
    start = t.bucket[b * BUCKET + LEAF]
    for i in range(start, start + t.bucket[b * BUCKET + SIZE]):
        raise_to_conjunction(
            summary, attributes, weights, free, state, word, tested, kind, high, weight, own_score,
            rows, target[i],
        )  # fmt: skip


@bare_step
def divide_summary(t, c, b):
    """Write the summaries of a bucket some of whose members have just moved below it."""
    summary = t.summary
    at = b * SUMMARY
    if has_summary_below(t.bucket, b) and summary[at + BELOW] < 0:
        summary[at + BELOW], summary[at + BELOW_SIZE] = summary[at + OWN], summary[at + OWN_SIZE]
        summary[at + OWN], summary[at + OWN_SIZE] = -1, 0
    else:
        release_summary(summary, t.summary_attribute, t.free, at + OWN)
    summarise_leaf(t, c, b)


@bare_step
def refit_summaries(t, c, b):
    """Compute the summaries of a bucket again; tell whether one has changed.

    There must be room for both, since the old ones are kept until they have been compared.
    """
    bucket, summary, pnode, target = t.bucket, t.summary, t.pnode, t.target
    at = b * SUMMARY
    own, own_size = summary[at + OWN], summary[at + OWN_SIZE]
    below, below_size = summary[at + BELOW], summary[at + BELOW_SIZE]
    for word in (OWN, BELOW):
        summary[at + word], summary[at + word + 1] = -1, 0
    summarise_leaf(t, c, b)
    if has_summary_below(bucket, b):
        raise_to_summary(t, at + BELOW, at + OWN)
        for side in (LEFT, RIGHT):
            child = bucket[b * BUCKET + side]
            if child >= 0:
                raise_to_summary(t, at + BELOW, summary_below(summary, child))
        start = bucket[b * BUCKET + DIRECTORY]
        for i in range(start, start + bucket[b * BUCKET + NODES]):
            root = pnode[target[i] * PNODE + ROOT]
            raise_to_summary(t, at + BELOW, summary_below(summary, root))
    changed = replace_summary(t, at + OWN, own, own_size)
    return replace_summary(t, at + BELOW, below, below_size) or changed


@bare_step
def replace_summary(t, word, start, size):
    """Release the run that a summary had before; tell whether it was another one."""
    attributes, weights, new = t.summary_attribute, t.summary_weight, t.summary[word]
    changed = size != t.summary[word + 1]
    for i in range(size if not changed else 0):
        changed |= attributes[start + i] != attributes[new + i]
        changed |= weights[start + i] != weights[new + i]
    if start >= 0:
        k = max(SMALLEST_CLASS, size_class(size))
        release(t.free, 2 * CLASSES, attributes, start, k)
    return changed


@bare_step
def upper_score(summary, attributes, weights, word, own_weights, scoring, n_scoring, combine):
    """Return the paper's uscore: the score of a conjunction that has all greatest weights.

    `own_weights` are those of the event by attribute, 0 for attributes that cannot count; `scoring`
    lists the others. Their products are added, or else combined in the order of attributes (see
    `topk`).
    """
    start, size = summary[word], summary[word + 1]
    total = 0.0
    if combine != 0:
        for i in range(start, start + size):
            product = weights[i] * own_weights[attributes[i]]
            if product > 0:
                total = call_pair(combine, total, product)
        return total
    if size <= _LONG * n_scoring:
        for i in range(start, start + size):
            total += weights[i] * own_weights[attributes[i]]
        return total
    for j in range(n_scoring):
        i = find_attribute(attributes, start, size, scoring[j])
        if i < start + size and attributes[i] == scoring[j]:
            total += weights[i] * own_weights[scoring[j]]
    return total
