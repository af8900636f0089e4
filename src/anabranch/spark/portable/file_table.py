"""What is known of each file, as frames small enough to broadcast: its number, partition values, hidden rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NullType, StructField, StructType

from anabranch.protocol.partition_values import parse_column
from anabranch.schema.column_mapping import ColumnMappingMode, to_physical
from anabranch.schema.logical_types import without_void
from anabranch.schema.merging import visible_schema
from anabranch.schema.paths import FieldPath, as_nullable, transform
from anabranch.spark.portable.spark_paths import are_simple, spelled_by_spark, tail_length, tails
from anabranch.spark.rows.file_listing import FileListing
from anabranch.spark.rows.hidden_rows import CHUNK_BITS, CHUNK_ROWS, chunk_table
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.file_schema import with_void

NAME = "__anabranch_file_name"
NUMBER = "__anabranch_file_number"
ROW_INDEX = "__anabranch_row_index"
_CHUNK = "__anabranch_chunk"
_WORDS = "__anabranch_words"
_WORD_BITS = 6


def partition_name(position: int) -> str:
    """What the value of that partition column is called beside the columns of files."""
    return f"__anabranch_partition_{position}"


def numbered(
    spark: SparkSession,
    frame: DataFrame,
    listing: FileListing,
    file_ids: npt.NDArray[np.int64],
    *,
    partition_types: Sequence[DataType],
    time_zone: str,
    table: str,
) -> DataFrame:
    """`frame`, fresh from `spark.read`, with the row's position, its file's number and its partition values.

    A row whose file is not among `file_ids` fails the query: the join must neither lose it nor invent its values.
    """
    names = listing.names.take(pa.array(file_ids))
    # A file that stands in the list several times gives its rows as often: the join makes them so.
    length = tail_length(pc.unique(names))
    if not are_simple(tails(names, length)):
        names = pa.array(spelled_by_spark(names.to_pylist(), frame.inputFiles(), table=table), pa.string())
    columns: dict[str, pa.Array] = {NAME: tails(names, length), NUMBER: pa.array(file_ids, pa.int32())}
    columns |= _partition_values(listing, file_ids, partition_types, time_zone)
    files = spark.createDataFrame(pa.table(columns))
    casts = [F.col(partition_name(i)).cast(kind).alias(partition_name(i)) for i, kind in enumerate(partition_types)]
    files = files.select(F.col(NAME), F.col(NUMBER), *casts)
    # By this method rather than by name, since the table may have a column called `_metadata`.
    facts = frame.metadataColumn("_metadata")
    name = F.substring_index(facts["file_path"], "/", -length) if length > 1 else facts["file_name"]
    rows = frame.select("*", facts["row_index"].alias(ROW_INDEX), name.alias(NAME))
    joined = rows.join(F.broadcast(files), NAME, "left")
    unknown = F.raise_error(F.concat(F.lit(f"Spark names a file of {table} in a way not foreseen: "), F.col(NAME)))
    number = F.when(F.col(NUMBER).isNull(), unknown.cast("int")).otherwise(F.col(NUMBER))
    return joined.withColumn(NUMBER, number).drop(NAME)


def without_hidden_rows(
    spark: SparkSession, frame: DataFrame, vectors: Mapping[int, BitMap64], *, shown: bool = False
) -> DataFrame:
    """`frame`, which `numbered` made, less the rows that the vectors hide, by number of their file.

    With `shown`, those rows alone.
    """
    row_index = F.col(ROW_INDEX)
    chunks = spark.createDataFrame(_packed(chunk_table(list(vectors.items()))))
    chunk = F.shiftleft(F.col(NUMBER).cast("long"), 32) + F.shiftright(row_index, CHUNK_BITS)
    within = row_index.bitwiseAND(F.lit(CHUNK_ROWS - 1))
    word = F.get(F.col(_WORDS), F.shiftright(within, _WORD_BITS).cast("int"))
    bit = F.call_function("shiftright", word, within.bitwiseAND(F.lit(63)).cast("int")).bitwiseAND(F.lit(1))
    joined = frame.withColumn(_CHUNK, chunk).join(F.broadcast(chunks), _CHUNK, "inner" if shown else "left")
    found = joined.where(bit == 1 if shown else F.col(_WORDS).isNull() | (bit == 0))
    return found.drop(_CHUNK, _WORDS)


def _packed(chunks: pa.Table) -> pa.Table:
    """File number and chunk as one long, which Spark joins faster than two columns."""
    numbers = pc.shift_left(chunks["file_id"].cast(pa.int64()), 32)
    return pa.table({_CHUNK: pc.add(numbers, chunks["chunk"].cast(pa.int64())), _WORDS: chunks["words"]})


def _partition_values(
    listing: FileListing, file_ids: npt.NDArray[np.int64], types: Sequence[DataType], time_zone: str
) -> dict[str, pa.Array]:
    groups = pa.array(listing.group_of[file_ids])
    return {
        partition_name(i): parse_column(listing.groups[i], kind, zone=time_zone).take(groups)
        for i, kind in enumerate(types)
    }


# From the columns of data files to the columns of the table, in terms of the public DataFrame API.


def read_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """What to ask Spark's Parquet reader for: physical names, everything nullable, no metadata.

    Metadata would make Spark pad `char` and fill in column defaults while it reads, which is not what files
    of a Delta table mean.
    """
    return bare(to_physical(without_void(schema), mode))


def table_column(field: StructField, source: Column, source_type: DataType | None) -> Column:
    """Column `field` of the table, made from what files hold of it; `source_type` is None for a value that fits.

    Structs are cast where their physical names differ: Spark matches fields by position then.
    """
    stored = _bare_type(field)
    inner = without_void(stored) if isinstance(stored, StructType) else stored
    value = source if source_type in (None, inner) else source.cast(inner)
    if isinstance(stored, StructType) and inner != stored:
        value = with_void(value, stored)
    return named(value, field)


def void_column(field: StructField) -> Column:
    """A column that files never hold."""
    assert isinstance(field.dataType, NullType)
    return named(F.lit(None), field)


def named(value: Column, field: StructField) -> Column:
    """`value` under the name of `field`, with the metadata that users see."""
    metadata = visible_schema(StructType([field])).fields[0].metadata
    return value.alias(field.name, metadata=metadata) if metadata else value.alias(field.name)


def column(name: str) -> Column:
    """The top-level column of that name, whatever characters it has."""
    return F.col(quote(name))


def empty_columns(schema: StructType, extra: Mapping[str, DataType]) -> list[Column]:
    """Nulls of the table's types."""
    columns = [named(F.lit(None).cast(_bare_type(field)), field) for field in schema.fields]
    return [*columns, *(F.lit(None).cast(kind).alias(name) for name, kind in extra.items())]


def bare(schema: StructType) -> StructType:
    """`schema` without metadata and with nulls allowed at every level."""

    def strip(_path: FieldPath, field: StructField) -> StructField:
        return StructField(field.name, field.dataType)

    return as_nullable(transform(schema, strip))


def _bare_type(field: StructField) -> DataType:
    return bare(StructType([field])).fields[0].dataType
