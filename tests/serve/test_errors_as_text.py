"""Errors as text, and restored from it: each class, by its facts."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import json
import pkgutil
import typing
from collections.abc import Mapping
from typing import Any

import anabranch.errors
from anabranch.errors.base import DeltaError
from anabranch.errors.log import TableNotFoundError
from anabranch.spark.gateway.error_text import error_of_text, text_of_error

for module in pkgutil.iter_modules(anabranch.errors.__path__):
    importlib.import_module(f"anabranch.errors.{module.name}")

SAMPLES: dict[Any, Any] = {
    str: "a `text`",
    int: 7,
    bool: True,
    tuple[str, ...]: ("a", "b"),
    tuple[int, ...]: (1, 2),
    Mapping[str, str]: {"a": "b"},
    Mapping[str, tuple[str, str]]: {"a": ("b", "c")},
}


def sample(hint: Any) -> Any:
    if hint in SAMPLES:
        return SAMPLES[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Literal else sample(typing.get_args(hint)[0])


def leaves(cls: type[DeltaError]) -> list[type[DeltaError]]:
    return [leaf for direct in cls.__subclasses__() for leaf in (leaves(direct) or [direct])]


ERRORS = sorted(
    {cls for cls in leaves(DeltaError) if cls.__module__.startswith("anabranch.errors.")}, key=lambda cls: cls.__name__
)


def is_restored(cls: type[DeltaError]) -> bool:
    """Whether the text of an error of this class gives back an equal error."""
    hints = typing.get_type_hints(cls)
    error = cls(**{field.name: sample(hints[field.name]) for field in dataclasses.fields(cls)})
    again = error_of_text(text_of_error(error), f"[X] {error.message()} SQLSTATE: 00000")
    return type(again) is cls and str(again) == str(error) and typed_facts(again) == typed_facts(error)


def typed_facts(error: DeltaError) -> dict[str, tuple[type, Any]]:
    return {name: (type(fact), fact) for name, fact in error.facts().items()}


def test_every_error_is_restored_from_its_text() -> None:
    assert len(ERRORS) > 200
    assert [cls.__name__ for cls in ERRORS if not is_restored(cls)] == []


def test_errors_of_other_releases_are_not_restored() -> None:
    error = TableNotFoundError(table="t")
    text, message = text_of_error(error), str(error)
    assert isinstance(error_of_text(text, message), TableNotFoundError)
    # The message of this release is another one.
    assert error_of_text(text, "something else") is None
    for change in (
        {"module": "os"},
        {"module": "anabranch.errors.no_such_module"},
        {"module": "anabranch.errors.base", "class": "_rebuild"},
        {"module": "anabranch.exceptions", "class": "DeltaError"},
        {"class": "NoSuchError"},
        {"facts": {"table": "t", "more": 1}},
        {"facts": {}},
        {"facts": None},
    ):
        assert error_of_text(json.dumps({**json.loads(text), **change}), message) is None
    for other in ("", "{}", "[]", "not JSON"):
        assert error_of_text(other, message) is None
