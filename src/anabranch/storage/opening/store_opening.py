"""Opening the storage at a URL."""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from anabranch.errors.environment import UnsupportedStorageError
from anabranch.storage.external_files import (
    PREFIX_SETTING,
    ExternalFileStore,
    parse_allowed_prefixes,
)
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore

if TYPE_CHECKING:
    from anabranch.storage.hadoop.hadoop_store import HadoopSession
    from anabranch.storage.object.object_options import ObjectStoreOptions

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
GCS_SCHEMES = frozenset({"gs", "gcs"})
AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs", "az", "azure"})
ATOMIC_RENAME_OPTION = "anabranch.hadoop.atomicRenameSchemes"

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_SPARK_PREFIX = "spark.hadoop."

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def open_store(url: str, options: Mapping[str, str] = _NO_OPTIONS, *, hadoop: HadoopSession | None = None) -> LogStore:
    """The storage at `url`, which is a path, or a URL as in Spark.

    `options` are Hadoop's properties by name, with or without `spark.hadoop.`; they take precedence
    over the session's. A path without a scheme is on `fs.defaultFS`, or on this machine where that is
    not set; `~` is the home directory. `memory:/name` is one store for the whole process. Nothing is
    read or written. Raises `UnsupportedStorageError`, `StorageOptionError`.
    """
    settings = _Settings(options, hadoop)
    url = _with_default_file_system(url, settings)
    scheme = scheme_of(url)
    _refuse_credentials(url, scheme)
    if scheme in {"", "file"}:
        return LocalStore(url)
    if scheme == "memory":
        return _memory_store(url)
    if scheme in S3_SCHEMES | GCS_SCHEMES | AZURE_SCHEMES:
        return _object_store(url, scheme, settings)
    if hadoop is not None:
        return _hadoop_store(url, settings, hadoop)
    raise UnsupportedStorageError(
        url=url,
        reason=f"the scheme '{scheme}:' needs a Spark session",
        way_out=(
            f"Supported are local paths, file:, memory:, and {', '.join(_named_schemes())}; with a classic "
            "Spark session also hdfs: and all other file systems of its Hadoop"
        ),
    )


def open_with_external_files(url: str, options: Mapping[str, str]) -> LogStore:
    """The storage at `url` without a session, with the prefixes that `options` has in `PREFIX_SETTING`."""
    own, prefixes = open_store(url, options), parse_allowed_prefixes(options.get(PREFIX_SETTING))
    if not prefixes:
        return own
    return ExternalFileStore(
        own, allowed_prefixes=lambda: prefixes, open_prefix=lambda prefix: open_store(prefix, options)
    )


def scheme_of(url: str) -> str:
    """The scheme of `url` in lower case; empty for a path."""
    # One letter before a colon is a drive.
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", url)
    return match[1].lower() if match else ""


class _Settings:
    """Explicit options, then those of the session."""

    def __init__(self, options: Mapping[str, str], hadoop: HadoopSession | None) -> None:
        self._options = {key.removeprefix(_SPARK_PREFIX): value for key, value in options.items()}
        self._hadoop = hadoop

    def get(self, key: str, /) -> str | None:
        if key in self._options:
            return self._options[key]
        return None if self._hadoop is None else self._hadoop.get(key)


def _with_default_file_system(url: str, settings: _Settings) -> str:
    default = (settings.get("fs.defaultFS") or "file:///").rstrip("/")
    if scheme_of(url) or url.startswith("~") or scheme_of(default) == "file":
        return url
    if not url.startswith("/"):
        raise UnsupportedStorageError(
            url=url,
            reason=f"it is relative, and the default file system is {default}",
            way_out=f"Use the absolute path, {default}/…, or file:/… for this machine",
        )
    return default + url


def _memory_store(url: str) -> MemoryStore:
    # `memory:/t`, `memory://t` and `memory:///t` are the same store.
    root = "memory:" + posixpath.normpath("/" + url.partition(":")[2].lstrip("/"))
    with _memory_lock:
        return _memory_stores.setdefault(root, MemoryStore(root))


def _object_store(url: str, scheme: str, settings: _Settings) -> LogStore:
    # Imported late: users of a local disk need not wait until the client is loaded.
    from anabranch.storage.object.object_store import ObjectStore  # noqa: PLC0415

    # `urlsplit` would cut the path at a '?' or '#', which belong to it, as in Hadoop.
    authority, _, prefix = url.partition(":")[2].removeprefix("//").partition("/")
    bucket, at, host = authority.partition("@")
    if not bucket or (at and scheme not in AZURE_SCHEMES):
        raise UnsupportedStorageError(
            url=url, reason="it has no bucket", way_out=f"Write the URL as {scheme}://bucket/path/of/table"
        )
    options = _object_store_options(scheme, settings, bucket=bucket, host=host)
    return ObjectStore(url, prefix=prefix, options=options)


def _object_store_options(scheme: str, settings: _Settings, *, bucket: str, host: str) -> ObjectStoreOptions:
    from anabranch.storage.object.azure_options import azure_options  # noqa: PLC0415
    from anabranch.storage.object.gcs_options import gcs_options  # noqa: PLC0415
    from anabranch.storage.object.s3_options import s3_options  # noqa: PLC0415

    if scheme in S3_SCHEMES:
        return s3_options(settings, os.environ, bucket=bucket)
    if scheme in GCS_SCHEMES:
        return gcs_options(settings, os.environ, bucket=bucket)
    return azure_options(settings, os.environ, container=bucket, account_host=host)


def _hadoop_store(url: str, settings: _Settings, hadoop: HadoopSession) -> LogStore:
    # Imported late: PySpark for Connect comes without Py4J.
    from anabranch.storage.hadoop.hadoop_store import ATOMIC_RENAME_SCHEMES, HadoopStore  # noqa: PLC0415

    added = (settings.get(ATOMIC_RENAME_OPTION) or "").replace(",", " ").split()
    return HadoopStore(url, hadoop, atomic_rename_schemes=ATOMIC_RENAME_SCHEMES | set(added))


def _named_schemes() -> list[str]:
    return [f"{scheme}:" for scheme in (*sorted(S3_SCHEMES), "gs", *sorted(AZURE_SCHEMES))]


def _refuse_credentials(url: str, scheme: str) -> None:
    """Raises `UnsupportedStorageError` for keys in a URL, which would get into logs and histories, as in Hadoop."""
    authority = url.partition(":")[2].removeprefix("//").partition("/")[0]
    user, at, rest = authority.rpartition("@")
    if scheme not in {"", "file"} and at and ":" in user:
        raise UnsupportedStorageError(
            url=f"{scheme}://…@{rest}/…",
            reason="it has credentials",
            way_out="Put them into the session's settings (spark.hadoop.fs.…) or the environment",
        )
