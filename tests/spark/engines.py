"""A table without a log, for tests of what an engine reads and writes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import encode_path
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, assign_ids_and_names
from anabranch.spark.engine import ScanRequest, WriteRequest, WrittenFiles
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.storage.local.local_store import LocalStore


@dataclasses.dataclass
class EngineTable:
    """Files in a folder, and what a snapshot would say of them."""

    spark: SparkSession
    engine: NativeEngine
    root: str
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    mode: ColumnMappingMode = ColumnMappingMode.NONE
    configuration: Mapping[str, str] = dataclasses.field(default_factory=dict)
    adds: list[AddFile] = dataclasses.field(default_factory=list)
    version: int | None = 7

    def write(self, frame: DataFrame, **more: Any) -> WrittenFiles:
        """Write rows and take the files into the table."""
        os.makedirs(self.root, exist_ok=True)
        mode = {} if self.mode is ColumnMappingMode.NONE else {"delta.columnMapping.mode": self.mode.value}
        written = self.engine.write(
            WriteRequest(
                table_root=self.root,
                frame=frame,
                schema=self.schema,
                partition_columns=self.partition_columns,
                column_mapping=self.mode,
                properties=TableProperties({**mode, **self.configuration}),
                **more,
            )
        )
        self.adds += written.adds
        return written

    def write_file(self, path: str, rows: pa.Table, partition_values: Mapping[str, str | None] | None = None) -> str:
        """Writes a file as another program would, at a plain path, and adds it to the table."""
        target = Path(self.root) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target)
        self.adds.append(
            AddFile(
                path=encode_path(path),
                partition_values=dict(partition_values or {}),
                size=target.stat().st_size,
                modification_time=target.stat().st_mtime_ns // 1_000_000,
                data_change=True,
            )
        )
        return path

    def hide(self, file: int, positions: Sequence[int]) -> None:
        """Give a file a deletion vector."""
        add = self.adds[file]
        fields = {name: getattr(add, name) for name in add.__struct_fields__}
        self.adds[file] = AddFile(**{**fields, "deletion_vector": inline_descriptor(BitMap64(positions))})

    def scan(self, *, with_positions: bool = False, schema: StructType | None = None) -> DataFrame:
        os.makedirs(self.root, exist_ok=True)
        files = table_of_adds(self.adds)
        store = LocalStore(self.root)
        return self.engine.scan(
            ScanRequest(
                table_root=self.root,
                version=self.version,
                schema=schema or self.schema,
                partition_columns=self.partition_columns,
                column_mapping=self.mode,
                files=files,
                load_vectors=functools.partial(load_vectors, store),
                with_positions=with_positions,
            )
        )

    def rows(self, frame: DataFrame | None = None) -> list[tuple[Any, ...]]:
        """Rows in an order that does not depend on files."""
        return sorted((tuple(row) for row in (self.scan() if frame is None else frame).collect()), key=repr)

    def stats(self) -> list[dict[str, Any]]:
        return [json.loads(add.stats or "{}") for add in self.adds]


def struct(*fields: StructField | tuple[str, Any]) -> StructType:
    return StructType([field if isinstance(field, StructField) else StructField(*field) for field in fields])


def mapped(schema: StructType) -> StructType:
    """The schema with ids and physical names, as in a new table with column mapping."""
    names = (f"col-{i:04d}" for i in itertools.count())
    return assign_ids_and_names(schema, 0, keep_names=False, new_name=lambda: next(names))[0]
