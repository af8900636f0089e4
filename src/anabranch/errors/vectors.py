"""What can be wrong with a deletion vector. A vector in doubt is an error, never "no rows hidden"."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorError(DeltaError):
    """The hidden rows of a file cannot be told, so the file cannot be read."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_INVALID"

    table: str
    vector: str
    """The vector's unique id, shortened."""
    reason: str
    """What is wrong, as a clause."""

    def explain(self) -> str:
        return (
            f"The deletion vector {self.vector} of {self.table} cannot be used: {self.reason}. "
            "Reading its data file without it would bring deleted rows back. Restore the vector from a backup, "
            "or the table to a version before it."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorDescriptorError(DeletionVectorError):
    """The log does not say properly where the vector is."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_DESCRIPTOR_INVALID"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorFormatError(DeletionVectorError):
    """The bytes are not a bitmap in the format of the protocol."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_MALFORMED"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorChecksumError(DeletionVectorError):
    """The bytes are not those that were written."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorSizeError(DeletionVectorError):
    """Log and vector differ about its size."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_SIZE_MISMATCH"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorCardinalityError(DeletionVectorError):
    """Log and vector differ about how many rows it hides."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"


@dataclasses.dataclass(eq=False, kw_only=True)
class DeletionVectorRowIndexError(DeletionVectorError):
    """The vector hides a row that the file does not have."""

    condition: ClassVar[str] = "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"
