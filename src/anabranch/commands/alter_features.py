"""ALTER TABLE … DROP FEATURE, and the calls that raise the protocol of a table."""

from __future__ import annotations

from anabranch.commands.alter_properties import alter_set_properties
from anabranch.commands.dropped_features import drop_feature
from anabranch.commands.table_access import TableHandle
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.transaction.committed_version import CommittedVersion


def alter_drop_feature(handle: TableHandle, feature: str, *, truncate_history: bool = False) -> CommittedVersion:
    """Take a table feature out of the protocol, with all that the newest version of the table has of it.

    Where old versions use it in a way that would be misread, they stay behind checkpoints that are protected from then
    on by the feature `checkpointProtection`; or, with `truncate_history`, they must be old enough to be removed.

    Raises `FeatureNotSupportedByTableError`; `FeatureDropError`, which says what has to be done first;
    `FeatureInHistoryError`, which says until when to wait; `ColumnNamesNeedMappingError`; and the exceptions of
    `errors.conflicts` where others change the table again and again meanwhile.
    """
    return drop_feature(handle, feature, truncates_history=truncate_history)


def alter_add_feature(handle: TableHandle, feature: str) -> CommittedVersion | None:
    """Let the table support a feature. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
    return alter_set_properties(handle, {f"{FEATURE_PREFIX}{feature}": "supported"})


def alter_upgrade_protocol(handle: TableHandle, reader_version: int, writer_version: int) -> CommittedVersion | None:
    """Let the table support what these versions imply. Versions never get lower: what is there already stays as it is,
    and so does a table that has it all. Raises `InvalidPropertyError` for versions that do not exist.
    """
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    return alter_set_properties(handle, versions)
