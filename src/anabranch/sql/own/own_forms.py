"""The forms of statements that Spark's parser does not know, or not in every release."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.alteration_grammar import AlterColumns, AlterTable
from anabranch.sql.grammar.cursor import Cursor, TableName
from anabranch.sql.grammar.definition_grammar import CreateTable
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.statement_grammar import StatementHeader


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnForm:
    """A form of statements that our grammar reads."""

    name: str
    family: str
    """The name of the `StatementKind` whose grammar reads it."""
    begins: str
    """A regular expression for the words that such a statement can begin with."""
    word: str = ""
    """A regular expression for a later word of it; empty where the first word is enough."""
    matches: Callable[[StatementHeader], bool] = lambda _: True
    """Whether a statement of the family has this form."""
    only_ours: str = ""
    """First words that no statement of Spark has. A syntax error after them is reported by our grammar."""
    example: str = ""
    """A statement of this form, if later releases of Spark can parse the form themselves; empty if none can."""


def is_in_word_order(header: StatementHeader) -> bool:
    """Whether only EXPLAIN is before the statement; before INSERT, WITH may be, too."""
    return header.named_queries is None or header.family.name == "INSERT"


def _behind_table(header: StatementHeader) -> Cursor:
    """A cursor after the name of the statement's table."""
    cursor = Cursor(header.text, header.tokens, statement=header.family.name)
    cursor.at = header.begin
    header.family.table_of(cursor)
    return cursor


def _parsed(header: StatementHeader) -> object | None:
    try:
        return header.parse()
    except SqlSyntaxError:
        return None


def _describes_history_or_detail(header: StatementHeader) -> bool:
    # Spark has `DESCRIBE t PARTITION (…)` and `DESCRIBE t AS JSON`, also of tables named detail and history.
    cursor = Cursor(header.text, header.tokens)
    cursor.at = header.begin + 2
    is_partition = cursor.sees("PARTITION") and cursor.sees_symbol("(", 1)
    return not is_partition and not cursor.sees("AS", "JSON")


def _drops_feature(header: StatementHeader) -> bool:
    return _behind_table(header).sees("DROP", "FEATURE")


def _syncs_identity(header: StatementHeader) -> bool:
    cursor = _behind_table(header)
    if not cursor.takes("ALTER|CHANGE"):
        return False
    cursor.takes("COLUMN")
    try:
        cursor.path()
    except SqlSyntaxError:
        return False
    return cursor.sees("SYNC", "IDENTITY")


def _changes_constraint(header: StatementHeader) -> bool:
    cursor = _behind_table(header)
    return cursor.sees("ADD", "CONSTRAINT|CHECK") or cursor.sees("DROP", "CONSTRAINT")


def _adds_column_if_missing(header: StatementHeader) -> bool:
    return _behind_table(header).sees("ADD", "COLUMN|COLUMNS", "IF", "NOT", "EXISTS")


def _renames_by_change_column(header: StatementHeader) -> bool:
    statement = _parsed(header) if _behind_table(header).sees("CHANGE") else None
    if not isinstance(statement, AlterTable) or not isinstance(statement.alteration, AlterColumns):
        return False
    return any(column.new_name is not None for column in statement.alteration.columns)


def _clones(header: StatementHeader) -> bool:
    return header.is_clone


def _has_constraints(header: StatementHeader) -> bool:
    """Spark 4.0 has no constraints in CREATE TABLE, of any format."""
    if header.provider not in {None, "delta"}:
        return False
    statement = _parsed(header)
    return isinstance(statement, CreateTable) and bool(statement.checks or statement.unsupported)


def _is_like_of_identifier(header: StatementHeader) -> bool:
    return header.source is not None and any(name.expression is not None for name in _names_of_like(header))


def _is_like_of_catalog(header: StatementHeader) -> bool:
    return header.source is not None and any(len(name.parts) > 2 for name in _names_of_like(header))


def _names_of_like(header: StatementHeader) -> tuple[TableName, ...]:
    return (header.table,) if header.source is None else (header.table, header.source)


def _evolves(header: StatementHeader) -> bool:
    cursor = Cursor(header.text, header.tokens)
    cursor.at = header.begin
    return cursor.sees("INSERT", "WITH", "SCHEMA", "EVOLUTION")


def _replaces_by_rows(header: StatementHeader) -> bool:
    statement = _parsed(header)
    if statement is None:
        # A syntax error after these words is to be reported with its position.
        words = [token.word for token in header.tokens]
        return any(pair in {("REPLACE", "ON"), ("REPLACE", "USING")} for pair in itertools.pairwise(words))
    return isinstance(statement, Insert) and bool(statement.replace_on or statement.replace_using)


def _replaces_where_by_name(header: StatementHeader) -> bool:
    statement = _parsed(header)
    return isinstance(statement, Insert) and statement.replace_where is not None and statement.by_name


def _replaces_where_with_columns(header: StatementHeader) -> bool:
    statement = _parsed(header)
    return isinstance(statement, Insert) and statement.replace_where is not None and statement.columns is not None


_INSERT = r"INSERT|WITH(?=\b.*\bINSERT\b)"

FORMS_OF_DELTA: tuple[OwnForm, ...] = (
    OwnForm(name="OPTIMIZE", family="OPTIMIZE", begins="OPTIMIZE", only_ours="OPTIMIZE"),
    OwnForm(name="REORG TABLE", family="REORG TABLE", begins="REORG", only_ours="REORG TABLE"),
    OwnForm(name="VACUUM", family="VACUUM", begins="VACUUM", only_ours="VACUUM"),
    OwnForm(name="RESTORE", family="RESTORE", begins="RESTORE", only_ours="RESTORE"),
    OwnForm(name="CONVERT TO DELTA", family="CONVERT TO DELTA", begins="CONVERT", only_ours="CONVERT TO DELTA"),
    OwnForm(name="GENERATE", family="GENERATE", begins="GENERATE"),
    OwnForm(
        name="DESCRIBE DETAIL",
        family="DESCRIBE DETAIL",
        begins="DESC|DESCRIBE",
        word="DETAIL",
        matches=_describes_history_or_detail,
    ),
    OwnForm(
        name="DESCRIBE HISTORY",
        family="DESCRIBE HISTORY",
        begins="DESC|DESCRIBE",
        word="HISTORY",
        matches=_describes_history_or_detail,
    ),
    OwnForm(name="CLONE", family="CREATE TABLE", begins="CREATE", word="CLONE", matches=_clones),
    OwnForm(name="REPLACE TABLE CLONE", family="REPLACE TABLE", begins="REPLACE", word="CLONE", matches=_clones),
    OwnForm(name="DROP FEATURE", family="ALTER TABLE", begins="ALTER", word="FEATURE", matches=_drops_feature),
    OwnForm(name="SYNC IDENTITY", family="ALTER TABLE", begins="ALTER", word="SYNC", matches=_syncs_identity),
    OwnForm(
        name="ADD COLUMN IF NOT EXISTS",
        family="ALTER TABLE",
        begins="ALTER",
        word="EXISTS",
        matches=_adds_column_if_missing,
    ),
    OwnForm(
        name="CHANGE COLUMN with a new name",
        family="ALTER TABLE",
        begins="ALTER",
        word="CHANGE",
        matches=_renames_by_change_column,
    ),
)
"""Forms that no release of Spark parses. Spark reads `DESCRIBE HISTORY t` as the column `t` of a table `HISTORY`."""

FORMS_OF_LATER_SPARK: tuple[OwnForm, ...] = (
    OwnForm(
        name="ADD CONSTRAINT, DROP CONSTRAINT",
        family="ALTER TABLE",
        begins="ALTER",
        word="CONSTRAINT|CHECK",
        matches=_changes_constraint,
        example="ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
    ),
    *(
        OwnForm(
            name=f"{begins} TABLE with constraints",
            family=f"{begins} TABLE",
            begins=begins,
            word="CHECK|CONSTRAINT|PRIMARY|FOREIGN|UNIQUE|REFERENCES",
            matches=_has_constraints,
            example=f"{begins} TABLE t (a INT, CONSTRAINT c CHECK (a > 0)) USING delta",
        )
        for begins in ("CREATE", "REPLACE")
    ),
    OwnForm(
        name="CREATE TABLE IDENTIFIER(…) LIKE",
        family="CREATE TABLE",
        begins="CREATE",
        word="LIKE",
        matches=_is_like_of_identifier,
        example="CREATE TABLE IDENTIFIER('a') LIKE b",
    ),
    OwnForm(
        name="CREATE TABLE catalog.schema.t LIKE",
        family="CREATE TABLE",
        begins="CREATE",
        word="LIKE",
        matches=_is_like_of_catalog,
        example="CREATE TABLE a.b.c LIKE d.e.f",
    ),
    OwnForm(
        name="INSERT WITH SCHEMA EVOLUTION",
        family="INSERT",
        begins=_INSERT,
        word="EVOLUTION",
        matches=_evolves,
        example="INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1",
    ),
    OwnForm(
        name="INSERT REPLACE USING, REPLACE ON",
        family="INSERT",
        begins=_INSERT,
        word="REPLACE",
        matches=_replaces_by_rows,
        example="INSERT INTO t BY NAME REPLACE USING (a) SELECT 1 AS a",
    ),
    OwnForm(
        name="INSERT BY NAME REPLACE WHERE",
        family="INSERT",
        begins=_INSERT,
        word="REPLACE",
        matches=_replaces_where_by_name,
        example="INSERT INTO t BY NAME REPLACE WHERE a = 1 SELECT 1 AS a",
    ),
    OwnForm(
        name="INSERT (columns) REPLACE WHERE",
        family="INSERT",
        begins=_INSERT,
        word="REPLACE",
        matches=_replaces_where_with_columns,
        example="INSERT INTO t (a) REPLACE WHERE a = 1 SELECT 1",
    ),
    OwnForm(
        name="COMMENT ON COLUMN",
        family="COMMENT ON COLUMN",
        begins="COMMENT",
        word="COLUMN",
        example="COMMENT ON COLUMN t.c IS 'x'",
    ),
)
"""Forms that Spark parses itself since 4.1, 4.2 or 4.3."""

FORMS_OF_TRANSACTIONS: tuple[OwnForm, ...] = (
    OwnForm(name="BEGIN", family="TRANSACTION", begins="BEGIN|START", word="TRANSACTION|ATOMIC"),
    OwnForm(name="COMMIT, ROLLBACK", family="TRANSACTION", begins="COMMIT|ROLLBACK|SAVEPOINT|RELEASE"),
)
"""Forms of `sql/own/transaction_statements.py`, which names no table. No release of Spark parses them."""
