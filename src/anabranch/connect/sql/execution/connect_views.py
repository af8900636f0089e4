"""CREATE VIEW and ALTER VIEW over Delta tables, run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.commands.describe.show_table import sql_type
from anabranch.connect.sql.grammar.view_grammar import (
    AlterView,
    CacheTable,
    CreateView,
    CreateViewUsing,
    RefreshTable,
    UncacheTable,
)
from anabranch.connect.sql.table_reads import Reader, with_placeholders
from anabranch.connect.sql.table_references import table_references
from anabranch.connect.sql.temporary_views import global_schema, make_temporary_view
from anabranch.errors.arguments import (
    InvalidArgumentError,
    InvalidColumnListError,
    NotCachedError,
    RecursiveViewError,
    UnsupportedOperationError,
)
from anabranch.errors.schema import DuplicateColumnsError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.predicates.sql_lexer import string_literal
from anabranch.spark.session.catalog import StoredView, require_session_catalog
from anabranch.spark.session.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier, quote
from anabranch.sql.grammar.cursor import Fragment, TableName
from anabranch.sql.parameters import Parameters
from anabranch.sql.statement_context import StatementContext

_NO_ROWS_YET = "The view is being made."
_VERSION, _TIMESTAMP, _PATH = "versionasof", "timestampasof", "path"


def create_view(context: StatementContext, statement: CreateView) -> DataFrame:
    """A view that asks its query anew each time it is read."""
    name = _name(context, statement.view)
    if statement.is_temporary:
        text = _text(context, statement.query)
        known = _temporary_name(context, name, is_global=statement.is_global)
        _define(context, known, text, statement, is_global=statement.is_global, replaces=statement.replaces)
        return context.nothing()
    qualified = require_session_catalog(context.session.spark, name)
    if statement.if_not_exists and context.session.catalog.find(qualified) is not None:
        return context.nothing()
    begin = "CREATE OR REPLACE VIEW" if statement.replaces else "CREATE VIEW"
    clauses = "" if statement.clauses is None else context.literals(statement.clauses)
    return _store(context, qualified, f"{begin} {qualified.quoted} {clauses}", statement.query, statement.columns)


def create_view_using(context: StatementContext, statement: CreateViewUsing) -> DataFrame:
    """A temporary view of a table that is told by its folder."""
    options = {key.lower(): value for key, value in statement.options}
    path = options.pop(_PATH, None)
    if path is None or set(options) - {_VERSION, _TIMESTAMP}:
        problem = "a view USING delta takes path, versionAsOf and timestampAsOf"
        raise InvalidArgumentError(argument="OPTIONS", value=", ".join(sorted(options)) or "none", problem=problem)
    text = f"SELECT * FROM delta.{quote(context.session.qualified_path(path))}"  # noqa: S608 - a quoted name
    if _VERSION in options:
        text += f" VERSION AS OF {string_literal(options[_VERSION])}"
    if _TIMESTAMP in options:
        text += f" TIMESTAMP AS OF {string_literal(options[_TIMESTAMP])}"
    name = _temporary_name(context, _name(context, statement.view), is_global=statement.is_global)
    _define(context, name, text, None, is_global=statement.is_global, replaces=statement.replaces)
    return context.nothing()


def alter_view(context: StatementContext, statement: AlterView) -> DataFrame:
    """Another query for a view that is there."""
    name = _name(context, statement.view)
    if not context.session.catalog.is_temporary_view(name):
        qualified = require_session_catalog(context.session.spark, name)
        return _store(context, qualified, f"ALTER VIEW {qualified.quoted}", statement.query, ())
    is_global = len(name.parts) > 1
    known = name.parts[-1]
    _define(context, known, _text(context, statement.query), None, is_global=is_global, replaces=True)
    return context.nothing()


def define_temporary_view(context: StatementContext, name: TableName, query: Fragment) -> None:
    """A temporary view of that name, in the place of one that is there."""
    known = _temporary_name(context, _name(context, name), is_global=False)
    _define(context, known, _text(context, query), None, is_global=False, replaces=True)


def _define(
    context: StatementContext, name: str, text: str, statement: CreateView | None, *, is_global: bool, replaces: bool
) -> None:
    schema = global_schema(context.session) if is_global else None
    identifier = NameIdentifier((name,) if schema is None else (schema, name))
    rows = _rows(context, text, identifier)
    columns = () if statement is None else statement.columns
    catalog = context.session.spark.catalog
    view = StoredView(
        text=text,
        namespace=(catalog.currentCatalog(), catalog.currentDatabase()),
        output=tuple(rows.columns),
        schema=_schema(str(identifier), rows, columns),
        evolves=statement is not None and statement.evolves,
        sees_temporary_views=True,
    )
    make_temporary_view(context.session, name, rows, view, is_global=is_global, replaces=replaces)


def _store(
    context: StatementContext,
    name: NameIdentifier,
    begin: str,
    query: Fragment,
    columns: Sequence[tuple[str, str | None]],
) -> DataFrame:
    """Put the query's text into the catalog, where any session finds it.

    Spark would look at the tables to learn the columns, and knows only some Delta tables; so it is given the columns
    first, and the text then.
    """
    text = _text(context, query)
    _refuse_temporary(context, name, text)
    if context.session.is_connect and not _needs_our_help(text):
        return context.own_sql(f"{begin} AS {text}")
    rows = _rows(context, text, name)
    schema = _schema(str(name), rows, columns)
    stand_ins = [
        f"CAST(raise_error({string_literal(_NO_ROWS_YET)}) AS {sql_type(field.dataType)}) AS {quote(column)}"
        for field, column in zip(schema.fields, rows.columns, strict=True)
    ]
    result = context.own_sql(f"{begin} AS SELECT {', '.join(stand_ins)}")
    context.session.catalog.set_view_text(name, text)
    return result


def _needs_our_help(text: str) -> bool:
    """Whether Spark cannot find the Delta tables by itself."""
    return any(
        reference.version is not None
        or reference.timestamp_sql is not None
        or reference.name_sql is not None
        or reference.function is not None
        or (len(reference.parts) == 2 and reference.parts[0].lower() == "delta")
        for reference in table_references(text)
    )


def _rows(context: StatementContext, text: str, name: NameIdentifier) -> DataFrame:
    """What the view's query gives now."""
    reader = Reader(context.session)
    given = reader.reads(text, Parameters())
    if any(_is_same(context, name, read) for read in reader.views):
        raise RecursiveViewError(view=str(name))
    rewritten, frames = with_placeholders(text, given, has_fields=False)
    return context.own_sql(rewritten, **frames) if given else context.own_sql(rewritten)


def _is_same(context: StatementContext, one: NameIdentifier, other: NameIdentifier) -> bool:
    def key(name: NameIdentifier) -> tuple[str, ...]:
        if len(name.parts) == 1 and not context.session.catalog.is_temporary_view(name):
            name = require_session_catalog(context.session.spark, name)
        return tuple(part.lower() for part in name.parts)

    return key(one) == key(other)


def _schema(name: str, rows: DataFrame, columns: Sequence[tuple[str, str | None]]) -> StructType:
    """The view's columns: the query's, under names and with comments of their own where it gives some."""
    fields = rows.schema.fields
    if columns and len(columns) != len(fields):
        raise InvalidColumnListError(table=name, columns=tuple(column for column, _ in columns), found=len(fields))
    given = columns or [(field.name, None) for field in fields]
    found: dict[str, StructField] = {}
    for (column, comment), field in zip(given, fields, strict=True):
        if column.lower() in found:
            raise DuplicateColumnsError(table=name, where="the query", columns=(column,))
        metadata = field.metadata if comment is None else {**field.metadata, "comment": comment}
        found[column.lower()] = StructField(column, field.dataType, field.nullable, metadata)
    return StructType(list(found.values()))


def _text(context: StatementContext, query: Fragment) -> str:
    """The query as the view keeps it, values in the place of its parameters."""
    text = context.literals(query)
    if context.holds_frames(text):
        operation = "A view over a DataFrame that is given as a format field"
        raise UnsupportedOperationError(operation=operation, instead="Give the DataFrame a temporary view of its own.")
    return text


def _refuse_temporary(context: StatementContext, name: NameIdentifier, text: str) -> None:
    """What is in the catalog outlives the session, and cannot stand on what is the session's."""
    for reference in table_references(text):
        known = NameIdentifier(reference.parts)
        if not reference.parts or len(known.parts) > 2:
            continue
        if context.session.catalog.is_temporary_view(known):
            operation = f"The view {name} in the catalog over the temporary view {known}"
            raise UnsupportedOperationError(operation=operation, instead="Use CREATE TEMP VIEW.")


def _name(context: StatementContext, view: TableName) -> NameIdentifier:
    identifier = context.identifier(view)
    if isinstance(identifier, PathIdentifier):
        raise InvalidIdentifierError(identifier=str(identifier), problem="a view has a name, not a folder")
    return identifier


def _temporary_name(context: StatementContext, name: NameIdentifier, *, is_global: bool) -> str:
    *schema, last = name.parts
    if schema and not (is_global and [part.lower() for part in schema] == [global_schema(context.session)]):
        raise InvalidIdentifierError(identifier=str(name), problem="a temporary view belongs to no schema")
    return last


VIEWS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    CreateView: create_view,
    CreateViewUsing: create_view_using,
    AlterView: alter_view,
}


# CACHE TABLE, UNCACHE TABLE and REFRESH TABLE, run.


_LEVEL = "storagelevel"
_lock = threading.Lock()


def cache(context: StatementContext, statement: CacheTable) -> DataFrame:
    """Keep the rows of the version there is now. Reads of a newer version do not get them."""
    level = _level(statement)
    if statement.query is not None:
        define_temporary_view(context, statement.table, statement.query)
    identifier = context.identifier(statement.table)
    rows = context.select(f"SELECT * FROM {_written(identifier)}", Parameters())  # noqa: S608 - a quoted name
    rows = rows.persist() if level is None else rows.persist(level)
    with _lock:
        context.session.cached.setdefault(_key(identifier), []).append(rows)
    if not statement.is_lazy:
        rows.count()
    return context.nothing()


def uncache(context: StatementContext, statement: UncacheTable) -> DataFrame:
    """Let the rows go. Raises `NotCachedError`."""
    if not _release(context, statement.table) and not statement.if_exists:
        raise NotCachedError(table=str(context.identifier(statement.table)))
    return context.nothing()


def refresh(context: StatementContext, statement: RefreshTable) -> DataFrame:
    """Every read looks for newer versions anyhow; what was kept for faster reads goes."""
    _release(context, statement.table)
    return context.nothing()


def _release(context: StatementContext, table: TableName) -> bool:
    with _lock:
        found = context.session.cached.pop(_key(context.identifier(table)), [])
    for rows in found:
        rows.unpersist()
    return bool(found)


def _key(identifier: TableIdentifier) -> str:
    return _written(identifier).lower()


def _written(identifier: TableIdentifier) -> str:
    return f"delta.{quote(identifier.path)}" if isinstance(identifier, PathIdentifier) else identifier.quoted


def _level(statement: CacheTable) -> StorageLevel | None:
    told = {key.lower(): value for key, value in statement.options}
    name = told.get(_LEVEL)
    if name is None:
        return None
    level = getattr(StorageLevel, name.upper(), None)
    if not isinstance(level, StorageLevel):
        problem = "it is the name of a storage level, as MEMORY_ONLY or DISK_ONLY"
        raise InvalidArgumentError(argument="storageLevel", value=name, problem=problem)
    return level


CACHING: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    CacheTable: cache,
    UncacheTable: uncache,
    RefreshTable: refresh,
}
