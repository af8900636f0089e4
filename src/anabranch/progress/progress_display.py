"""Shows running statements: one line in a terminal, one output in a notebook, and nothing elsewhere.

A thread of its own draws, and counts the tasks of Spark's jobs for display and listeners. It does so for statements
that have run for half a second: a short one costs nothing and shows nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.progress.progress_events import Progress, StatementProgress, has_listeners, show_in
from anabranch.text_format import count, plain, size

if TYPE_CHECKING:
    from rich.console import Console

SETTING = "spark.anabranch.progress"
"""`auto` or `off`."""
SPARKS_BAR = "spark.ui.showConsoleProgress"
SHOWN_AFTER_MS = 500
_DRAW_SECONDS = 0.1
_POLL_MS = 500
_BAR_WIDTH = 20


class Screen(Protocol):
    """A place where progress is shown."""

    counts_tasks: bool
    """Whether it shows the tasks of Spark's jobs."""

    def draw(self, progress: Progress) -> None:
        """Show this in the place of what was shown before."""

    def close(self, progress: Progress) -> None:
        """Show nothing more of the statement, which has ended."""


def install_display() -> None:
    """Show the statements of this process if it has a terminal or a notebook."""
    show_in(_DISPLAY, has_screens=_is_terminal() or _is_notebook())


def uninstall_display() -> None:
    """Show no statements, as in a server, whose clients have terminals of their own. Listeners are still called."""
    show_in(_DISPLAY, has_screens=False)


class ThreadedDisplay:
    """Draws the longest running statement from time to time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[StatementProgress, int] = {}
        """For each statement, longest running first, the time since its begin at which its tasks are counted next."""
        self._silent: set[StatementProgress] = set()
        self._shown: tuple[StatementProgress, Screen] | None = None
        self._has_work = threading.Event()
        self._pause = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, statement: StatementProgress, *, shown: bool) -> None:
        """Show the statement once it has run for a while."""
        with self._lock:
            self._running[statement] = SHOWN_AFTER_MS
            if not shown:
                self._silent.add(statement)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="anabranch-progress", daemon=True)
                self._thread.start()
        self._has_work.set()

    def end(self, statement: StatementProgress) -> None:
        """Stop showing it, before the program's next output."""
        with self._lock:
            if self._running.pop(statement, None) is None:
                return
            self._silent.discard(statement)
            if self._shown is not None and self._shown[0] is statement:
                with contextlib.suppress(Exception):
                    self._shown[1].close(statement.now())
                self._shown = None

    def _run(self) -> None:
        while True:
            self._has_work.wait()
            due = self._due()
            shown = next((statement for statement in due if statement not in self._silent), None)
            if shown is not None:
                self._draw(shown)
            for statement in due:
                if has_listeners() or self._counts_tasks(statement):
                    self._poll(statement)
            self._pause.wait(_DRAW_SECONDS)

    def _due(self) -> list[StatementProgress]:
        """The statements that have run for long enough."""
        with self._lock:
            if not self._running:
                self._has_work.clear()
            return [statement for statement in self._running if statement.elapsed_ms >= SHOWN_AFTER_MS]

    def _counts_tasks(self, statement: StatementProgress) -> bool:
        shown = self._shown
        return shown is not None and shown[0] is statement and shown[1].counts_tasks

    def _poll(self, statement: StatementProgress) -> None:
        with self._lock:
            if statement not in self._running or statement.elapsed_ms < self._running[statement]:
                return
            self._running[statement] = statement.elapsed_ms + _POLL_MS
        # Without the lock: the statement needs it to end, and must not wait for the JVM.
        statement.poll_tasks()

    def _draw(self, statement: StatementProgress) -> None:
        screen = self._screen_of(statement)
        with self._lock:
            if statement not in self._running:
                return
            if screen is None:
                self._silent.add(statement)
                return
            self._shown = (statement, screen)
            try:
                screen.draw(statement.now())
            except Exception:
                # A terminal that is gone must not end the thread, nor be tried ten times a second.
                self._silent.add(statement)
                self._shown = None

    def _screen_of(self, statement: StatementProgress) -> Screen | None:
        """The screen on which the statement is shown, or a new one; None where the user wants none."""
        if self._shown is not None and self._shown[0] is statement:
            return self._shown[1]
        try:
            # Calls of the JVM, on this thread, for a statement that has run for half a second.
            setting = statement.setting or (lambda _: None)
            if str(setting(SETTING) or "auto").strip().lower() == "off":
                return None
            return _new_screen(beside_sparks_bar=str(setting(SPARKS_BAR)).lower() == "true")
        except Exception:
            return None


_DISPLAY = ThreadedDisplay()


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:
        # The program has closed it.
        return False


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _new_screen(*, beside_sparks_bar: bool) -> Screen | None:
    if _is_notebook():
        return NotebookOutput()
    from rich.console import Console  # noqa: PLC0415 - slow to import, and few programs show progress

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return PhaseLines(console) if beside_sparks_bar else TerminalLine(console)


class TerminalLine:
    """One line at the end of a terminal, which is erased when the statement has ended."""

    counts_tasks = True

    def __init__(self, console: Console) -> None:
        from rich.live import Live  # noqa: PLC0415 - see `_new_screen`

        self._live: Any = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def draw(self, progress: Progress) -> None:
        from rich.progress_bar import ProgressBar  # noqa: PLC0415 - see `_new_screen`
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True, overflow="ellipsis")
        cells: list[Any] = [Text(plain(text_of(progress)))]
        part = _part_done(progress)
        if part is not None:
            line.add_column(width=_BAR_WIDTH)
            cells.append(ProgressBar(total=part[1], completed=part[0]))
        line.add_row(*cells)
        if not self._live.is_started:
            self._live.start()
        self._live.update(line, refresh=True)

    def close(self, progress: Progress) -> None:  # noqa: ARG002 - the interface has it
        self._live.stop()


class PhaseLines:
    """A line for each phase, for a terminal in which Spark draws its own bar: that one moves down, and stays whole.

    That bar shows the tasks.
    """

    counts_tasks = False

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, str] | None = None

    def draw(self, progress: Progress) -> None:
        if (progress.phase, progress.note) == self._last:
            return
        self._last = (progress.phase, progress.note)
        # Spark leaves the cursor at the begin of its bar.
        text = plain(text_of(dataclasses.replace(progress, tasks_total=None)))
        self._console.file.write(f"\r\x1b[2K{text}\n")
        self._console.file.flush()

    def close(self, progress: Progress) -> None:
        """The lines stay."""


class NotebookOutput:
    """One output of a cell, which is updated."""

    counts_tasks = True

    def __init__(self) -> None:
        # A notebook has it, and other programs need not install it.
        outputs = importlib.import_module("IPython.display")
        self._html: Any = outputs.HTML
        self._output: Any = outputs.DisplayHandle()
        self._last: str | None = None

    def draw(self, progress: Progress) -> None:
        self._update(text_of(progress), progress)

    def close(self, progress: Progress) -> None:
        self._update(f"{progress.title}: ended after {_duration(progress.elapsed_ms)}", None)

    def _update(self, text: str, progress: Progress | None) -> None:
        part = None if progress is None else _part_done(progress)
        bar = "" if part is None else f' <progress value="{part[0]}" max="{part[1]}"></progress>'
        shown = f"<div>{html.escape(text)}{bar}</div>"
        if shown == self._last:
            return
        show = self._output.display if self._last is None else self._output.update
        show(self._html(shown))
        self._last = shown


def text_of(progress: Progress) -> str:
    """The progress in one line."""
    parts = [f"{progress.title}: {progress.phase}" if progress.phase else progress.title]
    if progress.files_total and progress.files_done:
        parts.append(f"{progress.files_done:,} of {progress.files_total:,} files")
    elif progress.files_total or progress.files_done:
        parts.append(f"{progress.files_total or progress.files_done:,} files")
    if progress.tasks_total:
        parts.append(f"{progress.tasks_done:,} of {count(progress.tasks_total, 'task')}")
    if progress.num_rows:
        parts.append(f"{progress.num_rows:,} rows")
    if progress.size_bytes:
        parts.append(size(progress.size_bytes))
    parts.append(_duration(progress.elapsed_ms))
    if progress.note:
        parts.append(progress.note)
    return " · ".join(parts)


def _part_done(progress: Progress) -> tuple[int, int] | None:
    """How much of the phase is done, of how much: files where they are counted, else tasks; None where neither is."""
    if progress.files_total and progress.files_done:
        return min(progress.files_done, progress.files_total), progress.files_total
    return (progress.tasks_done, progress.tasks_total) if progress.tasks_total else None


def _duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    minutes, hours = seconds // 60 % 60, seconds // 3600
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
