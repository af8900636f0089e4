"""PySpark's server for connections of the JVM, which must outlive a lack of file descriptors.

Py4J's server ends for good at the first connection that it cannot accept. Then all callbacks wait for ever, and with
them the statements whose plans need one.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import time
from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started

from anabranch.patches import patch

LOGGER = logging.getLogger("anabranch.spark")
PURPOSE = "connections of the JVM"
_NONE_LEFT = {errno.EMFILE, errno.ENFILE}
_PAUSE_S = 0.05
_PATIENCE_S = 10.0
"""How long a connection waits for a file descriptor before it is closed, which its thread of the JVM sees at once."""


def start_callback_server(gateway: Any) -> None:
    """Starts the server of `gateway`, if it does not run, and lets it wait for file descriptors."""
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    patch(PURPOSE, gateway._callback_server, "server_socket", lambda listening: PatientSocket(listening, _PATIENCE_S))


class PatientSocket:
    """A listening socket whose `accept` does not fail when the process has no file descriptor left."""

    def __init__(self, listening: Any, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._listening = listening
        self._patience_s = patience_s
        self._clock = clock
        self._reserve: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)

    def accept(self) -> tuple[Any, Any]:
        """The next connection. One that gets no file descriptor for too long is closed, and the next one awaited."""
        since: float | None = None
        while True:
            try:
                return self._listening.accept()  # type: ignore[no-any-return]
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
            if not self._has_connection():
                since = None
                continue
            since = self._clock() if since is None else since
            if self._clock() - since < self._patience_s:
                time.sleep(_PAUSE_S)
            else:
                self._refuse()
                since = None

    def close(self) -> None:
        """Closes the socket and the reserve."""
        self._listening.close()
        self._release_reserve()

    def __del__(self) -> None:
        self._release_reserve()

    def _has_connection(self) -> bool:
        """Wait a while for a connection. `accept` reports a lack of file descriptors without one, too."""
        poll = select.poll()
        poll.register(self._listening, select.POLLIN)
        return bool(poll.poll(1000))

    def _refuse(self) -> None:
        """Close the connection that waits, by the file descriptor kept for this."""
        LOGGER.error("A connection of the JVM was closed: this process has no file descriptor left")
        self._release_reserve()
        try:
            self._listening.accept()[0].close()
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise

    def _release_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
