"""What the commands that read or write a whole log show while they work."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import on_progress
from anabranch.progress.progress_events import Progress
from cli.conftest import Outcome
from cli.tables_in_folders import TableInFolder
from progress.terminals import in_terminal

Run = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("command", "options", "phases"),
    [
        ("checkpoint", [], [("read the log", None), ("write the checkpoint", 2)]),
        ("checkpoint", ["--log-compaction", "0..2"], [("read the log", None), ("compact commits", 3)]),
        (
            "fsck",
            [],
            [
                ("check commits", 4),
                ("check checkpoints", 0),
                ("rebuild the newest version", None),
                ("check checksums", 4),
                ("list files", None),
                ("check data files", 2),
                ("check deletion vectors", 1),
            ],
        ),
        (
            "report",
            ["--output", "page.html"],
            [("read the log", None), ("read commits", 4), ("measure files", 2), ("write the page", None)],
        ),
    ],
)
def test_a_command_reports_its_phases(
    command: str,
    options: list[str],
    phases: list[tuple[str, int | None]],
    run: Run,
    table: TableInFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    events: list[Progress] = []
    with on_progress(events.append):
        assert run(command, table.path, *options).exit_code == 0
    assert list(dict.fromkeys((event.phase, event.files_total) for event in events)) == phases
    assert {(event.operation, event.table) for event in events} == {(command, str(table.path))}
    assert [event.ended for event in events] == [False] * (len(events) - 1) + [True]
    assert all(event.files_done == 4 for event in events[-4:] if event.phase == "read commits")


def test_a_command_that_fails_ends(run: Run, tmp_path: Path) -> None:
    events: list[Progress] = []
    with on_progress(events.append):
        assert run("checkpoint", tmp_path).exit_code == 1
    assert events[-1].ended


SLOW = """
import sys, time
from anabranch.storage.local.local_store import LocalStore

def slowed(call):
    def slow(*arguments, **options):
        time.sleep(0.4)
        return call(*arguments, **options)
    return slow

LocalStore.read, LocalStore.put = slowed(LocalStore.read), slowed(LocalStore.put)
from anabranch.cli.main import run
run()
"""
"""A terminal's `anabranch` over a slow storage."""


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("checkpoint", "write the checkpoint · 2 files · 0:0"),
        ("report", "read commits · 4 files · 0:0"),
        ("fsck", "check "),
    ],
)
def test_a_command_shows_its_phases_in_a_terminal(
    command: str, shown: str, table: TableInFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn, printed = in_terminal(sys.executable, "-c", SLOW, command, str(table.path))
    assert f"{command} {table.path}: {shown}" in drawn
    assert drawn.endswith("\x1b[2K"), "the line is gone"
    assert f"{command} {table.path}" not in printed
    drawn, printed = in_terminal(sys.executable, "-c", SLOW, command, str(table.path), "--json")
    assert drawn == ""
    json.loads(printed)
