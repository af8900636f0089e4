"""Names such as `t@v3` without quotes, which Spark itself reads only from 4.3 on."""

from __future__ import annotations

import re

from anabranch.predicates.sql_lexer import Token, TokenKind, tokenize

_SUFFIX = re.compile(r"[vV]\d+|\d{17}")


def with_versions_quoted(text: str) -> str | None:
    """`text` with `t@v3` and `t@20240131093000000` in backticks; None where the text has none."""
    tokens = tokenize(text)
    pieces, end = [], 0
    for index in range(1, len(tokens) - 1):
        name, at, suffix = tokens[index - 1 : index + 2]
        if at.is_symbol("@") and _is_version(name, at, suffix):
            quoted = f"{name.name}@{suffix.text}".replace("`", "``")
            pieces += [text[end : name.start], f"`{quoted}`"]
            end = suffix.end
    return "".join([*pieces, text[end:]]) if pieces else None


def _is_version(name: Token, at: Token, suffix: Token) -> bool:
    is_adjacent = name.end == at.start and at.end == suffix.start
    is_plain = suffix.kind in {TokenKind.WORD, TokenKind.NUMBER}
    return name.is_name and is_adjacent and is_plain and _SUFFIX.fullmatch(suffix.text) is not None
