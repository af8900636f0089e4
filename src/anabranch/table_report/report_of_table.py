"""The report on a table, from its log alone: no data file is read, no folder listed, and Spark not needed."""

from __future__ import annotations

from anabranch import __version__
from anabranch.clock import Clock
from anabranch.commands.definition.clustering import clustering_columns, quoted_clustering_columns
from anabranch.commands.vacuum.vacuum_lite import read_hint
from anabranch.log.log_segment import after_last_gap, list_log
from anabranch.progress.progress_events import begin_phase
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.table_report.advice import advice_for
from anabranch.table_report.column_layout import layout_of
from anabranch.table_report.file_distribution import FileMeasures, file_facts
from anabranch.table_report.log_health import log_health
from anabranch.table_report.log_pass import LogPass, read_log
from anabranch.table_report.maintenance_gains import maintenance_of
from anabranch.table_report.reader_support import access_to
from anabranch.table_report.report_values import (
    ColumnFacts,
    DescriptionChange,
    History,
    ReportData,
    SchemaFacts,
    TableFacts,
)
from anabranch.text_format import plain

COMMITS_DEFAULT = 1000
"""That many of the newest commits are read, unless the user says otherwise."""


def report_on(
    snapshots: SnapshotCache, clock: Clock, *, name: str | None = None, limit: int | None = COMMITS_DEFAULT
) -> ReportData:
    """The state of the newest version; of its history the newest `limit` commits, or all.

    Raises `TableNotFoundError`, the errors of `errors.log`, `UnsupportedFeatureError`, `StorageError`.
    """
    begin_phase("read the log")
    snapshot, store, now_ms = snapshots.latest(), snapshots.store, clock.now_ms()
    listing = list_log(store, first=0, upto=snapshot.version)
    commits = after_last_gap(listing.commits)
    log = read_log(store, snapshot, commits[-limit:] if limit else commits)
    begin_phase("measure files", files=snapshot.files.count)
    measures = FileMeasures.of(snapshot)
    table, totals, files = _table_facts(snapshot, name), measures.totals(), file_facts(measures, now_ms=now_ms)
    maintenance = maintenance_of(
        measures,
        log,
        clustering=table.clustering_columns,
        vacuumed_before_ms=_vacuumed_before(log, read_hint(store)),
        now_ms=now_ms,
    )
    layout = layout_of(snapshot, clustering=clustering_columns(snapshot))
    health = log_health(store, snapshot, listing, now_ms=now_ms)
    return ReportData(
        anabranch=__version__,
        generated_ms=now_ms,
        table=table,
        totals=totals,
        advice=advice_for(table, totals, files, maintenance, layout, health),
        history=History(commits=log.commits, commits_in_log=len(commits)),
        files=files,
        maintenance=maintenance,
        layout=layout,
        log=health,
        schema=_schema_facts(snapshot, log),
        access=access_to(snapshot),
    )


def _table_facts(snapshot: Snapshot, name: str | None) -> TableFacts:
    metadata = snapshot.metadata
    return TableFacts(
        name=name or metadata.name,
        location=snapshot.table_root,
        id=metadata.id,
        description=metadata.description,
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
        created_ms=metadata.created_time,
        partition_columns=snapshot.partition_columns,
        clustering_columns=tuple(quoted_clustering_columns(snapshot)),
        properties=dict(sorted(metadata.configuration.items())),
    )


def _vacuumed_before(log: LogPass, reached: int | None) -> int | None:
    """The time before which removed files were deleted by a VACUUM, by its commits or its hint."""
    times = [] if log.vacuumed_before_ms is None else [log.vacuumed_before_ms]
    # A commit is older than the files that it removes would be if they were removed after it.
    times += [commit.timestamp_ms + 1 for commit in log.commits if commit.version == reached]
    return max(times, default=None)


def _schema_facts(snapshot: Snapshot, log: LogPass) -> SchemaFacts:
    columns = [
        ColumnFacts(
            name=plain(field.name),
            type=plain(field.dataType.simpleString()),
            nullable=field.nullable,
            comment=field.metadata.get("comment"),
        )
        for field in snapshot.schema.fields
    ]
    changes = [
        DescriptionChange(
            version=commit.version,
            timestamp_ms=commit.timestamp_ms,
            operation=commit.operation,
            changes=commit.description_changes,
        )
        for commit in log.commits
        if commit.description_changes
    ]
    return SchemaFacts(columns=tuple(columns), changes=tuple(changes))
