"""Writers of one table on Azure Storage and on HDFS: `make test-services`. Azurite and a small HDFS stand for them."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from interop.readers import read_by_delta_rs
from processes.appender import STORAGE, create, table_in
from processes.reading import append_from_threads, appends_in, run
from storage.services import (
    AZURE,
    AZURE_ACCOUNT,
    AZURE_KEY,
    AZURE_SETTINGS,
    BUCKET,
    HDFS,
    azure_store,
    hdfs_store,
    use_azurite,
)
from transactions.log_linter import lint

azure = pytest.mark.skipif(AZURE not in os.environ, reason="needs Azurite: run `make test-services`")
hdfs = pytest.mark.skipif(HDFS not in os.environ, reason="needs an HDFS: run `make test-services`")


def rows_on_azure(name: str) -> Counter[tuple[int, int]]:
    """By delta-rs."""
    options = {
        "azure_storage_account_name": AZURE_ACCOUNT,
        "azure_storage_account_key": AZURE_KEY,
        "azure_storage_endpoint": os.environ[AZURE],
        "allow_http": "true",
    }
    return appends_in(read_by_delta_rs(f"az://{BUCKET}/{name}", None, options))


@azure
def test_threads_append_on_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    use_azurite(monkeypatch)
    assert append_from_threads(lambda: azure_store("threads")) == rows_on_azure("threads")


@azure
def test_processes_append_on_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    use_azurite(monkeypatch)
    create(table_in(azure_store("processes")))
    landed = run("append", f"az://{BUCKET}/processes", "4", "10", **{STORAGE: json.dumps(AZURE_SETTINGS)})
    assert sorted(landed.values()) == list(range(1, 41))
    assert lint(azure_store("processes")) == []
    assert rows_on_azure("processes") == Counter(landed.keys())


@hdfs
@pytest.mark.spark
def test_threads_append_on_hdfs(spark: object) -> None:
    url = f"{os.environ[HDFS]}/threads"
    append_from_threads(lambda: hdfs_store(spark, url))
