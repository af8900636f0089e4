"""The high-water marks of identity columns, moved in the commit that brings new values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from anabranch.protocol.actions import AddFile, Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.computed_columns import identity_columns, with_high_water_mark
from anabranch.schema.serialization import parse_schema, schema_string


def with_moved_marks(
    metadata: Metadata, adds: Iterable[AddFile], generated: Collection[str], *, table: str
) -> Metadata:
    """`metadata` as it must be once these new files are in the table; itself where no mark moves.

    `generated` are the identity columns of which values were made (`WritePlan.generates_identity`). A commit with
    `adds` must carry the result, if it is another: who writes next begins behind the mark.
    """
    if not generated:
        return metadata
    schema = parse_schema(metadata.schema_string, table)
    mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    files = tuple(adds)
    marks: dict[str, int | None] = {}
    for name, identity in identity_columns(schema, table).items():
        if name not in generated:
            continue
        extremes = list(_extremes(files, physical_name(schema[name], mode)))
        if extremes:
            marks[name] = identity.mark_after(max(extremes) if identity.step > 0 else min(extremes))
    changed = with_high_water_mark(schema, marks)
    return metadata if changed == schema else msgspec.structs.replace(metadata, schema_string=schema_string(changed))


def _extremes(files: tuple[AddFile, ...], column: str) -> Iterator[int]:
    """Smallest and largest values of the column in these files, which we wrote with statistics of it."""
    for add in files:
        if column in add.partition_values:
            value = add.partition_values[column]
            yield from () if value is None else (int(value),)
            continue
        found: dict[str, Any] = json.loads(add.stats or "{}")
        bounds = [found.get(kind, {}).get(column) for kind in ("minValues", "maxValues")]
        known = None not in bounds or found.get("nullCount", {}).get(column) == found.get("numRecords")
        assert known or not found.get("numRecords"), f"{add.path} has no statistics of {column}"
        yield from (bound for bound in bounds if bound is not None)
