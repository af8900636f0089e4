"""How large a value an expression in a table's metadata can make, of how short a text it may be.

Spark works out on the driver what depends on no column, so a few characters could fill its memory. What a call
multiplies is bounded: by numbers that must be written out, and by an estimate that is kept while the text is read.
"""

from __future__ import annotations

import re
from typing import Final

from anabranch.predicates.sql_lexer import Token, TokenKind, string_value
from anabranch.predicates.stored_patterns import check_pattern
from anabranch.predicates.stored_sql_words import UnreadableTextError

VALUE_SIZE_MAX: Final = 10_000_000
"""By the estimate, in characters."""
COLUMN_SIZE: Final = 100
LENGTH_MAX: Final = 10_000
"""A length that a text or an array is padded to, or a position at which something is put in."""

_LENGTHS: Final = {"lpad": 1, "rpad": 1, "array_insert": 1, "format_number": 1}
"""Which argument is the length, counted from 0."""
_FORMATS: Final = frozenset({"format_string", "printf"})
_WIDE: Final = re.compile(r"%[^a-zA-Z%]*\d{4}")
_PATTERNS: Final = {
    "regexp_count": 1,
    "regexp_extract": 1,
    "regexp_extract_all": 1,
    "regexp_instr": 1,
    "regexp_like": 1,
    "regexp_replace": 1,
    "regexp_substr": 1,
    "split": 1,
    "str_to_map": 1,
}
"""Which argument is a regular expression; `str_to_map` has another one behind it."""
_PATTERN_OPERATORS: Final = frozenset({"RLIKE", "REGEXP"})
_DOUBLING: Final = frozenset({"hex", "base64", "to_json"})
_MULTIPLYING: Final = frozenset(
    {
        *("replace", "regexp_replace", "array_join", "concat_ws", "transform", "transform_keys", "transform_values"),
        *("zip_with", "map_zip_with", "filter", "map_filter", "exists", "forall", "aggregate", "reduce", "array_sort"),
    }
)
"""One argument may stand in the result, or be worked out, as often as another is long."""
_GATHERING: Final = (
    _MULTIPLYING
    | _DOUBLING
    | _FORMATS
    | {"concat", "overlay", "array", "flatten", "struct", "named_struct", "map", "map_concat", "map_from_arrays"}
    | {"array_union", "array_append", "array_prepend", "array_insert", "arrays_zip", "lpad", "rpad", "array_compact"}
) - {"filter", "map_filter", "exists", "forall"}
"""Their result can hold an argument twice. Where each round starts from the last one's result, that is exponential."""
_ROUNDS: Final = frozenset({"aggregate", "reduce"})


class Growth:
    """The estimate, kept in step with the reader: one entry for each parenthesis that is open."""

    def __init__(self) -> None:
        self._open: list[tuple[str, list[int]]] = [("", [0])]

    def opened(self, name: str) -> None:
        """A parenthesis, of the function `name` or of none."""
        if name in _GATHERING:
            self.check_gathers(name)
        self._open.append((name, [0]))

    def check_gathers(self, what: str) -> None:
        """Raises `UnreadableTextError` where `what` would put a value together round by round."""
        if any(name in _ROUNDS and len(arguments) > 2 for name, arguments in self._open):
            raise UnreadableTextError(f"{what} in the rounds of an aggregation can double a value each time")

    def next_argument(self) -> None:
        self._open[-1][1].append(0)

    def add(self, size: int) -> None:
        self._open[-1][1][-1] += size

    def closed(self) -> None:
        name, arguments = self._open.pop()
        size = sum(arguments)
        if name in _MULTIPLYING:
            size = 1
            for argument in arguments:
                size *= max(1, argument)
        elif name in _DOUBLING:
            size *= 2
        if size >= VALUE_SIZE_MAX:
            raise UnreadableTextError(f"{name}(…) could make a value that fills the memory")
        self.add(size)

    def length(self, number: int) -> None:
        """A length that was written out."""
        if number > LENGTH_MAX:
            raise UnreadableTextError(f"a length of {number} is more than {LENGTH_MAX}")
        self.add(number)


def check_arguments(tokens: list[Token], at: int, name: str) -> int:
    """What the function `name`, whose parenthesis stands at `at`, must have written out: the length, or 0 for none.

    Raises `UnreadableTextError`.
    """
    if name in _FORMATS:
        text = _written_text(tokens, at + 1)
        if text is None or _WIDE.search(text):
            raise UnreadableTextError(f"{name} needs a format that is written out, without widths above 999")
    place = _PATTERNS.get(name)
    if place is not None:
        starts = _argument_starts(tokens, at)
        for start in starts[place : place + 2 if name == "str_to_map" else place + 1]:
            check_written_pattern(tokens, start)
    place = _LENGTHS.get(name)
    starts = _argument_starts(tokens, at) if place is not None else []
    if place is None or len(starts) <= place:
        return 0
    return _written_length(tokens, starts[place], name)


def check_operator(tokens: list[Token], at: int) -> None:
    """What stands behind an operator that takes a regular expression. Raises `UnreadableTextError`."""
    if tokens[at].word in _PATTERN_OPERATORS:
        check_written_pattern(tokens, at + 1)


def check_written_pattern(tokens: list[Token], at: int) -> None:
    """The regular expression that begins there. Raises `UnreadableTextError`."""
    if tokens[at].word in {"ANY", "SOME", "ALL"} or (pattern := _written_text(tokens, at)) is None:
        raise UnreadableTextError("a regular expression must be written out, as one text in quotes")
    check_pattern(pattern)


def _written_text(tokens: list[Token], at: int) -> str | None:
    """The text of a literal that stands alone; Spark joins those that stand side by side."""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    if tokens[at].kind is not TokenKind.STRING or (following and following.kind is TokenKind.STRING):
        return None
    if following and following.text in ("||", "::", "["):
        return None
    return string_value(tokens[at].text)


def _written_length(tokens: list[Token], at: int, name: str) -> int:
    if name == "format_number" and _written_text(tokens, at) is not None:
        return 0
    minus = tokens[at].text == "-" and name == "array_insert"
    number, after = tokens[at + minus], tokens[at + minus + 1]
    if number.kind is not TokenKind.NUMBER or not number.text.isdecimal() or after.text not in (",", ")"):
        raise UnreadableTextError(f"{name} needs a length that is written out, as a number up to {LENGTH_MAX}")
    return min(int(number.text[:20]), 10**18)


def _argument_starts(tokens: list[Token], at: int) -> list[int]:
    """Where the arguments of the call begin whose parenthesis stands at `at`."""
    starts, depth = [at + 1], 0
    for place in range(at + 1, len(tokens)):
        if tokens[place].kind is not TokenKind.SYMBOL:
            continue
        sign = tokens[place].text
        if sign in ("(", "["):
            depth += 1
        elif sign in (")", "]"):
            if depth == 0:
                break
            depth -= 1
        elif sign == "," and depth == 0:
            starts.append(place + 1)
    return starts
