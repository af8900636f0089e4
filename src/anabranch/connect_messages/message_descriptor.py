"""The descriptor of the messages in `delta_connect.proto`: both ends build their messages by it.

The driver's Python may lack the package protobuf: nothing here needs it.
"""

from __future__ import annotations

import importlib.resources

PACKAGE = "anabranch.connect"
"""Of the messages in the descriptor."""
TYPE_PREFIX = "type.googleapis.com/delta.connect."
"""What stands before a message's name where it is sent."""
RELATION, COMMAND = "DeltaRelation", "DeltaCommand"
"""The messages that are sent; one of their fields holds what is to be done."""


def descriptor_set() -> bytes:
    """A `FileDescriptorSet` of the one file, compiled by `scripts/compile_messages.py`."""
    return importlib.resources.files(__package__).joinpath("delta_connect.binpb").read_bytes()
