"""What conditions in SQL are made of.

Only the shape is told. What a node means is up to the reader of the tree; what has no node of its own here is `Other`,
whose operands still tell which columns it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_lexer import Token, TokenKind, tokenize


class ConditionSyntaxError(ValueError):
    """The text is no condition. The message says why, `at` is the position of what is wrong."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A piece of the text that has a meaning, with the parentheses around it."""

    start: int
    end: int
    operands: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """This one and all below, each before its operands, in the order of the text."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.operands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Node):
    """A column, a field of one, or a function without parentheses."""

    parts: ColumnPath
    is_quoted: bool
    """Whether a part stands in backticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Node):
    """A number, a string, `TRUE`, `FALSE`, `NULL`."""

    tokens: tuple[Token, ...]
    """One, or several strings in a row."""
    kind: str = ""
    """The word before a string, such as `DATE`, in capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Node):
    """An operator and what it is applied to."""

    operator: str
    """In capitals: `AND`, `OR` with two operands or more, `NOT`, `-` with one, `=`, `IS NULL`, `IN`, `BETWEEN` …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    """A function and its arguments."""

    name: ColumnPath
    is_plain: bool = True
    """Whether nothing but arguments is said: no DISTINCT, no window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Node):
    """`CAST(… AS type)`."""

    data_type: str
    """As written."""
    tries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Node):
    """A subquery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other(Node):
    """Anything else."""

    parameters: frozenset[str] = field(default_factory=frozenset)
    """Of a lambda function: no columns, within it."""


def holds_query(node: Node) -> bool:
    """Whether a subquery is in it."""
    return any(isinstance(each, Query) for each in node.walk())


def names_in(node: Node) -> Iterator[Name]:
    """The names that may be columns, those of lambda functions' parameters left out."""
    waiting: list[tuple[Node, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        each, parameters = waiting.pop()
        if isinstance(each, Name) and each.parts[0].lower() not in parameters:
            yield each
        if isinstance(each, Other):
            parameters |= each.parameters
        waiting += [(operand, parameters) for operand in reversed(each.operands)]


def parts_of(node: Node) -> Iterator[Node]:
    """The conditions that must all be true for this one to be."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Operation) and part.operator == "AND":
            waiting += reversed(part.operands)
        else:
            yield part


# Reading a condition token by token.


class TokenReader:
    """A place in the tokens of one text. Where it cannot take what it should, it raises `ConditionSyntaxError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: Sequence[Token] = tokenize(text)
        self._at = 0
        if self._tokens and self._tokens[-1].kind is TokenKind.UNFINISHED:
            raise ConditionSyntaxError("a string, a name or a comment in it does not end", self._tokens[-1].start)

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self._at + ahead
        return self._tokens[place] if 0 <= place < len(self._tokens) else None

    def _word(self, ahead: int = 0) -> str:
        token = self._peek(ahead)
        return "" if token is None else token.word

    def _sees_symbol(self, text: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.is_symbol(text)

    def _takes_symbol(self, text: str) -> bool:
        found = self._sees_symbol(text)
        self._at += found
        return found

    def _takes(self, *words: str) -> bool:
        found = all(self._word(ahead) == word for ahead, word in enumerate(words))
        self._at += len(words) * found
        return found

    def _expect_symbol(self, text: str) -> None:
        if not self._takes_symbol(text):
            raise self._unexpected()

    def _unexpected(self) -> ConditionSyntaxError:
        token = self._peek()
        if token is None:
            return ConditionSyntaxError("the condition is not complete", max(len(self._text) - 1, 0))
        return ConditionSyntaxError(f"a condition does not go on like this at {token.text[:40]!r}", token.start)

    @property
    def _end(self) -> int:
        """Of what was taken last."""
        return self._tokens[self._at - 1].end

    def _start(self) -> int:
        token = self._peek()
        return len(self._text) if token is None else token.start

    def _skip_parenthesized(self) -> None:
        depth = 0
        while (token := self._peek()) is not None:
            self._at += 1
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0:
                return
        raise self._unexpected()

    def _operation(self, operator: str, *operands: Node) -> Operation:
        return Operation(start=operands[0].start, end=self._end, operator=operator, operands=operands)

    def _other(self, *operands: Node) -> Other:
        return Other(start=operands[0].start, end=self._end, operands=operands)
