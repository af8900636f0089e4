"""The root of every error anabranch raises."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, dataclass_transform

import anabranch.pyspark_release  # noqa: F401 - says which PySpark is needed where this one is too old

from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException  # isort: skip

DELTA_MESSAGES: dict[str, str] = {
    "AmbiguousMergeError": "Cannot perform Merge as multiple source rows matched",
    "AppendOnlyTableError": "This table is configured to only allow appends",
    "BucketingError": "Operation not allowed: `{operation}` is not supported for Delta tables",
    "CastOverflowError": "Failed to write a value into the {column_type} type column {column} due to an overflow",
    "ChangesBoundNullError": "CDC read start/end parameters cannot be null",
    "ChangesNotRecordedError": "Error getting change data for range [{start} , {end}]",
    "ChangesRangeError": "CDC range from start {start} to end {end} was invalid",
    "ChangesStartAfterLatestError": "Start version {start} for change data feed exceeds the latest table version",
    "ChangesStartMissingError": "No startingVersion or startingTimestamp provided for CDC read",
    "CheckConstraintViolationError": "{constraint} ({expression}) violated by row",
    "CloneSourceError": "Unsupported clone source '{source}'",
    "ClusteredTableError": "OPTIMIZE command for Delta table with clustering doesn't support partition predicates",
    "ClusteredTableZOrderError": "OPTIMIZE command for Delta table with clustering cannot specify ZORDER BY",
    "ClusteringMismatchError": "The provided clustering columns do not match the existing table's",
    "ColumnCountError": (
        "Cannot write to '{table}', target table has {expected} column(s) but the inserted data has {given} column(s)"
    ),
    "ColumnInUseError": "Cannot alter column {column} because this column is referenced by {users}",
    "ColumnMappingChangeError": "Changing column mapping mode from '{old_mode}' to '{new_mode}' is not supported",
    "ColumnNotFoundError": "Unable to find the column `{column}` given [{available}]",
    "ConcurrentAppendException": "Transaction conflict detected, a concurrent {operation} added data",
    "ConcurrentDeleteDeleteException": "Transaction conflict detected, a concurrent {operation} deleted data",
    "ConcurrentDeleteReadException": "Transaction conflict detected, a concurrent {operation} deleted data",
    "ConcurrentTransactionException": "Multiple streaming queries are using the same checkpoint",
    "ConcurrentWriteException": "A concurrent transaction has written new data",
    "ConflictingAssignmentsError": "There is a conflict from these SET columns: {column}",
    "ConstraintExistsError": "Constraint '{name}' already exists",
    "ConstraintNotFoundError": "Cannot drop nonexistent constraint {name} from table {table}",
    "CreateTableMismatchError": "The specified {what} does not match the existing {what}",
    "DeepCloneError": "Deep clone is not supported",
    "DropNeedsColumnMappingError": "DROP COLUMN is not supported for your Delta table",
    "DuplicateColumnsError": "Found duplicate column(s) {where}: {columns}",
    "DuplicateInsertColumnsError": "Duplicate column names in INSERT clause: {column}",
    "EmptyTableSchemaError": "Data used in creating the Delta table doesn't have any columns",
    "ExistingRowsViolateError": "{num_rows} rows in {table} violate the new {rule} ({expression})",
    "FeatureInHistoryError": "Cannot drop {feature} because the Delta log contains historical versions",
    "FeatureNotSupportedByTableError": "Cannot drop {feature} from this table because it is not currently present",
    "GeneratedColumnMismatchError": "CHECK constraint Generated Column ({column} <=> {expression}) violated by row",
    "IdentityAssignmentError": "UPDATE on IDENTITY column {column} is not supported",
    "IdentityChangeError": "ALTER TABLE ALTER COLUMN is not supported for IDENTITY columns",
    "IdentityInsertError": "Providing values for GENERATED ALWAYS AS IDENTITY column {column} is not supported",
    "IdentityPartitioningError": "PARTITIONED BY IDENTITY column {columns} is not supported",
    "IdentityStepError": "IDENTITY column step cannot be 0",
    "IncompatibleOptionsError": "The `{option}` option cannot be used with the `{other}` option",
    "IncompatibleTypesError": "Failed to merge fields",
    "InvalidColumnNamesError": "Found invalid character(s) in the column names of your schema: {columns}",
    "InvalidIdentityColumnError": "DataType {column_type} is not supported for IDENTITY columns",
    "InvalidOptionError": "Invalid value '{value}' for option '{option}'",
    "InvalidTimestampError": "The provided timestamp ({value}) cannot be converted to a valid timestamp",
    "InvalidTimestampOptionError": "The provided timestamp ('{value}') cannot be converted to a valid timestamp",
    "LengthLimitError": 'Value "{value}" exceeds char/varchar type length limitation',
    "LocationNotEmptyError": "Cannot create table ('{table}'). The associated location is not empty",
    "TableInLocationError": "Cannot create table ('{table}'). The associated location ('{folder}') is not empty",
    "LogGapError": "Versions are not contiguous",
    "MergeColumnNotFoundError": "Cannot resolve {column} in {clause} clause given columns {available}",
    "MergeWithoutClauseError": "There must be at least one WHEN clause in a MERGE statement",
    "MetadataChangedException": "The metadata of the Delta table {table} has been changed by a concurrent update",
    "MissingColumnsError": "Cannot find {columns} in the data",
    "MissingNotNullColumnsError": "Column {columns}, which has a NOT NULL constraint, is missing from the data",
    "NestedNotNullError": "Delta does not support NOT NULL constraints nested within arrays or maps",
    "NewColumnNotNullError": "Operation not allowed: `ALTER TABLE ADD COLUMNS … NOT NULL` is not supported",
    "NoIdentityColumnError": "ALTER TABLE ALTER COLUMN SYNC IDENTITY cannot be called on non IDENTITY columns",
    "NoDataColumnsError": "Cannot use all columns for partition columns",
    "NonDeterministicConditionError": "Non-deterministic functions are not supported in the {clause} condition",
    "NonPartitionColumnError": (
        "Predicate references non-partition column '{column}'. Only the partition columns may be "
        "referenced: [{partition_columns}]"
    ),
    "NotAParquetTableError": "CONVERT TO DELTA only supports parquet tables",
    "NotNullViolationError": "NOT NULL constraint violated for column: {column}",
    "NothingToConvertError": "No file found in the directory: {directory}",
    "OnlyColumnError": "Cannot drop column from a schema with a single column",
    "OverwriteSchemaDynamicError": "'overwriteSchema' cannot be used in dynamic partition overwrite mode",
    "PartitionColumnDropError": "Dropping partition columns ({column}) is not allowed",
    "PartitionColumnMismatchError": "Partition columns do not match the partition columns of the table",
    "PartitionColumnNotFoundError": "Partition column {columns} not found in schema",
    "PartitionColumnTypeError": "Using column {columns} of this type as a partition column is not supported",
    "PathExistsError": "Cannot write to already existent path {table} without setting OVERWRITE = 'true'",
    "PermanentFeatureError": "Cannot drop {feature} because dropping this feature is not supported",
    "PropertyNotSetError": "Attempted to unset non-existent property '{name}' in table {table}",
    "ProtocolChangedException": "The protocol version of the Delta table has been changed by a concurrent update",
    "ReadOnlyPropertyError": "The Delta table configuration {name} cannot be specified by the user",
    "ReadWithoutColumnsError": "You are trying to read a Delta table {table} that does not have any columns",
    "RenameNeedsColumnMappingError": "Column rename is not supported for your Delta table",
    "ReplaceWhereDynamicError": "A 'replaceWhere' expression and 'partitionOverwriteMode'='dynamic' cannot both be set",
    "ReplaceWhereMismatchError": (
        "Written data does not conform to partial table overwrite condition or constraint '{predicate}'"
    ),
    "RestoreBeyondRetentionError": "Cannot time travel beyond delta.deletedFileRetentionDuration",
    "RestoreTimestampAfterLatestError": "Cannot restore table to timestamp as it is after the latest version available",
    "RestoreTimestampEarlierError": "Cannot restore table to timestamp as it is before the earliest version available",
    "RestoreVersionNotFoundError": "Cannot restore table to version {version}",
    "RetentionTooShortError": "The specified VACUUM retention period is too low",
    "SchemaChangedSinceAnalysisError": "The schema of your Delta table has changed in an incompatible way",
    "SchemaMismatchError": "A schema mismatch detected when writing to the Delta table",
    "ShowPartitionsColumnError": "Non-partitioning column(s) {columns} are specified for SHOW PARTITIONS",
    "StartGivenTwiceError": "Please either provide 'startingVersion' or 'startingTimestamp'",
    "StreamedRowsChangedError": "Detected a data update in the source table at version {version}",
    "StreamedRowsDeletedError": "Detected deleted data (for example {path}) from streaming source",
    "StreamedSchemaChangedAfterStartError": "Detected schema change in version {version}",
    "StreamedSchemaChangedError": "Detected schema change in version {version}",
    "StreamedTableReplacedError": "The streaming query was reading from an unexpected Delta table (id = '{id_found}')",
    "SubqueryInConditionError": "Subqueries are not supported in the {clause} condition",
    "TableAlreadyExistsError": "Table {table} already exists",
    "TableFormatMismatchError": (
        "The format of the existing table {table} is `delta`. It doesn't match the specified format `{table_format}`"
    ),
    "TimeTravelTwiceError": "Cannot specify time travel in multiple formats",
    "TimestampAfterLatestCommitError": "The provided timestamp is after the latest version available",
    "TimestampEarlierThanFirstCommitError": "The provided timestamp is before the earliest version available",
    "TruncatedLogError": "Unable to reconstruct state at version {version} as the transaction log has been truncated",
    "UnknownFeatureError": "Table features are not recognized: {name}",
    "UnknownGenerateModeError": "Specified mode '{mode}' is not supported",
    "UnknownPropertyError": "Unknown configuration was specified: {name}",
    "UnsupportedColumnChangeError": "ALTER TABLE CHANGE COLUMN is not supported for changing column {column}",
    "UnsupportedTypeError": "Found columns using unsupported data types",
    "VersionNotFoundError": "Cannot time travel Delta table to version {version}",
    "ZOrderColumnMissingError": "Z-Ordering column {column} does not exist in data schema",
    "ZOrderPartitionColumnError": "{column} is a partition column. Z-Ordering can only be performed on data columns",
    "ZOrderWithoutStatisticsError": "Z-Ordering on {columns} will be ineffective",
}
"""How messages of delta-spark begin, with names of facts in braces, by the name of our class."""


FOR_DISPLAY: Mapping[str, bool] = MappingProxyType({"for_display": True})
"""The metadata of a field that is no fact: it has what a fact says, in a form for displays."""


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class DeltaError(PySparkException):
    """Something about a Delta table went wrong.

    A subclass has the decorator `delta_error`: its fields are the facts, but for those with the metadata `FOR_DISPLAY`,
    and `template` is the message, with names of facts in braces. A subclass whose sentences depend on the facts
    overrides `explain` instead. It is a `PySparkException`, so code that catches Spark's errors catches ours, and
    `getCondition`, `getSqlState` and `getMessageParameters` answer as they do for Spark's own.
    """

    condition: ClassVar[str] = "DELTA_ERROR"
    """The machine-readable name: Delta's own where Delta has the error."""
    sqlstate: ClassVar[str] = "XXKDS"
    template: ClassVar[str]
    """The message with names of facts in braces. A tuple is shown with commas between its elements."""

    def __post_init__(self) -> None:
        Exception.__init__(self)
        self._contexts: list[Any] = []
        self._errorClass = self.condition
        self._message = self.message()
        self._messageParameters = {name: str(value) for name, value in self.facts().items()}

    def explain(self) -> str:
        """What happened, to which table and version, and what the reader can do."""
        return self._filled(self.template)

    def message(self) -> str:
        """`explain`, after the message of delta-spark, by which programs may recognise the error."""
        deltas = DELTA_MESSAGES.get(type(self).__name__)
        text = self.explain() if deltas is None else f"{self._filled(deltas)}. {self.explain()}"
        return without_signatures(text)

    def _filled(self, template: str) -> str:
        facts = self.facts().items()
        shown = {name: ", ".join(map(str, fact)) if isinstance(fact, tuple) else fact for name, fact in facts}
        return without_signatures(template.format_map(shown))

    @classmethod
    def fact_names(cls) -> list[str]:
        """The names of the facts."""
        return [field.name for field in dataclasses.fields(cls) if not field.metadata.get("for_display")]

    def facts(self) -> dict[str, Any]:
        """The facts by name."""
        return {name: getattr(self, name) for name in self.fact_names()}

    def display_fields(self) -> dict[str, Any]:
        """The fields that are no facts, by name."""
        names = [field.name for field in dataclasses.fields(self) if field.metadata.get("for_display")]
        return {name: getattr(self, name) for name in names}

    def getSqlState(self) -> str:
        return self.sqlstate

    def getBreakingChangeInfo(self) -> None:
        return None

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message()}"

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts().items())
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), {**self.facts(), **self.display_fields()}))


_Error = TypeVar("_Error", bound=DeltaError)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(dataclasses.field,))
def delta_error(condition: str, sqlstate: str | None = None) -> Callable[[type[_Error]], type[_Error]]:
    """The decorator of each subclass of `DeltaError`: gives the class its condition, and makes a dataclass of it.

    Without a `sqlstate` the class has that of its base.
    """

    def decorate(cls: type[_Error]) -> type[_Error]:
        cls.condition = condition
        if sqlstate is not None:
            cls.sqlstate = sqlstate
        return dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)

    return decorate


@delta_error("DELTA_ANALYSIS_ERROR")
class DeltaAnalysisError(DeltaError, AnalysisException):
    """The request does not fit the table. Also Spark's `AnalysisException`, as with Delta."""


class DeltaUnsupportedOperationError(DeltaError, UnsupportedOperationException):
    """The table does not allow the operation. Also Spark's `UnsupportedOperationException`, as with Delta."""


_SIGNATURE = re.compile(r"([?&;](?:sig|signature|x-amz-signature|x-amz-security-token)=)[^\s&;'\"`)]+", re.IGNORECASE)


def without_signatures(text: str) -> str:
    """The text without the signatures of URLs, which let every reader do what the URL allows."""
    return _SIGNATURE.sub(r"\1…", text)


def _rebuild(error: type[DeltaError], fields: dict[str, Any]) -> DeltaError:
    return error(**fields)
