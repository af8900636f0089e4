"""The output of commands: text through rich, or one JSON document; errors in both forms."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType, VariantVal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Numbers, sizes and times as text, and strings of a log without characters that a terminal would obey.


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories of characters that a terminal may obey, or that reorder the text around them."""


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """`812 B`, `1.2 MB`; a kB is 1,000 bytes."""
    value = float(number)
    for unit in _UNITS:
        if abs(value) < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    if unit == "B":
        return f"{number} B"
    return f"{value:.1f} {unit}" if abs(value) < 99.5 else f"{value:.0f} {unit}"


def local_time(timestamp_ms: int) -> str:
    """The time in this machine's zone, with the zone's name; a time outside the calendar as its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ms} ms since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z")


def iso_time(timestamp_ms: int) -> str | None:
    """The time in ISO 8601, in UTC with milliseconds; None for a time outside the calendar."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def listed(parts: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def plain(text: Any, limit: int | None = None) -> str:
    """The text on one line, with escapes for characters that a terminal would obey, cut to `limit` characters."""
    shown = "".join(_harmless(character) for character in str(text))
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def harmless_json(text: str) -> str:
    """The same JSON with such characters escaped; they occur only inside its strings."""
    return "".join(
        character if character == "\n" or _harmless(character) == character else _json_escape(character)
        for character in text
    )


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _harmless(character: str) -> str:
    if character == " " or (character.isascii() and character.isprintable()):
        return character
    if unicodedata.category(character) not in _HARMFUL:
        return character
    return character.encode("unicode_escape").decode("ascii")


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


def _print_error(error: Exception, *, as_json: bool, debug: bool) -> None:
    from anabranch.errors.base import DeltaError  # noqa: PLC0415 - slow to import, and `--help` needs no errors

    is_ours = isinstance(error, DeltaError)
    message = error.explain() if isinstance(error, DeltaError) else f"{type(error).__name__}: {error}"
    if as_json:
        condition = error.condition if isinstance(error, DeltaError) else type(error).__name__
        facts = error.facts() if isinstance(error, DeltaError) else {}
        print_json({"error": {"condition": condition, "message": message, "facts": facts}})
        return
    if not is_ours:
        hint = "" if debug else " Run it again with --debug to see where."
        message = f"This should not have happened: {message}.{hint}"
    for line in message.splitlines():
        error_console().print(plain(line), style="red")


# Values of table columns, for JSON and for a terminal.


def json_values(column: pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """The values in JSON's types; values of other types become strings."""
    return [jsonable(_plain_value(value, data_type)) for value in _to_python(column)]


def cells(column: pa.ChunkedArray, data_type: DataType, limit: int) -> list[str]:
    """The values as strings of at most `limit` characters; timestamps in this machine's zone."""
    return [plain(_cell(_plain_value(value, data_type)), limit) for value in _to_python(column)]


def _to_python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        # Python's calendar lacks these years.
        return list(pc.cast(column, pa.string()).to_pylist())


def _plain_value(value: Any, data_type: DataType) -> Any:
    """The value with structs and maps as dicts, variants decoded, and timestamps in this machine's zone."""
    if value is None:
        return None
    match data_type:
        case VariantType() if isinstance(value, Mapping):
            return json.loads(VariantVal(value["value"], value["metadata"]).toJson())
        case StructType() if isinstance(value, Mapping):
            return {field.name: _plain_value(value.get(field.name), field.dataType) for field in data_type.fields}
        case ArrayType() if isinstance(value, list):
            return [_plain_value(element, data_type.elementType) for element in value]
        case MapType() if isinstance(value, list):
            return {
                _key(_plain_value(key, data_type.keyType)): _plain_value(below, data_type.valueType)
                for key, below in value
            }
        case TimestampType() if isinstance(value, datetime):
            return _in_local_zone(value)
    return value


def _key(value: Any) -> str:
    return value if isinstance(value, str) else str(jsonable(value))


def _in_local_zone(moment: datetime) -> datetime:
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(jsonable(value), ensure_ascii=False)
    return str(jsonable(value)) if isinstance(value, bytes | bytearray | date) else str(value)
