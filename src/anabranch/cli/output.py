"""What a command prints: for people through rich, for programs as one JSON document, errors in either way."""

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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType, VariantVal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Numbers, sizes and times as people read them, and texts of a log made harmless for a terminal.


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_HARMFUL = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Categories of characters that a terminal may obey, or that reorder what stands around them."""


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """`812 B`, `1.2 MB`; thousands, not 1,024s."""
    value = float(number)
    for unit in _UNITS:
        if abs(value) < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    if unit == "B":
        return f"{number} B"
    return f"{value:.1f} {unit}" if abs(value) < 99.5 else f"{value:.0f} {unit}"


def local_time(timestamp_ms: int) -> str:
    """In the zone of this machine, which is named; a time that no calendar holds as its number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ms} ms since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z")


def iso_time(timestamp_ms: int) -> str | None:
    """In UTC with milliseconds, for programs; None for a time that no calendar holds."""
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
    """The text on one line without what a terminal would obey, cut to `limit` characters."""
    shown = "".join(_harmless(character) for character in str(text))
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def harmless_json(text: str) -> str:
    """JSON that means the same and shows no such character; they can only stand within its strings."""
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
"""Columns for a pipe or a file, which do not wrap."""


@contextlib.contextmanager
def reporting(*, as_json: bool, debug: bool) -> Iterator[None]:
    """Turns errors of the block into a message and exit code 1; with `debug` the traceback comes first."""
    import typer  # noqa: PLC0415 - whoever imports this module for its tables needs no command line

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
        _tell(error, as_json=as_json, debug=debug)
        raise typer.Exit(1) from None


def print_json(document: Any) -> None:
    """The whole output of a command under `--json`."""
    text = json.dumps(jsonable(document), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(harmless_json(text) + "\n")


def jsonable(value: Any) -> Any:
    """The value in JSON's terms: numbers that JSON lacks, dates, bytes and decimals become text."""
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
    """Standard output."""
    return _console(stderr=False)


def error_console() -> Console:
    """Standard error, for messages and progress."""
    return _console(stderr=True)


def table_of(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """An empty table for people; columns named in `right` hold numbers."""
    from rich import box  # noqa: PLC0415 - JSON needs no rich
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def facts_table() -> Table:
    """Rows of a name and what there is to say of it."""
    from rich.table import Table  # noqa: PLC0415 - JSON needs no rich

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _console(*, stderr: bool) -> Console:
    from rich.console import Console  # noqa: PLC0415 - JSON needs no rich

    class PlainConsole(Console):
        """Whatever text comes this way, in cells and headings too: nothing of it is for the terminal to obey."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str("\n".join(plain(line) for line in text.split("\n")), **options)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    return PlainConsole(stderr=stderr, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def _tell(error: Exception, *, as_json: bool, debug: bool) -> None:
    from anabranch.errors.base import DeltaError  # noqa: PLC0415 - `--help` shall not wait for it

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


# Values of table columns, as JSON has them and as a terminal shows them.


def json_values(column: pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """The values in JSON's terms; what JSON has no type for is text."""
    return [jsonable(_plain_value(value, data_type)) for value in _to_python(column)]


def cells(column: pa.ChunkedArray, data_type: DataType, limit: int) -> list[str]:
    """The values as texts of at most `limit` characters; timestamps in the zone of this machine."""
    return [plain(_cell(_plain_value(value, data_type)), limit) for value in _to_python(column)]


def _to_python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        # Dates and times beyond the years that Python's calendar has.
        return list(pc.cast(column, pa.string()).to_pylist())


def _plain_value(value: Any, data_type: DataType) -> Any:
    """Structs and maps as dicts, variants as what they hold, timestamps in the zone of this machine."""
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
