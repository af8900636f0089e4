"""Apache Superset as its own users have it: a server process in an environment of its own, and a user who has logged in."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from anabranch.server.addresses import free_port

PROGRAMS = os.environ.get("ANABRANCH_SUPERSET")
"""The folder of `superset` and `gunicorn`; `scripts/test_bi.sh` sets it where Superset could be installed."""
READY_SECONDS = 300
COMMAND_SECONDS = 600
ANSWER_SECONDS = 300
STOPPED_SECONDS = 60
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """An answer of Superset's REST API."""

    status: int
    text: str
    document: Any

    def json(self) -> Any:
        """The document of an answer that is a success."""
        assert self.status in {200, 201}, f"{self.status}: {self.text[:4000]}"
        return self.document


class Superset:
    """A user who has logged in."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self._url = f"{url}/api/v1"
        self._session = requests.Session()
        login = {"username": name, "password": password, "provider": "db", "refresh": True}
        token = self.post("/security/login", login).json()["access_token"]
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.headers["X-CSRFToken"] = self.get("/security/csrf_token/").json()["result"]

    def get(self, path: str, **query: str) -> Answer:
        return self._answer(self._session.get(self._url + path, params=query, timeout=ANSWER_SECONDS))

    def post(self, path: str, document: Any) -> Answer:
        return self._answer(self._session.post(self._url + path, json=document, timeout=ANSWER_SECONDS))

    def _answer(self, response: requests.Response) -> Answer:
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return Answer(response.status_code, response.text, response.json() if is_json else None)


@contextlib.contextmanager
def superset_served(folder: Path, settings: str) -> Iterator[Superset]:
    """With `settings` in its file of settings, and a database of its own in `folder`."""
    assert PROGRAMS is not None
    (folder / "superset_config.py").write_text(
        f"SECRET_KEY = {secrets.token_urlsafe(42)!r}\n"
        f"SQLALCHEMY_DATABASE_URI = 'sqlite:///{folder}/superset.db?check_same_thread=false'\n{settings}"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYTHONPATH"))}
    environment |= {"SUPERSET_CONFIG_PATH": str(folder / "superset_config.py"), "SUPERSET_HOME": str(folder)}
    environment["FLASK_APP"] = "superset"
    password = secrets.token_urlsafe()
    owner = ["--username", "ann", "--firstname", "Ann", "--lastname", "Owner", "--email", "ann@example.org"]
    # `init` makes the permissions: without it no role sees a schema.
    for command in (["db", "upgrade"], ["fab", "create-admin", *owner, "--password", password], ["init"]):
        completed = subprocess.run(
            [f"{PROGRAMS}/superset", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        assert completed.returncode == 0, f"superset {command[0]}\n{completed.stdout[-2000:]}{completed.stderr[-4000:]}"
    address = f"{HOST}:{free_port(HOST)}"
    command = [f"{PROGRAMS}/gunicorn", "--workers", "1", "--threads", "4", "--timeout", "600", "--bind", address]
    log = folder / "gunicorn.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "superset.app:create_app()"], env=environment, stdout=output, stderr=output, cwd=folder
        )
    try:
        _wait_until_it_answers(f"http://{address}", process, log)
        yield Superset(f"http://{address}", "ann", password)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOPPED_SECONDS)
        process.kill()


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{url}/health", timeout=READY_SECONDS).ok:
                return
        assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.5)
