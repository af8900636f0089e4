"""What is kept for sessions of clients, as long as they are open and no longer."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError

from anabranch.spark.session.delta_session import SESSIONS_KEPT_MAX, DeltaSession

logger = logging.getLogger("anabranch.server")

KEPT_MAX: Final = 64
"""Clients that are at work at once find their tables open; of more, those that were used last."""
_LOOK_SECONDS = 2.0
_UNUSED_SECONDS = 60.0


class ClientSessions:
    """Looks which sessions are open, and lets go of what is kept for the others. Spark tells nobody that one ended."""

    def __init__(self, opened: Callable[[], set[str]]) -> None:
        """`opened` gives the identities of those that are open."""
        self._opened = opened
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="anabranch-client-sessions", daemon=True)

    def begin(self) -> None:
        DeltaSession.kept_max = KEPT_MAX
        self._thread.start()

    def end(self) -> None:
        """All of them are over."""
        self._over.set()
        self._thread.join()
        DeltaSession.kept_max = SESSIONS_KEPT_MAX
        DeltaSession.release(self._seen | self._ended)

    def look(self) -> None:
        """Let go of what is kept for sessions that ended since the last time."""
        opened = self._opened()
        # Some come and go between two looks, and are never seen open. A stream's session is never open, and in use.
        ended = (self._seen | DeltaSession.unused(_UNUSED_SECONDS)) - opened
        # Those of the last time again: a statement may have come to its end behind its session.
        if DeltaSession.release(ended | self._ended):
            # The session and what is kept for it name each other.
            gc.collect()
        self._seen, self._ended = opened, ended

    def _watch(self) -> None:
        took = 0.0
        # With thousands of sessions looking takes longer; it shall stay a small part of what the driver does.
        while not self._over.wait(max(_LOOK_SECONDS, 10 * took)):
            begun = time.monotonic()
            try:
                self.look()
            except (Py4JError, OSError):
                # The driver is gone, or about to go.
                logger.debug("Sessions of clients cannot be asked for", exc_info=True)
            took = time.monotonic() - begun
