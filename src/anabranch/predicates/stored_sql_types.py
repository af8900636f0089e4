"""Types in SQL of a table's metadata, as in `CAST(a AS ARRAY<INT>)`."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.predicates.stored_sql_tokens import UnreadableTextError
from anabranch.predicates.stored_sql_words import TYPES, TYPES_WITH_LENGTH


class TypeReader:
    """Reads one type; `at` is then the index of the token after it."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens = tokens
        self.at = at

    def read(self) -> str:
        """The type, rebuilt from allowed words. Raises `UnreadableTextError`."""
        token = self._tokens[self.at]
        if token.kind is not TokenKind.WORD:
            raise UnreadableTextError("a type is missing")
        self.at += 1
        match token.word:
            case "ARRAY":
                return f"ARRAY<{self._parts(1)}>"
            case "MAP":
                return f"MAP<{self._parts(2)}>"
            case "STRUCT":
                return f"STRUCT<{', '.join(self._fields())}>"
            case name if name in TYPES:
                return name + (self._length() if name in TYPES_WITH_LENGTH and self._is("(") else "")
        raise UnreadableTextError(f"{token.text} is not a type that a table may cast to")

    def _is(self, symbol: str) -> bool:
        return self._tokens[self.at].is_symbol(symbol)

    def _expect(self, symbol: str) -> None:
        if not self._is(symbol):
            raise UnreadableTextError(f"{symbol} is missing in a type")
        self.at += 1

    def _parts(self, count: int) -> str:
        types: list[str] = []
        for index in range(count):
            self._expect("," if index else "<")
            types.append(self.read())
        self._expect(">")
        return ", ".join(types)

    def _fields(self) -> list[str]:
        self._expect("<")
        fields: list[str] = []
        while True:
            name = self._tokens[self.at]
            if name.kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME):
                raise UnreadableTextError("a name is missing in a struct")
            self.at += 1
            if self._is(":"):
                self.at += 1
            quoted = name.name.replace("`", "``")
            fields.append(f"`{quoted}`: {self.read()}")
            if not self._is(","):
                self._expect(">")
                return fields
            self.at += 1

    def _length(self) -> str:
        self._expect("(")
        numbers: list[str] = []
        while self._tokens[self.at].kind is TokenKind.NUMBER:
            numbers.append(self._tokens[self.at].text)
            self.at += 1
            if not self._is(","):
                break
            self.at += 1
        self._expect(")")
        if not numbers or not all(number.isdigit() for number in numbers):
            raise UnreadableTextError("the length of a type is not a number")
        return f"({', '.join(numbers)})"
