"""The high-water marks of identity columns, which the commit with new values moves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from anabranch.protocol.actions import Action, AddFile, Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.computed_columns import identity_columns, with_high_water_mark
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot


def with_moved_marks(
    metadata: Metadata, adds: Iterable[AddFile], generated: Collection[str], *, table: str
) -> Metadata:
    """`metadata` with the marks moved behind the values of these new files; the same value where no mark moves.

    `generated` are the identity columns for which values were generated (`WritePlan.generates_identity`). A commit
    with `adds` must contain the changed metadata: the next writer counts on from the mark.
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


def marks_alone(snapshot: Snapshot | None, target: Metadata, actions: Iterable[Action]) -> frozenset[str] | None:
    """`edited_properties` of a commit whose metadata have only moved marks; None for any other.

    `target` is the metadata without the new marks.
    """
    moves = any(isinstance(action, Metadata) for action in actions)
    return frozenset() if moves and snapshot is not None and target == snapshot.metadata else None


def _extremes(files: tuple[AddFile, ...], column: str) -> Iterator[int]:
    """The smallest and largest values of the column in these files, which were written with statistics of it."""
    for add in files:
        if column in add.partition_values:
            value = add.partition_values[column]
            yield from () if value is None else (int(value),)
            continue
        stats: dict[str, Any] = json.loads(add.stats or "{}")
        bounds = [stats.get(kind, {}).get(column) for kind in ("minValues", "maxValues")]
        complete = None not in bounds or stats.get("nullCount", {}).get(column) == stats.get("numRecords")
        assert complete or not stats.get("numRecords"), f"{add.path} has no statistics of {column}"
        yield from (bound for bound in bounds if bound is not None)
