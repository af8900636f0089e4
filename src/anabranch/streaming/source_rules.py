"""The files of a commit that a stream reads, and the commits that it cannot read past."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.change_feed.schema_compatibility import TableColumns, unreadable_difference, unreadable_removed
from anabranch.errors.dml import ChangesDataSchemaError, ChangesNotRecordedError
from anabranch.errors.streaming import (
    StreamedColumnsRemappedError,
    StreamedRowsChangedError,
    StreamedRowsDeletedError,
    StreamedSchemaChangedAfterStartError,
    StreamedSchemaChangedError,
    StreamedTableReplacedError,
)
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from anabranch.protocol.features import check_readable
from anabranch.protocol.properties import TableProperties
from anabranch.schema.paths import quoted, schema_differences
from anabranch.schema.schema_evolution import visible_schema
from anabranch.streaming.source_files import VersionFiles, added_files, changed_files
from anabranch.streaming.source_options import SourceOptions

CheckMetadata = Callable[[Metadata, int], None]
"""Raises where a stream cannot read past the `metaData` of a version."""


def files_of_commit(
    commit: Commit, options: SourceOptions, check_metadata: CheckMetadata, *, table: str
) -> VersionFiles:
    """The files of the commit that the stream reads.

    Raises `StreamedRowsChangedError`, `StreamedRowsDeletedError`, `UnsupportedFeatureError`, and what
    `check_metadata` raises.
    """
    for action in commit.actions:
        if isinstance(action, Metadata):
            check_metadata(action, commit.version)
        elif isinstance(action, Protocol):
            check_readable(action, table=table)
    if options.read_change_feed:
        return changed_files(commit)
    removed = next((action for action in commit.actions if isinstance(action, RemoveFile) and action.data_change), None)
    if removed is not None:
        _check_change(commit, removed, options, table)
    return added_files(commit, skipped=removed is not None and options.skip_change_commits)


def check_recorded(metadata: Metadata, version: int, *, table: str) -> None:
    """Raises `ChangesNotRecordedError` where a version records no changes."""
    if not TableProperties(metadata.configuration).change_data_feed_enabled:
        raise ChangesNotRecordedError(table=table, version=version, start=version, end=version)


def _check_change(commit: Commit, removed: RemoveFile, options: SourceOptions, table: str) -> None:
    adds_rows = any(isinstance(action, AddFile) and action.data_change for action in commit.actions)
    if adds_rows and not options.allows_changes:
        operation = None if commit.info is None else commit.info.operation
        raise StreamedRowsChangedError(table=table, version=commit.version, operation=operation or removed.path)
    if not adds_rows and not options.allows_deletes:
        raise StreamedRowsDeletedError(table=table, version=commit.version, path=removed.path)


# Whether a stream can read past a commit that changes the metadata of the table.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamColumns:
    """The columns of all rows of a stream: those of the table when the query was started."""

    metadata: Metadata
    version: int
    table: str
    has_start: bool
    """Whether the options say where the stream starts."""

    def check(self, metadata: Metadata, version: int) -> None:
        """Check that rows written with this `metaData` can be read as rows of the stream.

        Raises `StreamedTableReplacedError`, `StreamedColumnsRemappedError`, `StreamedSchemaChangedError`.
        """
        if metadata.id != self.metadata.id:
            raise StreamedTableReplacedError(table=self.table, id_read=self.metadata.id, id_found=metadata.id)
        if metadata.schema_string == self.metadata.schema_string and _same_layout(metadata, self.metadata):
            return
        written, read = (TableColumns.of(described, table=self.table) for described in (metadata, self.metadata))
        is_past = version < self.version
        before, after = (written, read) if is_past else (read, written)
        if before.mode.maps or after.mode.maps:
            self._check_mapping(before, after, version)
        problem = unreadable_difference(written, read) or nulls_difference(written, read)
        if problem is None:
            return
        can_restart = not is_past and (unreadable_difference(read, written) or nulls_difference(read, written)) is None
        error = StreamedSchemaChangedAfterStartError if self.has_start else StreamedSchemaChangedError
        changes = ", ".join(schema_differences(visible_schema(read.schema), visible_schema(written.schema)))
        raise error(table=self.table, version=version, difference=changes or problem, helps_to_restart=can_restart)

    def check_removed(self, before: Metadata, version: int) -> None:
        """Check that rows that this version removed, written with `before`, can be read as rows of the stream.

        Raises `ChangesDataSchemaError`.
        """
        written, read = (TableColumns.of(described, table=self.table) for described in (before, self.metadata))
        difference = unreadable_removed(written, read)
        if difference is not None:
            raise ChangesDataSchemaError(
                table=self.table,
                start=version,
                end=version,
                read_version=self.version,
                version=version,
                difference=difference,
            )

    def _check_mapping(self, before: TableColumns, after: TableColumns, version: int) -> None:
        """Raises for columns that were renamed or dropped, which column mapping allows without rewriting files."""
        if before.mode.maps and not after.mode.maps:
            difference = "column mapping was removed"
            raise StreamedColumnsRemappedError(table=self.table, version=version, difference=difference)
        now = after.by_physical_path()
        for physical, (path, _) in before.by_physical_path().items():
            if physical not in now:
                difference = f"column {quoted(path)} was dropped"
            elif now[physical][0] != path:
                difference = f"column {quoted(path)} was renamed to {quoted(now[physical][0])}"
            else:
                continue
            raise StreamedColumnsRemappedError(table=self.table, version=version, difference=difference)


def _same_layout(one: Metadata, other: Metadata) -> bool:
    mode = "delta.columnMapping.mode"
    return one.partition_columns == other.partition_columns and one.configuration.get(mode) == other.configuration.get(
        mode
    )


def nulls_difference(written: TableColumns, read: TableColumns) -> str | None:
    """A column that may be NULL though it is NOT NULL in the stream, in words; None for none."""
    wanted = read.by_physical_path()
    for physical, (path, field) in written.by_physical_path().items():
        if field.nullable and physical in wanted and not wanted[physical][1].nullable:
            return f"column {quoted(path)} may be NULL now"
    return None
