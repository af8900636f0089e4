"""Clients of Spark Connect servers that do not know Delta get one error, which says what the server lacks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.auto.enabled_sessions import enable_once
from anabranch.errors.environment import ServerWithoutDeltaError
from anabranch.tables import DeltaTable
from new_processes import outside_this_session

pytest.importorskip("grpc")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).parent / "plain_server_program.py"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    server = subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=outside_this_session(),
        cwd=tmp_path_factory.mktemp("plain server"),
    )
    assert server.stdout is not None
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{int(server.stdout.readline())}").create()
    yield session
    session.stop()
    server.communicate(timeout=60)


@pytest.mark.parametrize(
    "call",
    [
        anabranch.enable,
        lambda client: DeltaTable.forPath(client, "/t"),
        lambda client: DeltaTable.forName(client, "t"),
        lambda client: DeltaTable.isDeltaTable(client, "/t"),
        lambda client: DeltaTable.create(client),
        lambda client: DeltaTable.convertToDelta(client, "parquet.`/t`"),
    ],
)
def test_one_error_names_what_is_missing_and_two_ways_out(client: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises(ServerWithoutDeltaError) as raised:
        call(client)
    text = str(raised.value)
    assert raised.value.getCondition() == "ANABRANCH_SERVER_WITHOUT_DELTA"
    assert "delta.DeltaCatalog in spark.sql.catalog.spark_catalog" in text
    assert "anabranch serve" in text
    assert "anabranch.session()" in text


def test_the_session_stays_as_it_was(client: Any) -> None:
    anabranch.disable(client)
    with pytest.raises(ServerWithoutDeltaError):
        anabranch.enable(client)
    assert client.range(3).count() == 3
    assert client.conf.get("spark.sql.catalog.spark_catalog", "builtin") == "builtin"


def test_programs_that_are_enabled_as_a_whole_go_on(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Programs may not need Delta tables in this session."""
    enable_once(client)
    enable_once(client)
    (warning,) = [record for record in caplog.records if record.name == "anabranch.auto"]
    assert "anabranch serve" in warning.getMessage()
    assert client.range(3).count() == 3
