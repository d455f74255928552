"""A property that is computed once, as in `functools`, but without a lock in any Python.

Python 3.11 computes one under a lock that all objects of a class share. So a match could wait for a
merge on a thread that computes the property of another segment; and a process that forks meanwhile
would wait for ever. Without a lock, two threads may both compute it: the results are equal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name in functools
        """Computes an attribute on first use, and stores it in the object."""

        def __init__(self, function: Any):
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


__all__ = ["cached_property"]
