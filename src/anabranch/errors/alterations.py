"""Errors about changing the description of a table. Nothing was changed."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, delta_error
from anabranch.errors.schema import ColumnNotFoundError


@delta_error("DELTA_ADD_COLUMN_PARENT_NOT_STRUCT", "42KD3")
class NotAStructError(DeltaAnalysisError):
    """A field is named below a column that has no fields."""

    template = (
        "{column} of {table} is {column_type} and has no fields of its own. Below an array go on with `element`, below "
        "a map with `key` or `value`."
    )
    table: str
    column: str
    column_type: str


@delta_error("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "42K09")
class ColumnInUseError(DeltaAnalysisError):
    """A column is to be dropped, renamed or given another type, and something depends on it."""

    table: str
    column: str
    change: str
    """Such as "dropped"."""
    users: tuple[str, ...]
    """What depends on it, such as "CHECK constraint positive"."""

    def explain(self) -> str:
        return (
            f"Column {self.column} of {self.table} cannot be {self.change}: used by {'; '.join(self.users)}. "
            "Drop or change these first."
        )


@delta_error("DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE")
class GeneratedFromColumnError(ColumnInUseError):
    """A column is to be dropped, renamed or given another type, and a generated column is computed from it."""


@delta_error("DELTA_CONSTRAINT_DATA_TYPE_MISMATCH")
class ConstrainedTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column, and a constraint depends on it."""


@delta_error("DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH")
class GeneratedFromTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column, and a generated column is computed from it."""


@delta_error("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", "0AKDC")
class PartitionColumnDropError(ColumnInUseError):
    """A column is to be dropped by which the table is partitioned."""


@delta_error("DELTA_COLUMN_MAPPING_NEEDED", "0AKDC")
class ColumnMappingNeededError(DeltaAnalysisError):
    """Columns can be dropped and renamed only where files know them by other names."""

    template = (
        "Cannot {change} of {table}: its data files know columns by the names that users see. Set the table property "
        "'delta.columnMapping.mode' = 'name' first; older engines may then need an upgrade."
    )
    table: str
    change: str
    """Such as "drop column a"."""


@delta_error("DELTA_UNSUPPORTED_DROP_COLUMN")
class DropNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be dropped only where files know them by other names."""


@delta_error("DELTA_UNSUPPORTED_RENAME_COLUMN")
class RenameNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be renamed only where files know them by other names."""


@delta_error("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "0AKDC")
class UnsupportedColumnChangeError(DeltaAnalysisError):
    """A column cannot be changed in this way."""

    template = "Column {column} of {table} cannot be changed in this way: {reason}."
    table: str
    column: str
    reason: str


@delta_error("DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED", "429BQ")
class IdentityChangeError(UnsupportedColumnChangeError):
    """An identity column was to be what such a column cannot be."""


@delta_error("DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN", "429BQ")
class NoIdentityColumnError(UnsupportedColumnChangeError):
    """SYNC IDENTITY names a column that is no identity column."""


@delta_error("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
class IdentityColumnNotFoundError(ColumnNotFoundError):
    """SYNC IDENTITY names a column that is not there, in the condition that Spark has for it."""


@delta_error("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA")
class OnlyColumnError(UnsupportedColumnChangeError):
    """The last column of a table or of a struct is to be dropped."""


@delta_error("DELTA_UNSUPPORTED_ALTER_TABLE_ADD_COLUMN", "0AKDC")
class UnsupportedNewColumnError(DeltaAnalysisError):
    """A column cannot be added to an existing table in this way."""

    template = "Column {column} cannot be added to {table}: {reason}."
    table: str
    column: str
    reason: str


@delta_error("DELTA_OPERATION_NOT_ALLOWED")
class NewColumnNotNullError(UnsupportedNewColumnError):
    """A column is to be added that has no NULL, and rows that are there have NULL in it."""


@delta_error("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED")
class NewColumnDefaultError(UnsupportedNewColumnError):
    """A column is to be added with a default, which rows that are there would need, too."""


@delta_error("DELTA_INVALID_CLUSTERING", "42996")
class InvalidClusteringError(DeltaAnalysisError):
    """A table cannot be clustered by these columns."""

    template = "{table} cannot be clustered by {columns}: {reason}."
    table: str
    columns: tuple[str, ...]
    reason: str


@delta_error("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", "54000")
class TooManyClusteringColumnsError(InvalidClusteringError):
    """A table cannot be clustered by so many columns."""


@delta_error("DELTA_DUPLICATE_COLUMNS_FOUND", "42711")
class DuplicateClusteringColumnError(InvalidClusteringError):
    """A table was to be clustered by one column twice."""


@delta_error("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "0A000")
class UnorderedClusteringColumnError(InvalidClusteringError):
    """A table was to be clustered by values that have no order, so that they can have no statistics."""


@delta_error("DELTA_CLUSTERING_COLUMN_MISSING_STATS", "22000")
class ClusteringWithoutStatisticsError(InvalidClusteringError):
    """A table was to be clustered by a column of which it keeps no statistics."""


@delta_error("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED", "42000")
class ClusteringOfPartitionsError(InvalidClusteringError):
    """A partitioned table was to be clustered."""


@delta_error("DELTA_CLUSTERING_COLUMNS_MISMATCH", "42P10")
class ClusteringMismatchError(DeltaAnalysisError):
    """The write asks for other clustering columns than the table has."""

    table: str
    given: tuple[str, ...]
    actual: tuple[str, ...]

    def explain(self) -> str:
        given, actual = ", ".join(self.given), ", ".join(self.actual) or "nothing"
        return (
            f"{self.table} is clustered by {actual}, and the write asks for {given}. Leave clusterBy out, or name the "
            "table's columns in its order. ALTER TABLE … CLUSTER BY changes them."
        )


@delta_error("DELTA_PROPERTY_NEEDS_COMMAND", "42601")
class PropertyNeedsCommandError(DeltaAnalysisError, ValueError):
    """A table property that a command of its own sets, since more goes with it."""

    template = "Table property `{name}` is not set by SET TBLPROPERTIES. Use {command}."
    name: str
    command: str


@delta_error("DELTA_ADD_CONSTRAINTS", "0A000")
class ConstraintAsPropertyError(PropertyNeedsCommandError):
    """A CHECK constraint that was to be set as a property, unseen by the rows that are there."""


@delta_error("DELTA_UNSET_NON_EXISTENT_PROPERTY", "42616")
class PropertyNotSetError(DeltaAnalysisError, ValueError):
    """A table property that was to be unset is not set."""

    template = "{table} has no property `{name}` to unset. UNSET TBLPROPERTIES IF EXISTS passes over it."
    table: str
    name: str


@delta_error("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "55000")
class FeatureNotSupportedByTableError(DeltaAnalysisError, ValueError):
    """A feature that was to be dropped is not one of the table's."""

    table: str
    feature: str
    features: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"{self.table} does not support the table feature {self.feature}; it supports "
            f"{', '.join(self.features) or 'none'}."
        )


@delta_error("DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE", "0AKDC")
class UnknownFeatureDropError(FeatureNotSupportedByTableError):
    """A feature that was to be dropped is known to nobody, so it is not one of the table's."""


@delta_error("DELTA_FEATURE_DROP_UNSUPPORTED", "0AKDC")
class FeatureDropError(DeltaAnalysisError):
    """A table feature cannot be dropped, or not yet. The table is as it was."""

    template = "Table feature {feature} of {table} cannot be dropped: {reason}."
    table: str
    feature: str
    reason: str


@delta_error("DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", "0AKDC")
class PermanentFeatureError(FeatureDropError):
    """A table feature that stays once a table supports it."""


@delta_error("DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE", "0AKDE")
class ConstraintsLeftError(FeatureDropError):
    """The feature of CHECK constraints cannot be dropped while the table has constraints."""


@delta_error("DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST", "22KD0")
class FeatureInHistoryError(DeltaAnalysisError):
    """Old versions of a table use a feature that its newest version uses no more, and they are too young to go."""

    table: str
    feature: str
    last_version: int
    """The newest version that uses it."""
    possible_from: str
    """When that version may be removed, in UTC."""
    retention: str
    """What `delta.dropFeatureTruncateHistory.retentionDuration` is."""
    droppable_now: bool
    """Whether it can be dropped at once, with the history left as it is."""

    def explain(self) -> str:
        command = f"ALTER TABLE {self.table} DROP FEATURE {self.feature}"
        now = (
            f" To keep the history and drop it at once, leave TRUNCATE HISTORY out: {command}; then writers of the "
            "table must know the feature checkpointProtection."
            if self.droppable_now
            else ""
        )
        return (
            f"No version of {self.table} after {self.last_version} uses the table feature {self.feature}, but older "
            f"ones do, and those are kept for {self.retention}. From {self.possible_from} on, run {command} TRUNCATE "
            f"HISTORY: it removes them for good, and drops the feature.{now}"
        )


@delta_error("DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING", "42K05")
class ColumnNamesNeedMappingError(DeltaAnalysisError):
    """Column mapping cannot be turned off: data files could not have the names that users see."""

    template = (
        "Without column mapping the data files of {table} could not have columns named {columns}: Parquet takes no "
        "space, comma, semicolon, brace, parenthesis, tab, line break or equals sign in a name. Rename these columns "
        "first: ALTER TABLE … RENAME COLUMN … TO …."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("DELTA_CANNOT_ENABLE_ROW_TRACKING", "0AKDC")
class RowTrackingEnablementError(DeltaAnalysisError):
    """Row tracking was to be turned on, and another program turned it off, or added files whose rows have no ids."""

    template = "Row tracking cannot be turned on for {table}: {reason}."
    table: str
    reason: str
