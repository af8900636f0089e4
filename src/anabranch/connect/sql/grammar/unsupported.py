"""Statements that other tables have, and Delta tables have not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.sql.grammar.cursor import Cursor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A statement that is refused by name."""

    name: str
    instead: str


def unsupported(name: str, instead: str) -> Callable[[Cursor], Unsupported]:
    """Reads no further than it must: whatever the statement says, it is refused."""

    def parse(_: Cursor) -> Unsupported:
        return Unsupported(name=name, instead=instead)

    return parse
