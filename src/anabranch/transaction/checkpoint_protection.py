"""Which part of the history is kept or removed as a whole, after a feature was dropped.

`checkpointProtection` is a Writer feature that PROTOCOL.md does not have yet; its text is Delta's RFC "Checkpoint
Protection". Versions before `delta.requireCheckpointProtectionBeforeVersion` may use features that the table no longer
lists. Readers get past them by checkpoints, so these must stay as long as any of those versions does.
"""

from __future__ import annotations

from typing import Final

import msgspec

from anabranch.protocol.actions import Metadata, Protocol
from anabranch.protocol.features import supported
from anabranch.transaction.head import Head

CHECKPOINT_PROTECTION: Final = "checkpointProtection"
PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"


def with_protection(metadata: Metadata, head: Head, *, protocol: Protocol) -> Metadata:
    """`metadata`, with the version right after `head` as the bound where it moves the bound at all.

    Only dropping a feature does that, and then everything before its own commit is protected, wherever that lands.
    """
    bound = metadata.configuration.get(PROTECTED_BEFORE)
    before = None if head.metadata is None else head.metadata.configuration.get(PROTECTED_BEFORE)
    if bound is None or bound == before or not supported(protocol, CHECKPOINT_PROTECTION):
        return metadata
    return msgspec.structs.replace(
        metadata, configuration={**metadata.configuration, PROTECTED_BEFORE: str(head.version + 1)}
    )
