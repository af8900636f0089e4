"""The Parquet files of a folder and their footers, which are read on threads: Spark runs no job for a file."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.convert import ConflictingFileSchemasError, FileNotConvertibleError
from anabranch.errors.environment import FileMissingError
from anabranch.errors.protocol import UnknownTypeError
from anabranch.errors.schema import MalformedSchemaError
from anabranch.progress.progress_events import add_done
from anabranch.schema.logical_types import without_char_varchar
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import with_comments_only
from anabranch.schema.schema_evolution import MergeRules, merge_schemas
from anabranch.schema.serialization import check_types, parse_schema
from anabranch.spark.session.parquet_tables import spark_path
from anabranch.storage.log_store import LogStore, StoredFile

FILES_AT_ONCE = 32
COLUMN_CHUNKS_KEPT_MAX = 200_000
"""Footers are kept until statistics are read from them, up to this many column chunks; others are read again. The
footer has more than a kilobyte for each chunk."""
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"

T = TypeVar("T")
R = TypeVar("R")
SchemaKey = tuple[bytes | None, str]
"""The schema that Spark stored in a file, and the file's own: files in which both are equal have the same columns."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParquetFile:
    """A file that has a footer."""

    stored: StoredFile
    schema_key: SchemaKey
    num_rows: int
    created_by: str
    footer: pq.FileMetaData | None
    """None where it was not kept and has to be read again."""

    @property
    def path(self) -> str:
        return self.stored.path

    @property
    def folder(self) -> str:
        return self.stored.path.rpartition("/")[0]


class FooterFiles:
    """Reads the footers of files of one folder."""

    def __init__(self, store: LogStore, *, table: str, ignores_corrupt_files: bool) -> None:
        self._store = store
        self._table = table
        self._ignores_corrupt_files = ignores_corrupt_files

    def read(self, files: Sequence[StoredFile]) -> list[ParquetFile]:
        """The files with their footers, in the same order, without corrupt ones where these are to be ignored.

        Raises `FileNotConvertibleError`.
        """
        kept = 0
        kinds: dict[SchemaKey, SchemaKey] = {}
        parquet_files = []
        for stored, footer in zip(files, _on_threads(self._footer_or_none, files), strict=True):
            add_done(files=1, rows=0 if footer is None else footer.num_rows, size_bytes=stored.size_bytes)
            if footer is None:
                continue
            kept += footer.num_columns * footer.num_row_groups
            # Its first line has the address of the object in memory.
            key = (footer.metadata or {}).get(_SPARK_SCHEMA), str(footer.schema).partition("\n")[2]
            parquet_files.append(
                ParquetFile(
                    stored=stored,
                    schema_key=kinds.setdefault(key, key),
                    num_rows=footer.num_rows,
                    created_by=footer.created_by or "",
                    footer=footer if kept <= COLUMN_CHUNKS_KEPT_MAX else None,
                )
            )
        return parquet_files

    def map(self, function: Callable[[ParquetFile, pq.FileMetaData], str], files: Sequence[ParquetFile]) -> list[str]:
        """The results of `function` for every file and its footer."""
        # Threads only help where a footer has to be read.
        mapping = map if all(file.footer for file in files) else _on_threads
        return list(mapping(lambda file: function(file, file.footer or self._footer(file.stored)), files))

    def _footer_or_none(self, stored: StoredFile) -> pq.FileMetaData | None:
        try:
            return self._footer(stored)
        except FileNotConvertibleError as error:
            if error.corrupt and self._ignores_corrupt_files:
                return None
            raise

    def _footer(self, stored: StoredFile) -> pq.FileMetaData:
        try:
            with self._store.open(stored.path) as file:
                if file.size() != stored.size_bytes:
                    raise self._refused(stored, f"has {file.size()} bytes and had {stored.size_bytes} a moment ago")
                return pq.read_metadata(file)
        except FileMissingError as error:
            raise self._refused(stored, "was there when the folder was listed, and is gone") from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._refused(stored, f"is not a Parquet file ({_first_line(error)})", corrupt=True) from error
        except OSError as error:
            # Arrow raises this for an invalid footer; other errors mean that storage failed.
            corrupt = "thrift" in str(error)
            raise self._refused(stored, f"cannot be read ({_first_line(error)})", corrupt=corrupt) from error

    def _refused(self, stored: StoredFile, problem: str, *, corrupt: bool = False) -> FileNotConvertibleError:
        return FileNotConvertibleError(table=self._table, file=stored.path, problem=problem, corrupt=corrupt)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]


def _on_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterable[R]:
    """The results of `work`, in order; the first error stops it."""
    pool = concurrent.futures.ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="convert")
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)


# The columns of a folder of Parquet files. Files may have different ones.


def file_schemas(
    files: Sequence[ParquetFile], read_by_spark: Callable[[ParquetFile], StructType], *, table: str
) -> dict[SchemaKey, StructType]:
    """The columns of each kind of file, as Spark would read them. One file of each kind is read.

    `read_by_spark` is called for kinds in which Spark stored no schema. Raises the errors of
    `errors.schema`.
    """
    schemas: dict[SchemaKey, StructType] = {}
    for file in files:
        if file.schema_key not in schemas:
            schemas[file.schema_key] = _of_file(file, read_by_spark, table)
    return schemas


def merged_schema(files: Sequence[ParquetFile], schemas: Mapping[SchemaKey, StructType], *, table: str) -> StructType:
    """All columns of all files: those of the first file first. Raises `ConflictingFileSchemasError`."""
    whole = StructType([])
    seen: dict[SchemaKey, ParquetFile] = {}
    for file in files:
        if file.schema_key in seen:
            continue
        schema = schemas[file.schema_key]
        merged = merge_schemas(whole, schema, MergeRules())
        if merged.conflicts:
            raise _conflict(file, schema, seen, schemas, table)
        seen[file.schema_key] = file
        whole = merged.schema
    return whole


def read_by_spark(spark: SparkSession, path: str) -> StructType:
    """The columns that Spark reads in the Parquet file at an absolute path, by a job of one task."""
    return spark.read.parquet(spark_path(path)).schema


def _of_file(file: ParquetFile, read: Callable[[ParquetFile], StructType], table: str) -> StructType:
    spark_schema, _ = file.schema_key
    where = f"{file.path} of {table}"
    try:
        schema = read(file) if spark_schema is None else parse_schema(spark_schema.decode("utf-8", "replace"), where)
    except (MalformedSchemaError, UnknownTypeError):
        # Spark before 1.4 stored the schema in another form, which Spark still reads.
        schema = read(file)
    check_types(schema, where)
    check_duplicates(schema, where=file.path, table=table)
    return with_comments_only(without_char_varchar(schema))


def _conflict(
    file: ParquetFile,
    schema: StructType,
    seen: Mapping[SchemaKey, ParquetFile],
    schemas: Mapping[SchemaKey, StructType],
    table: str,
) -> ConflictingFileSchemasError:
    """The error for a file that conflicts with the schema merged so far: it names the first file and the column."""
    pairs = ((other, merge_schemas(schemas[key], schema, MergeRules()).conflicts) for key, other in seen.items())
    other, conflicts = next((other, conflicts) for other, conflicts in pairs if conflicts)
    column, (other_type, data_type) = next(iter(conflicts.items()))
    return ConflictingFileSchemasError(
        table=table,
        column=column,
        file=file.path,
        data_type=data_type,
        other_file=other.path,
        other_type=other_type,
    )
