"""What can be wrong with a schema, and with data that should fit one."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error


@delta_error("DELTA_SCHEMA_MALFORMED", "XXKDS")
class MalformedSchemaError(DeltaError):
    """The schema in a table's log is not one."""

    table: str
    field: str
    """Path of the field at fault; empty for the schema as a whole."""
    reason: str

    def explain(self) -> str:
        where = f" of column {self.field}" if self.field else ""
        return (
            f"The schema{where} in the log of {self.table} is malformed: {self.reason}. "
            "The metaData action that holds it was written wrongly; restore an earlier version of the table."
        )


@delta_error("DELTA_UNSUPPORTED_DATA_TYPES", "0AKDC")
class UnsupportedTypeError(DeltaAnalysisError):
    """A column has a type that no Delta table can hold."""

    table: str
    columns: Mapping[str, str]
    """Column path to the type it has."""

    def explain(self) -> str:
        named = ", ".join(f"{column}: {kind}" if column else kind for column, kind in self.columns.items())
        return f"{self.table} cannot hold these types: {named}. Cast the columns to a type that Delta tables store."


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
    """`delta.columnMapping.mode` has a value the protocol does not know."""

    template = "delta.columnMapping.mode is {mode!r}; it can be 'none', 'name' or 'id'."
    mode: str


@delta_error("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", "0AKDC")
class ColumnMappingChangeError(DeltaAnalysisError):
    """The mapping mode of an existing table cannot be changed in this way."""

    template = (
        "The column mapping mode cannot change from {old_mode!r} to {new_mode!r}; an existing table can go from 'none' "
        "to 'name', and back to 'none' by rewriting its files."
    )
    old_mode: str
    new_mode: str


@delta_error("DELTA_COLUMN_NOT_FOUND", "42703")
class ColumnNotFoundError(DeltaAnalysisError):
    """A column that the request names is not in the table."""

    table: str
    column: str
    available: tuple[str, ...]

    def explain(self) -> str:
        return f"{self.table} has no column {self.column}; it has {', '.join(self.available) or 'none'}."


@delta_error("DELTA_METADATA_MISMATCH", "42KDG")
class SchemaMismatchError(DeltaAnalysisError):
    """The data has columns or types that the table has not, and may not change the table."""

    table: str
    extra: Mapping[str, str]
    """Columns that the table lacks, with their types."""
    mismatched: Mapping[str, tuple[str, str]]
    """Columns of another type: the table's and the data's."""
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
    """The data has types that the table's cannot be widened to."""

    def way_out(self) -> str:
        cast = "No change of the schema brings these types together; cast the data to the table's types"
        return (
            f'{cast}, or replace the schema with .option("overwriteSchema", "true").'
            if self.overwriting
            else f"{cast}."
        )


@delta_error("DELTA_METADATA_MISMATCH", "42KDG")
class PartitionColumnMismatchError(DeltaAnalysisError):
    """The write asks for another partitioning than the table has."""

    table: str
    given: tuple[str, ...]
    actual: tuple[str, ...]
    overwriting: bool

    def explain(self) -> str:
        way_out = "Leave partitionBy out, or name the table's columns in its order."
        if self.overwriting:
            way_out += ' To change the partitioning, write with .option("overwriteSchema", "true").'
        given, actual = ", ".join(self.given), ", ".join(self.actual) or "nothing"
        return f"{self.table} is partitioned by {actual}, and the write asks for {given}. {way_out}"


@delta_error("DELTA_INVALID_PARTITIONING", "42996")
class InvalidPartitioningError(DeltaAnalysisError):
    """A table cannot be partitioned in this way."""

    template = "{table} cannot be partitioned by {columns}: {reason}."
    table: str
    columns: tuple[str, ...]
    reason: str


@delta_error("DELTA_PARTITION_COLUMN_NOT_FOUND", "42703")
class PartitionColumnNotFoundError(InvalidPartitioningError):
    """A table cannot be partitioned by a column that it has not."""


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
    """The data lacks columns that allow no nulls."""


@delta_error("DELTA_MISSING_PARTITION_COLUMN", "42KD6")
class MissingPartitionColumnsError(MissingColumnsError):
    """The data lacks columns that the table is partitioned by."""


@delta_error("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", "42846")
class MissingFieldsError(DeltaAnalysisError):
    """A struct that UPDATE or MERGE writes lacks fields that the table's has, and the schema may not evolve."""

    template = (
        "The struct that is to be written into {table} lacks {columns}. Give it every field that the table has, or set "
        "single fields (UPDATE SET s.x = …). A MERGE WITH SCHEMA EVOLUTION takes it as it is."
    )
    table: str
    columns: tuple[str, ...]
    """The fields that it lacks, with the column before them."""


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class MissingInsertFieldsError(MissingFieldsError):
    """A struct that INSERT writes lacks fields that the table's has, whether the schema may evolve or not."""

    template = (
        "The struct that is to be inserted into {table} lacks {columns}. Give it every field that the table has, or "
        "write a DataFrame by save, saveAsTable or writeTo, where such fields are NULL."
    )


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class ColumnCountError(DeltaAnalysisError):
    """A write by position has fewer columns, or fields of a struct, than the table."""

    table: str
    column: str
    """The struct at fault; empty for the table itself."""
    expected: int
    given: int

    def explain(self) -> str:
        what = f"column {self.column} of {self.table}" if self.column else self.table
        return (
            f"{what} has {self.expected} fields and the data {self.given}; this write matches them by position. "
            "Supply all of them, or write by name."
        )


@delta_error("DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE", "22005")
class VoidWriteError(DeltaAnalysisError):
    """Data files cannot be written for a schema with void types in these places."""

    table: str
    column: str
    reason: str

    def explain(self) -> str:
        where = f"Column {self.column} of {self.table}" if self.column else self.table
        return f"{where} {self.reason}, and void is never stored in data files. Cast it to a type first."


@delta_error("DELTA_DUPLICATE_COLUMNS_FOUND", "42711")
class DuplicateColumnsError(DeltaAnalysisError):
    """Columns have the same name, or differ only by case."""

    template = (
        "Columns come twice in {where} for {table}: {columns}. Names must differ by more than case; rename or drop one "
        "of each."
    )
    table: str
    where: str
    columns: tuple[str, ...]


@delta_error("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "42K05")
class InvalidColumnNamesError(DeltaAnalysisError):
    """Parquet files do not take these names."""

    template = (
        "Columns of {table} have one of the characters ' ,;{{}}()\\n\\t=' in their names: {columns}. Rename them, or "
        "set the table property 'delta.columnMapping.mode' = 'name', with which any name is allowed."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("RESERVED_CDC_COLUMNS_ON_WRITE", "42939")
class ReservedColumnsError(DeltaAnalysisError):
    """The table uses these names itself."""

    template = (
        "{table} cannot have these columns: {columns}. Such names are kept for columns that statements add while they "
        "run, and for the change data feed. Rename or drop them, or, where it is the feed that reserves them, set "
        "'delta.enableChangeDataFeed' = 'false'."
    )
    table: str
    columns: tuple[str, ...]


@delta_error("DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA", "0AKDC")
class InvalidTypeChangeError(DeltaAnalysisError):
    """The type of a column was changed in a way that no reader can follow."""

    template = "Column {column} of {table} was changed from {old} to {new}, which cannot be read."
    table: str
    column: str
    old: str
    new: str


@delta_error("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "42808")
class IdentityInsertError(DeltaAnalysisError):
    """Values were given for a column that always makes its own."""

    template = "{table} generates {column} itself (GENERATED ALWAYS AS IDENTITY); leave it out of the data."
    table: str
    column: str


@delta_error("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "KD007")
class SchemaChangedSinceAnalysisError(DeltaAnalysisError):
    """A DataFrame was made when the table had other columns."""

    table: str
    version: int
    column: str
    before: str | None
    """The column's type when Spark resolved it; None where it came, or moved to this place, since then."""
    now: str | None
    """The column's type in `version`; None where it is gone."""

    def explain(self) -> str:
        again = "Make the DataFrame, or run the statement, again."
        if self.before is None:
            return (
                f"{self.table} has got the column {self.column}, new or at another place, with version {self.version}, "
                f"after Spark had resolved its columns. {again}"
            )
        change = "which is gone" if self.now is None else f"which is {self.now}"
        return (
            f"The DataFrame or view was made when {self.table} had the column {self.column} of type {self.before}, "
            f"{change} in version {self.version}. {again}"
        )
