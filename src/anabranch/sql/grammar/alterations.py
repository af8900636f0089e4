"""ALTER TABLE and COMMENT ON TABLE."""

from __future__ import annotations

from anabranch.sql.grammar.alteration_forms import (
    AddColumns,
    AddConstraint,
    Alteration,
    AlterColumns,
    AlterTable,
    ClusterBy,
    ColumnAlteration,
    CommentOnTable,
    DropColumns,
    DropConstraint,
    DropFeature,
    RenameColumn,
    RenameTable,
    ReplaceColumns,
    SetLocation,
    SetProperties,
    SyncIdentity,
    UnknownAlteration,
    UnsetProperties,
)
from anabranch.sql.grammar.clauses import take_properties, take_property_keys
from anabranch.sql.grammar.columns import ColumnDefinition, take_check, take_column, take_default, take_place, take_type
from anabranch.sql.grammar.cursor import Cursor, TableName
from anabranch.sql.grammar.tokens import TokenKind

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
    """Take the name of a column with its table's before it; give the table's."""
    start = cursor.peek()
    parts = cursor.path("a table and its column")
    if len(parts) == 1 or start is None:
        raise cursor.unexpected(". and the name of a column")
    return TableName(parts[:-1], start.start, cursor.end_of_last)


def _alteration(cursor: Cursor) -> Alteration:
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
    if cursor.takes("ADD"):
        return _add(cursor)
    if cursor.takes("DROP"):
        return _drop(cursor)
    if cursor.takes("REPLACE", "COLUMNS"):
        return ReplaceColumns(columns=_columns(cursor))
    if cursor.takes("CLUSTER", "BY"):
        return _cluster_by(cursor)
    if cursor.sees("ALTER|CHANGE"):
        return _alter_columns(cursor)
    raise cursor.unexpected("SET, UNSET, ADD, DROP, RENAME, ALTER COLUMN, CHANGE COLUMN, REPLACE COLUMNS or CLUSTER BY")


def _set(cursor: Cursor) -> Alteration:
    if cursor.takes("TBLPROPERTIES"):
        return SetProperties(properties=take_properties(cursor))
    if cursor.takes("LOCATION"):
        return SetLocation(location=cursor.string("a location"))
    raise cursor.unexpected("TBLPROPERTIES or LOCATION")


def _rename(cursor: Cursor) -> Alteration:
    if cursor.takes("TO"):
        return RenameTable(to=cursor.path("the name of a table"))
    cursor.expect("COLUMN")
    path = cursor.path()
    cursor.expect("TO")
    return RenameColumn(path=path, to=cursor.name("a column"))


def _add(cursor: Cursor) -> Alteration:
    if cursor.takes("COLUMN|COLUMNS"):
        if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
        return AddColumns(columns=_columns(cursor), if_not_exists=if_not_exists)
    check = take_check(cursor)
    if check is None:
        raise cursor.unexpected("COLUMN, COLUMNS or CONSTRAINT")
    return AddConstraint(check=check)


def _drop(cursor: Cursor) -> Alteration:
    if cursor.takes("COLUMN|COLUMNS"):
        if_exists = cursor.takes("IF", "EXISTS")
        in_parentheses = cursor.takes_symbol("(")
        paths = cursor.paths()
        if in_parentheses:
            cursor.expect_symbol(")")
        return DropColumns(paths=paths, if_exists=if_exists)
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


def _columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    found: list[ColumnDefinition] = []
    if cursor.sees_symbol("("):
        cursor.listed(lambda: found.append(take_column(cursor)))
    else:
        found.append(take_column(cursor))
        while cursor.takes_symbol(","):
            found.append(take_column(cursor))
    return tuple(found)


def _cluster_by(cursor: Cursor) -> ClusterBy:
    if cursor.takes("NONE"):
        return ClusterBy(columns=())
    cursor.expect_symbol("(")
    columns = cursor.paths()
    cursor.expect_symbol(")")
    return ClusterBy(columns=columns)


def _alter_columns(cursor: Cursor) -> Alteration:
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
    found = [_required(cursor, action)]
    while cursor.takes_symbol(","):
        found.append(_required(cursor, _column_action(cursor, cursor.path())))
    return AlterColumns(columns=tuple(found))


def _required(cursor: Cursor, action: ColumnAlteration | None) -> ColumnAlteration:
    if action is None:
        raise cursor.unexpected(
            "TYPE, COMMENT, FIRST, AFTER, SET or DROP NOT NULL, SET or DROP DEFAULT, or SYNC IDENTITY"
        )
    return action


def _column_action(cursor: Cursor, path: tuple[str, ...]) -> ColumnAlteration | None:
    """What is said of the column; None where it is nothing of this form."""
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
    place = take_place(cursor)
    return None if place is None else ColumnAlteration(path=path, place=place)


def _hive_change(cursor: Cursor, path: tuple[str, ...]) -> ColumnAlteration:
    """`CHANGE COLUMN a b type [COMMENT …] [FIRST | AFTER c]`."""
    defined = take_column(cursor)
    return ColumnAlteration(
        path=path,
        new_name=defined.path[-1] if defined.path[-1] != path[-1] else None,
        type=defined.type,
        nullable=None if defined.nullable else False,
        comment=defined.comment,
        place=defined.place,
    )
