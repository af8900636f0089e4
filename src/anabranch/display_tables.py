"""Tables of texts as HTML and as plain text, for objects of ours in notebooks and terminals.

Values come from tables of users, so nothing of them is markup, or a command of the terminal.
"""

from __future__ import annotations

import html
import traceback
from collections.abc import Sequence
from types import TracebackType

from anabranch.text_format import plain

CELL_CHARACTERS_MAX = 100
"""Length of a value in a table of plain text; HTML wraps long ones."""


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns aligned."""
    cells = [[plain(cell, CELL_CHARACTERS_MAX) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head."""
    head = "".join(f'<th scope="col" style="text-align: left">{html.escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(text) for text in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(facts: Sequence[tuple[str, str]]) -> str:
    """A table of names and values."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{html.escape(name)}</th>{_cell(value)}</tr>'
        for name, value in facts
    )
    return f"<table><tbody>{rows}</tbody></table>"


def html_paragraph(text: str, *, strong: bool = False) -> str:
    """A paragraph of text."""
    escaped = html.escape(text)
    return f"<p><strong>{escaped}</strong></p>" if strong else f"<p>{escaped}</p>"


_NOT_OF_USERS = {"anabranch", "pyspark", "py4j", "IPython"}


def frames_of_user(trace: TracebackType | None) -> list[str]:
    """The lines of the traceback for code that is neither ours nor PySpark's."""
    frames = zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=True)
    names = ((str(frame.f_globals.get("__name__")).partition(".")[0], summary) for (frame, _), summary in frames)
    shown = traceback.format_list([summary for name, summary in names if name not in _NOT_OF_USERS])
    return [line for text in shown for line in text.rstrip("\n").split("\n")]


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{html.escape(text)}</td>'
