"""The high-water marks of identity columns, which the commit with new values moves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from anabranch.protocol.actions import Action, AddFile, Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.computed_columns import identity_columns, with_high_water_mark
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.reserved_numbers import NumberRange, ReservedNumbers


def generated_numbers(
    metadata: Metadata,
    adds: Iterable[AddFile],
    columns: Collection[str],
    *,
    table: str,
    reserved: ReservedNumbers | None = None,
) -> dict[str, NumberRange]:
    """The numbers of these new files, from the first that was generated to the last, by identity column.

    `columns` are those for which numbers were generated (`WritePlan.generates_identity`), at least one; one that has no
    new number is left out. `metadata` are those of the version that was read, and `reserved` the numbers that were used
    instead of those behind its marks.
    """
    schema = parse_schema(metadata.schema_string, table)
    mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    files = tuple(adds)
    firsts = {} if reserved is None else reserved.first_numbers
    numbers = {}
    for name, identity in identity_columns(schema, table).items():
        extremes = list(_extremes(files, physical_name(schema[name], mode))) if name in columns else []
        last = identity.mark_after(max(extremes) if identity.step > 0 else min(extremes)) if extremes else None
        first = firsts.get(name, identity.next_value)
        if last is not None and (last >= first if identity.step > 0 else last <= first):
            numbers[name] = NumberRange(first=first, last=last, step=identity.step)
    return numbers


def with_moved_marks(
    metadata: Metadata, numbers: Mapping[str, NumberRange], *, table: str, reserved: ReservedNumbers | None = None
) -> Metadata:
    """`metadata` with the marks moved behind these numbers; the same value where no mark moves.

    A commit with such numbers must contain the changed metadata: the next writer counts on from the mark. For numbers
    that are reserved, the commit that has reserved them has moved it.
    """
    marks = {
        name: generated.last
        for name, generated in numbers.items()
        if reserved is None or not reserved.hold(name, generated)
    }
    if not marks:
        return metadata
    schema = parse_schema(metadata.schema_string, table)
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
