"""What conditions in SQL are made of.

Only the shape is told. What a node means is up to the reader of the tree; what has no node of its own here is `Other`,
whose operands still tell which columns it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from anabranch.predicates.expressions import ColumnPath
from anabranch.predicates.sql_tokens import Token


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
