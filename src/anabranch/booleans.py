"""Parsing of `true` and `false` in options, settings, and properties of tables."""

from __future__ import annotations


def parse_boolean(text: str) -> bool | None:
    """The value of `true` or `false` in any letter case; None for any other text, for which callers raise an error.

    Spaces are part of the text, as in properties of tables; callers that read options and settings strip them first.
    Values of partition columns are cast as in Spark, see `protocol/partition_values.py`.
    """
    return {"true": True, "false": False}.get(text.lower())
