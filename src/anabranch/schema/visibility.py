"""What of a schema's metadata users see, and what of a DataFrame's a table takes over."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.paths import FieldPath, transform
from anabranch.schema.widening import TYPE_CHANGES

GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
INVARIANTS = "delta.invariants"

HIDDEN_KEYS = MAPPING_KEYS | {
    TYPE_CHANGES,
    GENERATION_EXPRESSION,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    IDENTITY_START,
    IDENTITY_STEP,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_ALLOW_EXPLICIT,
}


def visible_schema(schema: StructType) -> StructType:
    """`schema` as `df.schema` shows it: comments and declared lengths stay, the table's own notes go.

    Also the form in which a DataFrame's schema becomes part of a table: a column that is read from one
    table must not carry its ids, defaults or generation into another.
    """

    def hide(_path: FieldPath, field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key not in HIDDEN_KEYS}
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, hide)
