"""`anabranch.tables.DeltaTable` in a client: its methods run on the server, and its errors have the same classes as there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

from serve import served_tables_program
from serve.client_programs import ClientProcess
from serve.served import served
from serve.served_tables_program import PROGRAMS

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def tables_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientProcess]:
    with served(tmp_path_factory.mktemp("served") / "warehouse") as server:
        opened = ClientProcess(served_tables_program, server.connect_url, tmp_path_factory.mktemp("client"))
        yield opened
        opened.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_tables_of_the_server(tables_client: ClientProcess, name: str) -> None:
    answer = tables_client.run(name)
    assert answer == "ok", answer
