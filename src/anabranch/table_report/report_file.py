"""A report as users have it: numbers, a page in a file, or a frame in a notebook."""

from __future__ import annotations

import html
import webbrowser
from pathlib import Path
from typing import Any

import msgspec

from anabranch.table_report.report_page import page_of
from anabranch.table_report.report_values import ReportData

FRAME_PIXELS = 640


class TableReport:
    """The state of a table at one version, from its log.

    `save` writes it as an HTML file, `document` returns the numbers, and a notebook shows the page in a frame.
    """

    def __init__(self, data: ReportData) -> None:
        self.data = data

    def __repr__(self) -> str:
        table = self.data.table
        return f"<report on {table.name or table.location}, version {table.version}>"

    def document(self) -> dict[str, Any]:
        """All numbers of the report in JSON's types. `anabranch report --json` prints the same."""
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.data))
        return document

    def html(self) -> str:
        """The page. Raises `ReportExtraMissingError`."""
        return page_of(self.data)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, over one that exists, and return its absolute path.

        Raises `ReportExtraMissingError`.
        """
        page = self.html()
        file = Path(path).expanduser().absolute()
        file.write_text(page, encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return (
            f'<iframe title="Report on a table" sandbox srcdoc="{page}" '
            f'style="width:100%;height:{FRAME_PIXELS}px;border:0"></iframe>'
        )


def show_in_browser(file: Path) -> bool:
    """Open the file in the user's browser; False where there is none."""
    return webbrowser.open(file.as_uri())
