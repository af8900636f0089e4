"""Ctrl-C while Spark works for the main thread: jobs end, the statement stops, connection and session stay whole.

A question of the JVM comes back on the thread of Python that called it, over the same connection. PySpark's own
handler of SIGINT asks the JVM over that very connection to cancel its jobs, and raises wherever the thread happens to
be: in the midst of an answer both sides lose track of what belongs to what. So while a call of the main thread lasts,
the signal comes here. Jobs are cancelled from another thread, and what stops the statement is raised only where nothing
breaks: in code of ours that answers, else once the call that it waits for has come back. Where Spark alone is at work,
the call is given up after a second: its thread in the JVM finds the connection closed when it next asks, and stops.
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
"""Between two rounds: a call that was planning at the first one starts its jobs after it."""
GIVE_UP_SECONDS = 1.0
"""How long a call may take to come back once its jobs are cancelled, where nothing but the call waits for it."""
_CANCELLED_SECONDS_MAX = 10.0
_SEND = "send_command"


class _Inside(enum.Enum):
    """What the main thread is at, from the outermost call on."""

    CALL = enum.auto()
    """Waiting for the JVM."""
    ANSWER = enum.auto()
    """Answering a question."""
    END = enum.auto()
    """Putting an answer into words of the JVM's."""


class _GivenUp(BaseException):
    """Ends the waiting for a call. On KeyboardInterrupt, Py4J would close connections of other threads, too."""


class Interrupts:
    """The main thread's calls over one gateway. Other threads get no signals, and pass.

    A second signal is obeyed at once, whatever breaks.
    """

    def __init__(self, client: Any, cancel_jobs: Callable[[], None]) -> None:
        """`client` is the gateway's, and the same for all of its objects."""
        self._client = client
        self._cancel_jobs = cancel_jobs
        self._purpose = f"Ctrl-C over gateway {id(client)}"
        self._send: Callable[..., Any] = client.send_command
        self._inside: list[_Inside] = []
        self._before: Any = None
        self._stop: BaseException | None = None
        self._raised_at = 0
        """How deep in answers `_stop` was raised last."""
        self._gives_up = False
        """Whether the next signal is one of ours, that ends the waiting."""
        self._canceller: threading.Thread | None = None
        self._ended = threading.Event()

    def begin(self) -> None:
        """Calls are watched from now on."""
        patch(self._purpose, self._client, _SEND, lambda _: self._watched)

    def end(self) -> None:
        """As if `begin` had not been called."""
        undo(self._purpose)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Within, code of ours answers the JVM; it may be interrupted anywhere."""
        with self._at(_Inside.ANSWER):
            yield

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Within, an error becomes an answer, which must arrive."""
        with self._at(_Inside.END):
            yield

    @contextlib.contextmanager
    def _at(self, what: _Inside) -> Iterator[None]:
        if not self._inside or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._inside.append(what)
        try:
            yield
        finally:
            self._inside.pop()

    def _watched(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return self._send(command, retry, binary)
        if not self._inside:
            return self._outermost(command, retry, binary)
        self._inside.append(_Inside.CALL)
        try:
            return self._send(command, retry, binary)
        except _GivenUp:
            self._close_connection()
        finally:
            self._inside.pop()
            self._raise_if_due()

    def _outermost(self, command: str, retry: bool, binary: bool) -> Any:
        before = signal.getsignal(signal.SIGINT)
        if not callable(before):
            # The program ignores the signal, or dies of it, or C code handles it.
            return self._send(command, retry, binary)
        if before != self._on_signal:
            self._before = before
        try:
            self._inside.append(_Inside.CALL)
            signal.signal(signal.SIGINT, self._on_signal)
            return self._send(command, retry, binary)
        except _GivenUp:
            self._close_connection()
        finally:
            stop = self._over()
            if stop is not None:
                # In the place of whatever came of it: the user asked to stop.
                raise stop from None

    def _over(self) -> BaseException | None:
        self._inside.clear()
        if self._canceller is not None:
            self._ended.set()
            # It must not cancel what the user starts next.
            self._canceller.join(_CANCELLED_SECONDS_MAX)
            self._canceller = None
        if signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, self._before)
        stop, self._stop, self._raised_at, self._gives_up = self._stop, None, 0, False
        return stop

    def _close_connection(self) -> None:
        """The JVM is still at work on what it was told over it, and will find nobody there."""
        connection = getattr(self._client, "get_thread_connection", lambda: None)()
        if connection is not None:
            connection.close()

    def _raise_if_due(self) -> None:
        """Behind a call: raises in the answer that made it, once."""
        depth = len(self._inside)
        if self._stop is None or self._inside[-1:] != [_Inside.ANSWER]:
            return
        if self._raised_at == 0 or depth < self._raised_at:
            self._raised_at = depth
            raise self._stop

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._gives_up:
            self._gives_up = False
            if self._stop is not None and self._waits_alone():
                raise _GivenUp
            return
        if not self._inside:
            # On the way in or out.
            self._before(number, frame)
            return
        if self._stop is not None:
            raise _GivenUp if self._inside[-1] is _Inside.CALL else self._stop
        self._stop = self._asked(number, frame)
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

    def _asked(self, number: int, frame: FrameType | None) -> BaseException | None:
        """What stops the program. None where the program's own handler lets it go on."""
        if self._before is signal.default_int_handler or _is_of_pyspark(self._before):
            return KeyboardInterrupt()
        try:
            self._before(number, frame)
        except BaseException as stop:
            return stop
        return None

    def _cancel(self, gives_up: bool) -> None:
        """On a thread of its own, until the call has come back."""
        begun = time.monotonic()
        while True:
            try:
                self._cancel_jobs()
            except Exception:
                logger.debug("Jobs could not be cancelled", exc_info=True)
            if self._ended.wait(CANCEL_SECONDS):
                return
            if gives_up and time.monotonic() - begun > GIVE_UP_SECONDS:
                gives_up, self._gives_up = False, True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _is_of_pyspark(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
