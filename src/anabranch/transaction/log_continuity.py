"""Whether the log that a commit follows is still there."""

from __future__ import annotations

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import LogMovedOnError
from anabranch.errors.conflicts import ConflictReason, MetadataChangedException
from anabranch.errors.storage import StorageError
from anabranch.log.listing import list_log, list_named
from anabranch.protocol.log_paths import LOG_DIRECTORY, LogFileKind, commit_path
from anabranch.storage.log_store import LogStore, StoredFile
from anabranch.transaction.head import Head


def check_still_there(read: Head, head: Head, store: LogStore) -> None:
    """Refuse to write behind a gap: the commits that we would follow must be in the log.

    While we worked, clean-up may have removed the version we read and many that followed it, or the table
    may have been dropped and made anew. Our next version is then unused, but writing it would leave a gap. Raises
    `LogMovedOnError`, `MetadataChangedException`.
    """
    witness = _witness(read)
    if witness is not None and not _stands(witness, store):
        raise _gone(witness, read, head, store)


def take_back_if_alone(version: int, *, read: Head, head: Head, store: LogStore) -> None:
    """Remove our commit, which has just landed, where the table was dropped right before it did.

    It would begin a log without the versions before it or, worse, wait in the way of a new table until that
    comes to this version. Nobody can have built upon it: no other commit and no checkpoint is beside or above it.
    Raises `MetadataChangedException`.
    """
    witness = _witness(read)
    if witness is None or _stands(witness, store) or not _is_alone(version, store):
        return
    error = _replaced(witness, read, head)
    try:
        store.delete(commit_path(version))
        store.remove_directory(LOG_DIRECTORY)
    except StorageError as failure:
        error.add_note(f"anabranch: {commit_path(version)} is left behind and should be deleted: {failure}")
    raise error


def _witness(read: Head) -> StoredFile | None:
    """The file that stands for the version we read."""
    if read.base is None:
        return None
    segment = read.base.segment
    if segment.version_file is None and segment.checkpoint is not None:
        return segment.checkpoint.files[0]
    return segment.version_file


def _stands(witness: StoredFile, store: LogStore) -> bool:
    if store.head(witness.path) == witness:
        return True
    # Some storages round times differently in a listing, which is where the witness comes from.
    directory, _, name = witness.path.rpartition("/")
    return witness in store.list_from(directory, start_after=name[:-1])


def _is_alone(version: int, store: LogStore) -> bool:
    others = (
        name
        for name, _ in list_named(store, first=version - 1, upto=None)
        if name.kind.is_checkpoint or (name.kind is LogFileKind.COMMIT and name.version != version)
    )
    return next(others, None) is None


def _gone(witness: StoredFile, read: Head, head: Head, store: LogStore) -> DeltaError:
    listing = list_log(store, first=0, upto=None)
    if listing.latest_version is not None and listing.latest_version > head.version:
        earliest = listing.earliest_recreatable_version()
        return LogMovedOnError(table=head.table, read_version=read.version, earliest=earliest)
    return _replaced(witness, read, head)


def _replaced(witness: StoredFile, read: Head, head: Head) -> MetadataChangedException:
    return MetadataChangedException(
        table=head.table,
        version=None,
        operation="another program",
        read_version=read.version,
        reason=ConflictReason.TABLE_REPLACED,
        where=f"{witness.path} is gone, or is another file",
        advice="The table was dropped, or made anew. Check what is there now.",
    )
