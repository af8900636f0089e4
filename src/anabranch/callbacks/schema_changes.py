"""Columns of a table that are no longer what Spark resolved."""

from __future__ import annotations

import json

from pyspark.sql.types import StructField, StructType

from anabranch.callbacks.tables import TableFacts, visible_json
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.schema.comparison import same_type
from anabranch.snapshot.snapshot import Snapshot


def columns_now(facts: TableFacts, snapshot: Snapshot) -> list[str] | None:
    """What the columns that Spark resolved are called now; None where nothing has changed.

    Raises `SchemaChangedSinceAnalysisError` where one is gone, of another type, or may be NULL that could not be.
    """
    now_json = visible_json(snapshot.metadata.schema_string)
    if now_json == facts.schema_json:
        return None
    analyzed, now = (StructType.fromJson(json.loads(each)) for each in (facts.schema_json, now_json))
    by_name = {field.name.lower(): field for field in now.fields}
    for field in analyzed.fields:
        found = by_name.get(field.name.lower())
        if found is None or not same_type(found.dataType, field.dataType) or (found.nullable and not field.nullable):
            raise _changed(facts, snapshot, field.name, before=field, now=found)
    return [by_name[field.name.lower()].name for field in analyzed.fields]


def check_columns(facts: TableFacts, snapshot: Snapshot) -> None:
    """Raises `SchemaChangedSinceAnalysisError` as `columns_now`, and where there are more columns, or in another order.

    A statement that changes rows means the columns by their places.
    """
    known = columns_now(facts, snapshot)
    if known is None or known == snapshot.schema.names:
        return
    fields = snapshot.schema.fields
    moved = next(place for place, field in enumerate(fields) if place >= len(known) or field.name != known[place])
    raise _changed(facts, snapshot, fields[moved].name, before=None, now=fields[moved])


def _changed(
    facts: TableFacts, snapshot: Snapshot, column: str, *, before: StructField | None, now: StructField | None
) -> SchemaChangedSinceAnalysisError:
    return SchemaChangedSinceAnalysisError(
        table=facts.handle.label,
        version=snapshot.version,
        column=column,
        before=None if before is None else before.dataType.simpleString(),
        now=None if now is None else now.dataType.simpleString(),
    )
