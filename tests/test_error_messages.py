"""Messages of errors: each class has one, made of its own facts."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import pkgutil
from string import Formatter

import pytest

import anabranch.errors
from anabranch.errors.base import DeltaError

for module in pkgutil.iter_modules(anabranch.errors.__path__):
    importlib.import_module(f"anabranch.errors.{module.name}")


def subclasses(cls: type[DeltaError]) -> list[type[DeltaError]]:
    return [found for direct in cls.__subclasses__() for found in (direct, *subclasses(direct))]


ERRORS = sorted({*subclasses(DeltaError)}, key=lambda cls: cls.__name__)
WITH_TEMPLATE = [cls for cls in ERRORS if "template" in vars(cls)]


def test_there_are_templates() -> None:
    assert len(WITH_TEMPLATE) > 100


@pytest.mark.parametrize("cls", WITH_TEMPLATE, ids=lambda cls: cls.__name__)
def test_a_template_names_facts_of_its_class(cls: type[DeltaError]) -> None:
    named = {name for _, name, _, _ in Formatter().parse(cls.template) if name is not None}
    assert named <= {field.name for field in dataclasses.fields(cls)}


@pytest.mark.parametrize("cls", WITH_TEMPLATE, ids=lambda cls: cls.__name__)
def test_a_template_is_not_overridden(cls: type[DeltaError]) -> None:
    assert cls.explain is DeltaError.explain


@pytest.mark.parametrize("cls", [cls for cls in ERRORS if not cls.__subclasses__()], ids=lambda cls: cls.__name__)
def test_every_error_has_a_message(cls: type[DeltaError]) -> None:
    assert cls.explain is not DeltaError.explain or hasattr(cls, "template")


@dataclasses.dataclass(eq=False, kw_only=True)
class _ForTests(DeltaError):
    template = "{table} has no {columns}: {problem!r}, {{as it is}}."
    table: str
    columns: tuple[str, ...]
    problem: str | None


def test_facts_stand_in_the_message() -> None:
    error = _ForTests(table="t{0}", columns=("a", "b"), problem=None)
    assert error.explain() == "t{0} has no a, b: None, {as it is}."
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.facts()) == (str(error), error.facts())
    assert again.getMessageParameters() == {"table": "t{0}", "columns": "('a', 'b')", "problem": "None"}


def test_every_public_name_is_found_in_its_module() -> None:
    for name in anabranch.errors.__all__:
        assert getattr(anabranch.errors, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchError'"):
        anabranch.errors.NoSuchError  # noqa: B018
