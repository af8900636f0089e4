"""`--where` and `--columns`: what a user asks for, in terms of one version of a table."""

from __future__ import annotations

import dataclasses
import os
import zoneinfo
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from pyspark.sql.types import StructField

from anabranch.errors.schema import ColumnNotFoundError
from anabranch.predicates.expressions import TRUE, ColumnPath, Predicate, Unknown, references, walk
from anabranch.predicates.normalisation import to_physical
from anabranch.predicates.sql import parse_predicate
from anabranch.schema.column_mapping import physical_paths
from anabranch.schema.paths import find, quoted
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.snapshot.snapshot import Snapshot

_LOCAL_TIME = "/etc/localtime"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on the rows of one version."""

    text: str
    """As written; empty where there is none."""
    predicate: Predicate
    """In logical names."""
    may_match: npt.NDArray[np.bool_]
    """One entry a live file: whether a row of it can satisfy the condition."""

    @property
    def not_understood(self) -> tuple[str, ...]:
        """The parts that only Spark can evaluate; they let every file pass."""
        return tuple(dict.fromkeys(node.text for node in walk(self.predicate) if isinstance(node, Unknown)))

    @property
    def columns(self) -> tuple[ColumnPath, ...]:
        """What it reads, by name."""
        return tuple(sorted(references(self.predicate)))


def condition_on(snapshot: Snapshot, text: str | None) -> Condition:
    """The condition `text`, and the files that it can touch; without a text every row satisfies it.

    Raises `PredicateSyntaxError`, `ColumnNotFoundError`.
    """
    if text is None:
        everything = np.ones(snapshot.files.count, dtype=np.bool_)
        return Condition(text="", predicate=TRUE, may_match=everything)
    for path in references(parse_predicate(text)):
        # With the schema at hand the parser would take a column that is not there for something it does not know.
        if len(path) == 1 or find(snapshot.schema, path[1:]) is None:
            field_at(snapshot, path)
    predicate = parse_predicate(text, schema=snapshot.schema, session_time_zone=local_zone())
    names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    may_match = can_be_true(to_physical(predicate, names), snapshot.skipping_columns)
    return Condition(text=text, predicate=predicate, may_match=may_match)


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


def local_zone() -> str:
    """The time zone of this machine by name, as Spark's sessions take it; UTC where it has none."""
    candidates: Iterable[str] = (os.environ.get("TZ", "").lstrip(":"), _zone_of_link())
    for name in candidates:
        if name and not name.startswith("/"):
            try:
                return zoneinfo.ZoneInfo(name).key
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                continue
    return "UTC"


def _zone_of_link() -> str:
    return os.path.realpath(_LOCAL_TIME).partition("zoneinfo/")[2]


def _path_of(snapshot: Snapshot, name: str) -> ColumnPath:
    """A column whose name has dots, or a path of names."""
    whole = find(snapshot.schema, (name,))
    if whole is not None:
        return (whole.name,)
    path = tuple(name.split("."))
    return tuple(field_at(snapshot, path[: end + 1]).name for end in range(len(path)))
