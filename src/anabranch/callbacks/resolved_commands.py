"""Statements that Spark has resolved, as commands of its plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

NOTHING = StructType([])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One kind of statement."""

    run: Callable[[Any, Any], Any]
    """Runs the statement: from the JVM's session and the resolved plan to a Seq of Rows."""
    result: StructType | Callable[[Any, Any], StructType] = NOTHING
    """The columns of these rows, or a function of the JVM's session and the plan that returns them."""
    check: Callable[[Any, Any], Any] | None = None
    """Called with the JVM's session and the plan as soon as Spark has resolved it, before anything runs, also for
    EXPLAIN. Returns the plan, changed or not, or None for one that Spark executes itself. Raises the errors of a
    statement that cannot be executed."""
