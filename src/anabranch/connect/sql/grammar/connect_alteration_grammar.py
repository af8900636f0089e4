"""ALTER TABLE in all forms, and COMMENT ON TABLE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.alteration_grammar import AlterTable, take_columns, take_own_alteration
from anabranch.sql.grammar.clauses import ColumnDefinition, Properties, take_properties, take_property_keys
from anabranch.sql.grammar.cursor import Cursor, TableName

# The forms of ALTER TABLE that every release of Spark can parse, as values.


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


_NOT_FOR_DELTA = (
    "ADD PARTITION", "DROP PARTITION", "ADD IF", "DROP IF", "RECOVER PARTITIONS", "SET SERDE", "SET SERDEPROPERTIES",
    "SET FILEFORMAT", "PARTITION",
)  # fmt: skip


def parse_alter(cursor: Cursor) -> AlterTable:
    """`ALTER TABLE t …`."""
    cursor.expect("ALTER", "TABLE")
    table = cursor.table()
    alteration = _alteration(cursor)
    cursor.expect_end()
    return AlterTable(table=table, alteration=alteration)


def parse_comment(cursor: Cursor) -> CommentOnTable:
    """`COMMENT ON TABLE t IS {'…' | NULL}`."""
    cursor.expect("COMMENT", "ON", "TABLE")
    table = cursor.table()
    cursor.expect("IS")
    comment = None if cursor.takes("NULL") else cursor.string("a string or NULL")
    cursor.expect_end()
    return CommentOnTable(table=table, comment=comment)


def _alteration(cursor: Cursor) -> object:
    for form in _NOT_FOR_DELTA:
        if cursor.sees(*form.split()):
            cursor.at = len(cursor.tokens)
            return UnknownAlteration(form=form.removesuffix(" IF") + (" PARTITION" if form.endswith("IF") else ""))
    if cursor.takes("SET"):
        return _set(cursor)
    if cursor.takes("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.takes("IF", "EXISTS")
        return UnsetProperties(names=take_property_keys(cursor), if_exists=if_exists)
    if cursor.takes("RENAME"):
        return _rename(cursor)
    if cursor.takes("DROP", "COLUMN|COLUMNS"):
        return _drop_columns(cursor)
    if cursor.takes("REPLACE", "COLUMNS"):
        return ReplaceColumns(columns=take_columns(cursor))
    if cursor.takes("CLUSTER", "BY"):
        return _cluster_by(cursor)
    known = take_own_alteration(cursor)
    if known is not None:
        return known
    raise cursor.unexpected("SET, UNSET, ADD, DROP, RENAME, ALTER COLUMN, CHANGE COLUMN, REPLACE COLUMNS or CLUSTER BY")


def _set(cursor: Cursor) -> object:
    if cursor.takes("TBLPROPERTIES"):
        return SetProperties(properties=take_properties(cursor))
    if cursor.takes("LOCATION"):
        return SetLocation(location=cursor.string("a location"))
    raise cursor.unexpected("TBLPROPERTIES or LOCATION")


def _rename(cursor: Cursor) -> object:
    if cursor.takes("TO"):
        return RenameTable(to=cursor.path("the name of a table"))
    cursor.expect("COLUMN")
    path = cursor.path()
    cursor.expect("TO")
    return RenameColumn(path=path, to=cursor.name("a column"))


def _drop_columns(cursor: Cursor) -> DropColumns:
    if_exists = cursor.takes("IF", "EXISTS")
    in_parentheses = cursor.takes_symbol("(")
    paths = cursor.paths()
    if in_parentheses:
        cursor.expect_symbol(")")
    return DropColumns(paths=paths, if_exists=if_exists)


def _cluster_by(cursor: Cursor) -> ClusterBy:
    if cursor.takes("NONE"):
        return ClusterBy(columns=())
    cursor.expect_symbol("(")
    columns = cursor.paths()
    cursor.expect_symbol(")")
    return ClusterBy(columns=columns)
