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
    return [below for direct in cls.__subclasses__() for below in (direct, *subclasses(direct))]


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


ERRORS = sorted({*subclasses(DeltaError)}, key=lambda cls: cls.__name__)
WITH_TEMPLATE = [cls for cls in ERRORS if "template" in vars(cls)]


def test_there_are_templates() -> None:
    assert len(WITH_TEMPLATE) > 100


def test_a_template_names_facts_of_its_class() -> None:
    unknown = {
        cls.__name__: sorted(names)
        for cls in WITH_TEMPLATE
        if (names := names_in(cls.template) - {field.name for field in dataclasses.fields(cls)})
    }
    assert unknown == {}


def test_a_template_is_not_overridden() -> None:
    assert [cls.__name__ for cls in WITH_TEMPLATE if cls.explain is not DeltaError.explain] == []


def test_every_error_has_a_message() -> None:
    leaves = [cls for cls in ERRORS if not cls.__subclasses__()]
    assert [cls.__name__ for cls in leaves if cls.explain is DeltaError.explain and not hasattr(cls, "template")] == []


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
