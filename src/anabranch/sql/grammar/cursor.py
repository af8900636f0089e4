"""A cursor that reads a statement token by token."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.predicates.sql_lexer import Token, TokenKind, string_value, tokenize

QUERY_STARTS = frozenset({"SELECT", "VALUES", "WITH", "FROM", "TABLE", "MAP", "REDUCE"})
_SHOWN_MAX = 40
_UNFINISHED = "the end of a string, name or comment"
BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}


@dataclasses.dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a statement that is passed on as it was written: an expression, a type, a query."""

    source: str = dataclasses.field(repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table in a statement."""

    parts: tuple[str, ...]
    """The parts without quotes."""
    start: int
    end: int
    expression: Fragment | None = None
    """The expression of `IDENTIFIER(…)`. There are no parts then."""
    is_path: bool = False
    """Whether the name is a string with the table's folder, which is the last part."""


class Cursor:
    """A position in the tokens of one statement. Methods that cannot take what they should raise `SqlSyntaxError`."""

    def __init__(self, text: str, tokens: Sequence[Token] | None = None, *, statement: str = "SQL") -> None:
        self.text = text
        self.statement = statement
        self.tokens = tokenize(text) if tokens is None else tokens
        end = len(self.tokens)
        while end and self.tokens[end - 1].is_symbol(";"):
            end -= 1
        self.tokens = self.tokens[:end]
        self.at = 0

    # Looking.

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one after it; None past the last."""
        index = self.at + ahead
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The next word, in capitals; empty where the next token is no word."""
        token = self.peek(ahead)
        return "" if token is None else token.word

    def sees(self, *words: str) -> bool:
        """Whether these words are next, in this order; an alternative is written `A|B`."""
        return all(self.word(ahead) in word.split("|") for ahead, word in enumerate(words))

    def sees_symbol(self, text: str, ahead: int = 0) -> bool:
        """Whether that symbol is next."""
        token = self.peek(ahead)
        return token is not None and token.is_symbol(text)

    def sees_query(self) -> bool:
        """Whether a query begins here, in parentheses or not."""
        ahead = 0
        while self.sees_symbol("(", ahead):
            ahead += 1
        # A column list may name a column `values` or `table`.
        named = ahead > 0 and (self.sees_symbol(",", ahead + 1) or self.sees_symbol(")", ahead + 1))
        return self.word(ahead) in QUERY_STARTS and not named

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.tokens)

    # Taking.

    def takes(self, *words: str) -> bool:
        """Take these words, if they are next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def takes_symbol(self, text: str) -> bool:
        """Take that symbol, if it is next."""
        if not self.sees_symbol(text):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        """Take these words."""
        for word in words:
            if not self.takes(word):
                raise self.unexpected(" or ".join(word.split("|")))

    def expect_symbol(self, text: str) -> None:
        """Take that symbol."""
        if not self.takes_symbol(text):
            raise self.unexpected(text)

    def expect_end(self) -> None:
        """Raises where the statement does not end here."""
        if not self.is_at_end:
            raise self.unexpected("the end of the statement")

    def name(self, what: str = "a name") -> str:
        """Take one name, without its quotes."""
        token = self.peek()
        if token is None or not token.is_name:
            raise self.unexpected(what)
        self.at += 1
        if not token.name:
            self.at -= 1
            raise self.unexpected(f"{what} that is not empty")
        return token.name

    def path(self, what: str = "a column") -> tuple[str, ...]:
        """Take a name of one or more parts, joined by dots."""
        parts = [self.name(what)]
        while self.takes_symbol("."):
            parts.append(self.name(what))
        return tuple(parts)

    def paths(self, what: str = "a column") -> tuple[tuple[str, ...], ...]:
        """Take one name or more, joined by commas."""
        parts = [self.path(what)]
        while self.takes_symbol(","):
            parts.append(self.path(what))
        return tuple(parts)

    def table(self) -> TableName:
        """Take the name of a table: parts joined by dots, or `IDENTIFIER(…)`."""
        first = self.peek()
        if first is not None and first.word == "IDENTIFIER" and self.sees_symbol("(", 1):
            self.at += 1
            expression = self.parenthesized("an expression")
            return TableName((), first.start, self.end_of_last, expression)
        parts = self.path("the name of a table")
        assert first is not None
        return TableName(parts, first.start, self.end_of_last)

    def string(self, what: str = "a string") -> str:
        """Take a string; several in a row are one."""
        parts = []
        while (token := self.peek()) is not None and token.kind is TokenKind.STRING:
            parts.append(string_value(token.text))
            self.at += 1
        if not parts:
            raise self.unexpected(what)
        return "".join(parts)

    def integer(self, what: str = "a whole number") -> int:
        """Take a whole number, maybe with a sign."""
        negative = self.takes_symbol("-")
        if not negative:
            self.takes_symbol("+")
        token = self.peek()
        digits = "" if token is None else token.text.rstrip("lLsSyY")
        if token is None or token.kind is not TokenKind.NUMBER or not digits.isdecimal():
            raise self.unexpected(what)
        self.at += 1
        return -int(digits) if negative else int(digits)

    def parenthesized(self, what: str) -> Fragment:
        """Take text in parentheses; return it without them."""
        self.expect_symbol("(")
        inside = self.until(lambda: self.sees_symbol(")"), what)
        self.expect_symbol(")")
        return inside

    def until(self, stops: Callable[[], bool], what: str = "an expression") -> Fragment:
        """Take everything until `stops` is true, outside of parentheses and of CASE … END, or to the end."""
        first = self.at
        depth: list[str] = []
        while (token := self.peek()) is not None:
            if token.is_symbol(";") or (not depth and stops()):
                break
            if token.is_symbol("(") or token.is_symbol("["):
                depth.append(token.text)
            elif token.is_symbol(")") or token.is_symbol("]"):
                while depth and depth[-1] == "CASE":
                    depth.pop()
                if not depth:
                    break
                depth.pop()
            elif token.word == "CASE" and self._is_keyword():
                depth.append("CASE")
            elif token.word == "END" and depth and depth[-1] == "CASE":
                depth.pop()
            elif token.kind is TokenKind.UNFINISHED:
                raise self.unexpected(_UNFINISHED)
            self.at += 1
        if "(" in depth or "[" in depth:
            raise self.unexpected("a closing parenthesis")
        if self.at == first:
            raise self.unexpected(what)
        return self._between(first)

    def rest(self, what: str) -> Fragment:
        """Take the rest of the statement."""
        first, depth = self.at, 0
        # The rest may be long, so only brackets are counted.
        for index in range(first, len(self.tokens)):
            text = self.tokens[index].text
            depth += BRACKETS.get(text, 0)
            if depth < 0 or text == ";":
                self.at = index
                raise self.unexpected("the end of the statement")
        self.at = len(self.tokens)
        if self.at == first:
            raise self.unexpected(what)
        if self.tokens[-1].kind is TokenKind.UNFINISHED:
            self.at -= 1
            raise self.unexpected(_UNFINISHED)
        if depth:
            raise self.unexpected("a closing parenthesis")
        return self._between(first)

    def listed(self, read: Callable[[], None]) -> None:
        """Take a list in parentheses, its elements with `read`."""
        self.expect_symbol("(")
        read()
        while self.takes_symbol(","):
            read()
        self.expect_symbol(")")

    def skip_parenthesized(self) -> None:
        """Take parentheses with their content."""
        self.expect_symbol("(")
        depth = 1
        while depth:
            token = self.peek()
            if token is None:
                raise self.unexpected(")")
            depth += token.is_symbol("(") - token.is_symbol(")")
            self.at += 1

    @property
    def end_of_last(self) -> int:
        """The end of the last token that was taken."""
        return self.tokens[self.at - 1].end if self.at else 0

    def unexpected(self, expected: str) -> SqlSyntaxError:
        """The error for a next token that is not the expected one."""
        token = self.peek()
        start = len(self.text) if token is None else token.start
        actual = "the end of the statement" if token is None else token.text[:_SHOWN_MAX]
        before = self.text[:start]
        return SqlSyntaxError(
            statement=self.statement,
            line=before.count("\n") + 1,
            column=start - (before.rfind("\n") + 1) + 1,
            expected=expected,
            found=actual,
        )

    def _is_keyword(self) -> bool:
        """Whether the next word, CASE, is the keyword and no column of that name."""
        before, after = self.peek(-1), self.peek(1)
        follows_dot = self.at > 0 and before is not None and before.is_symbol(".")
        ends_operand = after is None or (after.kind is TokenKind.SYMBOL and after.text not in _OPERAND_STARTS)
        return not follows_dot and not ends_operand

    def _between(self, first: int) -> Fragment:
        return Fragment(self.text, self.tokens[first].start, self.end_of_last)


_OPERAND_STARTS: Sequence[str] = ("(", "-", "+", "~", "!", ":", "?", "{", "*")
