"""A scan by Python workers, for the few files that Spark's public reader cannot open."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from anabranch.schema.column_mapping import physical_name
from anabranch.schema.paths import as_nullable
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, ScanRequest
from anabranch.spark.portable.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.spark.portable.file_table import bare, column, table_column
from anabranch.spark.rows.file_listing import FileListing

_FILE_NUMBER = "file_number"


def python_frame(
    spark: SparkSession,
    request: ScanRequest,
    listing: FileListing,
    file_ids: npt.NDArray[np.int64],
    vectors: Mapping[int, BitMap64],
    *,
    time_zone: str,
    data_files: DataFiles,
) -> DataFrame:
    """Live rows of those files, with positions where the request wants them."""
    columns = [physical_name(request.schema[name], request.column_mapping) for name in request.partition_columns]
    names = listing.names.take(pa.array(file_ids)).to_pylist()
    files = {
        int(number): DataFile(
            name=name,
            partition_values={
                physical: listing.groups[i][int(listing.group_of[number])].as_py() for i, physical in enumerate(columns)
            },
        )
        for number, name in zip(file_ids, names, strict=True)
    }
    read = _ReadFiles(
        reader=RowReader(
            data_files=data_files,
            schema=as_nullable(request.schema),
            partition_columns=request.partition_columns,
            column_mapping=request.column_mapping,
            time_zone=time_zone,
        ),
        files=files,
        hidden={number: vector.serialize() for number, vector in vectors.items()},
        with_positions=request.with_positions,
        vectors_show=request.vectors_show,
    )
    numbers = spark.createDataFrame(pa.table({_FILE_NUMBER: pa.array(sorted(files), pa.int32())}))
    rows = _with_positions(request) if request.with_positions else request.schema
    spread = numbers.repartition(len(files), _FILE_NUMBER)
    # By position, since a name may hold what `mapInArrow` takes for something else.
    frame = spread.mapInArrow(read, bare(rows)).toDF(*(f"c{i}" for i in range(len(rows))))
    return frame.select(*(table_column(field, column(f"c{i}"), None) for i, field in enumerate(rows.fields)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ReadFiles:
    """What a Python worker runs."""

    reader: RowReader
    files: Mapping[int, DataFile]
    hidden: Mapping[int, bytes]
    """Vectors by number of the file, as roaring bitmaps."""
    with_positions: bool
    vectors_show: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(number)

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        packed = self.hidden.get(number)
        hidden = None if packed is None else BitMap64.deserialize(packed)
        for rows, positions in self.reader.read(self.files[number], hidden, shown=self.vectors_show):
            if not self.with_positions:
                yield rows
                continue
            numbers = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*rows.columns, numbers, positions], names=[*rows.schema.names, FILE_ID_COLUMN, ROW_INDEX_COLUMN]
            )


def _with_positions(request: ScanRequest) -> StructType:
    extra = [StructField(FILE_ID_COLUMN, IntegerType()), StructField(ROW_INDEX_COLUMN, LongType())]
    return StructType([*request.schema.fields, *extra])
