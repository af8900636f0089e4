"""The values that a call of `spark.sql` gives for the parameters of its text: `:name` and `?`."""

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
    """Where a text has a parameter."""

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
        """What `spark.sql` was given as `args`."""
        if args is None or isinstance(args, Mapping):
            return cls(named=args or None)
        return cls(positional=tuple(args) or None)

    @property
    def args(self) -> Any:
        """To hand to `spark.sql`."""
        return self.named if self.positional is None else list(self.positional)

    def within(self, text: str, start: int, end: int) -> Parameters:
        """The parameters of a piece of `text`, by the number of markers before and in it."""
        if self.positional is None:
            return self
        places = [marker.start for marker in markers(text) if marker.name is None]
        first = sum(place < start for place in places)
        count = sum(start <= place < end for place in places)
        return Parameters(positional=self.positional[first : first + count] or None)

    def followed_by(self, others: Parameters) -> Parameters:
        """The parameters of two pieces put together."""
        if self.positional is None or others.positional is None:
            return others if self.positional is None else self
        return Parameters(positional=(*self.positional, *others.positional))

    def without(self, places: Sequence[int]) -> Parameters:
        """All but those `?` with these numbers."""
        if self.positional is None:
            return self
        kept = tuple(value for place, value in enumerate(self.positional) if place not in places)
        return Parameters(positional=kept or None)

    def literals(self, spark: SparkSession, text: str) -> list[tuple[Marker, str]]:
        """SQL for the value of each marker in `text`, none where the call gave no parameters at all.

        Raises `UnboundParameterError` and `UnsupportedParameterError`.
        """
        if self.named is None and self.positional is None:
            return []
        found: list[tuple[Marker, str]] = []
        place = 0
        for marker in markers(text):
            if marker.name is not None and self.named is not None:
                if marker.name not in self.named:
                    raise UnboundParameterError(parameter=f":{marker.name}")
                value = self.named[marker.name]
            elif marker.name is None and self.positional is not None:
                if place >= len(self.positional):
                    raise UnboundParameterError(parameter=f"? number {place + 1}")
                value = self.positional[place]
                place += 1
            else:
                raise UnboundParameterError(parameter=f":{marker.name}" if marker.name else "?")
            found.append((marker, _sql(spark, value, marker)))
        return found


def markers(text: str) -> list[Marker]:
    """The parameters in `text`. A colon right behind an operand takes something out of it and marks none."""
    tokens = tokenize(text)
    found: list[Marker] = []
    for place, token in enumerate(tokens):
        if token.is_symbol("?"):
            found.append(Marker(token.start, token.end, None))
        if not token.is_symbol(":") or place + 1 == len(tokens) or not tokens[place + 1].is_name:
            continue
        before = tokens[place - 1] if place else None
        behind_operand = (
            before is not None
            and before.end == token.start
            and (before.kind is not TokenKind.SYMBOL or before.text in _OPERAND_ENDS)
        )
        if not behind_operand and tokens[place + 1].kind is TokenKind.WORD:
            found.append(Marker(token.start, tokens[place + 1].end, tokens[place + 1].text))
    return found


def _sql(spark: SparkSession, value: Any, marker: Marker) -> str:
    written = literal(value)
    if written is None:
        # A Column, a list, a NumPy number: Spark says what it is.
        frame = spark.sql("SELECT :value AS value", args={"value": value})
        kind = frame.schema.fields[0].dataType
        row = frame.first()
        written = None if row is None else typed_literal(row[0], kind)
        if written is None:
            name = f":{marker.name}" if marker.name else "?"
            raise UnsupportedParameterError(parameter=name, value_type=kind.simpleString())
    return written
