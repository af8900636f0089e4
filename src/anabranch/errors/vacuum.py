"""Errors about VACUUM."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError

HOUR_MS = 60 * 60 * 1000


@dataclasses.dataclass(eq=False, kw_only=True)
class RetentionTooShortError(DeltaError, ValueError):
    """VACUUM was to delete files younger than the table's retention, which somebody may still be using."""

    condition: ClassVar[str] = "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"
    sqlstate: ClassVar[str] = "22003"
    table: str
    given_ms: int
    least_ms: int
    """The table's `delta.deletedFileRetentionDuration`."""
    setting: str
    """What switches the check off."""

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} was to keep files for {hours(self.given_ms)}, and the table keeps them for "
            f"{hours(self.least_ms)} (delta.deletedFileRetentionDuration). Readers of older versions and writers that "
            f"have not committed would lose their files. Use a retention of at least {hours(self.least_ms)}, or lower "
            f"the table's property. If you are sure that nobody reads or writes the table now, set {self.setting} to "
            "false for this session."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class NegativeRetentionError(DeltaError, ValueError):
    """A retention that lies in the future, or is no number."""

    condition: ClassVar[str] = "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"
    sqlstate: ClassVar[str] = "22003"
    table: str
    given: str

    def explain(self) -> str:
        return f"VACUUM of {self.table} cannot keep files for {self.given} hours. Give a number of hours, 0 or more."


@dataclasses.dataclass(eq=False, kw_only=True)
class VacuumLiteError(DeltaError):
    """The log does not tell any more what VACUUM LITE would have to delete."""

    condition: ClassVar[str] = "DELTA_CANNOT_VACUUM_LITE"
    sqlstate: ClassVar[str] = "55000"
    table: str
    earliest_version: int
    """The oldest commit that is left."""
    vacuumed_upto: int | None
    """The last version that an earlier VACUUM has looked at; None where none is on record."""

    def explain(self) -> str:
        known = "none is on record" if self.vacuumed_upto is None else f"the last one reached {self.vacuumed_upto}"
        return (
            f"VACUUM LITE of {self.table} reads from the log which files to delete. The log begins with version "
            f"{self.earliest_version}, and what happened before has not been vacuumed yet ({known}). Run VACUUM "
            f"{self.table} FULL once, which lists the files of the table."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class VacuumModeError(DeltaError, ValueError):
    """Clauses of VACUUM that contradict each other."""

    condition: ClassVar[str] = "DELTA_VACUUM_CLAUSES_CONFLICT"
    sqlstate: ClassVar[str] = "42601"
    table: str
    clauses: str

    def explain(self) -> str:
        return f"VACUUM of {self.table} was given {self.clauses}. Leave one of them out."


@dataclasses.dataclass(eq=False, kw_only=True)
class InventorySchemaError(DeltaError, ValueError):
    """An inventory lacks columns that VACUUM needs, or has them with other types."""

    condition: ClassVar[str] = "DELTA_INVALID_INVENTORY_SCHEMA"
    sqlstate: ClassVar[str] = "42000"
    table: str
    found: str
    expected: str

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} was given an inventory of ({self.found}). It needs the columns ({self.expected}): "
            "the complete path, the size in bytes, whether it is a directory, and milliseconds since 1970."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class VacuumIncompleteError(DeltaError):
    """Some files could not be deleted. All that are needed are there, and VACUUM can be run again."""

    condition: ClassVar[str] = "DELTA_VACUUM_INCOMPLETE"
    sqlstate: ClassVar[str] = "58030"
    table: str
    deleted: int
    planned: int
    path: str
    """The first that could not be deleted."""
    cause: str

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} deleted {self.deleted} of {self.planned} files and then failed, first at "
            f"{self.path}: {self.cause.rstrip('.')}. The table is whole: nothing that it needs was touched. Allow "
            "files to be deleted, then run VACUUM again; it goes on where it stopped."
        )


def hours(duration_ms: int) -> str:
    """A duration as users of VACUUM give it."""
    return f"{duration_ms / HOUR_MS:g} hours"
