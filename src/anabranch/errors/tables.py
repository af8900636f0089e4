"""Errors about finding, naming, creating, cloning and restoring tables."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error

# Errors about finding, naming and creating tables.


@delta_error("DELTA_MISSING_DELTA_TABLE", "42P01")
class NotADeltaTableError(DeltaAnalysisError):
    """A name or path that must be a Delta table is something else, or nothing."""

    table: str
    found: str = ""

    def explain(self) -> str:
        found = f" ({self.found})" if self.found else ""
        return (
            f"{self.table} is not a Delta table{found}. Check the spelling, or create it, for example by "
            'df.write.format("delta").save(path) or DeltaTable.create(spark).'
        )


@delta_error("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "42809")
class ViewNotTableError(NotADeltaTableError):
    """A statement that is about a table's files names a view."""


@delta_error("PATH_NOT_FOUND", "42K03")
class PathNotFoundError(NotADeltaTableError):
    """A path that must be a Delta table's has nothing below it, as Spark says it of any files."""


@delta_error("DELTA_TABLE_ALREADY_EXISTS", "42P07")
class TableAlreadyExistsError(DeltaAnalysisError):
    """A table was to be created where one exists."""

    template = (
        "{table} exists already. Use mode append, overwrite or ignore, or createIfNotExists / createOrReplace, to say "
        "what shall happen to it."
    )
    table: str


@delta_error("DELTA_PATH_EXISTS", "42K04")
class PathExistsError(TableAlreadyExistsError):
    """Rows were to make a table in a folder where one exists."""


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class LocationNotEmptyError(DeltaAnalysisError):
    """A new table's folder holds files that no Delta log accounts for."""

    template = (
        "{table} cannot be created: its folder is not empty (it holds {example}) and is not a Delta table. {advice}"
        "Choose another location, or clear the folder."
    )
    table: str
    example: str
    advice: str = ""


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class TableInLocationError(DeltaAnalysisError):
    """A new table's folder holds a Delta table that the catalog does not know by the new name."""

    template = (
        "{table} cannot be created: a Delta table lies in its folder, {folder}, which the catalog does not know by "
        "this name. To read that table by this name, run CREATE TABLE {table} USING delta LOCATION '{folder}'; for a "
        "new table, choose another name or location, or clear the folder."
    )
    table: str
    folder: str


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class LocationInTableError(DeltaAnalysisError):
    """A new table's folder is a part of another Delta table."""

    template = (
        "{table} cannot be created: its folder belongs to the Delta table in {outer} (it is {part}). To change rows of "
        "that table, name the table and say which rows, by WHERE or replaceWhere; to make a new table, choose another "
        "folder."
    )
    table: str
    outer: str
    part: str


@delta_error("DELTA_TABLE_LOCATION_MISMATCH", "42613")
class TableLocationMismatchError(DeltaAnalysisError):
    """A table was to be replaced, and put elsewhere at once."""

    template = (
        "{table} lies in {existing}, and {location} was given as its place. Leave the place out to replace the table "
        "where it is, or drop the name first, or use another one."
    )
    table: str
    location: str
    existing: str


@delta_error("DELTA_CREATE_TABLE_SCHEME_MISMATCH", "42KD7")
class CreateTableMismatchError(DeltaAnalysisError):
    """A table is declared one way and exists another way."""

    template = (
        "{table} exists with another {what}: declared is {declared}, the table has {existing}. Leave the declaration "
        "out to use the table as it is, or use createOrReplace."
    )
    table: str
    what: str
    declared: str
    existing: str


@delta_error("DELTA_EMPTY_DATA", "428GU")
class EmptyTableSchemaError(DeltaAnalysisError):
    """A table without columns."""

    template = "{table} would have no columns. Give it a schema, or write a DataFrame that has one."
    table: str


@delta_error("DELTA_READ_TABLE_WITHOUT_COLUMNS", "428GU")
class ReadWithoutColumnsError(DeltaAnalysisError):
    """A table that was made without columns, and has got none since, was to be read."""

    template = (
        "{table} has no columns to be read. Give it some by ALTER TABLE … ADD COLUMNS, or write rows with "
        'option("mergeSchema", "true").'
    )
    table: str


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class InvalidIdentifierError(DeltaAnalysisError, ValueError):
    """A table name that cannot be read."""

    template = (
        "{identifier!r} is not a table name: {problem}. Write table, schema.table or catalog.schema.table, with "
        "backticks around parts that hold other than letters, digits and _, or delta.`/path/to/table`."
    )
    identifier: str
    problem: str


@delta_error("INVALID_SCHEMA_OR_RELATION_NAME", "42602")
class InvalidTableNameError(DeltaAnalysisError, ValueError):
    """A name that Spark's catalog takes for no new table."""

    template = (
        "{table} cannot be the name of a table: Spark's catalog takes names of the letters A to Z, digits and _ alone. "
        "Choose another name, or write to a path."
    )
    table: str


@delta_error("DELTA_UNSUPPORTED_CATALOG", "0A000")
class UnsupportedCatalogError(DeltaAnalysisError):
    """A name in a catalog that Delta tables cannot be registered in."""

    template = (
        "{table} names the catalog {catalog}; anabranch keeps tables in the session's own catalog, spark_catalog, and "
        "in catalogs of class delta.DeltaCatalog. Use a name there, or a path."
    )
    table: str
    catalog: str


@delta_error("SCHEMA_NOT_FOUND", "42704")
class SchemaMissingError(DeltaAnalysisError):
    """A table was to be made in a schema that is not there."""

    template = "{table} cannot be made: there is no such schema. Run CREATE SCHEMA {schema} first."
    table: str
    schema: str


@delta_error("DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", "428H2")
class InvalidIdentityColumnError(DeltaAnalysisError, DeltaUnsupportedOperationError):
    """An identity column of another type than BIGINT."""

    template = "Identity column {column} is {column_type}; identity columns are BIGINT. Declare it so."
    column: str
    column_type: str


@delta_error("DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP", "42611")
class IdentityStepError(DeltaAnalysisError, ValueError):
    """An identity column whose numbers would all be the same."""

    template = "Identity column {column} counts in steps of 0. Choose another step, such as 1 or -1."
    column: str


@delta_error("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", "0AKDE")
class DefaultsNotEnabledError(DeltaAnalysisError):
    """A column was to get a default in a table that does not allow any."""

    template = (
        "Column {column} of {table} cannot have a default: the table does not support column defaults. Set the table "
        "property 'delta.feature.allowColumnDefaults' = 'supported' first."
    )
    table: str
    column: str


@delta_error("DELTA_DROP_INCOMPLETE", "58030")
class DropIncompleteError(DeltaError):
    """The name of a table is gone, and some of its files could not be deleted."""

    table: str
    folder: str
    path: str
    """The first that could not be deleted."""
    cause: str

    def explain(self) -> str:
        return (
            f"DROP TABLE took the name {self.table} away, and could not delete all files in {self.folder}, first "
            f"{self.path}: {self.cause.rstrip('.')}. Allow files to be deleted there, and delete the folder."
        )


# Errors about CLONE.


@delta_error("DELTA_UNSUPPORTED_DEEP_CLONE", "0A000")
class DeepCloneError(DeltaError):
    """A clone that copies its source's files, which open Delta has not."""

    template = (
        "{target} cannot be made by a deep clone: only SHALLOW CLONE (isShallow=True) is there. To have the files "
        "copied, use CREATE TABLE … AS SELECT, or clone shallow and run OPTIMIZE, which writes new files."
    )
    target: str


@delta_error("DELTA_CLONE_UNSUPPORTED_SOURCE", "0AKDC")
class CloneSourceError(DeltaAnalysisError):
    """The source of a clone is not a table whose files a Delta log can name."""

    template = "{source} cannot be cloned: {found}. Clone a Delta table, or use CREATE TABLE … AS SELECT."
    source: str
    found: str


@delta_error("DELTA_INVALID_CLONE_TARGET", "22KD1")
class CloneTargetError(DeltaAnalysisError, ValueError):
    """The place for the clone is none."""

    template = "{target} cannot become the clone: {problem}."
    target: str
    problem: str


@delta_error("DELTA_INVALID_ARGUMENT", "22023")
class CloneArgumentError(DeltaAnalysisError, ValueError):
    """An argument of `DeltaTable.clone` has another type than it must have."""

    template = "{argument} needs to be {expected} but got '{found}'."
    argument: str
    expected: str
    found: str


@delta_error("DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE", "0AKDC")
class CloneOntoItselfError(DeltaAnalysisError):
    """A table was to become a clone of itself."""

    template = (
        "{table} cannot become a clone of itself. To go back to an older version of it, use RESTORE TABLE {table} TO "
        "VERSION AS OF …."
    )
    table: str


# Errors about RESTORE.


@delta_error("DELTA_RESTORE_FILES_MISSING", "55019")
class RestoreFilesMissingError(DeltaAnalysisError):
    """Files of the version to be restored are not in the storage any more."""

    table: str
    version: int
    """The one to be restored."""
    num_missing: int
    examples: tuple[str, ...]
    """A few of them: relative to the table, or absolute where they lie elsewhere."""

    def explain(self) -> str:
        shown = ", ".join(self.examples)
        more = "" if self.num_missing == len(self.examples) else ", …"
        files = "1 file" if self.num_missing == 1 else f"{self.num_missing} files"
        return (
            f"{self.table} cannot be restored to version {self.version}: {files} of it are gone ({shown}{more}). "
            "VACUUM removes what no version within delta.deletedFileRetentionDuration needs. Restore a newer version, "
            "put the files back from a backup, or set spark.sql.files.ignoreMissingFiles to true to restore the rest: "
            "reading will then fail at the missing files unless that setting stays."
        )


@delta_error("DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION", "0AKDC")
class RestoreBeyondRetentionError(DeltaAnalysisError):
    """The version to be restored is so old that VACUUM may be taking its files at this moment."""

    table: str
    version: int
    retention_ms: int
    setting: str
    """Turns the check off."""

    def explain(self) -> str:
        hours = self.retention_ms / 3_600_000
        return (
            f"{self.table} cannot be restored to version {self.version}: it is older than "
            f"delta.deletedFileRetentionDuration ({hours:g} hours), so a VACUUM that runs now may remove its files "
            "while they are being restored. Restore a newer version, make the duration longer, or, where no VACUUM "
            f"runs, set {self.setting} to false."
        )


@delta_error("DELTA_CDC_NON_CONSTANT_ARGUMENT", "42K0H")
class NonConstantArgumentError(DeltaAnalysisError, ValueError):
    """An argument of `table_changes` or `table_changes_by_path` depends on rows of the query."""

    template = (
        "{function} takes constants, and {expression} depends on rows of the query. Read the changes of all versions "
        "that the rows may name, and join on _commit_version."
    )
    function: str
    expression: str
