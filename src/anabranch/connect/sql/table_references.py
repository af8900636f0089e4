"""Where a statement names tables that it reads.

Works on tokens, not on a parsed tree: whatever else a statement holds stays as written, and grammar this
module does not know cannot make it fail. Only the places where a table can stand matter: after `FROM`
and `JOIN`, after commas between them, and after `TABLE`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

import pyspark

from anabranch.predicates.sql_lexer import Token, TokenKind, string_value, tokenize
from anabranch.sql.grammar.cursor import QUERY_STARTS

_FROM_ENDS = {
    "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "MINUS", "SELECT", "WINDOW",
    "QUALIFY", "SORT", "CLUSTER", "DISTRIBUTE", "VIEW", "SET",
}  # fmt: skip
_NO_ALIAS = _FROM_ENDS | {
    "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "ANTI", "SEMI", "ON", "USING", "LATERAL", "PIVOT",
    "UNPIVOT", "WHEN", "INSERT", "FOR", "VERSION", "TIMESTAMP", "DO",
}  # fmt: skip
_TABLE_MAY_FOLLOW = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT", "(", ",", "=>", ""})
_TIME_WORDS = frozenset({"INTERVAL", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"})
_OPERAND_GOES_ON = frozenset({"+", "-", ".", "::", "*"})
FEED_FUNCTIONS = frozenset({"table_changes", "table_changes_by_path"})
"""The functions that read a table's change data feed."""
_HAS_STREAMS = not pyspark.__version__.startswith("4.0")
"""Whether Spark's grammar has the word `STREAM`."""
_VERSION_SUFFIX = re.compile(r"[vV]\d+|\d{17}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table that a query reads, by its place in the text."""

    parts: tuple[str, ...]
    start: int
    """First character of the name."""
    end: int
    """One past the last character of the name and its time travel."""
    alias_at: int
    """Where an alias may stand: `end`, or behind a TABLESAMPLE."""
    has_alias: bool
    """It has one, or there is no room for one, as after `TABLE`."""
    version: str | None = None
    """What stands after VERSION AS OF, without quotes; a parameter as written."""
    timestamp_sql: str | None = None
    """The expression after TIMESTAMP AS OF."""
    name_sql: str | None = None
    """Of `IDENTIFIER(…)`: the expression that tells the name. There are no parts then."""
    function: str | None = None
    """The one of `FEED_FUNCTIONS` that is called. There are no parts then, and `end` lies behind its arguments."""
    arguments: tuple[str, ...] = ()
    """Of the function, as they are written."""
    is_stream: bool = False
    """Whether `STREAM` stands before the name, and `start` is where that begins."""
    has_options: bool = False
    """Whether the name of a stream is followed by `WITH (…)`, which lies before `end`."""


@dataclasses.dataclass(slots=True)
class _Scope:
    """What is known between one pair of parentheses."""

    is_query: bool
    in_from: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _NamedQuery:
    """A name given by WITH, and from where on it hides tables of that name."""

    name: str
    visible_from: int


def table_references(text: str, *, is_expression: bool = False) -> list[TableReference]:
    """The tables that `text` reads, in order; names given by WITH are not among them.

    `text` is a statement, or an expression, which reads tables in subqueries alone.
    """
    tokens = tokenize(text)
    if not tokens or tokens[-1].kind is TokenKind.UNFINISHED:
        return []
    hidden = _named_queries(tokens)
    found: list[TableReference] = []
    scopes = [_Scope(is_query=not is_expression)]
    expected = False
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if expected and token.word in {"LATERAL", "ONLY"}:
            position += 1
            continue
        if token.is_symbol("("):
            opens_query = position + 1 < len(tokens) and tokens[position + 1].word in QUERY_STARTS
            scopes.append(_Scope(is_query=opens_query or expected, in_from=expected and not opens_query))
            expected = expected and not opens_query
            position += 1
            continue
        if expected and _is_name(token):
            read = _read_stream if _opens_stream(tokens, position) else _read_reference
            reference, position = read(text, tokens, position)
            if reference is not None and not _is_hidden(reference, hidden):
                found.append(reference)
            expected = False
            continue
        expected = _follow(scopes, tokens, position)
        position += 1
    return found


def _follow(scopes: list[_Scope], tokens: Sequence[Token], position: int) -> bool:
    """Take one token that is no table's name; True where a table may come next."""
    scope, token, word = scopes[-1], tokens[position], tokens[position].word
    before = tokens[position - 1] if position else None
    if token.is_symbol(")"):
        if len(scopes) > 1:
            scopes.pop()
        return False
    if word == "TABLE":
        return ("" if before is None else before.text.upper()) in _TABLE_MAY_FOLLOW
    if not scope.is_query:
        return False
    if word == "FROM":
        # `IS DISTINCT FROM x` compares.
        if before is not None and before.word == "DISTINCT":
            return False
        scope.in_from = True
        return True
    if word == "JOIN":
        scope.in_from = True
        return True
    if token.is_symbol(","):
        return scope.in_from
    if word in _FROM_ENDS or token.is_symbol("|>"):
        scope.in_from = False
    return False


def _read_reference(text: str, tokens: Sequence[Token], position: int) -> tuple[TableReference | None, int]:
    """The name at `position` with its time travel, and the position after it; None for a function of Spark's."""
    first, name_sql = tokens[position], None
    parts = [first.name]
    cannot_have_alias = position > 0 and tokens[position - 1].word == "TABLE"
    position += 1
    if first.word == "IDENTIFIER" and position < len(tokens) and tokens[position].is_symbol("("):
        parts, after = [], _after_parenthesis(tokens, position)
        name_sql = text[tokens[position].end : tokens[after - 1].start]
        position = after
    while position + 1 < len(tokens) and tokens[position].is_symbol(".") and tokens[position + 1].is_name:
        parts.append(tokens[position + 1].name)
        position += 2
    if position < len(tokens) and tokens[position].is_symbol("("):
        if len(parts) == 1 and parts[0].lower() in FEED_FUNCTIONS:
            return _read_function(text, tokens, position)
        return None, position
    suffix = _version_suffix(tokens, position)
    if suffix is not None and parts:
        parts[-1] += suffix
        position += 2
    version, timestamp_sql, position = _read_time_travel(text, tokens, position)
    end = tokens[position - 1].end
    position = _after_sample(tokens, position)
    reference = TableReference(
        parts=tuple(parts),
        start=first.start,
        end=end,
        alias_at=tokens[position - 1].end,
        has_alias=cannot_have_alias or _is_alias(tokens, position),
        version=version,
        timestamp_sql=timestamp_sql,
        name_sql=name_sql,
    )
    return reference, position


def _opens_stream(tokens: Sequence[Token], position: int) -> bool:
    """Whether `STREAM` at `position` is followed by a name, or by one in parentheses; else it is a name itself."""
    if not _HAS_STREAMS or tokens[position].word != "STREAM" or position + 1 >= len(tokens):
        return False
    following = tokens[position + 1]
    if following.is_symbol("("):
        after = _after_parenthesis(tokens, position + 1)
        inside = tokens[position + 2 : after - 1]
        return bool(inside) and all(token.is_name or token.is_symbol(".") for token in _without_options(inside))
    return following.is_name and following.word not in _NO_ALIAS | {"AS", "TABLESAMPLE"}


def _read_stream(_: str, tokens: Sequence[Token], position: int) -> tuple[TableReference | None, int]:
    """The stream that begins with the word at `position`, and the position after it."""
    start, in_parentheses = tokens[position].start, tokens[position + 1].is_symbol("(")
    name = position + 1 + in_parentheses
    position = name + 1
    while position + 1 < len(tokens) and tokens[position].is_symbol(".") and tokens[position + 1].is_name:
        position += 2
    parts = tuple(token.name for token in tokens[name:position:2])
    has_options = position < len(tokens) and tokens[position].word == "WITH"
    if has_options:
        position = _after_parenthesis(tokens, position + 1)
    position = min(position + in_parentheses, len(tokens))
    end = tokens[position - 1].end
    reference = TableReference(
        parts=parts, start=start, end=end, alias_at=end, has_alias=_is_alias(tokens, position),
        is_stream=True, has_options=has_options,
    )  # fmt: skip
    return reference, position


def _without_options(tokens: Sequence[Token]) -> Sequence[Token]:
    """What stands before `WITH`."""
    return list(itertools.takewhile(lambda token: token.word != "WITH", tokens))


def _read_function(text: str, tokens: Sequence[Token], position: int) -> tuple[TableReference | None, int]:
    """The call whose arguments begin at `position`, and the position after it; None where they do not end."""
    after = _after_parenthesis(tokens, position)
    name, end = tokens[position - 1], tokens[after - 1].end
    edges, depth = [position], 0
    for at in range(position, after):
        depth += tokens[at].is_symbol("(") - tokens[at].is_symbol(")")
        if depth == 1 and tokens[at].is_symbol(","):
            edges.append(at)
    if depth:
        return None, after
    pairs = itertools.pairwise([*edges, after - 1])
    pieces = [text[tokens[left].end : tokens[right].start].strip() for left, right in pairs]
    call = TableReference(
        parts=(), start=name.start, end=end, alias_at=end, has_alias=True, function=name.name.lower(),
        arguments=() if pieces == [""] else tuple(pieces),
    )  # fmt: skip
    return call, after


def _is_alias(tokens: Sequence[Token], position: int) -> bool:
    return position < len(tokens) and tokens[position].is_name and tokens[position].word not in _NO_ALIAS


def _version_suffix(tokens: Sequence[Token], position: int) -> str | None:
    """`@v3` or `@20240131093000000` right behind an unquoted name."""
    if position + 1 >= len(tokens) or not tokens[position].is_symbol("@"):
        return None
    at, value = tokens[position], tokens[position + 1]
    adjacent = tokens[position - 1].end == at.start and at.end == value.start
    return f"@{value.text}" if adjacent and _VERSION_SUFFIX.fullmatch(value.text) else None


def _read_time_travel(text: str, tokens: Sequence[Token], position: int) -> tuple[str | None, str | None, int]:
    at = position
    if at < len(tokens) and tokens[at].word == "FOR":
        at += 1
    words = [token.word for token in tokens[at : at + 3]]
    if len(words) < 3 or words[1:] != ["AS", "OF"] or at + 3 >= len(tokens):
        return None, None, position
    if words[0] in {"VERSION", "SYSTEM_VERSION"}:
        token = tokens[at + 3]
        if token.kind is TokenKind.STRING:
            return string_value(token.text), None, at + 4
        last = min(at + 4 if token.is_symbol(":") else at + 3, len(tokens) - 1)
        return text[token.start : tokens[last].end], None, last + 1
    if words[0] in {"TIMESTAMP", "SYSTEM_TIME"}:
        after = _after_operand(tokens, at + 3)
        return None, text[tokens[at + 3].start : tokens[after - 1].end], after
    return None, None, position


def _after_operand(tokens: Sequence[Token], position: int) -> int:
    """The position after an expression such as `'2024-01-01'` or `current_timestamp() - INTERVAL 1 DAY`."""
    while True:
        if tokens[position].word in _TIME_WORDS:
            position += 1
            if position + 1 < len(tokens) and tokens[position - 1].word == "INTERVAL":
                position += 1
        elif tokens[position].is_symbol(":"):
            # A parameter.
            position += 1
        position += 1
        if position < len(tokens) and tokens[position].is_symbol("("):
            position = _after_parenthesis(tokens, position)
        elif position <= len(tokens) and tokens[position - 1].is_symbol("("):
            position = _after_parenthesis(tokens, position - 1)
        if position >= len(tokens) or tokens[position].text not in _OPERAND_GOES_ON:
            return min(position, len(tokens))
        position += 1
        if position >= len(tokens):
            return len(tokens)


def _after_sample(tokens: Sequence[Token], position: int) -> int:
    """The position after `TABLESAMPLE (…) [REPEATABLE (…)]`, if that comes."""
    for word in ("TABLESAMPLE", "REPEATABLE"):
        if position + 1 < len(tokens) and tokens[position].word == word and tokens[position + 1].is_symbol("("):
            position = _after_parenthesis(tokens, position + 1)
    return position


def _after_parenthesis(tokens: Sequence[Token], position: int) -> int:
    depth = 0
    for at in range(position, len(tokens)):
        if tokens[at].is_symbol("("):
            depth += 1
        elif tokens[at].is_symbol(")"):
            depth -= 1
            if depth == 0:
                return at + 1
    return len(tokens)


def _named_queries(tokens: Sequence[Token]) -> list[_NamedQuery]:
    """`name [(columns)] AS (query)`, each visible after its own text: inside it, the name is still the table."""
    found = []
    for position, token in enumerate(tokens):
        if not _is_name(token):
            continue
        at = position + 1
        if at < len(tokens) and tokens[at].is_symbol("("):
            at = _after_parenthesis(tokens, at)
        if at + 2 >= len(tokens) or tokens[at].word != "AS":
            continue
        opens = tokens[at + 2].word in QUERY_STARTS or tokens[at + 2].is_symbol("(")
        if tokens[at + 1].is_symbol("(") and opens:
            after = _after_parenthesis(tokens, at + 1)
            found.append(_NamedQuery(name=token.name.lower(), visible_from=tokens[after - 1].end - 1))
    return found


def _is_hidden(reference: TableReference, named: Sequence[_NamedQuery]) -> bool:
    return len(reference.parts) == 1 and any(
        query.name == reference.parts[0].lower() and reference.start > query.visible_from for query in named
    )


def _is_name(token: Token) -> bool:
    return token.is_name and token.word not in QUERY_STARTS
