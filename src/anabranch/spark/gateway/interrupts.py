"""Ctrl-C while Spark works for the main thread: jobs end, the statement stops, connection and session stay whole.

A callback of the JVM arrives on the Python thread whose call caused it, over the same connection. PySpark's own handler
of SIGINT calls the JVM over that connection to cancel its jobs, and raises at any point of the thread's code: in the
middle of an answer, requests and replies on the connection no longer match. So while a call of the main thread runs,
the signal is handled here. Another thread cancels the jobs, and the exception that stops the statement is raised only
where it does no harm: in code of ours that answers, else when the call returns. Where only Spark is at work, the call
is abandoned after a second: its thread in the JVM finds the connection closed at its next callback, and stops.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from anabranch.patches import patch, undo

logger = logging.getLogger("anabranch.spark")

CANCEL_SECONDS = 0.25
"""The time between two cancellations: a call that was still planning at the first starts its jobs after it."""
ABANDON_SECONDS = 1.0
"""How long a call may still take after its jobs were cancelled, if no answer of ours is under way."""
_CANCELLER_SECONDS_MAX = 10.0
_SEND = "send_command"


class _Inside(enum.Enum):
    """The levels of calls and answers that the main thread is in, from the outermost call on."""

    CALL = enum.auto()
    """It waits for the JVM."""
    ANSWER = enum.auto()
    """It answers a callback."""
    END = enum.auto()
    """It converts an error to an answer for the JVM."""


_CALL = _Inside.CALL


class _CallAbandoned(BaseException):
    """Stops waiting for a call. On KeyboardInterrupt, Py4J would also close connections of other threads."""


class Interrupts:
    """The main thread's calls over one gateway. Other threads get no signals, and their calls pass through.

    A second signal stops the call at once, even if that breaks the connection.
    """

    def __init__(self, client: Any, cancel_jobs: Callable[[], None]) -> None:
        """`client` is the gateway's, and the same for all of its objects."""
        self._client = client
        self._cancel_jobs = cancel_jobs
        self._purpose = f"Ctrl-C over gateway {id(client)}"
        self._send: Callable[..., Any] = client.send_command
        self._main_thread = threading.main_thread().ident
        self._inside: list[_Inside] = []
        self._program_handler: Any = None
        self._stop: BaseException | None = None
        self._raised_at = 0
        """The depth of calls and answers at which `_stop` was raised last."""
        self._abandons = False
        """Whether the next signal is one of ours that stops waiting for the call."""
        self._canceller: threading.Thread | None = None
        self._ended = threading.Event()

    def begin(self) -> None:
        """Starts watching calls."""
        patch(self._purpose, self._client, _SEND, lambda _: self._watched)

    def end(self) -> None:
        """Undoes `begin`."""
        undo(self._purpose)

    def answering(self) -> contextlib.AbstractContextManager[None]:
        """A block in which code of ours answers the JVM; it may be interrupted at any point."""
        return self._at(_Inside.ANSWER)

    def ending(self) -> contextlib.AbstractContextManager[None]:
        """A block in which an error becomes an answer, which the JVM must get."""
        return self._at(_Inside.END)

    @contextlib.contextmanager
    def _at(self, level: _Inside) -> Iterator[None]:
        if not self._inside or threading.get_ident() != self._main_thread:
            yield
            return
        self._inside.append(level)
        try:
            yield
        finally:
            self._inside.pop()

    def _watched(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        if threading.get_ident() != self._main_thread:
            return self._send(command, retry, binary)
        if not self._inside:
            return self._outermost(command, retry, binary)
        self._inside.append(_CALL)
        try:
            return self._send(command, retry, binary)
        except _CallAbandoned:
            self._close_connection()
        finally:
            self._inside.pop()
            if self._stop is not None:
                self._raise_if_due()

    def _outermost(self, command: str, retry: bool, binary: bool) -> Any:
        program_handler = signal.getsignal(signal.SIGINT)
        if not callable(program_handler):
            # The program ignores the signal, or dies of it, or C code handles it.
            return self._send(command, retry, binary)
        if program_handler != self._on_signal:
            self._program_handler = program_handler
        try:
            self._inside.append(_Inside.CALL)
            signal.signal(signal.SIGINT, self._on_signal)
            return self._send(command, retry, binary)
        except _CallAbandoned:
            self._close_connection()
        finally:
            stop = self._end_of_call()
            if stop is not None:
                # It replaces the result or error of the call, which the user has interrupted.
                raise stop from None

    def _end_of_call(self) -> BaseException | None:
        self._inside.clear()
        if self._canceller is not None:
            self._ended.set()
            # It must not cancel jobs that the user starts next.
            self._canceller.join(_CANCELLER_SECONDS_MAX)
            self._canceller = None
        if signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, self._program_handler)
        stop, self._stop, self._raised_at, self._abandons = self._stop, None, 0, False
        return stop

    def _close_connection(self) -> None:
        """Closes the connection on which the JVM still executes a call: its next callback then fails."""
        connection = getattr(self._client, "get_thread_connection", lambda: None)()
        if connection is not None:
            connection.close()

    def _raise_if_due(self) -> None:
        """Raises the exception after a call, in the answer that made the call, once."""
        depth = len(self._inside)
        if self._stop is None or self._inside[-1:] != [_Inside.ANSWER]:
            return
        if self._raised_at == 0 or depth < self._raised_at:
            self._raised_at = depth
            raise self._stop

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._abandons:
            self._abandons = False
            if self._stop is not None and self._waits_alone():
                raise _CallAbandoned
            return
        if not self._inside:
            # The call has not begun, or is over.
            self._program_handler(number, frame)
            return
        if self._stop is not None:
            raise _CallAbandoned if self._inside[-1] is _Inside.CALL else self._stop
        self._stop = self._exception_of_handler(number, frame)
        if self._stop is None:
            return
        self._ended.clear()
        self._canceller = threading.Thread(
            target=self._cancel, args=(self._waits_alone(),), name="anabranch-interrupt", daemon=True
        )
        self._canceller.start()
        if self._inside[-1] is _Inside.ANSWER:
            self._raised_at = len(self._inside)
            raise self._stop

    def _waits_alone(self) -> bool:
        """Whether no answer of ours is under way."""
        return set(self._inside) == {_Inside.CALL}

    def _exception_of_handler(self, number: int, frame: FrameType | None) -> BaseException | None:
        """The exception that the program's own handler stops it with; None where the handler lets it continue."""
        if self._program_handler is signal.default_int_handler or _is_of_pyspark(self._program_handler):
            return KeyboardInterrupt()
        try:
            self._program_handler(number, frame)
        except BaseException as stop:
            return stop
        return None

    def _cancel(self, abandons: bool) -> None:
        """Cancels jobs on a thread of its own, until the call has returned."""
        begun = time.monotonic()
        while True:
            try:
                self._cancel_jobs()
            except Exception:
                logger.debug("Jobs could not be cancelled", exc_info=True)
            if self._ended.wait(CANCEL_SECONDS):
                return
            if abandons and time.monotonic() - begun > ABANDON_SECONDS:
                abandons, self._abandons = False, True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _is_of_pyspark(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
