"""From what a stream was told to its schema log, with the checks that the session's settings ask for."""

from __future__ import annotations

from anabranch.commands.table_access import TableHandle
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.schema_tracking import SchemaLocationConflictError, SchemaLocationOutsideCheckpointError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.schema_log import SchemaLog
from anabranch.streaming.schema_tracking import SchemaTracking, merge_changes
from anabranch.streaming.source_log import commits_from
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.tracked_changes import check_allowed

_PREFIX = "spark.databricks.delta.streaming."
_ENABLED = f"{_PREFIX}schemaTracking.enabled"
_MERGES = f"{_PREFIX}schemaTracking.mergeConsecutiveSchemaChanges.enabled"
_CHECKS_PATH = f"{_PREFIX}schemaTracking.metadataPathCheck.enabled"
_ALLOWS_OUTSIDE = f"{_PREFIX}allowSchemaLocationOutsideCheckpointLocation"


def opened_log(handle: TableHandle, snapshot: Snapshot, options: SourceOptions) -> SchemaLog | None:
    """The schema log of the stream, as it is now; None for a stream that keeps none.

    Raises `UnsupportedOperationError`, `SchemaLogUnreadableError`, `SchemaLogOfOtherTableError`.
    """
    if options.schema_location is None:
        return None
    if not handle.session.flag(_ENABLED, default=True):
        operation = f"schemaTrackingLocation of a stream from {handle.label}"
        raise UnsupportedOperationError(operation=operation, instead=f"Set {_ENABLED} to true.")
    store = handle.session.store(options.schema_location)
    return SchemaLog(store, table=handle.label, table_id=snapshot.metadata.id, tracking_id=options.tracking_id)


def merge_changes_of_log(handle: TableHandle, snapshot: Snapshot, log: SchemaLog) -> None:
    """Changes with no file between them count as one, unless the session says otherwise."""
    if log.current is None or not handle.session.flag(_MERGES, default=True):
        return
    commits = commits_from(
        handle.table.store, log.current.version, upto=snapshot.version, table=handle.label, fail_on_data_loss=False
    )
    merge_changes(log, commits)


def tracking_of(
    handle: TableHandle, snapshot: Snapshot, options: SourceOptions, *, source_path: str
) -> SchemaTracking | None:
    """What a query that starts keeps of its columns; `source_path` is the source's own folder in its checkpoint.

    Raises `SchemaLocationOutsideCheckpointError`, `SchemaLocationConflictError`, `StreamedChangeNotAllowedError`,
    `StreamedSchemaChangedError`, and as `opened_log`.
    """
    log = opened_log(handle, snapshot, options)
    if log is None:
        return None
    session = handle.session
    checkpoint = session.qualified_path(source_path.rsplit("/", 2)[0])
    if not log.location.startswith(f"{checkpoint}/") and not session.flag(_ALLOWS_OUTSIDE, default=False):
        raise SchemaLocationOutsideCheckpointError(location=str(options.schema_location), checkpoint=checkpoint)
    is_other = log.current is not None and log.current.source_path != source_path
    if is_other and session.flag(_CHECKS_PATH, default=True):
        raise SchemaLocationConflictError(table=handle.label, location=log.location)
    check_allowed(log, snapshot, options, session.setting, table=handle.label, source_path=source_path)
    return SchemaTracking(log, table=handle.label, snapshot=snapshot, source_path=source_path)
