"""The server for callbacks while Python has no file descriptor left. Of sockets alone: the limit is of a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, socket, sys, threading, time
from anabranch.spark.gateway.callback_server import PatientSocket

listening = socket.create_server(("127.0.0.1", 0))
patient = PatientSocket(listening, float(sys.argv[1]))
first, second = socket.socket(), socket.socket()
before = resource.getrlimit(resource.RLIMIT_NOFILE)
first.connect(listening.getsockname())
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, before[1]))
try:
    listening.accept()
except OSError as error:
    print(error.errno)

def lift():
    if sys.argv[2] == "refused":
        first.settimeout(20)
        print("closed" if first.recv(1) == b"" else "open")
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    second.connect(listening.getsockname())
    second.sendall(b"second")
    first.sendall(b"first") if sys.argv[2] == "waits" else None

lifting = threading.Timer(0.5, lift)
lifting.start()
print(patient.accept()[0].recv(6).decode())
lifting.join()
"""


def _said(patience_s: float, outcome: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, str(patience_s), outcome]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.parametrize(
    ("patience_s", "outcome", "said"),
    [(30, "waits", ["24", "first"]), (0.1, "refused", ["24", "closed", "second"])],
)
def test_a_connection_waits_for_a_descriptor_and_never_ends_the_server(
    patience_s: float, outcome: str, said: list[str]
) -> None:
    """A connection is served once there is a descriptor; one that waits too long is closed, and the next one served."""
    assert _said(patience_s, outcome) == said
