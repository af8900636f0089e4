"""The layout of `--help`: paragraphs as wide as the terminal, and examples at the end."""

from __future__ import annotations

import inspect

import typer


def examples(*lines: str) -> str:
    """The last paragraph of a command's help, with these examples."""
    return "\b\nExamples:\n" + "\n".join(f"  anabranch {line}" for line in lines)


def join_lines(app: typer.Typer) -> None:
    """Put each paragraph of a command's docstring on one line, since typer keeps the lines of the source."""
    for command in app.registered_commands:
        text = inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
