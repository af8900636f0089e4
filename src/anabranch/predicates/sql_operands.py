"""The operands of conditions: columns, constants, and what is written with parentheses."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.predicates.sql_nodes import (
    Call,
    Cast,
    ConditionSyntaxError,
    Constant,
    Name,
    Node,
    Other,
    Query,
    TokenReader,
)
from anabranch.predicates.stored_sql_words import FIELDS, TAKES_UNIT_FIRST, TRIM_SIDES, UNIT_ALWAYS_FIRST, UNITS

_NO_OPERANDS = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "WHERE", "SELECT"}
)
_CASE_WORDS = frozenset({"WHEN", "THEN", "ELSE", "END"})
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X"})
_SEPARATORS = frozenset({"FROM", "FOR", "PLACING"})
"""Stand for commas in some functions: `extract(year FROM x)`."""
_LEADING = TRIM_SIDES | {"DISTINCT", "ALL"}
_BEHIND_CALL = frozenset({"FILTER", "OVER", "WITHIN", "IGNORE", "RESPECT"})
_QUERY_MAY_START = frozenset({"FROM", "TABLE", "VALUES", "WITH"})
_WITHOUT_UNIT = 2
"""Arguments that such a function takes where it takes no unit."""


class OperandReader(TokenReader, abc.ABC):
    """Takes one operand."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        """How many conditions are being read, each within the other."""
        self._cases = 0
        """How many CASE are open, where their words end an operand."""

    @abc.abstractmethod
    def _condition(self) -> Node:
        """Take all that may stand between parentheses."""

    def _operand(self) -> Node:
        found = self._primary()
        while True:
            if self._takes_symbol("["):
                place = self._condition()
                self._expect_symbol("]")
                found = self._other(found, place)
            elif self._sees_symbol("."):
                self._at += 1
                found = self._field(found)
            elif self._takes_symbol("::"):
                start = self._start()
                self._skip_type()
                found = Cast(
                    start=found.start, end=self._end, operands=(found,), data_type=self._text[start : self._end]
                )
            elif self._sees_symbol(":") and (token := self._peek(1)) is not None and token.is_name:
                self._at += 2
                found = self._other(found)
            else:
                return found

    def _field(self, of: Node) -> Node:
        token = self._peek()
        if self._takes_symbol("*"):
            return self._other(of)
        if token is None or not token.is_name:
            raise self._unexpected()
        self._at += 1
        if not isinstance(of, Name):
            return self._other(of)
        parts, is_quoted = (*of.parts, token.name), of.is_quoted or token.kind is TokenKind.QUOTED_NAME
        if self._sees_symbol("("):
            return self._call(of.start, parts)
        return Name(start=of.start, end=self._end, parts=parts, is_quoted=is_quoted)

    def _primary(self) -> Node:
        token = self._peek()
        if token is None:
            raise self._unexpected()
        if token.kind is TokenKind.STRING:
            return self._strings(token.start, "")
        if token.kind is TokenKind.NUMBER:
            self._at += 1
            return Constant(start=token.start, end=token.end, tokens=(token,))
        if token.is_symbol("("):
            return self._parenthesized()
        if token.is_name:
            return self._named(token)
        if (token.is_symbol(":") or token.is_symbol("?")) and self._takes_parameter():
            return Other(start=token.start, end=self._end)
        raise self._unexpected()

    def _strings(self, start: int, kind: str) -> Constant:
        found = []
        while (token := self._peek()) is not None and token.kind is TokenKind.STRING:
            found.append(token)
            self._at += 1
        return Constant(start=start, end=self._end, tokens=tuple(found), kind=kind)

    def _takes_parameter(self) -> bool:
        is_named = self._sees_symbol(":")
        following = self._peek(1)
        if is_named and (following is None or not following.is_name):
            return False
        self._at += 2 if is_named else 1
        return True

    def _parenthesized(self) -> Node:
        if self._sees_query(1):
            return self._parenthesized_query()
        start = self._start()
        found = self._listed()
        if self._takes_symbol("->"):
            return self._lambda(start, found)
        if len(found) == 1:
            return dataclasses.replace(found[0], start=start, end=self._end)
        return Other(start=start, end=self._end, operands=tuple(found))

    def _named(self, token: Token) -> Node:
        word, following = token.word, self._peek(1)
        if word in _NO_OPERANDS or (self._cases and word in _CASE_WORDS):
            raise self._unexpected()
        if word in {"TRUE", "FALSE", "NULL"}:
            self._at += 1
            return Constant(start=token.start, end=token.end, tokens=(token,))
        if following is not None and following.kind is TokenKind.STRING and word in _TYPED:
            self._at += 1
            return self._strings(token.start, word)
        if word == "INTERVAL" and following is not None and self._starts_interval(following):
            return self._interval(token)
        if word == "CASE" and not self._ends_name(following):
            return self._case(token)
        self._at += 1
        if self._sees_symbol("("):
            return self._call(token.start, (token.name,))
        if self._takes_symbol("->"):
            name = Name(start=token.start, end=token.end, parts=(token.name,), is_quoted=False)
            return self._lambda(token.start, [name])
        is_quoted = token.kind is TokenKind.QUOTED_NAME
        return Name(start=token.start, end=token.end, parts=(token.name,), is_quoted=is_quoted)

    def _ends_name(self, following: Token | None) -> bool:
        """Whether what follows shows that a keyword is a name here."""
        return following is None or (following.kind is TokenKind.SYMBOL and following.text not in "(-+~!")

    def _starts_interval(self, following: Token) -> bool:
        is_amount = following.kind in {TokenKind.STRING, TokenKind.NUMBER}
        signed = following.is_symbol("-") and (after := self._peek(2)) is not None and after.kind is TokenKind.NUMBER
        return is_amount or signed

    def _interval(self, first: Token) -> Node:
        self._at += 1
        while (token := self._peek()) is not None and self._is_of_interval(token):
            self._at += 1
        return Other(start=first.start, end=self._end)

    def _is_of_interval(self, token: Token) -> bool:
        if token.kind in {TokenKind.STRING, TokenKind.NUMBER}:
            return True
        before = self._tokens[self._at - 1]
        behind_amount = before.kind in {TokenKind.STRING, TokenKind.NUMBER}
        if token.is_symbol("-"):
            following = self._peek(1)
            return not behind_amount and following is not None and following.kind is TokenKind.NUMBER
        if token.word == "TO":
            return before.word != "INTERVAL"
        return token.word in UNITS and (behind_amount or before.word == "TO")

    def _case(self, first: Token) -> Node:
        self._at += 1
        self._cases += 1
        found = [] if self._word() == "WHEN" else [self._condition()]
        while self._takes("WHEN"):
            found.append(self._condition())
            if not self._takes("THEN"):
                raise self._unexpected()
            found.append(self._condition())
        if self._takes("ELSE"):
            found.append(self._condition())
        if not self._takes("END"):
            raise self._unexpected()
        self._cases -= 1
        return Other(start=first.start, end=self._end, operands=tuple(found))

    def _lambda(self, start: int, names: Sequence[Node]) -> Node:
        parameters = frozenset(name.parts[0].lower() for name in names if isinstance(name, Name))
        body = self._condition()
        return Other(start=start, end=self._end, operands=(body,), parameters=parameters)

    def _sees_query(self, ahead: int) -> bool:
        """Whether a query begins there. Most words that begin one may be names of columns too."""
        word, following = self._word(ahead), self._peek(ahead + 1)
        if word == "SELECT":
            return True
        return word in _QUERY_MAY_START and following is not None and following.kind is not TokenKind.SYMBOL

    def _parenthesized_query(self) -> Query:
        start = self._start()
        self._skip_parenthesized()
        return Query(start=start, end=self._end)

    def _listed(self, *, separators: frozenset[str] = frozenset()) -> list[Node]:
        """What stands between parentheses, with commas between."""
        self._expect_symbol("(")
        found: list[Node] = []
        if self._takes_symbol(")"):
            return found
        while True:
            found.append(self._condition())
            if self._takes_symbol(")"):
                return found
            if self._word() in separators:
                self._at += 1
            elif not self._takes_symbol(","):
                raise self._unexpected()

    def _skip_type(self) -> None:
        token = self._peek()
        if token is None or not token.is_name:
            raise self._unexpected()
        self._at += 1
        if self._sees_symbol("("):
            self._skip_parenthesized()
        elif self._sees_symbol("<"):
            depth = 0
            while (token := self._peek()) is not None:
                self._at += 1
                depth += token.is_symbol("<") - (len(token.text) if set(token.text) == {">"} else 0)
                if depth <= 0:
                    return
            raise self._unexpected()

    def _cast(self, start: int, *, tries: bool) -> Node:
        self._expect_symbol("(")
        value = self._condition()
        if not self._takes("AS"):
            raise self._unexpected()
        begin = self._start()
        self._skip_type()
        written = self._text[begin : self._end]
        self._expect_symbol(")")
        return Cast(start=start, end=self._end, operands=(value,), data_type=written, tries=tries)

    def _call(self, start: int, name: ColumnPath) -> Node:
        function = name[-1].lower() if len(name) == 1 else ""
        opening = self._at
        if function == "exists" and self._sees_query(1):
            query = self._parenthesized_query()
            return Other(start=start, end=query.end, operands=(query,))
        if function in {"cast", "try_cast"}:
            return self._cast(start, tries=function == "try_cast")
        try:
            found, is_plain = self._arguments()
        except ConditionSyntaxError:
            # Another form that some function of Spark's has. Its names may be columns.
            self._at = opening
            found, is_plain = self._names_of_parenthesized(), False
        if found and _is_unit(function, found):
            found = found[1:]
        while self._word() in _BEHIND_CALL:
            self._at += 1
            is_plain = False
            while self._word() in {"NULLS", "GROUP"}:
                self._at += 1
            if self._sees_symbol("("):
                self._skip_parenthesized()
            elif self._tokens[self._at - 1].word == "OVER":
                self._at += 1
        return Call(start=start, end=self._end, name=name, operands=tuple(found), is_plain=is_plain)

    def _arguments(self) -> tuple[list[Node], bool]:
        depth, cases = self._depth, self._cases
        try:
            self._cases = 0
            following = self._peek(1)
            if following is not None and following.is_symbol("*") and self._sees_symbol(")", 2):
                self._at += 3
                return [], False
            if self._word(1) in _LEADING and not self._ends_name(self._peek(2)):
                self._at += 1
                is_trim = self._word() in TRIM_SIDES
                return self._behind_leading(), is_trim
            return self._listed(separators=_SEPARATORS), True
        finally:
            self._depth, self._cases = depth, cases

    def _behind_leading(self) -> list[Node]:
        """The arguments behind a word such as DISTINCT or BOTH."""
        self._at += 1
        if self._takes("FROM"):
            found = [self._condition()]
        else:
            found = [self._condition()]
            while self._takes_symbol(",") or self._takes("FROM"):
                found.append(self._condition())
        self._expect_symbol(")")
        return found

    def _names_of_parenthesized(self) -> list[Node]:
        first = self._at
        self._skip_parenthesized()
        return [
            Name(start=token.start, end=token.end, parts=(token.name,), is_quoted=True)
            for token in self._tokens[first : self._at]
            if token.is_name
        ]


def _is_unit(function: str, arguments: Sequence[Node]) -> bool:
    """Whether the first argument is a word such as `year`, and no column."""
    always = function in UNIT_ALWAYS_FIRST or function == "extract"
    first = arguments[0]
    is_word = isinstance(first, Name) and len(first.parts) == 1 and first.parts[0].upper() in FIELDS
    return is_word and (always or (function in TAKES_UNIT_FIRST and len(arguments) > _WITHOUT_UNIT))
