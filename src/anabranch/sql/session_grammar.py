"""Settings of a session that change how its SQL is read."""

from __future__ import annotations

from anabranch.predicates.sql_tokens import TokenKind, scan
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import quote

_DOUBLE_QUOTED = "spark.sql.ansi.doubleQuotedIdentifiers"
_ANSI = "spark.sql.ansi.enabled"


def as_quoted_names(session: DeltaSession, text: str) -> str:
    """The text with names in backticks that stand in double quotes, where the session takes them for names."""
    if '"' not in text or not all(session.flag(each, default=False) for each in (_DOUBLE_QUOTED, _ANSI)):
        return text
    return "".join(
        quote(token.text[1:-1].replace('""', '"'))
        if token.kind is TokenKind.STRING and token.text.startswith('"')
        else token.text
        for token in scan(text)
    )
