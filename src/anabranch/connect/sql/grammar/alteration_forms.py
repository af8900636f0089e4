"""The forms of ALTER TABLE that every release of Spark can parse, as values."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import Properties
from anabranch.sql.grammar.columns import ColumnDefinition
from anabranch.sql.grammar.cursor import TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """`SET TBLPROPERTIES (…)`."""

    properties: Properties


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnsetProperties:
    """`UNSET TBLPROPERTIES [IF EXISTS] (…)`."""

    names: tuple[str, ...]
    if_exists: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetLocation:
    """`SET LOCATION '…'`."""

    location: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable:
    """`RENAME TO t`."""

    to: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceColumns:
    """`REPLACE COLUMNS (…)`."""

    columns: tuple[ColumnDefinition, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropColumns:
    """`DROP COLUMNS [IF EXISTS] (…)`."""

    paths: tuple[tuple[str, ...], ...]
    if_exists: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """`RENAME COLUMN a TO b`."""

    path: tuple[str, ...]
    to: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBy:
    """`CLUSTER BY (…)`; without columns for `CLUSTER BY NONE`."""

    columns: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnknownAlteration:
    """A form of ALTER TABLE that Delta tables have not."""

    form: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommentOnTable:
    """`COMMENT ON TABLE t IS '…'`."""

    table: TableName
    comment: str | None
