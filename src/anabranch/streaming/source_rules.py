"""What a commit means to a stream that reads added rows."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.errors.change_feed import ChangesNotRecordedError
from anabranch.errors.streaming import StreamedRowsChangedError, StreamedRowsDeletedError
from anabranch.log.commits import Commit
from anabranch.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from anabranch.protocol.features import check_readable
from anabranch.protocol.properties import TableProperties
from anabranch.streaming.source_files import VersionFiles, added_files, changed_files
from anabranch.streaming.source_options import SourceOptions

CheckMetadata = Callable[[Metadata, int], None]
"""Raises where a stream cannot read on behind the `metaData` of a version."""


def files_of_commit(
    commit: Commit, options: SourceOptions, check_metadata: CheckMetadata, *, table: str
) -> VersionFiles:
    """What the stream reads of the commit.

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
    removed = next((each for each in commit.actions if isinstance(each, RemoveFile) and each.data_change), None)
    if removed is not None:
        _check_change(commit, removed, options, table)
    return added_files(commit, skipped=removed is not None and options.skip_change_commits)


def check_recorded(metadata: Metadata, version: int, *, table: str) -> None:
    """Raises `ChangesNotRecordedError` where a version records no changes."""
    if not TableProperties(metadata.configuration).change_data_feed_enabled:
        raise ChangesNotRecordedError(table=table, version=version, start=version, end=version)


def _check_change(commit: Commit, removed: RemoveFile, options: SourceOptions, table: str) -> None:
    adds_rows = any(isinstance(each, AddFile) and each.data_change for each in commit.actions)
    if adds_rows and not options.allows_changes:
        operation = None if commit.info is None else commit.info.operation
        raise StreamedRowsChangedError(table=table, version=commit.version, operation=operation or removed.path)
    if not adds_rows and not options.allows_deletes:
        raise StreamedRowsDeletedError(table=table, version=commit.version, path=removed.path)
