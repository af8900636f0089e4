"""Errors about GENERATE and the manifests that it writes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError


@dataclasses.dataclass(eq=False, kw_only=True)
class UnknownGenerateModeError(DeltaAnalysisError, ValueError):
    """GENERATE was asked for something that it does not make."""

    condition: ClassVar[str] = "DELTA_MODE_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0AKDC"
    mode: str
    known: tuple[str, ...]

    def explain(self) -> str:
        return f"GENERATE makes {', '.join(self.known)}, and not {self.mode!r}."


@dataclasses.dataclass(eq=False, kw_only=True)
class ManifestsHideVectorsError(DeltaAnalysisError):
    """Manifests name whole files, and rows of some files are deleted by vectors that their readers do not know."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"
    sqlstate: ClassVar[str] = "0A000"
    table: str
    num_files: int

    def explain(self) -> str:
        return (
            f"{self.num_files} files of {self.table} have deletion vectors, and who reads a manifest would see the "
            "deleted rows. Set 'delta.enableDeletionVectors' = 'false', then REORG TABLE … APPLY (PURGE), and do it "
            "again."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ManifestLineError(DeltaAnalysisError):
    """The name of a data file holds a line break, and in a manifest every line is another file."""

    condition: ClassVar[str] = "DELTA_MANIFEST_LINE_BREAK"
    sqlstate: ClassVar[str] = "22000"
    table: str
    file: str

    def explain(self) -> str:
        return (
            f"The data file {self.file!r} of {self.table} has a line break in its name: in a manifest, what follows "
            "would be another file, anywhere. Nothing was written. Rewrite the file (OPTIMIZE, or UPDATE its rows), "
            "and find out who named it so."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ManifestsNeedPlainColumnsError(DeltaAnalysisError):
    """Manifests name files, and readers of files do not know the columns of a table with column mapping."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"
    sqlstate: ClassVar[str] = "0AKDC"
    table: str

    def explain(self) -> str:
        return (
            f"{self.table} has column mapping: its files name columns in their own way, which who reads a manifest "
            "does not know. Set 'delta.columnMapping.mode' = 'none', which writes the files anew, and do it again."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ManifestsExcludeVectorsError(DeltaAnalysisError, ValueError):
    """A table was to keep manifests up to date and to delete rows by vectors, which these cannot tell."""

    condition: ClassVar[str] = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"
    sqlstate: ClassVar[str] = "0A000"
    table: str

    def explain(self) -> str:
        return (
            f"{self.table} cannot have both 'delta.compatibility.symlinkFormatManifest.enabled' and "
            "'delta.enableDeletionVectors' set to true: who reads a manifest would see deleted rows. Set one to false."
        )
