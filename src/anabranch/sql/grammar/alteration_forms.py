"""The forms of ALTER TABLE, as values."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import Properties
from anabranch.sql.grammar.columns import Check, ColumnDefinition, Place
from anabranch.sql.grammar.cursor import Fragment, TableName


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
class AddColumns:
    """`ADD COLUMNS (…)`."""

    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool


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
class ColumnAlteration:
    """What becomes of one column; None where it stays as it is."""

    path: tuple[str, ...]
    new_name: str | None = None
    type: Fragment | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: Fragment | None = None
    drops_default: bool = False
    place: Place | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlterColumns:
    """`ALTER COLUMN a …, b …` and `CHANGE COLUMN a b type …`."""

    columns: tuple[ColumnAlteration, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SyncIdentity:
    """`ALTER COLUMN c SYNC IDENTITY`."""

    path: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddConstraint:
    """`ADD CONSTRAINT name CHECK (…)`."""

    check: Check


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropConstraint:
    """`DROP CONSTRAINT [IF EXISTS] name`."""

    name: str
    if_exists: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropFeature:
    """`DROP FEATURE name [TRUNCATE HISTORY]`."""

    feature: str
    truncates_history: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBy:
    """`CLUSTER BY (…)`; without columns for `CLUSTER BY NONE`."""

    columns: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UnknownAlteration:
    """A form of ALTER TABLE that Delta tables have not."""

    form: str


Alteration = (
    SetProperties
    | UnsetProperties
    | SetLocation
    | RenameTable
    | AddColumns
    | ReplaceColumns
    | DropColumns
    | RenameColumn
    | AlterColumns
    | SyncIdentity
    | AddConstraint
    | DropConstraint
    | DropFeature
    | ClusterBy
    | UnknownAlteration
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """`ALTER TABLE`."""

    table: TableName
    alteration: Alteration


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommentOnTable:
    """`COMMENT ON TABLE t IS '…'`."""

    table: TableName
    comment: str | None
