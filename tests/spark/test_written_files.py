"""What Spark wrote, before it may be committed, on a disk that fails. Nothing here starts Spark."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.environment import WrittenFileError
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.write.written_files import ManifestEntry, completed


def request(root: Path) -> WriteRequest:
    """Nothing looks at its frame any more."""
    return WriteRequest(
        table_root=str(root),
        frame=cast("Any", None),
        schema=StructType([StructField("id", LongType())]),
        partition_columns=(),
        column_mapping=ColumnMappingMode.NONE,
        properties=TableProperties({}),
    )


def complete(root: Path, *, rows: int = 3) -> WrittenFiles:
    file = root / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), file)
    entry = ManifestEntry(url=file.as_uri(), size_bytes=file.stat().st_size, modified_ms=1)
    return completed(request(root), [entry], lambda path: pa.OSFile(str(root / path)))


def test_what_was_written_is_complete(tmp_path: Path) -> None:
    assert complete(tmp_path).num_rows == 3
    assert complete(tmp_path, rows=0).adds == ()


@pytest.mark.parametrize(("call", "rows"), [("fsync", 3), ("open", 3), ("unlink", 0)])
def test_a_disk_that_fails_while_files_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, rows: int
) -> None:
    """Covers faults F5 and F15: the error names the table and the file."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"anabranch.spark.write.written_files.os.{call}", fail)
    with pytest.raises(WrittenFileError, match="Input/output error") as raised:
        complete(tmp_path, rows=rows)
    assert raised.value.table == str(tmp_path)


def test_a_directory_that_cannot_be_made_durable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr("anabranch.spark.write.written_files.os.fsync", fail)
    with pytest.raises(WrittenFileError, match="Input/output error"):
        complete(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"no Parquet file"])
def test_a_file_without_a_footer_is_an_error(tmp_path: Path, damage: bytes) -> None:
    whole = complete(tmp_path).adds[0]
    entry = ManifestEntry(url=(tmp_path / whole.path).as_uri(), size_bytes=len(damage), modified_ms=1)
    (tmp_path / whole.path).write_bytes(damage)
    with pytest.raises(WrittenFileError, match=r"part-0\.parquet"):
        completed(request(tmp_path), [entry], lambda path: pa.OSFile(str(tmp_path / path)))
