"""The line of a terminal, the lines beside Spark's bar, and where nothing is shown."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.progress import progress_display, progress_events
from anabranch.progress.progress_display import PhaseLines, TerminalLine, ThreadedDisplay, text_of
from anabranch.progress.progress_events import Progress, begin_phase, reporting, show_in

FACTS = {"statement": 1, "operation": "MERGE", "table": "flights"}


def progress(**facts: object) -> Progress:
    return Progress(**{**FACTS, "phase": "find rows", **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"phase": ""}, "MERGE INTO flights · 0:00"),
        ({"elapsed_ms": 61_900}, "MERGE INTO flights: find rows · 1:01"),
        ({"elapsed_ms": 3_723_000}, "MERGE INTO flights: find rows · 1:02:03"),
        ({"files_done": 1, "files_total": 1200}, "MERGE INTO flights: find rows · 1 of 1,200 files · 0:00"),
        (
            {"files_done": 2, "num_rows": 5000, "size_bytes": 1_200_000, "note": "it runs again"},
            "MERGE INTO flights: find rows · 2 files · 5,000 rows · 1.2 MB · 0:00 · it runs again",
        ),
    ],
)
def test_text(facts: dict[str, object], text: str) -> None:
    assert text_of(progress(**facts)) == text


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=True, width=80, color_system=None, markup=False, highlight=False), out


def test_a_terminal_has_one_line_that_goes() -> None:
    terminal, out = console()
    line = TerminalLine(terminal)
    line.draw(progress(files_done=3, files_total=12))
    line.draw(progress(files_done=6, files_total=12))
    drawn = out.getvalue()
    assert "3 of 12 files" in drawn
    assert "6 of 12 files" in drawn
    assert drawn.count("\n") == 0
    line.close(progress())
    assert out.getvalue().endswith("\x1b[2K")


def test_a_long_line_is_cut_and_values_are_no_commands() -> None:
    terminal, out = console()
    line = TerminalLine(terminal)
    line.draw(progress(table="\x1b[2J\n" + "t" * 100))
    line.close(progress())
    drawn = out.getvalue()
    assert "\\x1b[2J\\n" in drawn
    assert "\x1b[2J" not in drawn
    assert "…" in drawn


def test_beside_sparks_bar_each_phase_is_a_line() -> None:
    """Spark draws its bar where the cursor is, and returns to the begin of the line."""
    terminal, out = console()
    lines = PhaseLines(terminal)
    for elapsed_ms in (500, 600, 700):
        lines.draw(progress(elapsed_ms=elapsed_ms))
    lines.draw(progress(phase="write files"))
    lines.close(progress())
    assert out.getvalue() == (
        "\r\x1b[2KMERGE INTO flights: find rows · 0:00\n\r\x1b[2KMERGE INTO flights: write files · 0:00\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_by(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], *, seconds: float) -> str:
    """What a statement of that length shows in a terminal."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_display, "SHOWN_AFTER_MS", 50)
    show_in(ThreadedDisplay())
    try:
        with reporting("MERGE", "flights", setting=settings.get):
            begin_phase("find rows")
            threading.Event().wait(seconds)
    finally:
        show_in(None)
    return terminal.getvalue()


def test_a_statement_that_takes_long_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch, {}, seconds=0.6)
    assert "MERGE INTO flights: find rows" in shown
    assert shown.endswith("\x1b[2K"), "the line is gone before the next output"


def test_a_short_statement_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_by(monkeypatch, {}, seconds=0) == ""


def test_the_setting_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_by(monkeypatch, {"spark.anabranch.progress": "off"}, seconds=0.6) == ""


def test_sparks_bar_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch, {"spark.ui.showConsoleProgress": "true"}, seconds=0.6)
    assert shown == "\r\x1b[2KMERGE INTO flights: find rows · 0:00\n"


def test_without_a_terminal_there_is_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        progress_display.install_display()
        assert progress_events._display is None


def test_a_program_shows_its_steps_in_a_terminal_only(tmp_path: Path) -> None:
    """A terminal of its own: the program draws as it does for a user."""
    program = (
        "import time\n"
        "from anabranch.progress import progress_display as shown, progress_events as events\n"
        "shown.SHOWN_AFTER_MS = 50\n"
        "shown.install_display()\n"
        "with events.reporting('fsck', '/data/t'):\n"
        "    events.begin_phase('check data files', files=10)\n"
        "    time.sleep(0.6)\n"
        "print('done')\n"
    )
    ours, theirs = pty.openpty()
    run = subprocess.run(
        [sys.executable, "-c", program],
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert run.stdout == "done\n"
    assert "fsck /data/t: check data files · 10 files" in drawn.decode()
    quiet = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == ("done\n", "")
