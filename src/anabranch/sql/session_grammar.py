"""Settings of a session that change how its SQL is read."""

from __future__ import annotations

from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import quote
from anabranch.sql.grammar.tokens import TokenKind, scan

_DOUBLE_QUOTED = "spark.sql.ansi.doubleQuotedIdentifiers"
_ANSI = "spark.sql.ansi.enabled"


def as_quoted_names(session: DeltaSession, text: str) -> str:
    """The text with names in backticks that stand in double quotes, where the session takes them for names."""
    if '"' not in text or not (_is_on(session, _DOUBLE_QUOTED) and _is_on(session, _ANSI)):
        return text
    return "".join(
        quote(token.text[1:-1].replace('""', '"'))
        if token.kind is TokenKind.STRING and token.text.startswith('"')
        else token.text
        for token in scan(text)
    )


def _is_on(session: DeltaSession, setting: str) -> bool:
    return (session.setting(setting, "false") or "").lower() == "true"
