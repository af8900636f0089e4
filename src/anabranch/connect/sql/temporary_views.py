"""Temporary views over Delta tables: the query is kept, and asked anew each time that the view is read."""

from __future__ import annotations

import threading
import uuid

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.session.catalog import StoredView
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import own_sql
from anabranch.spark.session.table_identifiers import NameIdentifier, TableIdentifier, quote

_MARK = "__anabranch_view"
GLOBAL_SCHEMA_SETTING = "spark.sql.globalTempDatabase"


_global_views: dict[str, StoredView] = {}
"""Those of all sessions, by the mark of the view that Spark has. The others go with their session."""
_lock = threading.Lock()


def make_temporary_view(
    session: DeltaSession, name: str, rows: DataFrame, view: StoredView, *, is_global: bool, replaces: bool
) -> None:
    """Let `name` stand for the query from now on; `rows` are what it gives now.

    Spark gets a view too, of these rows, so that it can list, describe and drop it. A mark in it says
    whose it is: once somebody has put another one in its place, that counts.
    """
    mark = uuid.uuid4().hex
    identifier = NameIdentifier((global_schema(session), name) if is_global else (name,))
    before = _mark_of(session, identifier) if replaces and session.catalog.is_temporary_view(identifier) else None
    marks = [{_MARK: mark}] + [{}] * len(view.schema.fields)
    marked = rows.toDF(*view.schema.fieldNames()).select(
        *[
            F.col(quote(field.name)).alias(field.name, metadata={**field.metadata, **own})
            for field, own in zip(view.schema.fields, marks, strict=False)
        ]
    )
    if is_global:
        make = marked.createOrReplaceGlobalTempView if replaces else marked.createGlobalTempView
    else:
        make = marked.createOrReplaceTempView if replaces else marked.createTempView
    make(name)
    views = _global_views if is_global else session.temporary_views
    with _lock:
        views[mark] = view
        views.pop(before or "", None)


def temporary_view(session: DeltaSession, identifier: TableIdentifier) -> StoredView | None:
    """The view over Delta tables that the session has under that name."""
    if not isinstance(identifier, NameIdentifier) or len(identifier.parts) > 2:
        return None
    views = session.temporary_views if len(identifier.parts) == 1 else _global_views
    if not views:
        return None
    if not session.catalog.is_temporary_view(identifier):
        return None
    return views.get(_mark_of(session, identifier) or "")


def global_schema(session: DeltaSession) -> str:
    """The schema of global temporary views."""
    return (session.setting(GLOBAL_SCHEMA_SETTING, "global_temp") or "global_temp").lower()


def _mark_of(session: DeltaSession, identifier: NameIdentifier) -> str | None:
    try:
        fields = own_sql(session.spark, f"TABLE {identifier.quoted}").schema.fields
    except AnalysisException:
        return None
    found = fields[0].metadata.get(_MARK) if fields else None
    return None if found is None else str(found)
