"""Errors about other formats: tables for other engines (Iceberg, UniForm, manifests), and writes that name no Delta."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaUnsupportedOperationError, delta_error

# Errors about tables that Iceberg can read: IcebergCompatV1 and V2, and UniForm.


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION", "KD00E")
class IcebergCompatError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """A table that keeps to an Iceberg compatibility feature would break one of its rules."""

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
            f"{self._of}: only one version of Iceberg compatibility may be active. Set {others} to false, or go from "
            f"one version to another by REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = n))."
        )


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.WRONG_REQUIRED_TABLE_PROPERTY")
class IcebergCompatColumnMappingError(IcebergCompatError):
    """The table has no column mapping, by whose ids Iceberg finds columns."""

    template = (
        "{table} (IcebergCompatV{compat_version}): column mapping must be name or id, and delta.columnMapping.mode is "
        "{mode}. For a table that exists, REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = "
        "{compat_version})) turns it on and writes files again where that is needed; to do without Iceberg, set "
        "delta.enableIcebergCompatV{compat_version} to false first."
    )
    mode: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_SHOULD_BE_DISABLED")
class IcebergCompatVectorsError(IcebergCompatError):
    """Deletion vectors would be active, which Iceberg V2 readers do not know."""

    feature_only: bool = False
    """The property is off already, and IcebergCompatV1 minds the feature itself."""

    def explain(self) -> str:
        if self.feature_only:
            return (
                f"{self._of}: the table feature deletionVectors must not be in the protocol. "
                "ALTER TABLE … DROP FEATURE deletionVectors removes it, or use IcebergCompatV2, which allows it unused."
            )
        return (
            f"{self._of}: deletion vectors must be off. Set delta.enableDeletionVectors to false; on a table that has "
            "some, REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = "
            f"{self.compat_version})) turns them off and writes their files again."
        )


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.DELETION_VECTORS_NOT_PURGED")
class IcebergCompatFileVectorError(IcebergCompatError):
    """A commit adds a file with a deletion vector."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {path} would hide rows by a deletion vector. Write the rows that "
        "stay to a new file."
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
    """A column was widened in a way that Iceberg V2 cannot follow."""

    template = (
        "{table} (IcebergCompatV{compat_version}): Iceberg cannot follow the change of {column} from {old} to {new}. "
        "It knows wider integers, float to double, and decimals of more digits before the point. Add a column of the "
        "new type instead; where the change lies in the past, ALTER TABLE … DROP FEATURE typeWidening writes its files "
        "again and forgets it."
    )
    column: str
    old: str
    new: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.REPLACE_TABLE_CHANGE_PARTITION_NAMES")
class IcebergCompatPartitioningError(IcebergCompatError):
    """A partitioned table would be replaced by one with other partition columns."""

    template = (
        "{table} (IcebergCompatV{compat_version}): a partitioned table keeps its partition columns: ({old}) cannot "
        "become ({new}). Make a new table, or set delta.enableIcebergCompatV{compat_version} to false first."
    )
    old: tuple[str, ...]
    new: tuple[str, ...]


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.FILES_WITHOUT_NUM_RECORDS")
class IcebergCompatStatisticsError(IcebergCompatError):
    """A commit adds a file without saying how many rows it has."""

    template = (
        "{table} (IcebergCompatV{compat_version}): every file must come with the statistic numRecords, and {path} does "
        "not."
    )
    path: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.CHANGE_VERSION_NEED_REWRITE")
class IcebergCompatFilesError(IcebergCompatError):
    """Data files that are there were not written as Iceberg needs them."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {num_files} data files must be written again first, such as "
        "{example}, {problem}. REORG TABLE … APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = {compat_version})) does "
        "so and sets the properties."
    )
    num_files: int
    example: str
    problem: str


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.REWRITE_DATA_FAILED")
class IcebergCompatRewriteError(IcebergCompatError):
    """REORG … UPGRADE UNIFORM could not write all files again, because other writers came first each time."""

    template = (
        "{table} (IcebergCompatV{compat_version}): {num_files} data files are still to be written again; other writers "
        "changed them meanwhile. What was done stays: run the same REORG TABLE again to do the rest and to turn "
        "UniForm on."
    )
    num_files: int


@delta_error("DELTA_ICEBERG_COMPAT_VIOLATION.COMPAT_VERSION_NOT_SUPPORTED")
class IcebergCompatVersionError(IcebergCompatError):
    """REORG … UPGRADE UNIFORM names a version that there is not, or that anabranch does not have."""

    template = (
        "{table} cannot be upgraded to ICEBERG_COMPAT_VERSION = {compat_version}. Versions 1 and 2 are there; take 2 "
        "unless a reader needs 1."
    )


@delta_error("DELTA_UNIVERSAL_FORMAT_VIOLATION", "KD00E")
class UniFormNeedsCompatError(DeltaAnalysisError, ValueError):
    """Iceberg metadata was asked for on a table that does not keep to a version of Iceberg compatibility."""

    template = (
        "delta.universalFormat.enabledFormats of {table} names iceberg, and no version of Iceberg compatibility is on. "
        "For a new table set delta.enableIcebergCompatV2 to true as well; for one that exists run REORG TABLE … APPLY "
        "(UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))."
    )
    table: str


@delta_error("DELTA_UNIVERSAL_FORMAT_NOT_SUPPORTED", "0A000")
class UniFormFormatError(DeltaAnalysisError, ValueError):
    """UniForm was asked for a format that anabranch does not write."""

    template = (
        "delta.universalFormat.enabledFormats of {table} names {format}, for which anabranch writes no metadata. It "
        "writes iceberg."
    )
    table: str
    format: str


@delta_error("DELTA_UNIVERSAL_FORMAT_CONVERTER_MISSING", "0A000")
class PyIcebergMissingError(DeltaAnalysisError, ImportError):
    """Iceberg metadata was asked for, and the library that writes it is not installed."""

    template = (
        "{table} is to be written for Iceberg as well, which needs the library pyiceberg. Install it with: pip install "
        "'anabranch[iceberg]'"
    )
    table: str


# Errors about GENERATE and the manifests that it writes.


@delta_error("DELTA_MODE_NOT_SUPPORTED", "0AKDC")
class UnknownGenerateModeError(DeltaAnalysisError, ValueError):
    """GENERATE was asked for something that it does not make."""

    template = "GENERATE makes {known}, and not {mode!r}."
    mode: str
    known: tuple[str, ...]


@delta_error("DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS", "0A000")
class ManifestsHideVectorsError(DeltaAnalysisError):
    """Manifests name whole files, and rows of some files are deleted by vectors that their readers do not know."""

    template = (
        "{num_files} files of {table} have deletion vectors, and who reads a manifest would see the deleted rows. Set "
        "'delta.enableDeletionVectors' = 'false', then REORG TABLE … APPLY (PURGE), and do it again."
    )
    table: str
    num_files: int


@delta_error("DELTA_MANIFEST_LINE_BREAK", "22000")
class ManifestLineError(DeltaAnalysisError):
    """The name of a data file holds a line break, and in a manifest every line is another file."""

    template = (
        "The data file {file!r} of {table} has a line break in its name: in a manifest, what follows would be another "
        "file, anywhere. Nothing was written. Rewrite the file (OPTIMIZE, or UPDATE its rows), and find out who named "
        "it so."
    )
    table: str
    file: str


@delta_error("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING", "0AKDC")
class ManifestsNeedPlainColumnsError(DeltaAnalysisError):
    """Manifests name files, and readers of files do not know the columns of a table with column mapping."""

    template = (
        "{table} has column mapping: its files name columns in their own way, which who reads a manifest does not "
        "know. Set 'delta.columnMapping.mode' = 'none', which writes the files anew, and do it again."
    )
    table: str


@delta_error("DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED", "0A000")
class ManifestsExcludeVectorsError(DeltaAnalysisError, ValueError):
    """A table was to keep manifests up to date and to delete rows by vectors, which these cannot tell."""

    template = (
        "{table} cannot have both 'delta.compatibility.symlinkFormatManifest.enabled' and "
        "'delta.enableDeletionVectors' set to true: who reads a manifest would see deleted rows. Set one to false."
    )
    table: str


# Errors about writes that name another format, or none, where a Delta table is.


def _named_format(table_format: str, default: str) -> str:
    """Spark does not say whether a write names the default format or none."""
    return f"{table_format} (spark.sql.sources.default for who names none)" if table_format == default else table_format


@delta_error("DELTA_TABLE_FORMAT_MISMATCH", "42K03")
class TableFormatMismatchError(DeltaAnalysisError):
    """`saveAsTable` was to append rows of another format to a Delta table."""

    table: str
    table_format: str
    default_format: str

    def explain(self) -> str:
        named = _named_format(self.table_format, self.default_format)
        return (
            f'{self.table} is a Delta table, and the write has the format {named}. Write .format("delta"), or set '
            f"spark.sql.sources.default, which is {self.default_format}, to delta where the session is made."
        )


@delta_error("UNSUPPORTED_FEATURE.TABLE_OPERATION", "0A000")
class TableFormatReplacedError(DeltaAnalysisError):
    """A statement was to replace a Delta table by a table of another format."""

    table: str
    operation: str
    table_format: str
    default_format: str

    def explain(self) -> str:
        return (
            f"{self.operation} cannot make {self.table}, a Delta table, one of the format "
            f"{_named_format(self.table_format, self.default_format)}. To replace it by another Delta table, say USING "
            'delta, or .using("delta") behind writeTo. To have another format, DROP TABLE first.'
        )


@delta_error("SCHEMA_NOT_FOUND", "42704")
class PathFormatError(DeltaAnalysisError):
    """A table at the path of a Delta table was to have another format."""

    table: str
    operation: str
    table_format: str
    default_format: str

    def explain(self) -> str:
        return (
            f"{self.operation} names {self.table}, the path of a Delta table, with the format "
            f'{_named_format(self.table_format, self.default_format)}. Say .format("delta"), .using("delta") behind '
            "writeTo, or USING delta."
        )


@delta_error("INVALID_SCHEMA_OR_RELATION_NAME", "42602")
class CreateAtPathFormatError(PathFormatError):
    """CREATE TABLE at a path names no format, or another one."""
