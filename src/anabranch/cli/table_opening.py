"""Opens the table that a command line names, at the version it names."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence

from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.log import TableNotFoundError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_with_external_files, scheme_of


def open_snapshots(table: str, options: Sequence[str]) -> SnapshotCache:
    """The versions of the table at a path or URL. Does not read the log yet.

    Raises `InvalidArgumentError`, `UnsupportedStorageError`, `StorageOptionError`, and `TableNotFoundError`
    for a local folder that does not exist.
    """
    return SnapshotCache(open_table_store(table, options), SystemClock())


def open_table_store(table: str, options: Sequence[str]) -> LogStore:
    """The files of the table. Raises as `open_snapshots`."""
    store = open_with_external_files(table, storage_options(options))
    if scheme_of(table) in {"", "file"} and not os.path.isdir(store.root):
        raise TableNotFoundError(table=store.root)
    return store


def storage_options(options: Sequence[str]) -> dict[str, str]:
    """The `KEY=VALUE` strings as a mapping.

    Raises `InvalidArgumentError`, which does not repeat the value: it may be secret.
    """
    settings: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            problem = "write it as KEY=VALUE, such as fs.s3a.endpoint=http://localhost:9000"
            raise InvalidArgumentError(argument="--option", value=key, problem=problem)
        settings[key.strip()] = value
    return settings


# `--version` and `--timestamp`: the version to read.


def select_snapshot(snapshots: SnapshotCache, *, version: int | None, timestamp: str | None) -> Snapshot:
    """That version, the one of that time, or the newest.

    Raises `InvalidArgumentError`, `VersionNotFoundError`, `TimestampEarlierThanFirstCommitError`,
    `TimestampAfterLatestCommitError`.
    """
    if version is not None and timestamp is not None:
        problem = "use either --version or --timestamp"
        raise InvalidArgumentError(argument="--timestamp", value=timestamp, problem=problem)
    if timestamp is not None:
        return snapshots.at_timestamp(milliseconds(timestamp))
    return snapshots.latest() if version is None else snapshots.at_version(version)


def milliseconds(text: str) -> int:
    """Milliseconds since the epoch, for a time in ISO 8601; a time without a zone is in this machine's zone.

    Raises `InvalidArgumentError`.
    """
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        problem = "write it as 2026-03-01, '2026-03-01 10:30:00' or 2026-03-01T10:30:00Z"
        raise InvalidArgumentError(argument="--timestamp", value=text, problem=problem) from None
