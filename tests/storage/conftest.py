"""The storages under test."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from anabranch.storage.external_files import ExternalFileStore
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore
from processes.s3_server import OneRequestAtATime
from storage.services import (
    AZURE,
    HDFS,
    FaultyS3,
    azure_store,
    hadoop_store,
    hdfs_store,
    make_bucket,
    s3_store,
    use_azurite,
)

STARTED = [("azure", AZURE, ()), ("hdfs", HDFS, pytest.mark.spark)]


@pytest.fixture(autouse=True)
def _no_cloud_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A real HTTP server with one bucket."""
    with serving(OneRequestAtATime()) as endpoint:
        yield endpoint


@pytest.fixture
def faulty_s3() -> Iterator[tuple[FaultyS3, str]]:
    """The front and its endpoint."""
    front = FaultyS3()
    with serving(front) as endpoint:
        front.requests.clear()
        yield front, endpoint


@contextmanager
def serving(service: Callable[..., Any]) -> Iterator[str]:
    """The endpoint of a server with one bucket, in a thread of this process."""
    server = make_server("127.0.0.1", 0, service, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    make_bucket(endpoint)
    yield endpoint
    server.shutdown()
    thread.join()


@pytest.fixture(
    params=[
        *["memory", "local", "s3", "reaching", pytest.param("hadoop", marks=pytest.mark.spark)],
        *[pytest.param(name, marks=marks) for name, variable, marks in STARTED if variable in os.environ],
    ],
)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogStore:
    """Each storage in turn, over an empty root."""
    match request.param:
        case "memory":
            return MemoryStore()
        case "local":
            return LocalStore(str(tmp_path / "table"))
        case "reaching":
            return ExternalFileStore(
                LocalStore(str(tmp_path / "table")), allowed_prefixes=lambda: ("/else",), open_prefix=LocalStore
            )
        case "s3":
            return s3_store(request.getfixturevalue("s3_endpoint"))
        case "azure":
            use_azurite(monkeypatch)
            return azure_store()
        case "hdfs":
            return hdfs_store(request.getfixturevalue("spark"))
        case _:
            return hadoop_store(request.getfixturevalue("spark"), tmp_path / "table")
