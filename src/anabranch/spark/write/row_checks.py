"""Checks that run inside a Spark job and come back as typed errors.

A check is a column that calls `raise_error` with a text that only we write. When the job fails, Spark's message
contains the text, and `typed_violations` raises the error that it describes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column

from anabranch.errors.base import DeltaError
from anabranch.errors.constraints import (
    CastOverflowError,
    CheckConstraintViolationError,
    GeneratedColumnMismatchError,
    IdentityOverflowError,
    LengthLimitError,
    MalformedValueError,
    NotNullViolationError,
    ReplaceWhereMismatchError,
)
from anabranch.errors.dml import SubqueryRowsError
from anabranch.errors.maintenance import RowOrderError
from anabranch.spark.gateway.jvm_classes import refused
from anabranch.spark.gateway.python_errors import original_error

_CHECKS: dict[str, type[DeltaError]] = {
    error.__name__: error
    for error in (
        CastOverflowError,
        CheckConstraintViolationError,
        GeneratedColumnMismatchError,
        IdentityOverflowError,
        LengthLimitError,
        MalformedValueError,
        NotNullViolationError,
        ReplaceWhereMismatchError,
        RowOrderError,
    )
}
_MARK = re.compile(r"anabranch-check:(\w+):(?=\{)")
_SHOWN_SQL = re.compile(r"^== SQL .*==\n(.*)$", re.MULTILINE)
"""The line of the statement in Spark's message."""
_CAUSES_MAX = 16


def refuse_when(
    violated: Column,
    value: Column,
    error: type[DeltaError],
    facts: Mapping[str, str | Sequence[str]],
    *,
    shown: Mapping[str, Column] | None = None,
) -> Column:
    """`value`, unless `violated` is true in a row: then the job fails with `error` of these facts.

    `shown` are further facts, which take their values from the row.
    """
    return refused(violated, value, failure_text(error, facts), dict(shown or {}))


def failure_text(error: type[DeltaError], facts: Mapping[str, str | Sequence[str]]) -> str:
    """The text that describes `error`; after it Spark's message has further facts, as JSON."""
    assert error.__name__ in _CHECKS
    return f"anabranch-check:{error.__name__}:{json.dumps(facts)}:"


@contextlib.contextmanager
def typed_violations() -> Iterator[None]:
    """A block in which failures by `refuse_when`, and by errors of ours while Spark planned, raise our typed errors.

    A subquery with several rows instead of one value also raises a typed error: PySpark has none of its own.
    """
    try:
        yield
    except DeltaError:
        raise
    except (PySparkException, Py4JError) as failure:
        error = _violation(failure) or original_error(failure) or _too_many_rows(failure)
        if error is None:
            raise
        raise error from failure


def _violation(failure: BaseException) -> DeltaError | None:
    text = _text_of(failure)
    for match in _MARK.finditer(text):
        try:
            facts, end = json.JSONDecoder().raw_decode(text, match.end())
            shown, _ = json.JSONDecoder().raw_decode(text, end + 1)
        except ValueError:
            # Spark may also quote the expression that makes the message.
            continue
        values: dict[str, Any] = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
        if match[1] in _CHECKS:
            return _CHECKS[match[1]](**values, **shown)
    return None


def _too_many_rows(failure: BaseException) -> SubqueryRowsError | None:
    """The error for a subquery with several rows, for which Spark's exception has no class in Python."""
    java = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    for _ in range(_CAUSES_MAX):
        if java is None:
            break
        message = str(java.getMessage())
        if message.startswith(f"[{SubqueryRowsError.condition}]"):
            shown = _SHOWN_SQL.search(message)
            return SubqueryRowsError(subquery="" if shown is None else shown[1].strip())
        java = java.getCause()
    return None


def _text_of(failure: BaseException) -> str:
    java = getattr(failure, "java_exception", None)
    # Spark wraps the failure of a task; only the whole text has the innermost message.
    return f"{failure}\n{java.toString() if java is not None else ''}"
