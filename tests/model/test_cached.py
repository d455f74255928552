"""Cached properties: computed once, and without a lock that objects share."""

import threading

from tocsin.model.cached import cached_property


class Slow:
    def __init__(self, gate=None):
        self.gate = gate
        self.calls = 0

    @cached_property
    def value(self):
        """What it is."""
        self.calls += 1
        if self.gate:
            self.gate.wait()
        return 7


def test_it_is_computed_once():
    slow = Slow()
    assert (slow.value, slow.value, slow.calls, Slow.value.__doc__) == (7, 7, 1, "What it is.")


def test_other_objects_do_not_wait():
    gate = threading.Event()
    slow = Slow(gate)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    other = Slow()
    reader = threading.Thread(target=lambda: other.value, daemon=True)
    reader.start()
    reader.join(5)
    waits = reader.is_alive()
    gate.set()
    thread.join()
    assert not waits
