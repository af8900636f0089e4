"""A service that speaks S3, as a process of its own; prints its address.

Of its own, because a reader that holds Python's lock while it waits would wait for itself.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class OneRequestAtATime:
    """moto looks for the key and writes it in two steps; S3 does both in one."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with self._lock:
            return list(self._moto(environ, start_response))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, OneRequestAtATime(), threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
