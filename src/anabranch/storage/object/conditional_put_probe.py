"""Testing whether an object store honours conditional puts, before the first commit depends on it."""

from __future__ import annotations

import enum
import secrets
import threading
from collections.abc import Callable

from anabranch.storage.log_store import TEMPORARY_PREFIX, join_path

_ATTEMPTS_MAX = 3


class Creation(enum.Enum):
    """The outcome of one request to create an object that must not exist."""

    CREATED = enum.auto()
    EXISTS = enum.auto()
    UNSUPPORTED = enum.auto()
    """The service replied that it does not support the condition."""
    UNKNOWN = enum.auto()


class ProbeResult(enum.Enum):
    """Whether a service honours conditional puts."""

    HONOURED = enum.auto()
    IGNORED = enum.auto()
    UNSUPPORTED = enum.auto()
    UNDECIDED = enum.auto()


class ConditionalPutProbe:
    """Tests each bucket once in the life of the process, for any number of threads.

    Some services with S3's protocol accept `If-None-Match: *` and overwrite nevertheless. With them two
    writers could both succeed with the same version, and one commit would be lost unnoticed.
    """

    def __init__(self) -> None:
        self._honoured: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def test(
        self,
        bucket: tuple[str, str],
        directory: str,
        *,
        create: Callable[[str], Creation],
        delete: Callable[[str], None],
    ) -> ProbeResult:
        """Create a scratch object twice in `directory`, unless the bucket is known to honour conditional puts.

        `bucket` is the endpoint and the name. Only the result HONOURED is remembered.
        """
        with self._lock:
            if bucket in self._honoured:
                return ProbeResult.HONOURED
            for _ in range(_ATTEMPTS_MAX):
                result = _test_once(directory, create, delete)
                if result is not ProbeResult.UNDECIDED:
                    break
            if result is ProbeResult.HONOURED:
                self._honoured.add(bucket)
            return result


def _test_once(directory: str, create: Callable[[str], Creation], delete: Callable[[str], None]) -> ProbeResult:
    path = join_path(directory, f"{TEMPORARY_PREFIX}probe-{secrets.token_hex(12)}")
    try:
        first = create(path)
        if first is Creation.UNSUPPORTED:
            return ProbeResult.UNSUPPORTED
        if first is not Creation.CREATED:
            return ProbeResult.UNDECIDED
        second = create(path)
        if second is Creation.EXISTS:
            return ProbeResult.HONOURED
        return ProbeResult.IGNORED if second is Creation.CREATED else ProbeResult.UNDECIDED
    finally:
        delete(path)
