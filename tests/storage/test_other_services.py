"""Conditional puts of Google and Azure, against a small fake of each service.

The fakes check requests and reply as the services document it. `make test-services` has an emulator of Azure.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from werkzeug.serving import make_server

from anabranch.errors.environment import ConditionalPutUnsupportedError, StorageError
from anabranch.storage.log_store import PutOutcome
from anabranch.storage.object.azure_options import azure_options
from anabranch.storage.object.conditional_put_probe import ConditionalPutProbe
from anabranch.storage.object.gcs_options import gcs_options
from anabranch.storage.object.object_store import ObjectStore

NAME = "_delta_log/0.json"


class Service:
    """Objects by path; a PUT that carries `condition` fails with `refusal` where one exists."""

    def __init__(self, condition: str, refusal: str) -> None:
        self.objects: dict[str, bytes] = {}
        self.honours = True
        self.knows_batches = True
        self._condition, self._refusal = condition, refusal
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        data = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers = {
            "Last-Modified": "Tue, 01 Jul 2025 00:00:00 GMT",
            "ETag": '"e"',
            "x-goog-generation": "1",
            "x-ms-version": "2023-11-03",
            "Content-Type": "multipart/mixed; boundary=x" if method == "POST" else "application/octet-stream",
        }
        with self._lock:
            status, body = self._answer(method, path, data, conditional=self._condition in environ)
        headers["Content-Length"] = str(len(body))
        start_response(status, list(headers.items()))
        return [] if method == "HEAD" else [body]

    def _answer(self, method: str, path: str, data: bytes, *, conditional: bool) -> tuple[str, bytes]:
        if method == "PUT":
            if conditional and self.honours and path in self.objects:
                return self._refusal, b""
            self.objects[path] = data
            return ("201 Created" if "BLOB" in self._condition else "200 OK"), b""
        if method == "DELETE":
            self.objects.pop(path, None)
            return "204 No Content", b""
        if method == "POST" and self.knows_batches:
            return "202 Accepted", self._delete_batch(data)
        if path not in self.objects:
            return "404 Not Found", b""
        return "200 OK", self.objects[path]

    def _delete_batch(self, data: bytes) -> bytes:
        answers = []
        for path in re.findall(r"^DELETE (\S+) HTTP", data.decode(), re.MULTILINE):
            existed = self.objects.pop(unquote(path), None) is not None
            status = "202 Accepted" if existed else "404 The specified blob does not exist."
            part_headers = f"--x\r\nContent-Type: application/http\r\nContent-ID: {len(answers)}\r\n\r\n"
            answers.append(f"{part_headers}HTTP/1.1 {status}\r\nx-ms-version: 2023-11-03\r\n\r\n")
        return "".join([*answers, "--x--\r\n"]).encode()


@pytest.fixture(params=["gcs", "azure"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, ObjectStore]]:
    gcs = request.param == "gcs"
    service = (
        Service("HTTP_X_GOOG_IF_GENERATION_MATCH", "412 Precondition Failed")
        if gcs
        else Service("HTTP_IF_NONE_MATCH", "409 The specified blob already exists.")
    )
    server = make_server("127.0.0.1", 0, service, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    if gcs:
        settings = {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": endpoint}
        options, root = gcs_options(settings, {}, bucket="b"), "gs://b/t"
    else:
        environment = {"AZURE_STORAGE_ENDPOINT": endpoint, "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
        host = "acc.dfs.core.windows.net"
        options = azure_options({}, environment, container="c", account_host=host)
        root = f"abfss://c@{host}/t"
    yield service, ObjectStore(root, prefix="t", options=options, probe=ConditionalPutProbe())
    server.shutdown()
    thread.join()


def test_a_name_can_be_made_once(service: tuple[Service, ObjectStore]) -> None:
    stand_in, store = service
    assert store.put_if_absent(NAME, b"ours") is PutOutcome.CREATED
    assert store.put_if_absent(NAME, b"theirs") is PutOutcome.EXISTS
    assert store.read(NAME) == b"ours"
    assert [path.rpartition("/")[2] for path in stand_in.objects] == ["0.json"]


def test_a_service_that_overwrites_is_detected(service: tuple[Service, ObjectStore]) -> None:
    stand_in, store = service
    stand_in.honours = False
    with pytest.raises(ConditionalPutUnsupportedError, match="overwrites nevertheless"):
        store.put_if_absent(NAME, b"ours")
    assert not any(path.endswith(NAME) for path in stand_in.objects)


def test_delete(service: tuple[Service, ObjectStore]) -> None:
    stand_in, store = service
    store.put("a b", b"x")
    store.delete("a b")
    store.delete("a b")
    assert stand_in.objects == {}


def test_a_delete_that_was_not_understood_is_an_error(service: tuple[Service, ObjectStore]) -> None:
    stand_in, store = service
    stand_in.knows_batches = False
    store.put("a", b"x")
    if store.root.startswith("gs:"):
        store.delete("a")
    else:
        with pytest.raises(StorageError, match="404"):
            store.delete("a")
