"""Errors as text, for a program elsewhere that finds the same error in it."""

from __future__ import annotations

import enum
import importlib
import json
import typing
from collections.abc import Mapping
from typing import Any

from anabranch.errors.base import DeltaError

TOLD = "anabranch"
"""The message parameter by which the JVM tells it: see `DeltaError`."""
_MODULES = "anabranch.errors."


def told(error: DeltaError) -> str:
    """The class and its facts."""
    kind = type(error)
    # What is no value of JSON's is told as text, and found to differ by whoever reads it.
    return json.dumps({"module": kind.__module__, "class": kind.__qualname__, "facts": error.facts()}, default=str)


def error_in(parameters: Mapping[str, str], message: str) -> DeltaError | None:
    """The error that a server told with its facts among the parameters of its message."""
    text = parameters.get(TOLD)
    return None if text is None else error_told(text, message)


def error_told(text: str, message: str) -> DeltaError | None:
    """The error that `told` told, where it has the very words of `message`; None for one that is not known here.

    Nothing of the text is executed: only classes of `anabranch.errors` are made, of plain values.
    """
    try:
        found = json.loads(text)
        kind = _class(str(found["module"]), str(found["class"]))
        if kind is None:
            return None
        hints = typing.get_type_hints(kind)
        error = kind(**{name: _fact(value, hints.get(name)) for name, value in found["facts"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, NameError):
        return None
    return error if error.explain() in message else None


def _class(module: str, name: str) -> type[DeltaError] | None:
    if not module.startswith(_MODULES):
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if isinstance(found, type) and issubclass(found, DeltaError) else None


def _fact(value: Any, hint: Any) -> Any:
    """A value of JSON's as the field has it."""
    if isinstance(value, list):
        return tuple(_fact(each, None) for each in value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if isinstance(value, dict):
        return {name: _fact(each, None) for name, each in value.items()}
    return value
