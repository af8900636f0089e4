"""Names for new files of vectors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator


def file_ids(new_uuid: Callable[[], str]) -> Iterator[uuid.UUID]:
    """Without end, from a source of UUIDs in text, which the caller hands in."""
    while True:
        yield uuid.UUID(new_uuid())
