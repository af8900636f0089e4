"""Atomic and durable writes on a local disk, and the turns that processes of one machine take for them."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from anabranch.storage.log_store import TEMPORARY_PREFIX, PutOutcome, is_temporary

if sys.platform != "win32":
    import fcntl

WAIT_SECONDS_MAX = 5.0
IGNORED_SECONDS = 60.0
"""After a wait in vain, as for a process that was stopped, the lock is ignored for that long."""


class DirectoryLock:
    """The lock of one directory for one process. No file is made: the directory itself is locked.

    Where the directory does not exist or its file system has no such locks, as NFS for directories, no lock is taken.
    """

    def __init__(self, path: str, *, wait_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        self._path = path
        self._wait_seconds_max = wait_seconds_max
        self._ignored_until = 0.0

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """A block that processes enter one after the other, or after a longest wait; whether it had to wait."""
        if time.monotonic() < self._ignored_until:
            yield True
            return
        attempt = _Attempt(self._path)
        try:
            has_waited = not attempt.try_once()
            if has_waited and not attempt.wait(self._wait_seconds_max):
                self._ignored_until = time.monotonic() + IGNORED_SECONDS
            yield has_waited
        finally:
            attempt.release()


class _Attempt:
    """One attempt to take the lock, which also a thread may still be waiting for when it is released."""

    def __init__(self, path: str) -> None:
        self._guard = threading.Lock()
        self._waits = self._is_released = False
        self._decided = threading.Event()
        try:
            self._directory: int | None = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, AttributeError):
            self._directory = None

    def try_once(self) -> bool:
        """Take the lock if it is free. True also where there is no such lock."""
        if self._directory is None:
            return True
        try:
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def wait(self, seconds_max: float) -> bool:
        """Wait for the lock in the order of arrival, which the system keeps for a thread that it blocks."""
        self._waits = True
        threading.Thread(target=self._take, name="anabranch-turn", daemon=True).start()
        return self._decided.wait(seconds_max)

    def _take(self) -> None:
        assert self._directory is not None
        with suppress(OSError):
            fcntl.flock(self._directory, fcntl.LOCK_EX)
        with self._guard:
            self._decided.set()
            if self._is_released:
                os.close(self._directory)

    def release(self) -> None:
        """Release the lock, or no longer wait for it."""
        with self._guard:
            is_waiting = self._waits and not self._decided.is_set()
            self._is_released = True
            if self._directory is not None and not is_waiting:
                os.close(self._directory)


if sys.platform == "darwin":
    import fcntl

ABANDONED_AFTER_MS = 24 * 3600 * 1000
"""A temporary file this old belongs to a writer that died."""

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}
_NO_EXCLUSIVE_RENAME = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_NOT_CREATED = {
    *(errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP),
}


class ExclusiveCreateUnsupported(OSError):
    """The file system has neither hard links nor a rename that keeps an existing file."""


def create(path: str, data: bytes) -> PutOutcome:
    """Create the file `path`, atomic and durable, unless it exists.

    Raises `OSError` only if the file was certainly not created.
    """
    if os.path.lexists(path):
        # A writer that lost syncs no data: that takes as long as a commit, and so slows down those that win.
        return PutOutcome.EXISTS
    with _temporary_file(path, data) as temporary:
        outcome = _publish(temporary, path)
    if outcome is not PutOutcome.CREATED:
        return outcome
    _drop_hadoop_checksum(path)
    try:
        sync_directory(os.path.dirname(path))
    except OSError:
        # The name is visible, but may not survive a power loss.
        return PutOutcome.UNKNOWN
    return PutOutcome.CREATED


def replace(path: str, data: bytes) -> None:
    """Create or replace the file `path`, atomic and durable."""
    with _temporary_file(path, data) as temporary:
        _drop_hadoop_checksum(path)
        os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def remove(path: str) -> None:
    """Remove the file `path`, if it exists."""
    _drop_hadoop_checksum(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def make_directories(directory: str, *, durable_below: str) -> None:
    """Create `directory` and its missing parents; their names survive a power loss.

    Directories between `durable_below` and `directory` are synced also if they exist: the process that
    created them may not have done so yet.
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
    """Make durable the names of `directory` and of all its parents in its file system.

    They may have just been created by a program that syncs nothing, such as Spark. A directory without permission to
    read or write it was not created by this user, so it is older.
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
        # Some network file systems cannot sync a directory and do not need to: names are durable at once.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def remove_abandoned(directory: str, *, now_ms: int) -> None:
    """Remove temporary files of writers that died long ago. Errors are ignored."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                with suppress(OSError):
                    if now_ms - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 > ABANDONED_AFTER_MS:
                        os.unlink(entry.path)


@contextmanager
def _temporary_file(path: str, data: bytes) -> Iterator[str]:
    """A durable temporary file with `data` in the directory of `path`; its name is removed at the end."""
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY_PREFIX}{secrets.token_hex(12)}.tmp")
    try:
        # Permissions follow the umask, as for any file: other users read the log too.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, data)
            _sync(descriptor)
        finally:
            # Network file systems may report a failed write only here, so this error must be raised.
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
        # On macOS fsync does not flush the drive's cache.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _publish(temporary: str, path: str) -> PutOutcome:
    """Give the temporary file its final name, unless that exists."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return PutOutcome.CREATED if _has_second_name(temporary) else PutOutcome.EXISTS
    except OSError as error:
        if _has_second_name(temporary):
            return PutOutcome.CREATED
        if error.errno in _NO_HARD_LINKS:
            return _rename_exclusively(temporary, path)
        if error.errno in _NOT_CREATED:
            raise
        return PutOutcome.UNKNOWN
    return PutOutcome.CREATED


def _has_second_name(temporary: str) -> bool:
    """Whether the link was created although the call failed: NFS repeats calls whose reply was lost."""
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
    if failure in _NOT_CREATED:
        raise OSError(failure, os.strerror(failure), path)
    return PutOutcome.UNKNOWN


@functools.cache
def _exclusive_rename() -> Callable[[bytes, bytes], int] | None:
    """The system's rename that fails if the target exists: a function of both names that returns an errno or 0."""
    library = ctypes.CDLL(None, use_errno=True)
    current_directory, no_replace, exclusive = -100, 1, 4

    def renameat2(source: bytes, target: bytes) -> int:
        arguments = current_directory, source, current_directory, target, no_replace
        return ctypes.get_errno() if library.renameat2(*arguments) else 0

    def renamex_np(source: bytes, target: bytes) -> int:
        return ctypes.get_errno() if library.renamex_np(source, target, exclusive) else 0

    if hasattr(library, "renameat2"):
        return renameat2
    return renamex_np if hasattr(library, "renamex_np") else None


def _drop_hadoop_checksum(path: str) -> None:
    """Remove the checksum file that Hadoop writes beside each of its files.

    It is of an earlier content of that name, so that Hadoop's local file system, and with it Spark and
    Delta's jar, would refuse to read the new one.
    """
    directory, name = os.path.split(path)
    with suppress(OSError):
        os.unlink(os.path.join(directory, f".{name}.crc"))
