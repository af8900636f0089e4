"""Finding out whether an object store honours a conditional put, before anything depends on it."""

from __future__ import annotations

import enum
import secrets
import threading
from collections.abc import Callable

from anabranch.storage.storage_paths import TEMPORARY_PREFIX, join_path

_ATTEMPTS_MAX = 3


class Creation(enum.Enum):
    """How a service answered one request to create an object that must not exist."""

    CREATED = enum.auto()
    EXISTS = enum.auto()
    UNSUPPORTED = enum.auto()
    """It does not know the condition, and says so."""
    UNKNOWN = enum.auto()


class ProbeResult(enum.Enum):
    """What the probe found."""

    HONOURED = enum.auto()
    IGNORED = enum.auto()
    UNSUPPORTED = enum.auto()
    UNDECIDED = enum.auto()


class ConditionalPutProbe:
    """Asks each bucket once in the life of the process; any number of threads.

    Some services that speak S3's protocol accept `If-None-Match: *` and overwrite all the same. With
    them two writers both believe that they landed a version, and one commit is lost without a trace.
    """

    def __init__(self) -> None:
        self._honoured: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def ask(
        self,
        place: tuple[str, str],
        directory: str,
        *,
        create: Callable[[str], Creation],
        delete: Callable[[str], None],
    ) -> ProbeResult:
        """Create a scratch object twice in `directory`, unless the answer for `place` is known.

        `place` is the endpoint and the bucket. A good answer is remembered; others are asked again.
        """
        with self._lock:
            if place in self._honoured:
                return ProbeResult.HONOURED
            for _ in range(_ATTEMPTS_MAX):
                result = _ask_once(directory, create, delete)
                if result is not ProbeResult.UNDECIDED:
                    break
            if result is ProbeResult.HONOURED:
                self._honoured.add(place)
            return result


def _ask_once(directory: str, create: Callable[[str], Creation], delete: Callable[[str], None]) -> ProbeResult:
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
