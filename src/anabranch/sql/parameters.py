"""The values of a call of `spark.sql` for the parameters in its text: `:name` and `?`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnboundParameterError, UnsupportedParameterError
from anabranch.predicates.sql_lexer import TokenKind, tokenize
from anabranch.sql.literals import literal, typed_literal

_OPERAND_ENDS = frozenset({")", "]"})


@dataclasses.dataclass(frozen=True, slots=True)
class Marker:
    """A parameter in a text, with its position."""

    start: int
    end: int
    name: str | None
    """None for `?`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Values by name, or in the order of their markers."""

    named: Mapping[str, Any] | None = None
    positional: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, args: Any) -> Parameters:
        """The parameters of the argument `args` of `spark.sql`."""
        if args is None or isinstance(args, Mapping):
            return cls(named=args or None)
        return cls(positional=tuple(args) or None)

    @property
    def args(self) -> Any:
        """The argument `args` for `spark.sql`."""
        return self.named if self.positional is None else list(self.positional)

    def within(self, text: str, start: int, end: int) -> Parameters:
        """The parameters of a piece of `text`, by the number of markers before and in it."""
        if self.positional is None:
            return self
        positions = [marker.start for marker in markers(text) if marker.name is None]
        first = sum(position < start for position in positions)
        count = sum(start <= position < end for position in positions)
        return Parameters(positional=self.positional[first : first + count] or None)

    def followed_by(self, others: Parameters) -> Parameters:
        """The parameters of two pieces, the second after the first."""
        if self.positional is None or others.positional is None:
            return others if self.positional is None else self
        return Parameters(positional=(*self.positional, *others.positional))

    def without(self, numbers: Sequence[int]) -> Parameters:
        """The parameters without the `?` of these numbers."""
        if self.positional is None:
            return self
        kept = tuple(value for number, value in enumerate(self.positional) if number not in numbers)
        return Parameters(positional=kept or None)

    def literals(self, spark: SparkSession, text: str) -> list[tuple[Marker, str]]:
        """SQL for the values of the markers in `text`; none where the call has no parameters.

        Raises `UnboundParameterError` and `UnsupportedParameterError`.
        """
        if self.named is None and self.positional is None:
            return []
        values: list[tuple[Marker, str]] = []
        number = 0
        for marker in markers(text):
            if marker.name is not None and self.named is not None:
                if marker.name not in self.named:
                    raise UnboundParameterError(parameter=f":{marker.name}")
                value = self.named[marker.name]
            elif marker.name is None and self.positional is not None:
                if number >= len(self.positional):
                    raise UnboundParameterError(parameter=f"? number {number + 1}")
                value = self.positional[number]
                number += 1
            else:
                raise UnboundParameterError(parameter=f":{marker.name}" if marker.name else "?")
            values.append((marker, _sql(spark, value, marker)))
        return values


def markers(text: str) -> list[Marker]:
    """The parameters in `text`. A colon right after an operand extracts a field and is no parameter."""
    tokens = tokenize(text)
    parameters: list[Marker] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("?"):
            parameters.append(Marker(token.start, token.end, None))
        if not token.is_symbol(":") or index + 1 == len(tokens) or not tokens[index + 1].is_name:
            continue
        before = tokens[index - 1] if index else None
        behind_operand = (
            before is not None
            and before.end == token.start
            and (before.kind is not TokenKind.SYMBOL or before.text in _OPERAND_ENDS)
        )
        if not behind_operand and tokens[index + 1].kind is TokenKind.WORD:
            parameters.append(Marker(token.start, tokens[index + 1].end, tokens[index + 1].text))
    return parameters


def _sql(spark: SparkSession, value: Any, marker: Marker) -> str:
    written = literal(value)
    if written is None:
        # A Column, a list, a NumPy number: Spark knows the type.
        frame = spark.sql("SELECT :value AS value", args={"value": value})
        kind = frame.schema.fields[0].dataType
        row = frame.first()
        written = None if row is None else typed_literal(row[0], kind)
        if written is None:
            name = f":{marker.name}" if marker.name else "?"
            raise UnsupportedParameterError(parameter=name, value_type=kind.simpleString())
    return written
