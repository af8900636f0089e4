"""Tables on disk for Iceberg's readers, written without Spark."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from anabranch.cli.rows.arrow_conversion import by_position, fit
from anabranch.cli.rows.arrow_types import file_schema, row_schema
from anabranch.clock import SystemClock
from anabranch.commands.definition.table_definition import TableDefinition, altered_table, define_table
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import partition_path
from anabranch.protocol.partition_values import serialize_partition_value
from anabranch.schema.column_mapping import physical_name, strip_mapping
from anabranch.spark.engine import WriteRequest
from anabranch.spark.write.file_schema import stored_fields
from anabranch.spark.write.written_files import ManifestEntry, completed
from anabranch.storage.local.local_store import LocalStore
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.rows.deletion_vector_actions import removal

UNIFORM = {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"}


class UniformTable:
    """A table of its own folder, with a writer that needs no Spark, and what pyiceberg sees of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(str(root))
        self.random = random.Random(7)
        self.table = DeltaLog(self.store, clock=SystemClock(), random=self.random)

    def create(
        self, schema: StructType, *, partitioned_by: Sequence[str] = (), properties: Mapping[str, str] = UNIFORM
    ) -> None:
        defined = define_table(
            TableDefinition(schema=schema, partition_columns=tuple(partitioned_by), properties=properties),
            label="t",
            session_settings={},
            now_ms=1,
            source=self.random,
        )
        self.commit([defined.protocol, defined.metadata], "CREATE TABLE")

    def alter(self, **facts: Any) -> None:
        snapshot = self.snapshot
        defined = altered_table(snapshot.metadata, snapshot.protocol, label="t", source=self.random, **facts)
        changed = [] if defined.protocol == snapshot.protocol else [defined.protocol]
        self.commit([*changed, defined.metadata], "ALTER TABLE")

    def append(self, *rows: Mapping[str, Any]) -> list[AddFile]:
        adds = self.written(*rows)
        self.commit(adds, "WRITE")
        return adds

    def replace(self, removed: Sequence[AddFile], *rows: Mapping[str, Any], data_change: bool = True) -> list[AddFile]:
        """Remove files and write rows, as DELETE, UPDATE and OPTIMIZE do without deletion vectors."""
        gone = [removal(add, removed_at_ms=1, data_change=data_change) for add in removed]
        adds = [msgspec.structs.replace(add, data_change=data_change) for add in self.written(*rows)] if rows else []
        self.commit([*gone, *adds], "UPDATE" if data_change else "OPTIMIZE")
        return adds

    def written(self, *rows: Mapping[str, Any]) -> list[AddFile]:
        snapshot = self.snapshot
        request: Any = WriteRequest(
            table_root=str(self.root),
            frame=None,  # the files are written here
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            properties=snapshot.properties,
        )
        mode, by = snapshot.column_mapping_mode, snapshot.partition_columns
        fields = stored_fields(snapshot.schema, by, snapshot.properties)
        stored = file_schema(fields, mode)
        partitions: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            # As in Spark's writer, an empty text is no partition value.
            stored_row = {name: None if name in by and value == "" else value for name, value in row.items()}
            values = {
                physical_name(snapshot.schema[name], mode): serialize_partition_value(
                    stored_row[name], snapshot.schema[name].dataType
                )
                for name in by
            }
            partitions.setdefault(partition_path(values), []).append(stored_row)
        entries = []
        for folder, together in partitions.items():
            batch = pa.RecordBatch.from_pylist(together, schema=row_schema(strip_mapping(snapshot.schema)))
            columns = [
                fit(batch.column(field.name), wanted.type, by_position)
                for field, wanted in zip(fields, stored, strict=True)
            ]
            path = self.root / folder / f"part-{uuid.UUID(int=self.random.getrandbits(128))}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_arrays(columns, schema=stored), path, store_schema=False)
            entries.append(ManifestEntry(url=f"file:{quote(str(path))}", size_bytes=path.stat().st_size, modified_ms=1))
        return list(completed(request, entries, self.store.open).adds)

    def commit(self, actions: Sequence[Any], operation: str) -> None:
        self.table.begin(Operation(name=operation, parameters={})).commit(list(actions))

    @property
    def snapshot(self) -> Any:
        return self.table.snapshots.latest()

    @property
    def hint(self) -> int:
        return int((self.root / "metadata" / "version-hint.text").read_text())

    def iceberg(self, version: int | None = None) -> Any:
        """The table as pyiceberg opens it."""
        from pyiceberg.table import StaticTable

        number = self.hint if version is None else version
        return StaticTable.from_metadata(f"{self.root}/metadata/v{number}.metadata.json")

    def rows(self, **scan: Any) -> list[dict[str, Any]]:
        """What pyiceberg reads."""
        return self.iceberg().scan(**scan).to_arrow().to_pylist()


@pytest.fixture
def uniform(tmp_path: Path) -> UniformTable:
    return UniformTable(tmp_path / "t")
