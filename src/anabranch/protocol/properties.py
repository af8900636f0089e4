"""Values of the properties of a table (`TableProperties`), and checks of those that a user sets (`validated`).

See "Table Properties" of PROTOCOL.md; the properties themselves are rows of `property_table`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

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


@dataclasses.dataclass(frozen=True, slots=True)
class TableProperties:
    """Typed view of `metaData.configuration`.

    A property is parsed when it is read, so that an invalid value that another writer stored only matters
    where it is needed; there it raises `InvalidPropertyError`.
    """

    configuration: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def value(self, name: str) -> Any:
        """The parsed value of a property of `property_table`; its default where it is not set."""
        row = PROPERTIES[name]
        text = self.configuration.get(name)
        if text is None and row.former_name is not None:
            text = self.configuration.get(row.former_name)
        if text is None:
            text = row.default
        return None if text is None else parse_property(row, text)

    @property
    def append_only(self) -> bool:
        return bool(self.value("delta.appendOnly"))

    @property
    def isolation_level(self) -> IsolationLevel:
        return cast("IsolationLevel", self.value("delta.isolationLevel"))

    @property
    def deletion_vectors_enabled(self) -> bool:
        return bool(self.value("delta.enableDeletionVectors"))

    @property
    def change_data_feed_enabled(self) -> bool:
        return bool(self.value("delta.enableChangeDataFeed"))

    @property
    def writes_parquet_v2(self) -> bool:
        """Whether new files have pages and encodings of Parquet's version 2: from format 2.12.0 on, as in Delta."""
        version = str(self.value("delta.parquet.format.version"))
        return tuple(map(int, version.split("."))) >= (2, 12, 0)

    @property
    def variant_shredding_enabled(self) -> bool:
        return bool(self.value("delta.enableVariantShredding"))

    @property
    def row_tracking_enabled(self) -> bool:
        return bool(self.value("delta.enableRowTracking"))

    @property
    def row_tracking_suspended(self) -> bool:
        return bool(self.value("delta.rowTrackingSuspended"))

    @property
    def materialized_row_id_column(self) -> str | None:
        return cast("str | None", self.value("delta.rowTracking.materializedRowIdColumnName"))

    @property
    def materialized_row_commit_version_column(self) -> str | None:
        return cast("str | None", self.value("delta.rowTracking.materializedRowCommitVersionColumnName"))

    @property
    def type_widening_enabled(self) -> bool:
        return bool(self.value("delta.enableTypeWidening"))

    @property
    def in_commit_timestamps_enabled(self) -> bool:
        return bool(self.value("delta.enableInCommitTimestamps"))

    @property
    def in_commit_timestamp_enablement_version(self) -> int | None:
        return cast("int | None", self.value("delta.inCommitTimestampEnablementVersion"))

    @property
    def in_commit_timestamp_enablement_timestamp_ms(self) -> int | None:
        return cast("int | None", self.value("delta.inCommitTimestampEnablementTimestamp"))

    @property
    def column_mapping_mode(self) -> ColumnMappingModeName:
        return cast("ColumnMappingModeName", self.value("delta.columnMapping.mode"))

    @property
    def column_mapping_max_id(self) -> int:
        return cast("int", self.value("delta.columnMapping.maxColumnId"))

    @property
    def checkpoint_interval(self) -> int:
        """Commits from one checkpoint to the next."""
        return cast("int", self.value("delta.checkpointInterval"))

    @property
    def checkpoint_policy(self) -> CheckpointPolicyName:
        return cast("CheckpointPolicyName", self.value("delta.checkpointPolicy"))

    @property
    def checkpoint_stats_as_json(self) -> bool:
        return bool(self.value("delta.checkpoint.writeStatsAsJson"))

    @property
    def checkpoint_stats_as_struct(self) -> bool:
        return bool(self.value("delta.checkpoint.writeStatsAsStruct"))

    @property
    def log_retention_ms(self) -> int:
        return cast("int", self.value("delta.logRetentionDuration"))

    @property
    def deleted_file_retention_ms(self) -> int:
        return cast("int", self.value("delta.deletedFileRetentionDuration"))

    @property
    def set_transaction_retention_ms(self) -> int | None:
        """None: application ids are kept for ever."""
        return cast("int | None", self.value("delta.setTransactionRetentionDuration"))

    @property
    def checkpoint_protection_version(self) -> int:
        """History before this version is removed as a whole or kept; see `log.cleanup`."""
        return cast("int", self.value("delta.requireCheckpointProtectionBeforeVersion"))

    @property
    def drop_feature_retention_ms(self) -> int:
        return cast("int", self.value("delta.dropFeatureTruncateHistory.retentionDuration"))

    @property
    def expired_log_cleanup_enabled(self) -> bool:
        return bool(self.value("delta.enableExpiredLogCleanup"))

    @property
    def num_indexed_columns(self) -> int:
        """The number of leaf columns that get statistics; -1 for all. `stats_columns` takes precedence."""
        return cast("int", self.value("delta.dataSkippingNumIndexedCols"))

    @property
    def stats_columns(self) -> tuple[tuple[str, ...], ...] | None:
        """Logical paths of the columns that get statistics, case-insensitive; None: the first ones."""
        return cast("tuple[tuple[str, ...], ...] | None", self.value("delta.dataSkippingStatsColumns"))

    @property
    def string_prefix_length(self) -> int:
        """How many characters of a string statistics keep."""
        length = self.value("delta.dataSkippingStringPrefixLength")
        return STRING_PREFIX_LENGTH_DEFAULT if length is None else cast("int", length)

    @property
    def auto_compact_enabled(self) -> bool:
        """Whether small files are compacted after each statement, where the session does not say."""
        return bool(self.value("delta.autoOptimize")) or self.value("delta.autoOptimize.autoCompact") not in {
            None,
            "false",
        }

    @property
    def optimize_write_enabled(self) -> bool | None:
        """Whether rows are shuffled into fewer, larger files when written; None where the table does not say."""
        return cast("bool | None", self.value("delta.autoOptimize.optimizeWrite"))

    @property
    def target_file_size_bytes(self) -> int | None:
        return cast("int | None", self.value("delta.targetFileSize"))

    @property
    def randomize_file_prefixes(self) -> bool:
        return bool(self.value("delta.randomizeFilePrefixes"))

    @property
    def random_prefix_length(self) -> int:
        return cast("int", self.value("delta.randomPrefixLength"))

    @property
    def compression_codec(self) -> str | None:
        """The codec of new files in lower case; None: the writer's default."""
        return cast("str | None", self.value("delta.parquet.compression.codec"))

    @property
    def symlink_manifests_enabled(self) -> bool:
        """Whether manifests for engines without Delta are kept up to date."""
        return bool(self.value("delta.compatibility.symlinkFormatManifest.enabled"))

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
