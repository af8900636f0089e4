"""CACHE TABLE, UNCACHE TABLE and REFRESH TABLE, run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from anabranch.connect.sql.execution.views import define_temporary_view
from anabranch.connect.sql.grammar.views import CacheTable, RefreshTable, UncacheTable
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.sql import NotCachedError
from anabranch.spark.session_identity import identity
from anabranch.spark.table_identifiers import PathIdentifier, TableIdentifier, quote
from anabranch.sql.call import Call
from anabranch.sql.grammar.cursor import TableName
from anabranch.sql.parameters import Parameters

_LEVEL = "storagelevel"
_cached: dict[tuple[str, str], list[DataFrame]] = {}
"""By session and name: the versions that Spark was told to keep."""
_lock = threading.Lock()


def cache(call: Call, statement: CacheTable) -> DataFrame:
    """Keep the rows of the version there is now. Reads of a newer version do not get them."""
    level = _level(statement)
    if statement.query is not None:
        define_temporary_view(call, statement.table, statement.query)
    identifier = call.identifier(statement.table)
    rows = call.select(f"SELECT * FROM {_written(identifier)}", Parameters())  # noqa: S608 - a quoted name
    rows = rows.persist() if level is None else rows.persist(level)
    with _lock:
        _cached.setdefault(_key(call, identifier), []).append(rows)
    if not statement.is_lazy:
        rows.count()
    return call.nothing()


def uncache(call: Call, statement: UncacheTable) -> DataFrame:
    """Let the rows go. Raises `NotCachedError`."""
    if not _release(call, statement.table) and not statement.if_exists:
        raise NotCachedError(table=str(call.identifier(statement.table)))
    return call.nothing()


def refresh(call: Call, statement: RefreshTable) -> DataFrame:
    """Every read looks for newer versions anyhow; what was kept for faster reads goes."""
    _release(call, statement.table)
    return call.nothing()


def _release(call: Call, table: TableName) -> bool:
    with _lock:
        found = _cached.pop(_key(call, call.identifier(table)), [])
    for rows in found:
        rows.unpersist()
    return bool(found)


def _key(call: Call, identifier: TableIdentifier) -> tuple[str, str]:
    return identity(call.session.spark), _written(identifier).lower()


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


CACHING: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    CacheTable: cache,
    UncacheTable: uncache,
    RefreshTable: refresh,
}
