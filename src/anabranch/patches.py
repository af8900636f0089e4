"""What of PySpark is replaced while sessions know Delta: one table, by the purpose of each replacement.

PySpark has no extension point for these few things: which exception an error of the JVM becomes and whether it is
logged, what made a stream fail, Ctrl-C during a call, the mode of `saveAsTable`, and for programs that run as they are
(`anabranch.auto`) the moment when a session is made. Nothing here imports PySpark.
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
    """What the owner itself had under the name; `_ABSENT` where it inherited it, or had nothing."""
    after: Any


_patches: dict[str, list[_Patch]] = {}
_lock = threading.RLock()


def patch(purpose: str, owner: Any, name: str, replace: Callable[[Any], Any]) -> None:
    """Give `owner` the attribute that `replace` makes of the one it has. Done once for each purpose, owner and name."""
    with _lock:
        kept = _patches.setdefault(purpose, [])
        if any(each.owner is owner and each.name == name for each in kept):
            return
        after = replace(getattr(owner, name, None))
        kept.append(_Patch(owner, name, vars(owner).get(name, _ABSENT), after))
        setattr(owner, name, after)


def undo(purpose: str) -> None:
    """Put back what `patch` replaced for this purpose, the last first. Harmless where nothing was."""
    with _lock:
        for each in reversed(_patches.pop(purpose, [])):
            if vars(each.owner).get(each.name) is not each.after:
                # Another library has replaced ours, and calls it.
                continue
            if each.before is _ABSENT:
                delattr(each.owner, each.name)
            else:
                setattr(each.owner, each.name, each.before)


def purposes() -> frozenset[str]:
    """What something is replaced for at the moment."""
    with _lock:
        return frozenset(purpose for purpose, kept in _patches.items() if kept)
