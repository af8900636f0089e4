"""`functools.cached_property` without the lock that Python before 3.12 holds while it computes a value.

That lock belongs to the class: while one thread reads a snapshot, every other thread that needs another snapshot, of
any table, would wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name of Python's
        """Two threads that need a value at the same time may both compute it, as from Python 3.12 on."""

        def __init__(self, func: Callable[[Any], Any]) -> None:
            self.func = func
            self.__doc__ = func.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        def __get__(self, instance: object | None, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # Later reads do not come here: an entry in the instance's dictionary is before an attribute of the class.
            return vars(instance).setdefault(self.attrname, self.func(instance))
