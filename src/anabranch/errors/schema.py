"""Errors about schemas, and about data that does not fit one."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error


@delta_error("DELTA_SCHEMA_MALFORMED", "XXKDS")
class MalformedSchemaError(DeltaError):
    """The schema in a table's log cannot be parsed."""

    table: str
    field: str
    """Path of the field with the error; empty for the schema as a whole."""
    reason: str

    def explain(self) -> str:
        where = f" of column {self.field}" if self.field else ""
        return (
            f"The schema{where} in the log of {self.table} is malformed: {self.reason}. The program that wrote this "
            "metaData action did not follow the protocol; restore an earlier version of the table."
        )


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class UnsupportedTypeError(DeltaAnalysisError):
    """A column has a type that no Delta table can store."""

    table: str
    columns: Mapping[str, str]
    """The type of each such column by the column's path."""

    def explain(self) -> str:
        types = ", ".join(f"{column}: {kind}" if column else kind for column, kind in self.columns.items())
        return f"{self.table} cannot store these types: {types}. Cast the columns to types that Delta tables store."


@delta_error("DELTA_INVALID_COLUMN_MAPPING", "XXKDS")
class InvalidColumnMappingError(DeltaError):
    """The ids and physical names of a schema contradict each other, or are missing."""

    table: str
    column: str
    reason: str

    def explain(self) -> str:
        where = f" of column {self.column}" if self.column else ""
        return f"The column mapping{where} in {self.table} is invalid: {self.reason}."


@delta_error("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE", "0AKDC")
class UnknownColumnMappingModeError(DeltaAnalysisError, ValueError):
    """`delta.columnMapping.mode` has a value that the protocol does not define."""

    template = "delta.columnMapping.mode is {mode!r}; it can be 'none', 'name' or 'id'."
    mode: str


@delta_error("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", "0AKDC")
class ColumnMappingChangeError(DeltaAnalysisError):
    """The column mapping mode of an existing table cannot be changed in this way."""

    template = (
        "The column mapping mode cannot change from {old_mode!r} to {new_mode!r}; an existing table can go from 'none' "
        "to 'name', and back to 'none' by rewriting its files."
    )
    old_mode: str
    new_mode: str


@delta_error("DELTA_COLUMN_NOT_FOUND", "42703")
class ColumnNotFoundError(DeltaAnalysisError):
    """A statement names a column that the table does not have."""

    table: str
    column: str
    available: tuple[str, ...]

    def explain(self) -> str:
        return f"{self.table} has no column {self.column}; it has {', '.join(self.available) or 'none'}."


@delta_error("DELTA_METADATA_MISMATCH", "42KDG")
class SchemaMismatchError(DeltaAnalysisError):
    """The data has columns or types that the table does not have, and the write may not change the schema."""

    table: str
    extra: Mapping[str, str]
    """Columns that the table lacks, with their types."""
    mismatched: Mapping[str, tuple[str, str]]
    """Columns of different types: the table's and the data's."""
    overwriting: bool
    """Whether the write replaces the table, so that it could replace the schema too."""

    def explain(self) -> str:
        return f"The data does not fit {self.table}: {self.faults()}. {self.way_out()}"

    def faults(self) -> str:
        extra = [f"{column} ({kind}) is not in the table" for column, kind in self.extra.items()]
        types = [
            f"{column} is {ours} in the table and {theirs} in the data"
            for column, (ours, theirs) in self.mismatched.items()
        ]
        return "; ".join(extra + types)

    def way_out(self) -> str:
        merge = 'Let the write change the table, by .option("mergeSchema", "true") or INSERT WITH SCHEMA EVOLUTION'
        if self.overwriting:
            return f'{merge}, replace its schema by .option("overwriteSchema", "true"), or drop or cast the columns.'
        return f"{merge}, or drop or cast the columns."


@delta_error("DELTA_FAILED_TO_MERGE_FIELDS", "22005")
class IncompatibleTypesError(SchemaMismatchError):
    """The data has types to which the table's types cannot be widened."""

    def way_out(self) -> str:
        cast = "No schema change reconciles these types; cast the data to the table's types"
        return (
            f'{cast}, or replace the schema with .option("overwriteSchema", "true").'
            if self.overwriting
            else f"{cast}."
        )


@delta_error("DELTA_METADATA_MISMATCH", "42KDG")
class PartitionColumnMismatchError(DeltaAnalysisError):
    """The write has other partition columns than the table."""

    table: str
    given: tuple[str, ...]
    actual: tuple[str, ...]
    overwriting: bool

    def explain(self) -> str:
        way_out = "Leave partitionBy out, or name the table's columns in its order."
        if self.overwriting:
            way_out += ' To change the partitioning, write with .option("overwriteSchema", "true").'
        given, actual = ", ".join(self.given), ", ".join(self.actual) or "nothing"
        return f"{self.table} is partitioned by {actual}, and the write has the partition columns {given}. {way_out}"


@delta_error("DELTA_INVALID_PARTITIONING", "42996")
class InvalidPartitioningError(DeltaAnalysisError):
    """A table cannot be partitioned in this way."""

    template = "{table} cannot be partitioned by {columns}: {reason}."
    table: str
    columns: tuple[str, ...]
    reason: str


@delta_error("DELTA_PARTITION_COLUMN_NOT_FOUND", "42703")
class PartitionColumnNotFoundError(InvalidPartitioningError):
    """A partition column is not a column of the table."""


@delta_error("DELTA_INVALID_PARTITION_COLUMN_TYPE", "42996")
class PartitionColumnTypeError(InvalidPartitioningError):
    """A table cannot be partitioned by a column of this type."""


@delta_error("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", "428FT")
class NoDataColumnsError(InvalidPartitioningError):
    """A table cannot be partitioned by all of its columns."""


@delta_error("DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED", "42601")
class IdentityPartitioningError(InvalidPartitioningError):
    """A table cannot be partitioned by an identity column."""


@delta_error("DELTA_MISSING_COLUMN", "42703")
class MissingColumnsError(DeltaAnalysisError):
    """The data lacks columns that it must have."""

    table: str
    columns: tuple[str, ...]
    reason: str

    def explain(self) -> str:
        many = len(self.columns) > 1
        return (
            f"The data lacks column{'s' if many else ''} {', '.join(self.columns)} of {self.table}, and {self.reason}. "
            f"Add {'them' if many else 'it'} to the data."
        )


@delta_error("DELTA_MISSING_NOT_NULL_COLUMN_VALUE", "23502")
class MissingNotNullColumnsError(MissingColumnsError):
    """The data lacks NOT NULL columns."""


@delta_error("DELTA_MISSING_PARTITION_COLUMN", "42KD6")
class MissingPartitionColumnsError(MissingColumnsError):
    """The data lacks partition columns of the table."""


@delta_error("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", "42846")
class MissingFieldsError(DeltaAnalysisError):
    """A struct that UPDATE or MERGE assigns lacks fields of the table's column, and schema evolution is off."""

    template = (
        "The struct to be written into {table} lacks {columns}. Give it every field that the table has, or set single "
        "fields (UPDATE SET s.x = …). A MERGE WITH SCHEMA EVOLUTION accepts it as it is."
    )
    table: str
    columns: tuple[str, ...]
    """The missing fields, with the column before them."""


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class MissingInsertFieldsError(MissingFieldsError):
    """A struct that INSERT writes lacks fields of the table's column, with or without schema evolution."""

    template = (
        "The struct to be inserted into {table} lacks {columns}. Give it every field that the table has, or write a "
        "DataFrame by save, saveAsTable or writeTo, where such fields are NULL."
    )


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class ColumnCountError(DeltaAnalysisError):
    """The rows of a write by position, or a struct in them, have fewer columns than the table."""

    table: str
    column: str
    """The struct with too few fields; empty for the table itself."""
    expected: int
    given: int

    def explain(self) -> str:
        what = f"column {self.column} of {self.table}" if self.column else self.table
        return (
            f"{what} has {self.expected} fields and the data has {self.given}; this write matches them by position. "
            "Supply all of them, or write by name."
        )


@delta_error("DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE", "22005")
class VoidWriteError(DeltaAnalysisError):
    """The schema of the rows has void types where data files cannot store them."""

    table: str
    column: str
    reason: str

    def explain(self) -> str:
        where = f"Column {self.column} of {self.table}" if self.column else self.table
        return f"{where} {self.reason}, and void is never stored in data files. Cast it to a type first."


@delta_error("DELTA_DUPLICATE_COLUMNS_FOUND", "42711")
class DuplicateColumnsError(DeltaAnalysisError):
    """Columns have the same name, or names that differ only by case."""

    template = (
        "Duplicate columns in {where} for {table}: {columns}. Names must differ by more than case; rename or drop one "
        "of each."
    )
    table: str
    where: str
    columns: tuple[str, ...]


@delta_error("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "42K05")
class InvalidColumnNamesError(DeltaAnalysisError):
    """Parquet does not allow these column names."""

    template = (
        "Columns of {table} have one of the characters ' ,;{{}}()\\n\\t=' in their names: {columns}. Rename them, or "
        "set the table property 'delta.columnMapping.mode' = 'name', which allows any name."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("RESERVED_CDC_COLUMNS_ON_WRITE", "42939")
class ReservedColumnsError(DeltaAnalysisError):
    """The names are reserved for columns that anabranch adds."""

    template = (
        "{table} cannot have these columns: {columns}. The names are reserved for columns that statements add while "
        "they run, and for the change data feed. Rename or drop them, or, where the feed reserves them, set "
        "'delta.enableChangeDataFeed' = 'false'."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA", "0AKDC")
class InvalidTypeChangeError(DeltaAnalysisError):
    """The type of a column was changed in a way that readers cannot follow."""

    template = "Column {column} of {table} was changed from {old} to {new}, which cannot be read."
    table: str
    column: str
    old: str
    new: str


@delta_error("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "42808")
class IdentityInsertError(DeltaAnalysisError):
    """The data has values for a GENERATED ALWAYS AS IDENTITY column."""

    template = "{table} generates {column} itself (GENERATED ALWAYS AS IDENTITY); leave it out of the data."
    table: str
    column: str


@delta_error("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "KD007")
class SchemaChangedSinceAnalysisError(DeltaAnalysisError):
    """The table's columns changed after a DataFrame was created or a view was resolved."""

    table: str
    version: int
    column: str
    before: str | None
    """The column's type when Spark resolved it; None for a column that is new, or that moved to this position."""
    now: str | None
    """The column's type in `version`; None where the column was dropped."""

    def explain(self) -> str:
        again = "Create the DataFrame, or run the statement, again."
        if self.before is None:
            return (
                f"{self.table} has the column {self.column}, new or at another position, since version {self.version}, "
                f"after Spark resolved its columns. {again}"
            )
        change = "which no longer exists" if self.now is None else f"which is {self.now}"
        return (
            f"The DataFrame or view was created when {self.table} had the column {self.column} of type {self.before}, "
            f"{change} in version {self.version}. {again}"
        )
