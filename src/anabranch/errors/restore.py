"""Errors about RESTORE."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError


@dataclasses.dataclass(eq=False, kw_only=True)
class RestoreFilesMissingError(DeltaAnalysisError):
    """Files of the version to be restored are not in the storage any more."""

    condition: ClassVar[str] = "DELTA_RESTORE_FILES_MISSING"
    sqlstate: ClassVar[str] = "55019"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class RestoreBeyondRetentionError(DeltaAnalysisError):
    """The version to be restored is so old that VACUUM may be taking its files at this moment."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
    sqlstate: ClassVar[str] = "0AKDC"
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
