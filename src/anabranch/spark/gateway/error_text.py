"""Errors as text, from which another program makes the same errors."""

from __future__ import annotations

import enum
import importlib
import json
import typing
from collections.abc import Mapping
from typing import Any

from anabranch.errors.base import DeltaError

PARAMETER = "anabranch"
"""The message parameter in which the JVM sends the text: see `DeltaError.java`."""
_MODULES = "anabranch.errors."


def text_of_error(error: DeltaError) -> str:
    """The class of the error, its facts, and its fields for displays, as JSON."""
    kind = type(error)
    description = {"module": kind.__module__, "class": kind.__qualname__, "facts": error.facts()}
    display = {name: value for name, value in error.display_fields().items() if value}
    # Values that JSON does not have become text. Its reader finds that the message differs, and makes no error.
    return json.dumps({**description, **({"display": display} if display else {})}, default=str)


def error_in(parameters: Mapping[str, str], message: str) -> DeltaError | None:
    """The error that a server sent in the parameters of its message; None where there is none."""
    text = parameters.get(PARAMETER)
    return None if text is None else error_of_text(text, message)


def error_of_text(text: str, message: str) -> DeltaError | None:
    """The error that `text_of_error` wrote, if its message is part of `message`; None for a class not defined here.

    Nothing in the text is executed: only classes of `anabranch.errors` are made, from plain values.
    """
    try:
        description = json.loads(text)
        kind = _class(str(description["module"]), str(description["class"]))
        if kind is None:
            return None
        hints = typing.get_type_hints(kind)
        fields = {**description.get("display", {}), **description["facts"]}
        error = kind(**{name: _fact(value, hints.get(name)) for name, value in fields.items()})
    except (ValueError, KeyError, TypeError, AttributeError, NameError):
        return None
    return error if error.message() in message else None


def _class(module: str, name: str) -> type[DeltaError] | None:
    if not module.startswith(_MODULES):
        return None
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and issubclass(kind, DeltaError) else None


def _fact(value: Any, hint: Any) -> Any:
    """A JSON value as the field's type."""
    if isinstance(value, list):
        return tuple(_fact(item, None) for item in value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if isinstance(value, dict):
        return {name: _fact(item, None) for name, item in value.items()}
    return value
