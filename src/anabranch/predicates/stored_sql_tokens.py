"""SQL of a table's metadata as tokens, the same ones as Spark's lexer makes."""

from __future__ import annotations

import re
from typing import Final

from anabranch.predicates.sql_lexer import Token, TokenKind, tokenize
from anabranch.predicates.stored_sql_words import words

_SYMBOLS: Final = words("<=> => <= >= <> != == || -> :: - = < > + * / % & | ^ ~ ! ( ) [ ] . , :")
_ESCAPED: Final = re.compile(r"\\.|\"\"|'", re.DOTALL)


class UnreadableTextError(ValueError):
    """A text that is not an allowed expression. The message says why."""

    def __init__(self, message: str, *, function: str | None = None) -> None:
        super().__init__(message)
        self.function = function
        """The function that no table may call, in lower case; None for other reasons."""


def tokens_of(text: str) -> list[Token]:
    """All tokens, then one of kind END. Raises `UnreadableTextError`."""
    tokens = [_checked(part, text) for token in tokenize(text) for part in _parts(token)]
    return [*tokens, Token(TokenKind.END, "", len(text))]


def _parts(token: Token) -> list[Token]:
    """The token itself; the two symbols of one that Spark reads as two, such as `>>` at the end of nested types."""
    if token.kind is not TokenKind.SYMBOL or token.text in _SYMBOLS:
        return [token]
    return [Token(token.kind, text, token.start + index) for index, text in enumerate(token.text)]


def _checked(token: Token, text: str) -> Token:
    match token.kind:
        case TokenKind.STRING if token.text[0] == '"':
            # A setting of the session decides whether these quote text or a name; in a table they quote text.
            return token._replace(text=f"'{_ESCAPED.sub(_in_single_quotes, token.text[1:-1])}'")
        case TokenKind.STRING:
            readable = token.text[0] in "'rR"
        case TokenKind.SYMBOL:
            readable = token.text in _SYMBOLS
        case TokenKind.WORD:
            readable = not token.text[0].isdigit()
        case TokenKind.QUOTED_NAME:
            readable = token.name != ""
        case _:
            readable = token.kind is TokenKind.NUMBER
    if not readable:
        raise UnreadableTextError(f"it cannot be read from {text[token.start : token.start + 20]!r} on")
    return token


def _in_single_quotes(match: re.Match[str]) -> str:
    return {"'": "\\'", '""': '"'}.get(match[0], match[0])
