"""What a commit changed in the description of a table, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import StructField

from anabranch.errors.base import DeltaError
from anabranch.protocol.actions import Metadata
from anabranch.schema.paths import FieldPath, quoted, walk
from anabranch.schema.serialization import parse_schema

NAMES_MAX = 5
"""So many columns of each kind are named; the rest are counted."""


def differences(before: Metadata, after: Metadata, *, table: str) -> str | None:
    """Columns that came, went or changed, the partitioning, properties; None where nothing can be told."""
    try:
        parts = list(_differences(_columns(before, table), _columns(after, table)))
    except DeltaError:
        return None
    if before.partition_columns != after.partition_columns:
        parts.append(f"partitioned by ({', '.join(after.partition_columns)})")
    names = before.configuration.keys() | after.configuration.keys()
    changed = sorted(name for name in names if before.configuration.get(name) != after.configuration.get(name))
    if changed:
        parts.append(_listed("set", changed))
    return "; ".join(parts) or None


def _columns(metadata: Metadata, table: str) -> dict[FieldPath, StructField]:
    return dict(walk(parse_schema(metadata.schema_string, table)))


def _differences(before: dict[FieldPath, StructField], after: dict[FieldPath, StructField]) -> Iterator[str]:
    added = [quoted(path) for path in after if path not in before and path[:-1] not in after.keys() - before.keys()]
    dropped = [quoted(path) for path in before if path not in after and path[:-1] not in before.keys() - after.keys()]
    changed = [
        quoted(path) for path, field in after.items() if path in before and not _is_the_same(field, before[path])
    ]
    for what, names in (("added", added), ("dropped", dropped), ("changed", changed)):
        if names:
            yield _listed(what, names)


def _is_the_same(after: StructField, before: StructField) -> bool:
    """Whether the field itself is as it was; what lies in a struct is told on its own."""
    same = after.nullable == before.nullable and after.metadata == before.metadata
    nested = (
        after.dataType.typeName() in ("struct", "array", "map")
        and after.dataType.typeName() == before.dataType.typeName()
    )
    return same and (nested or after.dataType == before.dataType)


def _listed(what: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{what} {', '.join(names[:NAMES_MAX])}{more}"
