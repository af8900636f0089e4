"""Numbers, sizes and times as text, and strings of a log without characters that a terminal would obey."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

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
