"""Values of the properties of a table (`TableProperties`), and checks of those that a user sets (`validated`).

See "Table Properties" of PROTOCOL.md; the properties themselves are rows of `property_table`. Those of "Iceberg
Compatibility V1" and "Iceberg Compatibility V2" need other properties; their rules for the rest of the table are in
`schema.iceberg_rules`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, Literal, TypeVar, cast

from anabranch.booleans import parse_boolean
from anabranch.errors.protocol import InvalidPropertyError, ReadOnlyPropertyError, UnknownPropertyError
from anabranch.protocol.property_table import PROPERTIES, PROPERTIES_BY_LOWER_NAME, IsolationLevel, PropertyRow

PREFIX: Final = "delta."
FEATURE_PREFIX: Final = "delta.feature."
CONSTRAINT_PREFIX: Final = "delta.constraints."
UNIVERSAL_FORMAT_CONFIG_PREFIX: Final = "delta.universalformat.config."
SESSION_DEFAULT_PREFIX: Final = "spark.databricks.delta.properties.defaults."

STRING_PREFIX_LENGTH_DEFAULT: Final = 32

ColumnMappingModeName = Literal["none", "name", "id"]
CheckpointPolicyName = Literal["classic", "v2"]


T = TypeVar("T")


class _Property(Generic[T]):
    """An attribute with the parsed value of a property of `property_table`; its default where it is not set."""

    def __init__(self, name: str) -> None:
        self._row = PROPERTIES[name]

    def __get__(self, table: TableProperties, owner: type[TableProperties]) -> T:
        row, configuration = self._row, table.configuration
        text = configuration.get(row.name)
        if text is None and row.former_name is not None:
            text = configuration.get(row.former_name)
        if text is None:
            text = row.default
        return cast("T", None if text is None else parse_property(row, text))


@dataclasses.dataclass(frozen=True, slots=True)
class TableProperties:
    """Typed view of `metaData.configuration`.

    A property is parsed when it is read, so that an invalid value that another writer stored only matters
    where it is needed; there it raises `InvalidPropertyError`.
    """

    configuration: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    append_only = _Property[bool]("delta.appendOnly")
    isolation_level = _Property[IsolationLevel]("delta.isolationLevel")
    deletion_vectors_enabled = _Property[bool]("delta.enableDeletionVectors")
    change_data_feed_enabled = _Property[bool]("delta.enableChangeDataFeed")
    variant_shredding_enabled = _Property[bool]("delta.enableVariantShredding")
    row_tracking_enabled = _Property[bool]("delta.enableRowTracking")
    row_tracking_suspended = _Property[bool]("delta.rowTrackingSuspended")
    materialized_row_id_column = _Property[str | None]("delta.rowTracking.materializedRowIdColumnName")
    materialized_row_commit_version_column = _Property[str | None](
        "delta.rowTracking.materializedRowCommitVersionColumnName"
    )
    type_widening_enabled = _Property[bool]("delta.enableTypeWidening")
    in_commit_timestamps_enabled = _Property[bool]("delta.enableInCommitTimestamps")
    in_commit_timestamp_enablement_version = _Property[int | None]("delta.inCommitTimestampEnablementVersion")
    in_commit_timestamp_enablement_timestamp_ms = _Property[int | None]("delta.inCommitTimestampEnablementTimestamp")
    column_mapping_mode = _Property[ColumnMappingModeName]("delta.columnMapping.mode")
    column_mapping_max_id = _Property[int]("delta.columnMapping.maxColumnId")
    checkpoint_interval = _Property[int]("delta.checkpointInterval")
    """Commits from one checkpoint to the next."""
    checkpoint_policy = _Property[CheckpointPolicyName]("delta.checkpointPolicy")
    checkpoint_stats_as_json = _Property[bool]("delta.checkpoint.writeStatsAsJson")
    checkpoint_stats_as_struct = _Property[bool]("delta.checkpoint.writeStatsAsStruct")
    log_retention_ms = _Property[int]("delta.logRetentionDuration")
    deleted_file_retention_ms = _Property[int]("delta.deletedFileRetentionDuration")
    set_transaction_retention_ms = _Property[int | None]("delta.setTransactionRetentionDuration")
    """None: application ids are kept for ever."""
    checkpoint_protection_version = _Property[int]("delta.requireCheckpointProtectionBeforeVersion")
    """History before this version is removed as a whole or kept; see `log.cleanup`."""
    drop_feature_retention_ms = _Property[int]("delta.dropFeatureTruncateHistory.retentionDuration")
    expired_log_cleanup_enabled = _Property[bool]("delta.enableExpiredLogCleanup")
    num_indexed_columns = _Property[int]("delta.dataSkippingNumIndexedCols")
    """The number of leaf columns that get statistics; -1 for all. `stats_columns` takes precedence."""
    stats_columns = _Property[tuple[tuple[str, ...], ...] | None]("delta.dataSkippingStatsColumns")
    """Logical paths of the columns that get statistics, case-insensitive; None: the first ones."""
    optimize_write_enabled = _Property[bool | None]("delta.autoOptimize.optimizeWrite")
    """Whether rows are shuffled into fewer, larger files when written; None where the table does not say."""
    target_file_size_bytes = _Property[int | None]("delta.targetFileSize")
    randomize_file_prefixes = _Property[bool]("delta.randomizeFilePrefixes")
    random_prefix_length = _Property[int]("delta.randomPrefixLength")
    compression_codec = _Property[str | None]("delta.parquet.compression.codec")
    """The codec of new files in lower case; None: the writer's default."""
    symlink_manifests_enabled = _Property[bool]("delta.compatibility.symlinkFormatManifest.enabled")
    """Whether manifests for engines without Delta are kept up to date."""
    _parquet_version = _Property[str]("delta.parquet.format.version")
    _string_prefix_length = _Property[int | None]("delta.dataSkippingStringPrefixLength")
    _auto_optimize = _Property[bool | None]("delta.autoOptimize")
    _auto_compact = _Property[str | None]("delta.autoOptimize.autoCompact")

    def value(self, name: str) -> Any:
        """The value of any property of `property_table`."""
        return _Property[Any](name).__get__(self, TableProperties)

    @property
    def writes_parquet_v2(self) -> bool:
        """Whether new files have pages and encodings of Parquet's version 2: from format 2.12.0 on, as in Delta."""
        return tuple(map(int, self._parquet_version.split("."))) >= (2, 12, 0)

    @property
    def string_prefix_length(self) -> int:
        """How many characters of a string statistics keep."""
        length = self._string_prefix_length
        return STRING_PREFIX_LENGTH_DEFAULT if length is None else length

    @property
    def auto_compact_enabled(self) -> bool:
        """Whether small files are compacted after each statement, where the session does not say."""
        return bool(self._auto_optimize) or self._auto_compact not in {None, "false"}

    @property
    def constraints(self) -> dict[str, str]:
        """The SQL of CHECK constraints, by name."""
        return {
            key[len(CONSTRAINT_PREFIX) :]: sql
            for key, sql in self.configuration.items()
            if key.lower().startswith(CONSTRAINT_PREFIX) and sql is not None
        }


@functools.lru_cache(maxsize=256)
def parse_property(row: PropertyRow, text: str) -> Any:
    """The value of a property. Raises `InvalidPropertyError`."""
    try:
        return row.parse(text)
    except ValueError as error:
        raise InvalidPropertyError(name=row.name, value=text, expected=row.expected) from error


def canonical_name(name: str) -> str:
    """The name as it is stored. Letter case matters only in names that are the user's own.

    Unknown names are returned unchanged.
    """
    lower = name.lower()
    if lower.startswith((FEATURE_PREFIX, UNIVERSAL_FORMAT_CONFIG_PREFIX)):
        return lower
    if lower.startswith(CONSTRAINT_PREFIX):
        return CONSTRAINT_PREFIX + name[len(CONSTRAINT_PREFIX) :]
    row = PROPERTIES_BY_LOWER_NAME.get(lower)
    return row.name if row else name


def validated(properties: Mapping[str, str], *, current: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The properties that a user sets, checked, by canonical name; protocol pseudo-properties included.

    `current` has the table's properties, for rules that concern two properties.
    Raises `UnknownPropertyError`, `ReadOnlyPropertyError`, `InvalidPropertyError`.
    """
    result: dict[str, str] = {}
    for written_name, value in properties.items():
        name = canonical_name(written_name)
        if name in result and result[name] != value:
            raise InvalidPropertyError(name=name, value=value, expected="set once, regardless of letter case")
        _check_settable(name, value)
        result[name] = value
    _check_retention(result, current or {})
    return result


def canonical_names(names: Iterable[str]) -> list[str]:
    """The canonical names of properties that UNSET TBLPROPERTIES may remove. Raises `ReadOnlyPropertyError`."""
    result = []
    for written_name in names:
        name = canonical_name(written_name)
        row = PROPERTIES.get(name)
        if row is not None and not row.settable:
            raise ReadOnlyPropertyError(name=name)
        result.append(name)
    return result


def with_session_defaults(properties: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """Properties of a new table: the user's own, over `spark.databricks.delta.properties.defaults.*`.

    `session` is the session's whole configuration. Names there that are no property are ignored.
    The result is validated and still holds the protocol pseudo-properties.
    """
    explicit = validated(properties)
    defaults = validated(_session_defaults(session))
    ignore = explicit.get("delta.ignoreProtocolDefaults", defaults.get("delta.ignoreProtocolDefaults", "false"))
    if parse_boolean(ignore):
        defaults = {name: value for name, value in defaults.items() if not is_protocol_property(name)}
    merged = {**defaults, **explicit}
    _check_retention(merged, {})
    return merged


def is_protocol_property(name: str) -> bool:
    """Whether setting the property changes the `protocol` action; it is never stored."""
    row = PROPERTIES.get(name)
    return name.startswith(FEATURE_PREFIX) or (row is not None and not row.stored)


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for `metaData.configuration`: all but the protocol pseudo-properties."""
    return {name: value for name, value in properties.items() if not is_protocol_property(name)}


def _session_defaults(session: Mapping[str, str]) -> dict[str, str]:
    named = {
        PREFIX + key[len(SESSION_DEFAULT_PREFIX) :]: value
        for key, value in session.items()
        if key.startswith(SESSION_DEFAULT_PREFIX)
    }
    return {name: value for name, value in named.items() if name in PROPERTIES or name.startswith(FEATURE_PREFIX)}


def _check_settable(name: str, value: str) -> None:
    if not name.lower().startswith(PREFIX) or name.startswith(
        (FEATURE_PREFIX, CONSTRAINT_PREFIX, UNIVERSAL_FORMAT_CONFIG_PREFIX)
    ):
        return
    row = PROPERTIES.get(name)
    if row is None:
        raise UnknownPropertyError(name=name, suggestions=_similar_names(name))
    if not row.settable:
        raise ReadOnlyPropertyError(name=name)
    parse_property(row, value)


def _check_retention(changes: Mapping[str, str], current: Mapping[str, str | None]) -> None:
    """Removed files must not be kept longer than the commits that removed them: VACUUM could not explain them."""
    log, files = PROPERTIES["delta.logRetentionDuration"], PROPERTIES["delta.deletedFileRetentionDuration"]
    if not {log.name, files.name} & changes.keys():
        return
    view = TableProperties({**current, **changes})
    if view.log_retention_ms < view.deleted_file_retention_ms:
        log_text = view.configuration.get(log.name) or log.default
        raise InvalidPropertyError(
            name=files.name,
            value=view.configuration.get(files.name) or files.default,
            expected=f"no longer than `{log.name}` ({log_text})",
        )


def _similar_names(name: str) -> tuple[str, ...]:
    settable = {row.name.lower(): row.name for row in PROPERTIES.values() if row.settable}
    return tuple(settable[match] for match in difflib.get_close_matches(name.lower(), settable, n=3, cutoff=0.75))


COMPAT_VERSIONS: Final = (1, 2)
"""The versions that anabranch implements."""
COMPAT_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""A tag of a data file: the version whose rules it was written by, from version 2 on."""
FORMATS: Final = "delta.universalFormat.enabledFormats"
ICEBERG: Final = "iceberg"
VECTORS: Final = "delta.enableDeletionVectors"
MAPPING_MODE: Final = "delta.columnMapping.mode"


def compat_property(version: int) -> str:
    """The property that turns a version on."""
    return f"delta.enableIcebergCompatV{version}"


_VERSION_OF_PROPERTY: Final = {compat_property(version): version for version in COMPAT_VERSIONS}
"""Each is off where it is not set."""


def compat_versions(properties: TableProperties) -> tuple[int, ...]:
    """The versions that are on; more than one is a mistake."""
    names = _VERSION_OF_PROPERTY.keys() & properties.configuration.keys()
    return tuple(sorted([_VERSION_OF_PROPERTY[name] for name in names if properties.value(name)])) if names else ()


def stores_partition_columns(properties: TableProperties) -> bool:
    """Whether data files hold the partition columns too, behind all others."""
    return bool(compat_versions(properties)) or bool(properties.value("delta.writePartitionColumnsToParquet"))


def numbers_nested_fields(properties: TableProperties) -> bool:
    """Whether elements, keys and values have field ids, as columns do."""
    return max(compat_versions(properties), default=0) >= 2


def file_tags(properties: TableProperties) -> dict[str, str] | None:
    """The tags of every new data file; None for none."""
    version = max(compat_versions(properties), default=0)
    return {COMPAT_TAG: str(version)} if version >= 2 else None


def universal_formats(properties: TableProperties) -> tuple[str, ...]:
    """The formats besides Delta for which each version of the table gets metadata."""
    formats: tuple[str, ...] = properties.value(FORMATS)
    return formats


def writes_iceberg(properties: TableProperties) -> bool:
    """Whether every version of the table gets Iceberg metadata."""
    return ICEBERG in universal_formats(properties) and bool(compat_versions(properties))


def with_requirements(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table, with those that Iceberg compatibility needs and the user did not set."""
    completed = dict(configuration)
    if compat_versions(TableProperties(completed)):
        completed.setdefault(MAPPING_MODE, "name")
        completed.setdefault(VECTORS, "false")
    return completed


def without_orphaned_format(old: TableProperties, configuration: Mapping[str, str]) -> dict[str, str]:
    """`configuration`, without Iceberg among its formats where it turns compatibility off."""
    remaining, new = dict(configuration), TableProperties(configuration)
    if compat_versions(old) and not compat_versions(new) and ICEBERG in universal_formats(new):
        kept = [name for name in universal_formats(new) if name != ICEBERG]
        remaining.pop(FORMATS)
        if kept:
            remaining[FORMATS] = ",".join(kept)
    return remaining
