"""Bounds on the size of the values that an expression in a table's metadata computes.

Spark computes on the driver what depends on no column, so a few characters of SQL could fill its memory. Two things
bound the result of a call: lengths must be literals, and an estimate of the size is kept while the text is read.
"""

from __future__ import annotations

import re
from typing import Final

from anabranch.predicates.sql_lexer import Token, TokenKind, string_value
from anabranch.predicates.stored_patterns import check_pattern
from anabranch.predicates.stored_sql_tokens import UnreadableTextError

VALUE_SIZE_MAX: Final = 10_000_000
"""The largest estimate that is allowed, in characters."""
COLUMN_SIZE: Final = 100
LENGTH_MAX: Final = 10_000
"""The largest length to which a text or an array is padded, or position at which an element is inserted."""

_LENGTHS: Final = {"lpad": 1, "rpad": 1, "array_insert": 1, "format_number": 1}
"""The index of the argument that is the length, by function."""
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
"""The index of the argument that is a regular expression, by function; the next one of `str_to_map` is one, too."""
_PATTERN_OPERATORS: Final = frozenset({"RLIKE", "REGEXP"})
_DOUBLING: Final = frozenset({"hex", "base64", "to_json"})
_MULTIPLYING: Final = frozenset(
    {
        *("replace", "regexp_replace", "array_join", "concat_ws", "transform", "transform_keys", "transform_values"),
        *("zip_with", "map_zip_with", "filter", "map_filter", "exists", "forall", "aggregate", "reduce", "array_sort"),
    }
)
"""Functions whose result may contain, or evaluate, one argument as often as another is long."""
_GATHERING: Final = (
    _MULTIPLYING
    | _DOUBLING
    | _FORMATS
    | {"concat", "overlay", "array", "flatten", "struct", "named_struct", "map", "map_concat", "map_from_arrays"}
    | {"array_union", "array_append", "array_prepend", "array_insert", "arrays_zip", "lpad", "rpad", "array_compact"}
) - {"filter", "map_filter", "exists", "forall"}
"""Functions whose result can hold an argument twice. Where each call starts with the result of the last one, as in an
aggregation, the size grows exponentially."""
_AGGREGATIONS: Final = frozenset({"aggregate", "reduce"})


class SizeEstimate:
    """An estimate of the size of the value, in characters, updated token by token: one entry per open parenthesis."""

    def __init__(self) -> None:
        self._open: list[tuple[str, list[int]]] = [("", [0])]

    def open(self, name: str) -> None:
        """Begin a parenthesis of the function `name`; an empty name for one of no function."""
        if name in _GATHERING:
            self.check_not_in_aggregation(name)
        self._open.append((name, [0]))

    def check_not_in_aggregation(self, function: str) -> None:
        """Raises `UnreadableTextError` where an aggregation would call `function` for each element."""
        if any(name in _AGGREGATIONS and len(arguments) > 2 for name, arguments in self._open):
            raise UnreadableTextError(f"{function} in an aggregation can double a value for each element")

    def next_argument(self) -> None:
        """Begin another argument of the innermost parenthesis."""
        self._open[-1][1].append(0)

    def add(self, size: int) -> None:
        """Add to the size of the current argument."""
        self._open[-1][1][-1] += size

    def close(self) -> None:
        """End the innermost parenthesis. Raises `UnreadableTextError` for a value that is too large."""
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

    def add_length(self, number: int) -> None:
        """Add a length that is a literal. Raises `UnreadableTextError` for one that is too large."""
        if number > LENGTH_MAX:
            raise UnreadableTextError(f"a length of {number} is more than {LENGTH_MAX}")
        self.add(number)


def check_arguments(tokens: list[Token], at: int, name: str) -> int:
    """The length that a call of `name` has as a literal, or 0 for none. Its parenthesis is the token at `at`.

    Raises `UnreadableTextError` where a format, regular expression or length is not a literal.
    """
    if name in _FORMATS:
        text = _written_text(tokens, at + 1)
        if text is None or _WIDE.search(text):
            raise UnreadableTextError(f"{name} needs a format that is written out, without widths above 999")
    index = _PATTERNS.get(name)
    if index is not None:
        starts = _argument_starts(tokens, at)
        for start in starts[index : index + 2 if name == "str_to_map" else index + 1]:
            check_written_pattern(tokens, start)
    index = _LENGTHS.get(name)
    starts = _argument_starts(tokens, at) if index is not None else []
    if index is None or len(starts) <= index:
        return 0
    return _written_length(tokens, starts[index], name)


def check_operator(tokens: list[Token], at: int) -> None:
    """Check the regular expression after the operator at `at`, if it takes one. Raises `UnreadableTextError`."""
    if tokens[at].word in _PATTERN_OPERATORS:
        check_written_pattern(tokens, at + 1)


def check_written_pattern(tokens: list[Token], at: int) -> None:
    """Check the regular expression at `at`, which must be a literal. Raises `UnreadableTextError`."""
    if tokens[at].word in {"ANY", "SOME", "ALL"} or (pattern := _written_text(tokens, at)) is None:
        raise UnreadableTextError("a regular expression must be written out, as one text in quotes")
    check_pattern(pattern)


def _written_text(tokens: list[Token], at: int) -> str | None:
    """The value of a string literal; None for other tokens, and for several literals in a row, which Spark joins."""
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
    """The indices at which the arguments of a call begin. Its parenthesis is the token at `at`."""
    starts, depth = [at + 1], 0
    for index in range(at + 1, len(tokens)):
        if tokens[index].kind is not TokenKind.SYMBOL:
            continue
        symbol = tokens[index].text
        if symbol in ("(", "["):
            depth += 1
        elif symbol in (")", "]"):
            if depth == 0:
                break
            depth -= 1
        elif symbol == "," and depth == 0:
            starts.append(index + 1)
    return starts
