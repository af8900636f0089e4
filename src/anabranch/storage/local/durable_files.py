"""Files of a local disk, made whole and kept through a power loss."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from anabranch.storage.log_store import PutOutcome
from anabranch.storage.storage_paths import TEMPORARY_PREFIX, is_temporary

if sys.platform == "darwin":
    import fcntl

ABANDONED_AFTER_MS = 24 * 3600 * 1000
"""A temporary file this old belongs to a writer that died."""

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}
_NO_EXCLUSIVE_RENAME = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_SURELY_NOT_MADE = {
    *(errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
}


class ExclusiveCreateUnsupported(OSError):
    """The file system has neither hard links nor a rename that keeps what is there."""


def create(path: str, data: bytes) -> PutOutcome:
    """Make the file `path`, whole and durable, unless one exists.

    Raises `OSError` only when the file was surely not made.
    """
    with _temporary_file(path, data) as temporary:
        outcome = _publish(temporary, path)
    if outcome is not PutOutcome.CREATED:
        return outcome
    _drop_hadoop_checksum(path)
    try:
        sync_directory(os.path.dirname(path))
    except OSError:
        # The name is visible, but nobody can promise that it survives a power loss.
        return PutOutcome.UNKNOWN
    return PutOutcome.CREATED


def replace(path: str, data: bytes) -> None:
    """Make or replace the file `path`, whole and durable."""
    with _temporary_file(path, data) as temporary:
        _drop_hadoop_checksum(path)
        os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def remove(path: str) -> None:
    """Remove the file `path`; one that is not there is no error."""
    _drop_hadoop_checksum(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def make_directories(directory: str, *, durable_below: str) -> None:
    """Make `directory` and what is missing above it; their names survive a power loss.

    Those between `durable_below` and `directory` are synced also if they were there: their maker may
    not have come to it yet.
    """
    parent = os.path.dirname(directory)
    existed = os.path.isdir(directory)
    if not existed or len(directory) > len(durable_below):
        if parent != directory:
            make_directories(parent, durable_below=durable_below)
        if not existed:
            with suppress(FileExistsError):
                os.mkdir(directory)
        sync_directory(parent)


def sync_above(directory: str) -> None:
    """Make durable the names of `directory` and of all that are above it in its file system.

    They may be new, and made by somebody who syncs nothing, as Spark is. One that we may not open for reading,
    or write to, is not ours, and was there before.
    """
    device = os.stat(directory).st_dev
    while (parent := os.path.dirname(directory)) != directory:
        try:
            if os.stat(parent).st_dev != device:
                return
            sync_directory(parent)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                raise
        directory = parent


def sync_directory(directory: str) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a directory and do not need it: names are durable at once.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def remove_abandoned(directory: str, *, now_ms: int) -> None:
    """Remove temporary files of writers that died long ago. Best effort."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                with suppress(OSError):
                    if now_ms - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 > ABANDONED_AFTER_MS:
                        os.unlink(entry.path)


@contextmanager
def _temporary_file(path: str, data: bytes) -> Iterator[str]:
    """A durable file with `data` next to `path`; gone afterwards, under this name."""
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY_PREFIX}{secrets.token_hex(12)}.tmp")
    try:
        # Permissions follow the umask, as for any file: other accounts read the log too.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, data)
            _sync(descriptor)
        finally:
            # Network file systems report a failed write as late as here, so the error must get out.
            os.close(descriptor)
        yield temporary
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _write_all(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        written = os.write(descriptor, remaining)
        if written == 0:
            raise OSError(errno.EIO, "the write took no bytes")
        remaining = remaining[written:]


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # There fsync stops at the drive's cache.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _publish(temporary: str, path: str) -> PutOutcome:
    """Give the temporary file its final name, unless that is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return PutOutcome.CREATED if _has_second_name(temporary) else PutOutcome.EXISTS
    except OSError as error:
        if _has_second_name(temporary):
            return PutOutcome.CREATED
        if error.errno in _NO_HARD_LINKS:
            return _rename_exclusively(temporary, path)
        if error.errno in _SURELY_NOT_MADE:
            raise
        return PutOutcome.UNKNOWN
    return PutOutcome.CREATED


def _has_second_name(temporary: str) -> bool:
    """Whether our link landed although its call failed: NFS repeats calls whose reply was lost."""
    with suppress(OSError):
        return os.stat(temporary).st_nlink > 1
    return False


def _rename_exclusively(temporary: str, path: str) -> PutOutcome:
    rename = _exclusive_rename()
    failure = errno.ENOSYS if rename is None else rename(os.fsencode(temporary), os.fsencode(path))
    if failure == 0:
        return PutOutcome.CREATED
    if failure == errno.EEXIST:
        return PutOutcome.EXISTS
    if failure in _NO_EXCLUSIVE_RENAME:
        raise ExclusiveCreateUnsupported(failure, os.strerror(failure), path)
    if failure in _SURELY_NOT_MADE:
        raise OSError(failure, os.strerror(failure), path)
    return PutOutcome.UNKNOWN


@functools.cache
def _exclusive_rename() -> Callable[[bytes, bytes], int] | None:
    """The system's rename that fails if the target exists: takes both names, returns an errno or 0."""
    library = ctypes.CDLL(None, use_errno=True)
    here, no_replace, exclusive = -100, 1, 4

    def renameat2(source: bytes, target: bytes) -> int:
        return ctypes.get_errno() if library.renameat2(here, source, here, target, no_replace) else 0

    def renamex_np(source: bytes, target: bytes) -> int:
        return ctypes.get_errno() if library.renamex_np(source, target, exclusive) else 0

    if hasattr(library, "renameat2"):
        return renameat2
    return renamex_np if hasattr(library, "renamex_np") else None


def _drop_hadoop_checksum(path: str) -> None:
    """Remove the checksum that Hadoop keeps beside a file it wrote.

    It belongs to earlier contents of that name; Hadoop's local file system, and so Spark and Delta's
    jar, would refuse ours for it.
    """
    directory, name = os.path.split(path)
    with suppress(OSError):
        os.unlink(os.path.join(directory, f".{name}.crc"))
