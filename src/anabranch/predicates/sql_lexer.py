"""SQL text as tokens, by the rules of Spark's own lexer.

Nothing of the text is lost: `scan` yields spaces and comments too, and its tokens joined are the text.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple


class TokenKind(enum.Enum):
    """The kind of a token."""

    WORD = "word"
    """A keyword, or a name without quotes."""
    QUOTED_NAME = "name in backticks"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    SPACE = "space"
    COMMENT = "comment"
    UNFINISHED = "unfinished string, name or comment"
    END = "end of the text"
    """A token that callers may put after the last one; `scan` yields none."""


class Token(NamedTuple):
    """A piece of a statement. A tuple, since a statement may have a million of them."""

    kind: TokenKind
    text: str
    """The text as written, quotes included."""
    start: int
    """The position of its first character in the statement."""

    @property
    def end(self) -> int:
        """One past its last character."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The text in capitals, for comparing with keywords; empty for all but words."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a table's or a column's name."""
        return self.kind in {TokenKind.WORD, TokenKind.QUOTED_NAME}

    @property
    def name(self) -> str:
        """The text as a name, without backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED_NAME else self.text

    def is_symbol(self, text: str) -> bool:
        """Whether it is this symbol."""
        return self.kind is TokenKind.SYMBOL and self.text == text


_INSIGNIFICANT = (TokenKind.SPACE, TokenKind.COMMENT)
# Possessive repetition: a text that does not match fails without backtracking, however long it is.
_PATTERNS = (
    (TokenKind.SPACE, r"\s++"),
    # A backslash at the end of the line carries the comment on.
    (TokenKind.COMMENT, r"--(?:\\\r?\n|[^\r\n])*+"),
    (TokenKind.STRING, r"'(?:[^'\\]|\\.|'')*+'"),
    (TokenKind.STRING, r'"(?:[^"\\]|\\.|"")*+"'),
    (TokenKind.STRING, r"[rR]'[^']*+'"),
    (TokenKind.STRING, r'[rR]"[^"]*+"'),
    (TokenKind.STRING, r"(?P<tag>\$[A-Za-z]*+\$).*?(?P=tag)"),
    (TokenKind.QUOTED_NAME, r"`(?:[^`]|``)*+`"),
    (TokenKind.UNFINISHED, r"['\"`].*+"),
    (TokenKind.NUMBER, r"(?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?:[bB]?[dD]|[fF])?(?![A-Za-z0-9_])"),
    (TokenKind.NUMBER, r"[0-9]++(?:[eE][+-]?[0-9]++)?(?:[bB]?[dD]|[fFlLsSyY])?(?!\w)"),
    (TokenKind.WORD, r"\w++"),
    (TokenKind.SYMBOL, r"<=>|>>>|\|\||\|>|<>|<=|>=|!=|!>|!<|==|=>|->|::|<<|>>"),
    (TokenKind.SYMBOL, r"."),
)
_ONE_TOKEN = re.compile("|".join(f"(?P<k{index}>{pattern})" for index, (_, pattern) in enumerate(_PATTERNS)), re.DOTALL)
_KINDS = {f"k{index}": kind for index, (kind, _) in enumerate(_PATTERNS)}
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_HINT = "/*+"


def scan(text: str) -> Iterator[Token]:
    """The tokens of `text` in order, spaces and comments included."""
    at = 0
    while at < len(text):
        token = _bracketed(text, at) if text.startswith("/*", at) else _plain(text, at)
        yield token
        at = token.end


def tokenize(text: str) -> list[Token]:
    """The tokens of `text` without spaces and comments; an unfinished one, if there is one, is the last."""
    return [token for token in scan(text) if token.kind not in _INSIGNIFICANT]


def first_word(text: str) -> str:
    """The word that `text` begins with, in capitals; empty where it begins with something else."""
    return next((token.word for token in scan(text) if token.kind not in _INSIGNIFICANT), "")


def _plain(text: str, at: int) -> Token:
    match = _ONE_TOKEN.match(text, at)
    assert match is not None, "the last pattern takes any character"
    assert match.lastgroup is not None
    return Token(_KINDS[match.lastgroup], match[0], at)


def _bracketed(text: str, at: int) -> Token:
    """The comment at `at`, in which others may nest, or an optimizer hint, which counts as a comment."""
    if text.startswith(_HINT, at):
        end = text.find("*/", at)
        return Token(TokenKind.COMMENT, text[at : end + 2], at) if end >= 0 else Token(TokenKind.SYMBOL, "/*", at)
    depth, end = 0, at
    while True:
        edge = _COMMENT_EDGE.search(text, end)
        if edge is None:
            return Token(TokenKind.UNFINISHED, text[at:], at)
        depth += 1 if edge[0].startswith("/") else -1
        end = edge.end()
        if depth == 0:
            return Token(TokenKind.COMMENT, text[at:end], at)


# The value of a string literal, and a literal for a value.


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))|(['\"])\5", re.DOTALL)
_SPECIAL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_PLAIN = re.compile(r"[\w .,;:/@#+*=()<>!?&|~^\[\]%-]*")
_RAW = ("r'", 'r"')


def string_value(written: str) -> str:
    """The value of a string literal."""
    if written[:2].lower() in _RAW:
        return written[2:-1]
    if written.startswith("$"):
        tag = written.index("$", 1) + 1
        return written[tag:-tag]
    quote = written[0]

    def meaning(match: re.Match[str]) -> str:
        short, long, octal, plain, doubled = match.groups()
        if doubled:
            # The other kind of quote is an ordinary character here.
            return doubled if doubled == quote else doubled * 2
        if octal:
            return chr(int(octal, 8))
        if short or long:
            return _character(int(short or long, 16))
        return _SPECIAL.get(plain, plain)

    unescaped = _ESCAPE.sub(meaning, written[1:-1])
    # Two escapes may be the halves of one character, as Java counts them.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def string_literal(text: str) -> str:
    """SQL for exactly `text`, under all settings of the session about escapes and variables."""
    if _PLAIN.fullmatch(text) and text.isascii():
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _character(code: int) -> str:
    return chr(code) if code <= 0x10FFFF else "\ufffd"
