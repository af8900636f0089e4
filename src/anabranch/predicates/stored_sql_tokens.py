"""SQL text as tokens, cut exactly where Spark cuts it."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class TokenKind(enum.Enum):
    """What a piece of text is."""

    STRING = "string"
    NUMBER = "number"
    NAME = "name in backticks"
    WORD = "word"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text that Spark would not cut further."""

    kind: TokenKind
    text: str
    """As Spark may read it again; of names only what is between the backticks."""

    @property
    def upper(self) -> str:
        return self.text.upper()


_PATTERN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<single>'(?:[^'\\]|\\.|'')*')
    |(?P<double>"(?:[^"\\]|\\.|"")*")
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LlSsYyDdFf])?(?![\w]))
    |(?P<name>`(?:[^`]|``)+`)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=>|=>|<=|>=|<>|!=|==|\|\||->|::|[-=<>+*/%&|^~!()\[\].,:])
    """,
    re.VERBOSE | re.DOTALL,
)


class UnreadableTextError(ValueError):
    """Text that holds something no expression holds. The message says what."""

    def __init__(self, message: str, *, function: str | None = None) -> None:
        super().__init__(message)
        self.function = function
        """The function that no table may call, in lower case, where it is one."""


def tokens_of(text: str) -> list[Token]:
    """All tokens, then one of kind END. Raises `UnreadableTextError`."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            raise UnreadableTextError(f"it cannot be read from {text[position : position + 20]!r} on")
        position = match.end()
        if match.lastgroup != "blank":
            found.append(_token(str(match.lastgroup), match[0]))
    return [*found, Token(TokenKind.END, "")]


def _token(group: str, text: str) -> Token:
    match group:
        case "single" | "raw":
            return Token(TokenKind.STRING, text)
        case "double":
            # Whether these quote text or a name is up to a setting of the session; in a table they mean text.
            inner = re.sub(r"\\.|\"\"|'", _in_single_quotes, text[1:-1], flags=re.DOTALL)
            return Token(TokenKind.STRING, f"'{inner}'")
        case "number":
            return Token(TokenKind.NUMBER, text)
        case "name":
            return Token(TokenKind.NAME, text[1:-1].replace("``", "`"))
        case "word":
            return Token(TokenKind.WORD, text)
        case _:
            return Token(TokenKind.SIGN, text)


def _in_single_quotes(match: re.Match[str]) -> str:
    return {"'": "\\'", '""': '"'}.get(match[0], match[0])
