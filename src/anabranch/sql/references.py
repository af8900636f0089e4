"""Where a statement names tables that it reads.

Works on tokens, not on a parsed tree: whatever else a statement holds stays as written, and grammar this
module does not know cannot make it fail. Only the places where a table can stand matter: after `FROM`
and `JOIN`, and after commas between them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

_QUERY_STARTS = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"}
_FROM_ENDS = {
    "WHERE", "GROUP BY", "GROUP", "ORDER BY", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT",
    "MINUS", "SELECT", "WINDOW", "QUALIFY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "SORT", "CLUSTER", "DISTRIBUTE",
    "VIEW", "SET",
}  # fmt: skip
# The tokenizer takes all that follows EXPLAIN as one token.
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s+(EXTENDED|CODEGEN|COST|FORMATTED)\b)?", re.IGNORECASE)
_VERSION_SUFFIX = re.compile(r"[vV]\d+|\d{17}")
_NO_NAME = {TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.L_BRACE}
_OPERAND_GOES_ON = {TokenType.PLUS, TokenType.DASH, TokenType.DOT, TokenType.DCOLON, TokenType.STAR}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table that a query reads, by its place in the text."""

    parts: tuple[str, ...]
    start: int
    """First character of the name."""
    end: int
    """One past the last character of the name and its time travel."""
    has_alias: bool
    version: str | None = None
    """What stands after VERSION AS OF, without quotes."""
    timestamp_sql: str | None = None
    """The expression after TIMESTAMP AS OF."""


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


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a statement; None where it cannot be split into tokens."""
    explain = _EXPLAIN.match(text)
    skipped = explain.end() if explain else 0
    try:
        return list(Databricks().tokenize(" " * skipped + text[skipped:]))
    except SqlglotError:
        return None


def table_references(text: str) -> list[TableReference]:
    """The tables that `text` reads, in order; names given by WITH are not among them."""
    tokens = tokens_of(text)
    if not tokens:
        return []
    hidden = _named_queries(tokens)
    found: list[TableReference] = []
    scopes = [_Scope(is_query=True)]
    expected = _word(tokens[0]) == "TABLE"
    position = 1 if expected else 0
    while position < len(tokens):
        token, word = tokens[position], _word(tokens[position])
        if expected and word in {"LATERAL", "ONLY"}:
            position += 1
            continue
        if token.token_type is TokenType.L_PAREN:
            opens_query = position + 1 < len(tokens) and _word(tokens[position + 1]) in _QUERY_STARTS
            scopes.append(_Scope(is_query=opens_query or expected, in_from=expected and not opens_query))
            expected = expected and not opens_query
            position += 1
            continue
        if expected and _is_name(token):
            reference, position = _read_reference(text, tokens, position)
            if reference is not None and not _is_hidden(reference, hidden):
                found.append(reference)
            expected = False
            continue
        expected = _follow(scopes, token, word, tokens[position - 1] if position else None)
        position += 1
    return found


def _follow(scopes: list[_Scope], token: Token, word: str, before: Token | None) -> bool:
    """Take one token that is no table's name; True where a table may come next."""
    scope = scopes[-1]
    if token.token_type is TokenType.R_PAREN:
        if len(scopes) > 1:
            scopes.pop()
        return False
    if not scope.is_query:
        return False
    if word == "FROM":
        # `IS DISTINCT FROM x` compares.
        if before is not None and _word(before) == "DISTINCT":
            return False
        scope.in_from = True
        return True
    if word == "JOIN" or word.endswith(" JOIN"):
        scope.in_from = True
        return True
    if token.token_type is TokenType.COMMA:
        return scope.in_from
    if word in _FROM_ENDS:
        scope.in_from = False
    return False


def _read_reference(text: str, tokens: Sequence[Token], position: int) -> tuple[TableReference | None, int]:
    """The name at `position` with its time travel, and the position after it; None for a function."""
    first = tokens[position]
    parts = [first.text]
    position += 1
    while (
        position + 1 < len(tokens) and tokens[position].token_type is TokenType.DOT and _is_name(tokens[position + 1])
    ):
        parts.append(tokens[position + 1].text)
        position += 2
    if position < len(tokens) and tokens[position].token_type is TokenType.L_PAREN:
        return None, position
    suffix = _version_suffix(tokens, position)
    if suffix is not None:
        parts[-1] += suffix
        position += 2
    end = tokens[position - 1].end + 1
    version, timestamp_sql, position = _read_time_travel(text, tokens, position)
    if version is not None or timestamp_sql is not None:
        end = tokens[position - 1].end + 1
    has_alias = position < len(tokens) and (
        tokens[position].token_type in {TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER}
    )
    reference = TableReference(
        parts=tuple(parts),
        start=first.start,
        end=end,
        has_alias=has_alias,
        version=version,
        timestamp_sql=timestamp_sql,
    )
    return reference, position


def _version_suffix(tokens: Sequence[Token], position: int) -> str | None:
    """`@v3` or `@20240131093000000` right behind an unquoted name."""
    if position + 1 >= len(tokens) or tokens[position].text != "@":
        return None
    at, value = tokens[position], tokens[position + 1]
    adjacent = tokens[position - 1].end + 1 == at.start and at.end + 1 == value.start
    return f"@{value.text}" if adjacent and _VERSION_SUFFIX.fullmatch(value.text) else None


def _read_time_travel(text: str, tokens: Sequence[Token], position: int) -> tuple[str | None, str | None, int]:
    at = position
    if at < len(tokens) and _word(tokens[at]) == "FOR":
        at += 1
    words = [_word(token) for token in tokens[at : at + 3]]
    if len(words) < 3 or words[1:] != ["AS", "OF"] or at + 3 >= len(tokens):
        return None, None, position
    if words[0] in {"VERSION", "SYSTEM_VERSION"}:
        return tokens[at + 3].text, None, at + 4
    if words[0] in {"TIMESTAMP", "SYSTEM_TIME"}:
        after = _after_operand(tokens, at + 3)
        return None, text[tokens[at + 3].start : tokens[after - 1].end + 1], after
    return None, None, position


def _after_operand(tokens: Sequence[Token], position: int) -> int:
    """The position after an expression such as `'2024-01-01'` or `current_timestamp() - INTERVAL 1 DAY`."""
    while True:
        if _word(tokens[position]) in {"INTERVAL", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"}:
            position += 1
            if position + 1 < len(tokens) and _word(tokens[position - 1]) == "INTERVAL":
                position += 1
        position += 1
        if position < len(tokens) and tokens[position].token_type is TokenType.L_PAREN:
            position = _after_parenthesis(tokens, position)
        elif tokens[position - 1].token_type is TokenType.L_PAREN:
            position = _after_parenthesis(tokens, position - 1)
        if position >= len(tokens) or tokens[position].token_type not in _OPERAND_GOES_ON:
            return min(position, len(tokens))
        position += 1
        if position >= len(tokens):
            return len(tokens)


def _after_parenthesis(tokens: Sequence[Token], position: int) -> int:
    depth = 0
    for at in range(position, len(tokens)):
        if tokens[at].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[at].token_type is TokenType.R_PAREN:
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
        if at < len(tokens) and tokens[at].token_type is TokenType.L_PAREN:
            at = _after_parenthesis(tokens, at)
        if at + 2 >= len(tokens) or tokens[at].token_type is not TokenType.ALIAS:
            continue
        opens = tokens[at + 1].token_type is TokenType.L_PAREN and _word(tokens[at + 2]) in _QUERY_STARTS | {"("}
        if opens:
            after = _after_parenthesis(tokens, at + 1)
            found.append(_NamedQuery(name=token.text.lower(), visible_from=tokens[after - 1].end))
    return found


def _is_hidden(reference: TableReference, named: Sequence[_NamedQuery]) -> bool:
    return len(reference.parts) == 1 and any(
        query.name == reference.parts[0].lower() and reference.start > query.visible_from for query in named
    )


def _is_name(token: Token) -> bool:
    if token.token_type in {TokenType.IDENTIFIER, TokenType.VAR}:
        return True
    return (
        token.token_type not in _NO_NAME
        and token.text.replace("_", "a").isalnum()
        and _word(token) not in _QUERY_STARTS
    )


def _word(token: Token) -> str:
    return "" if token.token_type in {TokenType.IDENTIFIER, TokenType.STRING} else token.text.upper()
