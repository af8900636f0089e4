"""delta-spark's own client of Spark Connect and a server of ours: what each of its messages does, and how it is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

from interop import delta_client_program
from interop.delta_client_program import PROGRAMS
from serve.client_programs import ClientProcess
from serve.served import served

DELTA_PACKAGE = "ANABRANCH_DELTA_PACKAGE"
"""Where Python finds delta-spark's package `delta`; `scripts/test_jar.sh` sets it."""

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(DELTA_PACKAGE not in os.environ, reason="needs delta-spark's package: run `make test-jar`"),
]


@pytest.fixture(scope="module")
def delta_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientProcess]:
    with served(tmp_path_factory.mktemp("served") / "warehouse") as server:
        opened = ClientProcess(
            delta_client_program, server.connect_url, tmp_path_factory.mktemp("client"), os.environ[DELTA_PACKAGE]
        )
        yield opened
        opened.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_delta_sparks_client(delta_client: ClientProcess, name: str) -> None:
    answer = delta_client.run(name)
    assert answer == "ok", answer
