"""ALTER TABLE and COMMENT ON COLUMN, in the forms that some release of Spark cannot parse."""

from __future__ import annotations

import dataclasses

from anabranch.predicates.sql_lexer import TokenKind
from anabranch.sql.grammar.clauses import (
    Check,
    ColumnDefinition,
    ColumnPosition,
    take_check,
    take_column,
    take_default,
    take_position,
    take_type,
)
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    """`ADD COLUMNS (…)`."""

    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAlteration:
    """The changes of one column; None where a part is not changed."""

    path: tuple[str, ...]
    new_name: str | None = None
    type: Fragment | None = None
    nullable: bool | None = None
    comment: str | None = None
    default: Fragment | None = None
    drops_default: bool = False
    position: ColumnPosition | None = None


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


def parse_own_alter(cursor: Cursor) -> AlterTable:
    """Parse `ALTER TABLE t …` in one of these forms."""
    cursor.expect("ALTER", "TABLE")
    table = cursor.table()
    alteration = take_own_alteration(cursor)
    if alteration is None:
        raise cursor.unexpected("ADD, DROP, ALTER COLUMN or CHANGE COLUMN")
    cursor.expect_end()
    return AlterTable(table=table, alteration=alteration)


def take_own_alteration(cursor: Cursor) -> object | None:
    """Take an alteration of one of these forms; None for others."""
    if cursor.takes("ADD"):
        return _add(cursor)
    if cursor.takes("DROP"):
        return _drop(cursor)
    return _alter_columns(cursor) if cursor.sees("ALTER|CHANGE") else None


def parse_column_comment(cursor: Cursor) -> AlterTable:
    """`COMMENT ON COLUMN t.c IS {'…' | NULL}`."""
    cursor.expect("COMMENT", "ON", "COLUMN")
    first = cursor.at
    table = take_table_of_column(cursor)
    cursor.at = first
    column = cursor.path()[-1]
    cursor.expect("IS")
    comment = "" if cursor.takes("NULL") else cursor.string("a string or NULL")
    cursor.expect_end()
    alteration = AlterColumns(columns=(ColumnAlteration(path=(column,), comment=comment),))
    return AlterTable(table=table, alteration=alteration)


def take_table_of_column(cursor: Cursor) -> TableName:
    """Take the name of a column after that of its table; return that of the table."""
    start = cursor.peek()
    parts = cursor.path("a table and its column")
    if len(parts) == 1 or start is None:
        raise cursor.unexpected(". and the name of a column")
    return TableName(parts[:-1], start.start, cursor.end_of_last)


def _add(cursor: Cursor) -> object:
    if cursor.takes("COLUMN|COLUMNS"):
        if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
        return AddColumns(columns=take_columns(cursor), if_not_exists=if_not_exists)
    check = take_check(cursor)
    if check is None:
        raise cursor.unexpected("COLUMN, COLUMNS or CONSTRAINT")
    return AddConstraint(check=check)


def _drop(cursor: Cursor) -> object:
    if cursor.takes("CONSTRAINT"):
        if_exists = cursor.takes("IF", "EXISTS")
        name = cursor.name("the name of a constraint")
        cursor.takes("RESTRICT|CASCADE")
        return DropConstraint(name=name, if_exists=if_exists)
    cursor.expect("FEATURE")
    token = cursor.peek()
    quoted = token is not None and token.kind is TokenKind.STRING
    feature = cursor.string() if quoted else cursor.name("the name of a feature")
    return DropFeature(feature=feature, truncates_history=cursor.takes("TRUNCATE", "HISTORY"))


def take_columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Take definitions of columns, in parentheses or without."""
    columns: list[ColumnDefinition] = []
    if cursor.sees_symbol("("):
        cursor.listed(lambda: columns.append(take_column(cursor)))
    else:
        columns.append(take_column(cursor))
        while cursor.takes_symbol(","):
            columns.append(take_column(cursor))
    return tuple(columns)


def _alter_columns(cursor: Cursor) -> object:
    changes = cursor.takes("CHANGE")
    if not changes:
        cursor.expect("ALTER")
    cursor.takes("COLUMN")
    path = cursor.path()
    if cursor.takes("SYNC", "IDENTITY"):
        return SyncIdentity(path=path)
    action = _column_action(cursor, path)
    if action is None and changes:
        return AlterColumns(columns=(_hive_change(cursor, path),))
    alterations = [_required(cursor, action)]
    while cursor.takes_symbol(","):
        alterations.append(_required(cursor, _column_action(cursor, cursor.path())))
    return AlterColumns(columns=tuple(alterations))


def _required(cursor: Cursor, action: ColumnAlteration | None) -> ColumnAlteration:
    if action is None:
        raise cursor.unexpected(
            "TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT, or SYNC IDENTITY"
        )
    return action


def _column_action(cursor: Cursor, path: tuple[str, ...]) -> ColumnAlteration | None:
    """The change of the column; None where the statement has another form."""
    if cursor.takes("TYPE"):
        return ColumnAlteration(path=path, type=take_type(cursor))
    if cursor.takes("COMMENT"):
        return ColumnAlteration(path=path, comment=cursor.string("a comment"))
    if cursor.takes("SET", "NOT", "NULL"):
        return ColumnAlteration(path=path, nullable=False)
    if cursor.takes("DROP", "NOT", "NULL"):
        return ColumnAlteration(path=path, nullable=True)
    if cursor.takes("SET", "DEFAULT"):
        return ColumnAlteration(path=path, default=take_default(cursor))
    if cursor.takes("DROP", "DEFAULT"):
        return ColumnAlteration(path=path, drops_default=True)
    position = take_position(cursor)
    return None if position is None else ColumnAlteration(path=path, position=position)


def _hive_change(cursor: Cursor, path: tuple[str, ...]) -> ColumnAlteration:
    """`CHANGE COLUMN a b type [COMMENT …] [FIRST | AFTER c]`."""
    defined = take_column(cursor)
    return ColumnAlteration(
        path=path,
        new_name=defined.path[-1] if defined.path[-1] != path[-1] else None,
        type=defined.type,
        nullable=None if defined.nullable else False,
        comment=defined.comment,
        position=defined.position,
    )
