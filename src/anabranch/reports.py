"""Reports on tables of a session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.commands.table_access import existing_table_at, table_named
from anabranch.connect_messages.own_server import session_behind
from anabranch.errors.environment import ServerWithoutDeltaError
from anabranch.progress.progress_events import reporting
from anabranch.spark.gateway.jvm_sessions import is_connect
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import is_absolute_path
from anabranch.table_report.report_file import TableReport
from anabranch.table_report.report_of_table import COMMITS_DEFAULT, report_on


def report(spark: SparkSession, table: str, *, commits: int | None = COMMITS_DEFAULT) -> TableReport:
    """The state of a table from its log alone: versions, files, layout, log, schema, and who can read it.

    `table` is a name, delta.`path`, or a path; of its history the newest `commits` are read, or all. A notebook shows
    the page; `save("report.html")` writes it as one file that needs no network, and `document()` returns the numbers.
    The page needs `pip install "anabranch[report]"`. Spark only finds the table, and no job runs.

    Raises `NotADeltaTableError`, and `ServerWithoutDeltaError` for a client of Spark Connect whose server is not in
    this process: `anabranch report` reads the table where it is stored.
    """
    behind = session_behind(spark) if is_connect(spark) else spark
    if behind is None:
        raise ServerWithoutDeltaError(lacks="a way to read the log of a table for a client")
    session = DeltaSession.of(behind)
    target = existing_table_at(session, table) if is_absolute_path(table) else table_named(session, table)
    target.latest()
    name = None if target.entry is None else target.label
    with reporting("report", target.label, setting=session.setting):
        return TableReport(report_on(target.delta_log.snapshots, session.clock, name=name, limit=commits))
