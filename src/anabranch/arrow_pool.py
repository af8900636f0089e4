"""Memory that Arrow has freed and still holds."""

from __future__ import annotations

import pyarrow as pa


def release_unused() -> None:
    """Return it to the system.

    Arrow's allocator keeps freed memory for the next allocation: after columns of a million files have been decoded,
    as much as they need themselves. The call takes a millisecond.
    """
    pa.default_memory_pool().release_unused()
