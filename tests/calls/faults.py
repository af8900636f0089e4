"""What may go wrong with one call of a storage."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One way in which a call fails."""

    name: str
    calls: frozenset[str]
    """The calls that fail so."""
    stays: bool = False
    """Whether each of these calls fails from then on, until the operation has ended."""
    lies: bool = False
    """Whether the storage acknowledges what it does not do."""
    kills: bool = False
    """Whether the process has no further effect; its result is not judged."""
    error: int | str = 0
    """The error number, or the status of the reply."""
    has_effect: bool = False
    """Whether the call has its effect nevertheless."""

    def __str__(self) -> str:
        return self.name


class CallCounter:
    """Numbers the calls of an operation while it is active."""

    is_active = False

    @contextlib.contextmanager
    def counted(self, *, active: bool = True) -> Iterator[None]:
        before, self.is_active = self.is_active, active
        try:
            yield
        finally:
            self.is_active = before
