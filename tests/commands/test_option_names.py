"""Which names of options are refused as slips of the pen."""

from __future__ import annotations

import pytest

from anabranch.errors.arguments import InvalidOptionError
from anabranch.spark.session.session_settings import OF_READS, OF_STREAMS, OF_WRITES, check_names

OF_OTHERS = """
    path paths basePath compression compressionCodec datetimeRebaseMode int96RebaseMode recursiveFileLookup pathGlobFilter
    modifiedBefore modifiedAfter ignoreMissingFiles ignoreCorruptFiles header inferSchema sep encoding mode multiLine
    timeZone locale startingOffsets endingOffsets startingOffsetsByTimestamp maxOffsetsPerTrigger minOffsetsPerTrigger
    maxTriggerDelay latestFirst maxFileAge fileNameOnly cleanSource sourceArchiveDir maxCachedFiles queryName batchId
    rowsPerSecond isolationLevel batchsize version timestamp responseFormat __partition_columns __clustering_columns
    fs.s3a.path dfs.replication parquet.compression parquet.block.size delta.appendOnly spark.versionAsOff io.mergeSchem
"""


def test_names_near_one_that_there_is_are_refused() -> None:
    """Covers bug B67: what was nearly an option was ignored."""
    for name, meant in {
        "versionAsOff": "versionAsOf",
        "version_as_of": "versionAsOf",
        "TIMESTAMPASO": "timestampAsOf",
        "replaceWher": "replaceWhere",
        "mergeSchem": "mergeSchema",
        "overwrite_schema": "overwriteSchema",
        "partitionOverwrite": "partitionOverwriteMode",
        "startVersion": "startingVersion",
        "endVersion": "endingVersion",
        "readChangesFeed": "readChangeFeed",
        "maxFilePerTrigger": "maxFilesPerTrigger",
        "ignoreDelete": "ignoreDeletes",
        "txnAppIds": "txnAppId",
    }.items():
        with pytest.raises(InvalidOptionError, match=rf"{name} = 'x'.*did you mean {meant}\?"):
            check_names({"path": "/t", name: "x"})


def test_other_names_pass() -> None:
    """Covers bug B67: options of Spark and of file systems are not Delta's to refuse."""
    for name in (*OF_WRITES, *OF_READS, *OF_STREAMS, *OF_OTHERS.split()):
        check_names(dict.fromkeys((name, name.lower(), name.upper()), "x"))
