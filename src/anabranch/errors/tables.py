"""Errors about finding, naming, creating, cloning and restoring tables."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error

# Errors about finding, naming and creating tables.


@delta_error("DELTA_MISSING_DELTA_TABLE", "42P01")
class NotADeltaTableError(DeltaAnalysisError):
    """A name or path that must be a Delta table is something else, or does not exist."""

    table: str
    found: str = ""

    def explain(self) -> str:
        instead = f" ({self.found})" if self.found else ""
        return (
            f"{self.table} is not a Delta table{instead}. Check the spelling, or create it, for example by "
            'df.write.format("delta").save(path) or DeltaTable.create(spark).'
        )


@delta_error("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "42809")
class ViewNotTableError(NotADeltaTableError):
    """A statement that needs a table's files names a view."""


@delta_error("PATH_NOT_FOUND", "42K03")
class PathNotFoundError(NotADeltaTableError):
    """A path that must be a Delta table's does not exist. The condition is Spark's for missing files."""


@delta_error("DELTA_TABLE_ALREADY_EXISTS", "42P07")
class TableAlreadyExistsError(DeltaAnalysisError):
    """A table to be created already exists."""

    template = "{table} exists already. Use mode append, overwrite or ignore, or createIfNotExists / createOrReplace."
    table: str


@delta_error("DELTA_PATH_EXISTS", "42K04")
class PathExistsError(TableAlreadyExistsError):
    """A write that creates a table names a path where one exists."""


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class LocationNotEmptyError(DeltaAnalysisError):
    """The folder of a new table has files and is not a Delta table."""

    template = (
        "{table} cannot be created: its folder is not empty (it has {example}) and is not a Delta table. "
        "{advice}Choose another location, or clear the folder."
    )
    table: str
    example: str
    advice: str = ""


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class TableInLocationError(DeltaAnalysisError):
    """The folder of a new table is a Delta table that the catalog does not have under the new name."""

    template = (
        "{table} cannot be created: its folder {folder} is a Delta table that the catalog does not have under this "
        "name. To read that table by this name, run CREATE TABLE {table} USING delta LOCATION '{folder}'; for a new "
        "table, choose another name or location, or clear the folder."
    )
    table: str
    folder: str


@delta_error("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "42601")
class LocationInTableError(DeltaAnalysisError):
    """The folder of a new table is inside another Delta table."""

    template = (
        "{table} cannot be created: its folder belongs to the Delta table in {outer} (it is {part}). To change rows of "
        "that table, name the table and select the rows by WHERE or replaceWhere; to create a new table, choose "
        "another folder."
    )
    table: str
    outer: str
    part: str


@delta_error("DELTA_TABLE_LOCATION_MISMATCH", "42613")
class TableLocationMismatchError(DeltaAnalysisError):
    """A statement replaces a table and names another location."""

    template = (
        "{table} is in {existing}, and its replacement has the location {location}. Leave the location out to replace "
        "the table where it is, drop the table first, or use another name."
    )
    table: str
    location: str
    existing: str


@delta_error("DELTA_CREATE_TABLE_SCHEME_MISMATCH", "42KD7")
class CreateTableMismatchError(DeltaAnalysisError):
    """The declaration of a table does not match the existing table."""

    template = (
        "{table} exists with another {what}: the declaration has {declared}, the table has {existing}. Leave the "
        "declaration out to use the table as it is, or use createOrReplace."
    )
    table: str
    what: str
    declared: str
    existing: str


@delta_error("DELTA_EMPTY_DATA", "428GU")
class EmptyTableSchemaError(DeltaAnalysisError):
    """A new table has no columns."""

    template = "{table} would have no columns. Give it a schema, or write a DataFrame that has one."
    table: str


@delta_error("DELTA_READ_TABLE_WITHOUT_COLUMNS", "428GU")
class ReadWithoutColumnsError(DeltaAnalysisError):
    """A table without columns cannot be read."""

    template = (
        "{table} has no columns to read. Add some by ALTER TABLE … ADD COLUMNS, or write rows with "
        'option("mergeSchema", "true").'
    )
    table: str


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class InvalidIdentifierError(DeltaAnalysisError, ValueError):
    """A table name cannot be parsed."""

    template = (
        "{identifier!r} is not a table name: {problem}. Write table, schema.table or catalog.schema.table, with "
        "backticks around parts that have characters other than letters, digits and _, or delta.`/path/to/table`."
    )
    identifier: str
    problem: str


@delta_error("INVALID_SCHEMA_OR_RELATION_NAME", "42602")
class InvalidTableNameError(DeltaAnalysisError, ValueError):
    """Spark's catalog does not accept the name of a new table."""

    template = (
        "{table} cannot be the name of a table: Spark's catalog accepts only the letters A to Z, digits and _. Choose "
        "another name, or write to a path."
    )
    table: str


@delta_error("DELTA_UNSUPPORTED_CATALOG", "0A000")
class UnsupportedCatalogError(DeltaAnalysisError):
    """A name is in a catalog that cannot register Delta tables."""

    template = (
        "{table} is a name in the catalog {catalog}; anabranch registers tables in the session's own catalog, "
        "spark_catalog, and in catalogs of class delta.DeltaCatalog. Use a name there, or a path."
    )
    table: str
    catalog: str


@delta_error("SCHEMA_NOT_FOUND", "42704")
class SchemaMissingError(DeltaAnalysisError):
    """The schema of a new table does not exist."""

    template = "{table} cannot be created: its schema does not exist. Run CREATE SCHEMA {schema} first."
    table: str
    schema: str


@delta_error("DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", "428H2")
class InvalidIdentityColumnError(DeltaAnalysisError, DeltaUnsupportedOperationError):
    """An identity column has a type other than BIGINT."""

    template = "Identity column {column} is {column_type}; identity columns are BIGINT. Declare it as BIGINT."
    column: str
    column_type: str


@delta_error("DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP", "42611")
class IdentityStepError(DeltaAnalysisError, ValueError):
    """The step of an identity column is 0."""

    template = (
        "Identity column {column} has step 0, so all its numbers would be equal. Choose another step, such as 1 or -1."
    )
    column: str


@delta_error("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", "0AKDE")
class DefaultsNotEnabledError(DeltaAnalysisError):
    """A column gets a default in a table that does not support column defaults."""

    template = (
        "Column {column} of {table} cannot have a default: the table does not support column defaults. Set the table "
        "property 'delta.feature.allowColumnDefaults' = 'supported' first."
    )
    table: str
    column: str


@delta_error("DELTA_DROP_INCOMPLETE", "58030")
class DropIncompleteError(DeltaError):
    """DROP TABLE removed the table from the catalog and could not delete some of its files."""

    table: str
    folder: str
    path: str
    """The first file that could not be deleted."""
    cause: str

    def explain(self) -> str:
        return (
            f"DROP TABLE removed {self.table} from the catalog and could not delete all files in {self.folder}, first "
            f"{self.path}: {self.cause.rstrip('.')}. Allow files to be deleted there, and delete the folder."
        )


# Errors about CLONE.


@delta_error("DELTA_UNSUPPORTED_DEEP_CLONE", "0A000")
class DeepCloneError(DeltaError):
    """A deep clone, which copies the source's files. Open-source Delta does not have it either."""

    template = (
        "{target} cannot be created by a deep clone: only SHALLOW CLONE (isShallow=True) is supported. To copy the "
        "files, use CREATE TABLE … AS SELECT, or clone shallow and run OPTIMIZE, which writes new files."
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
    """A clone cannot be created at the given name or path."""

    template = "{target} cannot be the target of the clone: {problem}."
    target: str
    problem: str


@delta_error("DELTA_INVALID_ARGUMENT", "22023")
class CloneArgumentError(DeltaAnalysisError, ValueError):
    """An argument of `DeltaTable.clone` has the wrong type."""

    template = "{argument} needs to be {expected} but got '{found}'."
    argument: str
    expected: str
    found: str


@delta_error("DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE", "0AKDC")
class CloneOntoItselfError(DeltaAnalysisError):
    """A clone has the same table as source and target."""

    template = (
        "{table} cannot be a clone of itself. To go back to an older version, use RESTORE TABLE {table} TO VERSION AS "
        "OF …."
    )
    table: str


# Errors about RESTORE.


@delta_error("DELTA_RESTORE_FILES_MISSING", "55019")
class RestoreFilesMissingError(DeltaAnalysisError):
    """Files of the version to be restored no longer exist."""

    table: str
    version: int
    """The version to be restored."""
    num_missing: int
    examples: tuple[str, ...]
    """A few missing files: relative to the table, or absolute where they are elsewhere."""

    def explain(self) -> str:
        shown = ", ".join(self.examples)
        more = "" if self.num_missing == len(self.examples) else ", …"
        missing = "1 file of it no longer exists"
        if self.num_missing != 1:
            missing = f"{self.num_missing} files of it no longer exist"
        return (
            f"{self.table} cannot be restored to version {self.version}: {missing} ({shown}{more}). VACUUM deletes "
            "files that no version within delta.deletedFileRetentionDuration needs. Restore a newer version, put the "
            "files back from a backup, or set spark.sql.files.ignoreMissingFiles to true to restore the rest: reading "
            "will then fail at the missing files unless that setting stays."
        )


@delta_error("DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION", "0AKDC")
class RestoreBeyondRetentionError(DeltaAnalysisError):
    """The version to be restored is so old that a VACUUM that runs now may delete its files."""

    table: str
    version: int
    retention_ms: int
    setting: str
    """The setting that turns the check off."""

    def explain(self) -> str:
        hours = self.retention_ms / 3_600_000
        return (
            f"{self.table} cannot be restored to version {self.version}: it is older than "
            f"delta.deletedFileRetentionDuration ({hours:g} hours), so a VACUUM that runs now may delete its files "
            "while they are being restored. Restore a newer version, make the duration longer, or, if no VACUUM "
            f"runs, set {self.setting} to false."
        )


@delta_error("DELTA_CDC_NON_CONSTANT_ARGUMENT", "42K0H")
class NonConstantArgumentError(DeltaAnalysisError, ValueError):
    """An argument of `table_changes` or `table_changes_by_path` depends on rows of the query."""

    template = (
        "The arguments of {function} must be constants, and {expression} depends on rows of the query. Read the "
        "changes of all versions that the rows may name, and join on _commit_version."
    )
    function: str
    expression: str
