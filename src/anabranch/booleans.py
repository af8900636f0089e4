"""Parsing of `true` and `false` in options, settings, and properties of tables."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors.arguments import InvalidOptionError


def parse_boolean(text: str) -> bool | None:
    """The value of `true` or `false` in any letter case; None for any other text, for which callers raise an error.

    Spaces are part of the text, as in properties of tables; callers that read options and settings strip them first.
    Values of partition columns are cast as in Spark, see `protocol/partition_values.py`.
    """
    return {"true": True, "false": False}.get(text.lower())


def parse_flag(name: str, text: str) -> bool:
    """The boolean that `text` says. Raises `InvalidOptionError` for any other word; `name` is what the user set."""
    flag = parse_boolean(text.strip())
    if flag is None:
        raise InvalidOptionError(option=name, value=text, problem="it is true or false")
    return flag


def flag_of(options: Mapping[str, str], name: str, *, default: bool | str = False) -> bool:
    """The option `name`, whose key is in lower case; else `default`, which may be the text of a setting."""
    text = options.get(name.lower(), default)
    return text if isinstance(text, bool) else parse_flag(name, text)
