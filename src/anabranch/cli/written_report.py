"""The page that `anabranch report` writes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.progress.progress_events import begin_phase
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.table_report.report_file import TableReport, show_in_browser
from anabranch.table_report.report_of_table import report_on
from anabranch.text_format import plain, size

if TYPE_CHECKING:
    from rich.console import Console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """A page that was written."""

    path: Path
    size_bytes: int
    opened: bool | None
    """Whether a browser shows it; None where that was not requested."""

    def document(self) -> dict[str, Any]:
        return {"path": str(self.path), "sizeInBytes": self.size_bytes, "opened": self.opened}

    def print_to(self, out: Console) -> None:
        out.print(f"Wrote {plain(self.path)} ({size(self.size_bytes)}).")
        if self.opened is False:
            out.print("No browser could be started; open the file in one.", style="yellow")


def read_report(snapshots: SnapshotCache, *, limit: int | None) -> TableReport:
    """The report on the newest version. Raises as `report_on`."""
    return TableReport(report_on(snapshots, SystemClock(), limit=limit))


def write_report(report: TableReport, output: str | None, *, open_page: bool) -> WrittenReport:
    """Write the page to `output`, or to a file named after the table in the current folder.

    Raises `ReportExtraMissingError`, `InvalidArgumentError` for a file that cannot be written.
    """
    path = output or f"{Path(report.data.table.location).name or 'table'}-report.html"
    begin_phase("write the page")
    try:
        file = report.save(path)
    except OSError as error:
        problem = f"the file cannot be written: {error.strerror or error}"
        raise InvalidArgumentError(argument="--output", value=path, problem=problem) from None
    opened = show_in_browser(file) if open_page else None
    return WrittenReport(path=file, size_bytes=file.stat().st_size, opened=opened)
