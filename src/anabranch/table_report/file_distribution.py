"""The live files by size, age, hidden rows and partition. Files are columns here, never objects."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.data_skipping.partition_columns import partition_texts
from anabranch.snapshot.snapshot import Snapshot
from anabranch.table_report.report_values import Bin, FileFacts, PartitionFacts, Partitions, Totals

Whole = npt.NDArray[np.int64]

_MB: Final = 1_000_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
SIZES: Final[tuple[tuple[str, int], ...]] = (
    ("under 1 MB", 0),
    ("1 to 8 MB", _MB),
    ("8 to 32 MB", 8 * _MB),
    ("32 to 128 MB", 32 * _MB),
    ("128 to 512 MB", 128 * _MB),
    ("512 MB to 1 GB", 512 * _MB),
    ("1 GB or more", 1000 * _MB),
)
"""Bins with their least value in bytes."""
AGES: Final[tuple[tuple[str, int], ...]] = (
    ("under an hour", 0),
    ("under a day", _HOUR_MS),
    ("1 to 7 days", _DAY_MS),
    ("7 to 30 days", 7 * _DAY_MS),
    ("30 to 90 days", 30 * _DAY_MS),
    ("90 to 365 days", 90 * _DAY_MS),
    ("over a year", 365 * _DAY_MS),
)
"""Bins with their least value in milliseconds."""
SHARES: Final[tuple[tuple[str, float], ...]] = (
    ("none", 0),
    ("up to 1 %", 1e-12),
    ("1 to 5 %", 0.01),
    ("5 to 20 %", 0.05),
    ("20 to 50 %", 0.2),
    ("over 50 %", 0.5),
)
"""Bins with their least share of rows."""
PARTITIONS_MAX: Final = 20


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FileMeasures:
    """The measures of the live files, with an entry for each file in every array."""

    snapshot: Snapshot
    sizes: Whole
    rows: Whole
    """Hidden ones included; -1 where the statistics do not count them."""
    hidden: Whole

    @classmethod
    def of(cls, snapshot: Snapshot) -> FileMeasures:
        """Read the measures from the snapshot."""
        columns = snapshot.skipping_columns
        return cls(
            snapshot=snapshot,
            sizes=_whole(snapshot.files.table["size"], 0),
            rows=_whole(columns.num_records(), -1),
            hidden=columns.hidden_rows(),
        )

    @functools.cached_property
    def partition_texts(self) -> tuple[pa.Array, ...]:
        """The values of each partition column, one entry a file; null for null."""
        values = self.snapshot.files.table["partition_values"]
        return tuple(partition_texts(values, name) for name in self.snapshot.physical_partition_columns)

    @functools.cached_property
    def partition_numbers(self) -> Whole:
        """The number of the partition of each file, as the log spells partition values."""
        numbers = np.zeros(len(self.sizes), dtype=np.int64)
        for texts in self.partition_texts:
            codes = texts.dictionary_encode(null_encoding="encode")
            width = max(len(codes.dictionary), 1)
            _, numbers = np.unique(numbers * width + codes.indices.to_numpy(), return_inverse=True)
        return np.asarray(numbers, dtype=np.int64)

    def totals(self) -> Totals:
        """All files, added up."""
        uncounted = int((self.rows < 0).sum())
        return Totals(
            files=len(self.sizes),
            bytes=int(self.sizes.sum()),
            rows=None if uncounted else int(self.rows.sum() - self.hidden.sum()),
            hidden_rows=int(self.hidden.sum()),
            files_with_hidden_rows=int((self.hidden > 0).sum()),
            files_without_row_count=uncounted,
        )


def file_facts(measures: FileMeasures, *, now_ms: int) -> FileFacts:
    """The distribution of the files."""
    ages = now_ms - _whole(measures.snapshot.files.table["modification_time"], now_ms)
    return FileFacts(
        sizes=_bins(SIZES, measures.sizes, measures.sizes),
        ages=_bins(AGES, np.maximum(ages, 0), measures.sizes),
        hidden_shares=_hidden_shares(measures),
        partitions=_partitions(measures) if measures.snapshot.partition_columns else None,
    )


def _hidden_shares(measures: FileMeasures) -> tuple[Bin, ...]:
    if not measures.hidden.any():
        return ()
    counted = (measures.rows >= 0) | (measures.hidden == 0)
    shares = measures.hidden[counted] / np.maximum(measures.rows[counted], 1)
    bins = _bins(SHARES, shares, measures.sizes[counted])
    if counted.all():
        return bins
    return (*bins, Bin(label="uncounted", files=int((~counted).sum()), bytes=int(measures.sizes[~counted].sum())))


def _bins(edges: tuple[tuple[str, float], ...], values: npt.NDArray[np.number], sizes: Whole) -> tuple[Bin, ...]:
    numbers = np.searchsorted(np.array([least for _, least in edges]), values, side="right") - 1
    files = np.bincount(numbers, minlength=len(edges))
    total = _sums(numbers, sizes, len(edges))
    return tuple(
        Bin(label=label, files=int(files[number]), bytes=int(total[number])) for number, (label, _) in enumerate(edges)
    )


def _partitions(measures: FileMeasures) -> Partitions:
    numbers = measures.partition_numbers
    if not len(numbers):
        return Partitions(count=0, files_least=0, files_median=0.0, files_most=0, largest=())
    _, first = np.unique(numbers, return_index=True)
    files = np.bincount(numbers)
    size_bytes, rows, hidden = (
        _sums(numbers, values, len(files)) for values in (measures.sizes, measures.rows, measures.hidden)
    )
    uncounted = np.bincount(numbers[measures.rows < 0], minlength=len(files))
    largest = []
    for number in np.argsort(-size_bytes, kind="stable")[:PARTITIONS_MAX].tolist():
        texts = [column[int(first[number])].as_py() for column in measures.partition_texts]
        largest.append(
            PartitionFacts(
                values=dict(zip(measures.snapshot.partition_columns, texts, strict=True)),
                files=int(files[number]),
                bytes=int(size_bytes[number]),
                rows=None if uncounted[number] else int(rows[number] - hidden[number]),
                hidden_rows=int(hidden[number]),
            )
        )
    return Partitions(
        count=len(files),
        files_least=int(files.min()),
        files_median=float(np.median(files)),
        files_most=int(files.max()),
        largest=tuple(largest),
    )


def _sums(numbers: npt.NDArray[np.integer], values: Whole, length: int) -> Whole:
    """The sum of the values with each number. `bincount` with weights would add in floating point."""
    sums = np.zeros(length, dtype=np.int64)
    np.add.at(sums, numbers, values)
    return sums


def _whole(column: pa.ChunkedArray, missing: int) -> Whole:
    return np.asarray(pc.fill_null(column, missing).to_numpy(), dtype=np.int64)
