"""Errors about CONVERT TO DELTA."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error


@delta_error("DELTA_CONVERT_NON_PARQUET_TABLE", "0AKDC")
class NotAParquetTableError(DeltaAnalysisError, ValueError):
    """A table or folder to be converted has another format than Parquet."""

    template = (
        "CONVERT TO DELTA converts Parquet tables, and {table} is {found}. Copy it by CREATE TABLE … USING delta AS "
        "SELECT."
    )
    table: str
    found: str


@delta_error("DELTA_MISSING_PROVIDER_FOR_CONVERT", "0AKDC")
class ConvertSourceMissingError(DeltaAnalysisError, ValueError):
    """The table or folder to be converted does not exist."""

    template = (
        "CONVERT TO DELTA found no table {table}. Name a table of the catalog, or a folder of Parquet files by its "
        "absolute path: parquet.`/path/to/folder`."
    )
    table: str


@delta_error("DELTA_EMPTY_DIRECTORY", "42K03")
class NothingToConvertError(DeltaAnalysisError, FileNotFoundError):
    """A folder to be converted has no files."""

    directory: str
    partitions: bool = False
    """Whether the catalog says which folders belong to the table."""

    def explain(self) -> str:
        where = "the partitions that the catalog lists for " if self.partitions else ""
        repair = " MSCK REPAIR TABLE adds folders to the catalog." if self.partitions else ""
        return (
            f"CONVERT TO DELTA found no file in {where}{self.directory}. Files and folders whose names begin with _ or "
            f". are ignored.{repair} Check the path; use CREATE TABLE for a new table."
        )


@delta_error("DELTA_CONVERT_FILE_NOT_READABLE", "KD001")
class FileNotConvertibleError(DeltaError):
    """A file of the folder is not a complete Parquet file. Nothing was written."""

    template = (
        "{table} cannot be converted: {file} {problem}. Remove the file, wait for its writer, or set "
        "spark.sql.files.ignoreCorruptFiles to true to leave out files that are not Parquet."
    )
    table: str
    file: str
    problem: str
    corrupt: bool = False
    """Whether the content of the file is not Parquet."""


@delta_error("DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME", "KD009")
class PartitionFoldersMismatchError(DeltaAnalysisError, ValueError):
    """The partition folders of a file do not match the partition columns of the statement."""

    table: str
    file: str
    expected: tuple[str, ...]
    found: tuple[str, ...]
    suggestion: str
    """The clause that fits the folders; empty where no clause fits all of them."""

    def explain(self) -> str:
        expected = ", ".join(self.expected) or "no partition column"
        folders = ", ".join(self.found) or "none"
        way_out = (
            f"Write {self.suggestion}."
            if self.suggestion
            else "The folders of its files differ; move files that belong to another table out of the way."
        )
        return (
            f"{self.table} is to be partitioned by {expected}, but the folders of {self.file} have {folders}. {way_out}"
        )


@delta_error("DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME")
class UnexpectedPartitionFolderError(PartitionFoldersMismatchError):
    """A folder of a file names another partition column than the expected one."""


@delta_error("DELTA_FAILED_CAST_PARTITION_VALUE", "22018")
class PartitionFolderValueError(DeltaAnalysisError, ValueError):
    """The value that a folder has for a partition column does not fit the column's type."""

    template = (
        "{table} cannot be converted: the folder of {file} has {column} = {value!r}, which is not a valid {data_type}. "
        "Give the column another type in PARTITIONED BY, or set "
        "spark.databricks.delta.convert.partitionValues.ignoreCastFailure to true to read such values as NULL."
    )
    table: str
    file: str
    column: str
    value: str
    data_type: str


@delta_error("DELTA_FAILED_MERGE_SCHEMA_FILE", "42KDA")
class ConflictingFileSchemasError(DeltaAnalysisError):
    """Two files have a column with types that no column of a table can hold both of."""

    template = (
        "{table} cannot be converted: {column} is {data_type} in {file} and {other_type} in {other_file}. Rewrite one "
        "of the files with the type of the other."
    )
    table: str
    column: str
    file: str
    data_type: str
    other_file: str
    other_type: str


@delta_error("DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER", "KD009")
class CatalogPartitioningError(DeltaAnalysisError, ValueError):
    """PARTITIONED BY has other columns than the catalog."""

    table: str
    given: str
    known: str

    def explain(self) -> str:
        return (
            f"The catalog has {self.table} partitioned by {self.known or 'nothing'}, and the statement by "
            f"{self.given}. Leave PARTITIONED BY out."
        )


@delta_error("DELTA_CONVERT_METASTORE_METADATA_MISMATCH", "42K03")
class ConvertPropertiesMismatchError(DeltaAnalysisError):
    """The folder of a Parquet table is already a Delta table, with other properties than the catalog's."""

    template = (
        "The folder of {table} is already a Delta table, and the catalog's properties {properties} are not its own. "
        "Set them on the Delta table, or set spark.databricks.delta.convert.metadataCheck.enabled to false to use the "
        "catalog's."
    )
    table: str
    properties: tuple[str, ...]
    """The catalog's properties that the Delta table lacks, or has with another value."""


@delta_error("DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING", "0AKDC")
class ConvertPropertyError(DeltaAnalysisError, ValueError):
    """A property of the table to be converted cannot apply to existing files."""

    template = (
        "{table} cannot be converted with {property} = {value}. Unset it for the conversion, and set it by ALTER TABLE "
        "afterwards."
    )
    table: str
    property: str
    value: str


@delta_error("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "42K05")
class UnconvertibleNamesError(DeltaAnalysisError, ValueError):
    """Columns of the files have names that a table without column mapping cannot have."""

    template = (
        "{table} cannot be converted: names of columns have a space, a tab, a line break or one of ,;{{}}()=: "
        "{columns}. Copy it by CREATE TABLE … TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS SELECT, or rename "
        "the columns in the files."
    )
    table: str
    columns: tuple[str, ...]
