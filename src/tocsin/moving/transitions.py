"""What a row, a timer and a changed rule do to an object: incremental evaluation (thesis 2.4).

Each of the three runs through the stays of one object (`objects.py`) and writes events. A stay is
*pending* from the first position inside until its enter is confirmed, and an object is *in* a fence
from then until its leave is confirmed. `fire_stay` is the only place that confirms: it reports all
that is due up to a time, and returns when the next is. A row changes only which stays there are and
since when they are outside. So `min_stay` and `min_away` of nothing are not a special case, except
that rows take a shorter way if a monitor has neither durations nor margins (`exchange_stays`).

Unlike the thesis, which keeps the result of each query (`q.S_X`), this keeps the queries of each
object: a row then changes one list, and `Monitor.inside` runs over all of them.

Events are records of eight words, in the order in which they happen to an object. Times are words
in the order of time: integers as they are, floats as keys (`model/keys.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt8s, bare_step, kernel, prefetch
from tocsin.model.keys import Keys, blank, load, to_key, to_number, unload
from tocsin.moving.objects import (
    AT_ONCE,
    AWAY,
    BLOCK,
    CONFIRMED,
    COUNT,
    DUE,
    DWELLED,
    LAST,
    LONG_AGO,
    NEVER,
    NONE,
    POSITION,
    RANK,
    ROOM,
    ROW,
    RULE,
    SINCE,
    START,
    STAY,
    TIMER,
    WORDS,
)
from tocsin.moving.widening import Widened, holds_widened

# The words of an event. A source is a row of the batch, or -2 minus a row of the log of reports.
EVENT = 8
TIME, WHEN_SINCE, WHO, SLOT, WHICH, WHAT, SOURCE = range(7)
ENTER, LEAVE, DWELL, LOST, REGION, ASK = range(6)
OBJECT_LOST, RULE_ADDED, RULE_CHANGED, RULE_REMOVED, OBJECT_REMOVED = (n << 4 for n in range(1, 6))
NO_RULE = 2**31 - 1  # of `LOST` and what follows it; after all rules

# What became of a rule.
UNCHANGED, REMOVED, MOVED, CHANGED = range(4)
# Flags above the position of a rule that holds for an object after rules changed.
WIDE = 1 << 32  # only when it is widened
REPLACES = 1 << 33  # it changed, and was not added
UNDECIDED = 1 << 34  # whoever is in it stays in it until the next row

# Rows ahead whose records are prefetched, and half as many for stays. Measured with a million
# objects: without the prefetches of the batch's own columns the kernel takes a third longer.
_AHEAD = 16

# The words of `Progress.numbers`.
EVENTS, POOL_END, REPORTS, FORGOTTEN, OUTDATED, RANKS, LATE, DOUBLED = range(8)


class Options(NamedTuple):
    """What a monitor waits for; durations are of the type of times."""

    wait: Int64s  # [4] min_stay, min_away, lost_after or -1, whether times are floats
    dwell: Int64s  # [1] for all rules, or [positions]; -1 for none
    quiet: UInt8s  # [slots] not 0 for objects that are not lost; or [0]


class Progress(NamedTuple):
    """What an update writes."""

    events: Int64Out  # [8 e] see above
    numbers: Int64Out  # [8] how many of each there are, see above
    reports: Int32Out  # the rows of the batch that are last reports now, in the order of slots
    forgotten: Int32Out  # slots
    outdated: Int64Out  # rows of the log of reports
    stays: Int64Out  # room for the stays of one object
    late: Int32Out  # [slots] rows
    doubled: Int32Out  # [slots] rows


class Rows(NamedTuple):
    """The rows of a batch and the rules that they match."""

    order: Int32s  # rows by slot, then time
    slots: Int32s  # [n]
    times: Int64s  # [n]
    removed: UInt8s  # [n] whether the row removes its object; or [0]
    offsets: Int64s  # [n + 1]
    rules: Int32Out  # of row r: offsets[r] to offsets[r + 1]
    unchanged: UInt8s  # [n] not 0 for rows that match as their object's last row; or [0]


@bare_step
def later(time, duration, is_float):
    """Return a time plus a duration; `NEVER` if there is no such time."""
    if is_float != 0:
        return to_key(to_number(time, 1) + np.int64(duration).view(np.float64))
    due = time + duration
    return due if due >= time else np.int64(NEVER)


@bare_step
def emit(events, n, time, since, rank, slot, rule, what, source):
    """Write an event; return the number of the next."""
    base = n * EVENT
    events[base + TIME], events[base + WHEN_SINCE], events[base + WHO] = time, since, rank
    events[base + SLOT], events[base + WHICH], events[base + WHAT] = slot, rule, what
    events[base + SOURCE] = source
    return n + 1


@bare_step
def fire_stay(stays, at, limit, wait, dwell, events, n, rank, slot, source):
    """Report what a stay is due to have reported up to a time.

    Return the number of events, the time of the last of these, when the next is due, and whether
    the stay goes on.
    """
    word, since, away = stays[at + RULE], stays[at + SINCE], stays[at + AWAY]
    rule = word & POSITION
    fired, due, leave = np.int64(LONG_AGO), np.int64(NEVER), np.int64(NEVER)
    if word & CONFIRMED == 0:
        enter = later(since, wait[0], wait[3])
        if enter > limit or enter == NEVER:
            return n, fired, enter, True
        n = emit(events, n, enter, since, rank, slot, rule, ENTER, source)
        word |= CONFIRMED
        fired = enter
    if away != NONE:
        leave = later(away, wait[1], wait[3])
    patience = dwell[rule] if dwell.shape[0] > 1 else dwell[0]
    if patience >= 0 and word & DWELLED == 0:
        due = later(since, patience, wait[3])
        if word & AT_ONCE == 0:
            due = max(due, later(since, wait[0], wait[3]))
        if due <= limit and due <= leave and due != NEVER:
            n = emit(events, n, due, since, rank, slot, rule, DWELL, source)
            word |= DWELLED
            fired, due = max(fired, due), np.int64(NEVER)
    if leave <= limit and leave != NEVER:
        n = emit(events, n, leave, away, rank, slot, rule, LEAVE, source)
        return n, max(fired, leave), np.int64(NEVER), False
    stays[at + RULE] = word
    return n, fired, min(due, leave), True


@bare_step
def fire_stays(records, pool, slot, limit, wait, dwell, is_quiet, events, n, source):
    """Report what is due for an object up to a time, `lost` only before it, and not if it is quiet.

    Return the number of events, and whether the object is lost.
    """
    base = slot * WORDS
    start, rank = records[base + START], records[base + RANK]
    lost, is_lost = np.int64(NEVER), False
    if wait[2] >= 0 and not is_quiet:
        lost = later(records[base + LAST], wait[2], wait[3])
        if lost < limit and lost != NEVER:
            limit, is_lost = lost, True
    kept, due = 0, lost
    for i in range(records[base + COUNT]):
        at, to = start + i * STAY, start + kept * STAY
        n, fired, own_due, goes_on = fire_stay(
            pool, at, limit, wait, dwell, events, n, rank, slot, source
        )
        records[base + TIMER] = max(records[base + TIMER], fired)
        if goes_on:
            for word in range(STAY):
                pool[to + word] = pool[at + word]
            kept += 1
            due = min(due, own_due)
    records[base + COUNT], records[base + DUE] = kept, due
    if is_lost:
        n = leave_all(records, pool, slot, lost, OBJECT_LOST, events, n, source)
        since = records[base + LAST]
        n = emit(events, n, lost, since, rank, slot, NO_RULE, LOST, source)
        reset(records, slot)
    return n, is_lost


@bare_step
def leave_all(records, pool, slot, time, reason, events, n, source):
    """Report that an object leaves the rules that it is in; return the number of events."""
    base = slot * WORDS
    start, rank = records[base + START], records[base + RANK]
    for i in range(records[base + COUNT]):
        at = start + i * STAY
        word, away = pool[at + RULE], pool[at + AWAY]
        if word & CONFIRMED != 0:
            since = time if away == NONE else away
            what, rule = LEAVE | reason, word & POSITION
            n = emit(events, n, time, since, rank, slot, rule, what, source)
    return n


@bare_step
def reset(records, slot):
    """Make a record that of an object that was never seen; its room for stays remains."""
    base = slot * WORDS
    records[base + LAST], records[base + TIMER] = LONG_AGO, LONG_AGO
    records[base + DUE], records[base + COUNT] = NEVER, 0


@bare_step
def set_rank(records, slot, ranks, appeared, events, first, n):
    """Rank an object that appeared in this batch by the first of its rows, also in its events."""
    if appeared >= 0:
        records[slot * WORDS + RANK] = ranks + appeared
        for event in range(first, n):
            events[event * EVENT + WHO] = ranks + appeared


@bare_step
def keep_stays(records, pool, slot, stays, count, end):
    """Write an object's stays back, at the end of the pool if there is no room; return the end."""
    base = slot * WORDS
    if count > records[base + ROOM]:
        records[base + START], records[base + ROOM] = end, count + (count >> 1) + 1
        end += records[base + ROOM] * STAY
    start = records[base + START]
    for i in range(0, count * STAY, STAY):
        pool[start + i + RULE] = stays[i + RULE]
        pool[start + i + SINCE] = stays[i + SINCE]
        pool[start + i + AWAY] = stays[i + AWAY]
    records[base + COUNT] = count
    return end


@bare_step
def sort_run(rules, first, stop):
    """Sort a run of rules; it is short, or sorted already."""
    for i in range(first + 1, stop):
        rule, at = rules[i], i
        while at > first and rules[at - 1] > rule:
            rules[at] = rules[at - 1]
            at -= 1
        rules[at] = rule


@bare_step
def is_same(pool, start, count, rules, first, stop):
    """Return whether an object is in these rules, and about to leave none of them."""
    if count != stop - first:
        return False
    same = True
    for i in range(count):
        at = start + i * STAY
        same &= (pool[at + RULE] & POSITION == rules[first + i]) & (pool[at + AWAY] == NONE)
    return same


@bare_step
def exchange_stays(records, pool, slot, time, rules, j, stop, stays, events, n, row):
    """Write the stays of an object that is in these rules now; report what changes.

    Without durations and margins, this is what `run_rows` does otherwise, without a branch for each
    stay. Return the number of events, and of stays.
    """
    base = slot * WORDS
    at, rank, size = records[base + START], records[base + RANK], np.int64(0)
    end = at + records[base + COUNT] * STAY
    while at < end or j < stop:
        own = pool[at + RULE] & POSITION if at < end else np.int64(NO_RULE)
        rule = np.int64(rules[j]) if j < stop else np.int64(NO_RULE)
        was_inside, is_inside = own <= rule, rule <= own
        emit(events, n, time, time, rank, slot, min(own, rule), np.int64(was_inside), row)
        n += was_inside != is_inside
        to = size * STAY
        stays[to + RULE] = pool[at + RULE] if was_inside else rule | CONFIRMED
        stays[to + SINCE] = pool[at + SINCE] if was_inside else time
        stays[to + AWAY] = NONE
        size += is_inside
        at += STAY * was_inside
        j += is_inside
    return n, size


@kernel
def run_rows(
    records: Int64Out,
    pool: Int64Out,
    block_due: Int64Out,
    rows: Rows,
    options: Options,
    widened: Widened,
    keys: Keys,
    first_report: int,
    progress: Progress,
) -> None:
    """Let the rows of a batch happen, object by object in the order of time.

    Without a margin, `widened` has no conjunctions and is not used, as `keys`.
    """
    order, slots, times, removed = rows.order, rows.slots, rows.times, rows.removed
    offsets, rules, wait, dwell = rows.offsets, rows.rules, options.wait, options.dwell
    events, numbers, reports = progress.events, progress.numbers, progress.reports
    forgotten, outdated, stays = progress.forgotten, progress.outdated, progress.stays
    late, doubled = progress.late, progress.doubled
    quiet, unchanged = options.quiet, rows.unchanged
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    has_high = columns_high.shape[0] + key_high.shape[0] > 0
    line = blank(widened.near.shape[0])
    line_high = blank(widened.near.shape[0])
    has_margin = widened.rule.shape[0] > 0
    has_timers = wait[0] + wait[1] != 0 or wait[2] >= 0 or dwell.shape[0] > 1 or dwell[0] >= 0
    is_plain = not has_timers and not has_margin
    # What a row moves though no stay changes: the time of `lost`, and a rule's dwell may be new.
    is_due_anew = wait[2] >= 0 or dwell.shape[0] > 1
    n, end = numbers[EVENTS], numbers[POOL_END]
    at = 0
    while at < order.shape[0]:
        if at + _AHEAD < order.shape[0]:
            next_row = np.int64(order[at + _AHEAD])
            prefetch(times, next_row)
            prefetch(offsets, next_row)
            prefetch(records, np.int64(slots[next_row]) * WORDS)
            next_row = np.int64(order[at + _AHEAD // 2])
            prefetch(rules, offsets[next_row])
            near = np.int64(slots[next_row]) * WORDS
            prefetch(pool, records[near + START])
            prefetch(pool, records[near + START] + 8)
            prefetch(pool, records[near + START] + 16)
        slot = np.int64(slots[order[at]])
        base = slot * WORDS
        bound = max(records[base + LAST], records[base + TIMER])
        first_source = source = -2 - records[base + ROW]
        is_known = records[base + LAST] != LONG_AGO
        is_quiet = slot < quiet.shape[0] and quiet[slot] != 0
        appeared, first_event = np.int64(-1), n
        if not is_known:
            late[slot] = doubled[slot] = 0
        report, before = np.int64(-1), np.int64(LONG_AGO)
        while at < order.shape[0] and slots[order[at]] == slot:
            row = np.int64(order[at])
            at += 1
            time = times[row]
            if time <= bound:
                late[slot] += 1
                numbers[LATE] += 1
                continue
            if time == before:
                doubled[slot] += is_known  # and not of one that the row before has removed
                numbers[DOUBLED] += 1
                if appeared >= 0:
                    appeared = min(appeared, row)
                continue
            before = time
            if is_known and records[base + DUE] <= time and records[base + DUE] != NEVER:
                n, is_lost = fire_stays(
                    records, pool, slot, time, wait, dwell, is_quiet, events, n, source
                )
                if is_lost:
                    set_rank(records, slot, numbers[RANKS], appeared, events, first_event, n)
                    is_known, appeared = False, np.int64(-1)
                    late[slot] = doubled[slot] = 0
            if not is_known:
                appeared, first_event = row, n
            elif appeared >= 0:
                appeared = min(appeared, row)
            if removed.shape[0] > 0 and removed[row] != 0:
                n = leave_all(records, pool, slot, time, OBJECT_REMOVED, events, n, row)
                reset(records, slot)
                twin = at  # rows of equal time belong to the same life
                while appeared >= 0 and twin < order.shape[0] and slots[order[twin]] == slot:
                    if times[order[twin]] != time:
                        break
                    appeared = min(appeared, np.int64(order[twin]))
                    twin += 1
                set_rank(records, slot, numbers[RANKS], appeared, events, first_event, n)
                is_known, report, appeared = False, np.int64(-1), np.int64(-1)
                late[slot] = doubled[slot] = 0
                continue
            is_known, report, source = True, row, row
            records[base + LAST] = time
            if unchanged.shape[0] > 0 and unchanged[row] != 0:
                if dwell.shape[0] > 1:
                    records[base + DUE] = min(records[base + DUE], time)  # it may be new
                continue
            is_quiet = False
            start, count = records[base + START], records[base + COUNT]
            j, stop = offsets[row], offsets[row + 1]
            sort_run(rules, j, stop)
            if not is_due_anew and is_same(pool, start, count, rules, j, stop):
                continue  # no timer is due, or else it has fired above
            if is_plain:
                n, size = exchange_stays(
                    records, pool, slot, time, rules, j, stop, stays, events, n, row
                )
                end = keep_stays(records, pool, slot, stays, size, end)
                continue
            i, size, changed, loaded = 0, 0, False, False
            while i < count or j < stop:
                own = pool[start + i * STAY + RULE] & POSITION if i < count else np.int64(NO_RULE)
                rule = np.int64(rules[j]) if j < stop else np.int64(NO_RULE)
                to = size * STAY
                if rule < own:
                    stays[to + RULE], stays[to + SINCE], stays[to + AWAY] = rule, time, NONE
                    size, changed = size + 1, True
                    j += 1
                    continue
                word = pool[start + i * STAY + RULE]
                away = pool[start + i * STAY + AWAY]
                is_inside = own == rule
                if not is_inside and has_margin and word & CONFIRMED != 0:
                    if not loaded:
                        load(columns, column_attribute, sparse, attribute, key, row, line)
                        if has_high:
                            load(
                                columns_high, column_attribute, sparse, attribute, key_high, row,
                                line_high,
                            )  # fmt: skip
                        loaded = True
                    is_inside = holds_widened(widened, own, line, line_high, has_high)
                if is_inside:
                    changed |= away != NONE
                    away = NONE
                elif word & CONFIRMED == 0:
                    changed = True
                    i += 1
                    continue
                elif away == NONE:
                    changed = True
                    away = time
                stays[to + RULE], stays[to + AWAY] = word, away
                stays[to + SINCE] = pool[start + i * STAY + SINCE]
                size += 1
                i += 1
                j += own == rule
            if loaded:
                unload(sparse, attribute, row, line)
                if has_high:
                    unload(sparse, attribute, row, line_high)
            if not changed and not is_due_anew:
                continue
            due, kept, rank = np.int64(NEVER), 0, records[base + RANK]
            if wait[2] >= 0:
                due = later(time, wait[2], wait[3])
            for i in range(size):
                goes_on = stays[i * STAY + RULE] & CONFIRMED != 0 and stays[i * STAY + AWAY] == NONE
                if has_timers or not goes_on:
                    n, _, own_due, goes_on = fire_stay(
                        stays, i * STAY, time, wait, dwell, events, n, rank, slot, row
                    )
                    due = min(due, own_due)
                if goes_on:
                    if kept < i:
                        for word in range(STAY):
                            stays[kept * STAY + word] = stays[i * STAY + word]
                    kept += 1
            records[base + DUE] = due
            if changed:
                end = keep_stays(records, pool, slot, stays, kept, end)
        set_rank(records, slot, numbers[RANKS], appeared, events, first_event, n)
        if first_source < -1 and (report >= 0 or not is_known):
            outdated[numbers[OUTDATED]] = -2 - first_source
            numbers[OUTDATED] += 1
        if is_known and report >= 0:
            reports[numbers[REPORTS]] = report
            records[base + ROW] = first_report + numbers[REPORTS]
            numbers[REPORTS] += 1
            block = slot // BLOCK
            block_due[block] = min(block_due[block], records[base + DUE])
        elif not is_known:
            forgotten[numbers[FORGOTTEN]] = slot
            numbers[FORGOTTEN] += 1
    numbers[EVENTS], numbers[POOL_END] = n, end


@kernel
def run_timers(
    records: Int64Out,
    pool: Int64Out,
    block_due: Int64Out,
    slots: Int32s,
    clock: int,
    options: Options,
    progress: Progress,
) -> None:
    """Report what is due at the clock for the objects at slots."""
    wait, dwell, events, numbers = options.wait, options.dwell, progress.events, progress.numbers
    forgotten, outdated = progress.forgotten, progress.outdated
    n = numbers[EVENTS]
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        source = -2 - records[slot * WORDS + ROW]
        is_quiet = slot < options.quiet.shape[0] and options.quiet[slot] != 0
        n, is_lost = fire_stays(
            records, pool, slot, clock, wait, dwell, is_quiet, events, n, source
        )
        if is_lost:
            forgotten[numbers[FORGOTTEN]] = slot
            outdated[numbers[OUTDATED]] = records[slot * WORDS + ROW]
            numbers[FORGOTTEN] += 1
            numbers[OUTDATED] += 1
        block = slot // BLOCK
        block_due[block] = min(block_due[block], records[slot * WORDS + DUE])
    numbers[EVENTS] = n


@kernel
def remove_object(records: Int64Out, pool: Int64Out, slot: int, progress: Progress) -> None:
    """Report that an object leaves all rules, at the time of its last row."""
    numbers = progress.numbers
    base = slot * WORDS
    numbers[EVENTS] = leave_all(
        records, pool, slot, records[base + LAST], OBJECT_REMOVED, progress.events,
        numbers[EVENTS], -2 - records[base + ROW],
    )  # fmt: skip
    progress.forgotten[0], progress.outdated[0] = slot, records[base + ROW]
    numbers[FORGOTTEN], numbers[OUTDATED] = 1, 1
    reset(records, slot)


@kernel
def find_affected(
    records: Int64s, pool: Int64s, slots: int, verdicts: UInt8s, out: Int32Out
) -> int:
    """Write the slots with stays under rules that changed; return how many."""
    found = 0
    for slot in range(slots):
        start = records[slot * WORDS + START]
        for i in range(records[slot * WORDS + COUNT]):
            if verdicts[pool[start + i * STAY + RULE] & POSITION] != UNCHANGED:
                out[found] = slot
                found += 1
                break
    return found


@kernel
def run_changes(
    records: Int64Out,
    pool: Int64Out,
    block_due: Int64Out,
    slots: Int32s,
    offsets: Int64s,
    holds: Int64s,
    verdicts: UInt8s,
    new_position: Int32s,
    options: Options,
    progress: Progress,
) -> None:
    """Let rules change for the objects at slots.

    `verdicts` and `new_position` are by old position. `holds` are the new positions of changed and
    added rules that hold for the last reports of these objects, with flags; those of the i-th are
    offsets[i] to offsets[i + 1], ascending.
    """
    wait, dwell, events, numbers = options.wait, options.dwell, progress.events, progress.numbers
    stays = progress.stays
    n, end = numbers[EVENTS], numbers[POOL_END]
    for at in range(slots.shape[0]):
        slot = np.int64(slots[at])
        base = slot * WORDS
        start, rank, time = records[base + START], records[base + RANK], records[base + LAST]
        source = -2 - records[base + ROW]
        size = 0
        for i in range(records[base + COUNT]):
            word, since = pool[start + i * STAY + RULE], pool[start + i * STAY + SINCE]
            away = pool[start + i * STAY + AWAY]
            old = word & POSITION
            verdict, rule = verdicts[old], old
            is_inside, is_wide = True, False
            if verdict == REMOVED:
                is_inside = False
            elif verdict != UNCHANGED:
                rule = np.int64(new_position[old])
            if verdict == CHANGED:
                is_inside, is_undecided = False, False
                for j in range(offsets[at], offsets[at + 1]):
                    if holds[j] & POSITION == rule:
                        is_inside, is_wide = True, holds[j] & WIDE != 0
                        is_undecided = holds[j] & UNDECIDED != 0
                if is_inside and not is_undecided:
                    away = np.int64(NONE)
            if not is_inside and word & CONFIRMED != 0:
                left = time if away == NONE else away
                what = LEAVE | (RULE_REMOVED if verdict == REMOVED else RULE_CHANGED)
                n = emit(events, n, time, left, rank, slot, rule, what, source)
            if is_inside and (word & CONFIRMED != 0 or not is_wide):
                to = size * STAY
                stays[to + RULE], stays[to + SINCE] = word - old + rule, since
                stays[to + AWAY] = away
                size += 1
        old_size = size
        for j in range(offsets[at], offsets[at + 1]):
            rule = holds[j] & POSITION
            is_new = holds[j] & (WIDE | UNDECIDED) == 0
            for i in range(old_size):
                is_new &= stays[i * STAY + RULE] & POSITION != rule
            if is_new:
                what = ENTER | (RULE_CHANGED if holds[j] & REPLACES != 0 else RULE_ADDED)
                n = emit(events, n, time, time, rank, slot, rule, what, source)
                to = size * STAY
                stays[to + RULE], stays[to + SINCE] = rule | CONFIRMED | AT_ONCE, time
                stays[to + AWAY] = NONE
                size += 1
        for i in range(1, size):  # in the order of rules; most are
            for j in range(i, 0, -1):
                a, b = (j - 1) * STAY, j * STAY
                if stays[a + RULE] & POSITION < stays[b + RULE] & POSITION:
                    break
                for word in range(STAY):
                    stays[a + word], stays[b + word] = stays[b + word], stays[a + word]
        due, kept = np.int64(NEVER), 0
        if wait[2] >= 0:
            due = later(time, wait[2], wait[3])
        for i in range(size):
            # Stays that went on have reported what is due; one that begins may dwell at once.
            begins = stays[i * STAY + SINCE] == time and stays[i * STAY + RULE] & AT_ONCE != 0
            limit = time if begins else np.int64(LONG_AGO)
            n, _, own_due, goes_on = fire_stay(
                stays, i * STAY, limit, wait, dwell, events, n, rank, slot, source
            )
            if goes_on:
                for word in range(STAY):
                    stays[kept * STAY + word] = stays[i * STAY + word]
                kept += 1
                due = min(due, own_due)
        records[base + DUE] = due
        block = slot // BLOCK
        block_due[block] = min(block_due[block], due)
        end = keep_stays(records, pool, slot, stays, kept, end)
    numbers[EVENTS], numbers[POOL_END] = n, end
