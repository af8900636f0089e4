"""An advisory lock of a directory, by which processes of one machine take turns. Nothing may depend on it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

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

    @contextlib.contextmanager
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
        with contextlib.suppress(OSError):
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
