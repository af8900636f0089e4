"""Counts over files that a version checksum notes. They add up, so that a commit changes them by its own files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.histograms import FILE_SIZE_BOUNDARIES, FileSizeHistogram, deleted_record_counts, file_size_histogram

COLUMNS = ("size", "deletion_vector")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """Facts of some files, as sums."""

    size_bytes: int
    file_counts: np.ndarray
    """By bin of `FILE_SIZE_BOUNDARIES`."""
    total_bytes: np.ndarray
    deleted_records: int
    deletion_vectors: int
    deleted_counts: np.ndarray
    """By bin of the histogram of deleted records."""

    @classmethod
    def of_table(cls, table: pa.Table) -> FileSummary:
        """Of files with at least the columns `COLUMNS`."""
        sizes = pc.fill_null(table["size"], 0).to_numpy()
        histogram = file_size_histogram(sizes)
        vectors = table["deletion_vector"]
        deletion_vectors = len(vectors) - vectors.null_count
        if deletion_vectors:
            hidden = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_numpy()
        else:
            hidden = np.zeros(len(vectors), dtype=np.int64)
        return cls(
            size_bytes=int(sizes.sum()),
            file_counts=np.array(histogram.file_counts, dtype=np.int64),
            total_bytes=np.array(histogram.total_bytes, dtype=np.int64),
            deleted_records=int(hidden.sum()),
            deletion_vectors=deletion_vectors,
            deleted_counts=np.array(deleted_record_counts(hidden), dtype=np.int64),
        )

    def __add__(self, other: FileSummary) -> FileSummary:
        return self._combined(other, sign=1)

    def __sub__(self, other: FileSummary) -> FileSummary:
        return self._combined(other, sign=-1)

    @property
    def file_sizes(self) -> FileSizeHistogram:
        return FileSizeHistogram(
            boundaries=FILE_SIZE_BOUNDARIES,
            file_counts=tuple(self.file_counts.tolist()),
            total_bytes=tuple(self.total_bytes.tolist()),
        )

    def _combined(self, other: FileSummary, *, sign: int) -> FileSummary:
        return FileSummary(
            size_bytes=self.size_bytes + sign * other.size_bytes,
            file_counts=self.file_counts + sign * other.file_counts,
            total_bytes=self.total_bytes + sign * other.total_bytes,
            deleted_records=self.deleted_records + sign * other.deleted_records,
            deletion_vectors=self.deletion_vectors + sign * other.deletion_vectors,
            deleted_counts=self.deleted_counts + sign * other.deleted_counts,
        )
