"""Tables without a log, for tests of the native engine: files written and scanned as one likes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.log.file_columns import FileMask, table_of_adds
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import ScanRequest, WriteRequest, WrittenFiles
from anabranch.spark.native.native_engine import NativeEngine


@dataclasses.dataclass
class Files:
    """Data files and what a scan of them needs."""

    engine: NativeEngine
    root: Path
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    mode: ColumnMappingMode = ColumnMappingMode.NONE
    adds: list[AddFile] = dataclasses.field(default_factory=list)
    vectors: dict[str, BitMap64] = dataclasses.field(default_factory=dict)
    predicates: list[Predicate] = dataclasses.field(default_factory=list)
    loaded: list[str] = dataclasses.field(default_factory=list)
    mask: Callable[[Predicate], FileMask] | None = None

    def write(self, frame: DataFrame, properties: Mapping[str, str] | None = None, **options: Any) -> WrittenFiles:
        """Write rows and add the files."""
        written = self.engine.write(
            WriteRequest(
                table_root=str(self.root),
                frame=frame,
                schema=self.schema,
                partition_columns=self.partition_columns,
                column_mapping=self.mode,
                properties=TableProperties({"delta.columnMapping.mode": self.mode.value, **(properties or {})}),
                **options,
            )
        )
        self.adds += written.adds
        return written

    def hide(self, file: int, rows: Iterable[int]) -> None:
        """Give a file a deletion vector."""
        positions = BitMap64(rows)
        name = f"vector-{file}-{len(self.vectors)}"
        self.vectors[name] = positions
        descriptor = DeletionVectorDescriptor(
            storage_type="u", path_or_inline_dv=name, offset=1, size_in_bytes=34, cardinality=len(positions)
        )
        self.adds[file] = msgspec.structs.replace(self.adds[file], deletion_vector=descriptor)

    def request(self, **changes: Any) -> ScanRequest:
        adds = self.adds

        def prune(predicate: Predicate) -> FileMask:
            self.predicates.append(predicate)
            return np.ones(len(adds), dtype=np.bool_) if self.mask is None else self.mask(predicate)

        def load(descriptors: Sequence[DeletionVectorDescriptor], **_: object) -> list[BitMap64]:
            names = [descriptor.path_or_inline_dv for descriptor in descriptors]
            self.loaded += names
            return [self.vectors[name] for name in names]

        request = ScanRequest(
            table_root=str(self.root),
            version=3,
            schema=self.schema,
            partition_columns=self.partition_columns,
            column_mapping=self.mode,
            files=table_of_adds(adds),
            load_vectors=load,
            prune=prune,
        )
        return dataclasses.replace(request, **changes)

    def scan(self, **changes: Any) -> DataFrame:
        return self.engine.scan(self.request(**changes))


def mapped(schema: StructType, prefix: str = "col-") -> StructType:
    """`schema` with ids and physical names at every level."""
    counter = iter(range(1, 1000))

    def map_type(data_type: Any) -> Any:
        if isinstance(data_type, StructType):
            return StructType([map_field(field) for field in data_type.fields])
        copied = type(data_type).fromJson(data_type.jsonValue()) if hasattr(type(data_type), "fromJson") else data_type
        for attribute in ("elementType", "keyType", "valueType"):
            if hasattr(copied, attribute):
                setattr(copied, attribute, map_type(getattr(copied, attribute)))
        return copied

    def map_field(field: StructField) -> StructField:
        number = next(counter)
        metadata = {
            **field.metadata,
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"{prefix}{number}",
        }
        return StructField(field.name, map_type(field.dataType), field.nullable, metadata)

    return map_type(schema)


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as plain tuples, sorted by their text."""
    picked: Sequence[Any] = frame.select(*columns).collect() if columns else frame.collect()
    return sorted((tuple(row) for row in picked), key=repr)
