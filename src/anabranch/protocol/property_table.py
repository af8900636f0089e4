"""The table properties that anabranch knows, one row each."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from anabranch.booleans import parse_boolean
from anabranch.protocol.value_text import parse_interval_ms

# How strictly writes of a table are ordered: the values of `delta.isolationLevel`.


class IsolationLevel(enum.Enum):
    """How strictly writes are ordered; the values are those of the property and of `commitInfo.isolationLevel`."""

    SERIALIZABLE = "Serializable"
    """Reads and writes have a serial order, and it is that of the history."""
    WRITE_SERIALIZABLE = "WriteSerializable"
    """Writes have a serial order; a blind append may be ordered after a change that was committed after it."""


# Values of table properties, from text. Every parser raises ValueError for text that it does not accept.


INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_BYTE_UNITS: Final = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
_CODECS: Final = frozenset({"uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd"})
_NAME_PART: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`.,]+))\s*")


def _true_or_false(text: str) -> bool:
    value = parse_boolean(text)
    if value is None:
        raise ValueError(text)
    return value


def integer_between(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers, both limits included."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= (value := int(text)) <= high:
            raise ValueError(text)
        return value

    return parse


def one_of(*values: str) -> Callable[[str], str]:
    """A parser that accepts these words in any letter case and returns them as spelled here."""
    spelled = {value.lower(): value for value in values}

    def parse(text: str) -> str:
        if text.lower() not in spelled:
            raise ValueError(text)
        return spelled[text.lower()]

    return parse


def parse_isolation_level(text: str) -> IsolationLevel:
    """The two levels a table may have, in any letter case."""
    for level in IsolationLevel:
        if level.value.lower() == text.lower():
            return level
    raise ValueError(text)


def parse_codec(text: str) -> str:
    """A Parquet compression codec, in lower case."""
    if text.lower() not in _CODECS:
        raise ValueError(text)
    return text.lower()


def parse_parquet_version(text: str) -> str:
    """A version of the Parquet format. See `delta.parquet.format.version` in "Table Properties"."""
    if text != "1.0.0" and not re.fullmatch(r"2\.[0-9]+\.[0-9]+", text):
        raise ValueError(text)
    return text


def parse_bytes(text: str) -> int:
    """A number of bytes, as `134217728`, `128m` or `128mb`."""
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _BYTE_UNITS:
        raise ValueError(text)
    if not 0 < (value := int(match[1]) << _BYTE_UNITS[match[2]]) <= LONG_MAX:
        raise ValueError(text)
    return value


def parse_formats(text: str) -> tuple[str, ...]:
    """Comma-separated table formats, each at most once."""
    formats = tuple(part.strip().lower() for part in text.split(",")) if text else ()
    if len(set(formats)) != len(formats) or not set(formats) <= {"iceberg", "hudi"}:
        raise ValueError(text)
    return formats


def parse_string_map(text: str) -> dict[str, str]:
    """A JSON object of strings."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(text) from error


def parse_column_list(text: str) -> tuple[tuple[str, ...], ...]:
    """Column paths, separated by commas: ``a, b.c, `d.e`.f`` gives (a,), (b, c), (d.e, f).

    Parts with other characters than letters, digits and underscores need backticks.
    """
    columns: list[tuple[str, ...]] = []
    parts: list[str] = []
    position = 0
    while text.strip():
        match = _NAME_PART.match(text, position)
        if match is None or (match[2] and not re.fullmatch(r"\w+", match[2])):
            raise ValueError(text)
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        position = match.end()
        separator = text[position : position + 1]
        if separator != ".":
            columns.append(tuple(parts))
            parts = []
        if not separator:
            break
        if separator not in ".,":
            raise ValueError(text)
        position += 1
    return tuple(columns)


def parse_text(text: str) -> Any:
    """Any text, unchanged."""
    return text


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow:
    """One property."""

    name: str
    """The name with its prefix, in the letter case in which it is stored."""
    default: str | None
    """The value where the property is not set; None where its absence has a meaning of its own."""
    parse: Callable[[str], Any]
    """Raises ValueError for values that it does not accept."""
    expected: str
    """Completes "must be …"."""
    description: str
    settable: bool = True
    """False where only the writer itself may set it."""
    stored: bool = True
    """False for properties that change the protocol and never enter `metaData.configuration`."""
    former_name: str | None = None
    """An older name, which is read where the property itself is not set."""


_BOOLEAN: Final[tuple[Callable[[str], Any], str]] = (_true_or_false, "true or false")
_INTERVAL: Final[tuple[Callable[[str], Any], str]] = (
    parse_interval_ms,
    "an interval such as '2 weeks' (months and years are not accepted: write '365 days')",
)
_LONG: Final[tuple[Callable[[str], Any], str]] = (integer_between(0, LONG_MAX), "a whole number of at least 0")
_TEXT: Final[tuple[Callable[[str], Any], str]] = (parse_text, "text")
_STRING_MAP: Final[tuple[Callable[[str], Any], str]] = (parse_string_map, "a JSON object of strings")
_NOT_SET: Final = None


def _row(
    name: str,
    default: str | None,
    kind: tuple[Callable[[str], Any], str],
    description: str,
    **more: Any,
) -> PropertyRow:
    parse, expected = kind
    return PropertyRow(
        name=f"delta.{name}", default=default, parse=parse, expected=expected, description=description, **more
    )


_ROWS: Final[tuple[PropertyRow, ...]] = (
    # Protocol; these change the `protocol` action and are not stored.
    _row("minReaderVersion", _NOT_SET, (integer_between(1, 3), "1, 2 or 3"), "reader version", stored=False),
    _row("minWriterVersion", _NOT_SET, (integer_between(1, 7), "from 1 to 7"), "writer version", stored=False),
    _row("ignoreProtocolDefaults", "false", _BOOLEAN, "ignore the session's defaults for the protocol", stored=False),
    # Retention.
    _row("logRetentionDuration", "interval 30 days", _INTERVAL, "how long commits are kept"),
    _row("checkpointRetentionDuration", "interval 2 days", _INTERVAL, "how long old checkpoints are kept"),
    _row("deletedFileRetentionDuration", "interval 1 week", _INTERVAL, "how long VACUUM keeps removed files"),
    _row("sampleRetentionDuration", "interval 7 days", _INTERVAL, "how long sample files are kept"),
    _row("setTransactionRetentionDuration", _NOT_SET, _INTERVAL, "how long application ids are remembered"),
    _row(
        "dropFeatureTruncateHistory.retentionDuration",
        "interval 24 hours",
        _INTERVAL,
        "history kept by DROP FEATURE … TRUNCATE HISTORY",
    ),
    _row("enableExpiredLogCleanup", "true", _BOOLEAN, "remove expired commits after a checkpoint"),
    _row("enableFullRetentionRollback", "true", _BOOLEAN, "keep every version within the log retention readable"),
    # Checkpoints.
    _row(
        "checkpointInterval",
        "10",
        (integer_between(1, INT_MAX), "a positive integer"),
        "number of commits between checkpoints",
    ),
    _row("checkpointPolicy", "classic", (one_of("classic", "v2"), "classic or v2"), "kind of checkpoint"),
    _row("checkpoint.writeStatsAsJson", "true", _BOOLEAN, "statistics as JSON in checkpoints"),
    _row(
        "checkpoint.writeStatsAsStruct",
        "false",
        _BOOLEAN,
        "statistics as columns in checkpoints; true by default in delta-spark",
    ),
    _row(
        "requireCheckpointProtectionBeforeVersion",
        "0",
        _LONG,
        "versions before this one can only be removed from the log together",
        settable=False,
    ),
    # Writing and concurrency.
    _row("appendOnly", "false", _BOOLEAN, "rows may be added, never changed"),
    _row(
        "isolationLevel",
        "WriteSerializable",
        (parse_isolation_level, "Serializable or WriteSerializable"),
        "how strictly concurrent writes are ordered",
    ),
    _row("rowLevelConcurrencyPreview", _NOT_SET, _BOOLEAN, "writers of different rows do not conflict"),
    _row("enableChangeDataFeed", "false", _BOOLEAN, "record changed rows", former_name="delta.enableChangeDataCapture"),
    _row("enableChangeDataCapture", "false", _BOOLEAN, "older name of enableChangeDataFeed"),
    _row("enableDeletionVectors", "false", _BOOLEAN, "hide rows instead of rewriting files"),
    _row("enableTypeWidening", "false", _BOOLEAN, "columns may get wider types"),
    _row("enableInCommitTimestamps", "false", _BOOLEAN, "commits record their own time"),
    _row(
        "inCommitTimestampEnablementVersion",
        _NOT_SET,
        _LONG,
        "first version whose commit records its own time",
        settable=False,
    ),
    _row("inCommitTimestampEnablementTimestamp", _NOT_SET, _LONG, "time of that version", settable=False),
    # Rows and columns.
    _row("enableRowTracking", "false", _BOOLEAN, "rows keep an id"),
    _row("rowTrackingSuspended", "false", _BOOLEAN, "assign no row ids, while the feature is dropped", settable=False),
    _row("rowTracking.materializedRowIdColumnName", _NOT_SET, _TEXT, "column of row ids", settable=False),
    _row(
        "rowTracking.materializedRowCommitVersionColumnName",
        _NOT_SET,
        _TEXT,
        "column of row commit versions",
        settable=False,
    ),
    _row(
        "columnMapping.mode", "none", (one_of("none", "name", "id"), "none, name or id"), "how columns are identified"
    ),
    _row("columnMapping.maxColumnId", "0", _LONG, "highest column id that was ever assigned", settable=False),
    _row("enableVariantShredding", "false", _BOOLEAN, "variants may be stored shredded"),
    _row("enableMaterializePartitionColumnsFeature", _NOT_SET, _BOOLEAN, "data files hold the partition columns"),
    _row("writePartitionColumnsToParquet", _NOT_SET, _BOOLEAN, "data files hold the partition columns"),
    # Statistics.
    _row(
        "dataSkippingNumIndexedCols",
        "32",
        (integer_between(-1, INT_MAX), "a whole number of at least -1"),
        "number of leaf columns that have statistics; -1 for all",
    ),
    _row(
        "dataSkippingStatsColumns",
        _NOT_SET,
        (parse_column_list, "a comma-separated list of columns, with backticks around unusual names"),
        "columns that have statistics",
    ),
    _row(
        "dataSkippingStringPrefixLength",
        _NOT_SET,
        (integer_between(0, INT_MAX), "a whole number of at least 0"),
        "how many characters of a string statistics keep",
    ),
    # Files.
    _row("autoOptimize", _NOT_SET, _BOOLEAN, "older name of autoOptimize.autoCompact"),
    _row(
        "autoOptimize.autoCompact",
        _NOT_SET,
        (one_of("true", "false", "auto", "legacy"), "true, auto, legacy or false"),
        "compact small files after a write",
    ),
    _row("autoOptimize.optimizeWrite", _NOT_SET, _BOOLEAN, "write fewer, larger files"),
    _row(
        "targetFileSize",
        _NOT_SET,
        (parse_bytes, "a number of bytes such as 134217728 or 128mb"),
        "size up to which files are written",
    ),
    _row("randomizeFilePrefixes", "false", _BOOLEAN, "random directories instead of partition directories"),
    _row(
        "randomPrefixLength",
        "2",
        (integer_between(1, INT_MAX), "greater than 0"),
        "length of the random directories' names",
    ),
    _row(
        "parquet.compression.codec",
        _NOT_SET,
        (parse_codec, "one of uncompressed, none, snappy, gzip, lz4, lz4_raw, zstd"),
        "compression of new files",
    ),
    _row("parquet.format.version", "1.0.0", (parse_parquet_version, "1.0.0 or 2.x.x"), "page format of new files"),
    _row("compatibility.symlinkFormatManifest.enabled", "false", _BOOLEAN, "keep manifests for other engines"),
    # Other formats and commit coordinators.
    _row(
        "universalFormat.enabledFormats",
        "",
        (parse_formats, "a comma-separated list of iceberg, hudi"),
        "other formats whose metadata is written, too",
    ),
    _row("enableIcebergCompatV1", _NOT_SET, _BOOLEAN, "allow only what Iceberg can read"),
    _row("enableIcebergCompatV2", _NOT_SET, _BOOLEAN, "allow only what Iceberg can read"),
    _row("enableIcebergCompatV3", _NOT_SET, _BOOLEAN, "allow only what Iceberg can read"),
    _row("universalFormat.iceberg.atomicConversion.supported", "false", _BOOLEAN, "convert within the commit"),
    _row("castIcebergTimeType", "false", _BOOLEAN, "Iceberg's TIME becomes a long when converted"),
    _row("ignoreIcebergBucketPartition", "false", _BOOLEAN, "convert bucketed Iceberg tables without partitions"),
    _row("coordinatedCommits.commitCoordinator-preview", _NOT_SET, _TEXT, "name of the commit coordinator"),
    _row(
        "coordinatedCommits.commitCoordinatorConf-preview",
        _NOT_SET,
        _STRING_MAP,
        "configuration of the commit coordinator",
    ),
    _row(
        "coordinatedCommits.tableConf-preview", _NOT_SET, _STRING_MAP, "configuration of the table at the coordinator"
    ),
    _row("redirectReaderWriter-preview", _NOT_SET, _TEXT, "where the table has moved to"),
    _row("redirectWriterOnly-preview", _NOT_SET, _TEXT, "where the table has moved to, for writers"),
)

PROPERTIES: Final[dict[str, PropertyRow]] = {row.name: row for row in _ROWS}
PROPERTIES_BY_LOWER_NAME: Final[dict[str, PropertyRow]] = {row.name.lower(): row for row in _ROWS}
