"""Releases what is kept for sessions of clients once they have ended."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError

from anabranch.spark.session.delta_session import SESSION_RULES, SESSIONS_KEPT_MAX, DeltaSession

logger = logging.getLogger("anabranch.server")

KEPT_MAX: Final = 64
"""The number of sessions whose open tables are kept; beyond it, those used last."""
_POLL_SECONDS = 2.0
_UNUSED_SECONDS = 60.0


class ClientSessions:
    """Polls which sessions are open, and releases what is kept for the others. Spark has no event for their end."""

    def __init__(self, open_sessions: Callable[[], set[str]]) -> None:
        """`open_sessions` returns the ids of the open sessions."""
        self._open_sessions = open_sessions
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        self._begun: set[str] = set()
        """Sessions of clients that have begun a transaction since the last poll."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="anabranch-client-sessions", daemon=True)

    def begin(self) -> None:
        SESSION_RULES.kept_max = KEPT_MAX
        SESSION_RULES.transaction_begun = self._note_transaction
        self._thread.start()

    def end(self) -> None:
        """Stop polling, and release what is kept for all sessions."""
        self._stopping.set()
        self._thread.join()
        SESSION_RULES.kept_max = SESSIONS_KEPT_MAX
        SESSION_RULES.transaction_begun = None
        DeltaSession.release(self._seen | self._ended | self._begun)

    def poll(self) -> None:
        """Release what is kept for sessions that ended since the last poll."""
        # Taken before the sessions are listed: a session that begins a transaction after that is no ended one.
        begun = set(self._begun)
        open_now = self._open_sessions()
        # A short session can begin and end between two polls. A stream's session is in use without ever being open.
        ended = (self._seen | begun | DeltaSession.unused(_UNUSED_SECONDS)) - open_now
        # Those of the last poll once more: a statement may have ended after its session.
        if DeltaSession.release(ended | self._ended):
            # The session and what is kept for it refer to each other.
            gc.collect()
        self._seen, self._ended = open_now, ended
        self._begun -= begun

    def _note_transaction(self, key: str) -> None:
        """Note the session of a client, which may end before the next poll; not one of the program that serves."""
        try:
            if key in self._open_sessions():
                self._begun.add(key)
        except (Py4JError, OSError):
            logger.debug("The open sessions of clients cannot be listed", exc_info=True)

    def _watch(self) -> None:
        duration = 0.0
        # A poll of thousands of sessions takes long; the pause keeps polling at a tenth of the time.
        while not self._stopping.wait(max(_POLL_SECONDS, 10 * duration)):
            begun = time.monotonic()
            try:
                self.poll()
            except (Py4JError, OSError):
                # The driver has ended or is about to end.
                logger.debug("The open sessions of clients cannot be listed", exc_info=True)
            duration = time.monotonic() - begun
