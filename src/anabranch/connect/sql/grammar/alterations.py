"""ALTER TABLE in all forms, and COMMENT ON TABLE."""

from __future__ import annotations

from anabranch.connect.sql.grammar.alteration_forms import (
    ClusterBy,
    CommentOnTable,
    DropColumns,
    RenameColumn,
    RenameTable,
    ReplaceColumns,
    SetLocation,
    SetProperties,
    UnknownAlteration,
    UnsetProperties,
)
from anabranch.sql.grammar.alteration_forms import AlterTable
from anabranch.sql.grammar.alterations import take_columns, take_own_alteration
from anabranch.sql.grammar.clauses import take_properties, take_property_keys
from anabranch.sql.grammar.cursor import Cursor

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
