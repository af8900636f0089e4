"""The file index for a Spark without its Java compiler: the same answers, slower, since Python gives each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from anabranch.errors.base import DeltaError
from anabranch.spark.engine import FILE_ID_COLUMN
from anabranch.spark.file_listing import FileListing
from anabranch.spark.native.driver_classes import object_array
from anabranch.spark.native.jvm_values import JvmValues
from anabranch.spark.native.python_errors import remember
from anabranch.spark.native.scan_reader import ScanReader
from anabranch.spark.void_columns import quoted_name

_BLOCK_BYTES = 128 << 20


class PythonFileIndex:
    """Implements Spark's `FileIndex`. Two of them are equal only if they are one."""

    def __init__(
        self,
        spark: SparkSession,
        values: JvmValues,
        listing: FileListing,
        reader: ScanReader,
        *,
        root: str,
        description: str,
        partition_schema: StructType,
        hidden_rows_column: str | None,
    ) -> None:
        self._spark = spark
        self._values = values
        self._listing = listing
        self._reader = reader
        self._root = root
        self._description = description
        self._partition_schema = partition_schema
        self._hidden_rows_column = hidden_rows_column
        self._with_file_id = FILE_ID_COLUMN in partition_schema.names

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: N802 - a name of Spark's
        try:
            kept = self._wanted(partition_filters, data_filters)
            hidden = self._hidden_rows(kept)
        except DeltaError as error:
            remember(error)
            raise
        members = self._members(kept, set(hidden))
        rows = self._rows(members, hidden)
        directories = []
        for row, files in zip(rows, members, strict=True):
            if self._passes(row, partition_filters):
                statuses = self._values.seq(self._status(file) for file in files)
                directories.append(self._values.classes.PartitionDirectory(row, statuses))
        return self._values.seq(directories)

    def rootPaths(self) -> Any:  # noqa: N802
        return self._values.seq([self._values.classes.Path(self._root)])

    def partitionSchema(self) -> Any:  # noqa: N802
        return self._values.type(self._partition_schema)

    def inputFiles(self) -> Any:  # noqa: N802
        paths = map(self._values.classes.Path, self._listing.names.to_pylist())
        return self._values.string_array(path.toUri().toString() for path in paths)

    def refresh(self) -> None:
        return None

    def sizeInBytes(self) -> int:  # noqa: N802
        return int(self._listing.sizes.sum())

    def isTimeTravel(self) -> bool:  # noqa: N802
        return False

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        return self._values.none()

    def hashCode(self) -> int:  # noqa: N802
        return id(self) % 2**31

    def equals(self, other: Any) -> bool:
        return other is self

    def toString(self) -> str:  # noqa: N802
        return self._description

    def _wanted(self, partition_filters: Any, data_filters: Any) -> npt.NDArray[np.intp]:
        """Numbers of the files to read, as far as skipping can tell."""
        filters = [group.apply(i) for group in (partition_filters, data_filters) for i in range(group.size())]
        parts = [self._values.setting("spark.sql.session.timeZone")]
        for filter_ in filters:
            json = str(filter_.toJSON())
            parts += [json, str(filter_.sql()) if '"hset"' in json else ""]
        answer = self._reader.files_wanted("".join(f"{part}\0" for part in parts))
        everything = np.ones(self._listing.count, dtype=np.uint8)
        return np.flatnonzero(everything if answer is None else np.frombuffer(answer, dtype=np.uint8))

    def _hidden_rows(self, kept: npt.NDArray[np.intp]) -> dict[int, bytes]:
        if self._hidden_rows_column is None:
            return {}
        ids = kept[self._listing.has_vector[kept]].astype(np.int32)
        answer = self._reader.hidden_rows(ids)
        lengths = np.frombuffer(answer, dtype="<i4", count=len(ids))
        ends = 4 * len(ids) + np.cumsum(lengths)
        return {int(file): answer[end - length : end] for file, end, length in zip(ids, ends, lengths, strict=True)}

    def _members(self, kept: npt.NDArray[np.intp], alone: set[int]) -> list[list[int]]:
        """The files of each directory: those of one group, or one that has a row of its own."""
        single: list[list[int]] = []
        groups: dict[int, list[int]] = {}
        for file in kept.tolist():
            if self._with_file_id or file in alone:
                single.append([file])
            else:
                groups.setdefault(int(self._listing.group_of[file]), []).append(file)
        return single + list(groups.values())

    def _rows(self, members: list[list[int]], hidden: dict[int, bytes]) -> list[Any]:
        """One row of the JVM's for each directory."""
        if not members:
            return []
        if not self._partition_schema.fields:
            return [self._values.classes.GenericInternalRow(object_array(self._values.gateway, ()))] * len(members)
        texts = [tuple(self._cells(files[0], hidden)) for files in members]
        as_text = StructType([StructField(field.name, self._cell_type(field.name)) for field in self._partition_schema])
        typed = [F.col(quoted_name(field.name)).cast(field.dataType) for field in self._partition_schema]
        frame = self._spark.createDataFrame(texts, as_text).coalesce(1).select(*typed)
        return list(frame._jdf.queryExecution().executedPlan().executeCollect())

    def _cell_type(self, name: str) -> DataType:
        return BinaryType() if name == self._hidden_rows_column else StringType()

    def _cells(self, file: int, hidden: dict[int, bytes]) -> list[Any]:
        cells: list[Any] = [column[int(self._listing.group_of[file])].as_py() for column in self._listing.groups]
        if self._with_file_id:
            cells.append(str(file))
        if self._hidden_rows_column is not None:
            cells.append(hidden.get(file))
        return cells

    def _passes(self, row: Any, partition_filters: Any) -> bool:
        """Whether the row passes all filters of partition columns, which Spark will not look at again."""
        return all(self._passes_one(row, partition_filters.apply(i)) for i in range(partition_filters.size()))

    def _passes_one(self, row: Any, expression: Any) -> bool:
        classes = self._values.classes
        # The filter's attributes are new in every plan: they stand for ours of the same name.
        named = {attribute.name(): attribute for attribute in _items(expression.references().toSeq())}
        own = _items(classes.DataTypeUtils.toAttributes(self._values.type(self._partition_schema)))
        inputs = self._values.seq(named.get(attribute.name(), attribute) for attribute in own)
        bound = classes.BindReferences.bindReference(expression, classes.AttributeSeq(inputs), False)
        predicate = classes.InterpretedPredicate(bound)
        predicate.initialize(0)
        return bool(predicate.eval(row))

    def _status(self, file: int) -> Any:
        listing, classes = self._listing, self._values.classes
        path = classes.Path(listing.names[file].as_py())
        size, time_ms = int(listing.sizes[file]), int(listing.times_ms[file])
        status = classes.FileStatus(size, False, 1, _BLOCK_BYTES, time_ms, path)
        return classes.FileStatusWithMetadata(status, self._values.string_map({}))

    class Java:
        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


def _items(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]
