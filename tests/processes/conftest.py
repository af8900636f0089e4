"""Fixtures of tests with processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.services import make_bucket


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a service that speaks S3, in a process of its own."""
    program = Path(__file__).with_name("s3_server.py")
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        make_bucket(endpoint)
        yield endpoint
        server.terminate()
