"""`anabranch report`: a page in a file, or its numbers."""

from __future__ import annotations

import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Outcome
from cli.tables_in_folders import TableInFolder

Run = Callable[..., Outcome]


def test_the_page_is_named_after_the_table(
    run: Run, table: TableInFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("report", table.path)
    file = tmp_path / "table-report.html"
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out.replace("\n", "").startswith(f"Wrote {file}")
    assert "<h1>table</h1>" in file.read_text(encoding="utf-8")


def test_the_page_is_written_where_the_user_says(run: Run, table: TableInFolder, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert run("report", table.path, "-o", file).exit_code == 0
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    missing = run("report", table.path, "--output", tmp_path / "no" / "page.html")
    assert missing.exit_code == 1
    assert "cannot be written: No such file or directory" in missing.err.replace("\n", " ")


@pytest.mark.parametrize("starts", [True, False])
def test_the_browser_opens_the_page(
    run: Run, table: TableInFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    opened: list[str] = []

    def open_address(address: str) -> bool:
        opened.append(address)
        return starts

    monkeypatch.setattr(webbrowser, "open", open_address)
    file = tmp_path / "page.html"
    outcome = run("report", table.path, "-o", file, "--open")
    assert opened == [file.as_uri()]
    assert ("No browser could be started" in outcome.out) is not starts


def test_the_numbers_need_no_libraries_of_the_page(table: TableInFolder) -> None:
    """Without the extra, --json works, and the page names the extra."""
    without = "import sys; sys.modules['vl_convert'] = sys.modules['jinja2'] = None; from anabranch.cli.main import run; run()"

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", without, "report", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    numbers = call(table.path, "--json")
    assert numbers.returncode == 0, numbers.stderr
    assert '"hiddenRows": 2' in numbers.stdout
    page = call(table.path)
    assert page.returncode == 1
    assert "pip install 'anabranch[report]'" in " ".join(page.stderr.split())
    assert page.stdout == ""


def test_the_document_has_all_parts(run: Run, table: TableInFolder) -> None:
    document = run("report", table.path, "--json").document
    assert {"table", "totals", "advice", "history", "files", "maintenance", "layout", "log", "schema", "access"} <= set(
        document
    )
    assert [commit["version"] for commit in document["history"]["commits"]] == [3, 2, 1, 0]
    fewer = run("report", table.path, "--json", "--limit", 2).document
    assert [commit["version"] for commit in fewer["history"]["commits"]] == [3, 2]


def test_a_folder_without_a_table(run: Run, tmp_path: Path) -> None:
    outcome = run("report", tmp_path, "--json")
    assert outcome.exit_code == 1
    assert outcome.document["error"]["condition"] == "DELTA_MISSING_DELTA_TABLE"


def test_a_report_needs_nothing_that_holds_a_session() -> None:
    program = (
        "import sys; from anabranch.table_report.report_of_table import report_on; "
        "from anabranch.table_report.report_file import TableReport; print(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    spark = {name for name in loaded if name.startswith("anabranch.spark.")} - {
        "anabranch.spark.session",
        "anabranch.spark.session.session_settings",
        "anabranch.spark.session.table_identifiers",
    }
    assert spark == set()
