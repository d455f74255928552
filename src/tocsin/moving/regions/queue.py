"""Nodes to visit, the nearest first: a binary heap in two arrays."""

from __future__ import annotations

from tocsin.jit import bare_step


@bare_step
def push(distances, nodes, size, distance, node):
    """Add a node; return how many there are."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if distances[parent] <= distance:
            break
        distances[at], nodes[at] = distances[parent], nodes[parent]
        at = parent
    distances[at], nodes[at] = distance, node
    return size + 1


@bare_step
def pop(distances, nodes, size):
    """Remove the first node, which the caller has read; return how many are left."""
    size -= 1
    distance, node = distances[size], nodes[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and distances[child + 1] < distances[child]:
            child += 1
        if distance <= distances[child]:
            break
        distances[at], nodes[at] = distances[child], nodes[child]
        at = child
    distances[at], nodes[at] = distance, node
    return size
