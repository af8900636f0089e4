"""Errors about changes of a table's metadata: columns, properties, constraints, features. Nothing was changed."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, delta_error
from anabranch.errors.schema import ColumnNotFoundError


@delta_error("DELTA_ADD_COLUMN_PARENT_NOT_STRUCT", "42KD3")
class NotAStructError(DeltaAnalysisError):
    """A field is named below a column that has no fields."""

    template = (
        "{column} of {table} is {column_type} and has no fields. Write `element` for the elements of an array, `key` "
        "or `value` for those of a map."
    )
    table: str
    column: str
    column_type: str


@delta_error("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "42K09")
class ColumnInUseError(DeltaAnalysisError):
    """A column to be dropped, renamed or given another type is used elsewhere in the table's metadata."""

    table: str
    column: str
    change: str
    """The change as a participle, such as "dropped"."""
    users: tuple[str, ...]
    """The users of the column, such as "CHECK constraint positive"."""

    def explain(self) -> str:
        return (
            f"Column {self.column} of {self.table} cannot be {self.change}: it is used by {'; '.join(self.users)}. "
            "Drop or change these first."
        )


@delta_error("DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE")
class GeneratedFromColumnError(ColumnInUseError):
    """A generated column is computed from a column to be dropped, renamed or given another type."""


@delta_error("DELTA_CONSTRAINT_DATA_TYPE_MISMATCH")
class ConstrainedTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column that a constraint reads."""


@delta_error("DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH")
class GeneratedFromTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column that a generated column is computed from."""


@delta_error("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", "0AKDC")
class PartitionColumnDropError(ColumnInUseError):
    """A column to be dropped is a partition column."""


@delta_error("DELTA_COLUMN_MAPPING_NEEDED", "0AKDC")
class ColumnMappingNeededError(DeltaAnalysisError):
    """Columns can be dropped and renamed only in a table with column mapping."""

    template = (
        "Cannot {change} of {table}: the table has no column mapping, so its data files have the column names that "
        "users see. Set the table property 'delta.columnMapping.mode' = 'name' first; older engines may then need an "
        "upgrade."
    )
    table: str
    change: str
    """Such as "drop column a"."""


@delta_error("DELTA_UNSUPPORTED_DROP_COLUMN")
class DropNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be dropped only in a table with column mapping."""


@delta_error("DELTA_UNSUPPORTED_RENAME_COLUMN")
class RenameNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be renamed only in a table with column mapping."""


@delta_error("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "0AKDC")
class UnsupportedColumnChangeError(DeltaAnalysisError):
    """A column cannot be changed in this way."""

    template = "Column {column} of {table} cannot be changed in this way: {reason}."
    table: str
    column: str
    reason: str


@delta_error("DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED", "429BQ")
class IdentityChangeError(UnsupportedColumnChangeError):
    """An identity column cannot be changed in this way."""


@delta_error("DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN", "429BQ")
class NoIdentityColumnError(UnsupportedColumnChangeError):
    """SYNC IDENTITY names a column that is not an identity column."""


@delta_error("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
class IdentityColumnNotFoundError(ColumnNotFoundError):
    """SYNC IDENTITY names a column that does not exist. The condition is Spark's."""


@delta_error("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA")
class OnlyColumnError(UnsupportedColumnChangeError):
    """The only column of a table or of a struct cannot be dropped."""


@delta_error("DELTA_UNSUPPORTED_ALTER_TABLE_ADD_COLUMN", "0AKDC")
class UnsupportedNewColumnError(DeltaAnalysisError):
    """A column cannot be added to an existing table in this way."""

    template = "Column {column} cannot be added to {table}: {reason}."
    table: str
    column: str
    reason: str


@delta_error("DELTA_OPERATION_NOT_ALLOWED")
class NewColumnNotNullError(UnsupportedNewColumnError):
    """A column to be added is NOT NULL, and existing rows have NULL in it."""


@delta_error("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED")
class NewColumnDefaultError(UnsupportedNewColumnError):
    """A column to be added has a default, which existing rows would need too."""


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
    """A clustering column is named twice."""


@delta_error("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "0A000")
class UnorderedClusteringColumnError(InvalidClusteringError):
    """A clustering column has a type without order, which has no statistics."""


@delta_error("DELTA_CLUSTERING_COLUMN_MISSING_STATS", "22000")
class ClusteringWithoutStatisticsError(InvalidClusteringError):
    """A clustering column has no statistics in the table."""


@delta_error("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED", "42000")
class ClusteringOfPartitionsError(InvalidClusteringError):
    """A partitioned table cannot be clustered."""


@delta_error("DELTA_CLUSTERING_COLUMNS_MISMATCH", "42P10")
class ClusteringMismatchError(DeltaAnalysisError):
    """The write has other clustering columns than the table."""

    table: str
    given: tuple[str, ...]
    actual: tuple[str, ...]

    def explain(self) -> str:
        given, actual = ", ".join(self.given), ", ".join(self.actual) or "nothing"
        return (
            f"{self.table} is clustered by {actual}, and the write has the clustering columns {given}. Leave clusterBy "
            "out, or name the table's columns in its order. ALTER TABLE … CLUSTER BY changes them."
        )


@delta_error("DELTA_PROPERTY_NEEDS_COMMAND", "42601")
class PropertyNeedsCommandError(DeltaAnalysisError, ValueError):
    """A table property is set by a command of its own, which does more than set the property."""

    template = "Table property `{name}` cannot be set by SET TBLPROPERTIES. Use {command}."
    name: str
    command: str


@delta_error("DELTA_ADD_CONSTRAINTS", "0A000")
class ConstraintAsPropertyError(PropertyNeedsCommandError):
    """A CHECK constraint cannot be set as a property, which would not check the existing rows."""


@delta_error("DELTA_UNSET_NON_EXISTENT_PROPERTY", "42616")
class PropertyNotSetError(DeltaAnalysisError, ValueError):
    """A table property to be unset is not set."""

    template = "{table} has no property `{name}` to unset. UNSET TBLPROPERTIES IF EXISTS ignores missing properties."
    table: str
    name: str


@delta_error("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "55000")
class FeatureNotSupportedByTableError(DeltaAnalysisError, ValueError):
    """The table does not support the table feature to be dropped."""

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
    """The table feature to be dropped is not one that anabranch knows."""


@delta_error("DELTA_FEATURE_DROP_UNSUPPORTED", "0AKDC")
class FeatureDropError(DeltaAnalysisError):
    """A table feature cannot be dropped, or not yet. The table is unchanged."""

    template = "Table feature {feature} of {table} cannot be dropped: {reason}."
    table: str
    feature: str
    reason: str


@delta_error("DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", "0AKDC")
class PermanentFeatureError(FeatureDropError):
    """A table feature that can never be dropped."""


@delta_error("DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE", "0AKDE")
class ConstraintsLeftError(FeatureDropError):
    """The feature of CHECK constraints cannot be dropped while the table has constraints."""


@delta_error("DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST", "22KD0")
class FeatureInHistoryError(DeltaAnalysisError):
    """Old versions of the table still use the feature to be dropped, and are too recent to be removed."""

    table: str
    feature: str
    last_version: int
    """The newest version that uses the feature."""
    possible_from: str
    """The time, in UTC, from which that version may be removed."""
    retention: str
    """The value of `delta.dropFeatureTruncateHistory.retentionDuration`."""
    droppable_now: bool
    """Whether the feature can be dropped at once if the history is kept."""

    def explain(self) -> str:
        command = f"ALTER TABLE {self.table} DROP FEATURE {self.feature}"
        now = (
            f" To keep the history and drop it at once, leave TRUNCATE HISTORY out: {command}; writers of the table "
            "must then support the feature checkpointProtection."
            if self.droppable_now
            else ""
        )
        return (
            f"No version of {self.table} after {self.last_version} uses the table feature {self.feature}, but older "
            f"ones do, and those are kept for {self.retention}. From {self.possible_from} on, run {command} TRUNCATE "
            f"HISTORY: it removes them permanently and drops the feature.{now}"
        )


@delta_error("DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING", "42K05")
class ColumnNamesNeedMappingError(DeltaAnalysisError):
    """Column mapping cannot be turned off: Parquet does not allow some of the column names."""

    template = (
        "Without column mapping the data files of {table} cannot have columns named {columns}: Parquet allows no "
        "space, comma, semicolon, brace, parenthesis, tab, line break or equals sign in a name. Rename these columns "
        "first: ALTER TABLE … RENAME COLUMN … TO …."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("DELTA_CANNOT_ENABLE_ROW_TRACKING", "0AKDC")
class RowTrackingEnablementError(DeltaAnalysisError):
    """Row tracking cannot be enabled: another program disabled it, or added files whose rows have no ids."""

    template = "Row tracking cannot be turned on for {table}: {reason}."
    table: str
    reason: str
