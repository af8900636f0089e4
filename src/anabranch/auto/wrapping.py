"""Methods of PySpark with something of ours around them, once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

_MARK = "_anabranch_auto"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def wrap(cls: type, name: str, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Have `around(self, call)` answer for the method, where `call()` is the method as it was."""
    original = getattr(cls, name)
    if is_wrapped(original):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(self, functools.partial(original, self, *args, **kwargs))

    setattr(cls, name, mark_wrapped(method))


def is_wrapped(function: Any) -> bool:
    """Whether this module, or who marks by it, was there before: other import hooks may load a module twice."""
    return hasattr(function, _MARK)


def mark_wrapped(function: _Function) -> _Function:
    """For `is_wrapped`; the function comes back."""
    setattr(function, _MARK, True)
    return function
