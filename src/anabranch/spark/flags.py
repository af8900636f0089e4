"""Settings and options that are true or false."""

from __future__ import annotations

from anabranch.errors.arguments import InvalidOptionError


def parse_flag(name: str, text: str) -> bool:
    """Raises `InvalidOptionError` for any other word; `name` is what the user set."""
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise InvalidOptionError(option=name, value=text, problem="it is true or false")
    return word == "true"
