"""Generation expressions of partition columns whose values bound the values of another column.

Only forms for which that is certain are recognised, the same ones as by Delta's jar. A column of another form lets no
file be skipped, and does no harm.
"""

from __future__ import annotations

import dataclasses
import enum
import re

from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    IntegralType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.predicates.stored_sql_tokens import UnreadableTextError, tokens_of


class Part(enum.Enum):
    """The part of its source that a generated value is."""

    VALUE = "all of it"
    DATE = "its date"
    YEAR = "its year"
    MONTH = "its month"
    DAY = "its day of the month"
    HOUR = "its hour"
    DATE_BEGIN = "the first day of its year, quarter, month or week"
    MOMENT_BEGIN = "the first moment of its year, … or microsecond"
    TEXT = "its year, month, day and hour as digits"
    PREFIX = "its first characters"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """How the value of a partition column is computed from one other column. It is NULL only for NULL, except that an
    empty text is stored as NULL.
    """

    part: Part
    source: ColumnPath
    source_type: DataType
    unit: str = ""
    """The unit of `DATE_BEGIN` and `MOMENT_BEGIN`: one of `YEAR`, `QUARTER`, `MONTH`, `WEEK`, `DAY` and so on."""
    digits: re.Pattern[str] | None = None
    """The form of a `TEXT` in the years 1600 to 9999, with groups `year`, `month`, `day`, `hour`."""


def derivation_of(text: str, data_type: DataType, schema: StructType) -> Derivation | None:
    """How `text`, the expression of a column of this type, uses another column; None for forms not recognised."""
    try:
        return _derivation(tokens_of(text)[:-1], data_type, schema)
    except UnreadableTextError:
        return None


_SourceColumn = tuple[ColumnPath, DataType]
_MOMENTS = (TimestampType, TimestampNTZType)
_DATED = (DateType, *_MOMENTS)
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MM", "MON"), "MONTH"),
    "WEEK": "WEEK",
}
_UNITS_OF_MOMENTS = {
    **_UNITS,
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}
_FIELDS = {"YEAR": Part.YEAR, "MONTH": Part.MONTH, "DAY": Part.DAY, "DAYOFMONTH": Part.DAY, "HOUR": Part.HOUR}
_PATTERN = re.compile(r"yyyy([^A-Za-z'\[\]{}#]?)(?:MM(?:([^A-Za-z'\[\]{}#]?)dd(?:([^A-Za-z'\[\]{}#]?)HH)?)?)?")


def _derivation(tokens: list[Token], data_type: DataType, schema: StructType) -> Derivation | None:
    while len(tokens) > 2 and tokens[0].is_symbol("(") and _closes_at(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    source = _column(tokens, schema)
    if source is not None:
        return _whole(source, data_type)
    calls = len(tokens) > 3 and tokens[0].kind is TokenKind.WORD and tokens[1].is_symbol("(")
    if not calls or _closes_at(tokens, 1) != len(tokens) - 1:
        return None
    return _of_call(tokens[0].word, _arguments(tokens[2:-1]), data_type, schema)


def _of_call(name: str, arguments: list[list[Token]], data_type: DataType, schema: StructType) -> Derivation | None:
    if name == "CAST" and [token.word for token in arguments[0][-2:]] == ["AS", "DATE"]:
        return _date(_column(arguments[0][:-2], schema), data_type) if len(arguments) == 1 else None
    if name in ("DATE", "TO_DATE") and len(arguments) == 1:
        return _date(_column(arguments[0], schema), data_type)
    if name in _FIELDS and len(arguments) == 1:
        return _field(_FIELDS[name], _dated(arguments[0], schema), data_type)
    if name == "TRUNC" and len(arguments) == 2:
        unit = _UNITS.get(_text(arguments[1]).upper())
        source = _dated(arguments[0], schema)
        if unit and source and isinstance(data_type, DateType):
            return Derivation(part=Part.DATE_BEGIN, source=source[0], source_type=source[1], unit=unit)
    if name == "DATE_TRUNC" and len(arguments) == 2:
        unit, source = _UNITS_OF_MOMENTS.get(_text(arguments[0]).upper()), _column(arguments[1], schema)
        if unit and source and isinstance(source[1], _DATED) and isinstance(data_type, TimestampType):
            return Derivation(part=Part.MOMENT_BEGIN, source=source[0], source_type=source[1], unit=unit)
    if name == "DATE_FORMAT" and len(arguments) == 2:
        return _formatted(_column(arguments[0], schema), _text(arguments[1]), data_type)
    if name in ("SUBSTRING", "SUBSTR") and len(arguments) == 3:
        return _prefix(_column(arguments[0], schema), arguments[1], data_type)
    return None


def _whole(source: _SourceColumn, data_type: DataType) -> Derivation | None:
    path, source_type = source
    ordered = isinstance(source_type, IntegralType | DateType | TimestampType | TimestampNTZType) or _is_text(
        source_type
    )
    if not ordered or source_type != data_type:
        return None
    return Derivation(part=Part.VALUE, source=path, source_type=source_type)


def _date(source: _SourceColumn | None, data_type: DataType) -> Derivation | None:
    if source is None or not isinstance(source[1], _DATED) or not isinstance(data_type, DateType):
        return None
    return Derivation(part=Part.DATE, source=source[0], source_type=source[1])


def _field(part: Part, source: _SourceColumn | None, data_type: DataType) -> Derivation | None:
    if source is None or not isinstance(data_type, IntegerType | LongType):
        return None
    if part is Part.HOUR and not isinstance(source[1], _MOMENTS):
        return None
    return Derivation(part=part, source=source[0], source_type=source[1])


def _formatted(source: _SourceColumn | None, pattern: str, data_type: DataType) -> Derivation | None:
    match = _PATTERN.fullmatch(pattern)
    if match is None or source is None or not isinstance(source[1], _DATED) or not _is_text(data_type):
        return None
    digits = re.escape(pattern)
    # Years of other lengths are written otherwise; some sessions count those before 1600 by the Julian calendar.
    digits = digits.replace("yyyy", r"(?P<year>1[6-9]\d\d|[2-9]\d{3})")
    for letters, group in (("MM", "month"), ("dd", "day"), ("HH", "hour")):
        digits = digits.replace(letters, rf"(?P<{group}>\d\d)")
    return Derivation(part=Part.TEXT, source=source[0], source_type=source[1], digits=re.compile(digits, re.ASCII))


def _prefix(source: _SourceColumn | None, position: list[Token], data_type: DataType) -> Derivation | None:
    from_first = [token.text for token in position] in (["0"], ["1"])
    if source is None or not from_first or not _is_text(source[1]) or not _is_text(data_type):
        return None
    return Derivation(part=Part.PREFIX, source=source[0], source_type=source[1])


def _dated(tokens: list[Token], schema: StructType) -> _SourceColumn | None:
    """A date or timestamp column, or the date of one."""
    column = _column(tokens, schema)
    if column is None:
        inner = _derivation(tokens, DateType(), schema)
        return (inner.source, inner.source_type) if inner and inner.part is Part.DATE else None
    return column if isinstance(column[1], _DATED) else None


def _column(tokens: list[Token], schema: StructType) -> _SourceColumn | None:
    """The column that the tokens name, and its type; None if they are something else."""
    names = [token.name for token in tokens[::2]]
    dots = all(token.is_symbol(".") for token in tokens[1::2])
    words = all(token.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME) for token in tokens[::2])
    path = _find_path(schema, tuple(names)) if tokens and len(tokens) % 2 and dots and words else None
    if path is None:
        return None
    data_type: DataType = schema
    for name in path:
        assert isinstance(data_type, StructType)
        data_type = data_type[name].dataType
    return path, data_type


def _is_text(data_type: DataType) -> bool:
    return type(data_type) is StringType and getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"


def _text(tokens: list[Token]) -> str:
    """The text of a plain string literal; empty for anything else."""
    if len(tokens) != 1 or tokens[0].kind is not TokenKind.STRING or tokens[0].text[:1] != "'":
        return ""
    inner = tokens[0].text[1:-1]
    return "" if "\\" in inner or "'" in inner else inner


def _arguments(tokens: list[Token]) -> list[list[Token]]:
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if token.is_symbol(",") and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _closes_at(tokens: list[Token], opening: int) -> int:
    """The index at which the parenthesis is closed; the number of tokens where it is not."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += tokens[index].is_symbol("(") - tokens[index].is_symbol(")")
        if depth == 0:
            return index
    return len(tokens)


def _find_path(schema: StructType, path: ColumnPath) -> ColumnPath | None:
    """`path` as the schema spells it; None where it names no field, or several."""
    spelled: list[str] = []
    data_type: DataType = schema
    for part in path:
        if not isinstance(data_type, StructType):
            return None
        names = [name for name in data_type.names if name == part] or [
            name for name in data_type.names if name.casefold() == part.casefold()
        ]
        if len(names) != 1:
            return None
        spelled.append(names[0])
        data_type = data_type[names[0]].dataType
    return tuple(spelled)
