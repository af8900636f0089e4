"""`remote("local[2]")`: PySpark runs the server in the client's own process, and `enable` makes that server know Delta."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

from serve import own_server_program
from serve.client_programs import ClientProcess
from serve.own_server_program import PROGRAMS

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientProcess]:
    """Not this one: PySpark has either classic or Connect sessions in one process."""
    opened = ClientProcess(
        own_server_program, "local[4]", tmp_path_factory.mktemp("own server"), SPARK_LOCAL_IP="127.0.0.1"
    )
    yield opened
    opened.close()


@pytest.mark.usefixtures("connect_port")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_client_with_its_server(process: ClientProcess, program: str) -> None:
    answer = process.run(program)
    assert answer == "ok", answer
