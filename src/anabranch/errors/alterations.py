"""Errors about changing the description of a table. Nothing was changed."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.schema import ColumnNotFoundError


@dataclasses.dataclass(eq=False, kw_only=True)
class NotAStructError(DeltaAnalysisError):
    """A field is named below a column that has no fields."""

    condition: ClassVar[str] = "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"
    sqlstate: ClassVar[str] = "42KD3"
    template: ClassVar[str] = (
        "{column} of {table} is {column_type} and has no fields of its own. Below an array go on with `element`, below "
        "a map with `key` or `value`."
    )
    table: str
    column: str
    column_type: str


@dataclasses.dataclass(eq=False, kw_only=True)
class ColumnInUseError(DeltaAnalysisError):
    """A column is to be dropped, renamed or given another type, and something depends on it."""

    condition: ClassVar[str] = "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"
    sqlstate: ClassVar[str] = "42K09"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class GeneratedFromColumnError(ColumnInUseError):
    """A column is to be dropped, renamed or given another type, and a generated column is computed from it."""

    condition: ClassVar[str] = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstrainedTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column, and a constraint depends on it."""

    condition: ClassVar[str] = "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH"


@dataclasses.dataclass(eq=False, kw_only=True)
class GeneratedFromTypeError(ColumnInUseError):
    """A write with schema evolution would change the type of a column, and a generated column is computed from it."""

    condition: ClassVar[str] = "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH"


@dataclasses.dataclass(eq=False, kw_only=True)
class PartitionColumnDropError(ColumnInUseError):
    """A column is to be dropped by which the table is partitioned."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"
    sqlstate: ClassVar[str] = "0AKDC"


@dataclasses.dataclass(eq=False, kw_only=True)
class ColumnMappingNeededError(DeltaAnalysisError):
    """Columns can be dropped and renamed only where files know them by other names."""

    condition: ClassVar[str] = "DELTA_COLUMN_MAPPING_NEEDED"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = (
        "Cannot {change} of {table}: its data files know columns by the names that users see. Set the table property "
        "'delta.columnMapping.mode' = 'name' first; older engines may then need an upgrade."
    )
    table: str
    change: str
    """Such as "drop column a"."""


@dataclasses.dataclass(eq=False, kw_only=True)
class DropNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be dropped only where files know them by other names."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_DROP_COLUMN"


@dataclasses.dataclass(eq=False, kw_only=True)
class RenameNeedsColumnMappingError(ColumnMappingNeededError):
    """Columns can be renamed only where files know them by other names."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_RENAME_COLUMN"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedColumnChangeError(DeltaAnalysisError):
    """A column cannot be changed in this way."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = "Column {column} of {table} cannot be changed in this way: {reason}."
    table: str
    column: str
    reason: str


@dataclasses.dataclass(eq=False, kw_only=True)
class IdentityChangeError(UnsupportedColumnChangeError):
    """An identity column was to be what such a column cannot be."""

    condition: ClassVar[str] = "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "429BQ"


@dataclasses.dataclass(eq=False, kw_only=True)
class NoIdentityColumnError(UnsupportedColumnChangeError):
    """SYNC IDENTITY names a column that is no identity column."""

    condition: ClassVar[str] = "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"
    sqlstate: ClassVar[str] = "429BQ"


@dataclasses.dataclass(eq=False, kw_only=True)
class IdentityColumnNotFoundError(ColumnNotFoundError):
    """SYNC IDENTITY names a column that is not there, in the condition that Spark has for it."""

    condition: ClassVar[str] = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    sqlstate: ClassVar[str] = "42703"


@dataclasses.dataclass(eq=False, kw_only=True)
class OnlyColumnError(UnsupportedColumnChangeError):
    """The last column of a table or of a struct is to be dropped."""

    condition: ClassVar[str] = "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedNewColumnError(DeltaAnalysisError):
    """A column cannot be added to an existing table in this way."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_ALTER_TABLE_ADD_COLUMN"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = "Column {column} cannot be added to {table}: {reason}."
    table: str
    column: str
    reason: str


@dataclasses.dataclass(eq=False, kw_only=True)
class NewColumnNotNullError(UnsupportedNewColumnError):
    """A column is to be added that has no NULL, and rows that are there have NULL in it."""

    condition: ClassVar[str] = "DELTA_OPERATION_NOT_ALLOWED"


@dataclasses.dataclass(eq=False, kw_only=True)
class NewColumnDefaultError(UnsupportedNewColumnError):
    """A column is to be added with a default, which rows that are there would need, too."""

    condition: ClassVar[str] = "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidClusteringError(DeltaAnalysisError):
    """A table cannot be clustered by these columns."""

    condition: ClassVar[str] = "DELTA_INVALID_CLUSTERING"
    sqlstate: ClassVar[str] = "42996"
    template: ClassVar[str] = "{table} cannot be clustered by {columns}: {reason}."
    table: str
    columns: tuple[str, ...]
    reason: str


@dataclasses.dataclass(eq=False, kw_only=True)
class TooManyClusteringColumnsError(InvalidClusteringError):
    """A table cannot be clustered by so many columns."""

    condition: ClassVar[str] = "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS"
    sqlstate: ClassVar[str] = "54000"


@dataclasses.dataclass(eq=False, kw_only=True)
class DuplicateClusteringColumnError(InvalidClusteringError):
    """A table was to be clustered by one column twice."""

    condition: ClassVar[str] = "DELTA_DUPLICATE_COLUMNS_FOUND"
    sqlstate: ClassVar[str] = "42711"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnorderedClusteringColumnError(InvalidClusteringError):
    """A table was to be clustered by values that have no order, so that they can have no statistics."""

    condition: ClassVar[str] = "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0A000"


@dataclasses.dataclass(eq=False, kw_only=True)
class ClusteringWithoutStatisticsError(InvalidClusteringError):
    """A table was to be clustered by a column of which it keeps no statistics."""

    condition: ClassVar[str] = "DELTA_CLUSTERING_COLUMN_MISSING_STATS"
    sqlstate: ClassVar[str] = "22000"


@dataclasses.dataclass(eq=False, kw_only=True)
class ClusteringOfPartitionsError(InvalidClusteringError):
    """A partitioned table was to be clustered."""

    condition: ClassVar[str] = "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED"
    sqlstate: ClassVar[str] = "42000"


@dataclasses.dataclass(eq=False, kw_only=True)
class ClusteringMismatchError(DeltaAnalysisError):
    """The write asks for other clustering columns than the table has."""

    condition: ClassVar[str] = "DELTA_CLUSTERING_COLUMNS_MISMATCH"
    sqlstate: ClassVar[str] = "42P10"
    table: str
    given: tuple[str, ...]
    actual: tuple[str, ...]

    def explain(self) -> str:
        given, actual = ", ".join(self.given), ", ".join(self.actual) or "nothing"
        return (
            f"{self.table} is clustered by {actual}, and the write asks for {given}. Leave clusterBy out, or name the "
            "table's columns in its order. ALTER TABLE … CLUSTER BY changes them."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class PropertyNeedsCommandError(DeltaAnalysisError, ValueError):
    """A table property that a command of its own sets, since more goes with it."""

    condition: ClassVar[str] = "DELTA_PROPERTY_NEEDS_COMMAND"
    sqlstate: ClassVar[str] = "42601"
    template: ClassVar[str] = "Table property `{name}` is not set by SET TBLPROPERTIES. Use {command}."
    name: str
    command: str


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstraintAsPropertyError(PropertyNeedsCommandError):
    """A CHECK constraint that was to be set as a property, unseen by the rows that are there."""

    condition: ClassVar[str] = "DELTA_ADD_CONSTRAINTS"
    sqlstate: ClassVar[str] = "0A000"


@dataclasses.dataclass(eq=False, kw_only=True)
class PropertyNotSetError(DeltaAnalysisError, ValueError):
    """A table property that was to be unset is not set."""

    condition: ClassVar[str] = "DELTA_UNSET_NON_EXISTENT_PROPERTY"
    sqlstate: ClassVar[str] = "42616"
    template: ClassVar[str] = "{table} has no property `{name}` to unset. UNSET TBLPROPERTIES IF EXISTS passes over it."
    table: str
    name: str


@dataclasses.dataclass(eq=False, kw_only=True)
class FeatureNotSupportedByTableError(DeltaAnalysisError, ValueError):
    """A feature that was to be dropped is not one of the table's."""

    condition: ClassVar[str] = "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"
    sqlstate: ClassVar[str] = "55000"
    table: str
    feature: str
    features: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"{self.table} does not support the table feature {self.feature}; it supports "
            f"{', '.join(self.features) or 'none'}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnknownFeatureDropError(FeatureNotSupportedByTableError):
    """A feature that was to be dropped is known to nobody, so it is not one of the table's."""

    condition: ClassVar[str] = "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
    sqlstate: ClassVar[str] = "0AKDC"


@dataclasses.dataclass(eq=False, kw_only=True)
class FeatureDropError(DeltaAnalysisError):
    """A table feature cannot be dropped, or not yet. The table is as it was."""

    condition: ClassVar[str] = "DELTA_FEATURE_DROP_UNSUPPORTED"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = "Table feature {feature} of {table} cannot be dropped: {reason}."
    table: str
    feature: str
    reason: str


@dataclasses.dataclass(eq=False, kw_only=True)
class PermanentFeatureError(FeatureDropError):
    """A table feature that stays once a table supports it."""

    condition: ClassVar[str] = "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"
    sqlstate: ClassVar[str] = "0AKDC"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstraintsLeftError(FeatureDropError):
    """The feature of CHECK constraints cannot be dropped while the table has constraints."""

    condition: ClassVar[str] = "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE"
    sqlstate: ClassVar[str] = "0AKDE"


@dataclasses.dataclass(eq=False, kw_only=True)
class FeatureInHistoryError(DeltaAnalysisError):
    """Old versions of a table use a feature that its newest version uses no more, and they are too young to go."""

    condition: ClassVar[str] = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    sqlstate: ClassVar[str] = "22KD0"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class ColumnNamesNeedMappingError(DeltaAnalysisError):
    """Column mapping cannot be turned off: data files could not have the names that users see."""

    condition: ClassVar[str] = "DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING"
    sqlstate: ClassVar[str] = "42K05"
    template: ClassVar[str] = (
        "Without column mapping the data files of {table} could not have columns named {columns}: Parquet takes no "
        "space, comma, semicolon, brace, parenthesis, tab, line break or equals sign in a name. Rename these columns "
        "first: ALTER TABLE … RENAME COLUMN … TO …."
    )
    table: str
    columns: tuple[str, ...]


@dataclasses.dataclass(eq=False, kw_only=True)
class RowTrackingEnablementError(DeltaAnalysisError):
    """Row tracking was to be turned on, and another program turned it off, or added files whose rows have no ids."""

    condition: ClassVar[str] = "DELTA_CANNOT_ENABLE_ROW_TRACKING"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = "Row tracking cannot be turned on for {table}: {reason}."
    table: str
    reason: str
