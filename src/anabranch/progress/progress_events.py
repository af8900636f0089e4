"""What a statement is doing, for a display and for programs that listen.

A command opens `reporting` around its work. Whatever runs inside it on the same thread, in any layer, then says which
phase has begun, how much is done, and what it waits for. Without a statement on the thread these calls do nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from anabranch.clock import Clock, SystemClock

LOGGER = logging.getLogger("anabranch.progress")
CLOCK: Clock = SystemClock()

STATEMENTS = {"DELETE": "DELETE FROM", "MERGE": "MERGE INTO", "WRITE": "WRITE TO", "CONVERT": "CONVERT TO DELTA"}
"""How the statement of an operation begins, where that is not the operation's name."""

GetSetting = Callable[[str], str | None]
"""Returns a setting of the session by its key."""
CountTasks = Callable[[str, int], tuple[int, int]]
"""Returns how many tasks are done and how many there are, of jobs with a tag that began at some time or later."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a statement was doing at one moment."""

    statement: int
    """The number of the statement in this process."""
    operation: str
    """The name of the operation as in the history: `DELETE`, `MERGE`, `OPTIMIZE` …"""
    table: str
    phase: str
    """`find rows`, `write files`, `commit` …; empty before the first phase."""
    files_done: int = 0
    """Files that the phase has dealt with."""
    files_total: int | None = None
    """The number of files of the phase; None where it is not known."""
    tasks_done: int = 0
    """Tasks of Spark's jobs in this phase that are done."""
    tasks_total: int | None = None
    """The tasks of the jobs that the phase has begun; None where there are none, or they are not counted yet."""
    num_rows: int = 0
    """Rows that the phase has dealt with, where it counts them."""
    size_bytes: int = 0
    """Bytes that the phase has dealt with, where it counts them."""
    elapsed_ms: int = 0
    """Milliseconds since the statement began."""
    note: str = ""
    """Why the phase takes longer: another commit landed first, the statement runs again after a conflict …"""
    ended: bool = False
    """Whether the statement has ended, with or without an error."""

    @property
    def title(self) -> str:
        """The statement in a few words, such as `MERGE INTO flights`."""
        return f"{STATEMENTS.get(self.operation, self.operation)} {self.table}"


Listener = Callable[[Progress], None]


class Subscription:
    """A listener that is called until `close`, or until the end of a `with` block."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def close(self) -> None:
        """Stop calling the listener."""
        global _listeners  # noqa: PLW0603
        with _lock:
            _listeners = tuple(listener for listener in _listeners if listener is not self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def on_progress(listener: Listener) -> Subscription:
    """Call `listener` with a `Progress` at each change of any statement of this process, until the result is closed.

    It is called on the threads of the statements, and for tasks of Spark on one of ours, but never by two at once for
    one statement. So it should return soon and run no statement itself. What it raises is logged and ignored.
    """
    global _listeners  # noqa: PLW0603
    with _lock:
        _listeners = (*_listeners, listener)
    return Subscription(listener)


class StatementProgress:
    """The progress of a statement that runs. Any thread may read it and add to it."""

    def __init__(
        self, operation: str, table: str, setting: GetSetting | None, count_tasks: CountTasks | None = None
    ) -> None:
        self.setting = setting
        """Returns settings of the session; None outside of one. Each use is a call of the JVM."""
        self.description_of_jobs: str | None = None
        """How its Spark jobs are described at this moment; None before the first description."""
        self.job_tag: str | None = None
        """The tag of its Spark jobs; None before the first description."""
        self._count_tasks = count_tasks
        # Held while listeners are called, so that they get the events in order. A listener may call us.
        self._lock = threading.RLock()
        self._begun_ms = CLOCK.elapsed_ms()
        self._phase_begun_ms = CLOCK.now_ms()
        self._progress = Progress(statement=next(_numbers), operation=operation, table=table, phase="")

    def now(self) -> Progress:
        """The progress at this moment."""
        return dataclasses.replace(self._progress, elapsed_ms=CLOCK.elapsed_ms() - self._begun_ms)

    @property
    def description(self) -> str:
        """The statement and its phase, such as `MERGE INTO flights: find matches`."""
        progress = self._progress
        return f"{progress.title}: {progress.phase}" if progress.phase else progress.title

    @property
    def phase(self) -> str:
        return self._progress.phase

    @property
    def elapsed_ms(self) -> int:
        return CLOCK.elapsed_ms() - self._begun_ms

    def change(self, **fields: object) -> None:
        """Replace fields of the progress, and call the listeners."""
        with self._lock:
            self._progress = dataclasses.replace(self._progress, **fields)  # type: ignore[arg-type]
            if _listeners:
                self._report()

    def begin_phase(self, phase: str, *, files: int | None) -> None:
        """Count from zero, in a phase of this name, and call the listeners."""
        with self._lock:
            self._phase_begun_ms = CLOCK.now_ms()
            self.change(
                phase=phase, files_done=0, files_total=files, tasks_done=0, tasks_total=None, num_rows=0, size_bytes=0
            )

    def add(self, *, files: int, rows: int, size_bytes: int) -> None:
        """Add to what the phase has dealt with, and call the listeners."""
        with self._lock:
            before = self._progress
            self._progress = dataclasses.replace(
                before,
                files_done=before.files_done + files,
                num_rows=before.num_rows + rows,
                size_bytes=before.size_bytes + size_bytes,
            )
            if _listeners:
                self._report()

    def poll_tasks(self) -> None:
        """Count the tasks of the phase, by one call of the JVM, and call the listeners if their number has changed."""
        tag, begun_ms = self.job_tag, self._phase_begun_ms
        if tag is None or self._count_tasks is None:
            return
        try:
            done, total = self._count_tasks(tag, begun_ms)
        except Exception:
            # The session may have ended, and a statement must not fail because it is shown.
            LOGGER.debug("tasks could not be counted", exc_info=True)
            self._count_tasks = None
            return
        # While a listener is at work, the thread that shows all statements must not wait.
        if not total or not self._lock.acquire(blocking=False):
            return
        try:
            before, done = self._progress, min(done, total)
            stale = before.ended or self._phase_begun_ms != begun_ms
            if not stale and (before.tasks_done, before.tasks_total) != (done, total):
                self.change(tasks_done=done, tasks_total=total)
        finally:
            self._lock.release()

    def _report(self) -> None:
        progress = self.now()
        for listener in _listeners:
            try:
                listener(progress)
            except Exception:
                # The statement must not fail, or commit and report a failure, because of a listener.
                LOGGER.warning("a listener of progress failed", exc_info=True)


class Display(Protocol):
    """Shows statements while they run."""

    def begin(self, statement: StatementProgress, *, shown: bool) -> None:
        """Called when a statement begins. With `shown` false only listeners learn of it."""

    def end(self, statement: StatementProgress) -> None:
        """Called when it has ended, with or without an error."""


class _Thread(threading.local):
    statement: StatementProgress | None = None


_thread = _Thread()
_numbers = itertools.count(1)
_lock = threading.Lock()
_listeners: tuple[Listener, ...] = ()
_display: Display | None = None
_has_screens = False


def has_listeners() -> bool:
    """Whether a program listens."""
    return bool(_listeners)


def show_in(display: Display | None, *, has_screens: bool = True) -> None:
    """Show the statements that begin from now on in `display`; None shows them nowhere.

    Without screens it only counts their tasks, for listeners.
    """
    global _display, _has_screens
    _display, _has_screens = display, has_screens


@contextlib.contextmanager
def reporting(
    operation: str,
    table: str,
    *,
    setting: GetSetting | None = None,
    count_tasks: CountTasks | None = None,
    shown: bool = True,
) -> Iterator[StatementProgress]:
    """A block that is one statement. Inside another statement on the same thread it is a part of that one.

    With `shown` false only listeners learn of it, and no display.
    """
    if _thread.statement is not None:
        yield _thread.statement
        return
    statement = _thread.statement = StatementProgress(operation, table, setting, count_tasks)
    shown = shown and _has_screens
    display = _display if shown or _listeners else None
    if display is not None:
        display.begin(statement, shown=shown)
    try:
        yield statement
    finally:
        _thread.statement = None
        if display is not None:
            display.end(statement)
        statement.change(ended=True, note="")


def current() -> StatementProgress | None:
    """The statement that this thread runs."""
    return _thread.statement


def begin_phase(phase: str, *, files: int | None = None) -> None:
    """Say that this thread's statement begins a phase, which deals with so many files.

    Without a number of files, the phase that it is in goes on.
    """
    statement = _thread.statement
    if statement is not None and (files is not None or statement.phase != phase):
        statement.begin_phase(phase, files=files)


def expect_files(count: int) -> None:
    """Say how many files the phase of this thread's statement deals with."""
    statement = _thread.statement
    if statement is not None:
        statement.change(files_total=count)


def add_done(*, files: int = 0, rows: int = 0, size_bytes: int = 0) -> None:
    """Say how much more this thread's statement has done in its phase."""
    statement = _thread.statement
    if statement is not None:
        statement.add(files=files, rows=rows, size_bytes=size_bytes)


def note(text: str) -> None:
    """Say what this thread's statement waits for, or why it runs again."""
    statement = _thread.statement
    if statement is not None:
        statement.change(note=text)
