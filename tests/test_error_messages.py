"""Messages of errors: each class has one, made of its own facts."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import pkgutil
from string import Formatter

import pytest

import anabranch.errors
from anabranch.errors.arguments import InvalidTimestampOptionError
from anabranch.errors.base import DELTA_MESSAGES, DeltaError, delta_error
from anabranch.errors.constraints import CheckConstraintViolationError
from anabranch.errors.dml import MergeColumnNotFoundError
from anabranch.errors.maintenance import NonPartitionColumnError, ZOrderPartitionColumnError
from anabranch.errors.schema import IncompatibleTypesError, SchemaMismatchError
from anabranch.errors.tables import NotADeltaTableError, PathExistsError, TableAlreadyExistsError

for module in pkgutil.iter_modules(anabranch.errors.__path__):
    importlib.import_module(f"anabranch.errors.{module.name}")


def subclasses(cls: type[DeltaError]) -> list[type[DeltaError]]:
    return [below for direct in cls.__subclasses__() for below in (direct, *subclasses(direct))]


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


ERRORS = sorted({*subclasses(DeltaError)}, key=lambda cls: cls.__name__)
WITH_TEMPLATE = [cls for cls in ERRORS if "template" in vars(cls)]


def test_what_signs_a_url_is_in_no_message() -> None:
    """Covers bug B84."""
    error = NotADeltaTableError(table="delta.`abfss://c@a.dfs.core.windows.net/t?sv=1&sig=SECRET%3D&se=2`")
    assert "SECRET" not in str(error)
    assert "&sig=…&se=2`" in str(error)


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


@delta_error("TEST_CONDITION", "42000")
class _ForTests(DeltaError):
    template = "{table} has no {columns}: {problem!r}, {{as it is}}."
    table: str
    columns: tuple[str, ...]
    problem: str | None


def test_the_message_has_the_facts() -> None:
    error = _ForTests(table="t{0}", columns=("a", "b"), problem=None)
    assert error.explain() == "t{0} has no a, b: None, {as it is}."
    assert (error.getCondition(), error.getSqlState()) == ("TEST_CONDITION", "42000")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.facts()) == (str(error), error.facts())
    assert again.getMessageParameters() == {"table": "t{0}", "columns": "('a', 'b')", "problem": "None"}


def test_messages_of_delta_name_facts_of_the_class() -> None:
    """Covers bug B106: a name in braces without such a fact would fail only when the error is raised."""
    facts = {cls.__name__: {field.name for field in dataclasses.fields(cls)} for cls in ERRORS}
    wrong = {name: names_in(text) - facts[name] for name, text in DELTA_MESSAGES.items()}
    assert {name: names for name, names in wrong.items() if names} == {}


BOTH: list[tuple[DeltaError, str, str]] = [
    (
        SchemaMismatchError(table="t", extra={"c": "int"}, mismatched={}, overwriting=False),
        "A schema mismatch detected when writing to the Delta table. ",
        "The data does not fit t: c (int) is not in the table.",
    ),
    (
        IncompatibleTypesError(table="t", extra={}, mismatched={"c": ("int", "date")}, overwriting=False),
        "Failed to merge fields. ",
        "The data does not fit t: c is int in the table and date in the data.",
    ),
    (
        MergeColumnNotFoundError(table="t", column="c", clause="UPDATE", available=("a", "b")),
        "Cannot resolve c in UPDATE clause given columns a, b. ",
        "The UPDATE clause of the MERGE into t takes every column from the source, which has no c",
    ),
    (
        NonPartitionColumnError(table="t", column="key", partition_columns=()),
        "Predicate references non-partition column 'key'. Only the partition columns may be referenced: []. ",
        "The condition names key, by which t is not partitioned",
    ),
    (
        ZOrderPartitionColumnError(table="t", column="p"),
        "p is a partition column. Z-Ordering can only be performed on data columns. ",
        "t is partitioned by p",
    ),
    (TableAlreadyExistsError(table="t"), "Table t already exists. ", "t exists already."),
    (
        PathExistsError(table="t"),
        "Cannot write to already existent path t without setting OVERWRITE",
        "t exists already.",
    ),
    (
        InvalidTimestampOptionError(option="timestampAsOf", value="x", problem="it is none"),
        "The provided timestamp ('x') cannot be converted to a valid timestamp. ",
        "Option timestampAsOf = 'x': it is none.",
    ),
    (
        CheckConstraintViolationError(
            table="t", constraint="CHECK constraint c", expression="k > 0", columns=("k",), row='{"k":-1}'
        ),
        "CHECK constraint c (k > 0) violated by row. ",
        "A row to be written violates the CHECK constraint c",
    ),
    (NotADeltaTableError(table="t"), "t is not a Delta table", "Check the spelling"),
]
"""Errors with the beginning of delta-spark's message, and a part of ours."""


@pytest.mark.parametrize(("error", "theirs", "ours"), BOTH, ids=lambda value: type(value).__name__)
def test_the_message_begins_with_that_of_delta(error: DeltaError, theirs: str, ours: str) -> None:
    """Covers bugs B106 and B91."""
    assert str(error).startswith(f"[{error.condition}] {theirs}")
    assert ours in str(error).removeprefix(f"[{error.condition}] {theirs}")
    assert error.getMessage() == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_public_name_is_imported_from_its_module() -> None:
    for cls in ERRORS:
        if cls.__module__.startswith("anabranch.errors."):
            assert getattr(anabranch.errors, cls.__name__) is cls
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchError'"):
        anabranch.errors.NoSuchError  # type: ignore[attr-defined]  # noqa: B018
