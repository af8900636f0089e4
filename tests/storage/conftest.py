"""The storages under test, and a service that speaks S3."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.server import ThreadedMotoServer
from werkzeug.serving import make_server

from anabranch.storage.log_store import LogStore

BUCKET = "tables"
SECRET_KEY = "moto-secret-that-must-not-show"
SETTINGS = {"fs.s3a.access.key": "moto-access", "fs.s3a.secret.key": SECRET_KEY, "fs.s3a.endpoint.region": "us-east-1"}


@pytest.fixture(autouse=True)
def _no_cloud_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A real HTTP server with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    make_bucket(endpoint)
    yield endpoint
    server.stop()


def make_bucket(endpoint: str) -> None:
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)


class FaultyS3:
    """moto behind a front that misbehaves as told.

    `before` may change the request or answer it by itself with a status; `after` may replace the
    answer once moto has done its work.
    """

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[dict[str, Any]], str | None] = lambda environ: None
        self.after: Callable[[dict[str, Any]], str | None] = lambda environ: None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        status = self.before(environ)
        if status is None:
            answer = self._moto(environ, start_response)
            status = self.after(environ)
            if status is None:
                return answer
            list(answer)
        body = b"<?xml version='1.0'?><Error><Code>Planned</Code><Message>as planned</Message></Error>"
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    @property
    def puts(self) -> list[str]:
        return [path for method, path in self.requests if method == "PUT"]


@pytest.fixture
def faulty_s3() -> Iterator[tuple[FaultyS3, str]]:
    """The front and its endpoint."""
    front = FaultyS3()
    server = make_server("127.0.0.1", 0, front, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    make_bucket(endpoint)
    front.requests.clear()
    yield front, endpoint
    server.shutdown()
    thread.join()


def s3_store(endpoint: str, path: str | None = None, **settings: str) -> LogStore:
    from anabranch.storage.opening import open_store

    path = path or f"t-{secrets.token_hex(6)}"
    return open_store(f"s3a://{BUCKET}/{path}", {**SETTINGS, "fs.s3a.endpoint": endpoint, **settings})


@pytest.fixture(
    params=["memory", "local", "s3", pytest.param("hadoop", marks=pytest.mark.spark)],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    """Each storage in turn, over an empty root."""
    from anabranch.storage.local import LocalStore
    from anabranch.storage.memory import MemoryStore

    match request.param:
        case "memory":
            return MemoryStore()
        case "local":
            return LocalStore(str(tmp_path / "table"))
        case "s3":
            return s3_store(request.getfixturevalue("s3_endpoint"))
        case _:
            return hadoop_store(request.getfixturevalue("spark"), tmp_path / "table")


def hadoop_store(spark: Any, root: Path) -> LogStore:
    """A Hadoop store over the local disk.

    Its rename is not atomic there; the tests that need it to be run on the other storages.
    """
    from anabranch.storage.hadoop import HadoopStore

    return HadoopStore(f"file://{root}", hadoop_session(spark), atomic_rename_schemes={"file"})


def hadoop_session(spark: Any) -> Any:
    from anabranch.storage.hadoop import HadoopSession

    context = spark.sparkContext
    return HadoopSession(gateway=context._gateway, configuration=context._jsc.hadoopConfiguration())
