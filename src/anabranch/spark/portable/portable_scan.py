"""A scan by Spark's own Parquet reader, through `spark.read` and joins alone.

No predicate reaches us while Spark plans, so files are skipped only by the caller (who hands over fewer of them),
by the partition values in their directories and, row group by row group, by what Parquet files say of themselves.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, NullType, StructField, StructType

from anabranch.errors.environment import DataFileMissingError
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, ScanRequest
from anabranch.spark.portable.data_file_reading import DataFiles, storage_options
from anabranch.spark.portable.file_groups import FileGroup, FileLayouts, Partitioning, groups_of
from anabranch.spark.portable.file_table import (
    NUMBER,
    ROW_INDEX,
    column,
    empty_columns,
    numbered,
    partition_name,
    read_schema,
    table_column,
    void_column,
    without_hidden_rows,
)
from anabranch.spark.portable.python_scan import python_frame
from anabranch.spark.portable.spark_paths import few_listing_tasks, spark_path
from anabranch.spark.rows.file_listing import file_root, filter_options, listing_of, naming_bad_values
from anabranch.spark.rows.hidden_rows import load_hidden

# Finding our own scans in a DataFrame.
#
# Every read of ours carries an option that says which version of which table it reads. On Spark Connect the frame
# itself is searched for it, as the client holds it; on a classic session the analysed plan.


MARK_OPTION = "anabranch.read"
_MARK = re.compile(r"anabranch: version (\d+|past) of ([^\0\n]*)\n")


def mark(version: int | None, table_root: str) -> str:
    """What a read says of itself; None is for time travel."""
    return f"anabranch: version {'past' if version is None else version} of {table_root}\n"


def versions_read(frame: DataFrame, table_root: str) -> frozenset[int]:
    """See `Engine.versions_read`. On Connect, reads behind a temporary view do not show."""
    found = (match.groups() for text in _texts(frame) for match in _MARK.finditer(text))
    return frozenset(int(version) for version, root in found if root == table_root and version != "past")


def _texts(frame: Any) -> Iterator[str]:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        plan = frame._plan.to_proto(frame._session.client)
        yield plan.SerializeToString().decode("utf-8", errors="replace")
        return
    analysed = frame._jdf.queryExecution().analyzed()
    nested = analysed.subqueriesAll()
    for part in (analysed, *(nested.apply(i) for i in range(nested.size()))):
        leaves = part.collectLeaves()
        for i in range(leaves.size()):
            yield from _options(leaves.apply(i))


def _options(leaf: Any) -> Iterator[str]:
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return
    relation = leaf.relation()
    if relation.getClass().getSimpleName() == "HadoopFsRelation":
        option = relation.options().get(MARK_OPTION)
        if option.isDefined():
            yield str(option.get())


_POSITION_TYPES: Mapping[str, DataType] = {FILE_ID_COLUMN: IntegerType(), ROW_INDEX_COLUMN: LongType()}
_READ_OPTIONS = {
    # A missing or damaged file is an error, whatever the session says: its rows are rows of the table.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
}


class PortableScan:
    """One scan while it is put together."""

    def __init__(self, spark: SparkSession, request: ScanRequest, layouts: FileLayouts) -> None:
        self._spark = spark
        self._request = request
        self._layouts = layouts
        reached = storage_options(spark, request.table_root, request.options, elsewhere=request.allowed_prefixes)
        self._data_files = DataFiles(request.table_root, reached)
        mode = request.column_mapping
        self._partition_fields = [request.schema[name] for name in request.partition_columns]
        self._partition_names = [physical_name(field, mode) for field in self._partition_fields]
        self._data_schema = StructType([f for f in request.schema.fields if f.name not in request.partition_columns])
        self._listing = listing_of(
            request.files,
            table_root=request.table_root,
            physical_partition_columns=self._partition_names,
            allowed_prefixes=request.allowed_prefixes,
        )

    def frame(self) -> DataFrame:
        """Live rows of all files."""
        schemas, layout_of = self._schemas_of_files()
        table = self._request.table_root
        with naming_bad_values(self._listing, self._partition_fields, zone=self._time_zone, table=table):
            groups = groups_of(self._listing, self._partitioning(), layout_of=layout_of)
            frames = [self._group_frame(group, schemas[group.layout]) for group in groups]
        return functools.reduce(lambda left, right: left.union(right), frames) if frames else self._empty_frame()

    def _schemas_of_files(self) -> tuple[list[StructType], npt.NDArray[np.int32]]:
        """What to ask of files for the data columns, and which of that of each file."""
        mode = self._request.column_mapping
        if mode is ColumnMappingMode.ID:
            return self._layouts.layouts_of(self._listing.names.to_pylist(), self._data_schema, self._data_files.open)
        return [read_schema(self._data_schema, mode)], np.zeros(self._listing.count, dtype=np.int32)

    def _partitioning(self) -> Partitioning:
        return Partitioning(
            table_root=self._request.table_root,
            types={
                name: field.dataType for name, field in zip(self._partition_names, self._partition_fields, strict=True)
            },
        )

    def _empty_frame(self) -> DataFrame:
        extra = _POSITION_TYPES if self._request.with_positions else {}
        return self._spark.range(0).select(*empty_columns(self._request.schema, extra))

    def _group_frame(self, group: FileGroup, data_schema: StructType) -> DataFrame:
        if not group.by_spark:
            return python_frame(
                self._spark,
                self._request,
                self._listing,
                group.file_ids,
                self._vectors(group),
                time_zone=self._time_zone(),
                data_files=self._data_files,
            )
        frame = self._parquet(group, data_schema)
        if self._request.with_positions or group.hides_rows or (self._partition_names and not group.by_directory):
            frame = self._with_file_facts(frame, group)
        return frame.select(*self._table_columns(group, data_schema))

    def _parquet(self, group: FileGroup, data_schema: StructType) -> DataFrame:
        schema, options = data_schema, {**dict(self._request.options), **_READ_OPTIONS, **filter_options(data_schema)}
        options[MARK_OPTION] = mark(self._request.version, self._request.table_root)
        if group.by_directory:
            schema = StructType([*schema.fields, *self._directory_fields()])
            options["basePath"] = file_root(self._request.table_root)
        else:
            # Directories that happen to look like `a=1` must not turn into columns.
            options["recursiveFileLookup"] = "true"
        names = dict.fromkeys(self._listing.names.take(pa.array(group.file_ids)).to_pylist())
        paths = [spark_path(name) for name in names]
        with few_listing_tasks(self._spark, len(paths)):
            try:
                frame = self._spark.read.options(**options).schema(schema).parquet(*paths)
                frame.schema  # noqa: B018 - a Connect session lists the files when it is first asked for something
            except AnalysisException as error:
                missing = self._missing_file(names, error)
                if missing is None:
                    raise
                raise missing from None
        return frame

    def _missing_file(self, names: Iterable[str], error: AnalysisException) -> DataFileMissingError | None:
        """The error for a file that Spark found not to be there; None where it says something else."""
        if error.getCondition() != "PATH_NOT_FOUND":
            return None
        message = unquote(str(error))
        name = next((name for name in names if name in message), None)
        if name is None:
            return None
        root = self._request.table_root
        file = name.removeprefix(root).lstrip("/")
        return DataFileMissingError(table=f"delta.`{root}`", file=file, version=self._request.version)

    def _directory_fields(self) -> Iterator[StructField]:
        for name, field in zip(self._partition_names, self._partition_fields, strict=True):
            yield StructField(name, field.dataType, nullable=True)

    def _with_file_facts(self, frame: DataFrame, group: FileGroup) -> DataFrame:
        joined = numbered(
            self._spark,
            frame,
            self._listing,
            group.file_ids,
            partition_types=[] if group.by_directory else [field.dataType for field in self._partition_fields],
            time_zone=self._time_zone(),
            table=self._request.table_root,
        )
        if not group.hides_rows:
            return joined
        shown = self._request.vectors_show
        return without_hidden_rows(self._spark, joined, self._vectors(group), shown=shown)

    def _vectors(self, group: FileGroup) -> dict[int, BitMap64]:
        if not group.hides_rows:
            return {}
        scan = self._request
        loaded = load_hidden(scan.files, group.file_ids, scan.load_vector, scan.load_vectors, table=scan.table_root)
        return dict(zip(group.file_ids.tolist(), loaded, strict=True))

    def _table_columns(self, group: FileGroup, data_schema: StructType) -> Iterator[Column]:
        stored = iter(data_schema.fields)
        for field in self._request.schema.fields:
            if field.name in self._request.partition_columns:
                position = self._request.partition_columns.index(field.name)
                name = self._partition_names[position] if group.by_directory else partition_name(position)
                yield table_column(field, column(name), None)
            elif isinstance(field.dataType, NullType):
                yield void_column(field)
            else:
                source = next(stored)
                yield table_column(field, column(source.name), source.dataType)
        if self._request.with_positions:
            yield column(NUMBER).alias(FILE_ID_COLUMN)
            yield column(ROW_INDEX).alias(ROW_INDEX_COLUMN)

    def _time_zone(self) -> str:
        return self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
