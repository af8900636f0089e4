"""Files for one task of a Python worker, in a form that travels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from anabranch.deletion_vectors.reading import load_vector
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.spark.file_listing import absolute_names
from anabranch.spark.portable.data_file_reading import DataFile
from anabranch.storage.log_store import LogStore
from anabranch.transaction.row_ids import row_count

PARTITION_BYTES = 128 << 20
"""What one task reads, about; as `spark.sql.files.maxPartitionBytes`, which workers do not see."""
OPEN_COST_BYTES = 4 << 20
"""What opening a file counts for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiveFile:
    """A data file and its hidden rows."""

    file: DataFile
    vector: DeletionVectorDescriptor | None
    num_rows: int | None = None
    """What the log says; it bounds the vector."""

    def hidden(self, store: LogStore) -> BitMap64 | None:
        """The positions of the hidden rows; None where there are none. Raises `DeletionVectorError`, `StorageError`."""
        return None if self.vector is None else load_vector(store, self.vector, num_rows=self.num_rows)


def file_batches(files: pa.Table, *, table_root: str, places: Sequence[str]) -> Iterator[list[LiveFile]]:
    """Files in order, cut where the bytes of a task are reached.

    `files` has at least `path`, `partition_values`, `size`, `deletion_vector` and `stats` of `LIVE_FILE_SCHEMA`;
    `places` are those outside the table where it may have files.
    """
    names = absolute_names(files["path"], table_root=table_root, allowed_prefixes=places)
    weights = pc.add(pc.fill_null(files["size"], 0), OPEN_COST_BYTES).to_numpy()
    tasks = (np.cumsum(weights) - 1) // PARTITION_BYTES
    batch: list[LiveFile] = []
    told = (files[name].to_pylist() for name in ("partition_values", "deletion_vector", "stats"))
    for i, (name, values, vector, stats) in enumerate(zip(names.to_pylist(), *told, strict=True)):
        if i and tasks[i] != tasks[i - 1]:
            yield batch
            batch = []
        batch.append(_live_file(name, dict(values or ()), vector, stats))
    if batch:
        yield batch


def _live_file(
    name: str, values: Mapping[str, str | None], vector: Mapping[str, Any] | None, stats: str | None
) -> LiveFile:
    return LiveFile(
        file=DataFile(name=name, partition_values=values),
        vector=None if vector is None else DeletionVectorDescriptor(**vector),
        num_rows=None if vector is None else row_count(stats),
    )
