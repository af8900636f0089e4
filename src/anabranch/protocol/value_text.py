"""Values as text: dates and timestamps, floating-point numbers as Java prints them, durations as Spark writes them."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any, Final

import numpy as np

from anabranch.protocol.time_zones import UTC, FixedOffset, TimeZone

# Dates and timestamps as text, beyond the years that `datetime` knows.
#
# Counted as Spark counts them: days and microseconds since 1970-01-01 in the proleptic Gregorian calendar.
# All functions raise ValueError for text or numbers that do not fit.


MICROSECONDS_PER_SECOND: Final = 1_000_000
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_UTC: Final = datetime.UTC
_DATE: Final = r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?)?"
_TIME: Final = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?)?"
_DATE_TEXT: Final = re.compile(rf"{_DATE}(?:[ T].*)?")
_TIMESTAMP_TEXT: Final = re.compile(rf"{_DATE}(?:[ T]{_TIME}\s*(?P<zone>.*))?")
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_ZERO_OFFSETS: Final = frozenset({"Z", "UTC", "GMT", "UT", "UCT"})


def parse_days(text: str) -> int:
    """The day of a date such as `2024-01-31`; a time behind it is ignored, as in Spark's cast."""
    match = _DATE_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError("it is not a date")
    days = _days(match)
    if not -(2**31) <= days < 2**31:
        raise ValueError("it is out of range")
    return days


def parse_micros(text: str, zone: TimeZone) -> int:
    """Microseconds in UTC; text without an offset is local time in `zone`.

    The name of a region behind it raises ValueError: its offset depends on whose time zone data is used.
    """
    match = _match_timestamp(text)
    own = (match["zone"] or "").strip()
    return _checked((_offset(own) if own else zone).to_utc(_local_micros(match)))


def parse_local_micros(text: str) -> int:
    """Microseconds of a timestamp without time zone; a zone in the text is ignored."""
    return _checked(_local_micros(_match_timestamp(text)))


def format_days(days: int) -> str:
    """A date as `1970-01-01`; years beyond four digits get a sign."""
    return _signed(str(np.datetime64(days, "D")))


def format_utc_micros(micros: int) -> str:
    """A timestamp as `1970-01-01T00:00:00.123456Z`."""
    return _signed(str(np.datetime64(micros, "us"))) + "Z"


def format_local_micros(micros: int) -> str:
    """A timestamp as `1970-01-01 00:00:00.123456`, without zeros at the end of the fraction."""
    text = _signed(str(np.datetime64(micros, "us"))).replace("T", " ")
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def format_millis(micros: int) -> str:
    """A timestamp as `1970-01-01T00:00:00.123`; `micros` must be whole milliseconds."""
    return _signed(str(np.datetime64(micros // 1000, "ms")))


def date_to_days(value: datetime.date | np.datetime64 | int) -> int:
    """Days since 1970-01-01 of a date in any of these types; a whole number is days already."""
    match value:
        case np.datetime64():
            return int(value.astype("datetime64[D]").astype(np.int64))
        case datetime.datetime():
            raise ValueError("it is a timestamp")
        case datetime.date():
            return value.toordinal() - _EPOCH
        case _:
            return int(value)


def datetime_to_micros(value: datetime.datetime | np.datetime64 | int) -> int:
    """Microseconds since 1970-01-01 of a timestamp in any of these types.

    One with a zone is converted to UTC, one without is taken as it is; a whole number is microseconds already.
    """
    match value:
        case np.datetime64():
            return int(value.astype("datetime64[us]").astype(np.int64))
        case datetime.datetime():
            plain = value if value.tzinfo is None else value.astimezone(_UTC).replace(tzinfo=None)
            since = plain - datetime.datetime(1970, 1, 1)
            return (since.days * 86_400 + since.seconds) * MICROSECONDS_PER_SECOND + since.microseconds
        case _:
            return int(value)


def days_to_date(days: int) -> datetime.date | np.datetime64:
    """A `date`, or a `numpy.datetime64` for a year that `date` lacks."""
    try:
        return datetime.date.fromordinal(days + _EPOCH)
    except (ValueError, OverflowError):
        return np.datetime64(days, "D")


def micros_to_datetime(micros: int, *, utc: bool) -> datetime.datetime | np.datetime64:
    """A `datetime` (in UTC, or naive), or a `numpy.datetime64` for a year that `datetime` lacks."""
    try:
        plain = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return np.datetime64(micros, "us")
    return plain.replace(tzinfo=_UTC) if utc else plain


def _match_timestamp(text: str) -> re.Match[str]:
    match = _TIMESTAMP_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError("it is not a timestamp")
    return match


def _days(match: re.Match[str]) -> int:
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    # The calendar repeats every 400 years, 146,097 days.
    cycles, year_of_cycle = divmod(year, 400)
    try:
        ordinal = datetime.date(year_of_cycle + 400, month, day).toordinal()
    except ValueError:
        raise ValueError("there is no such day") from None
    return ordinal - _EPOCH + (cycles - 1) * 146_097


def _local_micros(match: re.Match[str]) -> int:
    hour, minute, second = int(match["hour"] or 0), int(match["minute"] or 0), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("there is no such time of day")
    fraction = int((match["fraction"] or "").ljust(6, "0")[:6])
    seconds = _days(match) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * MICROSECONDS_PER_SECOND + fraction


def _offset(text: str) -> FixedOffset:
    if text.upper() in _ZERO_OFFSETS:
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no offset from UTC")
    sign, hours, minutes, seconds = match.groups()
    offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if offset > 18 * 3600:
        raise ValueError(f"{text!r} is too far from UTC")
    return FixedOffset((-offset if sign == "-" else offset) * MICROSECONDS_PER_SECOND)


def _checked(micros: int) -> int:
    if not LONG_MIN < micros <= LONG_MAX:
        raise ValueError("it is out of range")
    return micros


def _signed(text: str) -> str:
    """NumPy's text with the sign and four digits of ISO 8601.

    NumPy writes a year beyond 9999 without its `+`, and pads years before Christ to four characters with the sign.
    """
    if text.startswith("-"):
        year, _, rest = text[1:].partition("-")
        return f"-{year.rjust(4, '0')}-{rest}"
    return f"+{text}" if text.index("-") > 4 else text


# Floating-point numbers as Java prints them, which is how Spark casts them to strings.


def java_float_text(value: float, *, single: bool = False) -> str:
    """A number as `1.0`, `1.0E10`, `-0.0`, `NaN` or `Infinity`, with the fewest digits that parse to the same number.

    `single` is for 32-bit floats.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number: np.floating[Any] = np.float32(value) if single else np.float64(value)
    if number == 0 or 1e-3 <= abs(float(number)) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


# Durations as Spark writes them: `interval 30 days`, `2 weeks`, `1 day 12 hours`.


MILLISECONDS_MAX: Final = 2**63 // 1000
"""Spark counts microseconds in a long."""

_MICROSECONDS: Final[dict[str, int]] = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_INDEFINITE: Final = frozenset({"year", "month"})
_TERM: Final = re.compile(r"\s*([+-]?)\s*(\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})\s+([a-z]+?)s?(?=\s|$)")


def parse_interval_ms(text: str) -> int:
    """The milliseconds of an interval, rounded down; the word `interval` is optional, and letter case does not matter.

    Raises ValueError for months and years, whose length varies, for negative durations and for
    anything that is no interval.
    """
    rest = text.strip().lower()
    if rest == "interval" or rest.startswith("interval "):
        rest = rest.removeprefix("interval")
    if not rest.strip():
        raise ValueError("it is empty")
    total = sum(_terms(rest))
    if total < 0:
        raise ValueError("it is negative")
    if (milliseconds := int(total // 1000)) >= MILLISECONDS_MAX:
        raise ValueError("it is too long")
    return milliseconds


def _terms(text: str) -> list[Decimal]:
    terms: list[Decimal] = []
    position = 0
    while text[position:].strip():
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"{text[position:].strip()!r} is not a number and a unit")
        sign, number, unit = match.groups()
        terms.append(_microseconds(number, unit) * (-1 if sign == "-" else 1))
        position = match.end()
    return terms


def _microseconds(number: str, unit: str) -> Decimal:
    if unit in _INDEFINITE:
        raise ValueError(f"a {unit} has no fixed length")
    if unit not in _MICROSECONDS:
        raise ValueError(f"{unit!r} is no unit of time")
    if "." in number and unit != "second":
        raise ValueError("only seconds may have a fraction")
    return Decimal(number) * _MICROSECONDS[unit]
