"""Settings of a session, and options of reads, writes and streams: their names, and values that statements share."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import SparkSession

from anabranch.errors.arguments import IdempotentWriteOptionsError, InvalidOptionError
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.value_text import LONG_MAX
from anabranch.schema.casts import Casting
from anabranch.schema.schema_evolution import Widening


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at a time."""
    return max(1, spark.sparkContext.defaultParallelism)


OF_WRITES = (
    "compression",
    "conflictRetries",
    "dataChange",
    "maxRecordsPerFile",
    "mergeSchema",
    "optimizeWrite",
    "overwriteSchema",
    "partitionOverwriteMode",
    "replaceOn",
    "replaceUsing",
    "replaceWhere",
    "targetAlias",
    "txnAppId",
    "txnVersion",
    "userMetadata",
)
OF_READS = (
    "endingTimestamp",
    "endingVersion",
    "path",
    "readChangeData",
    "readChangeFeed",
    "startingTimestamp",
    "startingVersion",
    "timestampAsOf",
    "versionAsOf",
)
OF_STREAMS = (
    "allowSourceColumnDrop",
    "allowSourceColumnRename",
    "allowSourceColumnTypeChange",
    "checkpointLocation",
    "excludeRegex",
    "failOnDataLoss",
    "ignoreChanges",
    "ignoreDeletes",
    "ignoreFileDeletion",
    "maxBytesPerTrigger",
    "maxFilesPerTrigger",
    "schemaLocation",
    "schemaTrackingLocation",
    "skipChangeCommits",
    "streamingSourceTrackingId",
    "withEventTimeOrder",
)
_BY_LOWER_NAME = {name.lower(): name for name in (*OF_WRITES, *OF_READS, *OF_STREAMS)}
_SPARK_OPTIONS = frozenset({"paths"})
"""Names of Spark's own options that are similar to one of these."""
_SIMILARITY_MIN = 0.86
"""How similar two names must be, of 1, for one to be taken for a misspelling of the other."""


def check_names(options: Mapping[str, str]) -> None:
    """Refuse an option that looks like a misspelling of one of Delta's, as it would be ignored otherwise.

    Other names are allowed: Spark and file systems have their own options, most of them with a dot in the name. Raises
    `InvalidOptionError`.
    """
    for name, value in options.items():
        lower = name.lower()
        if lower in _BY_LOWER_NAME or lower in _SPARK_OPTIONS or "." in lower:
            continue
        similar = difflib.get_close_matches(lower, _BY_LOWER_NAME, n=1, cutoff=_SIMILARITY_MIN)
        if similar:
            problem = f"Delta has no option of this name (did you mean {_BY_LOWER_NAME[similar[0]]}?)"
            raise InvalidOptionError(option=name, value=value, problem=problem)


CASE_SENSITIVE_SETTING = "spark.sql.caseSensitive"
AUTO_COMPACT = "spark.databricks.delta.autoCompact."
_COMPACTS = frozenset({"true", "auto", "legacy"})
"""`auto` and `legacy` are values for other writers of Delta tables; here they mean `true`."""


class Settings(Protocol):
    """The runtime settings of a session, as text."""

    def setting(self, key: str, default: str | None = None) -> str | None:
        """The text of a setting, or `default` where it is not set."""


class SessionSettings(Settings, Protocol):
    """The runtime settings of a session, as `DeltaSession` has them."""

    def flag(self, key: str, *, default: bool) -> bool:
        """A setting that is true or false. Raises `InvalidOptionError` for any other word."""


def store_assignment(session: Settings) -> Casting:
    """How the session lets values be cast that have another type than their column."""
    return Casting((session.setting("spark.sql.storeAssignmentPolicy") or "ANSI").lower())


def automatic_widening(session: Settings, properties: TableProperties) -> Widening:
    """How far a write that may change the schema of a table with these properties widens the types of columns."""
    if not properties.type_widening_enabled:
        return Widening.NONE
    setting = session.setting("spark.databricks.delta.typeWidening.allowAutomaticWidening", "same_family_type")
    try:
        return Widening((setting or "").lower())
    except ValueError:
        return Widening.SAME_FAMILY


def compacts_after_commits(session: Settings, properties: TableProperties) -> bool:
    """Whether the session or, without a setting of the session, the table compacts small files after each commit.

    Raises `InvalidOptionError`.
    """
    name = f"{AUTO_COMPACT}enabled"
    text = session.setting(name)
    if text is None:
        return properties.auto_compact_enabled
    word = text.strip().lower()
    if word not in _COMPACTS | {"false"}:
        raise InvalidOptionError(option=name, value=text, problem="it must be true, auto, legacy or false")
    return word in _COMPACTS


def application_of(values: Mapping[str, str], settings: Settings) -> tuple[str, int] | None:
    """The id of the application and the number of its write; options override the session's settings.

    Raises `InvalidOptionError`.
    """
    app_id, version = values.get("txnappid"), values.get("txnversion")
    if app_id is None and version is None:
        app_id = settings.setting("spark.databricks.delta.write.txnAppId")
        version = settings.setting("spark.databricks.delta.write.txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        missing = "txnAppId" if app_id is None else "txnVersion"
        problem = f"txnAppId and txnVersion make a write idempotent only together; {missing} is missing"
        raise IdempotentWriteOptionsError(option="txnAppId", value=str(app_id), problem=problem)
    try:
        number = int(version)
    except ValueError:
        number = -1
    if not 0 <= number <= LONG_MAX or not app_id:
        problem = f"it must be a whole number, from 0 to {LONG_MAX}"
        raise IdempotentWriteOptionsError(option="txnVersion", value=version, problem=problem)
    return app_id, number
