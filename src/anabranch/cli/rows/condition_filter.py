"""`--where` and `--columns`, resolved against one version of a table."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
from pyspark.sql.types import StructField

from anabranch.cli.rows.local_time_zone import local_time_zone
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.predicates.expressions import (
    TRUE,
    ColumnPath,
    Predicate,
    Unknown,
    nodes_of,
    references,
    with_physical_columns,
)
from anabranch.schema.column_mapping import physical_paths
from anabranch.schema.paths import find, quoted
from anabranch.snapshot.snapshot import Snapshot


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on the rows of one version."""

    text: str
    """The text that the user wrote; empty without a condition."""
    predicate: Predicate
    """The predicate in logical names."""
    may_match: npt.NDArray[np.bool_]
    """For each live file: whether a row of it can satisfy the condition."""

    @property
    def not_understood(self) -> tuple[str, ...]:
        """The parts that only Spark can evaluate. They skip no file."""
        return tuple(dict.fromkeys(node.text for node in nodes_of(self.predicate) if isinstance(node, Unknown)))

    @property
    def columns(self) -> tuple[ColumnPath, ...]:
        """The columns that the condition names."""
        return tuple(sorted(references(self.predicate)))


def condition_on(snapshot: Snapshot, text: str | None) -> Condition:
    """The condition `text`, and the files that can match it; without a text every row satisfies it.

    Raises `PredicateSyntaxError`, `ColumnNotFoundError`.
    """
    if text is None:
        everything = np.ones(snapshot.files.count, dtype=np.bool_)
        return Condition(text="", predicate=TRUE, may_match=everything)
    # Imported here: most calls have no condition, and the parser takes a tenth of a second to load.
    from anabranch.cli.rows.written_conditions import parse_condition  # noqa: PLC0415

    predicate = parse_condition(text, functools.partial(_resolve_column, snapshot), time_zone=local_time_zone())
    names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    may_match = can_be_true(with_physical_columns(predicate, names), snapshot.skipping_columns)
    return Condition(text=text, predicate=predicate, may_match=may_match)


def _resolve_column(snapshot: Snapshot, path: ColumnPath) -> tuple[ColumnPath, StructField]:
    """The column at that path, spelled as in the schema. A first name that is no column is taken for the table's."""
    if len(path) > 1 and find(snapshot.schema, path[:1]) is None and find(snapshot.schema, path[1:]) is not None:
        path = path[1:]
    spelled = tuple(field_at(snapshot, path[: end + 1]).name for end in range(len(path)))
    return spelled, field_at(snapshot, path)


def column_paths(snapshot: Snapshot, columns: str | None) -> tuple[ColumnPath, ...]:
    """The columns that `A,B.c` names, spelled as in the schema. Raises `ColumnNotFoundError`."""
    names = [name.strip().strip("`") for name in (columns or "").split(",") if name.strip()]
    return tuple(_path_of(snapshot, name) for name in names)


def field_at(snapshot: Snapshot, path: ColumnPath) -> StructField:
    """The field of that path. Raises `ColumnNotFoundError`."""
    field = find(snapshot.schema, path)
    if field is None:
        raise ColumnNotFoundError(
            table=snapshot.table_root, column=quoted(path), available=tuple(snapshot.schema.fieldNames())
        )
    return field


def _path_of(snapshot: Snapshot, name: str) -> ColumnPath:
    """The path of a column. A column whose own name has dots goes before a path of names."""
    whole = find(snapshot.schema, (name,))
    if whole is not None:
        return (whole.name,)
    path = tuple(name.split("."))
    return tuple(field_at(snapshot, path[: end + 1]).name for end in range(len(path)))
