"""The descriptor of the messages in `delta_connect.proto`, from which client and server build their message classes.

This module does not need the package protobuf, which the driver's Python may lack.
"""

from __future__ import annotations

import importlib.resources

PACKAGE = "anabranch.connect"
"""The package of the messages in the descriptor."""
TYPE_PREFIX = "type.googleapis.com/delta.connect."
"""The prefix of a message's name in the type URL with which it is sent."""
RELATION, COMMAND = "DeltaRelation", "DeltaCommand"
"""The two messages that are sent. One of their fields has the relation or the command."""


def descriptor_set() -> bytes:
    """A `FileDescriptorSet` of the one file, compiled by `scripts/compile_messages.py`."""
    return importlib.resources.files(__package__).joinpath("delta_connect.binpb").read_bytes()
