"""Conditions that every row of a table satisfies: CHECK constraints, and invariants of columns.

Implements "CHECK Constraints" and "Column Invariants" of PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from anabranch.errors.schema import MalformedSchemaError
from anabranch.schema.paths import FieldPath, quoted
from anabranch.schema.visibility import INVARIANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition that must be true, neither false nor NULL, for every row that is written."""

    owner: str
    """For messages, such as "CHECK constraint positive"."""
    expression: str
    """SQL, as it stands in the metadata; not to be trusted."""


def row_rules(schema: StructType, constraints: Mapping[str, str], *, table: str = "the table") -> tuple[RowRule, ...]:
    """What holds for all rows of a table. `constraints` is SQL by name, from `TableProperties.constraints`.

    Raises MalformedSchemaError for an invariant that is none.
    """
    checks = [RowRule(owner=check_owner(name), expression=sql) for name, sql in sorted(constraints.items())]
    return (*checks, *_invariants(schema, (), table))


def check_owner(name: str) -> str:
    """What messages call a CHECK constraint."""
    return f"CHECK constraint {name}"


def _invariants(struct: StructType, above: FieldPath, table: str) -> Iterator[RowRule]:
    """Through structs only: what an invariant inside an array or a map would be about, nobody says."""
    for field in struct.fields:
        path = (*above, field.name)
        if INVARIANTS in field.metadata:
            yield RowRule(
                owner=f"invariant of column {quoted(path)}", expression=_invariant(field, quoted(path), table)
            )
        if isinstance(field.dataType, StructType):
            yield from _invariants(field.dataType, path, table)


def _invariant(field: StructField, path: str, table: str) -> str:
    text = field.metadata[INVARIANTS]
    try:
        found = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = None
    if not isinstance(found, str):
        reason = f"{INVARIANTS} is {text!r}, which holds no expression"
        raise MalformedSchemaError(table=table, field=path, reason=reason)
    return found
