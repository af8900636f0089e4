"""Replacements of attributes of PySpark while sessions support Delta, in one table, by purpose.

PySpark has no extension point for the following: the exception to which an error of the JVM is converted and whether it
is logged, the line of code in such an error, the cause of a failed stream, Ctrl-C during a call, the look-up of classes
of the JVM, the socket on which callbacks arrive, the mode of `saveAsTable`, and, for unchanged programs
(`anabranch.auto`), the creation of a session.
Nothing here imports PySpark.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

_ABSENT = object()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Patch:
    owner: Any
    """A module, a class or an object."""
    name: str
    before: Any
    """The value in the owner itself; `_ABSENT` where the owner inherited it or had none."""
    after: Any


_patches: dict[str, list[_Patch]] = {}
_lock = threading.RLock()


def patch(purpose: str, owner: Any, name: str, replace: Callable[[Any], Any]) -> None:
    """Replace an attribute of `owner` by `replace` of its value, once for each purpose, owner and name."""
    with _lock:
        entries = _patches.setdefault(purpose, [])
        if any(entry.owner is owner and entry.name == name for entry in entries):
            return
        after = replace(getattr(owner, name, None))
        entries.append(_Patch(owner, name, vars(owner).get(name, _ABSENT), after))
        setattr(owner, name, after)


def undo(purpose: str) -> None:
    """Restore the attributes that `patch` replaced for this purpose, the last one first, if there are any."""
    with _lock:
        for entry in reversed(_patches.pop(purpose, [])):
            if vars(entry.owner).get(entry.name) is not entry.after:
                # Another library has replaced the attribute since, and calls ours.
                continue
            if entry.before is _ABSENT:
                delattr(entry.owner, entry.name)
            else:
                setattr(entry.owner, entry.name, entry.before)


def purposes() -> frozenset[str]:
    """The purposes for which an attribute is replaced now."""
    with _lock:
        return frozenset(purpose for purpose, entries in _patches.items() if entries)
