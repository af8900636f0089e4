"""The forms of ALTER TABLE that some release of Spark cannot parse, as values."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.columns import Check, ColumnDefinition, Place
from anabranch.sql.grammar.cursor import Fragment, TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    """`ADD COLUMNS (…)`."""

    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool


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
class AlterTable:
    """`ALTER TABLE`."""

    table: TableName
    alteration: object
    """A value of one of the forms."""
