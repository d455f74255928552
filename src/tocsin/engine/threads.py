"""Run work on a batch of events on several threads, range by range.

Kernels and Arrow's functions release the GIL, so threads match in parallel. What a range costs
whatever its size is mostly serial: 50 microseconds of Python, and 10 to 30 for each term. The
calling thread works too. The size of a range depends on the cost of those before: large enough to
keep the share of that fixed cost small, small enough to balance skew and to react to Ctrl-C
quickly. Ranges get smaller towards the end.

Helpers are daemon threads that live as long as the process and wait on one queue. A helper works on
one range, then queues for the next, so batches of several callers share the helpers. A caller
without helpers does all the work. So nothing here can deadlock: not a match in a signal handler, in
a finalizer that a helper runs, or when no thread can be started any more. After a fork the child
has a new queue and new helpers. `concurrent.futures` is not enough: a thread interrupted by a
signal inside `submit` holds locks that a `submit` in the handler would wait for.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

from tocsin.engine.buffers import ROOM
from tocsin.errors import TocsinError

# Minimum events in a batch for several threads. Cheap events take 30 nanoseconds each, and a helper
# takes 100 microseconds to wake, so smaller batches gain nothing (measured with two cores and
# workload W2 of benchmarks/threads.py). The lower limit is for users who give `threads`: their
# events may cost more.
LEAST_EVENTS = 1 << 15
LEAST_IF_ASKED = 1 << 11
_FIRST_RANGE = 1 << 11  # events of the first range; it doubles until a cost is known
_LEAST_SECONDS = 0.0005  # of a range: ten times its cost in Python
_MOST_SECONDS = 0.05  # of a range: an unnoticeable delay after Ctrl-C, unless most of it is fixed
_RANGES_KEPT = 6  # ranges that costs are estimated from
_MOST_GROWTH = 4  # times the events of recent ranges: their costs may be misleading
_FIXED_SHARE = 10  # the work of a range, at least, as a multiple of its fixed cost
_RANGES_LEFT = 4  # ranges per thread that the remaining events are divided into
_PATIENCE = 1.0  # seconds to wait for a helper after KeyboardInterrupt: it may be compiling

VARIABLE = "TOCSIN_THREADS"

Work = Callable[[int, int], int]  # on events from first up to stop; returns the number of pairs


def threads_for(events: int, threads: Any) -> int:
    """Return the number of threads for a number of events; `threads` is the user's choice."""
    if events < LEAST_EVENTS and threads is None:
        return 1  # decided first: a single event takes microseconds
    wanted = thread_count(threads)
    return 1 if events < LEAST_IF_ASKED or _this_thread.is_helper else wanted


def thread_count(threads: Any) -> int:
    """Return `threads` if given, else the environment variable, else the number of cores."""
    if threads is None:
        given = os.environ.get(VARIABLE, "").strip()
        if not given:
            return available_cores()
        if not (given.isascii() and given.isdigit() and int(given)):
            raise TocsinError(
                f"the environment variable {VARIABLE} must be an integer, 1 or more; got {given!r}"
            )
        return int(given)
    if not isinstance(threads, int | np.integer) or isinstance(threads, bool) or threads < 1:
        raise TocsinError(
            f"threads must be an integer, 1 or more, or None for all cores; got {threads!r}"
        )
    return int(threads)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "process_cpu_count"):  # since Python 3.13
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ------------------------------------------------------------ helpers


class _Helpers:
    """The helper threads of this process."""

    def __init__(self) -> None:
        # Its `put` is reentrant: a signal handler may call it while it is interrupted.
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.size = 0
        self._growing = False

    def submit(self, task: Callable[[], None]) -> None:
        """Queue a task for the next free helper."""
        self._tasks.put(task)

    def grow_to(self, size: int) -> None:
        """Start helpers until there are `size`, if possible."""
        if self._growing:  # on another thread, or in the code that a signal handler interrupts
            return
        self._growing = True
        try:
            while self.size < size:
                threading.Thread(target=self._work, name="tocsin-helper", daemon=True).start()
                self.size += 1
        except RuntimeError:
            pass  # the system allows no more threads, or the interpreter is about to exit
        finally:
            self._growing = False

    def _work(self) -> None:
        _this_thread.is_helper = True
        while True:
            self._tasks.get()()  # no variable: it would keep a match's result alive


class _ThisThread(threading.local):
    is_helper = False  # helpers get no help themselves


_this_thread = _ThisThread()
_helpers = _Helpers()


def _forget_helpers() -> None:
    global _helpers
    _helpers = _Helpers()
    _this_thread.is_helper = False


os.register_at_fork(after_in_child=_forget_helpers)


# ------------------------------------------------------------ ranges


def work_in_ranges(events: int, threads: int, work: Work) -> None:
    """Call `work(first, stop)` for ranges that cover all events, on several threads.

    Ranges begin in order, and may end in any order. If ranges fail, the error of the first one is
    raised, as on one thread. After an error or KeyboardInterrupt no further range begins, and
    ranges in progress end before this returns.
    """
    _Batch(events, threads, work).run()


class RangeCosts:
    """What ranges cost: a fixed time each, and a time per event.

    Both are estimated from the last ranges. Times are those of the processor: waiting for the GIL
    or for other programs says nothing about the work. The first range may include a compilation,
    and events differ, so one estimate is not enough: each pair of ranges of different sizes gives a
    fixed cost, and the median counts.
    """

    def __init__(self) -> None:
        self._ranges: deque[tuple[int, float]] = deque(maxlen=_RANGES_KEPT)  # events, seconds
        self.fixed = 0.0  # seconds
        self.each = 0.0  # seconds per event, those of the last range; 0 if not known
        self.largest = 0  # events of the largest range

    def add(self, events: int, seconds: float) -> None:
        """Add a range to what is known."""
        self._ranges.append((events, seconds))
        self.largest = max(self._ranges)[0]
        estimates = sorted(
            (few_seconds * many - many_seconds * few) / (many - few)
            for (few, few_seconds), (many, many_seconds) in permutations(self._ranges, 2)
            if 2 * many >= 3 * few
        )
        if estimates:
            self.fixed = max(estimates[len(estimates) // 2], 0.0)
        self.fixed = min(self.fixed, min(seconds for _, seconds in self._ranges))
        # Where nearly all is fixed, the rest is lost in noise.
        self.each = max(seconds - self.fixed, seconds / 10) / events


class _Batch:
    def __init__(self, events: int, threads: int, work: Work):
        self._events = events
        self._threads = threads
        self._work = work
        self._next = 0  # the first event not yet assigned to a thread
        self._helped = 0  # ranges that helpers are working on
        self._errors: dict[int, BaseException] = {}  # by the first event of the range
        # Not a Condition: it is written in Python, and KeyboardInterrupt can leave it locked.
        self._lock = threading.Lock()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()  # a token for each range
        self._begun = 0  # ranges
        self._costs = RangeCosts()
        self._pairs_each = 0.0  # of an event of the last range

    def run(self) -> None:
        try:
            self._call_helpers()
            while self._work_on_next():
                pass
            self._wait()
        except BaseException:
            self._stop()
            with contextlib.suppress(queue.Empty):
                self._wait(_PATIENCE)
            raise
        if self._errors:
            raise self._errors[min(self._errors)]

    def _call_helpers(self) -> None:
        helpers = min(self._threads, -(-self._events // _FIRST_RANGE)) - 1
        _helpers.grow_to(helpers)
        for _ in range(min(helpers, _helpers.size)):
            _helpers.submit(self._help)

    def _help(self) -> None:
        if self._work_on_next(helping=True):
            _helpers.submit(self._help)

    def _stop(self) -> None:
        """Prevent further ranges from beginning."""
        with self._lock:
            self._next = self._events

    def _wait(self, seconds: float | None = None) -> None:
        """Wait for the ranges of helpers to end, at most `seconds` for each."""
        while self._helped:
            self._ended.get(timeout=seconds)

    def _work_on_next(self, helping: bool = False) -> bool:
        """Work on the next range; return whether there was one."""
        with self._lock:
            first = self._next
            if first >= self._events:
                return False
            self._next = stop = min(self._events, first + self._range_size())
            self._begun += 1
            # The caller's own range is not counted: KeyboardInterrupt could skip the decrement.
            self._helped += helping
        try:
            begun = time.thread_time()
            pairs = self._work(first, stop)
            seconds = time.thread_time() - begun
            with self._lock:
                self._costs.add(stop - first, seconds)
            self._pairs_each = pairs / (stop - first)
        except BaseException as error:
            if not (helping or isinstance(error, Exception)):
                raise  # KeyboardInterrupt takes precedence over other errors
            self._errors[first] = error
            self._stop()
        finally:
            if helping:
                with self._lock:
                    self._helped -= 1
                self._ended.put(None)
        return True

    def _range_size(self) -> int:
        """Return the number of events of the next range, at most those that are left."""
        left = self._events - self._next
        costs, size = self._costs, left / (_RANGES_LEFT * self._threads)
        if not costs.each:
            # Of different sizes, to tell the fixed cost from that of events.
            size = max(_FIRST_RANGE, min(2 * size, _FIRST_RANGE << self._begun))
        else:
            size = min(size, _MOST_SECONDS / costs.each)
            if self._pairs_each:
                size = min(size, ROOM / self._pairs_each)  # the capacity of a buffer
            size = max(size, max(_LEAST_SECONDS, _FIXED_SHARE * costs.fixed) / costs.each)
            size = min(size, _MOST_GROWTH * costs.largest)
        ranges = math.ceil(left / max(1, size))
        return math.ceil(left / ranges)  # no small rest
