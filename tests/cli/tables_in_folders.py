"""Real tables, with data files, made without Spark."""

from __future__ import annotations

import dataclasses
import json
import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from anabranch.clock import SystemClock
from anabranch.log.checksum import write_checksum
from anabranch.predicates.expressions import Unknown
from anabranch.protocol.actions import PARQUET, Action, AddFile, Metadata, Protocol, RemoveFile
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.storage.local.local_store import LocalStore
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from deletion_vectors.vector_files import encode_file

SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])
SOME_ROWS = Unknown("a condition on rows")
FEATURES = ["deletionVectors", "appendOnly"]


@dataclasses.dataclass(kw_only=True)
class TableInFolder:
    """A table, and the changes that tests make to it."""

    path: Path
    store: LocalStore
    table: DeltaLog

    @classmethod
    def empty(cls, path: Path) -> TableInFolder:
        path.mkdir(parents=True)
        store = LocalStore(str(path))
        made = cls(path=path, store=store, table=DeltaLog(store, SystemClock(), random.Random(1)))
        protocol = Protocol(
            min_reader_version=3, min_writer_version=7, reader_features=FEATURES[:1], writer_features=FEATURES
        )
        metadata = Metadata(
            id="0b1f4b0c-3c9a-4d0f-9a39-2f8c3c6f7b10",
            format=PARQUET,
            schema_string=SCHEMA.json(),
            partition_columns=[],
            configuration={"delta.enableDeletionVectors": "true"},
            created_time=1_700_000_000_000,
        )
        made.commit([protocol, metadata], name="CREATE TABLE")
        return made

    @classmethod
    def with_hidden_rows(cls, path: Path) -> TableInFolder:
        made = cls.empty(path)
        made.append("a.parquet", range(10))
        second = made.append("b.parquet", range(10, 20))
        made.hide(second, [0, 3])
        return made

    def commit(self, actions: Sequence[Action], *, name: str, **parameters: object) -> CommittedVersion:
        metrics = {"numOutputRows": 10} if name == "WRITE" else None
        return self.table.begin(self.operation(name, **parameters)).commit(actions, metrics=metrics)

    def operation(self, name: str, **parameters: object) -> Operation:
        return Operation(name=name, parameters=parameters)

    def append(self, name: str, ids: range) -> AddFile:
        """Commit a file of those rows."""
        add = self.file(name, ids)
        self.commit([add], name="WRITE", mode="Append")
        return add

    def file(self, name: str, ids: range) -> AddFile:
        """A file of those rows, with statistics, for a commit."""
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {number}" for number in ids]})
        pq.write_table(rows, self.path / name)
        stats = {
            "numRecords": len(ids),
            "minValues": {"id": min(ids), "name": f"row {min(ids)}"},
            "maxValues": {"id": max(ids), "name": f"row {max(ids)}"},
            "nullCount": {"id": 0, "name": 0},
        }
        return AddFile(
            path=name,
            partition_values={},
            size=(self.path / name).stat().st_size,
            modification_time=1,
            data_change=True,
            stats=json.dumps(stats),
        )

    def change_metadata(self, *, add_column: str, properties: dict[str, str]) -> None:
        """Add a column of whole numbers and set these properties."""
        current = self.table.snapshots.latest().metadata
        schema = StructType([*SCHEMA.fields, StructField(add_column, IntegerType())])
        changed = msgspec.structs.replace(current, schema_string=schema.json(), configuration=properties)
        self.commit([changed], name="SET TBLPROPERTIES")

    def hide(self, file: AddFile, positions: Sequence[int]) -> AddFile:
        """Delete rows by a deletion vector in a file of its own."""
        vectors = encode_file([BitMap64(positions)], file_id=uuid.uuid4())
        self.store.put(vectors.path, vectors.data)
        remove = RemoveFile(path=file.path, deletion_timestamp=1, data_change=True, size=file.size)
        hidden = msgspec.structs.replace(file, deletion_vector=vectors.descriptors[0])
        transaction = self.table.begin(Operation(name="DELETE", parameters={"predicate": ["id IN (10, 13)"]}))
        transaction.record_whole_table()
        transaction.commit([remove, hidden], metrics={"numDeletedRows": len(positions)})
        return hidden

    def deleting(self, path: str, position: int) -> Callable[[], CommittedVersion]:
        """A DELETE of one row of a file, begun at the newest version. The function that is returned commits it."""
        transaction = self.table.begin(Operation(name="DELETE"))
        assert transaction.snapshot is not None
        (file,) = transaction.snapshot.files.at_path(path)
        rows = BitMap64([position])
        transaction.record_scan(
            SOME_ROWS, rows={file.key: rows}, reevaluate=lambda conditions: [BitMap64() for _ in conditions]
        )
        actions = hide_rows([RowsOfFile(file=file, positions=rows)], transaction.vectors, removed_at_ms=1)
        return lambda: transaction.commit(actions, deleted_rows={file.key: rows})

    def checkpoint(self) -> Path:
        """Write the checkpoint of the newest version."""
        snapshot = self.table.snapshots.latest()
        write_checkpoint(self.store, snapshot, clock=SystemClock(), new_uuid=lambda: str(uuid.uuid4()))
        return self.log_file(f"{snapshot.version:020d}.checkpoint.parquet")

    def checksum(self) -> Path:
        """Write the checksum of the newest version."""
        snapshot = self.table.snapshots.latest()
        write_checksum(self.store, snapshot.version, snapshot.checksum())
        return self.log_file(f"{snapshot.version:020d}.crc")

    def log_file(self, name: str) -> Path:
        return self.path / "_delta_log" / name

    def commit_file(self, version: int) -> Path:
        return self.log_file(f"{version:020d}.json")
