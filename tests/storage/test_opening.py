"""Which storage answers to which URL."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.errors.environment import StorageOptionError, UnsupportedStorageError
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.storage.object.object_store import ObjectStore
from anabranch.storage.opening.store_opening import open_store

KEY = {"fs.azure.account.key": "a2V5", "fs.gs.auth.type": "UNAUTHENTICATED"}


@pytest.mark.parametrize(
    ("url", "kind", "root"),
    [
        ("/data/t", LocalStore, "/data/t"),
        ("relative/t", LocalStore, f"{os.getcwd()}/relative/t"),
        ("~/t", LocalStore, os.path.expanduser("~/t")),
        ("file:///data/t", LocalStore, "/data/t"),
        ("memory:/opened", MemoryStore, "memory:/opened"),
        ("s3a://bucket/t/", ObjectStore, "s3a://bucket/t"),
        ("s3://bucket/a b/#?", ObjectStore, "s3://bucket/a b/#?"),
        ("S3://bucket", ObjectStore, "S3://bucket"),
        ("gs://bucket/t", ObjectStore, "gs://bucket/t"),
        ("abfss://c@a.dfs.core.windows.net/t", ObjectStore, "abfss://c@a.dfs.core.windows.net/t"),
        ("wasbs://c@a.blob.core.windows.net/t", ObjectStore, "wasbs://c@a.blob.core.windows.net/t"),
    ],
)
def test_schemes(url: str, kind: type, root: str) -> None:
    store = open_store(url, KEY)
    assert isinstance(store, kind)
    assert store.root == root


@pytest.mark.parametrize("url", ["hdfs://nn/t", "ftp://host/t", "dbfs:/t"])
def test_errors_for_unknown_schemes_list_the_known_ones(url: str) -> None:
    with pytest.raises(UnsupportedStorageError, match=r"s3a:.*abfss:.*hdfs:") as caught:
        open_store(url)
    assert isinstance(caught.value, ValueError)


def test_memory_stores_are_shared_by_name() -> None:
    open_store("memory:/shared").put("x", b"1")
    assert open_store("memory:///shared/").read("x") == b"1"
    assert open_store("memory://other").head("x") is None


@pytest.mark.parametrize("url", ["s3a://key:SECRET@bucket/t", "hdfs://user:SECRET@nn/t"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UnsupportedStorageError, match="credentials") as caught:
        open_store(url)
    assert "SECRET" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("url", ["s3a://", "s3a:///t", "s3a:/bucket/t", "s3a://user@bucket/t"])
def test_urls_without_a_bucket(url: str) -> None:
    with pytest.raises(UnsupportedStorageError, match="bucket"):
        open_store(url)


def test_options_may_carry_sparks_prefix() -> None:
    with pytest.raises(StorageOptionError, match=r"path\.style\.access"):
        open_store("s3a://bucket/t", {"spark.hadoop.fs.s3a.path.style.access": "perhaps"})


def test_paths_are_on_the_default_file_system(tmp_path: Path) -> None:
    on_s3 = {"fs.defaultFS": "s3a://bucket"}
    assert open_store("/warehouse/t", on_s3).root == "s3a://bucket/warehouse/t"
    assert open_store(f"file:{tmp_path}", on_s3).root == str(tmp_path)
    assert open_store("/t", {"fs.defaultFS": "file:///"}).root == "/t"
    with pytest.raises(UnsupportedStorageError, match="s3a://bucket"):
        open_store("relative", on_s3)
