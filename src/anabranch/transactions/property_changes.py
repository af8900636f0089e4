"""What a change of a table property means for other statements that are committed at the same time.

A test compares the names with those of `protocol/property_table.py`. A property that Delta does not define is the
user's own, and a change of it matters to no statement; an unknown one of Delta's may matter to all of them.
"""

from __future__ import annotations

import enum
from typing import Final


class PropertyChange(enum.Enum):
    """What a change of a property means for other statements."""

    UPKEEP = "upkeep"
    """Nothing: it is for the maintenance of the log, or for files that are written later."""
    FEATURE = "feature"
    """Nothing for statements that write rows. It needs a table feature, which a change of the description may drop."""
    STATISTICS = "statistics"
    """Nothing for statements that write rows, since files need no statistics. It names columns that may be dropped."""
    TURNED_ON = "turned on"
    """Nothing if it becomes true: it allows something, or demands what each attempt to commit adds."""
    FIRST_SET = "first set"
    """Nothing if it was not set: a feature records there when it was enabled, or the names of its columns."""
    INCREASED = "increased"
    """Nothing if the number grows."""
    CONFLICT = "conflict"
    """A writer that has not read it may write what it forbids, or omit what it demands."""


UPKEEP: Final = (
    "autoOptimize",
    "autoOptimize.autoCompact",
    "autoOptimize.optimizeWrite",
    "checkpoint.writeStatsAsJson",
    "checkpoint.writeStatsAsStruct",
    "checkpointInterval",
    "checkpointRetentionDuration",
    "deletedFileRetentionDuration",
    "dropFeatureTruncateHistory.retentionDuration",
    "enableExpiredLogCleanup",
    "enableFullRetentionRollback",
    "logRetentionDuration",
    "parquet.compression.codec",
    "parquet.format.version",
    "randomPrefixLength",
    "randomizeFilePrefixes",
    "rowLevelConcurrencyPreview",  # conflicts are decided by rows whether it is set or not
    "sampleRetentionDuration",
    "setTransactionRetentionDuration",
    "targetFileSize",
)
CONFLICTS: Final = {
    "appendOnly": "a change of rows that has not read it would still be committed",
    "castIcebergTimeType": "files must fit another format",
    "compatibility.symlinkFormatManifest.enabled": "deletion vectors are forbidden then",
    "columnMapping.mode": "files name their columns otherwise",
    "coordinatedCommits.commitCoordinator-preview": "commits go to another place",
    "coordinatedCommits.commitCoordinatorConf-preview": "commits go to another place",
    "coordinatedCommits.tableConf-preview": "commits go to another place",
    "enableChangeDataCapture": "the commit would lack the files of changed rows",
    "enableChangeDataFeed": "the commit would lack the files of changed rows",
    "enableIcebergCompatV1": "files must fit another format",
    "enableIcebergCompatV2": "files must fit another format",
    "enableIcebergCompatV3": "files must fit another format",
    "enableMaterializePartitionColumnsFeature": "files must hold the partition columns",
    "enableVariantShredding": "files must not have shredded variants while it is off",
    "ignoreIcebergBucketPartition": "files must fit another format",
    "isolationLevel": "the commit was checked by another rule",
    "redirectReaderWriter-preview": "the table is at another place",
    "redirectWriterOnly-preview": "the table is at another place",
    "requireCheckpointProtectionBeforeVersion": "a feature was dropped",
    "rowTrackingSuspended": "files must have no row ids, or must have them",
    "universalFormat.enabledFormats": "files must fit another format",
    "universalFormat.iceberg.atomicConversion.supported": "the commit would lack the other format's metadata",
    "writePartitionColumnsToParquet": "files must hold the partition columns",
}
"""Why a writer that has not read the change cannot be committed after it."""

_OTHERS: Final = {
    "checkpointPolicy": PropertyChange.FEATURE,
    "columnMapping.maxColumnId": PropertyChange.INCREASED,
    "dataSkippingNumIndexedCols": PropertyChange.STATISTICS,
    "dataSkippingStatsColumns": PropertyChange.STATISTICS,
    "dataSkippingStringPrefixLength": PropertyChange.STATISTICS,
    "enableDeletionVectors": PropertyChange.TURNED_ON,
    "enableInCommitTimestamps": PropertyChange.TURNED_ON,
    "enableRowTracking": PropertyChange.TURNED_ON,
    "enableTypeWidening": PropertyChange.TURNED_ON,
    "inCommitTimestampEnablementTimestamp": PropertyChange.FIRST_SET,
    "inCommitTimestampEnablementVersion": PropertyChange.FIRST_SET,
    "rowTracking.materializedRowCommitVersionColumnName": PropertyChange.FIRST_SET,
    "rowTracking.materializedRowIdColumnName": PropertyChange.FIRST_SET,
}

PROPERTY_CHANGES: Final[dict[str, PropertyChange]] = {
    f"delta.{name}": kind
    for name, kind in {
        **dict.fromkeys(UPKEEP, PropertyChange.UPKEEP),
        **_OTHERS,
        **dict.fromkeys(CONFLICTS, PropertyChange.CONFLICT),
    }.items()
}
