"""Texts that are true or false: options, settings, and properties of tables."""

from __future__ import annotations


def parse_boolean(text: str) -> bool | None:
    """`true` or `false` in any letter case; None for every other text, which its reader refuses by name.

    Spaces are part of the text, as in properties of tables; who reads options and settings strips them first. Values of
    partition columns are cast as Spark casts them, see `protocol/partition_values.py`.
    """
    return {"true": True, "false": False}.get(text.lower())
