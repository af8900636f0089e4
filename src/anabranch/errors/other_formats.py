"""Errors about other formats: tables for other engines (Iceberg, UniForm, manifests), and writes in other formats."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaUnsupportedOperationError, delta_error

# Errors about tables that Iceberg can read: IcebergCompatV1 and V2, and UniForm.


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION", "KD00E")
class IcebergCompatError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """A table with an Iceberg compatibility feature would break one of its rules."""

    table: str
    compat_version: int

    @property
    def _of(self) -> str:
        return f"{self.table} (IcebergCompatV{self.compat_version})"


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.VERSION_MUTUAL_EXCLUSIVE")
class IcebergCompatVersionsError(IcebergCompatError):
    """More than one version of Iceberg compatibility would be active."""

    others: tuple[int, ...]

    def explain(self) -> str:
        others = ", ".join(f"delta.enableIcebergCompatV{version}" for version in self.others)
        return (
            f"{self._of}: only one version of Iceberg compatibility may be active. Set {others} to false, or change "
            f"the version by REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = n))."
        )


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.WRONG_REQUIRED_TABLE_PROPERTY")
class IcebergCompatColumnMappingError(IcebergCompatError):
    """The table has no column mapping, whose ids Iceberg needs to find columns."""

    template = (
        "{table} (IcebergCompatV{compat_version}): column mapping must be name or id, and delta.columnMapping.mode is "
        "{mode}. For an existing table, REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = "
        "{compat_version})) turns it on and rewrites files where needed; for a table without Iceberg metadata, set "
        "delta.enableIcebergCompatV{compat_version} to false first."
    )
    mode: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_SHOULD_BE_DISABLED")
class IcebergCompatVectorsError(IcebergCompatError):
    """Deletion vectors would be enabled, which Iceberg V2 readers do not support."""

    feature_only: bool = False
    """Whether only the table feature is the problem, which IcebergCompatV1 does not allow even when unused."""

    def explain(self) -> str:
        if self.feature_only:
            return (
                f"{self._of}: the table feature deletionVectors must not be in the protocol. "
                "ALTER TABLE … DROP FEATURE deletionVectors removes it, or use IcebergCompatV2, which allows it unused."
            )
        return (
            f"{self._of}: deletion vectors must be off. Set delta.enableDeletionVectors to false; on a table that has "
            "some, REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = "
            f"{self.compat_version})) turns them off and rewrites their files."
        )


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_NOT_PURGED")
class IcebergCompatFileVectorError(IcebergCompatError):
    """A commit adds a file with a deletion vector."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {path} would have a deletion vector. Write the remaining rows to a "
        "new file."
    )
    path: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.UNSUPPORTED_DATA_TYPE")
class IcebergCompatTypeError(IcebergCompatError):
    """A column has a type that this version of Iceberg compatibility does not allow."""

    column: str
    data_type: str

    def explain(self) -> str:
        instead = " IcebergCompatV2 allows arrays and maps." if self.compat_version == 1 else ""
        return (
            f"{self._of}: column {self.column} has the type {self.data_type}, which is not allowed there. "
            f"Use another type for it, or leave it out.{instead}"
        )


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.UNSUPPORTED_TYPE_WIDENING")
class IcebergCompatTypeChangeError(IcebergCompatError):
    """A column was widened in a way that Iceberg V2 does not support."""

    template = (
        "{table} (IcebergCompatV{compat_version}): Iceberg does not support the change of {column} from {old} to "
        "{new}. It supports wider integers, float to double, and decimals with more digits before the point. Add a "
        "column of the new type instead; if the column was changed earlier, ALTER TABLE … DROP FEATURE typeWidening "
        "rewrites its files and removes the change from the metadata."
    )
    column: str
    old: str
    new: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.REPLACE_TABLE_CHANGE_PARTITION_NAMES")
class IcebergCompatPartitioningError(IcebergCompatError):
    """A partitioned table would be replaced by one with other partition columns."""

    template = (
        "{table} (IcebergCompatV{compat_version}): a partitioned table keeps its partition columns: ({old}) cannot "
        "become ({new}). Create a new table, or set delta.enableIcebergCompatV{compat_version} to false first."
    )
    old: tuple[str, ...]
    new: tuple[str, ...]


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.FILES_WITHOUT_NUM_RECORDS")
class IcebergCompatStatisticsError(IcebergCompatError):
    """A commit adds a file without the number of its rows."""

    template = (
        "{table} (IcebergCompatV{compat_version}): every file must have the statistic numRecords, and {path} does not. "
        "Collect statistics for the file before it is committed."
    )
    path: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.CHANGE_VERSION_NEED_REWRITE")
class IcebergCompatFilesError(IcebergCompatError):
    """Existing data files are not written as Iceberg needs them."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {num_files} data files must be rewritten first, such as {example}, "
        "{problem}. REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = {compat_version})) does so and sets "
        "the properties."
    )
    num_files: int
    example: str
    problem: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.REWRITE_DATA_FAILED")
class IcebergCompatRewriteError(IcebergCompatError):
    """REORG … UPGRADE UNIFORM could not rewrite all files, because other writers changed them at every attempt."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {num_files} data files still have to be rewritten; other writers "
        "changed them meanwhile. The files that were rewritten stay: run the same REORG TABLE again to rewrite the "
        "rest and to turn UniForm on."
    )
    num_files: int


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.COMPAT_VERSION_NOT_SUPPORTED")
class IcebergCompatVersionError(IcebergCompatError):
    """REORG … UPGRADE UNIFORM names a version that does not exist, or that anabranch does not support."""

    template = (
        "{table} cannot be upgraded to ICEBERG_COMPAT_VERSION = {compat_version}. anabranch supports 1 and 2; use 2 "
        "unless a reader needs 1."
    )


@delta_error("DELTA_UNIVERSAL_FORMAT_VIOLATION", "KD00E")
class UniFormNeedsCompatError(DeltaAnalysisError, ValueError):
    """Iceberg metadata is enabled for a table without an Iceberg compatibility feature."""

    template = (
        "delta.universalFormat.enabledFormats of {table} names iceberg, and no version of Iceberg compatibility is on. "
        "For a new table set delta.enableIcebergCompatV2 to true as well; for an existing table run REORG TABLE … "
        "APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))."
    )
    table: str


@delta_error("DELTA_UNIVERSAL_FORMAT_NOT_SUPPORTED", "0A000")
class UniFormFormatError(DeltaAnalysisError, ValueError):
    """UniForm is enabled for a format that anabranch does not write."""

    template = (
        "delta.universalFormat.enabledFormats of {table} names {format}, for which anabranch writes no metadata. Use "
        "iceberg, the only format that it writes."
    )
    table: str
    format: str


@delta_error("DELTA_UNIVERSAL_FORMAT_CONVERTER_MISSING", "0A000")
class PyIcebergMissingError(DeltaAnalysisError, ImportError):
    """Iceberg metadata is enabled, and the library that writes it is not installed."""

    template = (
        "{table} has Iceberg metadata, which anabranch writes with the library pyiceberg. Install it with: pip install "
        "'anabranch[iceberg]'"
    )
    table: str


# Errors about GENERATE and the manifests that it writes.


@delta_error("DELTA_MODE_NOT_SUPPORTED", "0AKDC")
class UnknownGenerateModeError(DeltaAnalysisError, ValueError):
    """GENERATE has a mode that it does not support."""

    template = "GENERATE supports {known}, not {mode!r}."
    mode: str
    known: tuple[str, ...]


@delta_error("DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS", "0A000")
class ManifestsHideVectorsError(DeltaAnalysisError):
    """Manifests name whole files, and their readers do not know the deletion vectors of some files."""

    template = (
        "{num_files} files of {table} have deletion vectors, and readers of a manifest would see the deleted rows. Set "
        "'delta.enableDeletionVectors' = 'false', run REORG TABLE … APPLY (PURGE), then run GENERATE again."
    )
    table: str
    num_files: int


@delta_error("DELTA_MANIFEST_LINE_BREAK", "22000")
class ManifestLineError(DeltaAnalysisError):
    """The name of a data file has a line break, and each line of a manifest is the path of a file."""

    template = (
        "The data file {file!r} of {table} has a line break in its name: in a manifest, the rest of the name would be "
        "the path of another file. Nothing was written. Rewrite the file (OPTIMIZE, or UPDATE its rows), and find out "
        "which program named it so."
    )
    table: str
    file: str


@delta_error("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING", "0AKDC")
class ManifestsNeedPlainColumnsError(DeltaAnalysisError):
    """Readers of manifests read data files alone, and do not know the columns of a table with column mapping."""

    template = (
        "{table} has column mapping: its data files have other column names, which readers of a manifest do not know. "
        "Set 'delta.columnMapping.mode' = 'none', which rewrites the files, then run GENERATE again."
    )
    table: str


@delta_error("DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED", "0A000")
class ManifestsExcludeVectorsError(DeltaAnalysisError, ValueError):
    """A table cannot have both generated manifests and deletion vectors, which readers of manifests ignore."""

    template = (
        "{table} cannot have both 'delta.compatibility.symlinkFormatManifest.enabled' and "
        "'delta.enableDeletionVectors' set to true: readers of a manifest would see deleted rows. Set one of them to "
        "false."
    )
    table: str


# Errors about writes that name another format, or none, for a Delta table.


@delta_error("DELTA_ANALYSIS_ERROR")
class OtherFormatError(DeltaAnalysisError):
    """A write names another format than the Delta table that it writes to. See the subclasses."""

    table: str
    table_format: str
    default_format: str
    """The value of `spark.sql.sources.default`."""

    @property
    def _named_format(self) -> str:
        # Spark does not say whether a write names the default format or none.
        default = " (spark.sql.sources.default if the write names none)"
        return f"{self.table_format}{default if self.table_format == self.default_format else ''}"


@delta_error("DELTA_TABLE_FORMAT_MISMATCH", "42K03")
class TableFormatMismatchError(OtherFormatError):
    """`saveAsTable` appends rows of another format to a Delta table."""

    def explain(self) -> str:
        return (
            f"{self.table} is a Delta table, and the write has the format {self._named_format}. Write "
            f'.format("delta"), or set spark.sql.sources.default, which is {self.default_format}, to delta where the '
            "session is created."
        )


@delta_error("UNSUPPORTED_FEATURE.TABLE_OPERATION", "0A000")
class TableFormatReplacedError(OtherFormatError):
    """A statement replaces a Delta table by a table of another format."""

    operation: str

    def explain(self) -> str:
        return (
            f"{self.operation} cannot replace the Delta table {self.table} by a table of the format "
            f'{self._named_format}. To replace it by another Delta table, write USING delta, or .using("delta") after '
            "writeTo. For another format, DROP TABLE first."
        )


@delta_error("SCHEMA_NOT_FOUND", "42704")
class PathFormatError(OtherFormatError):
    """A statement creates a table of another format at the path of a Delta table."""

    operation: str

    def explain(self) -> str:
        return (
            f"{self.operation} names {self.table}, the path of a Delta table, with the format {self._named_format}. "
            'Write .format("delta"), .using("delta") after writeTo, or USING delta.'
        )


@delta_error("INVALID_SCHEMA_OR_RELATION_NAME", "42602")
class CreateAtPathFormatError(PathFormatError):
    """CREATE TABLE at a path names no format, or another one."""
