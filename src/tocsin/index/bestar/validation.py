"""What matching relies on in a stored tree, and `BEStar.validate` checks.

This is less than all invariants of a tree (`tests/index/bestar_invariants.py`): not whether each
bucket is where it should be, only whether it can be visited. Changes in place rely on all
invariants. The engine makes none to a stored tree: `BEStar.tuned` builds another one.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    ATTRIBUTE_SUMMARIES,
    BOXES,
    BUCKET,
    BUCKETS,
    CLASSES,
    COMMON_PREDICATES,
    DIRECTORY,
    ENTRIES,
    LEAF,
    LEFT,
    LONGEST_LEAF,
    NODES,
    OPTIONS,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    STATE,
    SUMMARIES,
    SUMMARY,
    Tree,
)
from tocsin.model.conjunctions import expand_ranges
from tocsin.model.validation import check_lengths, check_within, require


def check_tree(t: Tree, size: int, width: int) -> None:
    """Raise unless the tree is sound, of `size` conjunctions over a schema of `width` attributes.

    Every bucket but the root hangs in one place, and so does every p-node: so an event comes to
    each at most once, and to as many members as there are conjunctions at most. The tree is packed,
    as one that was built is: nothing is free.
    """
    check_lengths(t, STATE, "state")
    check_lengths(t, OPTIONS, "options")
    require(bool((t.options >= 0).all()), "no option may be negative or NaN")
    check_lengths(t, 3 * CLASSES, "free")
    buckets, pnodes, entries, boxes = t.state[[BUCKETS, PNODES, ENTRIES, BOXES]].tolist()
    summaries = int(t.state[SUMMARIES])
    check_lengths(t, BUCKET * buckets, "bucket")
    check_lengths(t, 2 * buckets, "max_sums")
    check_lengths(t, PNODE * pnodes, "pnode")
    check_lengths(t, pnodes, "loss")
    check_lengths(t, entries, "target", "required")
    check_lengths(t, boxes, "box")
    has_gains = t.options[COMMON_PREDICATES] != 0
    check_lengths(t, buckets if has_gains else 0, "leaf_gain")
    check_lengths(t, pnodes if has_gains else 0, "gain")
    check_lengths(t, summaries, "summary_attribute", "summary_weight")
    has_summaries = t.options[ATTRIBUTE_SUMMARIES] != 0
    check_lengths(t, SUMMARY * buckets if has_summaries else 0, "summary")
    check_lengths(t, size, "home", "place", "only_intervals")
    attributes = len(t.loss_rate)
    check_lengths(t, attributes, "popularity", "extension", "usual_weight", "scored_when_null")
    check_lengths(t, 2 * attributes, "space")
    require(attributes <= width, f"'loss_rate' must be of at most {width:,} attributes")
    require(buckets > 0, "there must be a root")
    bucket, pnode = t.bucket.reshape(-1, BUCKET), t.pnode.reshape(-1, PNODE)

    members = _run_places("leaf", bucket[:, LEAF], bucket[:, SIZE], size, entries)
    check_within("target", t.target[members], 0, size)
    check_within("required", t.required[members], 0, width + 1)
    longest = int(bucket[:, SIZE].max())
    require(longest <= t.state[LONGEST_LEAF] <= size, "no leaf may be longer than the longest")

    below = _run_places("directory", bucket[:, DIRECTORY], bucket[:, NODES], pnodes, entries)
    check_within("target", t.target[below], 0, pnodes)
    check_within("required", t.required[below], 1, width + 1)
    check_within("attribute of a p-node", pnode[:, ATTRIBUTE], 0, width)
    starts, sizes = t.summary[0::2], t.summary[1::2]
    _run_places("summary", starts, sizes, summaries, summaries)
    check_within("summary_attribute", t.summary_attribute, 0, attributes)
    ascends = np.diff(t.required[below]) > 0
    ends = np.cumsum(bucket[:, NODES])
    ascends[ends[(ends > 0) & (ends < len(below))] - 1] = True
    require(bool(ascends.all()), "the attributes of a directory must ascend")

    children = bucket[:, [LEFT, RIGHT]].reshape(-1)
    children = np.concatenate([children[children >= 0], pnode[:, ROOT]])
    check_within("bucket", children, 1, buckets)
    for what, numbers in (("bucket", children), ("p-node", t.target[below])):
        require(np.bincount(numbers).max(initial=0) <= 1, f"a {what} must hang in one place")


def _run_places(
    what: str, starts: np.ndarray, sizes: np.ndarray, most: int, entries: int
) -> np.ndarray:
    """Return the places of all runs of entries; raise if they are out of range or too many."""
    check_within(f"size of a {what}", sizes, 0, most + 1)
    require(int(sizes.sum()) <= most, f"there must be at most {most:,} entries of a {what}")
    used = sizes > 0
    require(
        bool(((starts >= 0) & (starts <= entries - sizes))[used].all()),
        f"the entries of a {what} must be among the {entries:,} there are",
    )
    return expand_ranges(starts[used], starts[used] + sizes[used])
