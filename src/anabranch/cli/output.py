"""The output of commands: text through rich, or one JSON document; errors in both forms."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.text_format import harmless_json, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 180
"""The width for a pipe or a file, which does not wrap lines."""


@contextlib.contextmanager
def reporting(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Turn errors of the block into a message and exit code 1; with `debug` the traceback comes first."""
    import typer  # noqa: PLC0415 - importing this module for its tables must not import the command line

    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        error_console().print("Stopped.", style="red")
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            error_console().print_exception()
        _print_error(error, as_json=as_json, debug=debug)
        raise typer.Exit(1) from None


def show_progress(*, as_json: bool) -> None:
    """Show what the command does while it runs, in a terminal, unless a program reads the output."""
    if not as_json:
        from anabranch.progress.progress_display import install_display  # noqa: PLC0415 - few commands show progress

        install_display()


class Report(Protocol):
    """What a command has to say, as one value."""

    def document(self) -> dict[str, Any]:
        """The report in JSON's terms."""

    def print_to(self, out: Console) -> None:
        """Print the report as text."""


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the report as one JSON document, or as text on standard output."""
    if as_json:
        print_json(report.document())
    else:
        report.print_to(console())


def print_json(document: Any) -> None:
    """Print the whole output of a command under `--json`."""
    text = json.dumps(jsonable(document), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(harmless_json(text) + "\n")


def jsonable(value: Any) -> Any:
    """The value in JSON's types: numbers that JSON lacks, dates, bytes and decimals become strings."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(below) for key, below in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Sequence | set | frozenset):
        return [jsonable(below) for below in value]
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else str(value)


def console() -> Console:
    """The console on standard output."""
    return _console(stderr=False)


def error_console() -> Console:
    """The console on standard error, for messages and progress."""
    return _console(stderr=True)


def table_of(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """An empty table with these columns; those in `right` are aligned to the right, for numbers."""
    from rich import box  # noqa: PLC0415 - JSON needs no rich
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def facts_table() -> Table:
    """An empty table of two columns: a name and its value."""
    from rich.table import Table  # noqa: PLC0415 - JSON needs no rich

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _console(*, stderr: bool) -> Console:
    from rich.console import Console  # noqa: PLC0415 - JSON needs no rich

    class PlainConsole(Console):
        """Escapes control characters in all text that it renders, in cells and headings too."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str("\n".join(plain(line) for line in text.split("\n")), **options)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    return PlainConsole(stderr=stderr, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def _message_of_spark(error: Exception) -> str | None:
    """The message of an error that Spark raises for what a user has written, without Java's frames; None for others."""
    errors = sys.modules.get("pyspark.errors")
    if errors is None or not isinstance(error, errors.PySparkException) or error.getCondition() is None:
        return None
    # `str(error)` may have a plan and Java's frames behind the message.
    return str(error.getMessage() or error).partition("\n\nJVM stacktrace:")[0].strip()


def _print_error(error: Exception, *, as_json: bool, debug: bool) -> None:
    from anabranch.errors.base import DeltaError  # noqa: PLC0415 - slow to import, and `--help` needs no errors

    is_ours = isinstance(error, DeltaError)
    sparks = _message_of_spark(error)
    message = error.explain() if isinstance(error, DeltaError) else sparks or f"{type(error).__name__}: {error}"
    if as_json:
        condition = error.condition if isinstance(error, DeltaError) else type(error).__name__
        facts = error.facts() if isinstance(error, DeltaError) else {}
        print_json({"error": {"condition": condition, "message": message, "facts": facts}})
        return
    if not is_ours and not sparks:
        hint = "" if debug else " Run it again with --debug to see where."
        message = f"This should not have happened: {message}.{hint}"
    for line in message.splitlines():
        error_console().print(plain(line), style="red")
