"""The line of a terminal, the lines beside Spark's bar, and where nothing is shown."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from rich.console import Console

from anabranch import on_progress
from anabranch.progress import progress_display, progress_events
from anabranch.progress.progress_display import PhaseLines, TerminalLine, ThreadedDisplay, text_of
from anabranch.progress.progress_events import Progress, begin_phase, reporting, show_in
from progress.terminals import in_terminal

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
        ({"files_total": 12, "tasks_total": 1}, "MERGE INTO flights: find rows · 12 files · 0 of 1 task · 0:00"),
        ({"tasks_done": 900, "tasks_total": 1200}, "MERGE INTO flights: find rows · 900 of 1,200 tasks · 0:00"),
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


@pytest.mark.parametrize(
    ("facts", "cells"),
    [
        ({"tasks_done": 3, "tasks_total": 12}, 5),
        ({"tasks_done": 3, "tasks_total": 12, "files_total": 7}, 5),
        ({"tasks_done": 3, "tasks_total": 12, "files_done": 6, "files_total": 12}, 10),
    ],
)
def test_the_bar_is_of_files_where_they_are_counted_else_of_tasks(facts: dict[str, object], cells: int) -> None:
    out = io.StringIO()
    line = TerminalLine(Console(file=out, force_terminal=True, width=120, color_system="standard", highlight=False))
    line.draw(progress(**facts))
    assert f"\x1b[91m{'━' * cells}\x1b[0m" in out.getvalue()
    line.close(progress())


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
    """Spark draws its bar where the cursor is, returns to the begin of the line, and shows the tasks there."""
    terminal, out = console()
    lines = PhaseLines(terminal)
    for elapsed_ms in (500, 600, 700):
        lines.draw(progress(elapsed_ms=elapsed_ms, tasks_total=12))
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
    return counted_by(monkeypatch, settings, seconds=seconds)[0]


def counted_by(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], *, seconds: float, has_screens: bool = True
) -> tuple[str, int]:
    """What a statement of that length shows in a terminal, and how often its tasks were counted."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_display, "SHOWN_AFTER_MS", 50)
    show_in(ThreadedDisplay(), has_screens=has_screens)
    counted = 0

    def count(tag: str, since_ms: int) -> tuple[int, int]:
        nonlocal counted
        counted += 1
        return counted, 9

    try:
        with reporting("MERGE", "flights", setting=settings.get, count_tasks=count) as statement:
            statement.job_tag = "statement-1"
            begin_phase("find rows")
            threading.Event().wait(seconds)
    finally:
        show_in(None)
    return terminal.getvalue(), counted


def test_a_statement_that_takes_long_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_by(monkeypatch, {}, seconds=0.6)
    assert "MERGE INTO flights: find rows" in shown
    assert shown.endswith("\x1b[2K"), "the line is gone before the next output"


def test_a_short_statement_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_progress(lambda _: None):
        assert counted_by(monkeypatch, {}, seconds=0) == ("", 0)


def test_tasks_are_counted_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, counted = counted_by(monkeypatch, {}, seconds=1.4)
    assert "find rows · 1 of 9 tasks · 0:00" in shown
    assert 1 < counted <= 3


OFF = {"spark.anabranch.progress": "off"}
BESIDE_SPARKS_BAR = {"spark.ui.showConsoleProgress": "true"}


def test_the_setting_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted_by(monkeypatch, OFF, seconds=0.6) == ("", 0)


def test_sparks_bar_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "\r\x1b[2KMERGE INTO flights: find rows · 0:00\n"
    assert counted_by(monkeypatch, BESIDE_SPARKS_BAR, seconds=0.6) == (line, 0)


@pytest.mark.parametrize(("settings", "has_screens"), [(OFF, True), (BESIDE_SPARKS_BAR, True), ({}, True), ({}, False)])
def test_listeners_learn_of_tasks_whether_or_not_they_are_shown(
    settings: dict[str, str],
    has_screens: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[Progress] = []
    with on_progress(events.append):
        shown, counted = counted_by(monkeypatch, settings, seconds=0.9, has_screens=has_screens)
    assert counted >= 1
    assert [event.tasks_done for event in events if event.tasks_total and not event.ended] == [*range(1, counted + 1)]
    assert events[-1].ended
    assert has_screens or not shown


def test_without_a_terminal_there_is_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        progress_display.install_display()
        assert not progress_events._has_screens


def test_a_program_shows_its_steps_in_a_terminal_only() -> None:
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
    drawn, printed = in_terminal(sys.executable, "-c", program)
    assert printed == "done\n"
    assert "fsck /data/t: check data files · 10 files" in drawn
    quiet = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (quiet.stdout, quiet.stderr) == ("done\n", "")


SLOW_INSERT = (
    "INSERT INTO delta.`{path}` "
    "SELECT id, length(java_method('java.lang.Thread', 'sleep', 300L)) FROM range(0, 12, 1, 12)"
)
"""A write of 12 tasks, which takes 1.8 seconds with two cores."""


@pytest.mark.spark
@pytest.mark.parametrize("bar", ["false", "true"])
def test_a_statement_advances_in_a_terminal(bar: str) -> None:
    # A long path would leave no room for the numbers.
    with tempfile.TemporaryDirectory() as folder:
        _check_insert_advances(bar, Path(folder))


def _check_insert_advances(bar: str, folder: Path) -> None:
    program = (
        "import anabranch\n"
        f"spark = anabranch.session(cores=2, spark__ui__enabled='false', spark__ui__showConsoleProgress='{bar}')\n"
        f"spark.sql('CREATE TABLE delta.`{folder}/t` (id LONG, n INT) USING delta')\n"
        f'spark.sql("{SLOW_INSERT.format(path=folder / "t")}")\n'
        "spark.stop()\n"
    )
    drawn, _ = in_terminal(sys.executable, "-c", program)
    lines = [line for line in re.split(r"[\r\n]+", drawn) if "write files" in line]
    tasks = [int(done) for line in lines for done in re.findall(r"(\d+) of 12 tasks", line)]
    if bar == "true":
        assert len(lines) == 1, "a line for the phase, above Spark's own bar"
        assert tasks == []
        assert re.search(r"\[Stage \d+:=*>? *\(\d+ \+ 2\) / 12\]", drawn)
    else:
        assert tasks == sorted(tasks)
        assert len(set(tasks)) > 1, "it advances inside one job"
        assert re.search(r"write files · \d+ of 12 tasks · \d+:\d\d \x1b\[\d+m━", drawn)
        assert drawn.rstrip().endswith("\x1b[2K"), "the line is gone"
