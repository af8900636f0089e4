"""How strictly writes of a table are ordered: the values of `delta.isolationLevel`."""

from __future__ import annotations

import enum


class IsolationLevel(enum.Enum):
    """The value is what stands in the property and in `commitInfo.isolationLevel`."""

    SERIALIZABLE = "Serializable"
    """Reads and writes have a serial order, and it is that of the history."""
    WRITE_SERIALIZABLE = "WriteSerializable"
    """Writes have a serial order; a blind append may be ordered after a change that landed behind it."""
