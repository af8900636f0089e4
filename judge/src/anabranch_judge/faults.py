"""What may be wrong with a history."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing that is wrong, in words."""

    kind: str
    version: int | None
    statement: str | None
    text: str
