"""Statements that Spark has resolved, as commands of its plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

NOTHING = StructType([])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One kind of statement, as an attribute of the class of its handler.

    Its functions are methods of that class: they are called with the handler, the JVM's session, and the resolved plan.
    """

    run: Callable[[Any, Any, Any], Any]
    """Runs the statement, and returns a Seq of Rows."""
    result: StructType | Callable[[Any, Any, Any], StructType] = NOTHING
    """The columns of these rows, or a method that returns them."""
    check: Callable[[Any, Any, Any], Any] | None = None
    """Called as soon as Spark has resolved the statement, before anything runs, also for EXPLAIN. Returns the plan,
    changed or not, or None for one that Spark executes itself. Raises the errors of a statement that cannot be
    executed."""
