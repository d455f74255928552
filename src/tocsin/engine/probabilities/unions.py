"""The probability that one of several conjunctions holds: see the package for the algorithm."""

from __future__ import annotations

import numpy as np

from tocsin.engine.probabilities.ranges import (
    DISCRETE,
    Uncertainty,
    count_points,
    first_point,
    place_on_line,
)
from tocsin.index.accept import holds
from tocsin.index.sorting import sort
from tocsin.jit import Int64s, bare_step, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.predicates import INTERVAL, SET

# Of one rule and one event. The unit is a predicate tested in a piece, or a word of a state that is
# combined with a piece: measured to take 3 to 5 nanoseconds. The limit, chosen, is about 70
# milliseconds: an OR of 500 boxes over two attributes takes half of it for an event that all of
# them may contain, and a few microseconds for a narrow one.
MAX_WORK = 1 << 24
_STATE_WORK = 16  # of looking a state up; measured to take 80 to 130 nanoseconds


@step
def cut_range(kind, low, high, points, row, after, scale, first, last):
    """Return the keys where the pieces of an attribute's range begin, ascending from `first`.

    A predicate in the rows `row[j]` to `after[j]` of a conjunction holds in all of a piece, or
    nowhere in it. Points of sets are pieces only if they have a probability.
    """
    most = 1
    for j in range(row.shape[0]):
        for r in range(row[j], after[j]):
            if kind[r] == INTERVAL:
                most += 2
            elif scale == DISCRETE:
                most += 2 * count_points(points, low[r], high[r], first, last)
    starts = np.empty(most, np.int64)
    starts[0] = first
    size = 1
    for j in range(row.shape[0]):
        for r in range(row[j], after[j]):
            if kind[r] == INTERVAL:
                if first < low[r] <= last:
                    starts[size] = low[r]
                    size += 1
                if first <= high[r] < last:
                    starts[size] = high[r] + 1
                    size += 1
            elif scale == DISCRETE:
                begin, end = low[r], high[r]
                for p in range(first_point(points, begin, end, first, False), end):
                    point = points[p]
                    if point > last:
                        break
                    starts[size] = point
                    size += 1
                    if point < last:
                        starts[size] = point + 1
                        size += 1
    sort(starts[:size])
    found, size = size, 1
    for i in range(1, found):
        if starts[i] != starts[i - 1]:
            starts[size] = starts[i]
            size += 1
    return starts[:size]


@bare_step
def allows(kind, low, high, points, row, after, continuous, key):
    """Return whether the predicates in rows `row` to `after` hold in the piece that has a key."""
    for r in range(row, after):
        if continuous and kind[r] != INTERVAL:
            if kind[r] == SET:
                return False
        elif not holds(kind[r], low[r], high[r], points, key):
            return False
    return True


@bare_step
def find_state(states, slots, state):
    """Return the slot of a state in a hash table, or of the place where it is to be added."""
    code = np.uint64(0x9E3779B97F4A7C15)
    for w in range(state.shape[0]):
        code = (code ^ state[w]) * np.uint64(0xFF51AFD7ED558CCD)
        code ^= code >> np.uint64(32)
    mask = np.uint64(slots.shape[0] - 1)
    slot = code & mask
    while slots[slot] >= 0:
        same = True
        for w in range(state.shape[0]):
            same &= states[slots[slot], w] == state[w]
        if same:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@step
def union_probability(c, begin, count, scale, d, density_of, values, values_high, most_work):
    """Return the probability that one of `count` conjunctions from `begin` on holds, and the work.

    If that is more than `most_work`, the probability is not computed. Bit j of a state is whether
    conjunction begin + j is still possible.
    """
    tested, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    words = (count + 63) >> 6
    one = np.uint64(1)
    row, after, end = np.empty(count, np.int64), np.empty(count, np.int64), c.offsets[begin + 1 :]
    states, mass, size = np.zeros((1, words), np.uint64), np.ones(1), 1
    for j in range(count):
        row[j] = c.offsets[begin + j]
        if row[j] == end[j]:
            return 1.0, 0  # always true
        states[0, j >> 6] |= one << np.uint64(j & 63)
    total, work = 0.0, 0
    current, finished = np.empty(words, np.uint64), np.empty(words, np.uint64)
    while size > 0:
        attribute = scale.shape[0]
        for j in range(count):
            if row[j] < end[j]:
                attribute = min(attribute, tested[row[j]])
        if attribute == scale.shape[0]:
            break  # there are no conjunctions
        finished[:] = 0
        tests = 0
        for j in range(count):
            after[j] = row[j]
            while after[j] < end[j] and tested[after[j]] == attribute:
                after[j] += 1
            tests += after[j] - row[j]
            if after[j] == end[j]:
                finished[j >> 6] |= one << np.uint64(j & 63)
        first, last, at = values[attribute], values_high[attribute], density_of[attribute]
        is_range = first < last
        continuous = is_range and scale[attribute] != DISCRETE
        starts = cut_range(kind, low, high, points, row, after, scale[attribute], first, last)
        if is_range:  # one value makes no states; `checks` leaves such attributes out, too
            work += starts.shape[0] * (tests + size * words)
        if work > most_work:
            return np.nan, work

        lows, highs = np.zeros(starts.shape[0]), np.ones(starts.shape[0])
        allowed, length, pieces = np.zeros((starts.shape[0], words), np.uint64), 1.0, 0
        if is_range:
            low_end, high_end = place_on_line(scale[attribute], d, at, first, last, first, last)
            length = high_end - low_end
        for i in range(starts.shape[0]):
            start, stop = starts[i], starts[i + 1] - 1 if i + 1 < starts.shape[0] else last
            if continuous and start == stop:
                continue  # it has no probability
            if is_range:
                lows[pieces], highs[pieces] = place_on_line(
                    scale[attribute], d, at, first, last, start, stop
                )
            for j in range(count):
                if allows(kind, low, high, points, row[j], after[j], continuous, start):
                    allowed[pieces, j >> 6] |= one << np.uint64(j & 63)
            pieces += 1

        # Adjacent pieces that lead to the same state are one run: no rounding between them.
        next_states, next_mass, next_size = np.empty((8, words), np.uint64), np.empty(8), 0
        slots = np.full(16, -1, np.int32)
        for s in range(size):
            run = -1
            for i in range(pieces + 1):
                if i < pieces and run >= 0:
                    same = True
                    for w in range(words):
                        same &= states[s, w] & allowed[i, w] == current[w]
                    if same:
                        continue
                if run >= 0:
                    is_true = is_possible = False
                    for w in range(words):
                        is_true |= current[w] & finished[w] != 0
                        is_possible |= current[w] != 0
                    weight = mass[s] * max(highs[i - 1] - lows[run], 0.0) / length
                    if is_true:
                        total += weight
                    elif is_possible:
                        if 2 * next_size == slots.shape[0]:  # twice the room
                            next_states = np.concatenate((next_states, next_states))
                            next_mass = np.concatenate((next_mass, next_mass))
                            slots = np.full(2 * slots.shape[0], -1, np.int32)
                            for n in range(next_size):
                                slots[find_state(next_states, slots, next_states[n])] = n
                        slot = find_state(next_states, slots, current)
                        if slots[slot] < 0:
                            slots[slot] = next_size
                            for w in range(words):
                                next_states[next_size, w] = current[w]
                            next_mass[next_size] = 0.0
                            next_size += 1
                        next_mass[slots[slot]] += weight
                        work += _STATE_WORK if is_range else 0
                run = i
                if i < pieces:
                    for w in range(words):
                        current[w] = states[s, w] & allowed[i, w]
            if work > most_work:
                return np.nan, work
        states, mass, size = next_states, next_mass, next_size
        row, after = after, row
    return min(total, 1.0), work


@kernel
def union_work(
    c: Conjunctions, u: Uncertainty, values: Int64s, values_high: Int64s, most_work: int
) -> int:
    """Return the work for one of the conjunctions to hold, or more than `most_work`.

    `values` and `values_high` are the keys of an event by attribute, and the high ends of its
    ranges, all of which are uniform.
    """
    uniform = np.full(values.shape[0], -1, np.int64)
    count = c.rule.shape[0]
    return union_probability(
        c, 0, count, u.scale, u.density, uniform, values, values_high, most_work
    )[1]
