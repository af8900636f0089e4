"""Where the storages under test come from, and a service that speaks S3."""

from __future__ import annotations

import base64
import email.utils
import hmac
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import boto3
import pytest

from anabranch.storage.hadoop.hadoop_store import HadoopSession, HadoopStore
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_store
from processes.s3_server import OneRequestAtATime

BUCKET = "tables"
SECRET_KEY = "moto-secret-that-must-not-show"
SETTINGS = {"fs.s3a.access.key": "moto-access", "fs.s3a.secret.key": SECRET_KEY, "fs.s3a.endpoint.region": "us-east-1"}
HDFS, AZURE = "ANABRANCH_TEST_HDFS", "ANABRANCH_TEST_AZURE"
"""Addresses of services that `make test-services` has started; of Azure with the account in the path."""
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of the one account that Azurite has; its documentation names both."""
AZURE_SETTINGS = {"fs.azure.account.key": AZURE_KEY}


def make_bucket(endpoint: str) -> None:
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)


def make_container(endpoint: str) -> None:
    """The container of Azurite, unless it exists."""
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    lines = ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{version}"]
    text = "\n".join([*lines, f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}", "restype:container"])
    signature = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")).decode()
    headers = {"x-ms-date": date, "x-ms-version": version, "Content-Length": "0"}
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{signature}"
    request = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container", method="PUT", headers=headers)
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:
            raise


class FaultyS3:
    """moto behind a front that misbehaves as a test requires.

    `before` may change the request or answer it by itself with a status; `after` may replace the
    answer once moto has done its work.
    """

    def __init__(self) -> None:
        self._moto = OneRequestAtATime()
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


def s3_store(endpoint: str, path: str | None = None, **settings: str) -> LogStore:
    path = path or f"t-{secrets.token_hex(6)}"
    return open_store(f"s3a://{BUCKET}/{path}", {**SETTINGS, "fs.s3a.endpoint": endpoint, **settings})


def use_azurite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let addresses of Azure without an account mean the emulator."""
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", os.environ[AZURE])
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT)
    make_container(os.environ[AZURE])


def azure_store(path: str | None = None) -> LogStore:
    """A folder of the container; `use_azurite` has set the account and the endpoint."""
    return open_store(f"az://{BUCKET}/{path or f't-{secrets.token_hex(6)}'}", AZURE_SETTINGS)


def hdfs_store(spark: Any, url: str | None = None) -> LogStore:
    return open_store(url or f"{os.environ[HDFS]}/t-{secrets.token_hex(6)}", hadoop=hadoop_session(spark))


def hadoop_store(spark: Any, root: Path) -> LogStore:
    """A Hadoop store over the local disk.

    Its rename is not atomic there; the tests that need it to be run on the other storages.
    """
    return HadoopStore(f"file://{root}", hadoop_session(spark), atomic_rename_schemes={"file"})


def hadoop_session(spark: Any) -> HadoopSession:
    context = spark.sparkContext
    return HadoopSession(gateway=context._gateway, configuration=context._jsc.hadoopConfiguration())
