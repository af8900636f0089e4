"""The commits that a stream reads, in order."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.errors.environment import FileMissingError
from anabranch.errors.streaming import StreamedLogMissingError
from anabranch.log.commit_files import Commit, commits_of
from anabranch.log.log_segment import CommitFile, list_log
from anabranch.storage.log_store import LogStore

AHEAD_MAX = 32
"""The most commits that are read at once. The first read has one, so that small batches read no more than they need."""


def commits_from(store: LogStore, first: int, *, upto: int, table: str, fail_on_data_loss: bool) -> Iterator[Commit]:
    """The commits of versions `first` to `upto`, read on demand.

    Versions that log clean-up has removed raise an error or, without `fail_on_data_loss`, are left out. Raises
    `StreamedLogMissingError`, `CorruptCommitError`, `StorageError`.
    """
    files = list_log(store, first=first, upto=upto).commits
    at, ahead, expected = 0, 1, first
    while at < len(files):
        window = files[at : at + ahead]
        for commit in _read(store, window, table=table, fail_on_data_loss=fail_on_data_loss):
            if commit.version > expected and fail_on_data_loss:
                raise StreamedLogMissingError(table=table, version=expected, earliest=commit.version)
            expected = commit.version + 1
            yield commit
        at += len(window)
        ahead = min(ahead * 2, AHEAD_MAX)


def _read(store: LogStore, files: tuple[CommitFile, ...], *, table: str, fail_on_data_loss: bool) -> Iterator[Commit]:
    if fail_on_data_loss:
        try:
            yield from commits_of(store, files)
        except FileMissingError:
            left = list_log(store, first=files[0].version, upto=None).commits
            earliest = left[0].version if left else files[-1].version + 1
            raise StreamedLogMissingError(table=table, version=files[0].version, earliest=earliest) from None
        return
    for file in files:
        try:
            yield from commits_of(store, (file,))
        except FileMissingError:
            continue
