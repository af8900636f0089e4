"""The schema log of a stream by its options, with the checks of the session's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.change_feed.schema_compatibility import TableColumns, reads_as
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.streaming import (
    SchemaLocationConflictError,
    SchemaLocationOutsideCheckpointError,
    StreamedChangeNotAllowedError,
    StreamedSchemaChangedError,
)
from anabranch.protocol.actions import Metadata
from anabranch.schema.paths import quoted, schema_differences
from anabranch.schema.schema_evolution import type_changes, visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.schema_log import SchemaLog
from anabranch.streaming.schema_tracking import SchemaTracking, merge_changes
from anabranch.streaming.source_log import commits_from
from anabranch.streaming.source_options import ALLOW_DROP, ALLOW_RENAME, ALLOW_TYPE_CHANGE, ALWAYS, SourceOptions

# Whether a stream may continue after columns were renamed, dropped or widened, which its target may have to follow.
#
# New columns are always allowed. The check compares the two newest entries of the schema log when a query starts that
# has stopped at a change.


_PREFIX = "spark.databricks.delta.streaming."
_RENAME_AND_DROP = f"{_PREFIX}allowSourceColumnRenameAndDrop"

Setting = Callable[[str], str | None]
"""A setting of the session; None where it is not set."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """Changes of columns by kind, in words."""

    renamed: list[str]
    dropped: list[str]
    widened: list[str]

    @property
    def kind(self) -> str:
        """The kinds of the changes, in the words of delta-spark."""
        words = [word for word, changes in (("RENAME", self.renamed), ("DROP", self.dropped)) if changes]
        if self.widened:
            return " AND ".join([", ".join(words), "TYPE WIDENING"] if words else ["TYPE WIDENING"])
        return f"{' AND '.join(words)} COLUMN"

    @property
    def details(self) -> str:
        return ", ".join([*self.renamed, *self.dropped, *self.widened])


def check_allowed(
    log: SchemaLog, snapshot: Snapshot, options: SourceOptions, setting: Setting, *, table: str, source_path: str
) -> None:
    """Check that the query may read with the newest entry of its log.

    `snapshot` is any version of the table. Raises `StreamedChangeNotAllowedError`, `StreamedSchemaChangedError`.
    """
    before, now = log.previous, log.current
    if before is None or now is None:
        return
    old, new = (entry.of_snapshot(snapshot).metadata for entry in (before, now))
    changes = _changes(old, new, table, version=now.version)
    hash_of_source = _hash(source_path)

    def allowed(option: str) -> bool:
        version = {ALLOW_RENAME: options.allow_rename, ALLOW_DROP: options.allow_drop}.get(
            option, options.allow_type_change
        )
        if version in {ALWAYS, str(now.version)}:
            return True
        names = [_PREFIX + option] + ([_RENAME_AND_DROP] if option != ALLOW_TYPE_CHANGE else [])
        for name in names:
            own = (setting(f"{name}.ckpt_{hash_of_source}") or "").lower()
            if (setting(name) or "").lower() == ALWAYS or own in {ALWAYS, str(now.version)}:
                return True
        return False

    by_option = {ALLOW_RENAME: changes.renamed, ALLOW_DROP: changes.dropped, ALLOW_TYPE_CHANGE: changes.widened}
    needed = tuple(option for option, texts in by_option.items() if texts)
    if all(allowed(option) for option in needed):
        return
    settings = [_PREFIX + option for option in needed]
    if changes.renamed and changes.dropped:
        settings = [_RENAME_AND_DROP, *settings[2:]]
    raise StreamedChangeNotAllowedError(
        table=table,
        kind=changes.kind,
        before=before.version,
        version=now.version,
        details=changes.details,
        checkpoint_hash=hash_of_source,
        options=needed,
        settings=tuple(settings),
    )


def _changes(old: Metadata, new: Metadata, table: str, *, version: int) -> _Changes:
    before, after = (TableColumns.of(metadata, table=table) for metadata in (old, new))
    now = after.by_physical_path()
    changes = _Changes(renamed=[], dropped=[], widened=[])
    for physical, (path, field) in before.by_physical_path().items():
        if physical not in now:
            changes.dropped.append(f"{quoted(path)} was dropped")
            continue
        name, current = now[physical]
        if name[-1] != path[-1]:
            changes.renamed.append(f"{quoted(path)} was renamed to {quoted(name)}")
        if (field.nullable and not current.nullable) or not reads_as(field.dataType, current.dataType):
            changed = ", ".join(schema_differences(visible_schema(before.schema), visible_schema(after.schema)))
            raise StreamedSchemaChangedError(table=table, version=version, difference=changed, helps_to_restart=False)
        for change in type_changes(field.dataType, current.dataType, path):
            was, became = change.old.simpleString(), change.new.simpleString()
            changes.widened.append(f"{quoted(change.field_path)} became {became} ({was} before)")
    return changes


def _hash(text: str) -> int:
    """The `hashCode` of a Java string, which is in the names of settings that users have."""
    number = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        number = (31 * number + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number


_ENABLED = f"{_PREFIX}schemaTracking.enabled"
_MERGES = f"{_PREFIX}schemaTracking.mergeConsecutiveSchemaChanges.enabled"
_CHECKS_PATH = f"{_PREFIX}schemaTracking.metadataPathCheck.enabled"
_ALLOWS_OUTSIDE = f"{_PREFIX}allowSchemaLocationOutsideCheckpointLocation"


def opened_log(table: TableRef, snapshot: Snapshot, options: SourceOptions) -> SchemaLog | None:
    """The schema log of the stream; None for a stream without one.

    Raises `UnsupportedOperationError`, `SchemaLogUnreadableError`, `SchemaLogOfOtherTableError`.
    """
    if options.schema_location is None:
        return None
    if not table.session.flag(_ENABLED, default=True):
        operation = f"schemaTrackingLocation of a stream from {table.label}"
        raise UnsupportedOperationError(operation=operation, instead=f"Set {_ENABLED} to true.")
    store = table.session.store(options.schema_location)
    return SchemaLog(store, table=table.label, table_id=snapshot.metadata.id, tracking_id=options.tracking_id)


def merge_changes_of_log(table: TableRef, snapshot: Snapshot, log: SchemaLog) -> None:
    """Merge changes with no file between them into one, unless a setting of the session forbids it."""
    if log.current is None or not table.session.flag(_MERGES, default=True):
        return
    commits = commits_from(
        table.delta_log.store, log.current.version, upto=snapshot.version, table=table.label, fail_on_data_loss=False
    )
    merge_changes(log, commits)


def tracking_of(
    table: TableRef, snapshot: Snapshot, options: SourceOptions, *, source_path: str
) -> SchemaTracking | None:
    """The schema tracking of a query that starts; `source_path` is the folder of the source in its checkpoint.

    Raises `SchemaLocationOutsideCheckpointError`, `SchemaLocationConflictError`, `StreamedChangeNotAllowedError`,
    `StreamedSchemaChangedError`, and as `opened_log`.
    """
    log = opened_log(table, snapshot, options)
    if log is None:
        return None
    session = table.session
    checkpoint = session.qualified_path(source_path.rsplit("/", 2)[0])
    if not log.location.startswith(f"{checkpoint}/") and not session.flag(_ALLOWS_OUTSIDE, default=False):
        raise SchemaLocationOutsideCheckpointError(location=str(options.schema_location), checkpoint=checkpoint)
    is_other = log.current is not None and log.current.source_path != source_path
    if is_other and session.flag(_CHECKS_PATH, default=True):
        raise SchemaLocationConflictError(table=table.label, location=log.location)
    check_allowed(log, snapshot, options, session.setting, table=table.label, source_path=source_path)
    return SchemaTracking(log, table=table.label, snapshot=snapshot, source_path=source_path)
