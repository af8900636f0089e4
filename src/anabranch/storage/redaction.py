"""Keeping secrets out of messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LENGTH_MAX = 1000


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """The first line of `text` and what an XML answer says, without query strings and `secrets`."""
    summary = text.partition("\n")[0].partition("<?xml")[0].rstrip(" :")
    facts = [found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL))]
    if facts:
        summary = f"{summary}: {', '.join(facts)}"
    # Azure's signatures travel in the query string.
    summary = re.sub(r"\?[^\s\"'<>]+", "?…", summary)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        summary = summary.replace(secret, "…")
    return summary[:_LENGTH_MAX]
