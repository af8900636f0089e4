"""moto's S3 behind a front at which each request may fail."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import io
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import obstore.store
from moto.core.utils import utcnow
from moto.s3.models import s3_backends

from anabranch.storage.log_store import LogStore
from anabranch.storage.object.object_options import ObjectStoreOptions
from anabranch.storage.object.object_store import ObjectStore
from calls.faults import CallCounter, Fault
from calls.tables import FirstState
from processes.s3_server import OneRequestAtATime
from storage.services import BUCKET, s3_store

WRITES = frozenset({"PUT", "DELETE", "POST"})
ALL = frozenset({*WRITES, "GET", "HEAD", "LIST"})
TIMEOUT_SECONDS = 0.5
"""So long a client waits for a reply where none comes in time, and else longer: this machine may be busy."""
FAULTS = (
    Fault(name="the process is killed", calls=ALL, kills=True, stays=True, error="drop"),
    Fault(name="the process is killed after it", calls=WRITES, kills=True, stays=True, error="drop", has_effect=True),
    Fault(name="the connection is closed", calls=ALL, error="drop"),
    Fault(name="no connection from then on", calls=ALL, error="drop", stays=True),
    Fault(name="the reply is lost", calls=WRITES, error="drop", has_effect=True),
    Fault(name="the reply is lost, and all later requests", calls=WRITES, error="drop", has_effect=True, stays=True),
    Fault(name="500", calls=ALL, error="500 Internal Server Error"),
    Fault(name="500 after the effect", calls=WRITES, error="500 Internal Server Error", has_effect=True),
    Fault(name="503 from then on", calls=ALL, error="503 Slow Down", stays=True),
    Fault(name="403 from then on", calls=ALL, error="403 Forbidden", stays=True),
    Fault(name="no reply in time", calls=ALL, error="wait"),
    Fault(name="the request takes effect after the operation", calls=frozenset({"PUT", "DELETE"}), error="late"),
    Fault(name="half of the reply", calls=frozenset({"GET", "LIST"}), error="cut"),
    Fault(name="half of the reply, as if it were all", calls=frozenset({"GET"}), error="half"),
    Fault(name="acknowledged and not done", calls=WRITES, lies=True, error="200 OK"),
)


class FailingServer(CallCounter):
    """moto behind a front that counts the requests of an operation, and lets one of them fail."""

    def __init__(self) -> None:
        self._moto = OneRequestAtATime()
        self._lock = threading.Lock()
        self._late: list[dict[str, Any]] = []
        self.begin(-1, None)

    def begin(self, number: int, fault: Fault | None) -> None:
        """The next operation fails at the request with this number."""
        self.names: list[str] = []
        self._number, self._fault, self._has_failed = number, fault, False

    @property
    def keeps_waiting(self) -> bool:
        """Whether a request of the operation gets no reply in time."""
        return self._fault is not None and self._fault.error == "wait"

    def settle(self) -> None:
        """The requests that are late take effect."""
        late, self._late = self._late, []
        for environ in late:
            self._moto(environ, lambda *_: None)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if not self.is_active:
            return self._moto(environ, start_response)
        name = environ["REQUEST_METHOD"]
        if name == "GET" and "list-type" in environ["QUERY_STRING"]:
            name = "LIST"
        with self._lock:
            number, fault = len(self.names), self._fault
            self.names.append(name)
            fails = fault is not None and self._fails(number, name, fault)
            is_first, self._has_failed = not self._has_failed, self._has_failed or fails
        if fault is None or not fails:
            return self._moto(environ, start_response)
        return self._failed(fault, environ, start_response, has_effect=fault.has_effect and is_first)

    def _fails(self, number: int, name: str, fault: Fault) -> bool:
        # A client that has been killed sends nothing any more.
        return number == self._number or (self._has_failed and fault.stays)

    def _failed(self, fault: Fault, environ: dict[str, Any], start_response: Any, *, has_effect: bool) -> list[bytes]:
        if has_effect:
            self._moto(environ, lambda *_: None)
        if fault.error in ("drop", "late"):
            if fault.error == "late":
                body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                self._late.append({**environ, "wsgi.input": io.BytesIO(body)})
            return _closed(environ, start_response)
        if fault.error == "wait":
            time.sleep(2 * TIMEOUT_SECONDS)
            return _closed(environ, start_response)
        if fault.error in ("cut", "half"):
            return self._half(environ, start_response, says_all=fault.error == "half")
        if fault.lies:
            return _lie(environ, start_response)
        body = b"<?xml version='1.0'?><Error><Code>Planned</Code><Message>as planned</Message></Error>"
        start_response(fault.error, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def _half(self, environ: dict[str, Any], start_response: Any, *, says_all: bool) -> list[bytes]:
        replies: list[Any] = []
        data = b"".join(self._moto(environ, lambda *reply: replies.append(reply)))
        status, headers = replies[0][:2]
        half = data[: len(data) // 2]
        if says_all:
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            headers.append(("Content-Length", str(len(half))))
        start_response(status, headers)
        return [half]


def _closed(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    with contextlib.suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]


def _lie(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    body = b""
    headers = [("ETag", '"0"')]
    if environ["REQUEST_METHOD"] == "POST":
        body = b"<?xml version='1.0'?><DeleteResult></DeleteResult>"
    start_response("200 OK", [*headers, ("Content-Length", str(len(body)))])
    return [body]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImpatientOptions(ObjectStoreOptions):
    """A client that tries twice, at once."""

    timeout_seconds: float

    def connect(self, *, retries_max: int | None = None) -> obstore.store.ObjectStore:
        quick = datetime.timedelta(milliseconds=1)
        original = obstore.store.S3Store

        def connected(bucket: str, **options: Any) -> Any:
            backoff = {"init_backoff": quick, "max_backoff": quick, "base": 2}
            retry = {"max_retries": 1 if retries_max is None else retries_max, "backoff": backoff}
            client = {**options["client_options"], "timeout": f"{self.timeout_seconds}s"}
            return original(bucket, **{**options, "retry_config": retry, "client_options": client})

        with mock.patch.object(obstore.store, "S3Store", connected):
            return super().connect(retries_max=retries_max)


class S3Server:
    """Prefixes of one bucket, one for each run."""

    faults = FAULTS

    def __init__(self, server: FailingServer, endpoint: str) -> None:
        self.calls = server
        self._endpoint = endpoint
        self._runs = 0
        self.root = ""

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        yield

    def fill(self, first: FirstState) -> None:
        bucket = self._bucket()
        for name in [name for name in list(bucket.keys) if name.startswith(f"{self.root}/")]:
            del bucket.keys[name]
        self._runs += 1
        self.root = f"table {self._runs}"
        for path, (data, modified_ms) in first.files.items():
            s3_backends["123456789012"]["aws"].put_object(BUCKET, f"{self.root}/{path}", data)
            key = bucket.keys[f"{self.root}/{path}"]
            key.last_modified = datetime.datetime.fromtimestamp(modified_ms // 1000, tz=utcnow().tzinfo)

    def store(self) -> LogStore:
        ordered: Any = self.store_of_others()
        fields = {f.name: getattr(ordered._options, f.name) for f in dataclasses.fields(ordered._options)}
        timeout_seconds = TIMEOUT_SECONDS if self.calls.keeps_waiting else 60
        options = ImpatientOptions(timeout_seconds=timeout_seconds, **fields)
        return ObjectStore(ordered.root, prefix=ordered._prefix, options=options)

    def store_of_others(self) -> LogStore:
        """The store as users have it."""
        return s3_store(self._endpoint, self.root)

    def contents(self) -> dict[str, bytes]:
        keys, prefix = self._bucket().keys, f"{self.root}/"
        in_table = {name: key for name, key in keys.items() if name.startswith(prefix)}
        return {
            name[len(prefix) :]: key.value
            for name, key in in_table.items()
            if not name.rpartition("/")[2].startswith(".anabranch-")
        }

    def settle(self) -> None:
        self.calls.settle()

    def _bucket(self) -> Any:
        return s3_backends["123456789012"]["aws"].buckets[BUCKET]
