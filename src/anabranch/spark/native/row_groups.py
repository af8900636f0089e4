"""Puts Parquet files together by their row groups, which are copied as they are, by Parquet's own rewriter."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.protocol.data_paths import encode_path
from anabranch.spark.gateway.jvm_classes import JvmValues
from anabranch.spark.write.written_files import ManifestEntry, plain_path

_ENCRYPTION = "parquet.crypto.factory.class"
"""Hadoop's setting with which Parquet encrypts files. The rewriter does not know the keys of the columns."""


def can_be_joined(values: JvmValues) -> bool:
    """Whether the session writes files whose row groups may be copied."""
    return values.session.sessionState().newHadoopConf().get(_ENCRYPTION) is None


def joined(values: JvmValues, entries: Sequence[ManifestEntry], options: Mapping[str, str]) -> ManifestEntry:
    """One file in the place of several of one local folder, with their rows in the order of the tasks that wrote them.

    The files must have one schema, and are removed.
    """
    paths = sorted(Path(plain_path(entry.url)) for entry in entries)
    # "part-00000-", the id of the write, and ".c000.snappy.parquet" or the like.
    target = paths[0].with_name(f"part-00000-{uuid.uuid4()}.{paths[0].name.partition('.')[2]}")
    try:
        _copy_row_groups(values, paths, target, options)
    except BaseException:
        _remove([target])
        raise
    finally:
        _remove(paths)
    status = target.stat()
    return ManifestEntry(
        url=f"file://{encode_path(str(target))}",
        size_bytes=status.st_size,
        modified_ms=status.st_mtime_ns // 1_000_000,
    )


def _copy_row_groups(values: JvmValues, paths: Sequence[Path], target: Path, options: Mapping[str, str]) -> None:
    classes = values.classes
    configuration = values.session.sessionState().newHadoopConfWithOptions(values.string_map(dict(options)))
    sources = classes.ArrayList()
    for path in paths:
        sources.add(classes.Path(str(path)))
    chosen = classes.RewriteOptionsBuilder(configuration, sources, classes.Path(str(target))).build()
    rewriter = classes.ParquetRewriter(chosen)
    try:
        rewriter.processBlocks()
    finally:
        rewriter.close()


def _remove(paths: Sequence[Path]) -> None:
    """Remove files, and the checksums that Hadoop's local file system keeps beside them."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
